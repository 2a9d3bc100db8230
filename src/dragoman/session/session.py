"""A session: one conversation with one agent in one workspace.

It owns the session's fold, its host and the queue of its runs. Frames of a session are handled in the
order of the wire, and a run ends by a fact in the fold: all its updates are seen before it completes.
Runs never overlap: the next prompt is sent only after the run before it has ended.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
import uuid
from collections import deque
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, overload

from dragoman.errors import AgentCrashed, AuthenticationRequired, DragomanError, InputError, SessionBusy, SessionClosed
from dragoman.host.host import Host
from dragoman.host.permission import Reply as PermissionReply
from dragoman.host.policy.remembered import Derived
from dragoman.host.policy.rulebook import Rulebook
from dragoman.host.policy.rules import Rule
from dragoman.host.terminal.terminal import Terminal
from dragoman.record import facts, notes, rows
from dragoman.record.fold import Direction, SessionFold
from dragoman.record.retold import Retold
from dragoman.session import hooks, settings
from dragoman.session.capabilities import Capabilities
from dragoman.session.handle import SessionHandle
from dragoman.session.once import Once
from dragoman.session.ports import SessionStatus
from dragoman.session.prompt import Input, assemble
from dragoman.session.run import Run
from dragoman.session.snapshot import handle_of
from dragoman.session.spec import AgentSpec, SessionConfig, rules_of
from dragoman.views import events
from dragoman.views.events import AssistantDelta, Event
from dragoman.views.told import event_of
from dragoman.wire import vocabulary as acp
from dragoman.wire.connection import fresh
from dragoman.wire.messages import Message, Notification, Reply, Request, Update

if TYPE_CHECKING:
    from dragoman.journal.entry import Origin
    from dragoman.session.runtime import AgentRuntime

# Where a frame comes from, as the journal says it.
_ORIGINS: Final[dict[Direction, Origin]] = {"in": "agent", "out": "client", "host": "host"}

logger = logging.getLogger(__name__)

_RUN_ID: Final = re.compile(r"[0-9A-Za-z_-]{1,64}")


class Session:
    """Made by `AgentRuntime.open_session` and `resume_session`."""

    _wants_events: ClassVar[bool] = False  # `emit` is to be told of all, whoever iterates

    def __init__(
        self, runtime: AgentRuntime, session_id: str, config: SessionConfig, fold: SessionFold | None = None
    ) -> None:
        """`fold` is what is known of it from before."""
        self.id = session_id
        self.agent_session_id = ""
        self.config = config
        self.fold = fold or SessionFold()
        self._runtime = runtime
        self._on_event = config.on_event
        self._rules = Rulebook(
            config.workspace,
            config.access,
            runtime.sources,
            network=config.network,
            web_search=config.web_search,
            session=config.rules,
        )
        self._host = Host(
            workspace=config.workspace,
            rules=self._rules,
            session_id=session_id,
            note=self.note,
            read_files=runtime.spec.read_files,
            write_files=runtime.spec.write_files,
            terminals=runtime.spec.terminals,
            agent=runtime.spec.preset or runtime.spec.name,
            on_permission=config.on_permission,
            on_question=config.on_question or runtime.on_question,
            time_limit=runtime.limits.permission,
            known=self.fold.tool_calls.by_agent_id,
            buffers=config.buffers,
            file_handler=config.file_handler,
            terminal_handler=config.terminal_handler,
        )
        self._kept = runtime.kept
        self._said_in: deque[Run | None] = deque()  # of frames that are not told yet: the run they were said in
        self._awaited: dict[int, asyncio.Future[None]] = {}  # notes that someone wants to know kept
        self._replaying = False  # what the agent says now, it said before
        self._retold: Retold | None = None  # what it told again of what we have
        self._tells_all = False  # it has to tell all of it again
        if self._kept is not None:
            self._kept.join(self)
        self._position = 0
        self._serving = 0  # requests of the agent that we have not answered
        self.calls_of_ours = 0  # of tools that are served to the agent from here, and still run
        self._active: Run | None = None
        self._queue: deque[tuple[Run, tuple[acp.ContentBlock, ...]]] = deque()
        self._escalation: asyncio.Task[None] | None = None
        self._unsaid_system_prompt = config.system_prompt  # goes with the first prompt where the agent takes none
        self._failure: DragomanError | None = None
        self.when_lost: Callable[[], None] | None = None  # called when the agent is gone
        self._closed = False
        self._close = Once(self._let_go, f"close session {session_id}")

    # -- for programs

    @overload
    def run(
        self,
        prompt: Input,
        *,
        deadline: float | None = None,
        idle_limit: float | None = None,
        heartbeat: Callable[[], None] | None = None,
        rules: Sequence[Rule] = (),
        when_busy: Literal["queue", "raise"] = "queue",
        output_type: None = None,
    ) -> Run: ...

    @overload
    def run(
        self,
        prompt: Input,
        *,
        deadline: float | None = None,
        idle_limit: float | None = None,
        heartbeat: Callable[[], None] | None = None,
        rules: Sequence[Rule] = (),
        when_busy: Literal["queue", "raise"] = "queue",
        output_type: Any,
        max_rounds: int = 3,
    ) -> Any: ...

    def run(
        self,
        prompt: Input,
        *,
        deadline: float | None = None,
        idle_limit: float | None = None,
        heartbeat: Callable[[], None] | None = None,
        rules: Sequence[Rule] = (),
        when_busy: Literal["queue", "raise"] = "queue",
        output_type: Any = None,
        max_rounds: int = 3,
    ) -> Any:
        """Sends a prompt, or queues it behind the run that is active.

        `deadline` and `idle_limit` are seconds from the moment the prompt is sent; `heartbeat` is called
        on every update; `rules` hold for this run alone, above all others.

        Returns a `Run`. With `output_type` it ends with a `PromptResponse`, whose `output` is of that type: where the
        agent's answer does not fit, it is asked again, up to `max_rounds` times.
        """
        if output_type is not None:
            assert hooks.run_for_output is not None  # bound by the package itself
            return hooks.run_for_output(
                self,
                prompt,
                output_type,
                max_rounds=max_rounds,
                deadline=deadline,
                idle_limit=idle_limit,
                heartbeat=heartbeat,
                rules=rules,
                when_busy=when_busy,
            )
        for name, seconds in (("deadline", deadline), ("idle_limit", idle_limit)):
            if seconds is not None and not (isinstance(seconds, int | float) and seconds > 0):
                raise InputError(f"{name} must be a number of seconds, more than 0, not {seconds!r}")
        self._check_open()
        blocks = assemble(prompt, self.capabilities())
        busy = self._active or (self._queue[0][0] if self._queue else None)
        if when_busy not in ("queue", "raise"):
            raise InputError(f"when_busy is 'queue' or 'raise', not {when_busy!r}")
        if busy is not None and when_busy == "raise":
            raise SessionBusy(f"session {self.id} is busy with run {busy.id}")
        run = Run(self, new_id(), deadline=deadline, idle_limit=idle_limit, heartbeat=heartbeat, rules=rules_of(rules))
        if busy is None:
            self._begin(run, blocks)
        else:
            self._queue.append((run, blocks))
        return run

    def begin(self, prompt: Input, *, run_id: str | None = None) -> Run:
        """A run that begins now, under an id that the caller may choose. `SessionBusy` where another one goes on."""
        self._check_open()
        if self._active is not None:
            raise SessionBusy(f"session {self.id} is busy with run {self._active.id}")
        if run_id is not None and (not _RUN_ID.fullmatch(run_id) or run_id in self.fold.runs):
            raise InputError(f"{run_id!r} cannot be the id of a new run", guidance="Leave it out, and one is chosen.")
        run = Run(self, run_id or new_id(), deadline=None, idle_limit=None, heartbeat=None)
        self._begin(run, assemble(prompt, self.capabilities()))
        return run

    async def cancel(self) -> None:
        """Cancels the active run, and what is queued behind it; returns when the agent has stopped."""
        queued = [run for run, _ in self._queue]
        for run in queued:
            self.cancel_run(run)
        if self._active is not None:
            await self._active.cancel()

    def status(self) -> SessionStatus:
        """idle, running, waiting (for an answer to a permission request) or error (the agent is gone)."""
        if self._failure is not None or self._closed:
            return "error"
        if self._active is None:
            return "idle"
        return "waiting" if self._host.pending else "running"

    @property
    def closed(self) -> bool:
        return self._closed

    @property
    def failure(self) -> DragomanError | None:
        """Why the status is error."""
        return self._failure

    def capabilities(self) -> Capabilities:
        return self._runtime.capabilities()

    def snapshot(self) -> SessionHandle:
        """Enough to resume the session in another process; JSON, and no secret in it."""
        return handle_of(
            self._runtime.spec,
            self.config,
            self.id,
            self.agent_session_id,
            self.fold,
            system_prompt_told=self._unsaid_system_prompt is None,
        )

    async def set_mode(self, mode: str) -> None:
        self._check_open()
        await settings.switch(self._runtime, self, "mode", mode)

    async def set_model(self, model: str) -> None:
        self._check_open()
        await settings.switch(self._runtime, self, "model", model)

    async def set_reasoning_effort(self, level: str) -> None:
        self._check_open()
        await settings.switch(self._runtime, self, "thought_level", level)

    async def set_option(self, option_id: str, value: str | bool) -> None:
        """Sets one of the agent's own config options (`session.fold.settings` lists them)."""
        self._check_open()
        await settings.set_option(self._runtime, self, option_id, value)

    def answer_permission(
        self, permission_id: str, reply: PermissionReply, *, by: Literal["person", "callback"] = "person"
    ) -> bool:
        """Answers a `permission.requested` event by its id, as `on_permission` would; the first answer counts.

        `by` tells who decided it: a person, or a program. False: it has its answer already, or was withdrawn, and this
        one gains nothing.
        """
        row = self.fold.permissions.get(permission_id)
        if row is None:
            raise InputError(f"session {self.id} was never asked {permission_id!r}")
        return row.outcome == "pending" and self._host.answer(row.request_id, reply, by)

    def preview(self, permission_id: str, *, allowed: bool) -> Derived:
        """The rules that an answer for good to a permission request would become; none, and why, where it cannot."""
        row = self.fold.permissions.get(permission_id)
        if row is None:
            raise InputError(f"session {self.id} was never asked {permission_id!r}")
        return self._host.preview(row.request_id, allowed=allowed)

    def terminal(self, terminal_id: str) -> Terminal | None:
        """A command that runs, or ran, for the agent: to follow what it writes. None where it is not ours, or gone."""
        return self._host.terminal(terminal_id)

    @property
    def policy_notice(self) -> str | None:
        """Why the workspace's own rules do not count, where there are some."""
        return self._rules.notice

    async def close(self) -> None:
        """Cancels what runs, tells the agent where it wants to be told, and lets go. Closing twice is fine."""
        self._closed = True
        await self._close()

    async def _let_go(self) -> None:
        try:
            await self.cancel()
        finally:
            await self._host.close()
            await self._runtime.forget(self)
            if self._kept is not None:
                if (differs := self._otherwise()) is not None:
                    self.note(differs)
                self._kept.opened(self)  # as it is now: that is how it can be continued
                await self._kept.leave(self)

    async def __aenter__(self) -> Session:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # -- runs

    def _check_open(self) -> None:
        if self._closed:
            raise SessionClosed(f"session {self.id} is closed")
        if self._failure is not None:
            raise fresh(self._failure)

    def _begin(self, run: Run, blocks: tuple[acp.ContentBlock, ...]) -> None:
        said = blocks
        differs = self._otherwise()
        if self._unsaid_system_prompt is not None:
            blocks = (acp.TextContent(text=self._unsaid_system_prompt), *blocks)
        self._active = run
        self._replaying = False
        self._host.begin_run(run.rules)
        run.began()
        try:
            self.record("host", notes.write(notes.Prompt(run.id, said)), time.time())
            self._runtime.send_prompt(self, blocks)
        except BaseException as problem:
            # It did not reach the agent: the session is as free as before.
            self._active = None
            if isinstance(problem, TypeError | ValueError):
                raise InputError(f"the prompt cannot be written as JSON: {problem}") from problem
            raise
        self._unsaid_system_prompt = None
        if differs is not None:
            self.note(differs)
        run.sent()

    def _begin_next(self) -> None:
        if self._active is not None or not self._queue:
            return
        run, blocks = self._queue.popleft()
        try:
            self._check_open()
            self._begin(run, blocks)
        except Exception as problem:
            # Whatever it is, who waits for this run must learn of it, and the next ones have their turn.
            failure = (
                problem if isinstance(problem, DragomanError) else DragomanError(f"it could not be sent: {problem}")
            )
            run.lost(failure, time.time())
            self._begin_next()

    def cancel_run(self, run: Run) -> None:
        """Asks for the end of a run; what it takes to get it goes on in the background."""
        if run.done or run.cancelling:
            return
        run.cancelling = True
        if run is not self._active:
            self._queue = deque(item for item in self._queue if item[0] is not run)
            run.dropped(time.time())
            return
        self._runtime.notify("session/cancel", acp.CancelNotification(session_id=self.agent_session_id))
        # The protocol wants every question of the cancelled run answered, and we go on listening.
        self._host.cancel_pending(rest_of_run=True)
        self.wake_reader()
        self._escalation = asyncio.get_running_loop().create_task(self._escalate(run), name="dragoman cancel")

    async def _escalate(self, run: Run) -> None:
        if await run.ended_within(self._runtime.limits.cancel_grace):
            return
        await self._runtime.end_link(
            f"{self.agent_name} did not stop within {self._runtime.limits.cancel_grace:g} s of being asked to"
        )

    # -- what the runtime brings

    def heard(self, update: Update, at: float) -> None:
        """One update: the path that is taken a hundred thousand times, and written for it."""
        if self._kept is not None:
            if self._retold is not None:
                self._retold.hear(update.update)
            self._keep("replay" if self._replaying else "agent", update, at)
            return
        self._position = position = self._position + 1
        run = self._active
        if run is not None:
            if run.heartbeat is not None:
                self._call(run.heartbeat)
            said = self.fold.messages.more_text(update.update)
            if said is not None:
                # `emit`, written out: a call less for each of a hundred thousand.
                if run.wants_events:
                    run.push(AssistantDelta(at, self.id, run.id, update.line, said[1], said[0].id))
                if self._on_event is not None:
                    self._call(self._on_event, AssistantDelta(at, self.id, run.id, update.line, said[1], said[0].id))
                return
        self._tell(self.fold.update(position, at, update.update), at, update.line, run)

    def replays(self, *, all_of_it: bool) -> None:
        """The agent is about to tell its history again, or may do so, and go on with that until the next prompt."""
        self._replaying = True
        self._tells_all = all_of_it
        if self._kept is not None and (self.fold.messages or len(self.fold.tool_calls)):
            self._retold = Retold()

    def _otherwise(self) -> notes.HistoryDiffers | None:
        """How what the agent told again differs from what we have; asked once, when it cannot go on with it."""
        retold, self._retold = self._retold, None
        if retold is None or not (self._tells_all or retold.turns):
            return None
        return retold.differs_from(self.fold)

    def system_prompt_told(self) -> None:
        """The agent has it already, by a request of its own or from an earlier run."""
        self._unsaid_system_prompt = None

    def record(self, direction: Direction, message: Message, at: float) -> None:
        """Any other frame of this session, sent, received, or noted by us."""
        if self._kept is not None:
            replayed = self._replaying and direction == "in" and not isinstance(message, Reply)
            self._keep("replay" if replayed else _ORIGINS[direction], message, at)
            return
        self._position += 1
        self._changed(direction, message, at, self.fold.apply(self._position, at, direction, message), self._active)

    def recorded(self, message: Notification) -> asyncio.Future[None]:
        """Records a note of ours, now; the future is done when it is kept for good, or says why it cannot be."""
        kept: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self._kept is None:
            kept.set_result(None)
        else:
            self._awaited[id(message)] = kept
            kept.add_done_callback(lambda _: self._awaited.pop(id(message), None))  # and with it the note lives on
        self.record("host", message, time.time())
        return kept

    def _keep(self, origin: Origin, message: Message, at: float) -> None:
        """Whoever is to be told of it is told by `told`, once it is kept for good."""
        assert self._kept is not None
        self._position += 1
        self._said_in.append(self._active)
        self._kept.add(origin, message, at, self.id)

    def told(self, origin: Origin, message: Message, at: float, changed: Sequence[facts.Fact]) -> None:
        """A frame is kept, and this is what it changed."""
        run = self._said_in.popleft()
        if self._awaited and (kept := self._awaited.get(id(message))) is not None and not kept.done():
            kept.set_result(None)
        if run is not None and run.done:
            run = None  # it ended in the same breath
        if run is not None and run.heartbeat is not None and type(message) is Update:
            self._call(run.heartbeat)
        direction: Direction = "host" if origin == "host" else "out" if origin == "client" else "in"
        self._changed(direction, message, at, changed, run)

    def _changed(
        self, direction: Direction, message: Message, at: float, changed: Sequence[facts.Fact], run: Run | None
    ) -> None:
        if direction == "in" and isinstance(message, Notification) and message.method == "elicitation/complete":
            self._host.completed(message.params)
        if direction == "in" and isinstance(message, Request):
            self._host.announce(message)
        self._tell(changed, at, getattr(message, "line", None), run)

    def _tell(self, changed: Sequence[facts.Fact], at: float, line: bytes | None, run: Run | None) -> None:
        # An event that nobody looks at is not made: most sessions of a server have none who would.
        wanted = self._wants_events or self._on_event is not None or (run is not None and run.wants_events)
        for fact in changed:
            if isinstance(fact, facts.RunEnded):
                self._run_ended(fact.run)
                run = None
            elif wanted:
                event = event_of(fact, at, self.id, run.id if run else None, line)
                if event is not None:
                    self.emit(run, event)

    def emit(self, run: Run | None, event: Event) -> None:
        if run is not None and run.wants_events:
            run.push(event)
        if self._on_event is not None:
            self._call(self._on_event, event)

    def _call(self, callback: Callable[..., None], *arguments: object) -> None:
        try:
            callback(*arguments)
        except Exception:
            # A defect of the program's is no reason to lose the agent, and what it says next.
            logger.exception("a callback of session %s failed", self.id)

    def _run_ended(self, row: rows.Run) -> None:
        run = self._active
        if run is None or run.id != row.id:
            return
        self._active = None
        self._host.cancel_pending()
        self._host.run_ended()
        run.ended(row)
        # Not now: what is left of the bytes at hand was said before any new prompt could be heard.
        asyncio.get_running_loop().call_soon(self._begin_next)

    async def serve(self, request: Request) -> object:
        """What the agent asks of us."""
        self._serving += 1
        try:
            return await self._host.serve(request)
        finally:
            self._serving -= 1

    def link_lost(self, failure: DragomanError) -> None:
        """The agent is gone. The active run is cut, and recorded as cut."""
        self._failure = failure
        now = time.time()
        run = self._active
        if run is not None and self._kept is not None and self._kept.problem is not None:
            self._active = None
            run.lost(fresh(failure), now)  # what happened to it cannot be kept, and whoever waits must learn of it
        elif run is not None:
            status: Literal["cancelled", "interrupted"] = "cancelled" if run.cancelling else "interrupted"
            self.record("host", notes.write(notes.RunCut(run.id, status, str(failure))), now)
        else:
            kind = type(failure).__name__
            error = events.Error(now, self.id, None, None, str(failure), failure.category, kind, failure.guidance)
            self.emit(None, error)
        queued, self._queue = self._queue, deque()
        for waiting, _ in queued:
            waiting.lost(fresh(failure), now)
        if self._kept is not None and self._kept.problem is not None:
            for kept in self._awaited.values():
                if not kept.done():
                    kept.set_exception(self._kept.problem)
        if self.when_lost is not None:
            self._call(self.when_lost)

    def note(self, note: notes.Note) -> None:
        """What the host did, or decided: a part of the conversation like any frame."""
        self.record("host", notes.write(note), time.time())

    # -- for the runs

    @property
    def agent_name(self) -> str:
        return self._runtime.spec.name

    @property
    def active(self) -> Run | None:
        return self._active

    @property
    def frames(self) -> int:
        """How many frames there were: a sign of life when it grows."""
        return self._position

    @property
    def at_work(self) -> bool:
        """A tool runs, an answer of ours is awaited, or we do not listen: silence then is no sign of a hang."""
        if self.calls_of_ours or self._serving or self._active is None or self._runtime.reader_held:
            return True
        return self.fold.tool_calls.any_unfinished

    @property
    def spec(self) -> AgentSpec:
        """Of the agent that it is with."""
        return self._runtime.spec

    def stderr_tail(self) -> str:
        return self._runtime.stderr_tail()

    def wake_reader(self) -> None:
        self._runtime.wake_reader()

    def explained(self, failure: DragomanError) -> DragomanError:
        """The failure with what only the runtime knows: the agent's ways to log in, its exit code."""
        if isinstance(failure, AuthenticationRequired):
            return self._runtime.authentication_required(failure)
        if isinstance(failure, AgentCrashed) and isinstance(self._failure, AgentCrashed):
            return fresh(self._failure)
        return failure


def new_id() -> str:
    return uuid.uuid4().hex[:12]
