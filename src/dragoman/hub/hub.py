"""`Hub`: the journal of a home folder, and the sessions of this process in it.

Promised: each session has one owner; another process that wants it gets an error that names the owner. The runs of a
dead process read as interrupted from the moment a hub is opened (G9), and nothing of a living one is touched. Others
act on a session by commands to its owner; a command is carried out once however often it is sent (G10).
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Unpack
from weakref import WeakValueDictionary

import msgspec

from dragoman.clock import SYSTEM_CLOCK, Clock, timeout
from dragoman.config import Config, load, make_home
from dragoman.errors import CapabilityMissing, DragomanError, InputError, ScopeMissing, SessionBusy, SessionClosed
from dragoman.host.permission import answer_later
from dragoman.hub import commands
from dragoman.hub.commands import FORBIDDEN, Outcome, SentCommand
from dragoman.hub.identity import HEARTBEAT_S, is_alive, this_process, with_heartbeat
from dragoman.hub.owned_session import OwnedSession
from dragoman.hub.scopes import acting_reason, folder_reason, opening_reason, require_admin, session_reason
from dragoman.journal import journal_path
from dragoman.journal import notes as journal_notes
from dragoman.journal.entry import Entry, entry_kind, stored_frame
from dragoman.journal.errors import JournalError, NotTheOwner
from dragoman.journal.maintenance import load_record
from dragoman.journal.protocols import Connection, InboxCommand, Journal
from dragoman.journal.rows import DocumentKind
from dragoman.journal.rows import Session as SessionRow
from dragoman.journal.search_documents import SearchHits, SearchQuery
from dragoman.journal.session_record import SessionRecord
from dragoman.journal.sessions import descendants, find_session, fork_title
from dragoman.journal.sqlite import SqliteJournal
from dragoman.protocol.messages import Scope, includes
from dragoman.record import notes
from dragoman.session.client import Agent, Continuing, LocalClient, Opening, RuntimePool, client_from_options
from dragoman.session.handle import config_of_handle, read_handle, resumed_config, with_servers
from dragoman.session.journal_client import JournalClient
from dragoman.session.options import LocalOptions, ResumeOptions, SessionConfig, check_keywords, session_config
from dragoman.session.session import Session, new_id
from dragoman.session.worktree import worktrees_of
from dragoman.wire.messages import Notification
from dragoman.workspace.checkpoints import CheckpointSettings, SessionCheckpoints
from dragoman.workspace.isolation import ISOLATED_FOLDER
from dragoman.workspace.worktrees import Worktrees

ORPHANED = "the process that ran it ended before it did"

# Seconds between two looks at a command that another process carries out.
COMMAND_POLL_S: Final = 0.1

# Seconds for a command to be carried out by another process. Switching a model may take an agent a while.
COMMAND_TIMEOUT_S: Final = 60.0

# Seconds after which a command that another process has taken, and not done, must be waiting in its queue.
QUEUED_ELSEWHERE_S: Final = 3.0

logger = logging.getLogger(__name__)


def checkpoint_settings(config: Config) -> CheckpointSettings:
    """Return how checkpoints are taken, as configured."""
    return CheckpointSettings(
        home=config.home,
        is_default=config.checkpoints,
        max_file_bytes=config.checkpoint_file_limit,
        max_age_s=config.checkpoint_age,
        max_bytes=config.checkpoint_size,
    )


async def forget_checkpoints(row: SessionRow, config: Config) -> None:
    """Remove the checkpoints of a session, with the contents that only they have."""
    if folders := [Path(folder) for folder in dict.fromkeys((row.cwd, *row.folders)) if folder]:
        await SessionCheckpoints(checkpoint_settings(config), row.id, folders).forget()


async def remove_unused_homes(journal: Journal, config: Config) -> None:
    """Remove what killed processes left of isolated agents, and the homes that no session of the journal needs."""
    root = config.home / ISOLATED_FOLDER
    if not root.is_dir():
        return
    from dragoman.workspace.isolated_home import find_unused, remove_homes  # most users isolate nothing

    try:
        if unused := await asyncio.to_thread(find_unused, root):
            handles = [row.handle for row in await journal.sessions() if row.handle is not None]
            needed = {read_handle(handle).isolated_home for handle in handles if any(name in handle for name in unused)}
            await asyncio.to_thread(remove_homes, root, [name for name in unused if name not in needed])
    except OSError as error:  # no reason to refuse everything else
        logger.warning("the homes of isolated agents cannot be cleaned up: %s", error)


class Hub:
    """`async with Hub() as hub:`. `home` is the folder of the journal, by default the user's; or give a `journal`."""

    def __init__(
        self,
        home: str | Path | None = None,
        *,
        config: Config | None = None,
        journal: Journal | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._clock = clock
        self._config = config or load(Path(home) if home is not None else None)
        self._given_journal = journal  # closed by the caller
        self._journal: Journal | None = None
        self._journal_client: JournalClient | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        # Sessions that clients began here and that may be without a prompt, with the titles that we gave them.
        self._begun: dict[str, str | None] = {}
        self._runtime_pool = RuntimePool()
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self.owned_sessions: dict[str, OwnedSession] = {}
        self.on_change: Callable[[str], None] | None = None  # called with the id of each session of ours that changed
        self.is_followed: Callable[[str], bool] = lambda session_id: False  # whether a client looks at the session

    async def start(self) -> Hub:
        if self._journal is not None:
            raise InputError("this hub was started before", guidance="Make a new Hub.")
        self._journal = self._given_journal or await SqliteJournal.open(journal_path(make_home(self._config.home)))
        try:
            process = this_process()
            await self._journal.heartbeat(process)
            self._journal_client = JournalClient(self._journal, process, is_alive)
            self._journal_client.on_session_opened = self._on_session_opened
            self._journal_client.on_session_left = self._on_session_left
            self._journal_client.keeps_failed = self._keeps_failed
            self._journal_client.checkpoints = checkpoint_settings(self._config)
            await self._interrupt_orphaned_runs()
            await remove_unused_homes(self._journal, self._config)
        except BaseException:
            await self.close()
            raise
        loop = asyncio.get_running_loop()
        self._tasks = {
            loop.create_task(self._beat(), name="dragoman heartbeat"),
            loop.create_task(self._watch_inbox(), name="dragoman inbox"),
        }
        return self

    async def close(self) -> None:
        """End the sessions that it owns; close those that a program opened first. Closing twice is fine."""
        if self._tasks:
            for task in self._tasks:
                task.cancel()
            await asyncio.wait(self._tasks)
            self._tasks = set()
        closing = [owned.close() for owned in self.owned_sessions.values()]
        errors = await asyncio.gather(*closing, return_exceptions=True)
        self.owned_sessions.clear()
        for session_id in list(self._begun):
            await self._remove_if_empty(session_id)
        self._begun.clear()
        if self._journal is not None and self._given_journal is None:
            await self._journal.close()
        for error in errors:
            if error is not None:
                raise error

    async def __aenter__(self) -> Hub:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
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
        """The handle on the journal, for an `AgentRuntime` of a program's own."""
        if self._journal_client is None:
            raise InputError("the hub is not started", guidance="Use `async with Hub() as hub:`.")
        return self._journal_client

    @property
    def worktrees(self) -> Worktrees:
        """The worktrees of sessions."""
        return worktrees_of(self._config)

    def open_session(self, agent: Agent | None = None, **options: Unpack[LocalOptions]) -> Opening[Session]:
        """Open a session as `dragoman.open_session` does, stored in the journal of this hub."""
        check_keywords("open_session", options, LocalOptions)
        config = session_config(options, self._config)

        async def open_it() -> Session:
            client = client_from_options(self._config, options, self.journal_client)
            return await client.open(agent, config, options.get("session_id"))

        return Opening(open_it)

    def resume_session(self, session_id: str, **options: Unpack[ResumeOptions]) -> Opening[Session]:
        """Resume a session of the journal, with the agent that it was with."""
        check_keywords("resume_session", options, ResumeOptions)

        async def open_it() -> Session:
            row = await self.find(session_id)
            if row.handle is None:
                raise _not_continuable(row)
            handle = with_servers(read_handle(row.handle), options.get("mcp_servers"))
            client = client_from_options(self._config, options, self.journal_client)
            return await client.resume(handle, resumed_config(handle, options), options.get("how", "resume"))

        return Opening(open_it)

    # -- sessions that are driven by commands

    async def start_session(
        self, agent: Agent | None, config: SessionConfig, session_id: str | None = None, scope: Scope = "admin"
    ) -> OwnedSession:
        """Open a new session and own it until `close_session`. Commands answer what it asks.

        `scope` is that of the client that wants it; `ScopeMissing` where that is too low.
        """
        session_id = session_id or new_id()
        if not includes(scope, "admin"):
            await self.check_folders(scope, config.workspace.folders)
            named = agent if isinstance(agent, str) else None
            require_admin(scope, opening_reason(named, config, load(self._config.home)))
        config = msgspec.structs.replace(config, opened_by=scope)
        client = self._client()
        async with self._exclusively(session_id):
            if session_id in self.owned_sessions:
                raise InputError(f"session {session_id} is open already")
            self._begun[session_id] = None
            owned = self._own(session_id)
            await self._finish_opening(owned, client.open(agent, _answered_by_commands(config), owned.id))
            return owned

    async def continue_session(
        self, session_id: str, how: Continuing = "resume", *, anyway: bool = True, scope: Scope = "admin"
    ) -> OwnedSession:
        """Continue a session of the journal here. One that is owned already has its agent ended first; without `anyway`
        it is left as it is while it is connected. `ScopeMissing` where a client with this scope may not continue it."""
        session_id = (await self.find(session_id)).id
        client = self._client()
        async with self._exclusively(session_id):
            previous = self.owned_sessions.get(session_id)
            if previous is not None and previous.connection == "connected" and not anyway:
                return previous
            if not includes(scope, "admin"):
                await self._check_continuing(session_id, scope)
            if previous is not None:
                await previous.close()
            row = await self.journal.session(session_id)  # as it is now
            if row is None:
                raise InputError(f"session {session_id} was deleted")
            if row.handle is None:
                raise _not_continuable(row)
            handle = read_handle(row.handle)
            config = _answered_by_commands(config_of_handle(handle))
            owned = self._own(session_id)
            await self._finish_opening(owned, client.resume(handle, config, how, restart=previous is not None))
            return owned

    async def check_folders(self, scope: Scope, folders: Sequence[str | Path]) -> None:
        """Raise `ScopeMissing` where a client with this scope may not have a session in one of these folders."""
        reason = folder_reason(folders, await self.journal.sessions(), load(self._config.home))
        require_admin(scope, reason, "Have an admin open a session there, or add it to `folders` in config.toml.")

    async def _check_continuing(self, session_id: str, scope: Scope) -> None:
        row = await self.journal.session(session_id)
        if row is None or row.handle is None:
            return  # it is refused for that
        handle = read_handle(row.handle)
        folders = [Path(folder) for folder in (handle.cwd, *handle.additional)]
        await self.check_folders(scope, folders)
        require_admin(scope, session_reason(handle, folders, load(self._config.home)))

    async def fork_session(
        self, session_id: str, fork_id: str | None = None, *, scope: Scope = "admin"
    ) -> OwnedSession:
        """Open a second session that begins with all that this one knows, with an agent of its own.

        `ScopeMissing` where a client with this scope may not continue the session.
        """
        fork_id = fork_id or new_id()
        client = self._client()
        async with self._exclusively(fork_id):
            owned = self.owned_sessions.get(session_id)
            if owned is None or owned.session is None:
                raise SessionClosed(f"session {session_id} is not open", guidance="Continue it first, then fork it.")
            if fork_id in self.owned_sessions:
                raise InputError(f"session {fork_id} is open already")
            owned.session.capabilities().require("fork", "fork a session")
            session = owned.session
            if not includes(scope, "admin"):
                await self.check_folders(scope, session.config.workspace.folders)
                require_admin(scope, acting_reason(session, load(self._config.home)))
            fork = self._own(fork_id)
            config = msgspec.structs.replace(_answered_by_commands(session.config), opened_by=scope)
            await self._finish_opening(fork, client.fork(session, config, fork_id))
            row = await self.journal.session(session_id)
            if row is not None and fork.session is not None:
                title = self._begun[fork_id] = fork_title(row)
                await fork.session.record_note(journal_notes.write(journal_notes.SessionRenamed(title=title)))
            return fork

    async def close_session(self, session_id: str) -> None:
        """End the session here; it stays in the journal. Stops one that is still being opened.

        One that was begun here and has no prompt is removed, now or when no client looks at it any more.
        """
        async with self._after_closing(session_id):
            await self._remove_if_empty(session_id)

    def on_unfollowed(self, session_id: str) -> None:
        """Remove a session that was closed without a prompt: the last client that looked at it has gone."""
        if session_id in self._begun and session_id not in self.owned_sessions:
            task = asyncio.get_running_loop().create_task(self.close_session(session_id), name="dragoman remove")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _remove_if_empty(self, session_id: str) -> None:
        """Remove a closed session that a client began here and sent no prompt to, unless one looks at it."""
        if session_id not in self._begun or self.is_followed(session_id):
            return
        title = self._begun.pop(session_id)
        try:
            row = await self.journal.session(session_id)
            is_empty = row is not None and not row.runs and not row.prompt and row.title in (None, title)
            if is_empty and not await self.owned_elsewhere(session_id):
                await self.journal_client.discard(session_id, None)
        except JournalError as error:
            logger.info("session %s cannot be removed: %s", session_id, error)

    async def delete_session(self, session_id: str, *, by: str = "") -> bool:
        """End the session here, and remove it from the journal, with its sub-agents; False where there is none.

        `SessionBusy` where another process has it open.
        """
        async with self._after_closing(session_id):
            if await self.owned_elsewhere(session_id):
                raise SessionBusy(
                    f"session {session_id} is open in another process", guidance="End it there first, then delete it."
                )
            self._begun.pop(session_id, None)
            sub_agents = descendants(await self.journal.sessions(), [session_id])
            if (row := await self.journal.session(session_id)) is not None:
                await forget_checkpoints(row, self._config)
            deleted = await self.journal.delete(session_id, at=self._clock.time(), by=by)
            await remove_unused_homes(self.journal, self._config)
        for sub_agent in sub_agents:
            await self.delete_session(sub_agent.id, by=by)
        return deleted

    @asynccontextmanager
    async def _exclusively(self, session_id: str) -> AsyncIterator[None]:
        """Open, end, or note something of a session one at a time: two agents with one session, or a claim that is
        released under somebody who writes, would break its order."""
        lock = self._locks.setdefault(session_id, asyncio.Lock())  # it exists while anyone uses it
        async with lock:
            yield

    @asynccontextmanager
    async def _after_closing(self, session_id: str) -> AsyncIterator[None]:
        """Within, the session is no longer owned."""
        if (owned := self.owned_sessions.get(session_id)) is not None:
            owned.abandon_opening()
        async with self._exclusively(session_id):
            owned = self.owned_sessions.pop(session_id, None)
            if owned is not None:
                await owned.close()
                self._changed(session_id)
            yield

    # -- commands

    async def command(self, command: commands.Command, scope: Scope = "admin") -> Outcome:
        """Have the owner of the session carry out a command. The same id again does nothing, and has the same outcome.

        Raises what it was refused for; `InputError` where the id was used for another command; `SessionClosed` where
        no process has the session open; `ScopeMissing` where a client with this scope may not do it.
        """
        session_id = command.session_id
        sent = SentCommand(command, scope)
        body = commands.encode(sent)
        stored = InboxCommand(
            id=command.command_id or uuid.uuid4().hex, session_id=session_id, at=self._clock.time(), body=body
        )
        owned = self.owned_sessions.get(session_id)
        busy: SessionBusy | None = None
        try:
            is_ours = owned is not None and owned.expects(command)
        except SessionBusy as error:
            is_ours, busy = False, error
        if owned is not None and is_ours:
            outcome = await owned.send(stored, sent)
            if outcome is not None:
                return outcome
        earlier = await self.journal.command_state(stored.id)
        if earlier is None:
            if busy is not None:
                raise busy
            if not is_ours and not await self.owned_elsewhere(session_id):
                raise SessionClosed(f"session {session_id} is not open", guidance="Continue it first, then try again.")
            if not await self.journal.send_command(stored):
                earlier = await self.journal.command_state(stored.id)  # another client was faster with this id
        if earlier is not None and (earlier.command.session_id != session_id or earlier.command.body != body):
            raise InputError(
                f"the command id {stored.id!r} was used for something else", guidance="Choose a new one for each."
            )
        return await self._wait_for_outcome(session_id, stored.id)

    async def owned_elsewhere(self, session_id: str) -> bool:
        """Return whether another living process has the session open."""
        owner = await self.journal.owner(session_id)
        if owner is None or owner.process is None or owner.process.id == self.journal_client.process.id:
            return False
        return is_alive(owner.process)

    async def _wait_for_outcome(self, session_id: str, command_id: str) -> Outcome:
        """Wait for a command that was sent before, perhaps to another process, perhaps long ago."""
        async with timeout(self._clock, COMMAND_TIMEOUT_S):
            taken_at: float | None = None
            while True:
                owned = self.owned_sessions.get(session_id)
                if owned is not None and (outcome := await owned.outcome_of(command_id)) is not None:
                    return outcome
                state = await self.journal.command_state(command_id)
                if state is None:
                    raise InputError(f"session {session_id} was deleted")
                if state.outcome == "done":
                    return msgspec.json.decode(state.detail or "{}", type=Outcome)
                if state.outcome == FORBIDDEN:
                    raise ScopeMissing(state.detail or "it needs a higher scope")
                if state.outcome is not None:
                    raise InputError(state.detail or "it was refused")
                now = self._clock.monotonic()
                taken_at = taken_at or (now if state.taken else None)
                if taken_at is not None and now - taken_at > QUEUED_ELSEWHERE_S:
                    return Outcome(queued_id=command_id, how="queued")
                await self._clock.sleep(COMMAND_POLL_S)

    # -- opening

    def _client(self) -> LocalClient:
        # The config is read again: agents may have been added, or changed, since.
        config = load(self._config.home)
        return LocalClient(config=config, journal_client=self.journal_client, runtime_pool=self._runtime_pool)

    def _own(self, session_id: str) -> OwnedSession:
        owned = self.owned_sessions[session_id] = self._new_owned(session_id, stays=True)
        self._changed(session_id)
        return owned

    def _new_owned(self, session_id: str, *, stays: bool) -> OwnedSession:
        return OwnedSession(
            session_id, self.journal_client, lambda: self._changed(session_id), stays=stays, home=self._config.home
        )

    async def _finish_opening(self, owned: OwnedSession, opening: Coroutine[Any, Any, Session]) -> None:
        owned.opening = asyncio.get_running_loop().create_task(opening, name=f"dragoman open {owned.id}")
        try:
            session = await owned.opening
        except BaseException as error:
            self.owned_sessions.pop(owned.id, None)
            try:
                # The error of a session that another process has is not ours to show.
                if (
                    isinstance(error, DragomanError)
                    and not isinstance(error, NotTheOwner)
                    and await self.journal.session(owned.id) is not None
                ):
                    self.owned_sessions[owned.id] = owned
                    owned.on_failed(error)
            finally:
                self._changed(owned.id)
            if isinstance(error, asyncio.CancelledError) and owned.was_abandoned and not _is_cancelled():
                raise SessionClosed(f"session {owned.id} was closed before its agent had started") from None
            raise
        finally:
            owned.opening = None
        if owned.session is None:
            owned.on_opened(session)

    def _on_session_opened(self, session: Session) -> None:
        owned = self.owned_sessions.get(session.id)
        if owned is None:
            owned = self.owned_sessions[session.id] = self._new_owned(session.id, stays=False)
        if owned.session is not session:
            owned.on_opened(session)

    def _on_session_left(self, session_id: str) -> None:
        owned = self.owned_sessions.get(session_id)
        if owned is not None and not owned.stays:
            del self.owned_sessions[session_id]

    def _keeps_failed(self, session_id: str, error: BaseException | None) -> bool:
        """Return whether a session that could not be opened is shown with its error: a login or a restart may help."""
        owned = self.owned_sessions.get(session_id)
        can_recover = isinstance(error, DragomanError) and not isinstance(error, InputError | CapabilityMissing)
        return owned is not None and owned.stays and can_recover

    def _changed(self, session_id: str) -> None:
        if self.on_change is not None:
            self.on_change(session_id)

    # -- reading

    async def sessions(self) -> Sequence[SessionRow]:
        """Return all sessions, the one with the latest frame first."""
        return await self.journal.sessions()

    async def find(self, session_id: str) -> SessionRow:
        """Return a session by its id or the agent's, or by the beginning of one; `-` is the latest."""
        return find_session(await self.journal.sessions(), session_id)

    async def search(
        self,
        words: str,
        *,
        agent: str | None = None,
        cwd: str | None = None,
        kinds: Sequence[DocumentKind] = (),
        since: float | None = None,
        until: float | None = None,
        limit: int | None = 20,
    ) -> SearchHits:
        """Search all sessions; `since` and `until` are seconds since 1970. Without a `limit`, all hits are returned."""
        query = SearchQuery(text=words, agent=agent, cwd=cwd, kinds=kinds, since=since, until=until, limit=limit)
        return await self.journal.search(query)

    # -- in the background

    async def _beat(self) -> None:
        while True:
            await self._clock.sleep(HEARTBEAT_S)
            try:
                await self.journal.heartbeat(with_heartbeat(self.journal_client.process))
            except JournalError:
                pass  # the next one may come through; the next append reports the error

    async def _watch_inbox(self) -> None:
        """Carry out the commands that other processes send to our sessions."""
        async for _ in self.journal.command_changes():
            try:
                for session_id in await self.journal.sessions_with_commands():
                    if (owned := self.owned_sessions.get(session_id)) is not None and owned.session is not None:
                        await owned.drain()
            except JournalError as error:
                logger.warning("the inbox cannot be read: %s", error)

    async def _interrupt_orphaned_runs(self) -> None:
        # A transcript that its agent still writes to has no owner here, and goes on.
        unfinished = {
            position.session_id for position in await self.journal.transcript_positions() if not position.finished
        }
        for row in await self.journal.sessions():
            if row.status == "running" and row.id not in unfinished:
                try:
                    await self.note(row.id, _interruptions)
                except NotTheOwner:
                    continue  # its owner lives

    async def note(self, session_id: str, notes_of: Callable[[SessionRecord], Sequence[Notification]]) -> None:
        """Add notes of ours to a session. `NotTheOwner` where another living process has it."""
        async with self._exclusively(session_id):
            owned = self.owned_sessions.get(session_id)
            if owned is not None and owned.session is not None:
                for note in notes_of(SessionRecord(session_id, owned.session.fold)):
                    await owned.session.record_note(note)
            else:
                await self._note(session_id, notes_of)

    async def _note(self, session_id: str, notes_of: Callable[[SessionRecord], Sequence[Notification]]) -> None:
        process = self.journal_client.process
        epoch = await self.journal.claim(session_id, process.id, is_alive=is_alive)
        try:
            record = await load_record(self.journal, session_id)
            new_notes = notes_of(record)
            if not new_notes:
                return
            connection = Connection(id=f"notes-{uuid.uuid4().hex}", agent="", at=self._clock.time())
            await self.journal.register_connection(connection)
            entries = []
            for number, note in enumerate(new_notes, start=1):
                at = self._clock.time()
                entry = Entry(connection.id, session_id, number, at, "host", entry_kind(note), stored_frame(note))
                record.add(entry, note)
                entries.append(entry)
            await self.journal.append(entries, [record.take()], epochs={session_id: epoch})
        finally:
            await self.journal.release(session_id, process.id)


def _is_cancelled() -> bool:
    """Return whether the task itself is cancelled, and not only what it waited for."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _interruptions(record: SessionRecord) -> Sequence[Notification]:
    running = [run for run in record.fold.runs.values() if run.status == "running"]
    return [notes.write(notes.RunInterrupted(run.id, "interrupted", ORPHANED)) for run in running]


def _answered_by_commands(config: SessionConfig) -> SessionConfig:
    return msgspec.structs.replace(config, on_permission=answer_later, on_question=answer_later)


def _not_continuable(row: SessionRow) -> InputError:
    return InputError(
        f"session {row.id} cannot be continued: the journal lacks what its agent needs for it",
        guidance="Open a new session; its history can still be read.",
    )
