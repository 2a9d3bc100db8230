"""`RemoteSession`: a session on a server, for the program that drives it here. It keeps the promises of the ports.

Its fold is made here, of the frames that the server tells; its runs are those of a local session, and end by a fact in
the fold. What the program wants done crosses as commands, each done once. Runs of others in the same session are told
by `on_event`, like its own.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Final, Literal

from msgspec.structs import asdict, replace

from dragoman.bridge import answers, asked
from dragoman.bridge.messages import FramesUpdate
from dragoman.bridge.payload import Live
from dragoman.errors import (
    AgentCrashed,
    AuthenticationRequired,
    CapabilityMissing,
    DragomanError,
    InputError,
    SessionBusy,
    SessionClosed,
)
from dragoman.host.permission import Answer, OnPermission, PermissionRequest, answer_of
from dragoman.host.permission import Reply as PermissionReply
from dragoman.host.question.question import OnQuestion, Question, QuestionAnswer, read_question
from dragoman.journal import notes
from dragoman.record import facts, rows
from dragoman.record.events import Event, event_from_fact
from dragoman.record.fold import SessionFold
from dragoman.remote.asking import Asking, request_of
from dragoman.remote.frames import Frames, Told
from dragoman.remote.refused import error_of_problem
from dragoman.remote.said import said_of
from dragoman.remote.socket import Socket, new_call
from dragoman.remote.turns import Prompt, Turns
from dragoman.session.capabilities import Capabilities
from dragoman.session.handle import SessionHandle, read_handle
from dragoman.session.lifecycle import CloseOnce
from dragoman.session.ports import SessionStatus
from dragoman.session.prompt import Input
from dragoman.session.run import Run
from dragoman.session.session import new_id
from dragoman.session.spec import OnEvent
from dragoman.wire.connection import copy_error
from dragoman.wire.messages import Request, Update

logger = logging.getLogger(__name__)

# Seconds for what was done to be seen here too. It is on its way already.
SEEN: Final = 10.0

# Seconds for a run to end once it was cancelled, and for the session to be ended after that. The server gives its agent
# a grace, and ends it then; it does so also when nobody waits for it.
ENDED: Final = 30.0

_NAMES: Final = {"mode": "modes", "model": "models", "thought_level": "levels of reasoning effort"}


class RemoteSession:
    """Made by `Client.open_session`, `resume` and `session`."""

    def __init__(
        self,
        socket: Socket,
        session_id: str,
        live: Live,
        *,
        on_permission: OnPermission | None = None,
        on_question: OnQuestion | None = None,
        on_event: OnEvent | None = None,
        owned: bool = True,
        history: bool = False,
    ) -> None:
        """`owned`: it ends with this hold on it. `history`: what was said before is known here, but not told."""
        self.id = session_id
        self.cursor: str | None = None
        self._socket = socket
        self._live = live
        self._on_event = on_event
        self._owned = owned
        self._quiet = history
        self._frames = Frames(session_id)
        self._asking = Asking(
            on_permission,
            on_question,
            self._request_of,
            self._question_of,
            self._answered_permission,
            self._answered_question,
        )
        self._turns = Turns(socket, session_id, self._do)
        self._receipts: dict[str, asyncio.Event] = {}  # of commands that someone wants to know seen here
        self._ready = asyncio.Event()
        self._paused = False
        self._failure: DragomanError | None = None
        self._closed = False
        self._tasks: set[asyncio.Task[Any]] = set()
        self._close = CloseOnce(self._let_go, f"close session {session_id}")

    async def begin(self) -> None:
        """Follows it; returns when all that was said so far is known here."""
        self._socket.follow(self.id, self)
        await self._ready.wait()
        if self._failure is not None:
            raise copy_error(self._failure)

    # -- for programs

    def run(
        self,
        prompt: Input,
        *,
        deadline: float | None = None,
        idle_limit: float | None = None,
        heartbeat: Callable[[], None] | None = None,
        when_busy: Literal["queue", "raise"] = "queue",
    ) -> Run:
        """Sends a prompt, or queues it behind the run that is active.

        `deadline` and `idle_limit` are seconds from the moment the run begins; `heartbeat` is called on every update.
        """
        for name, seconds in (("deadline", deadline), ("idle_limit", idle_limit)):
            if seconds is not None and not (isinstance(seconds, int | float) and seconds > 0):
                raise InputError(f"{name} must be a number of seconds, more than 0, not {seconds!r}")
        if when_busy not in ("queue", "raise"):
            raise InputError(f"when_busy is 'queue' or 'raise', not {when_busy!r}")
        self._check_open()
        said = said_of(prompt, self.capabilities())
        busy = self._turns.active.id if self._turns.active is not None else self.fold.runs.current_id
        if busy is not None and when_busy == "raise":
            raise SessionBusy(f"session {self.id} is busy with run {busy}")
        run = Run(self, new_id(), deadline=deadline, idle_limit=idle_limit, heartbeat=heartbeat)
        self._turns.add(Prompt(run, said, "queue" if when_busy == "queue" else "refuse"))
        return run

    async def cancel(self) -> None:
        """Cancels the run that goes on, whoever began it, and what we queued; returns when the agent has stopped."""
        self._turns.cancel_queued()
        if (run := self._turns.any) is not None:
            await run.cancel()

    def status(self) -> SessionStatus:
        """idle, running, waiting (for an answer to a permission request or a question) or error."""
        if self._closed or self._trouble() is not None:
            return "error"
        if self._turns.active is None and self.fold.run is None:
            return "idle"
        return "waiting" if self._asking.pending else "running"

    @property
    def closed(self) -> bool:
        return self._closed

    @property
    def live(self) -> Live:
        """How it stands with the session on the server: its connection to the agent, and what went wrong."""
        return self._live

    @property
    def fold(self) -> SessionFold:
        """What is known of it by now."""
        return self._frames.fold

    def capabilities(self) -> Capabilities:
        """What the agent said it can do, as far as the server tells: not its ways to log in, nor its raw answer."""
        told = {name: value for name, value in asdict(self._live.abilities).items() if name != "steering"}
        return Capabilities(**told)

    def snapshot(self) -> SessionHandle:
        """Enough to resume the session: on this server, by `Client.resume`."""
        row = self._frames.session()
        if row.handle is None:
            raise InputError(f"session {self.id} cannot be continued: what its agent needs for it was not kept")
        model, mode = self.fold.setting("model"), self.fold.setting("mode")
        return replace(
            read_handle(row.handle),
            model=model.current if model is not None and isinstance(model.current, str) else None,
            mode=mode.current if mode is not None and isinstance(mode.current, str) else None,
            options={key: one.current for key, one in self.fold.settings.items() if one.current is not None},
            title=row.title,
        )

    async def set_mode(self, mode: str) -> None:
        await self._switch("mode", mode)

    async def set_model(self, model: str) -> None:
        await self._switch("model", model)

    async def set_reasoning_effort(self, level: str) -> None:
        await self._switch("thought_level", level)

    async def set_option(self, option_id: str, value: str | bool) -> None:
        """Sets one of the agent's own config options (`session.fold.settings` lists them)."""
        self._check_open()
        command_id = new_call()
        seen = self._receipts[command_id] = asyncio.Event()
        try:
            await self._socket.call(
                asked.SessionSetOption(
                    id=new_call(), command_id=command_id, session_id=self.id, option_id=option_id, value=value
                ),
                answers.Done,
            )
            async with asyncio.timeout(SEEN):
                await seen.wait()
        except TimeoutError:
            logger.warning("session %s: that %s was set is not seen here yet", self.id, option_id)
        finally:
            del self._receipts[command_id]

    async def answer_permission(
        self, permission_id: str, reply: PermissionReply, *, by: Literal["person", "callback"] = "person"
    ) -> bool:
        """Answers a `permission.requested` event by its id, as `on_permission` would; the first answer counts.

        False: it has its answer already, or was withdrawn, and this one gains nothing.
        """
        row = self.fold.permissions.get(permission_id)
        if row is None:
            raise InputError(f"session {self.id} was never asked {permission_id!r}")
        return await self._answer(permission_id, answer_of(self._request_of(row), reply), by)

    async def answer_question(self, question_id: str, answer: QuestionAnswer) -> bool:
        """Answers a `question.asked` event by its id; False where another answer was first."""
        return await self._answer_question(question_id, answer, answer.by or "person")

    async def restart(self, *, reload: bool = True) -> None:
        """Ends the agent and starts it anew. Without `reload` it remembers nothing of the conversation."""
        if self._closed:
            raise SessionClosed(f"session {self.id} is closed")
        opened = await self._socket.call(
            asked.SessionRestart(id=new_call(), command_id=new_call(), session_id=self.id, reload=reload),
            answers.Opened,
        )
        self._live = opened.live

    async def close(self) -> None:
        """Cancels what runs and ends the session on the server, where it stays to be read and resumed. One that was
        attached to is left as it is. Closing twice is fine."""
        self._closed = True
        await self._close()

    async def leave(self) -> None:
        """Lets go of the session here; on the server it goes on."""
        self._owned = False
        await self.close()

    async def __aenter__(self) -> RemoteSession:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # -- whether it can be asked something

    def _check_open(self) -> None:
        if self._closed:
            raise SessionClosed(f"session {self.id} is closed")
        if (trouble := self._trouble()) is not None:
            raise trouble

    def _trouble(self) -> DragomanError | None:
        """Why nothing can be asked of the agent now."""
        if self._failure is not None:
            return copy_error(self._failure)
        if self._live.connection in ("connected", "starting", "elsewhere"):
            return None
        if self._live.problem is not None:
            return error_of_problem(self._live.problem)
        return SessionClosed(
            f"session {self.id} is not open on the server", guidance="Go on with it: session.restart(reload=True)."
        )

    # -- what the server tells

    def heard(self, update: FramesUpdate) -> None:
        if self._paused:
            return  # it is told again when we go on
        self.cursor = update.cursor
        if update.live is not None:
            self._live = update.live
        for frame in update.frames:
            told = self._frames.add(frame)
            if told is not None:
                self._tell(told)
        self._frames.forget()
        if not update.more:
            if not self._ready.is_set():
                self._caught_up()
            self._asking.ask()
        run = self._turns.get(self.fold.runs.current_id)
        if run is not None and run.full and not run.hungry:
            self._paused = True
            self._socket.leave(self.id)

    def _caught_up(self) -> None:
        self._quiet = False
        if self.fold.runs.current_id is not None:
            self._run_of(self.fold.runs.current_id)
        self._ready.set()

    def _run_of(self, run_id: str) -> Run:
        """One that goes on: ours, or one that someone else began."""
        run = self._turns.get(run_id)
        if run is None:
            run = Run(self, run_id, deadline=None, idle_limit=None, heartbeat=None)
            self._turns.adopt(run)
        return run

    def _tell(self, told: Told) -> None:
        if isinstance(told.note, notes.Receipt) and (seen := self._receipts.get(told.note.command_id)) is not None:
            seen.set()
        run = self._turns.get(told.run_id)
        if run is not None and run.heartbeat is not None and type(told.message) is Update:
            self._call(run.heartbeat)
        line = getattr(told.message, "line", None)
        for fact in told.facts:
            self._asking.note(fact, told.message)
            if self._quiet:
                continue
            if isinstance(fact, facts.RunStarted):
                run = self._run_of(fact.run.id)
                self._turns.began(run)
            if isinstance(fact, facts.RunEnded):
                self._run_ended(fact.run)
                run = None
            elif self._on_event is not None or (run is not None and run.wants_events):
                event = event_from_fact(fact, told.at, self.id, told.run_id, line)
                if event is not None:
                    self.emit(run, event)

    def _run_ended(self, row: rows.Run) -> None:
        run = self._turns.get(row.id)
        if run is not None:
            self._turns.over(run)
            run.ended(row)

    def lost(self, problem: DragomanError) -> None:
        """Nothing more will be heard of it. What runs there may go on, and nobody here will know."""
        self._failure = problem
        self._ready.set()
        self._asking.close()
        self._turns.lost(problem)

    async def _let_go(self) -> None:
        try:
            if self._owned and self._failure is None:
                await self._end()
        except (DragomanError, TimeoutError) as problem:
            logger.warning("session %s may not have been ended on the server: %s", self.id, problem or "no answer")
        finally:
            self._socket.leave(self.id)
            how = "is closed" if self._owned else "was left, and goes on without us"
            self.lost(self._failure or SessionClosed(f"session {self.id} {how}"))
            for task in self._tasks:
                task.cancel()
            if self._tasks:
                await asyncio.wait(self._tasks)

    async def _end(self) -> None:
        self._turns.cancel_queued()
        if (run := self._turns.active) is not None:
            self.cancel_run(run)
            await run.ended_within(ENDED)
        async with asyncio.timeout(ENDED):
            await self._socket.call(
                asked.SessionClose(id=new_call(), command_id=new_call(), session_id=self.id), answers.Done
            )

    # -- answers

    def _request_of(self, row: rows.Permission) -> PermissionRequest:
        return request_of(row, self.fold.tool_calls, self.id, self._agent(), self._frames.session().cwd)

    def _question_of(self, request: Request) -> Question:
        return read_question(request, agent=self._agent(), session_id=self.id)

    def _agent(self) -> str:
        """Its id, or its name where it has none."""
        session = self._frames.session()
        return (read_handle(session.handle).agent if session.handle is not None else None) or session.agent

    async def _answered_permission(self, permission_id: str, answer: Answer) -> None:
        await self._answer(permission_id, answer, "callback")

    async def _answer(self, permission_id: str, answer: Answer, by: Literal["person", "callback"]) -> bool:
        cancelled = answer.outcome == "cancelled"
        control = asked.PermissionAnswer(
            id=new_call(),
            command_id=new_call(),
            session_id=self.id,
            permission_id=permission_id,
            option_id=answer.option_id,
            answer=("reject" if answer.always else "cancel") if cancelled else None,
            always=answer.always,
            by=by,
        )
        return (await self._socket.call(control, answers.Answered)).accepted

    async def _answered_question(self, question_id: str, answer: QuestionAnswer) -> None:
        await self._answer_question(question_id, answer, "callback")

    async def _answer_question(
        self, question_id: str, answer: QuestionAnswer, by: Literal["person", "callback"]
    ) -> bool:
        control = asked.QuestionAnswer(
            id=new_call(),
            command_id=new_call(),
            session_id=self.id,
            question_id=question_id,
            action=answer.action,
            content=answer.content,
            by=by,
        )
        return (await self._socket.call(control, answers.Answered)).accepted

    async def _switch(self, category: str, value: str) -> None:
        self._check_open()
        setting = self.fold.setting(category)
        if setting is None:
            raise CapabilityMissing(
                f"{self.agent_name} offers no {_NAMES[category]} to choose from",
                capability=f"configOptions ({category})",
            )
        await self.set_option(setting.id, value)

    # -- for the runs

    @property
    def agent_name(self) -> str:
        return self._frames.session().agent or "the agent"

    @property
    def frames(self) -> int:
        """How many frames there were: a sign of life when it grows."""
        return self._frames.count

    @property
    def at_work(self) -> bool:
        """A tool runs, an answer is awaited, or nothing can be heard: silence then is no sign of a hang."""
        if self._paused or not self._socket.connected or self.fold.run is None:
            return True
        return self._asking.pending or self._frames.serving or self.fold.tool_calls.has_unfinished

    def cancel_run(self, run: Run) -> None:
        if not run.done and not run.cancelling:
            self._turns.cancel(run)
            self.wake_reader()

    def wake_reader(self) -> None:
        """Someone wants to hear more."""
        run = self._turns.get(self.fold.runs.current_id)
        if self._paused and not self._closed and (run is None or not run.full or run.hungry):
            self._paused = False
            self._socket.follow(self.id, self)

    def emit(self, run: Run | None, event: Event) -> None:
        if run is not None and run.wants_events:
            run.push(event)
        if self._on_event is not None:
            self._call(self._on_event, event)

    def stderr_tail(self) -> str:
        return self._live.problem.stderr if self._live.problem is not None else ""

    def explained(self, failure: DragomanError) -> DragomanError:
        """The failure with what only the server knows: the agent's last lines, its ways to log in."""
        problem = self._live.problem
        if problem is not None and isinstance(failure, AgentCrashed | AuthenticationRequired):
            told = error_of_problem(problem)
            if isinstance(told, type(failure)):
                return told
        return failure

    def _call(self, callback: Callable[..., None], *arguments: object) -> None:
        try:
            callback(*arguments)
        except Exception:
            # A defect of the program's is no reason to lose the session, and what is said in it next.
            logger.exception("a callback of session %s failed", self.id)

    def _do(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.get_running_loop().create_task(work, name=f"dragoman session {self.id}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
