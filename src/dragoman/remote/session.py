"""`RemoteSession`: a session on a server, for the program that drives it here. It keeps the promises of the ports.

Its state is folded here from the frames that the server sends; its runs are those of a local session, and end by a fact
in the fold. What the program does is sent as requests, each carried out once. Runs of other clients in the same session
are reported by `on_event`, like its own.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from types import TracebackType
from typing import Any, Final, Literal

from msgspec.structs import asdict, replace

from dragoman.errors import (
    AgentCrashed,
    AuthenticationRequired,
    CapabilityMissing,
    DragomanError,
    InputError,
    SessionBusy,
    SessionClosed,
)
from dragoman.host.permission import OnPermission, PermissionAnswer, PermissionRequest, answer_of
from dragoman.host.permission import Reply as PermissionReply
from dragoman.host.question.question import OnQuestion, Question, QuestionAnswer, read_question
from dragoman.journal import notes
from dragoman.journal.errors import FILE_ERROR_NAMES
from dragoman.protocol import requests
from dragoman.protocol.checkpoints import Checkpoint, Rewind, WorkspaceDiff
from dragoman.protocol.messages import FramesUpdate
from dragoman.protocol.models import Frame, SessionState
from dragoman.record import facts, rows
from dragoman.record.events import Event, event_from_fact
from dragoman.record.fold import SessionFold
from dragoman.remote.callbacks import Callbacks, permission_request
from dragoman.remote.connection import ServerConnection, new_request_id
from dragoman.remote.errors import session_error
from dragoman.remote.fold import FoldedFrame, RemoteFold
from dragoman.remote.git import RemoteGit
from dragoman.remote.run_queue import RemoteRunQueue, encode_prompt
from dragoman.session.capabilities import Capabilities
from dragoman.session.handle import SessionHandle, agent_settings, read_handle
from dragoman.session.lifecycle import CloseOnce, call_safely
from dragoman.session.options import CATEGORY_NAMES, OnEvent, check_run_options, check_skills
from dragoman.session.ports import SessionStatus
from dragoman.session.prompt import Input
from dragoman.session.run import Run
from dragoman.session.run_queue import STOPPED
from dragoman.session.session import new_id
from dragoman.wire.connection import copy_error
from dragoman.wire.messages import Request, Update

logger = logging.getLogger(__name__)

# Time for the effect of a request to arrive here, too. It is on its way already.
ECHO_TIMEOUT_S: Final = 10.0

# Time for a run to end after a cancel, and for the session to close after that. The server gives its agent a grace and
# ends it then, also when no client waits for it.
CANCEL_TIMEOUT_S: Final = 30.0


class RemoteSession:
    """Made by `Client.open_session`, `resume` and `session`."""

    def __init__(
        self,
        connection: ServerConnection,
        session_id: str,
        state: SessionState,
        *,
        on_permission: OnPermission | None = None,
        on_question: OnQuestion | None = None,
        on_event: OnEvent | None = None,
        owned: bool = True,
        history: bool = False,
    ) -> None:
        """`owned`: `close` ends it on the server. `history`: earlier frames are folded, but not reported as events."""
        self.id = session_id
        self.cursor: str | None = None
        self._connection = connection
        self._state = state
        self._on_event = on_event
        self._owned = owned
        self._is_replaying = history
        self._remote_fold = RemoteFold(session_id)
        self._next_fold: RemoteFold | None = None  # of the same frames, if the other one is outdated
        self._callbacks = Callbacks(
            on_permission,
            on_question,
            make_request=self._permission_request,
            make_question=self._question,
            answer_permission=self._answer_permission_by_callback,
            answer_question=self._answer_question_by_callback,
        )
        self._run_queue = RemoteRunQueue(connection, session_id, self._start_task)
        self._stopped: tuple[Run, rows.Run] | None = None  # a run that was stopped, and whose commands are being ended
        self._receipts: dict[str, asyncio.Event] = {}  # of commands whose effect a caller waits to see here
        self._ready = asyncio.Event()
        self._paused = False
        self._failure: DragomanError | None = None
        self._closed = False
        self._tasks: set[asyncio.Task[Any]] = set()
        self._close = CloseOnce(self._release, f"close session {session_id}")

    async def begin(self) -> None:
        """Follow the session; return when all its frames so far are folded."""
        self._connection.follow(self.id, self)
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
        skills: Sequence[str] | None = None,
    ) -> Run:
        """Send a prompt, or queue it behind the active run.

        `deadline` and `idle_limit` are seconds from the beginning of the run; `heartbeat` is called on every update.
        `skills` are names of the server's skills whose whole text goes with this prompt.
        """
        check_run_options({"deadline": deadline, "idle_limit": idle_limit, "when_busy": when_busy})
        self._check_open()
        encoded = encode_prompt(prompt, self.capabilities())
        busy = self._run_queue.active.id if self._run_queue.active is not None else self.fold.runs.current_id
        if busy is not None and when_busy == "raise":
            raise SessionBusy(f"session {self.id} is busy with run {busy}")
        run = Run(
            self,
            new_id(),
            deadline=deadline,
            idle_limit=idle_limit,
            heartbeat=heartbeat,
            skills=check_skills(skills),
        )
        self._run_queue.add(run, encoded, "queue" if when_busy == "queue" else "refuse")
        return run

    async def cancel(self) -> None:
        """Cancel the current run, whichever client began it, and our queue; return when the agent has stopped."""
        self._run_queue.cancel_queued()
        if (run := self._run_queue.any) is not None:
            await run.cancel()

    def status(self) -> SessionStatus:
        """idle, running, waiting (for an answer to a permission request or a question) or error."""
        if self._closed or self._error() is not None:
            return "error"
        if self._run_queue.active is None and self.fold.run is None:
            return "idle"
        return "waiting" if self._callbacks.has_pending else "running"

    @property
    def closed(self) -> bool:
        return self._closed

    @property
    def state(self) -> SessionState:
        """The session's state on the server: its connection to the agent, its queue, its last failure."""
        return self._state

    @property
    def fold(self) -> SessionFold:
        """The session's state, folded from the frames so far."""
        return self._remote_fold.fold

    def capabilities(self) -> Capabilities:
        """The agent's capabilities as the server reports them: without login methods and the raw answer."""
        fields = {name: value for name, value in asdict(self._state.capabilities).items() if name != "steering"}
        return Capabilities(**fields)

    def snapshot(self) -> SessionHandle:
        """A handle to resume the session on this server, by `Client.resume`."""
        row = self._remote_fold.session()
        if row.handle is None:
            raise InputError(f"session {self.id} cannot be continued: its agent's handle was not recorded")
        return replace(read_handle(row.handle), **agent_settings(self.fold), title=row.title)

    async def set_mode(self, mode: str) -> None:
        await self._switch("mode", mode)

    async def set_model(self, model: str) -> None:
        await self._switch("model", model)

    async def set_reasoning_effort(self, level: str) -> None:
        await self._switch("thought_level", level)

    async def set_option(self, option_id: str, value: str | bool) -> None:
        """Set one of the agent's own config options (`session.fold.settings` lists them)."""
        self._check_open()
        command_id = new_request_id()
        seen = self._receipts[command_id] = asyncio.Event()
        try:
            await self._connection.call(
                requests.SessionSetOption(command_id=command_id, session_id=self.id, option_id=option_id, value=value)
            )
            async with asyncio.timeout(ECHO_TIMEOUT_S):
                await seen.wait()
        except TimeoutError:
            logger.warning("session %s: the new value of %s has not arrived here yet", self.id, option_id)
        finally:
            del self._receipts[command_id]

    async def answer_permission(
        self, permission_id: str, reply: PermissionReply, *, by: Literal["person", "callback"] = "person"
    ) -> bool:
        """Answer a `permission.requested` event by its id, as `on_permission` would; the first answer counts.

        Return False where another answer was first, or the permission was withdrawn.
        """
        row = self.fold.permissions.get(permission_id)
        if row is None:
            raise InputError(f"session {self.id} was never asked {permission_id!r}")
        return await self._answer(permission_id, answer_of(self._permission_request(row), reply), by)

    async def answer_question(self, question_id: str, answer: QuestionAnswer) -> bool:
        """Answer a `question.asked` event by its id; return False where another answer was first."""
        return await self._answer_question(question_id, answer, answer.by or "person")

    @property
    def worktree(self) -> str | None:
        """The name of the git worktree on the server that the session works in, if it is in one."""
        return self.state.worktree

    async def checkpoints(self) -> tuple[Checkpoint, ...]:
        """Return the checkpoints of the workspace that this session took, the oldest first."""
        return (await self._connection.call(requests.CheckpointList(session_id=self.id))).checkpoints

    async def diff(
        self,
        run: Run | str | int | None = None,
        *,
        since_start: bool = False,
        path: str | None = None,
        offset: int = 0,
        first_line: int = 0,
    ) -> WorkspaceDiff:
        """Return the files that a run changed, with their lines, as `Session.diff` does."""
        request = requests.CheckpointDiff(
            session_id=self.id,
            run=_run_text(run),
            since_start=since_start,
            path=path,
            offset=offset,
            first_line=first_line,
        )
        return await self._connection.call(request)

    async def plan_rewind(
        self, run: Run | str | int | None = None, *, before: bool = False, undo: bool = False
    ) -> Rewind:
        """Return which files `rewind` would change, as `Session.plan_rewind` does. Needs the scope `admin`."""
        request = requests.CheckpointRewind(session_id=self.id, run=_run_text(run), before=before, undo=undo)
        return await self._connection.call(request)

    async def rewind(self, plan: Rewind) -> Rewind:
        """Do what a plan of `plan_rewind` says."""
        request = requests.CheckpointRewind(
            session_id=self.id, run=plan.run_id, before=plan.before, undo=plan.run_id is None, plan=plan.id
        )
        done = await self._connection.call(request)
        return replace(plan, is_done=done.is_done, operation=done.operation)

    @property
    def git(self) -> RemoteGit:
        """Git in the repository of the workspace, on the server."""
        return RemoteGit(self._connection, self.id)

    async def restart(self, *, reload: bool = True) -> None:
        """End the agent and start it again. Without `reload` it remembers nothing of the conversation."""
        if self._closed:
            raise SessionClosed(f"session {self.id} is closed")
        opened = await self._connection.call(requests.SessionRestart(session_id=self.id, reload=reload))
        self._state = opened.state

    async def close(self) -> None:
        """Cancel the current run and close the session on the server, where it can be read and resumed.

        A session that another client opened is left as it is. Closing twice is fine.
        """
        self._closed = True
        await self._close()

    async def leave(self) -> None:
        """Stop following the session; on the server it goes on."""
        self._owned = False
        await self.close()

    async def __aenter__(self) -> RemoteSession:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # -- checks

    def _check_open(self) -> None:
        if self._closed:
            raise SessionClosed(f"session {self.id} is closed")
        if (error := self._error()) is not None:
            raise error

    def _error(self) -> DragomanError | None:
        """Why the agent cannot be used now."""
        if self._failure is not None:
            return copy_error(self._failure)
        if self._state.connection in ("connected", "starting", "elsewhere"):
            return None
        if self._state.failure is not None:
            return session_error(self._state.failure)
        return SessionClosed(
            f"session {self.id} is not open on the server", guidance="Resume it: session.restart(reload=True)."
        )

    def _is_unrecorded(self) -> bool:
        """Return whether the server's journal failed: the end of a run will not be among its frames."""
        failure = self._state.failure
        is_lost = self._state.connection not in ("connected", "starting", "elsewhere")
        return is_lost and failure is not None and failure.kind in FILE_ERROR_NAMES

    # -- messages of the server

    def on_frames(self, update: FramesUpdate) -> None:
        if self._paused or update.after != self.cursor:
            return  # of an earlier subscription; it is sent again when reading goes on
        self.cursor = update.cursor
        if update.state is not None:
            self._state = update.state
        for frame in update.frames:
            if self._next_fold is not None:
                self._catch_up(self._next_fold, frame)
                continue
            folded = self._remote_fold.add(frame)
            if self._remote_fold.is_outdated:
                self._fold_again()
                return
            if folded is not None:
                self._publish(folded)
        (self._next_fold or self._remote_fold).drop_changes()
        if not update.more:
            for folded in self._remote_fold.fold_provisional():
                self._publish(folded)
            if not self._ready.is_set():
                self._finish_replay()
            self._callbacks.call_pending()
        if not update.more and self._is_unrecorded():
            self._run_queue.fail_all(self._error() or SessionClosed(f"session {self.id} is not recorded any more"))
        run = self._run_queue.get(self.fold.runs.current_id)
        if run is not None and run.full and not run.hungry:
            self._paused = True
            self._connection.unfollow(self.id)

    def _fold_again(self) -> None:
        """Read the session from its beginning: the run that seemed to be over goes on."""
        self._next_fold, self.cursor = RemoteFold(self.id), None
        self._connection.unfollow(self.id)
        self._connection.follow(self.id, self)

    def _catch_up(self, fold: RemoteFold, frame: Frame) -> None:
        """Fold a frame again that was published before; after the last of them, the new fold replaces the old one."""
        fold.add(frame)
        if fold.count == self._remote_fold.count - 1:  # the last one of the old fold showed that it is outdated
            self._remote_fold, self._next_fold = fold, None
            self._follow_current_run()

    def _finish_replay(self) -> None:
        self._is_replaying = False
        self._follow_current_run()
        self._ready.set()

    def _follow_current_run(self) -> None:
        """Take note of the run that goes on, so that its end is reported."""
        if self.fold.runs.current_id is not None:
            self._current_run(self.fold.runs.current_id)

    def _current_run(self, run_id: str) -> Run:
        """A run that goes on: ours, or one that another client began."""
        run = self._run_queue.get(run_id)
        if run is None:
            run = Run(self, run_id, deadline=None, idle_limit=None, heartbeat=None)
            self._run_queue.adopt(run)
        return run

    def _publish(self, folded: FoldedFrame) -> None:
        if isinstance(folded.note, notes.Receipt) and (seen := self._receipts.get(folded.note.command_id)) is not None:
            seen.set()
        run_id = folded.run_id or (self._stopped[0].id if self._stopped is not None else None)
        run = self._run_queue.get(run_id)
        if run is not None and run.heartbeat is not None and type(folded.message) is Update:
            call_safely(self.id, run.heartbeat)
        line = getattr(folded.message, "line", None)
        for fact in folded.facts:
            self._callbacks.on_fact(fact, folded.message)
            if self._is_replaying:
                continue
            if isinstance(fact, facts.RunStarted):
                self._finish_stopped()
                run = self._current_run(fact.run.id)
                self._run_queue.on_started(run)
            if isinstance(fact, facts.RunEnded):
                self._run_ended(fact.run)
                run = None
            elif self._on_event is not None or (run is not None and run.wants_events):
                event = event_from_fact(fact, folded.at, self.id, run_id, line)
                if event is not None:
                    self.emit(run if run is not None and event.run_id == run.id else None, event)
        if self._stopped is not None and not self._has_commands(self._stopped[1]):
            self._finish_stopped()

    def _run_ended(self, row: rows.Run) -> None:
        run = self._run_queue.get(row.id)
        if run is None:
            return
        self._stopped = run, row
        if (run.cancelling or row.status in STOPPED) and self._has_commands(row):
            # The server ends them, and the run is active until then. Their end is not recorded if it dies meanwhile.
            asyncio.get_running_loop().call_later(CANCEL_TIMEOUT_S, self._finish_stopped, run)
        else:
            self._finish_stopped()

    def _has_commands(self, row: rows.Run) -> bool:
        """Return whether commands of the run are being ended on the server."""
        handle = self._remote_fold.session().handle
        if handle is not None and read_handle(handle).keep_terminals:
            return False
        return any(each.run_id == row.id and each.status == "running" for each in self.fold.terminals.values())

    def _finish_stopped(self, only: Run | None = None) -> None:
        if self._stopped is None or (only is not None and only is not self._stopped[0]):
            return
        (run, row), self._stopped = self._stopped, None
        self._run_queue.remove(run)
        run.ended(row)

    def on_lost(self, error: DragomanError) -> None:
        """End all runs here: nothing more will be received. On the server they may go on."""
        self._failure = error
        self._ready.set()
        self._callbacks.close()
        self._run_queue.fail_all(error)

    async def _release(self) -> None:
        try:
            if self._owned and self._failure is None:
                await self._end()
        except (DragomanError, TimeoutError) as error:
            logger.warning("session %s may still be open on the server: %s", self.id, error or "no answer")
        finally:
            self._connection.unfollow(self.id)
            how = "is closed" if self._owned else "is no longer followed here"
            self.on_lost(self._failure or SessionClosed(f"session {self.id} {how}"))
            for task in self._tasks:
                task.cancel()
            if self._tasks:
                await asyncio.wait(self._tasks)

    async def _end(self) -> None:
        self._run_queue.cancel_queued()
        if (run := self._run_queue.active) is not None:
            self.cancel_run(run)
            await run.ended_within(CANCEL_TIMEOUT_S)
        async with asyncio.timeout(CANCEL_TIMEOUT_S):
            await self._connection.call(requests.SessionClose(session_id=self.id))

    # -- answers

    def _permission_request(self, row: rows.Permission) -> PermissionRequest:
        return permission_request(row, self.fold.tool_calls, self.id, self._agent(), self._remote_fold.session().cwd)

    def _question(self, request: Request) -> Question:
        return read_question(request, agent=self._agent(), session_id=self.id)

    def _agent(self) -> str:
        """The agent's id, or its name where it has none."""
        session = self._remote_fold.session()
        return (read_handle(session.handle).agent if session.handle is not None else None) or session.agent

    async def _answer_permission_by_callback(self, permission_id: str, answer: PermissionAnswer) -> None:
        await self._answer(permission_id, answer, "callback")

    async def _answer(self, permission_id: str, answer: PermissionAnswer, by: Literal["person", "callback"]) -> bool:
        cancelled = answer.outcome == "cancelled"
        request = requests.PermissionAnswer(
            session_id=self.id,
            permission_id=permission_id,
            option_id=answer.option_id,
            answer=("reject" if answer.always else "cancel") if cancelled else None,
            always=answer.always,
            only_files=answer.only_files,
            by=by,
        )
        return (await self._connection.call(request)).accepted

    async def _answer_question_by_callback(self, question_id: str, answer: QuestionAnswer) -> None:
        await self._answer_question(question_id, answer, "callback")

    async def _answer_question(
        self, question_id: str, answer: QuestionAnswer, by: Literal["person", "callback"]
    ) -> bool:
        request = requests.QuestionAnswer(
            session_id=self.id,
            question_id=question_id,
            action=answer.action,
            content=answer.content,
            by=by,
        )
        return (await self._connection.call(request)).accepted

    async def _switch(self, category: str, value: str) -> None:
        self._check_open()
        setting = self.fold.setting(category)
        if setting is None:
            raise CapabilityMissing(
                f"{self.agent_name} offers no {CATEGORY_NAMES.get(category, category)} to choose from",
                capability=f"configOptions ({category})",
            )
        await self.set_option(setting.id, value)

    # -- for the runs

    @property
    def agent_name(self) -> str:
        return self._remote_fold.session().agent or "the agent"

    @property
    def frames(self) -> int:
        """The number of frames so far: a sign of life when it grows."""
        return self._remote_fold.count

    @property
    def at_work(self) -> bool:
        """A tool runs, an answer is pending, or nothing is received: silence is no sign of a hang then."""
        if self._paused or not self._connection.is_connected or self.fold.run is None:
            return True
        return self._callbacks.has_pending or self._remote_fold.is_serving or self.fold.tool_calls.has_unfinished

    def cancel_run(self, run: Run) -> None:
        if not run.done and not run.cancelling:
            self._run_queue.cancel(run)
            self.wake_reader()

    def wake_reader(self) -> None:
        """Continue reading: a program wants more events."""
        run = self._run_queue.get(self.fold.runs.current_id)
        if self._paused and not self._closed and (run is None or not run.full or run.hungry):
            self._paused = False
            self._connection.follow(self.id, self)

    def emit(self, run: Run | None, event: Event) -> None:
        if run is not None and run.wants_events:
            run.push([event])
        if self._on_event is not None:
            call_safely(self.id, self._on_event, event)

    def stderr_tail(self) -> str:
        return self._state.failure.stderr if self._state.failure is not None else ""

    def explained(self, failure: DragomanError) -> DragomanError:
        """The failure with what only the server knows: the agent's last lines, its login methods."""
        reported = self._state.failure
        if reported is not None and isinstance(failure, AgentCrashed | AuthenticationRequired):
            error = session_error(reported)
            if isinstance(error, type(failure)):
                return error
        return failure

    def _start_task(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.get_running_loop().create_task(work, name=f"dragoman session {self.id}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _run_text(run: Run | str | int | None) -> str | None:
    return run.id if isinstance(run, Run) else None if run is None else str(run)
