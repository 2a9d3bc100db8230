"""`BackendSession`: one session with one agent, in unified messages. A view over a `Session`.

Promised: every frame of the agent's becomes a message, in wire order, none is lost; with a journal it is committed
before the front end sees it. Every user_message that is accepted gets one result, with its id in `in_reply_to`; any
other message that cannot be carried out gets an error, the same way. When the agent is lost, its unfinished prompts get
their results, an error says why, and the messages end.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from types import TracebackType
from typing import Any, Literal

import msgspec

from dragoman.backend.messages import (
    AnswerPermission,
    ChangeSetting,
    Fields,
    Interrupt,
    SendPrompt,
    UnifiedMessage,
    choose_answer,
    parse_actions,
)
from dragoman.backend.stream import MessageStream
from dragoman.backend.view import (
    MessageView,
    error_metadata,
    permission_metadata,
    result_metadata,
    with_metadata,
)
from dragoman.errors import DragomanError, InputError, SessionBusy, SessionClosed, SilentFailure
from dragoman.host.permission import PermissionAnswer, answer_later
from dragoman.host.policy.rulebook import RuleSources
from dragoman.record import facts, rows
from dragoman.record.events import event_from_fact
from dragoman.record.fold import Direction
from dragoman.session.diagnostics import Diagnostic
from dragoman.session.handle import SessionHandle
from dragoman.session.journal_client import JournalClient
from dragoman.session.lifecycle import CloseOnce
from dragoman.session.options import SessionConfig
from dragoman.session.ports import SessionStatus
from dragoman.session.run import Run
from dragoman.session.run_queue import PromptQueue
from dragoman.session.runtime import AgentRuntime
from dragoman.session.session import Session
from dragoman.session.spec import AgentSpec, Launch, Limits
from dragoman.wire.connection import copy_error
from dragoman.wire.messages import Message

# Prompts without a result, and messages that wait to be carried out. A person has one or two.
MAX_PENDING_MESSAGES = 64

_NOT_SENT = "interrupted before it was sent to the agent"


class _QueuedMessage(msgspec.Struct, frozen=True):
    """A prompt or a change of a setting that waits for those before it."""

    key: str
    message_id: str
    action: SendPrompt | ChangeSetting


class BackendSession:
    """Made by `BackendAdapter.connect`. Close it, or use it with `async with`: its agent's process ends with it."""

    def __init__(
        self,
        spec: AgentSpec,
        config: SessionConfig,
        *,
        limits: Limits,
        line_limit: int,
        sources: RuleSources,
        launch: Launch,
        journal_client: JournalClient | None = None,
        on_diagnostic: Callable[[Diagnostic], None] | None = None,
    ) -> None:
        self._config = msgspec.structs.replace(config, on_permission=answer_later)
        self._runtime = AgentRuntime(
            spec,
            limits=limits,
            line_limit=line_limit,
            on_diagnostic=on_diagnostic,
            sources=sources,
            on_question=config.on_question,
            journal_client=journal_client,
            launch=launch,
            observer=self,
        )
        self._stream = MessageStream(self._runtime.wake_reader)
        self._view = MessageView()
        self._session: Session | None = None
        self._queue: PromptQueue[_QueuedMessage] = PromptQueue()
        self._queue_keys = itertools.count()
        self._worker: asyncio.Task[None] | None = None  # carries out what is queued
        self._runs: dict[str, tuple[Run, str]] = {}  # runs without a result, by id, and their messages' ids
        self._permission_ids: dict[str, str] = {}  # rows of permission requests, by their messages' ids
        self._answers: dict[
            str, tuple[PermissionAnswer, str, str]
        ] = {}  # by row: the answer, the request's and its message's id
        self._tasks: set[asyncio.Task[None]] = set()
        self.on_end: Callable[[], Awaitable[None]] | None = None  # called once, when the agent has ended
        self._failure: DragomanError | None = None
        self._closed = False
        self._close = CloseOnce(self._end, f"close the backend session of {spec.name}")

    async def open(self, resume: SessionHandle | str | bytes | Mapping[str, object] | None = None) -> BackendSession:
        """Start the agent and open the session. On failure nothing is left running."""
        try:
            await self._runtime.start()
            if resume is None:
                session = await self._runtime.open_session(self._config)
            else:
                session = await self._runtime.resume_session(resume, self._config)
        except BaseException:
            await self._runtime.close()
            raise
        self._session = session
        if session.failure is not None:
            self.on_link_lost(session.failure)
        return self

    # -- for front ends

    @property
    def id(self) -> str:
        return self._opened.id

    @property
    def messages(self) -> MessageStream:
        """The messages from the agent, for one reader; they end when the session is closed or the agent is lost."""
        return self._stream

    async def send(self, message: UnifiedMessage) -> None:
        """Take a message of the front end. Its outcome is reported in `messages`.

        Prompts and configuration changes are carried out in the order in which they were sent; answers and interrupts
        do not wait for them. Raises only when the session is closed or its agent is lost.
        """
        if self._closed:
            raise SessionClosed("this session is closed")
        if self._failure is not None:
            raise copy_error(self._failure)
        try:
            for action in parse_actions(message):
                match action:
                    case AnswerPermission():
                        self._answer_permission(action, message.id)
                    case Interrupt():
                        self._interrupt()
                    case SendPrompt() | ChangeSetting():
                        self._enqueue(action, message.id)
        except DragomanError as error:
            self._push_error(error, message.id)

    def status(self) -> SessionStatus:
        """Return idle, running, waiting (for an answer to a permission request) or error (the agent is gone)."""
        return self._opened.status()

    def snapshot(self) -> SessionHandle:
        """Return a handle for `connect(resume=…)` in another process: JSON, without secrets."""
        return self._opened.snapshot()

    @property
    def stderr(self) -> str:
        """The last lines that the agent wrote to its stderr."""
        return self._runtime.stderr_tail()

    async def close(self) -> None:
        """Cancel the run, and end the agent and all its processes. Closing twice is fine."""
        self._closed = True
        await self._close()

    async def _end(self) -> None:
        self._stream.end()
        try:
            await self._runtime.close()
            for task in self._tasks:
                task.cancel()
            if self._tasks:
                await asyncio.wait(self._tasks)
        finally:
            if self.on_end is not None:
                await self.on_end()

    async def __aenter__(self) -> BackendSession:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def _opened(self) -> Session:
        if self._session is None:
            raise SessionClosed("this session is not open yet")
        return self._session

    # -- frames (session.interfaces.FrameObserver)

    @property
    def is_full(self) -> bool:
        """True while the agent is not to be read. The answer to an interrupt may be behind what is unread."""
        if self._session is None or self._stream.has_room:
            return False
        active = self._session.active
        return active is None or not active.cancelling

    def on_frame(self, direction: Direction, message: Message, at: float, changes: Sequence[facts.Fact]) -> None:
        """Push the messages of a frame, and of its changes in the session."""
        if direction == "out":
            self._view.on_sent(message)
        elif direction == "in":
            for unified in self._view.on_received(message, at):
                self._push(unified, changes)
        for fact in changes:
            match fact:
                case facts.PermissionRequested(permission=row) if row.origin != "agent":
                    self._push_host_request(row, at)
                case facts.PermissionResolved(permission=row):
                    self._check_answer(row)
                case _ if direction != "in":
                    self._push_host_action(fact, at)
                case _:
                    pass

    def _push(self, message: UnifiedMessage, changes: Sequence[facts.Fact]) -> None:
        match message.type:
            case "permission_request":
                for fact in changes:
                    if isinstance(fact, facts.PermissionRequested):
                        self._permission_ids[message.id] = fact.permission.id
            case "result":
                for fact in changes:
                    if isinstance(fact, facts.RunEnded) and fact.run.id in self._runs:
                        message = with_metadata(message, in_reply_to=self._runs.pop(fact.run.id)[1])
            case _:
                pass
        self._stream.push(message)

    def _push_host_request(self, row: rows.Permission, at: float) -> None:
        """Ask the front end about a file to write or a command to run for the agent, unless it is decided by now."""
        request = self._session.permission_request(row.id) if self._session is not None else None
        if request is not None:
            message = self._view.message("permission_request", at, permission_metadata(request))
            self._permission_ids[message.id] = row.id
            self._stream.push(with_metadata(message, request_id=message.id))

    def _push_host_action(self, fact: facts.Fact, at: float) -> None:
        if self._session is None:
            return
        event = event_from_fact(fact, at, self._session.id, None, None)
        if event is not None:
            is_tool_running = self._session.fold.tool_calls.has_unfinished
            message = self._view.on_event(event, is_tool_running=is_tool_running)
            if message is not None:
                self._stream.push(message)

    # -- permissions

    def _answer_permission(self, action: AnswerPermission, message_id: str) -> None:
        session = self._opened
        permission_id = self._permission_ids.get(action.request_id)
        request = session.permission_request(permission_id) if permission_id is not None else None
        if permission_id is None or request is None:
            raise _not_open(action.request_id)
        answer = choose_answer(request, action)
        self._answers[permission_id] = answer, action.request_id, message_id
        session.settle_permission(permission_id, answer)

    def _check_answer(self, row: rows.Permission) -> None:
        """Report an answer of the front end that the agent did not get: the request was withdrawn in between."""
        self._permission_ids = {key: value for key, value in self._permission_ids.items() if value != row.id}
        if row.id in self._answers:
            answer, request_id, message_id = self._answers.pop(row.id)
            if (row.outcome, row.option_id) != (answer.outcome, answer.option_id):
                self._push_error(_not_open(request_id), message_id)

    def on_link_lost(self, failure: DragomanError) -> None:
        """Push the results of the unfinished prompts and an error, and end the messages."""
        if self._session is None or self._closed:
            return  # `open` raises, or no program reads any more
        self._failure = failure
        runs, self._runs = self._runs, {}
        for run, message_id in runs.values():
            status: Literal["cancelled", "interrupted"] = "cancelled" if run.cancelling else "interrupted"
            self._push_own("result", result_metadata(status, failure.message), message_id)
        self._drop_queued("interrupted", failure.message)
        self._push_own("error", error_metadata(failure), None)
        self._stream.end()

    # -- prompts and settings

    def _enqueue(self, action: SendPrompt | ChangeSetting, message_id: str) -> None:
        if len(self._queue) + len(self._runs) >= MAX_PENDING_MESSAGES:
            raise SessionBusy(
                f"{MAX_PENDING_MESSAGES} messages wait for the agent already",
                guidance="Wait for a result, or interrupt.",
            )
        key = str(next(self._queue_keys))
        self._queue.add(key, _QueuedMessage(key, message_id, action))
        if self._worker is None or self._worker.done():
            self._worker = self._spawn(self._carry_out_queued())

    async def _carry_out_queued(self) -> None:
        while (queued := self._queue.pop_next()) is not None:
            try:
                match queued.action:
                    case SendPrompt(blocks=blocks):
                        run = self._opened.run(blocks)
                        self._runs[run.id] = run, queued.message_id
                        self._spawn(self._follow(run, queued.message_id))
                    case ChangeSetting(setting="model", value=model):
                        await self._opened.set_model(model)
                    case ChangeSetting(value=mode):
                        await self._opened.set_mode(mode)
            except DragomanError as error:
                self._push_error(error, queued.message_id)

    async def _follow(self, run: Run, message_id: str) -> None:
        """Wait for the run's end, and push its result where the agent's own answer did not bring it."""
        metadata = result_metadata("cancelled", _NOT_SENT)
        try:
            await run.result()
        except SilentFailure as error:
            self._push_error(error, message_id)  # beside its result, which reports success
        except DragomanError as error:
            metadata = result_metadata("error", error.message)
        if self._runs.pop(run.id, None) is not None:
            self._push_own("result", metadata, message_id)

    def _interrupt(self) -> None:
        self._drop_queued("cancelled", _NOT_SENT)
        for run, _ in list(self._runs.values()):
            self._opened.cancel_run(run)

    def _drop_queued(self, status: Literal["cancelled", "interrupted"], reason: str) -> None:
        for queued in self._queue:
            if isinstance(queued.action, SendPrompt):
                self._queue.remove(queued.key)
                self._push_own("result", result_metadata(status, reason), queued.message_id)

    # -- messages that no frame brings

    def _push_own(self, type_: Literal["result", "error"], metadata: Fields, message_id: str | None) -> None:
        reply = {} if message_id is None else {"in_reply_to": message_id}
        self._stream.push(self._view.message(type_, time.time(), {**metadata, **reply}))

    def _push_error(self, error: DragomanError, message_id: str) -> None:
        self._push_own("error", error_metadata(error), message_id)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work, name="dragoman backend")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _not_open(request_id: str) -> InputError:
    return InputError(
        f"no permission request {request_id!r} is open: it was answered or withdrawn, or there never was one",
        guidance="Answer each permission_request once, by its request_id, before its run ends.",
    )
