"""`BackendSession`: one session with one agent, in messages.

Promised: every frame of the agent's becomes a message, in the order of the wire, none lost. Every user_message that is
accepted gets one result, with its id in `in_reply_to`; any other message that cannot be carried out gets an error, the
same way. When the agent is lost, its unfinished prompts get their results, an error says why, and the messages end.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from types import TracebackType
from typing import Any, Literal

import msgspec

from dragoman.backend.actions import Action, Interrupt, PermissionAnswer, Prompt, Switch, actions_of
from dragoman.backend.host_messages import HostMessageView
from dragoman.backend.messages import Fields, MessageView, UnifiedMessage, cut_of, error_of, question_of, with_metadata
from dragoman.backend.questions import Questions, too_late
from dragoman.backend.stream import MessageStream
from dragoman.backend.tap import Tap
from dragoman.errors import DragomanError, SessionBusy, SessionClosed, SilentFailure
from dragoman.host.permission import PermissionRequest, Reply
from dragoman.host.policy.rulebook import RuleSources
from dragoman.host.requests import Requests
from dragoman.proc.link import AgentLink
from dragoman.record.events import Event
from dragoman.session.diagnostics import Diagnostic
from dragoman.session.handle import SessionHandle
from dragoman.session.lifecycle import CloseOnce
from dragoman.session.ports import SessionStatus
from dragoman.session.run import Run
from dragoman.session.runtime import AgentRuntime
from dragoman.session.session import Session
from dragoman.session.spec import AgentSpec, Launch, Limits, SessionConfig
from dragoman.wire import messages as wire
from dragoman.wire import vocabulary as acp
from dragoman.wire.connection import copy_error

# Messages of a front end that wait for their turn, and prompts without a result. A person has one or two.
MOST_WAITING = 64

UNSENT = "interrupted before it was sent to the agent"


class _LinkedSession(Session):
    """A session that tells what was done for its agent, and when that is gone."""

    _emits_always = True
    on_told: Callable[[Event], None] | None = None

    def emit(self, run: Run | None, event: Event) -> None:
        super().emit(run, event)
        if self.on_told is not None:
            self.on_told(event)


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
        on_diagnostic: Callable[[Diagnostic], None] | None = None,
    ) -> None:
        self._config = msgspec.structs.replace(config, on_permission=self._asked)
        self._stream = MessageStream()
        self._view = MessageView()
        self._served = HostMessageView()
        self._questions = Questions()
        self._line_limit = line_limit
        self._launch = launch
        self._runtime = AgentRuntime(
            spec,
            limits=limits,
            line_limit=line_limit,
            on_diagnostic=on_diagnostic,
            sources=sources,
            launch=self._tapped,
            session_type=_LinkedSession,
        )
        self._session: Session | None = None
        self._prompts: dict[str, tuple[Run, str]] = {}  # by the run's id: those without a result, and their messages
        self._turn = asyncio.Lock()  # of what is to be done one after the other
        self._unsent: dict[asyncio.Task[None], str] = {}  # prompts that wait for their turn, and their messages
        self._tasks: set[asyncio.Task[None]] = set()
        self._failure: DragomanError | None = None
        self._closed = False
        self._close = CloseOnce(self._let_go, f"close the backend session of {spec.name}")

    async def open(self, resume: SessionHandle | str | bytes | Mapping[str, object] | None = None) -> BackendSession:
        """Starts the agent and opens the session. On failure nothing is left running."""
        try:
            with self._stream.hurry():  # nobody reads the messages yet
                await self._runtime.start()
                if resume is None:
                    session = await self._runtime.open_session(self._config)
                else:
                    session = await self._runtime.resume_session(resume, self._config)
        except BaseException:
            await self._runtime.close()
            raise
        assert isinstance(session, _LinkedSession)
        self._session = session
        session.on_lost = self._lost
        session.on_told = self._tell_served
        if session.failure is not None:
            self._lost(session.failure)
        return self

    async def _tapped(self, spec: AgentSpec, limits: Limits, on_stderr: Callable[[str], None]) -> AgentLink:
        link = await self._launch(spec, limits, on_stderr)
        return Tap(link, self._frame, self._stream, line_limit=self._line_limit)

    # -- for front ends

    @property
    def id(self) -> str:
        return self._opened.id

    @property
    def messages(self) -> MessageStream:
        """What the agent says, to be iterated over by one reader; ends when the session is closed or the agent lost."""
        return self._stream

    async def send(self, message: UnifiedMessage) -> None:
        """Takes a message of the front end's. What becomes of it is told in `messages`.

        Prompts and configuration changes are carried out in the order they were sent; answers and interrupts do not
        wait for them. Raises only when the session is closed or its agent lost.
        """
        if self._closed:
            raise SessionClosed("this session is closed")
        if self._failure is not None:
            raise copy_error(self._failure)
        try:
            actions = actions_of(message)
            for action in actions:
                self._carry_out(action, message.id)
        except DragomanError as problem:
            self._refuse(problem, message.id)

    def status(self) -> SessionStatus:
        """idle, running, waiting (for an answer to a permission request) or error (the agent is gone)."""
        status = self._opened.status()
        # An answer is given a moment before the session itself has come to take it.
        return status if status in ("idle", "error") else "waiting" if self._questions.any_open else "running"

    def snapshot(self) -> SessionHandle:
        """Enough to `connect(resume=…)` in another process; JSON, and no secret in it."""
        return self._opened.snapshot()

    @property
    def stderr(self) -> str:
        """The last lines that the agent wrote to its stderr."""
        return self._runtime.stderr_tail()

    async def close(self) -> None:
        """Cancels what runs, and ends the agent and all that it started. Closing twice is fine."""
        self._closed = True
        await self._close()

    async def _let_go(self) -> None:
        self._stream.end()
        await self._runtime.close()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def __aenter__(self) -> BackendSession:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def _opened(self) -> Session:
        if self._session is None:
            raise SessionClosed("this session is not open yet")
        return self._session

    # -- frames

    def _frame(self, direction: Literal["in", "out"], message: wire.Message, at: float) -> None:
        if direction == "out":
            self._view.sent(message)
            if isinstance(message, wire.Reply) and (late := self._questions.settled(message)) is not None:
                question_id, sent = late
                self._refuse(too_late(question_id), sent)
            return
        for told in self._view.heard(message, at):
            if isinstance(message, wire.Request) and told.type == "permission_request":
                self._asking(told, message)
            finished = self._finished() if told.type == "result" else None
            self._stream.push(told if finished is None else with_metadata(told, in_reply_to=finished))

    def _finished(self) -> str | None:
        """The message whose prompt was answered just now: the active run's, since runs never overlap."""
        run = self._session.active if self._session is not None else None
        return self._prompts.pop(run.id)[1] if run is not None and run.id in self._prompts else None

    def _asking(self, told: UnifiedMessage, message: wire.Request) -> None:
        try:
            workspace = self._config.workspace
            request = Requests("", "", workspace).of_tool_call(message.params, None)
        except msgspec.MsgspecError:
            return  # the host refuses it, for the same reason
        self._questions.add(told.id, request, message.id)

    async def _asked(self, request: PermissionRequest) -> Reply:
        """The session's `on_permission`."""
        question = self._questions.find(request.request_id)
        if question is None:
            assert request.request_id is not None
            told = self._view.tell("permission_request", time.time(), question_of(request))
            question = self._questions.add(told.id, request, request.request_id)
            self._stream.push(with_metadata(told, request_id=told.id))
        return await question.answer

    # -- actions

    def _carry_out(self, action: Action, message_id: str) -> None:
        match action:
            case PermissionAnswer():
                self._questions.take(action, message_id)
            case Interrupt():
                self._interrupt()
            case Prompt(blocks=blocks):
                task = self._in_turn(lambda: self._prompt(blocks, message_id), message_id)
                self._unsent[task] = message_id
            case Switch():
                self._in_turn(lambda: self._switch(action), message_id)

    def _in_turn(self, work: Callable[[], Awaitable[None]], message_id: str) -> asyncio.Task[None]:
        if len(self._tasks) >= MOST_WAITING:
            raise SessionBusy(
                f"{MOST_WAITING} messages wait for the agent already", guidance="Wait for a result, or interrupt."
            )
        return self._spawn(self._take_turn(work, message_id))

    async def _take_turn(self, work: Callable[[], Awaitable[None]], message_id: str) -> None:
        async with self._turn:
            try:
                await work()
            except DragomanError as problem:
                self._refuse(problem, message_id)

    async def _prompt(self, blocks: tuple[acp.ContentBlock, ...], message_id: str) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._unsent.pop(task, None)
        run = self._opened.run(blocks)
        self._prompts[run.id] = run, message_id
        self._spawn(self._follow(run, message_id))

    async def _follow(self, run: Run, message_id: str) -> None:
        """To the run's end. Most ends are told by the agent's own answer; the others are told here."""
        cut = cut_of("cancelled", UNSENT)
        try:
            await run.result()
        except SilentFailure as problem:
            self._refuse(problem, message_id)  # beside its result, which says that all is well
        except DragomanError as problem:
            cut = cut_of("error", problem.message)
        if self._prompts.pop(run.id, None) is not None:
            self._tell("result", cut, message_id)

    async def _switch(self, switch: Switch) -> None:
        with self._stream.hurry():
            match switch.setting:
                case "model":
                    await self._opened.set_model(switch.value)
                case "mode":
                    await self._opened.set_mode(switch.value)

    def _interrupt(self) -> None:
        unsent, self._unsent = self._unsent, {}
        for task, message_id in unsent.items():
            task.cancel()
            self._tell("result", cut_of("cancelled", UNSENT), message_id)
        session = self._opened
        active = session.active
        for run, _ in list(self._prompts.values()):
            session.cancel_run(run)
        if active is not None:
            self._spawn(self._hear_out(active))

    async def _hear_out(self, run: Run) -> None:
        with self._stream.hurry():
            await run.cancel()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work, name="dragoman backend")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # -- what no frame says

    def _tell(self, type_: Literal["result", "error"], metadata: Fields, message_id: str | None) -> None:
        told = self._view.tell(type_, time.time(), metadata)
        self._stream.push(told if message_id is None else with_metadata(told, in_reply_to=message_id))

    def _tell_served(self, event: Event) -> None:
        """What was done for the agent."""
        told = self._served.tell(event, tool_at_work=self._opened.fold.tool_calls.has_unfinished)
        if told is not None:
            self._stream.push(self._view.tell(told.type, event.time, told.metadata, told.content, told.role))

    def _refuse(self, problem: DragomanError, message_id: str) -> None:
        self._tell("error", error_of(problem), message_id)

    def _lost(self, failure: DragomanError) -> None:
        self._failure = failure
        prompts, self._prompts = self._prompts, {}
        for run, message_id in prompts.values():
            cut = cut_of("cancelled" if run.cancelling else "interrupted", failure.message)
            self._tell("result", cut, message_id)
        unsent, self._unsent = self._unsent, {}
        for task, message_id in unsent.items():
            task.cancel()
            self._tell("result", cut_of("interrupted", failure.message), message_id)
        self._tell("error", error_of(failure), None)
        self._stream.end()
