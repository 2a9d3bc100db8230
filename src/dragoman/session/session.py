"""A session: one conversation with one agent in one workspace.

What a program does with it is here; it owns the session's fold, its host, its frames (what is said, and who is told of
it: `frames.py`) and its turns (runs never overlap: `turns.py`).
"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, overload

from dragoman.errors import AgentCrashed, AuthenticationRequired, DragomanError, InputError, SessionBusy, SessionClosed
from dragoman.host.host import Host
from dragoman.host.permission import Reply as PermissionReply
from dragoman.host.policy.remembered import DerivedRules
from dragoman.host.policy.rulebook import Rulebook
from dragoman.host.policy.rules import Rule
from dragoman.host.question.question import Question, QuestionAnswer
from dragoman.host.terminal.terminal import Terminal
from dragoman.record import events, notes, rows
from dragoman.record.events import Event
from dragoman.record.fold import SessionFold
from dragoman.session import hooks, settings
from dragoman.session.callback import call
from dragoman.session.capabilities import Capabilities
from dragoman.session.dispatcher import SessionDispatcher
from dragoman.session.handle import SessionHandle
from dragoman.session.lifecycle import CloseOnce
from dragoman.session.ports import SessionStatus
from dragoman.session.prompt import Input, assemble
from dragoman.session.run import Run
from dragoman.session.run_queue import RunQueue
from dragoman.session.snapshot import handle_of
from dragoman.session.spec import AgentSpec, SessionConfig, rules_of
from dragoman.wire.connection import copy_error
from dragoman.wire.messages import Request

if TYPE_CHECKING:
    from dragoman.session.runtime import AgentRuntime

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
            time_limit_s=runtime.limits.permission,
            known=self.fold.tool_calls.by_agent_id,
            buffers=config.buffers,
            file_handler=config.file_handler,
            terminal_handler=config.terminal_handler,
        )
        self._frames = frames = SessionDispatcher(self, self._host, runtime.kept, tells_all=self._wants_events)
        self._turns = RunQueue(self, runtime, self._host, frames)
        # What the router, the runtime and the hub bring goes there at once.
        self.heard = frames.heard
        self.record = frames.record
        self.recorded = frames.recorded
        self.replays = frames.replays
        self._serving = 0  # requests of the agent that we have not answered
        self.calls_of_ours = 0  # of tools that are served to the agent from here, and still run
        self._failure: DragomanError | None = None
        self.when_lost: Callable[[], None] | None = None  # called when the agent is gone
        self._closed = False
        self._close = CloseOnce(self._let_go, f"close session {session_id}")

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
        self.check_open()
        blocks = assemble(prompt, self.capabilities())
        if when_busy not in ("queue", "raise"):
            raise InputError(f"when_busy is 'queue' or 'raise', not {when_busy!r}")
        if when_busy == "raise" and (busy := self._turns.first) is not None:
            raise SessionBusy(f"session {self.id} is busy with run {busy.id}")
        run = Run(self, new_id(), deadline=deadline, idle_limit=idle_limit, heartbeat=heartbeat, rules=rules_of(rules))
        self._turns.add(run, blocks)
        return run

    def begin(self, prompt: Input, *, run_id: str | None = None) -> Run:
        """A run that begins now, under an id that the caller may choose. `SessionBusy` where another one goes on."""
        self.check_open()
        if self.active is not None:
            raise SessionBusy(f"session {self.id} is busy with run {self.active.id}")
        if run_id is not None and (not _RUN_ID.fullmatch(run_id) or run_id in self.fold.runs):
            raise InputError(f"{run_id!r} cannot be the id of a new run", guidance="Leave it out, and one is chosen.")
        run = Run(self, run_id or new_id(), deadline=None, idle_limit=None, heartbeat=None)
        self._turns.begin(run, assemble(prompt, self.capabilities()))
        return run

    async def cancel(self) -> None:
        """Cancels the active run, and what is queued behind it; returns when the agent has stopped."""
        self._turns.cancel_queued()
        if self.active is not None:
            await self.active.cancel()

    def status(self) -> SessionStatus:
        """idle, running, waiting (for an answer to a permission request) or error (the agent is gone)."""
        if self._failure is not None or self._closed:
            return "error"
        if self.active is None:
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
            system_prompt_told=self._turns.unsaid_system_prompt is None,
        )

    async def set_mode(self, mode: str) -> None:
        self.check_open()
        await settings.switch(self._runtime, self, "mode", mode)

    async def set_model(self, model: str) -> None:
        self.check_open()
        await settings.switch(self._runtime, self, "model", model)

    async def set_reasoning_effort(self, level: str) -> None:
        self.check_open()
        await settings.switch(self._runtime, self, "thought_level", level)

    async def set_option(self, option_id: str, value: str | bool) -> None:
        """Sets one of the agent's own config options (`session.fold.settings` lists them)."""
        self.check_open()
        await settings.set_option(self._runtime, self, option_id, value)

    def answer_permission(
        self, permission_id: str, reply: PermissionReply, *, by: Literal["person", "callback"] = "person"
    ) -> bool:
        """Answers a `permission.requested` event by its id, as `on_permission` would; the first answer counts.

        `by` tells who decided it: a person, or a program. False: it has its answer already, or was withdrawn, and this
        one gains nothing.
        """
        row = self._permission(permission_id)
        return row.outcome == "pending" and self._host.answer(row.request_id, reply, by)

    def question(self, question_id: str) -> Question | None:
        """Return a question of the agent's that waits, by its row's id; None where it has its answer."""
        row = self._question(question_id)
        return self._host.question(row.request_id) if row.action == "pending" else None

    def answer_question(self, question_id: str, answer: QuestionAnswer) -> bool:
        """Answer a question of the agent's by its row's id, as `on_question` would; the first answer counts.

        False: it has its answer already, or was withdrawn, and this one changes nothing.
        """
        row = self._question(question_id)
        return row.action == "pending" and self._host.answer_question(row.request_id, answer)

    def _question(self, question_id: str) -> rows.Question:
        row = self.fold.questions.get(question_id)
        if row is None:
            raise InputError(f"session {self.id} was never asked {question_id!r}")
        return row

    def preview(self, permission_id: str, *, allowed: bool) -> DerivedRules:
        """The rules that an answer for good to a permission request would become; none, and why, where it cannot."""
        return self._host.preview(self._permission(permission_id).request_id, allowed=allowed)

    def _permission(self, permission_id: str) -> rows.Permission:
        row = self.fold.permissions.get(permission_id)
        if row is None:
            raise InputError(f"session {self.id} was never asked {permission_id!r}")
        return row

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
            if (kept := self._runtime.kept) is not None:
                if (differs := self._frames.replayed()) is not None:
                    self.note(differs)
                kept.opened(self)  # as it is now: that is how it can be continued
                await kept.leave(self)

    async def __aenter__(self) -> Session:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # -- for the runtime, and the parts of the session

    def check_open(self) -> None:
        if self._closed:
            raise SessionClosed(f"session {self.id} is closed")
        if self._failure is not None:
            raise copy_error(self._failure)

    def system_prompt_told(self) -> None:
        """The agent has it already, by a request of its own or from an earlier run."""
        self._turns.unsaid_system_prompt = None

    def note(self, note: notes.Note) -> None:
        """What the host did, or decided: a part of the conversation like any frame."""
        self.record("host", notes.write(note), time.time())

    async def serve(self, request: Request) -> object:
        """What the agent asks of us."""
        self._serving += 1
        try:
            return await self._host.serve(request)
        finally:
            self._serving -= 1

    def link_lost(self, failure: DragomanError) -> None:
        """The agent is gone."""
        self._failure = failure
        if self.active is None:
            kind, now = type(failure).__name__, time.time()
            error = events.Error(now, self.id, None, None, str(failure), failure.category, kind, failure.guidance)
            self.emit(None, error)
        self._turns.lost(failure)
        self._frames.lost()
        if self.when_lost is not None:
            call(self.id, self.when_lost)

    # -- for the runs

    @property
    def agent_name(self) -> str:
        return self._runtime.spec.name

    @property
    def active(self) -> Run | None:
        return self._frames.active

    @property
    def frames(self) -> int:
        """How many frames there were: a sign of life when it grows."""
        return self._frames.count

    @property
    def at_work(self) -> bool:
        """A tool runs, an answer of ours is awaited, or we do not listen: silence then is no sign of a hang."""
        if self.calls_of_ours or self._serving or self.active is None or self._runtime.reader_held:
            return True
        return self.fold.tool_calls.has_unfinished

    @property
    def spec(self) -> AgentSpec:
        """Of the agent that it is with."""
        return self._runtime.spec

    def cancel_run(self, run: Run) -> None:
        """Asks for the end of a run; what it takes to get it goes on in the background."""
        self._turns.cancel(run)

    def emit(self, run: Run | None, event: Event) -> None:
        if run is not None and run.wants_events:
            run.push(event)
        if self.config.on_event is not None:
            call(self.id, self.config.on_event, event)

    def stderr_tail(self) -> str:
        return self._runtime.stderr_tail()

    def wake_reader(self) -> None:
        self._runtime.wake_reader()

    def explained(self, failure: DragomanError) -> DragomanError:
        """The failure with what only the runtime knows: the agent's ways to log in, its exit code."""
        if isinstance(failure, AuthenticationRequired):
            return self._runtime.authentication_required(failure)
        if isinstance(failure, AgentCrashed) and isinstance(self._failure, AgentCrashed):
            return copy_error(self._failure)
        return failure


def new_id() -> str:
    return uuid.uuid4().hex[:12]
