"""`OwnedSession`: a session that this process has open, and what others want of it.

Commands come through the journal's inbox, from any process. Promised: each is carried out once; what a command did and
its receipt are in one commit. A prompt that has to wait stays in the inbox without a receipt until its turn, and so do
the commands that edited or moved it: what was queued when a process died is found again by the next owner of the
session, as it was, and waits there for a person.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import msgspec

from dragoman.errors import DragomanError, InputError, SessionBusy, SessionClosed
from dragoman.hub import commands
from dragoman.hub.asking import answer_question, reply_to
from dragoman.hub.commands import Outcome
from dragoman.hub.prompting import parts_of
from dragoman.journal import notes
from dragoman.journal.errors import JournalError
from dragoman.journal.protocols import Command as Sent
from dragoman.session.prompt_queue import PromptQueue
from dragoman.session.session import Session

if TYPE_CHECKING:
    from dragoman.session.journal_client import JournalClient
    from dragoman.session.run import Run

logger = logging.getLogger(__name__)

Connection: TypeAlias = Literal["starting", "connected", "disconnected", "error"]

# Prompts that may wait for one session. All who follow it are shown all of them, whenever one changes.
MAX_QUEUED_PROMPTS: Final = 100

# Seconds of a wait that is begun again when they are over.
LONG: Final = 3600.0

LEFT_BEHIND: Final = "the process that had the session ended before this was done"


class Queued(msgspec.Struct, frozen=True):
    """A prompt that waits for its turn. `id` is its command's; `changes` are the ids of those that edited or moved it,
    which are done when it is."""

    id: str
    prompt: commands.Prompt
    time: float
    how: Literal["started", "cancelled_first"] = "started"
    changes: tuple[str, ...] = ()


class OwnedSession:
    """`changed` is called whenever it may stand otherwise with the session than before. `stays`: also when it was
    closed, or its agent is gone, until the hub drops it. `home` is our own folder."""

    def __init__(
        self, session_id: str, journal_client: JournalClient, changed: Callable[[], None], *, stays: bool, home: Path
    ) -> None:
        self.id = session_id
        self.stays = stays
        self.session: Session | None = None
        self.connection: Connection = "starting"
        self.problem: DragomanError | None = None  # what last went wrong with it; None once it goes well again
        self.queue: PromptQueue[Queued] = PromptQueue(max_prompts=MAX_QUEUED_PROMPTS, on_change=changed)
        self._journal_client = journal_client
        self._home = home
        self._changed = changed
        self.opening: asyncio.Task[Session] | None = None
        self.given_up = False  # while it was being opened
        self._watched: Run | None = None  # that somebody else began, and prompts wait for
        self._early: set[str] = set()  # prompts that were sent while it was being opened
        self._outcomes: dict[str, asyncio.Future[Outcome]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._beginning = asyncio.Lock()

    # -- the session

    def opened(self, session: Session) -> None:
        """The agent has it. What an earlier owner left in the queue is there again."""
        self.session = session
        self.connection = "connected"
        self.problem = None
        session.on_lost = self._lost
        self.queue.clear()  # what came early is in the inbox, with the rest
        self._do(self._take_over())
        self._changed()

    def failed(self, problem: DragomanError) -> None:
        """The agent could not be had."""
        self.session = None
        self.connection = "error"
        self.problem = problem
        self._changed()

    def _lost(self, failure: DragomanError) -> None:
        self.connection = "disconnected"
        self.problem = failure
        self.queue.paused = bool(self.queue)
        self._changed()

    def give_up(self) -> None:
        """Nobody wants it any more, though it is still being opened."""
        if self.opening is not None:
            self.given_up = True
            self.opening.cancel()

    async def close(self) -> None:
        """Ends the session here. What is queued stays in the inbox."""
        if self.opening is not None:
            self.give_up()
            await asyncio.wait([self.opening])
        session, self.session = self.session, None
        self.connection = "disconnected"
        self.queue.clear()
        if session is not None:
            session.on_lost = None
            await session.close()
        tasks = self._tasks - {asyncio.current_task()}  # it may be one of them that closes
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        for future in self._outcomes.values():
            _fail(future, self._was_closed())

    def _was_closed(self) -> SessionClosed:
        return SessionClosed(f"session {self.id} was closed")

    def _living(self) -> Session:
        if self.session is None:
            raise SessionClosed(f"session {self.id} is not open", guidance="Continue it first, then try again.")
        return self.session

    # -- commands

    def outcome(self, command_id: str) -> asyncio.Future[Outcome]:
        """What comes of a command. To be asked for before it is taken from the inbox."""
        return self._outcomes.setdefault(command_id, asyncio.get_running_loop().create_future())

    def waiting(self, command_id: str) -> Outcome | None:
        """What came of a command that is in the queue, or changed something there."""
        for queued in self.queue:
            if queued.id == command_id:
                return Outcome(queued_id=command_id, how="queued")
            if command_id in queued.changes:
                return Outcome()
        return None

    def expects(self, command_id: str, command: commands.Command) -> bool:
        """Whether it can be done, now or when the agent that is being started is there. To be asked for before it is
        sent."""
        if self.session is not None:
            return True
        if self.opening is None or not isinstance(command, commands.Prompt) or command.when == "refuse":
            return False
        self.queue.check_room()
        self._early.add(command_id)
        return True

    async def sent(self, sent: Sent, command: commands.Command, outcome: asyncio.Future[Outcome]) -> Outcome:
        """It was expected, and is in the inbox now: what comes of it."""
        if self.session is None and sent.id in self._early and isinstance(command, commands.Prompt):
            self.queue.add(sent.id, Queued(sent.id, command, sent.at))
            return Outcome(queued_id=sent.id, how="queued")
        await self.drain()
        return await outcome

    async def drain(self) -> None:
        """Takes what is in the inbox, and begins with all of it."""
        for sent in await self._take():
            self.outcome(sent.id)
            self._do(self._carry_out(sent))

    async def _take_over(self) -> None:
        """The same, in its order, once the agent is all set. What an earlier owner left behind: prompts are queued
        as they were, and wait for a person; the rest is refused."""
        taken = await self._take()
        if self.opening is not None:
            await asyncio.wait([self.opening])
        for sent in taken:
            await self._carry_out(sent, left_behind=sent.id not in self._early)

    async def _take(self) -> Sequence[Sent]:
        epoch = self._journal_client.epochs.get(self.id)
        if epoch is None or self.session is None:
            return ()
        return await self._journal_client.journal.take_commands(self.id, epoch)

    async def _carry_out(self, sent: Sent, *, left_behind: bool = False) -> None:
        future = self.outcome(sent.id)
        try:
            command = commands.read(sent.body)
            if isinstance(command, commands.Prompt):
                outcome = await self._prompted(sent, command, wait=left_behind)
            elif isinstance(command, commands.EditQueued | commands.MoveQueued):
                outcome = self._rearranged(sent.id, command)
            else:
                outcome = await self._done(command, left_behind=left_behind)
                await self._receipt(sent.id, "done", outcome)
        except asyncio.CancelledError:
            _fail(future, self._was_closed())
            raise
        except Exception as problem:
            if not isinstance(problem, DragomanError):
                logger.exception("session %s: a command failed", self.id)
            await self._receipt(sent.id, "refused", problem)
            _fail(future, problem)
        else:
            if not future.done():
                future.set_result(outcome)
        finally:
            self._outcomes.pop(sent.id, None)
            self._changed()

    async def _receipt(self, command_id: str, outcome: str, detail: Outcome | Exception) -> None:
        """Returns when it is kept. What was done just before is in the same commit."""
        if self.session is None:
            return  # its next owner finds the command, and refuses it
        match detail:
            case Outcome():
                said = msgspec.json.encode(detail).decode()
            case DragomanError():
                said = str(detail)
            case _:
                said = "something went wrong inside Dragoman"
        note = notes.write(notes.Receipt(command_id=command_id, outcome=outcome, detail=said))
        try:
            await self.session.record_note(note)
        except JournalError:
            logger.warning("session %s: a receipt could not be kept", self.id)

    async def _done(self, command: commands.Command, *, left_behind: bool) -> Outcome:
        if left_behind:
            raise InputError(LEFT_BEHIND)
        session = self._living()
        match command:
            case commands.Cancel(run_id=run_id):
                if run_id is None or (session.active is not None and session.active.id == run_id):
                    self.queue.paused = bool(self.queue)
                    await session.cancel()
            case commands.AnswerPermission(permission_id=permission_id, by=by):
                return Outcome(accepted=session.answer_permission(permission_id, reply_to(session, command), by=by))
            case commands.AnswerQuestion():
                return Outcome(accepted=await answer_question(session, command))
            case commands.SetOption(option_id=option_id, value=value):
                await session.set_option(option_id, value)
            case commands.SetMode(mode=mode):
                await session.set_mode(mode)
            case commands.SendQueued(queued_id=queued_id):
                how: Literal["started", "cancelled_first"] = "cancelled_first" if session.active else "started"
                self.queue.edit(queued_id, msgspec.structs.replace(self.queue[queued_id], how=how))
                self.queue.move(queued_id, 0)
                self.queue.paused = False
                if session.active is not None:
                    await session.cancel()
                self._do(self._next())
                return Outcome(queued_id=queued_id, how=how)
            case commands.RemoveQueued(queued_id=queued_id):
                queued = self.queue.remove(queued_id)
                await self._left_queue(queued, "refused", InputError("it was taken out of the queue"))
            case commands.Close():
                self._do(self.close())
            case commands.Prompt() | commands.EditQueued() | commands.MoveQueued():
                raise AssertionError("what is queued goes its own way")
        return Outcome()

    def _rearranged(self, command_id: str, command: commands.EditQueued | commands.MoveQueued) -> Outcome:
        """It has no receipt before the prompt has one: until then it is to be found again with it."""
        queued = self.queue[command.queued_id]
        queued = msgspec.structs.replace(queued, changes=(*queued.changes, command_id))
        if isinstance(command, commands.EditQueued):
            prompt = msgspec.structs.replace(queued.prompt, text=command.text)
            queued = msgspec.structs.replace(queued, prompt=prompt)
        self.queue.edit(queued.id, queued)
        if isinstance(command, commands.MoveQueued):
            self.queue.move(queued.id, command.to)
        return Outcome()

    async def _left_queue(self, queued: Queued, outcome: str, detail: Outcome | Exception) -> None:
        await self._receipt(queued.id, outcome, detail)
        for command_id in queued.changes:
            await self._receipt(command_id, "done", Outcome())

    # -- prompts

    async def _prompted(self, sent: Sent, prompt: commands.Prompt, *, wait: bool) -> Outcome:
        queued = Queued(sent.id, prompt, sent.at)
        if wait:
            self.queue.add(queued.id, queued)
            self.queue.paused = True
            return Outcome(queued_id=sent.id, how="queued")
        session = self._living()
        if session.failure is not None:
            raise session.failure
        async with self._beginning:
            if session.active is None and (self.queue.paused or not self.queue):
                return await self._begin(queued)
        self.queue.check_room()
        if prompt.when == "refuse":
            raise SessionBusy(
                f"session {self.id} is busy with a run", guidance="Wait for it, queue this, or cancel it."
            )
        self._wait_for(session.active)
        if prompt.when == "queue":
            self.queue.add(queued.id, queued)
            return Outcome(queued_id=sent.id, how="queued")
        self.queue.add(queued.id, msgspec.structs.replace(queued, how="cancelled_first"), first=True)
        self.queue.paused = False
        await session.cancel()
        return Outcome(queued_id=sent.id, how="cancelled_first")

    async def _begin(self, queued: Queued) -> Outcome:
        session = self._living()
        parts = await parts_of(queued.prompt, session.config.workspace, self._home)
        run = session.begin(parts, run_id=queued.prompt.run_id)
        outcome = Outcome(run_id=run.id, how=queued.how)
        self.queue.paused = False
        self.problem = None
        self._watched = run
        self._do(self._see_through(run))
        await self._left_queue(queued, "done", outcome)
        return outcome

    async def _see_through(self, run: Run) -> None:
        try:
            await run
        except DragomanError as problem:
            self.problem = problem
        finally:
            self._changed()
        self._let_go(run)
        await self._next()

    def _let_go(self, run: Run) -> None:
        """What was said is committed, and read from the journal. A server that kept it too would grow with all that was
        ever said in its sessions."""
        if self._watched is run:
            self._watched = None
        if self.stays and self.session is not None:
            self.session.fold.messages.drop_contents(run.id)

    def _wait_for(self, run: Run | None) -> None:
        """One that a program in this process began: what is queued has its turn after it."""
        if run is not None and run is not self._watched:
            self._watched = run
            self._do(self._after(run))

    async def _after(self, run: Run) -> None:
        while not await run.ended_within(LONG):  # not awaited itself: its events are its program's
            pass
        await self._next()

    async def _next(self) -> None:
        """The turn of what is queued: the first that can be sent."""
        async with self._beginning:
            while self.session is not None and self.session.active is None:
                queued = self.queue.pop_next()
                if queued is None:
                    return
                try:
                    await self._begin(queued)
                except Exception as problem:
                    if isinstance(problem, DragomanError):
                        self.problem = problem
                    else:
                        logger.exception("session %s: what was queued could not be sent", self.id)
                    await self._left_queue(queued, "refused", problem)
                self._changed()

    def _do(self, work: object) -> None:
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(
            work,  # type: ignore[arg-type]  # a coroutine; its own type says nothing more
            name=f"dragoman session {self.id}",
        )
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (problem := task.exception()) is not None:
            logger.error("session %s: %s", self.id, problem, exc_info=problem)


def _fail(future: asyncio.Future[Outcome], problem: Exception) -> None:
    if not future.done():
        future.set_exception(problem)
        future.exception()  # nobody may be waiting
