"""`Hub`: the journal of a home folder, and the sessions of this process that are kept in it.

Promised: each session has one owner; another process that wants it is told who has it. What a dead process left
running reads as interrupted from the moment a hub is opened (G9), and nothing of a living one is touched. What others
want of a session reaches its owner as a command, and is done once however often it is sent (G10).
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Final
from weakref import WeakValueDictionary

import msgspec

from dragoman.config import Config, load, make_home
from dragoman.errors import DragomanError, InputError, SessionBusy, SessionClosed
from dragoman.host.permission import answer_later
from dragoman.hub import commands
from dragoman.hub.commands import Outcome
from dragoman.hub.identity import HEARTBEAT, alive, living, this_process
from dragoman.hub.owned_session import OwnedSession
from dragoman.journal import journal_path
from dragoman.journal.entry import Entry, entry_kind, stored_frame
from dragoman.journal.errors import JournalError, NotTheOwner
from dragoman.journal.maintenance import load_record
from dragoman.journal.protocols import Command, Connection, Journal
from dragoman.journal.rows import Session as SessionRow
from dragoman.journal.search_documents import SearchHit, SearchQuery
from dragoman.journal.session_record import SessionRecord
from dragoman.journal.sessions import descendants, find_session
from dragoman.journal.sqlite import SqliteJournal
from dragoman.record import notes
from dragoman.session.client import Agent, Continuing, LocalClient, Opening, RuntimePool, open_session, resume_session
from dragoman.session.handle import config_of_handle, read_handle
from dragoman.session.journal_client import JournalClient
from dragoman.session.session import Session, new_id
from dragoman.session.spec import SessionConfig
from dragoman.wire.messages import Notification

CUT = "the process that ran it ended before it did"

# Seconds between two looks at the inbox while things happen, and at a command that another process carries out.
LOOK_AGAIN: Final = 0.1

# Seconds for a command to be carried out by another process. Switching a model may take an agent a while.
CARRIED_OUT: Final = 60.0

# Seconds after which a command that another process has taken, and not done, must be waiting in its queue.
QUEUED_ELSEWHERE: Final = 3.0

logger = logging.getLogger(__name__)


class Hub:
    """`async with Hub() as hub:`. `home` is the folder of the journal, by default the user's; or give a `journal`."""

    def __init__(
        self, home: str | Path | None = None, *, config: Config | None = None, journal: Journal | None = None
    ) -> None:
        self._config = config or load(Path(home) if home is not None else None)
        self._given = journal
        self._journal: Journal | None = None
        self._journal_client: JournalClient | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._runtime_pool = RuntimePool()
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self.owned_sessions: dict[str, OwnedSession] = {}
        self.on_change: Callable[[str], None] | None = None  # told of each session of ours that may stand otherwise now

    async def start(self) -> Hub:
        if self._journal is not None:
            raise InputError("this hub was started before", guidance="Make a new Hub.")
        self._journal = self._given or await SqliteJournal.open(journal_path(make_home(self._config.home)))
        try:
            process = this_process()
            await self._journal.heartbeat(process)
            self._journal_client = JournalClient(self._journal, process, alive)
            self._journal_client.on_session_opened = self._session_opened
            self._journal_client.on_session_left = self._session_left
            await self._interrupt_orphaned_runs()
        except BaseException:
            await self.close()
            raise
        loop = asyncio.get_running_loop()
        self._tasks = [
            loop.create_task(self._beat(), name="dragoman heartbeat"),
            loop.create_task(self._watch_inbox(), name="dragoman inbox"),
        ]
        return self

    async def close(self) -> None:
        """Ends the sessions that it opened by `open` and `reopen`; others are to be closed first. Twice is fine."""
        if self._tasks:
            for task in self._tasks:
                task.cancel()
            await asyncio.wait(self._tasks)
            self._tasks = []
        closed = await asyncio.gather(*(held.close() for held in self.owned_sessions.values()), return_exceptions=True)
        self.owned_sessions.clear()
        if self._journal is not None and self._given is None:
            await self._journal.close()
        for problem in closed:
            if problem is not None:
                raise problem

    async def __aenter__(self) -> Hub:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # -- for programs

    @property
    def journal(self) -> Journal:
        if self._journal is None:
            raise InputError("the hub is not started", guidance="Use `async with Hub() as hub:`.")
        return self._journal

    @property
    def journal_client(self) -> JournalClient:
        """For an `AgentRuntime` of one's own."""
        if self._journal_client is None:
            raise InputError("the hub is not started", guidance="Use `async with Hub() as hub:`.")
        return self._journal_client

    def open_session(self, agent: Agent | None = None, **settings: Any) -> Opening:
        """As `dragoman.open_session`, and kept."""
        return open_session(agent, journal_client=self.journal_client, **settings)

    def resume_session(self, session_id: str, **settings: Any) -> Opening:
        """A session of the journal, continued by the agent that it was with."""

        async def open_it() -> Any:
            row = await self.find(session_id)
            if row.handle is None:
                raise _not_continuable(row)
            return await resume_session(row.handle, journal_client=self.journal_client, **settings)

        return Opening(open_it)

    # -- sessions that are steered by commands

    async def start_session(
        self, agent: Agent | None, config: SessionConfig, session_id: str | None = None
    ) -> OwnedSession:
        """A new session, held here until `drop`. What waits for a person waits for a command that answers it."""
        session_id = session_id or new_id()
        client = self._client()
        async with self._turn(session_id):
            if session_id in self.owned_sessions:
                raise InputError(f"session {session_id} is open already")
            held = self._hold(session_id)
            await self._have(held, client.open(agent, _answered_by_commands(config), held.id))
            return held

    async def continue_session(
        self, session_id: str, how: Continuing = "resume", *, anyway: bool = True
    ) -> OwnedSession:
        """A session of the journal, continued here; one that is held already has its agent ended first, or, where it
        need not be done `anyway`, is left as it is."""
        session_id = (await self.find(session_id)).id
        client = self._client()
        async with self._turn(session_id):
            known = self.owned_sessions.get(session_id)
            if known is not None and known.connection == "connected" and not anyway:
                return known
            if known is not None:
                await known.close()
            row = await self.journal.session(session_id)  # as it is now
            if row is None:
                raise InputError(f"session {session_id} was deleted")
            if row.handle is None:
                raise _not_continuable(row)
            handle = read_handle(row.handle)
            config = config_of_handle(handle)
            held = self._hold(session_id)
            resumed = client.resume(handle, _answered_by_commands(config), how, restart=known is not None)
            await self._have(held, resumed)
            return held

    async def fork_session(self, session_id: str, fork_id: str | None = None) -> OwnedSession:
        """A second session that begins with all that this one knows, with an agent of its own."""
        fork_id = fork_id or new_id()
        client = self._client()
        async with self._turn(fork_id):
            held = self.owned_sessions.get(session_id)
            if held is None or held.session is None:
                raise SessionClosed(f"session {session_id} is not open", guidance="Continue it first, then fork it.")
            if fork_id in self.owned_sessions:
                raise InputError(f"session {fork_id} is open already")
            held.session.capabilities().require("fork", "fork a session")
            session = held.session
            fork = self._hold(fork_id)
            config = _answered_by_commands(session.config)
            await self._have(fork, client.fork(session.spec, session.agent_session_id, config, fork_id))
            return fork

    async def close_session(self, session_id: str) -> None:
        """Ends the session here; it stays in the journal. One that is still being opened is given up."""
        async with self._last_turn(session_id):
            pass

    async def delete_session(self, session_id: str, *, by: str = "") -> bool:
        """Ends it here, and removes it from the journal, with its sub-agents; False where there is no such session.
        `SessionBusy` where another process has it open."""
        async with self._last_turn(session_id):
            if await self.owned_elsewhere(session_id):
                raise SessionBusy(
                    f"session {session_id} is open in another process", guidance="End it there first, then delete it."
                )
            sub_agents = descendants(await self.journal.sessions(), [session_id])
            deleted = await self.journal.delete(session_id, at=time.time(), by=by)
        for one in sub_agents:
            await self.delete_session(one.id, by=by)
        return deleted

    @asynccontextmanager
    async def _turn(self, session_id: str) -> AsyncIterator[None]:
        """Who opens, ends, or notes something of a session does it after those who did so before: two agents that have
        one session, or a claim that is let go under one who writes, would be the end of its order."""
        lock = self._turns.setdefault(session_id, asyncio.Lock())  # it is there while anyone has it in hand
        async with lock:
            yield

    @asynccontextmanager
    async def _last_turn(self, session_id: str) -> AsyncIterator[None]:
        """Within, the session is no longer held."""
        if (held := self.owned_sessions.get(session_id)) is not None:
            held.give_up()
        async with self._turn(session_id):
            held = self.owned_sessions.pop(session_id, None)
            if held is not None:
                await held.close()
                self._changed(session_id)
            yield

    async def command(self, session_id: str, command: commands.Command, command_id: str | None = None) -> Outcome:
        """Has it carried out by whoever owns the session. The same id again does nothing, and tells the same.

        Raises what it was refused for; `SessionClosed` where nobody has the session open.
        """
        command_id = command_id or uuid.uuid4().hex
        known = await self.journal.command_state(command_id)
        if known is None:
            held = self.owned_sessions.get(session_id)
            outcome = None
            if held is not None and held.expects(command_id, command):
                outcome = held.outcome(command_id)
            elif not await self.owned_elsewhere(session_id):
                raise SessionClosed(f"session {session_id} is not open", guidance="Continue it first, then try again.")
            sent = Command(id=command_id, session_id=session_id, at=time.time(), body=commands.written(command))
            if not await self.journal.send_command(sent):
                known = await self.journal.command_state(command_id)  # someone else was as quick with this id
            elif held is not None and outcome is not None:
                return await held.sent(sent, command, outcome)
        if known is not None and (
            known.command.session_id != session_id or known.command.body != commands.written(command)
        ):
            raise InputError(
                f"the command id {command_id!r} was used for something else", guidance="Choose a new one for each."
            )
        return await self._outcome(session_id, command_id)

    async def owned_elsewhere(self, session_id: str) -> bool:
        """Whether another process, which lives, has it open."""
        owner = await self.journal.owner(session_id)
        if owner is None or owner.process is None or owner.process.id == self.journal_client.process.id:
            return False
        return alive(owner.process)

    async def _outcome(self, session_id: str, command_id: str) -> Outcome:
        """Of a command that was sent, perhaps to another process, perhaps long ago."""
        async with asyncio.timeout(CARRIED_OUT):
            taken_at: float | None = None
            while True:
                held = self.owned_sessions.get(session_id)
                if held is not None and (outcome := held.waiting(command_id)) is not None:
                    return outcome
                state = await self.journal.command_state(command_id)
                if state is None:
                    raise InputError(f"session {session_id} was deleted")
                if state.outcome == "done":
                    return msgspec.json.decode(state.detail or "{}", type=Outcome)
                if state.outcome is not None:
                    raise InputError(state.detail or "it was refused")
                now = time.monotonic()
                taken_at = taken_at or (now if state.taken else None)
                if taken_at is not None and now - taken_at > QUEUED_ELSEWHERE:
                    return Outcome(queued_id=command_id, how="queued")
                await asyncio.sleep(LOOK_AGAIN)

    def _client(self) -> LocalClient:
        # Read anew: agents may have been added, or changed, since.
        return LocalClient(
            config=load(self._config.home), journal_client=self.journal_client, runtime_pool=self._runtime_pool
        )

    def _hold(self, session_id: str) -> OwnedSession:
        held = self.owned_sessions[session_id] = self._new_held(session_id, stays=True)
        self._changed(session_id)
        return held

    def _new_held(self, session_id: str, *, stays: bool) -> OwnedSession:
        return OwnedSession(
            session_id, self.journal_client, lambda: self._changed(session_id), stays=stays, home=self._config.home
        )

    async def _have(self, held: OwnedSession, opening: Coroutine[Any, Any, Session]) -> None:
        held.opening = asyncio.get_running_loop().create_task(opening, name=f"dragoman open {held.id}")
        try:
            session = await held.opening
        except BaseException as problem:
            self.owned_sessions.pop(held.id, None)
            try:
                # One that another process has is not ours to show a problem of.
                if (
                    isinstance(problem, DragomanError)
                    and not isinstance(problem, NotTheOwner)
                    and await self.journal.session(held.id) is not None
                ):
                    self.owned_sessions[held.id] = held
                    held.failed(problem)
            finally:
                self._changed(held.id)
            if isinstance(problem, asyncio.CancelledError) and held.given_up and not _is_cancelled():
                raise SessionClosed(f"session {held.id} was closed before its agent had started") from None
            raise
        finally:
            held.opening = None
        if held.session is None:
            held.opened(session)

    def _session_opened(self, session: Session) -> None:
        held = self.owned_sessions.get(session.id)
        if held is None:
            held = self.owned_sessions[session.id] = self._new_held(session.id, stays=False)
        if held.session is not session:
            held.opened(session)

    def _session_left(self, session_id: str) -> None:
        held = self.owned_sessions.get(session_id)
        if held is not None and not held.stays:
            del self.owned_sessions[session_id]

    def _changed(self, session_id: str) -> None:
        if self.on_change is not None:
            self.on_change(session_id)

    # -- what is known

    async def sessions(self) -> Sequence[SessionRow]:
        """The one with the latest frame first."""
        return await self.journal.sessions()

    async def find(self, session_id: str) -> SessionRow:
        """A session by its id or the agent's, or by the beginning of one; `-` is the latest."""
        return find_session(await self.journal.sessions(), session_id)

    async def search(self, words: str, **filters: Any) -> Sequence[SearchHit]:
        return await self.journal.search(SearchQuery(text=words, **filters))

    # -- in the background

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(HEARTBEAT)
            try:
                await self.journal.heartbeat(living(self.journal_client.process))
            except JournalError:
                pass  # the next one may come through; who appends hears of it

    async def _watch_inbox(self) -> None:
        """What other processes want of our sessions."""
        async for _ in self.journal.changes():
            try:
                for session_id in await self.journal.sessions_with_commands():
                    if (held := self.owned_sessions.get(session_id)) is not None and held.session is not None:
                        await held.drain()
            except JournalError as problem:
                logger.warning("the inbox cannot be read: %s", problem)
            await asyncio.sleep(LOOK_AGAIN)

    async def _interrupt_orphaned_runs(self) -> None:
        # Transcripts that their agent still writes to are nobody's here, and go on.
        written = {one.session_id for one in await self.journal.positions() if not one.finished}
        for row in await self.journal.sessions():
            if row.status == "running" and row.id not in written:
                try:
                    await self.note(row.id, _cuts)
                except NotTheOwner:
                    continue  # it lives

    async def note(self, session_id: str, notes_of: Callable[[SessionRecord], Sequence[Notification]]) -> None:
        """Adds notes of ours to a session. `NotTheOwner` where another living process has it."""
        async with self._turn(session_id):
            held = self.owned_sessions.get(session_id)
            if held is not None and held.session is not None:
                for note in notes_of(SessionRecord(session_id, held.session.fold)):
                    await held.session.record_note(note)
            else:
                await self._note(session_id, notes_of)

    async def _note(self, session_id: str, notes_of: Callable[[SessionRecord], Sequence[Notification]]) -> None:
        process = self.journal_client.process
        epoch = await self.journal.claim(session_id, process.id, is_alive=alive)
        try:
            record = await load_record(self.journal, session_id)
            made = notes_of(record)
            if not made:
                return
            connection = Connection(id=f"notes-{uuid.uuid4().hex}", agent="", at=time.time())
            await self.journal.register_connection(connection)
            entries = []
            for number, note in enumerate(made, start=1):
                at = time.time()
                entry = Entry(connection.id, session_id, number, at, "host", entry_kind(note), stored_frame(note))
                record.add(entry, note)
                entries.append(entry)
            await self.journal.append(entries, [record.take()], epochs={session_id: epoch})
        finally:
            await self.journal.release(session_id, process.id)


def _is_cancelled() -> bool:
    """Whether the task itself is, and not only what it waited for."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _cuts(record: SessionRecord) -> Sequence[Notification]:
    running = [run for run in record.fold.runs.values() if run.status == "running"]
    return [notes.write(notes.RunInterrupted(run.id, "interrupted", CUT)) for run in running]


def _answered_by_commands(config: SessionConfig) -> SessionConfig:
    return msgspec.structs.replace(config, on_permission=answer_later, on_question=answer_later)


def _not_continuable(row: SessionRow) -> InputError:
    return InputError(
        f"session {row.id} cannot be continued: what its agent needs for it was not kept",
        guidance="Open a new session; what was said is still there to read.",
    )
