"""The journal in memory: the plainest thing that keeps all promises but to outlive the process.

For programs that need no file, and beside the others in tests: what it does is what a journal is to do.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from types import TracebackType

import msgspec

from dragoman.journal import notes
from dragoman.journal.entry import Cursor, Entry, Page, format_cursor, parse_cursor
from dragoman.journal.errors import JournalClosed, NotTheOwner, OutOfOrder, SessionDeleted
from dragoman.journal.maintenance import refresh_rows
from dragoman.journal.notifier import ChangeNotifier
from dragoman.journal.protocols import (
    OWN_CONNECTION,
    PAGE_ENTRIES,
    Command,
    CommandState,
    CommitListener,
    Connection,
    Owner,
    Position,
    Process,
)
from dragoman.journal.rows import (
    Receipt,
    RowChanges,
    RowStore,
    SearchDocument,
    Session,
    SessionRows,
    SessionSummary,
    Tombstone,
    summarize,
)
from dragoman.journal.search_documents import (
    MAX_RANKED,
    Candidate,
    SearchHit,
    SearchQuery,
    fold_case,
    query_terms,
    rank,
)
from dragoman.journal.session_record import SessionRecord


class MemoryJournal:
    """See `store.Journal` for what each method promises. For one event loop."""

    def __init__(self) -> None:
        self.name = secrets.token_hex(3)
        self._entries: dict[int, Entry] = {}  # by place, in order
        self._of_session: dict[str, list[int]] = {}
        self._end = 0
        self._connections: dict[str, Connection] = {}
        self._numbers: dict[str, int] = {}  # the last frame of each connection
        self._rows: dict[str, RowStore] = {}
        self._deleted: set[str] = set()
        self._processes: dict[str, Process] = {}
        self._owners: dict[str, tuple[str | None, int]] = {}
        self._inbox: dict[str, CommandState] = {}
        self._taken: dict[str, int] = {}
        self._positions: dict[str, Position] = {}
        self._notifier = ChangeNotifier()
        self._listeners: list[CommitListener] = []
        self._closed = False

    async def __aenter__(self) -> MemoryJournal:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        self._closed = True
        self._notifier.close()

    def _check_open(self) -> None:
        if self._closed:
            raise JournalClosed("the journal in memory is closed")

    # -- writing

    async def register_connection(self, connection: Connection) -> None:
        self._check_open()
        known = self._connections.get(connection.id, connection)
        self._connections[connection.id] = msgspec.structs.replace(connection, at=known.at)

    async def append(
        self,
        entries: Sequence[Entry],
        changes: Sequence[RowChanges] = (),
        *,
        epochs: Mapping[str, int] = {},
        position: Position | None = None,
    ) -> Cursor:
        self._check_open()
        numbers = self._checked_numbers(entries)
        for session_id in {entry.session_id for entry in entries} | {change.session_id for change in changes}:
            if session_id is not None:
                self._check_session(session_id, epochs)
        self._numbers.update(numbers)
        for entry in entries:
            self._end += 1
            self._entries[self._end] = entry
            if entry.session_id is not None:
                self._of_session.setdefault(entry.session_id, []).append(self._end)
                self._rows.setdefault(entry.session_id, RowStore())
        for change in changes:
            self._apply(change)
        if position is not None:
            known = self._positions.get(position.connection_id, position)
            frames = max(known.frames, position.frames)
            self._positions[position.connection_id] = msgspec.structs.replace(position, frames=frames)
        self._notifier.notify()
        cursor = format_cursor(self.name, self._end)
        for listener in list(self._listeners):
            listener(cursor, entries, changes)
        return cursor

    def on_commit(self, listener: CommitListener) -> Callable[[], None]:
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def _checked_numbers(self, entries: Sequence[Entry]) -> dict[str, int]:
        numbers: dict[str, int] = {}
        for entry in entries:
            known = entry.connection_id
            if known not in self._connections:
                raise OutOfOrder(
                    f"connection {known!r} is not known to the journal", guidance="Tell it by `connect` first."
                )
            number = numbers.get(known, self._numbers.get(known, 0)) + 1
            if entry.n != number:
                raise OutOfOrder(f"frame {entry.n} of connection {known!r} was appended, {number} is the next")
            numbers[known] = number
        return numbers

    def _check_session(self, session_id: str, epochs: Mapping[str, int]) -> None:
        if session_id in self._deleted:
            raise SessionDeleted(f"session {session_id} was deleted")
        process_id, epoch = self._owners.get(session_id, (None, 0))
        if epochs.get(session_id) != (epoch if process_id is not None else None):
            raise NotTheOwner(f"session {session_id} is owned by {process_id or 'nobody'} now", owner=process_id)

    def _apply(self, changes: RowChanges) -> None:
        self._rows.setdefault(changes.session_id, RowStore()).apply(changes)
        for row in changes.puts:
            if isinstance(row, Receipt) and (known := self._inbox.get(row.id)) is not None and known.outcome is None:
                self._inbox[row.id] = msgspec.structs.replace(
                    known, outcome=row.outcome, detail=row.detail, done_at=row.time
                )

    async def delete(self, session_id: str, *, at: float, by: str = "") -> bool:
        self._check_open()
        if session_id not in self._of_session or session_id in self._deleted:
            return False
        await refresh_rows(self, session_id)
        known = self._rows[session_id].read().sessions
        for place in self._of_session.pop(session_id):
            del self._entries[place]
        self._rows[session_id] = RowStore()
        self._owners.pop(session_id, None)
        self._inbox = {key: one for key, one in self._inbox.items() if one.command.session_id != session_id}
        self._positions = {key: one for key, one in self._positions.items() if one.session_id != session_id}
        note = notes.tombstone(session_id, known[0] if known else None, by)
        self._connections.setdefault(OWN_CONNECTION, Connection(id=OWN_CONNECTION, agent="", at=at))
        n = self._numbers.get(OWN_CONNECTION, 0) + 1
        entry = Entry(OWN_CONNECTION, session_id, n, at, "host", note.method, note.line)
        record = SessionRecord(session_id)
        record.add(entry, note)
        await self.append([entry], [record.take()])
        self._deleted.add(session_id)
        return True

    # -- reading

    async def cursor(self) -> Cursor:
        self._check_open()
        return format_cursor(self.name, self._end)

    async def read(
        self, session_id: str | None = None, *, after: Cursor | None = None, limit: int = PAGE_ENTRIES
    ) -> Page:
        self._check_open()
        place = parse_cursor(self.name, after)
        if session_id is None:
            # Places are given out in order; only a delete takes some away again.
            among: Sequence[int] = range(place + 1, self._end + 1)
        else:
            among = [one for one in self._of_session.get(session_id, ()) if one > place]
        places: list[int] = []
        for one in among:
            if len(places) == limit:
                break
            if one in self._entries:
                places.append(one)
        cursor = format_cursor(self.name, places[-1] if places else place)
        return Page([self._entries[one] for one in places], cursor, self.name, places)

    async def subscribe(
        self, session_id: str | None = None, *, after: Cursor | None = None, limit: int = PAGE_ENTRIES
    ) -> AsyncIterator[Page]:
        with self._notifier.subscribe() as changed:
            while not self._closed:
                changed.clear()
                page = await self.read(session_id, after=after, limit=limit)
                if page.entries:
                    after = page.cursor
                    yield page
                    if session_id is not None and notes.is_tombstone(page.entries[-1]):
                        return
                else:
                    await changed.wait()

    async def changes(self) -> AsyncIterator[None]:
        with self._notifier.subscribe() as changed:
            while not self._closed:
                changed.clear()
                yield
                await changed.wait()

    async def changed_sessions(self, after: Cursor) -> tuple[Cursor, frozenset[str]]:
        self._check_open()
        place = parse_cursor(self.name, after)
        found = {places[-1]: one for one, places in self._of_session.items() if places and places[-1] > place}
        return format_cursor(self.name, max(place, self._end)), frozenset(found.values())

    async def connections(self) -> Sequence[Connection]:
        return list(self._connections.values())

    async def positions(self) -> Sequence[Position]:
        return list(self._positions.values())

    async def sessions(self) -> Sequence[Session]:
        await refresh_rows(self)
        found = [session for store in reversed(self._rows.values()) for session in store.read().sessions]
        return sorted(found, key=lambda session: -session.updated)

    async def session(self, session_id: str) -> Session | None:
        return next(iter((await self.rows(session_id)).sessions), None)

    async def rows(self, session_id: str) -> SessionRows:
        await refresh_rows(self, session_id)
        return await self.stored_rows(session_id)

    async def summaries(self, session_ids: Iterable[str]) -> Mapping[str, SessionSummary]:
        return {session_id: summarize(await self.rows(session_id)) for session_id in session_ids}

    async def tombstones(self) -> Sequence[Tombstone]:
        await refresh_rows(self)
        return [tombstone for store in self._rows.values() for tombstone in store.read().tombstones]

    async def search(self, query: SearchQuery) -> Sequence[SearchHit]:
        await refresh_rows(self)
        terms = query_terms(query.text)
        found: list[Candidate] = []
        for session in await self.sessions() if terms else ():
            store = self._rows[session.id]
            found.extend(
                Candidate(session.id, doc.row_id, doc.kind, doc.at, text, text_folded)
                for doc in store.docs
                if _wanted(query, session, doc)
                and all(term in (text_folded := fold_case(text := store.text(doc))) for term in terms)
            )
        found.sort(key=lambda candidate: -candidate.at)
        return rank(query, found[:MAX_RANKED])

    # -- owners and the inbox

    async def heartbeat(self, process: Process) -> None:
        self._check_open()
        self._processes[process.id] = process

    async def owner(self, session_id: str) -> Owner | None:
        self._check_open()
        if session_id not in self._owners:
            return None
        process_id, epoch = self._owners[session_id]
        return Owner(self._processes.get(process_id or ""), epoch)

    async def claim(self, session_id: str, process_id: str, *, is_alive: Callable[[Process], bool]) -> int:
        known = await self.owner(session_id)
        if known is not None and known.process is not None:
            if known.process.id == process_id:
                return known.epoch
            if is_alive(known.process):
                raise NotTheOwner(
                    f"session {session_id} is owned by process {known.process.pid} on {known.process.host}",
                    owner=known.process.id,
                )
        epoch = known.epoch + 1 if known is not None else 1
        self._owners[session_id] = (process_id, epoch)
        return epoch

    async def release(self, session_id: str, process_id: str) -> None:
        self._check_open()
        owned_by, epoch = self._owners.get(session_id, (None, 0))
        if owned_by == process_id:
            self._owners[session_id] = (None, epoch)

    async def send_command(self, command: Command) -> bool:
        self._check_open()
        if command.id in self._inbox:
            return False
        self._inbox[command.id] = CommandState(command=command)
        self._notifier.notify()
        return True

    async def take_commands(self, session_id: str, epoch: int) -> Sequence[Command]:
        known = await self.owner(session_id)
        if known is None or known.process is None or known.epoch != epoch:
            raise NotTheOwner(f"session {session_id} is not owned under epoch {epoch} any more")
        taken: list[Command] = []
        for command_id, state in self._inbox.items():
            waits = state.outcome is None and self._taken.get(command_id, 0) < epoch
            if waits and state.command.session_id == session_id:
                self._taken[command_id] = epoch
                self._inbox[command_id] = msgspec.structs.replace(state, taken=True)
                taken.append(state.command)
        return taken

    async def command_state(self, command_id: str) -> CommandState | None:
        self._check_open()
        return self._inbox.get(command_id)

    async def sessions_with_commands(self) -> frozenset[str]:
        self._check_open()
        return frozenset(one.command.session_id for one in self._inbox.values() if not one.taken and not one.outcome)

    async def pending_commands(self, session_id: str) -> Sequence[Command]:
        self._check_open()
        states = self._inbox.values()
        return [one.command for one in states if one.outcome is None and one.command.session_id == session_id]

    # -- upkeep

    @property
    def pending_writes(self) -> int:
        return 0

    def commit_times(self) -> Sequence[float]:
        return ()

    async def stale_sessions(self) -> Sequence[str]:
        self._check_open()
        return [one for one, places in self._of_session.items() if self._rows[one].folded != len(places)]

    async def session_ids(self) -> Sequence[str]:
        self._check_open()
        return list(self._rows)

    async def stored_rows(self, session_id: str) -> SessionRows:
        self._check_open()
        return self._rows.get(session_id, RowStore()).read()

    async def replace_rows(self, changes: RowChanges) -> bool:
        if len(self._of_session.get(changes.session_id, ())) != changes.position:
            return False
        self._rows[changes.session_id] = RowStore()
        self._apply(changes)
        return True

    async def check(self) -> Sequence[str]:
        return []

    async def vacuum(self) -> None:
        self._check_open()

    async def compress(self, session_id: str) -> None:
        self._check_open()


def _wanted(query: SearchQuery, session: Session, doc: SearchDocument) -> bool:
    return (
        (query.session_id is None or query.session_id == session.id)
        and (query.agent is None or query.agent == session.agent)
        and (query.cwd is None or query.cwd == session.cwd)
        and (not query.kinds or doc.kind in query.kinds)
        and (query.since is None or doc.at >= query.since)
        and (query.until is None or doc.at < query.until)
    )
