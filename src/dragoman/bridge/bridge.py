"""`Bridge`: a hub, and what clients on the network may do with it. No word of HTTP or sockets is in here.

One method for everything that changes or asks something (`do`), whichever way it came in; another to follow a session.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections import OrderedDict
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final, NamedTuple

import msgspec

from dragoman.bridge import answers, messages, payload
from dragoman.bridge.asked import Control
from dragoman.bridge.caller import Caller
from dragoman.bridge.controls.agents import Agents
from dragoman.bridge.controls.table import CONTROLS
from dragoman.bridge.feeds import Feeds
from dragoman.bridge.live import live_of
from dragoman.bridge.metrics import Metrics
from dragoman.bridge.payload import Out
from dragoman.bridge.refusal import Refusal, refusal_of
from dragoman.bridge.rows import row_of
from dragoman.bridge.tokens import Tokens
from dragoman.config import Config
from dragoman.host.terminal.terminal import Terminal
from dragoman.hub.hub import Hub
from dragoman.translate.ingest.watch_consent import WatchConsent
from dragoman.translate.ingest.watcher import Watcher

logger = logging.getLogger(__name__)

# Commands whose results are kept, for clients that send them again. Those that steer a session are kept for good, by
# the journal.
REMEMBERED: Final = 4096

# Characters of a command's id. It is kept for as long as the journal.
COMMAND_ID: Final = 200


class _Known(NamedTuple):
    """A command that was given: by whom, what it said, and the doing of it."""

    token_id: str
    said: bytes
    task: asyncio.Task[Out]


class Bridge:
    """To be started before anything is asked of it."""

    def __init__(self, config: Config, tokens: Tokens, metrics: Metrics | None = None, hub: Hub | None = None) -> None:
        self.config = config
        self.tokens = tokens
        self.metrics = metrics or Metrics()
        self.hub = hub or Hub(config=config)
        self.agents = Agents(config.home)
        self._done: OrderedDict[str, _Known] = OrderedDict()
        self._tasks: set[asyncio.Task[Out]] = set()

    async def start(self) -> Bridge:
        await self.hub.start()
        self.feeds = Feeds(self.hub, self.metrics)
        await self.feeds.start()
        self.watcher = Watcher(self.hub.journal, WatchConsent(self.config))
        await self.watcher.start()
        self.metrics.sessions.ask(lambda: len(self.hub.owned_sessions))
        self.metrics.sessions_running.ask(lambda: self.feeds.listing.running)
        journal = self.hub.journal
        self.metrics.journal_queue.ask(lambda: journal.pending_writes)
        self.metrics.commit_seconds.gather(journal.commit_times)
        self.metrics.prompts_queued.ask(lambda: sum(len(held.queue) for held in self.hub.owned_sessions.values()))
        return self

    async def close(self) -> None:
        """Ends the sessions that are open here. What was said is kept."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        await self.watcher.close()
        await self.feeds.close()
        await self.hub.close()

    @property
    def running(self) -> int:
        """Sessions of ours with a run that goes on."""
        return sum(
            held.session is not None and held.session.active is not None for held in self.hub.owned_sessions.values()
        )

    # -- controls

    async def do(self, asked: Control, caller: Caller) -> Out:
        """Carries it out; what `asked.RESULTS` says it is answered with. Raises `Refusal`, and nothing else.

        Who goes away while waiting does not stop it: they may come back, and ask for the same by its `command_id`.
        """
        return await asyncio.shield(self.begin(asked, caller))

    def begin(self, asked: Control, caller: Caller) -> asyncio.Task[Out]:
        """The same, begun by the time this returns, whoever then waits for it or not."""
        scope, _ = CONTROLS[type(asked)]
        caller.require(scope, _name(asked))
        if asked.command_id is None or scope == "view":  # what changes nothing may be done as often as one likes
            return self._begin(asked, caller)
        if len(asked.command_id) > COMMAND_ID:
            raise Refusal("invalid", f"a command id may have {COMMAND_ID} characters", field="command_id")
        said = _digest(asked)
        known = self._done.get(asked.command_id)
        if known is None:
            known = self._done[asked.command_id] = _Known(caller.token_id, said, self._begin(asked, caller))
            while len(self._done) > REMEMBERED:
                self._done.popitem(last=False)
        elif (known.token_id, known.said) != (caller.token_id, said):
            raise Refusal(
                "conflict",
                f"the command id {asked.command_id!r} was used for something else",
                guidance="Choose a new one for each.",
                field="command_id",
            )
        return known.task

    def _begin(self, asked: Control, caller: Caller) -> asyncio.Task[Out]:
        task = asyncio.get_running_loop().create_task(self._carry_out(asked, caller), name=f"dragoman {_name(asked)}")
        self._tasks.add(task)
        task.add_done_callback(lambda done: self._ended(asked.command_id, done))
        return task

    async def _carry_out(self, asked: Control, caller: Caller) -> Out:
        _, handler = CONTROLS[type(asked)]
        try:
            answer: Out = await handler(self, asked, caller)
        except TimeoutError:
            raise Refusal("timeout", "it took too long, and may still be done") from None
        except Exception as problem:
            refusal = refusal_of(problem)
            if refusal.body.kind == "internal":
                logger.exception("%s failed", _name(asked))
            raise refusal from problem
        return answer

    def _ended(self, command_id: str | None, task: asyncio.Task[Out]) -> None:
        self._tasks.discard(task)
        failed = task.cancelled() or task.exception() is not None
        known = self._done.get(command_id or "")
        if failed and known is not None and known.task is task:
            del self._done[command_id or ""]  # what was not done may be tried again

    async def opened(self, session_id: str) -> answers.Opened:
        """That a session is open, and how it stands with it."""
        row = await self.hub.journal.session(session_id)
        if row is None:
            raise Refusal("not_found", f"session {session_id} was deleted meanwhile", field="session_id")
        live = live_of(row, self.hub.owned_sessions.get(session_id), elsewhere=False, waiting=0)
        return answers.Opened(session_id=session_id, live=live)

    # -- streams

    async def follow(
        self, session_id: str, *, after: str | None, frames: bool, caller: Caller
    ) -> AsyncGenerator[Out, None]:
        """The messages of the stream `session`. Raises `Refusal` where there is no such session."""
        if frames:
            caller.require("prompt", "reading frames")
            found = self.feeds.follow_frames(session_id, after)
        else:
            found = self.feeds.follow(session_id, after)
        async with aclosing(found):
            async for data in found:
                yield _read(data)
                del data  # else it would be kept while the next is waited for

    async def waiting(self, caller: Caller) -> messages.PermissionsSnapshot:
        """All that waits for a person."""
        listing = self.feeds.listing
        return messages.PermissionsSnapshot(cursor=f"w{listing.waiting_number}", waiting=tuple(listing.waiting()))

    def terminal(self, stream_id: str) -> tuple[Terminal, payload.Terminal | None]:
        """A command that runs, or ran, for an agent here: by `<session id>/<terminal id>`."""
        session_id, _, terminal_id = stream_id.partition("/")
        held = self.hub.owned_sessions.get(session_id)
        terminal = held.session.terminal(terminal_id) if held is not None and held.session is not None else None
        if terminal is None or held is None or held.session is None:
            raise Refusal("not_found", f"there is no terminal {stream_id} here", field="id")
        known = held.session.fold.terminals.by_terminal_id(terminal_id)
        row = row_of(known) if known is not None else None
        return terminal, row if isinstance(row, payload.Terminal) else None


def _name(asked: Control) -> str:
    return str(type(asked).__struct_config__.tag)


def _digest(asked: Control) -> bytes:
    """To know it again by. Not the thing itself: it may be long, and have a key in it."""
    try:
        return hashlib.sha256(msgspec.json.encode(msgspec.structs.replace(asked, id=""))).digest()
    except (RecursionError, ValueError, OverflowError) as problem:
        raise Refusal("invalid", f"this cannot be written down again: {problem}") from None


class _Kind(msgspec.Struct, frozen=True):
    type: str
    frames: msgspec.Raw | None = None


def _read(data: bytes) -> Out:
    kind = msgspec.json.decode(data, type=_Kind)
    match kind.type:
        case "snapshot":
            return msgspec.json.decode(data, type=messages.SessionSnapshot)
        case "ended":
            return msgspec.json.decode(data, type=messages.Ended)
        case _ if kind.frames is not None:
            return msgspec.json.decode(data, type=messages.FramesUpdate)
        case _:
            return msgspec.json.decode(data, type=messages.SessionUpdate)
