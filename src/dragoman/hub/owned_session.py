"""`OwnedSession`: a session that this process owns, its queue of prompts, and the commands that others send to it.

Commands come through the journal's inbox, from any process. Promised: each is carried out once; its effect and its
receipt are in one commit. A command that this process sends to its own session is handed over as an object and never
read back. A prompt that has to wait stays in the inbox without a receipt until it is sent, and so do the commands that
edited or moved it: what was queued when a process died is found again by the next owner of the session, as it was, and
waits there for a person.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import msgspec

from dragoman.errors import DragomanError, InputError, ScopeMissing, SessionBusy, SessionClosed
from dragoman.hub import commands
from dragoman.hub.commands import FORBIDDEN, Outcome, SentCommand, reply_to, request_parts
from dragoman.hub.scopes import check_attachment, check_command
from dragoman.journal import notes
from dragoman.journal.errors import JournalError
from dragoman.journal.protocols import InboxCommand
from dragoman.protocol import requests
from dragoman.protocol.checkpoints import Rewind
from dragoman.protocol.messages import Scope, includes
from dragoman.record.notes import write as write_note
from dragoman.session.journal_client import JournalClient
from dragoman.session.run import Run
from dragoman.session.run_checkpoints import words_for
from dragoman.session.run_queue import PromptQueue
from dragoman.session.session import Session

logger = logging.getLogger(__name__)

ConnectionState: TypeAlias = Literal["starting", "connected", "disconnected", "error"]

# Prompts that may wait for one session. Everyone who follows it is shown all of them, whenever one changes.
MAX_QUEUED_PROMPTS: Final = 100

LEFT_BEHIND: Final = "the process that had the session ended before this was done"


class QueuedPrompt(msgspec.Struct, frozen=True):
    """A prompt that waits until the session is free. `id` is its command's; `changes` are the ids of the commands that
    edited or moved it, which get their receipts with it. `scope` is the lowest of all clients that wrote it."""

    id: str
    prompt: requests.SessionPrompt
    time: float
    scope: Scope
    how: Literal["started", "cancelled_first"] = "started"
    changes: tuple[str, ...] = ()


class OwnedSession:
    """`on_change` is called after every change of connection, queue or error.

    A session that `stays` is shown also when it was closed, or its agent is gone, until the hub closes it. `home` is
    our own folder.
    """

    def __init__(
        self, session_id: str, journal_client: JournalClient, on_change: Callable[[], None], *, stays: bool, home: Path
    ) -> None:
        self.id = session_id
        self.stays = stays
        self.session: Session | None = None
        self.connection: ConnectionState = "starting"
        self.error: DragomanError | None = None  # what last went wrong with it; None once it goes well again
        self.queue: PromptQueue[QueuedPrompt] = PromptQueue(max_prompts=MAX_QUEUED_PROMPTS, on_change=on_change)
        self.opening: asyncio.Task[Session] | None = None
        self.was_abandoned = False  # while it was being opened
        self._journal_client = journal_client
        self._home = home
        self._on_change = on_change
        self._watched_run: Run | None = None  # the run after which the queue goes on
        self._early_prompts: dict[str, SentCommand] = {}  # sent while the session was being opened
        # Of the commands that are being carried out, by id; None where the id was used before.
        self._outcomes: dict[str, asyncio.Future[Outcome | None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._beginning = asyncio.Lock()

    # -- the session

    def on_opened(self, session: Session) -> None:
        """Take the session that the agent has opened, and the commands that an earlier owner left in the inbox."""
        self.session = session
        self.connection = "connected"
        self.error = None
        session.on_lost = self._on_lost
        self.queue.clear()  # early prompts are in the inbox, with the rest
        self._start_task(self._take_over())
        self._on_change()

    def on_failed(self, error: DragomanError) -> None:
        """Take note that the agent could not be started, or did not open the session."""
        self.session = None
        self.connection = "error"
        self.error = error
        self._on_change()

    def _on_lost(self, failure: DragomanError) -> None:
        self.connection = "disconnected"
        self.error = failure
        self.queue.paused = bool(self.queue)
        self._on_change()

    def abandon_opening(self) -> None:
        """Stop opening the session: it is not needed any more."""
        if self.opening is not None:
            self.was_abandoned = True
            self.opening.cancel()

    async def close(self) -> None:
        """End the session here. What is queued stays in the inbox."""
        if self.opening is not None:
            self.abandon_opening()
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
        for outcome in self._outcomes.values():
            _fail(outcome, self._closed_error())

    def _closed_error(self) -> SessionClosed:
        return SessionClosed(f"session {self.id} was closed")

    def _open_session(self) -> Session:
        if self.session is None:
            raise SessionClosed(f"session {self.id} is not open", guidance="Continue it first, then try again.")
        return self.session

    # -- commands

    @property
    def epoch(self) -> int | None:
        """The claim under which this process owns the session; None before the agent has it."""
        return self._journal_client.epochs.get(self.id) if self.session is not None else None

    def expects(self, command: commands.Command) -> bool:
        """Return whether a command can be carried out, now or once the agent that is being started is there.

        Raises `SessionBusy` for a prompt that would have to wait where too many wait already.
        """
        if self.session is not None:
            return True
        if self.opening is None or not isinstance(command, requests.SessionPrompt) or command.when == "refuse":
            return False
        self.queue.check_room()
        return True

    async def outcome_of(self, command_id: str) -> Outcome | None:
        """Return the outcome of a command that is being carried out, is in the queue, or changed something there."""
        if (pending := self._outcomes.get(command_id)) is not None:
            return await asyncio.shield(pending)
        for queued in self.queue:
            if queued.id == command_id:
                return Outcome(queued_id=command_id, how="queued")
            if command_id in queued.changes:
                return Outcome()
        return None

    async def send(self, stored: InboxCommand, sent: SentCommand) -> Outcome | None:
        """Store a command of this process in the inbox and carry it out. None where its id was used before."""
        if stored.id in self._outcomes:
            return None
        if self.session is None:
            return await self._send_early(stored, sent)
        if self.epoch is None:
            raise self._closed_error()
        pending = self._expect(stored.id)
        # In a task: a caller that gives up must not leave a command that was stored and is not carried out.
        self._start_task(self._store_and_carry_out(stored, sent, self.epoch))
        return await asyncio.shield(pending)

    async def _store_and_carry_out(self, stored: InboxCommand, sent: SentCommand, epoch: int) -> None:
        pending = self._outcomes[stored.id]
        try:
            # Stored as taken by us: it is read from the inbox only if this process dies before its receipt.
            is_new = await self._journal_client.journal.send_command(stored, taken_epoch=epoch)
        except BaseException as error:
            self._outcomes.pop(stored.id, None)
            _fail(pending, error if isinstance(error, Exception) else self._closed_error())
            if not isinstance(error, DragomanError):
                raise
            return
        if is_new:
            await self._carry_out(stored, sent)
        else:
            self._outcomes.pop(stored.id, None)
            if not pending.done():
                pending.set_result(None)

    async def _send_early(self, stored: InboxCommand, sent: SentCommand) -> Outcome | None:
        """Queue a prompt for a session that is being opened. `_take_over` takes it from the inbox."""
        assert isinstance(sent.command, requests.SessionPrompt)
        is_first = stored.id not in self._early_prompts
        if is_first:
            self._early_prompts[stored.id] = sent
        if not await self._journal_client.journal.send_command(stored):
            if is_first:
                self._early_prompts.pop(stored.id, None)
            return None
        if self.session is None:
            self.queue.add(stored.id, QueuedPrompt(stored.id, sent.command, stored.at, sent.scope))
            return Outcome(queued_id=stored.id, how="queued")
        pending = self._expect(stored.id)
        await self.drain()  # it was opened meanwhile, and the inbox perhaps looked at before
        return await asyncio.shield(pending)

    def _expect(self, command_id: str) -> asyncio.Future[Outcome | None]:
        return self._outcomes.setdefault(command_id, asyncio.get_running_loop().create_future())

    async def drain(self) -> None:
        """Take the commands that other processes put into the inbox, and begin with all of them."""
        for stored in await self._take():
            self._expect(stored.id)
            self._start_task(self._carry_out(stored, self._early_prompts.get(stored.id)))

    async def _take_over(self) -> None:
        """Take the inbox in its order, once the agent is all set.

        Prompts that an earlier owner left behind are queued as they were, and wait for a person; its other commands are
        refused.
        """
        taken = await self._take()
        if self.opening is not None:
            await asyncio.wait([self.opening])
        for stored in taken:
            early = self._early_prompts.get(stored.id)
            await self._carry_out(stored, early, left_behind=early is None)

    async def _take(self) -> list[InboxCommand]:
        epoch = self.epoch
        if epoch is None:
            return []
        return list(await self._journal_client.journal.take_commands(self.id, epoch))

    async def _carry_out(self, stored: InboxCommand, sent: SentCommand | None, *, left_behind: bool = False) -> None:
        """Carry out a command; it is read from the inbox only where another process sent it (`sent` is None)."""
        pending = self._expect(stored.id)
        try:
            sent = sent or commands.decode(stored.body)
            command = sent.command
            if not left_behind:
                check_command(self._open_session(), command, sent.scope, self._home)
            if isinstance(command, requests.SessionPrompt):
                queued = QueuedPrompt(stored.id, command, stored.at, sent.scope)
                outcome = await self._prompt(queued, left_behind=left_behind)
            elif isinstance(command, requests.QueueEdit | requests.QueueMove):
                outcome = self._change_queue(stored.id, command, sent.scope)
            else:
                outcome = await self._execute(command, left_behind=left_behind)
                await self._receipt(stored.id, "done", outcome)
        except asyncio.CancelledError:
            _fail(pending, self._closed_error())
            raise
        except Exception as error:
            if not isinstance(error, DragomanError):
                logger.exception("session %s: a command failed", self.id)
            await self._receipt(stored.id, _refusal(error), error)
            _fail(pending, error)
        else:
            if not pending.done():
                pending.set_result(outcome)
        finally:
            self._outcomes.pop(stored.id, None)
            self._early_prompts.pop(stored.id, None)
            self._on_change()

    async def _receipt(
        self, command_id: str, outcome: str, detail: Outcome | Exception, *, changes: Sequence[str] = ()
    ) -> None:
        """Return when the receipt is committed, with those of the `changes` that were made to a queued prompt.

        All of them, and what was done just before, are in one commit.
        """
        if self.session is None:
            return  # its next owner finds the command, and refuses it
        receipts = [notes.Receipt(command_id=command_id, outcome=outcome, detail=_receipt_detail(detail))]
        receipts += [
            notes.Receipt(command_id=change, outcome="done", detail=_receipt_detail(Outcome())) for change in changes
        ]
        # Each is taken before the first is awaited: a commit between them would leave some out.
        committed = [self.session.record_note(notes.write(receipt)) for receipt in receipts]
        try:
            await asyncio.gather(*committed)
        except JournalError:
            logger.warning("session %s: a receipt could not be stored", self.id)

    async def _execute(self, command: commands.Command, *, left_behind: bool) -> Outcome:
        if left_behind:
            raise InputError(LEFT_BEHIND)
        session = self._open_session()
        match command:
            case requests.SessionCancel(run_id=run_id):
                if run_id is None or (session.active is not None and session.active.id == run_id):
                    self.queue.paused = bool(self.queue)
                    await session.cancel()
            case requests.PermissionAnswer(permission_id=permission_id, by=by):
                return Outcome(accepted=session.settle_permission(permission_id, reply_to(session, command), by=by))
            case requests.QuestionAnswer():
                return Outcome(accepted=await answer_question(session, command))
            case requests.SessionSetOption(option_id=option_id, value=value):
                await session.set_option(option_id, value)
            case requests.SessionSetMode(mode=mode):
                await session.set_mode(mode)
            case requests.QueueSend(queued_id=queued_id):
                how: Literal["started", "cancelled_first"] = "cancelled_first" if session.active else "started"
                self.queue.edit(queued_id, msgspec.structs.replace(self.queue[queued_id], how=how))
                self.queue.move(queued_id, 0)
                self.queue.paused = False
                if session.active is not None:
                    await session.cancel()
                self._start_task(self._begin_next())
                return Outcome(queued_id=queued_id, how=how)
            case requests.QueueRemove(queued_id=queued_id):
                queued = self.queue.remove(queued_id)
                await self._receipt(
                    queued.id, "refused", InputError("it was taken out of the queue"), changes=queued.changes
                )
            case requests.CheckpointRewind(run=run, before=before, plan=str(plan_id)):
                target = words_for(tuple(session.fold.runs), run, before=before)
                await session.rewind(Rewind(id=plan_id, target=target, run_id=run, before=before, changes=()))
            case requests.CheckpointRewind():
                raise InputError("a rewind needs the id of its plan")
            case commands.GitActionNoted(note=note):
                await session.record_note(write_note(note))
            case requests.SessionClose():
                self._start_task(self.close())
            case requests.SessionPrompt() | requests.QueueEdit() | requests.QueueMove():
                raise AssertionError("prompts and changes of the queue are handled by _carry_out")
        return Outcome()

    # -- prompts and the queue

    def _change_queue(self, command_id: str, command: requests.QueueEdit | requests.QueueMove, scope: Scope) -> Outcome:
        """Edit or move a prompt. The command gets its receipt with the prompt: until then the inbox holds both."""
        queued = self.queue[command.queued_id]
        queued = msgspec.structs.replace(queued, changes=(*queued.changes, command_id))
        if isinstance(command, requests.QueueEdit):
            prompt = msgspec.structs.replace(queued.prompt, text=command.text)
            lowest = scope if includes(queued.scope, scope) else queued.scope
            queued = msgspec.structs.replace(queued, prompt=prompt, scope=lowest)
        self.queue.edit(queued.id, queued)
        if isinstance(command, requests.QueueMove):
            self.queue.move(queued.id, command.to)
        return Outcome()

    async def _prompt(self, queued: QueuedPrompt, *, left_behind: bool) -> Outcome:
        if left_behind:
            self.queue.add(queued.id, queued)
            self.queue.paused = True
            return Outcome(queued_id=queued.id, how="queued")
        session = self._open_session()
        if session.failure is not None:
            raise session.failure
        if queued.prompt.when == "refuse":
            await session.finish_ended_run()  # its client knows the end already, and takes the session for idle
        async with self._beginning:
            if session.active is None and (self.queue.paused or not self.queue):
                return await self._begin(queued)
        self.queue.check_room()
        if queued.prompt.when == "refuse":
            raise SessionBusy(
                f"session {self.id} is busy with a run", guidance="Wait for it, queue this, or cancel it."
            )
        self._continue_after(session.active)
        if queued.prompt.when == "queue":
            self.queue.add(queued.id, queued)
            return Outcome(queued_id=queued.id, how="queued")
        self.queue.add(queued.id, msgspec.structs.replace(queued, how="cancelled_first"), first=True)
        self.queue.paused = False
        await session.cancel()
        return Outcome(queued_id=queued.id, how="cancelled_first")

    async def _begin(self, queued: QueuedPrompt) -> Outcome:
        session = self._open_session()
        workspace = session.config.workspace
        check_file = partial(check_attachment, workspace=workspace, scope=queued.scope, home=self._home)
        parts = await request_parts(queued.prompt, workspace, self._home, check_file)
        check_command(session, queued.prompt, queued.scope, self._home)  # as the session is now
        run = session.begin(parts, run_id=queued.prompt.run_id, skills=queued.prompt.skills)
        outcome = Outcome(run_id=run.id, how=queued.how)
        self.queue.paused = False
        self.error = None
        self._watched_run = run
        self._start_task(self._finish_run(run))
        # Nothing is awaited since `begin`: prompt, outgoing frame and receipt are in one commit.
        await self._receipt(queued.id, "done", outcome, changes=queued.changes)
        return outcome

    async def _finish_run(self, run: Run) -> None:
        try:
            await run
        except DragomanError as error:
            self.error = error
        finally:
            self._on_change()
        if self._watched_run is run:
            self._watched_run = None
        if self.stays and self.session is not None:
            # All of it is committed, and read from the journal. A server that kept it too would grow with all that was
            # ever said in its sessions.
            self.session.fold.messages.drop_contents(run.id)
        await self._begin_next()

    def _continue_after(self, run: Run | None) -> None:
        """Let the queue go on after a run that a program in this process began."""
        if run is not None and run is not self._watched_run:
            self._watched_run = run
            self._start_task(self._begin_next_after(run))

    async def _begin_next_after(self, run: Run) -> None:
        await run.ended_within(None)  # not awaited itself: its events are for its program
        await self._begin_next()

    async def _begin_next(self) -> None:
        """Send the first queued prompt that can be sent, where the session is free."""
        async with self._beginning:
            while self.session is not None and self.session.active is None:
                queued = self.queue.pop_next()
                if queued is None:
                    return
                try:
                    await self._begin(queued)
                except Exception as error:
                    if isinstance(error, DragomanError):
                        self.error = error
                    else:
                        logger.exception("session %s: a queued prompt could not be sent", self.id)
                    await self._receipt(queued.id, _refusal(error), error, changes=queued.changes)
                self._on_change()

    # -- tasks

    def _start_task(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work, name=f"dragoman session {self.id}")
        self._tasks.add(task)
        task.add_done_callback(self._on_task_done)

    def _on_task_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("session %s: %s", self.id, error, exc_info=error)


async def answer_question(session: Session, command: requests.QuestionAnswer) -> bool:
    """Answer a question of the agent's. False where it has its answer, or was withdrawn.

    `InputError` says what does not fit, and the question stays open.
    """
    question = session.question(command.question_id)
    if question is None:
        return False
    if command.action == "accept":
        # In a thread: a large form may take its time.
        answer = await asyncio.to_thread(question.accept, command.content)
    else:
        answer = question.decline() if command.action == "decline" else question.cancel()
    return await session.answer_question(command.question_id, msgspec.structs.replace(answer, by=command.by))


def _receipt_detail(detail: Outcome | Exception) -> str:
    match detail:
        case Outcome():
            return msgspec.json.encode(detail).decode()
        case DragomanError():
            return str(detail)
        case _:
            return "something went wrong inside Dragoman"


def _refusal(error: Exception) -> str:
    """Return the outcome of a command that failed so."""
    return FORBIDDEN if isinstance(error, ScopeMissing) else "refused"


def _fail(outcome: asyncio.Future[Outcome | None], error: Exception) -> None:
    if not outcome.done():
        outcome.set_exception(error)
        outcome.exception()  # retrieved: perhaps no caller waits
