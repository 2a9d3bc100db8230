"""The journal in SQLite, in a file or in memory: one thread writes, a few others read, and the event loop does neither.

Any number of processes may use the same file: one writes at a time, all read at any time, and each follows what the
others append.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Final, NamedTuple, TypeVar

import msgspec

from dragoman.journal import notes
from dragoman.journal.entry import Cursor, Entry, Page, format_cursor, parse_cursor
from dragoman.journal.errors import JournalClosed, JournalCorrupt, JournalError, JournalReadOnly, from_sqlite
from dragoman.journal.maintenance import refresh_rows
from dragoman.journal.protocols import (
    OWN_CONNECTION,
    PAGE_ENTRIES,
    CommandState,
    CommitListener,
    Connection,
    InboxCommand,
    Owner,
    Process,
    TranscriptPosition,
)
from dragoman.journal.rows import RowChanges, Session, SessionRows, SessionSummary, Tombstone, is_longer_than
from dragoman.journal.search_documents import SearchHits, SearchQuery, rank
from dragoman.journal.session_record import SessionRecord
from dragoman.journal.sqlite import owners, rows, schema, search
from dragoman.journal.sqlite.frames import FrameReader, FrameWriter, compress_frames, compress_large
from dragoman.journal.sqlite.writer import ChangeNotifier, Writer

T = TypeVar("T")

# Threads that read. Further readers wait for a page's time; more threads do not make the disk faster.
_READER_THREADS: Final = 3

# Frames that are compressed in one commit: some milliseconds, so that a running session hardly notices.
_COMPRESSED_PER_COMMIT: Final = 500


# Bytes of frames after which the log is copied back into the file: at a quiet moment, and in a flood that has none. A
# small commit writes some pages, however little it stores.
_CHECKPOINT_BYTES: Final = 4 * 1024 * 1024
_FLOOD_CHECKPOINT_BYTES: Final = 8 * 1024 * 1024
_MIN_COMMIT_BYTES: Final = 32 * 1024

# An append of at least so many bytes of frames, as imports make them, is encoded in a thread of its own while the
# writer stores the one before. With less, the hand-over would cost more than it saves.
_BULK_BYTES: Final = 64 * 1024

# An append of more bytes is encoded before the writer gets it: the writer would wait, and all sessions with it.
_LARGE_BYTES: Final = 2 * 1024 * 1024

_POSITION_COLUMNS: Final = TranscriptPosition.__struct_fields__
_UPSERT_POSITION: Final = (
    f"INSERT INTO transcript_positions({', '.join(_POSITION_COLUMNS)})"
    f" VALUES({', '.join('?' * len(_POSITION_COLUMNS))}) ON CONFLICT(connection_id) DO UPDATE SET "
    + ", ".join(f"{name} = excluded.{name}" for name in _POSITION_COLUMNS if name != "frames")
    + ", frames = MAX(frames, excluded.frames)"
)


class SqliteJournal:
    """Created by `open`. `protocols` says what each method promises."""

    def __init__(self, path: Path, connection: sqlite3.Connection, name: str, *, is_in_memory: bool = False) -> None:
        self.path = path
        self.name = name
        self._connection = connection
        self._frame_writer = FrameWriter(connection)
        self._frame_reader = FrameReader(name)
        self._version_connection: sqlite3.Connection | None = None
        self._inbox_connection: sqlite3.Connection | None = None
        self._is_in_memory = is_in_memory
        self._notifier = ChangeNotifier(None if is_in_memory else self._data_version)
        self._inbox_notifier = ChangeNotifier(None if is_in_memory else self._inbox_version)
        self._log_bytes = 0  # bytes of frames since the log was last copied into the file
        self._writer = Writer(
            connection,
            str(path),
            before_commit=lambda: schema.check_version(connection, path),
            after_commit=self._after_commit,
            after_rollback=self._frame_writer.forget,
            when_quiet=lambda: self._checkpoint(_CHECKPOINT_BYTES),
        )
        self._bulk_thread = ThreadPoolExecutor(1, "dragoman journal bulk")
        self._large_thread = ThreadPoolExecutor(1, "dragoman journal large")  # starts when it is needed
        self._reader_threads = ThreadPoolExecutor(_READER_THREADS, "dragoman journal reader")
        self._idle_readers: SimpleQueue[sqlite3.Connection] = SimpleQueue()
        self._checkpointing = threading.Lock()
        self._listeners: list[CommitListener] = []
        self._is_closed = False
        # Large appends that the writer does not have yet: the ids of their connections and sessions.
        self._large_appends: dict[asyncio.Future[None], frozenset[str]] = {}

    @classmethod
    async def open(
        cls, path: Path, *, durability: schema.Durability = "process", busy_s: float = schema.BUSY_TIMEOUT_S
    ) -> SqliteJournal:
        """Open the file, or create it. A write waits up to `busy_s` seconds for other processes."""
        return await asyncio.to_thread(cls._open, path, durability, busy_s)

    @classmethod
    def _open(cls, path: Path, durability: schema.Durability, busy_s: float) -> SqliteJournal:
        try:
            if not path.exists():
                path.touch(mode=0o600)  # conversations with agents are private
            connection = schema.connect(path, durability, busy_s=busy_s)
        except OSError as error:
            raise JournalReadOnly(f"the journal cannot be created: {error}") from error
        except sqlite3.Error as error:
            raise from_sqlite(error, str(path)) from error
        try:
            return cls(path, connection, schema.prepare(connection, path))
        except BaseException:
            connection.close()
            raise

    async def __aenter__(self) -> SqliteJournal:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Commit every pending write and end all subscriptions. Closing twice is fine."""
        if not self._is_closed:
            self._is_closed = True
            await asyncio.to_thread(self._close)

    def _close(self) -> None:
        self._writer.close()
        self._bulk_thread.shutdown()
        self._large_thread.shutdown()
        self._notifier.close()
        self._inbox_notifier.close()
        for connection in (self._version_connection, self._inbox_connection):
            if connection is not None:
                connection.close()
        self._reader_threads.shutdown()
        while True:
            try:
                self._idle_readers.get_nowait().close()
            except Empty:
                break
        self._connection.close()

    @property
    def pending_writes(self) -> int:
        return self._writer.pending_jobs

    def commit_times(self) -> list[float]:
        return self._writer.commit_times()

    def _data_version(self) -> int:
        """Return a number that changes with every commit of any process."""
        try:
            if self._version_connection is None:
                self._version_connection = schema.connect_reader(self.path)
            return int(self._version_connection.execute("PRAGMA data_version").fetchone()[0])
        except sqlite3.Error:
            return -1  # the next reader reports the error

    def _inbox_version(self) -> int:
        """Return a number that changes with every command that any process sends."""
        try:
            if self._inbox_connection is None:
                self._inbox_connection = schema.connect_reader(self.path)
            return owners.inbox_version(self._inbox_connection)
        except sqlite3.Error:
            return -1  # the next reader reports the error

    # -- writing

    async def register_connection(self, connection: Connection) -> None:
        await self._writer.write(lambda: self._register_connection(connection))

    def _register_connection(self, connection: Connection) -> None:
        self._connection.execute(
            "INSERT INTO connections(id, agent, at, protocol_version, capabilities, agent_info)"
            " VALUES(?, ?, ?, ?, ?, ?) ON CONFLICT(id) DO UPDATE SET agent = excluded.agent,"
            " protocol_version = excluded.protocol_version, capabilities = excluded.capabilities,"
            " agent_info = excluded.agent_info",
            (
                connection.id,
                connection.agent,
                connection.at,
                connection.protocol_version,
                None if connection.capabilities is None else bytes(connection.capabilities).decode(),
                None if connection.agent_info is None else bytes(connection.agent_info).decode(),
            ),
        )

    async def append(
        self,
        entries: Sequence[Entry],
        changes: Sequence[RowChanges] = (),
        *,
        epochs: Mapping[str, int] = {},
        transcript_position: TranscriptPosition | None = None,
    ) -> Cursor:
        size = sum([len(entry.frame) for entry in entries])
        encoding: Future[_Encoded] | None = None
        is_large = size > _LARGE_BYTES or (transcript_position is None and any(map(_is_large, changes)))
        if is_large or self._large_appends:
            encoding = await self._encode_in_order(entries, changes, is_large=is_large)
        elif size >= _BULK_BYTES and not self._is_closed:
            encoding = self._bulk_thread.submit(_encode, entries, changes)

        def write() -> int:
            if transcript_position is not None:
                self._connection.execute(_UPSERT_POSITION, msgspec.structs.astuple(transcript_position))
            self._log_bytes += size + _MIN_COMMIT_BYTES
            return self._append(entries, changes, epochs, encoding.result() if encoding is not None else None)

        def on_committed(seq: int) -> None:
            if self._listeners:
                self._call_listeners(format_cursor(self.name, seq), entries, changes)

        seq = await self._writer.write(write, size_bytes=size, on_committed=on_committed)
        return format_cursor(self.name, seq)

    async def _encode_in_order(
        self, entries: Sequence[Entry], changes: Sequence[RowChanges], *, is_large: bool
    ) -> Future[_Encoded] | None:
        """Wait for large appends to the same connections and sessions; then, if this one is large, until it is encoded.

        Appends to one connection or session reach the writer in the order of the calls.
        """
        ids = frozenset(
            id_ for entry in entries for id_ in (entry.connection_id, entry.session_id) if id_ is not None
        ).union(change.session_id for change in changes)
        while earlier := [done for done, others in self._large_appends.items() if ids & others]:
            await asyncio.wait(earlier)
        if not is_large or self._is_closed:
            return None
        encoded = asyncio.get_running_loop().create_future()
        self._large_appends[encoded] = ids
        try:
            encoding = self._large_thread.submit(_encode, entries, changes)
            await asyncio.wrap_future(encoding)
            return encoding
        finally:
            del self._large_appends[encoded]
            encoded.set_result(None)

    def on_commit(self, listener: CommitListener) -> Callable[[], None]:
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def _call_listeners(self, cursor: Cursor, entries: Sequence[Entry], changes: Sequence[RowChanges]) -> None:
        for listener in list(self._listeners):
            listener(cursor, entries, changes)

    def _append(
        self,
        entries: Sequence[Entry],
        changes: Sequence[RowChanges],
        epochs: Mapping[str, int],
        encoded: _Encoded | None = None,
    ) -> int:
        compressed, encoded_rows = encoded or _encode(entries, changes)
        seq = self._frame_writer.append(entries, epochs, [change.session_id for change in changes], compressed)
        for change, values in zip(changes, encoded_rows, strict=True):
            rows.apply_changes(self._connection, self._frame_writer.session_key(change.session_id), change, values)
        return seq or _last_seq(self._connection)

    def _after_commit(self) -> None:
        self._notifier.notify()
        self._checkpoint(_FLOOD_CHECKPOINT_BYTES)

    def _checkpoint(self, limit_bytes: int) -> None:
        """Have the log copied back into the file when it is long: by another thread, as no commit has to wait for that.

        (Measured in a flood: SQLite itself does it in a commit, which then takes 120 ms, and all sessions wait.)
        """
        if self._log_bytes >= limit_bytes and not self._is_in_memory:
            self._log_bytes = 0
            self._reader_threads.submit(self._with_reader, self._copy_log)

    def _copy_log(self, connection: sqlite3.Connection) -> None:
        with self._checkpointing:
            try:
                connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
            except sqlite3.Error:
                pass  # the log stays as it is; the next write reports the error

    async def delete(self, session_id: str, *, at: float, by: str = "") -> bool:
        await refresh_rows(self, session_id)

        def on_committed(deletion: tuple[int, Entry, RowChanges] | None) -> None:
            if deletion is not None:
                seq, entry, changes = deletion
                self._call_listeners(format_cursor(self.name, seq), [entry], [changes])

        if await self._writer.write(lambda: self._delete(session_id, at, by), on_committed=on_committed) is None:
            return False
        await self._writer.run_alone(self._truncate_log)
        return True

    def _delete(self, session_id: str, at: float, by: str) -> tuple[int, Entry, RowChanges] | None:
        connection = self._connection
        record = connection.execute("SELECT key, is_deleted FROM session_keys WHERE id = ?", (session_id,)).fetchone()
        if record is None or record[1]:
            return None
        (key, _) = record
        session = rows.read_session(connection, session_id)
        was_searchable = connection.execute("SELECT 1 FROM search_documents WHERE session_key = ? LIMIT 1", (key,))
        has_texts = was_searchable.fetchone() is not None
        rows.delete_rows(connection, key)
        for table in ("stored_frames", "compression_dictionaries"):
            connection.execute(f"DELETE FROM {table} WHERE session_key = ?", (key,))  # noqa: S608 (names of our own)
        for table in ("owners", "inbox", "transcript_positions"):
            connection.execute(f"DELETE FROM {table} WHERE session_id = ?", (session_id,))  # noqa: S608
        if has_texts:
            # Merging the index into one segment leaves no trace of deleted texts.
            self._run_index_command("optimize")
        connection.execute("UPDATE session_keys SET frame_count = 0 WHERE key = ?", (key,))
        connection.execute("INSERT OR IGNORE INTO connections(id, agent, at) VALUES(?, '', ?)", (OWN_CONNECTION, at))
        (n,) = connection.execute("SELECT frame_count FROM connections WHERE id = ?", (OWN_CONNECTION,)).fetchone()
        note = notes.tombstone(session_id, session, by)
        entry = Entry(OWN_CONNECTION, session_id, n + 1, at, "host", note.method, note.line)
        record = SessionRecord(session_id)
        record.add(entry, note)
        changes = record.take()
        seq = self._append([entry], [changes], {})
        connection.execute("UPDATE session_keys SET is_deleted = 1 WHERE key = ?", (key,))
        return seq, entry, changes

    def _truncate_log(self) -> None:
        """Empty the log, which still has earlier states of the file."""
        with self._checkpointing:
            busy, _, _ = self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if busy:
            raise JournalError(
                f"deleted, but {self.path}-wal may still have traces of it: another process is reading the journal",
                guidance="Run `dragoman journal vacuum` when nothing else uses it.",
            )

    # -- reading

    async def _read(self, read: Callable[[sqlite3.Connection], T]) -> T:
        if self._is_closed:
            raise JournalClosed(f"the journal {self.path} is closed")
        if self._is_in_memory:
            return await self._writer.read(lambda: read(self._connection))  # there is no second connection to it
        return await asyncio.get_running_loop().run_in_executor(self._reader_threads, self._with_reader, read)

    def _with_reader(self, read: Callable[[sqlite3.Connection], T]) -> T:
        try:
            try:
                connection = self._idle_readers.get_nowait()
            except Empty:
                connection = schema.connect_reader(self.path)
            try:
                schema.check_version(connection, self.path)
                return read(connection)
            finally:
                self._idle_readers.put(connection)
        except sqlite3.Error as error:
            raise from_sqlite(error, str(self.path)) from None  # it may quote a conversation

    async def cursor(self) -> Cursor:
        return format_cursor(self.name, await self._read(_last_seq))

    async def read(
        self, session_id: str | None = None, *, after: Cursor | None = None, limit: int = PAGE_ENTRIES
    ) -> Page:
        seq = parse_cursor(self.name, after)
        return await self._read(lambda connection: self._frame_reader.read_page(connection, session_id, seq, limit))

    async def subscribe(
        self, session_id: str | None = None, *, after: Cursor | None = None, limit: int = PAGE_ENTRIES
    ) -> AsyncIterator[Page]:
        with self._notifier.subscribe() as changed:
            while not self._is_closed:
                changed.clear()
                try:
                    page = await self.read(session_id, after=after, limit=limit)
                except JournalClosed:
                    return
                if page.entries:
                    after = page.cursor
                    yield page
                    if session_id is not None and notes.is_tombstone(page.entries[-1]):
                        return
                else:
                    await changed.wait()

    async def changes(self) -> AsyncIterator[None]:
        with self._notifier.subscribe() as changed:
            while not self._is_closed:
                changed.clear()
                yield
                await changed.wait()

    async def changed_sessions(self, after: Cursor) -> tuple[Cursor, frozenset[str]]:
        seq = parse_cursor(self.name, after)

        def read(connection: sqlite3.Connection) -> tuple[Cursor, frozenset[str]]:
            last_seq = _last_seq(connection)
            records = connection.execute(
                "SELECT id FROM session_keys WHERE key IN"
                " (SELECT DISTINCT session_key FROM stored_frames WHERE seq > ? AND seq <= ?)",
                (seq, last_seq),
            )
            return format_cursor(self.name, max(seq, last_seq)), frozenset(id_ for (id_,) in records)

        return await self._read(read)

    async def connections(self) -> Sequence[Connection]:
        def read(connection: sqlite3.Connection) -> list[Connection]:
            records = connection.execute(
                "SELECT id, agent, at, protocol_version, capabilities, agent_info FROM connections ORDER BY key"
            )
            return [
                Connection(
                    id=id_,
                    agent=agent,
                    at=at,
                    protocol_version=version,
                    capabilities=None if capabilities is None else msgspec.Raw(capabilities.encode()),
                    agent_info=None if info is None else msgspec.Raw(info.encode()),
                )
                for id_, agent, at, version, capabilities, info in records
            ]

        return await self._read(read)

    async def transcript_positions(self) -> Sequence[TranscriptPosition]:
        def read(connection: sqlite3.Connection) -> list[TranscriptPosition]:
            names = _POSITION_COLUMNS
            records = connection.execute(f"SELECT {', '.join(names)} FROM transcript_positions")  # noqa: S608
            return [
                msgspec.convert(dict(zip(names, values, strict=True)), TranscriptPosition, strict=False)
                for values in records
            ]

        return await self._read(read)

    async def _read_rows(self, read: Callable[[sqlite3.Connection], T], session_id: str | None = None) -> T:
        """Read rows of one session or of all, after rebuilding those that are stale."""

        def read_if_fresh(connection: sqlite3.Connection) -> tuple[T] | None:
            return None if _stale_sessions(connection, session_id) else (read(connection),)

        while (result := await self._read(read_if_fresh)) is None:
            await refresh_rows(self, session_id)
        return result[0]

    async def sessions(self) -> Sequence[Session]:
        return await self._read_rows(rows.read_sessions)

    async def session(self, session_id: str) -> Session | None:
        return await self._read_rows(lambda connection: rows.read_session(connection, session_id), session_id)

    async def rows(self, session_id: str, *, max_characters: int | None = None) -> SessionRows:
        return await self._read_rows(
            lambda connection: rows.read_rows(connection, session_id, max_characters), session_id
        )

    async def summaries(self, session_ids: Iterable[str]) -> Mapping[str, SessionSummary]:
        chosen = list(session_ids)
        return await self._read_rows(
            lambda connection: {session_id: rows.read_summary(connection, session_id) for session_id in chosen}
        )

    async def tombstones(self) -> Sequence[Tombstone]:
        table = schema.ROW_TABLES["tombstones"]
        return await self._read_rows(
            lambda connection: [table.decode(values) for values in connection.execute(table.select)]
        )

    async def search(self, query: SearchQuery) -> SearchHits:
        return await self._read_rows(lambda connection: rank(query, search.candidates(connection, query)))

    # -- owners and the inbox

    async def heartbeat(self, process: Process) -> None:
        await self._writer.write(lambda: owners.heartbeat(self._connection, process))

    async def claim(self, session_id: str, process_id: str, *, is_alive: Callable[[Process], bool]) -> int:
        return await self._writer.write(lambda: owners.claim(self._connection, session_id, process_id, is_alive))

    async def release(self, session_id: str, process_id: str) -> None:
        await self._writer.write(lambda: owners.release(self._connection, session_id, process_id))

    async def owner(self, session_id: str) -> Owner | None:
        return await self._read(lambda connection: owners.owner(connection, session_id))

    async def send_command(self, command: InboxCommand, *, taken_epoch: int | None = None) -> bool:
        is_new = await self._writer.write(lambda: owners.send_command(self._connection, command, taken_epoch))
        if is_new and taken_epoch is None:
            self._inbox_notifier.notify()
        return is_new

    async def command_changes(self) -> AsyncIterator[None]:
        with self._inbox_notifier.subscribe() as changed:
            while not self._is_closed:
                changed.clear()
                yield
                await changed.wait()

    async def take_commands(self, session_id: str, epoch: int) -> Sequence[InboxCommand]:
        return await self._writer.write(lambda: owners.take_commands(self._connection, session_id, epoch))

    async def command_state(self, command_id: str) -> CommandState | None:
        return await self._read(lambda connection: owners.command_state(connection, command_id))

    async def sessions_with_commands(self) -> frozenset[str]:
        return await self._read(owners.sessions_with_commands)

    async def pending_commands(self, session_id: str) -> Sequence[InboxCommand]:
        return await self._read(lambda connection: owners.pending_commands(connection, session_id))

    # -- maintenance

    async def stale_sessions(self) -> Sequence[str]:
        return await self._read(_stale_sessions)

    async def session_ids(self) -> Sequence[str]:
        return await self._read(
            lambda connection: [id_ for (id_,) in connection.execute("SELECT id FROM session_keys ORDER BY key")]
        )

    async def stored_rows(self, session_id: str) -> SessionRows:
        return await self._read(lambda connection: rows.read_rows(connection, session_id))

    async def replace_rows(self, changes: RowChanges) -> bool:
        return await self._writer.write(lambda: self._replace_rows(changes))

    def _replace_rows(self, changes: RowChanges) -> bool:
        record = self._connection.execute(
            "SELECT key, frame_count FROM session_keys WHERE id = ?", (changes.session_id,)
        ).fetchone()
        if record is None or record[1] != changes.position:
            return False
        rows.delete_rows(self._connection, record[0])
        rows.apply_changes(self._connection, record[0], changes, rows.encode_changes(changes))
        return True

    async def check(self) -> Sequence[str]:
        def read(connection: sqlite3.Connection) -> list[str]:
            defects = [text for (text,) in connection.execute("PRAGMA integrity_check") if text != "ok"]
            defects += [
                f"session {session_id} has {count} frames, {expected} were appended"
                for session_id, expected, count in connection.execute(
                    "SELECT s.id, s.frame_count, COUNT(f.seq) FROM session_keys s LEFT JOIN stored_frames f"
                    " ON f.session_key = s.key GROUP BY s.key HAVING COUNT(f.seq) <> s.frame_count"
                )
            ]
            defects += [
                f"connection {connection_id} has a frame number twice, or one past its last"
                for (connection_id,) in connection.execute(
                    "SELECT c.id FROM connections c JOIN stored_frames f ON f.connection_key = c.key"
                    " GROUP BY c.key HAVING COUNT(*) <> COUNT(DISTINCT f.n) OR MAX(f.n) > c.frame_count"
                )
            ]
            return defects

        defects = await self._read(read)
        try:
            await self._writer.run_alone(lambda: self._run_index_command("integrity-check"))
        except JournalCorrupt as error:
            defects.append(f"the search index: {error}")
        return defects

    def _run_index_command(self, command: str) -> None:
        self._connection.execute("INSERT INTO search_index(search_index) VALUES(?)", (command,))

    async def vacuum(self) -> None:
        def run() -> None:
            self._run_index_command("optimize")
            self._connection.execute("VACUUM")
            self._truncate_log()

        await self._writer.run_alone(run)

    async def compress(self, session_id: str) -> None:
        while await self._writer.write(lambda: compress_frames(self._connection, session_id, _COMPRESSED_PER_COMMIT)):
            pass


class MemoryJournal(SqliteJournal):
    """A journal without a file, for tests and for programs that leave nothing on the disk. It ends with the process, or
    when it is closed."""

    def __init__(self) -> None:
        path = Path(":memory:")
        connection = schema.connect_memory()
        super().__init__(path, connection, schema.prepare(connection, path), is_in_memory=True)

    async def __aenter__(self) -> MemoryJournal:
        return self


class _Encoded(NamedTuple):
    """The slow part of an append, which needs no connection."""

    frames: Mapping[int, bytes]  # compressed ones, by the index of the entry
    rows: Sequence[rows.EncodedChanges]


def _encode(entries: Sequence[Entry], changes: Sequence[RowChanges]) -> _Encoded:
    return _Encoded(compress_large(entries), [rows.encode_changes(change) for change in changes])


def _is_large(changes: RowChanges) -> bool:
    return any(is_longer_than(value, _LARGE_BYTES) for values in (changes.puts, changes.parts) for value in values)


def _stale_sessions(connection: sqlite3.Connection, session_id: str | None = None) -> list[str]:
    """Return the stale ones among all sessions, or the given session if it is stale."""
    statement = "SELECT id FROM session_keys WHERE (folded_count <> frame_count OR rows_version <> ?)"
    if session_id is None:
        records = connection.execute(f"{statement} ORDER BY key", (schema.ROWS_VERSION,))
    else:
        records = connection.execute(f"{statement} AND id = ?", (schema.ROWS_VERSION, session_id))
    return [id_ for (id_,) in records]


def _last_seq(connection: sqlite3.Connection) -> int:
    """Return the last sequence number that was given out, even if its frame is deleted."""
    record = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'stored_frames'").fetchone()
    return int(record[0]) if record else 0
