"""`Bridge`: a hub, and what clients on the network may do with it. It knows neither HTTP nor WebSockets.

Every request goes through `execute`, whichever way it came in; `follow` reads the stream of a session.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections import OrderedDict
from collections.abc import AsyncGenerator
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from dragoman.bridge.auth import Caller
from dragoman.bridge.broadcast import StreamMessage
from dragoman.bridge.broadcaster import Broadcaster
from dragoman.bridge.handlers import agents, checkpoints, git, history, sessions, settings, skills, workspace, worktrees
from dragoman.bridge.refusal import Refusal, refusal_of
from dragoman.bridge.services import HANDLERS, AgentList, Services
from dragoman.bridge.telemetry import Metrics
from dragoman.bridge.tokens import Tokens
from dragoman.config import Config
from dragoman.hub.hub import Hub
from dragoman.protocol import messages, models
from dragoman.protocol.requests import REQUESTS, Request, name_of
from dragoman.record.rows import Run
from dragoman.translate.ingest.watcher import WatchConsent, Watcher

logger = logging.getLogger(__name__)

HANDLER_MODULES: Final = (
    agents,
    checkpoints,
    git,
    history,
    sessions,
    settings,
    skills,
    workspace,
    worktrees,
)  # importing them registers the handlers

if HANDLERS.keys() != REQUESTS.keys():
    mismatch = sorted(request.__name__ for request in HANDLERS.keys() ^ REQUESTS.keys())
    raise AssertionError(f"requests without a handler, or handlers without a request: {mismatch}")

# Results that are remembered for clients that send their request again.
MAX_REMEMBERED_RESULTS: Final = 4096

# The journal stores the ids of commands.
MAX_COMMAND_ID_CHARS: Final = 200

ResultT = TypeVar("ResultT", bound=models.Model)


class _Execution(NamedTuple):
    """A command that was sent with a command id: by whom, a digest of its fields, and its task."""

    caller: Caller
    digest: bytes
    task: asyncio.Task[Any]


class Bridge:
    """The requests and streams of a hub. To be started before it is used."""

    def __init__(self, config: Config, tokens: Tokens, metrics: Metrics | None = None, hub: Hub | None = None) -> None:
        self.config = config
        self.tokens = tokens
        self.metrics = metrics or Metrics()
        self.hub = hub or Hub(config=config)
        self.agents = AgentList(config.home)
        self._executions: OrderedDict[str, _Execution] = OrderedDict()
        self._tasks: set[asyncio.Task[Any]] = set()

    async def start(self) -> Bridge:
        await self.hub.start()
        self.broadcaster = Broadcaster(self.hub, self.metrics)
        await self.broadcaster.start()
        self.watcher = Watcher(self.hub.journal, WatchConsent(self.config))
        await self.watcher.start()
        self.services = Services(
            config=self.config,
            hub=self.hub,
            tokens=self.tokens,
            agents=self.agents,
            broadcaster=self.broadcaster,
            watcher=self.watcher,
        )
        self._register_metrics()
        return self

    def _register_metrics(self) -> None:
        journal, owned_sessions = self.hub.journal, self.hub.owned_sessions
        self.metrics.sessions.set_function(lambda: len(owned_sessions))
        self.metrics.sessions_running.set_function(lambda: self.broadcaster.listing.running)
        self.metrics.prompts_queued.set_function(lambda: sum(len(owned.queue) for owned in owned_sessions.values()))
        self.metrics.journal_queue.set_function(lambda: journal.pending_writes)
        self.metrics.observe_commits(journal.commit_times)

    async def close(self) -> None:
        """End the sessions that are open here. The journal keeps what was recorded."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        await self.watcher.close()
        await self.broadcaster.close()
        await self.hub.close()

    @property
    def running(self) -> int:
        """The number of this process's sessions with a current run."""
        return sum(
            owned.session is not None and owned.session.active is not None for owned in self.hub.owned_sessions.values()
        )

    # -- requests

    async def execute(self, request: Request[ResultT], caller: Caller) -> ResultT:
        """Carry out a request and return its result. Raises `Refusal`, and nothing else.

        It goes on when the client disconnects, which may come back and send it again with its `command_id`.
        """
        return await asyncio.shield(self.begin(request, caller))

    def begin(self, request: Request[ResultT], caller: Caller) -> asyncio.Task[ResultT]:
        """Begin to carry out a request before this returns, whether or not the client waits for it."""
        declaration = REQUESTS[type(request)]
        caller.require(declaration.scope, declaration.name)
        command_id = request.command_id
        if command_id is not None and len(command_id) > MAX_COMMAND_ID_CHARS:
            raise Refusal("invalid", f"a command id has at most {MAX_COMMAND_ID_CHARS} characters", field="command_id")
        if command_id is None or not declaration.changes or declaration.inbox:
            return self._begin(request, caller)
        digest = _digest(request)
        execution = self._executions.get(command_id)
        if execution is None:
            task = self._begin(request, caller)
            self._executions[command_id] = _Execution(caller, digest, task)
            while len(self._executions) > MAX_REMEMBERED_RESULTS:
                self._executions.popitem(last=False)
            return task
        if (execution.caller, execution.digest) != (caller, digest):
            raise Refusal(
                "conflict",
                f"the command id {command_id!r} was used for another request",
                guidance="Choose a new id for each request.",
                field="command_id",
            )
        return execution.task

    def _begin(self, request: Request[ResultT], caller: Caller) -> asyncio.Task[ResultT]:
        task = asyncio.get_running_loop().create_task(
            self._execute(request, caller), name=f"dragoman {name_of(request)}"
        )
        self._tasks.add(task)
        task.add_done_callback(lambda done: self._on_done(request.command_id, done))
        return task

    async def _execute(self, request: Request[ResultT], caller: Caller) -> ResultT:
        try:
            result: ResultT = await HANDLERS[type(request)](self.services, request, caller)
        except TimeoutError:
            raise Refusal("timeout", "the request timed out, and may still be carried out") from None
        except Exception as error:
            refusal = refusal_of(error)
            if refusal.details.kind == "internal":
                logger.exception("%s failed", name_of(request))
            raise refusal from error
        return result

    def _on_done(self, command_id: str | None, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        failed = task.cancelled() or task.exception() is not None
        execution = self._executions.get(command_id or "")
        if failed and execution is not None and execution.task is task:
            del self._executions[command_id or ""]  # a request that failed may be tried again

    # -- streams

    def follow(
        self, session_id: str, *, after: str | None, frames: bool, caller: Caller
    ) -> AsyncGenerator[StreamMessage, None]:
        """The messages of the stream `session`, encoded. Raises `Refusal` where there is no such session."""
        if frames:
            caller.require("prompt", "reading frames")
            return self.broadcaster.follow_frames(session_id, after)
        return self.broadcaster.follow(session_id, after)

    def pending(self) -> messages.PermissionsSnapshot:
        """All pending permissions and questions."""
        listing = self.broadcaster.listing
        return messages.PermissionsSnapshot(cursor=f"w{listing.pending_number}", pending=tuple(listing.pending()))

    async def recorded_run(self, session_id: str, run_id: str) -> Run | None:
        """A run's row, if it was recorded already."""
        summaries = await self.hub.journal.summaries([session_id])
        return next((run for run in summaries[session_id].runs if run.id == run_id), None)

    async def run_text(self, session_id: str, run_id: str) -> tuple[Run | None, str]:
        """A run's row, if it was recorded already, and the text of all the agent's messages in it."""
        rows = await self.hub.journal.rows(session_id)
        run = next((run for run in rows.runs if run.id == run_id), None)
        texts = [row.text for row in rows.messages if row.run_id == run_id and row.kind == "assistant" and row.text]
        return run, "\n\n".join(texts)


def _digest(request: Request[Any]) -> bytes:
    """A digest to recognise a request by. Not the request itself: it may be long, and contain a key."""
    try:
        return hashlib.sha256(msgspec.json.encode(msgspec.structs.replace(request, id=""))).digest()
    except (RecursionError, ValueError, OverflowError) as error:
        raise Refusal("invalid", f"this request cannot be encoded: {error}") from None
