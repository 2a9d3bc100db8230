"""The SQLite file: its tables, how it is opened, and how an older one is brought up to date.

Two kinds of tables. What is no fold (frames, connections, owners, inbox, watch positions) is migrated and never thrown
away. Rows are folds: their tables are made from the row types themselves, and where those, or the fold's version, have
changed, they are dropped and made anew from the frames.

Names that occur in every frame (connections, sessions, kinds) are kept once and referred to by number; the view
`frames` shows them as they are.
"""

from __future__ import annotations

import secrets
import sqlite3
import types
import zlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, Union, get_args, get_origin

import msgspec

from dragoman.journal.entry import ORIGINS
from dragoman.journal.errors import JournalCorrupt, JournalError, from_sqlite
from dragoman.journal.rows import FOLD_VERSION, TABLES

# `process`: what is committed outlives any end of the process; a power cut may cost the last moments, never the file
# (NORMAL: the log is synced before it is copied into the file, not at each commit). `power`: each commit is synced.
Durability: TypeAlias = Literal["process", "power"]

# Seconds that a writer waits for another process. A commit takes milliseconds; only a vacuum or a stopped process
# holds the file for longer.
BUSY_SECONDS: Final = 30.0

# Every table and index has a page at least, and most journals are small; larger pages were no faster in a burst.
PAGE_SIZE: Final = 4096

# Pages of log after which it is copied back into the file, come what may: 64 MB. Usually that is done before, at a
# quiet moment (`SqliteJournal`), so that no burst waits for the disk.
CHECKPOINT_PAGES: Final = 16_000

# JSON of more bytes than this is stored compressed: the lists of models and commands that agents send are long, and
# alike from session to session; diffs and inputs of tools are in their frames already. (Measured on transcripts: with
# a tenth of it the file is 7 % smaller, and what compresses it takes a fifth longer.)
_LONG_JSON: Final = 4000

# What the writer keeps of the file. A commit of several sessions changes more pages than SQLite's own 2 MB hold; what
# does not fit is written, and read again, before its time.
WRITER_CACHE_KIB: Final = 8 * 1024

# What a reader keeps of the file. A search touches a page for each text it looks at, some hundreds, besides those of
# the index; with SQLite's own 2 MB they push one another out.
READER_CACHE_KIB: Final = 16 * 1024

_ORIGIN: Final = f"CASE e.origin {' '.join(f'WHEN {key} THEN {name!r}' for key, name in enumerate(ORIGINS))} END"

APPLICATION_ID: Final = 0x44524147  # "DRAG"

MIGRATIONS: Final = (
    f"""
    CREATE TABLE meta(key TEXT PRIMARY KEY, value) WITHOUT ROWID;
    CREATE TABLE connections(
        key INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, agent TEXT NOT NULL, at REAL NOT NULL,
        protocol_version INTEGER, capabilities TEXT, agent_info TEXT, frames INTEGER NOT NULL DEFAULT 0);
    CREATE TABLE session_ids(
        key INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, frames INTEGER NOT NULL DEFAULT 0,
        folded INTEGER NOT NULL DEFAULT 0, version TEXT NOT NULL DEFAULT '', deleted INTEGER NOT NULL DEFAULT 0);
    CREATE TABLE kinds(key INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
    CREATE TABLE dictionaries(key INTEGER PRIMARY KEY AUTOINCREMENT, session_id INTEGER NOT NULL, data BLOB NOT NULL);
    CREATE TABLE acp_events(
        seq INTEGER PRIMARY KEY AUTOINCREMENT, connection_id INTEGER NOT NULL, session_id INTEGER, n INTEGER NOT NULL,
        at REAL NOT NULL, origin INTEGER NOT NULL, kind INTEGER NOT NULL, frame BLOB NOT NULL, packed INTEGER);
    CREATE INDEX acp_events_session ON acp_events(session_id);
    CREATE VIEW frames AS
        SELECT e.seq, c.id AS connection_id, s.id AS session_id, e.n, e.at, {_ORIGIN} AS origin, k.name AS kind,
            CASE WHEN e.packed IS NULL THEN CAST(e.frame AS TEXT) END AS frame
        FROM acp_events e JOIN connections c ON c.key = e.connection_id JOIN kinds k ON k.key = e.kind
            LEFT JOIN session_ids s ON s.key = e.session_id;
    CREATE TABLE processes(
        id TEXT PRIMARY KEY, host TEXT NOT NULL, pid INTEGER NOT NULL, started TEXT NOT NULL,
        heartbeat REAL NOT NULL) WITHOUT ROWID;
    CREATE TABLE owners(
        session_id TEXT PRIMARY KEY, process_id TEXT, epoch INTEGER NOT NULL) WITHOUT ROWID;
    CREATE TABLE inbox(
        place INTEGER PRIMARY KEY AUTOINCREMENT, command_id TEXT NOT NULL UNIQUE, session_id TEXT NOT NULL,
        at REAL NOT NULL, body BLOB NOT NULL, taken INTEGER, outcome TEXT, detail TEXT, done_at REAL);
    CREATE INDEX inbox_waiting ON inbox(session_id) WHERE outcome IS NULL;
    """,  # noqa: S608 (all of it is ours)
    """
    CREATE TABLE watch_positions(
        connection_id TEXT PRIMARY KEY, provider TEXT NOT NULL, path TEXT NOT NULL, session_id TEXT NOT NULL,
        frames INTEGER NOT NULL, offset INTEGER NOT NULL, inode INTEGER NOT NULL, size INTEGER NOT NULL,
        modified REAL NOT NULL, finished INTEGER NOT NULL) WITHOUT ROWID
    """,
)


_LARGEST: Final = 2**63 - 1


class Column(msgspec.Struct, frozen=True):
    """A field of a row. What is no plain value is kept as JSON, compressed where long, and its default as NULL."""

    name: str
    type: Any
    plain: bool
    default: Any

    @property
    def as_it_is(self) -> bool:
        """Neither JSON nor a truth value nor a number that may be too large."""
        return self.plain and not any(part in (int, bool) for part in (self.type, *get_args(self.type)))

    def stored(self, value: Any) -> Any:
        if self.plain:
            # A number that SQLite has no room for: agents choose the ids of their requests.
            return msgspec.json.encode(value) if type(value) is int and abs(value) > _LARGEST else value
        if value is None or value == self.default:
            return None
        data = msgspec.json.encode(value)
        # Lightly: more would take several times as long, and save a tenth.
        return data.decode() if len(data) <= _LONG_JSON else zlib.compress(data, 1)

    def read(self, value: Any) -> Any:
        if self.plain:
            if type(value) is bytes:
                return msgspec.json.decode(value)
            return bool(value) if self.type is bool else value
        if value is None:
            return None if self.default is msgspec.NODEFAULT else self.default
        return _decoder(self.type).decode(zlib.decompress(value) if type(value) is bytes else value)


class Table(msgspec.Struct, frozen=True):
    """A table of rows: one column a field, besides the session, the row's key, and a number that orders them."""

    name: str
    type: type[Any]
    columns: tuple[Column, ...]
    names: tuple[str, ...]
    unlike: tuple[tuple[int, Column], ...]  # columns whose values are not stored as they are
    put: str  # a row, in place of the one with its key

    @property
    def ddl(self) -> str:
        # With rowids: without them SQLite keeps a quarter of a page of a row in place, and a longer one, as most tool
        # calls are, takes whole pages for the rest.
        names = ", ".join(f'"{column.name}"' for column in self.columns)
        return (
            f'CREATE TABLE "{self.name}"(session INTEGER NOT NULL, key TEXT NOT NULL, place INTEGER NOT NULL, {names},'
            " PRIMARY KEY(session, key))"
        )

    @property
    def select(self) -> str:
        names = ", ".join(f'"{column.name}"' for column in self.columns)
        return f'SELECT {names}, place FROM "{self.name}"'  # noqa: S608 (names of our own)

    def values(self, row: Any) -> list[Any]:
        values = list(msgspec.structs.astuple(row))
        for index, column in self.unlike:
            values[index] = column.stored(values[index])
        return values

    def row(self, values: tuple[Any, ...]) -> Any:
        read = list(values)
        for index, column in self.unlike:
            read[index] = column.read(read[index])
        return self.type(**dict(zip(self.names, read, strict=False)))  # the place is left over


@cache
def _decoder(type_: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(type_)


_PLAIN: Final = (str, int, float, bool, type(None))


def _is_plain(type_: Any) -> bool:
    origin = get_origin(type_)
    if origin in (Union, types.UnionType):
        return all(_is_plain(member) for member in get_args(type_))
    return origin is Literal or type_ in _PLAIN


def _table(name: str, type_: type[Any]) -> Table:
    columns = [
        Column(
            field.name,
            field.type,
            _is_plain(field.type),
            field.default_factory() if field.default_factory is not msgspec.NODEFAULT else field.default,
        )
        for field in msgspec.structs.fields(type_)
    ]
    names = tuple(column.name for column in columns)
    unlike = tuple((index, column) for index, column in enumerate(columns) if not column.as_it_is)
    return Table(name, type_, tuple(columns), names, unlike, _put(name, names))


def _put(table: str, names: Sequence[str]) -> str:
    values = ", ".join("?" * (len(names) + 3))
    changes = ", ".join(f'"{name}" = excluded."{name}"' for name in names)
    return f'INSERT INTO "{table}" VALUES({values}) ON CONFLICT(session, key) DO UPDATE SET {changes}'


ROW_TABLES: Final = {name: _table(name, type_) for name, type_ in TABLES.items()}

# Beside the tables of rows: the parts of messages that go on, and what can be searched. The index keeps no text of
# its own; a message's is in its row, a tool call's in `search_docs`.
_MORE_ROWS: Final = {
    "message_parts": (
        "CREATE TABLE message_parts(session INTEGER NOT NULL, message_id TEXT NOT NULL, text TEXT NOT NULL, blocks)",
        "CREATE INDEX message_parts_message ON message_parts(session, message_id)",
    ),
    "search_docs": (
        "CREATE TABLE search_docs("
        "id INTEGER PRIMARY KEY AUTOINCREMENT, session INTEGER NOT NULL, row_id TEXT NOT NULL, kind TEXT NOT NULL,"
        " at REAL NOT NULL, text TEXT)",
        "CREATE INDEX search_docs_session ON search_docs(session)",
    ),
    "search_index": (
        "CREATE VIRTUAL TABLE search_index USING fts5(text, content='', columnsize=0, detail=none, tokenize='trigram')",
    ),
    "search_terms": ("CREATE VIRTUAL TABLE search_terms USING fts5vocab(search_index, 'row')",),
}
# How the index is written. Each commit adds a part to it, and many parts are merged into fewer along the way: with
# SQLite's own 4 nearly half of the time goes there, and a search hardly notices a dozen. Below 16, at which all are
# merged at once, it is done a little at each commit. And a part may grow to 2 MB before it is written.
_INDEX_SETTINGS: Final = {"automerge": 12, "hashsize": 2 * 1024 * 1024}

_VIEWS: Final = {
    "workspaces": "CREATE VIEW workspaces AS SELECT cwd, MIN(created) AS created, MAX(updated) AS updated,"
    " COUNT(*) AS sessions FROM sessions WHERE cwd <> '' GROUP BY cwd",
}
SESSION_TABLES: Final = (*ROW_TABLES, "message_parts", "search_docs")


def _rows_ddl() -> list[str]:
    made = [table.ddl for table in ROW_TABLES.values()]
    made.extend(statement for statements in _MORE_ROWS.values() for statement in statements)
    return [*made, *_VIEWS.values()]


# What the rows were made by: the fold's version, and the shape of the tables.
ROWS_VERSION: Final = f"{FOLD_VERSION}.{zlib.crc32(' '.join(_rows_ddl()).encode()):08x}"


def connect(path: Path, durability: Durability = "process", *, busy: float = BUSY_SECONDS) -> sqlite3.Connection:
    """A connection for one thread at a time. Transactions are begun by hand."""
    connection = sqlite3.connect(
        path, isolation_level=None, timeout=busy, check_same_thread=False, cached_statements=256
    )
    try:
        connection.execute(f"PRAGMA page_size = {PAGE_SIZE}")  # heeded by an empty file only
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA synchronous = {'FULL' if durability == 'power' else 'NORMAL'}")
        connection.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
        connection.execute(f"PRAGMA cache_size = -{WRITER_CACHE_KIB}")
        connection.execute("PRAGMA secure_delete = ON")  # what is deleted is overwritten
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def connect_reader(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(
        path, isolation_level=None, timeout=BUSY_SECONDS, check_same_thread=False, cached_statements=64
    )
    connection.execute("PRAGMA query_only = ON")
    connection.execute(f"PRAGMA cache_size = -{READER_CACHE_KIB}")
    return connection


def prepare(connection: sqlite3.Connection, path: Path) -> str:
    """Makes the tables, or brings them up to date; returns the journal's own name, which its cursors carry."""
    try:
        (known,) = connection.execute("PRAGMA user_version").fetchone()
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (objects,) = connection.execute("SELECT COUNT(*) FROM sqlite_schema").fetchone()
        if objects and application != APPLICATION_ID:
            raise JournalCorrupt(f"{path} is a database, but no journal", guidance="Choose another file.")
        if known > len(MIGRATIONS):
            raise JournalError(
                f"{path} was written by a newer Dragoman (format {known}, this one knows {len(MIGRATIONS)})",
                guidance="Use the newer Dragoman, or another home folder.",
            )
        name = connection.execute("SELECT value FROM meta WHERE key = 'name'").fetchone() if known else None
        rows = connection.execute("SELECT value FROM meta WHERE key = 'rows'").fetchone() if known else None
        if known == len(MIGRATIONS) and name is not None and rows == (ROWS_VERSION,):
            return str(name[0])
        return _migrate(connection)
    except sqlite3.Error as problem:
        raise from_sqlite(problem, str(path)) from problem


def _migrate(connection: sqlite3.Connection) -> str:
    connection.execute("BEGIN EXCLUSIVE")
    try:
        (known,) = connection.execute("PRAGMA user_version").fetchone()  # another process may have been faster
        for migration in MIGRATIONS[known:]:
            for statement in migration.split(";"):
                connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute("INSERT OR IGNORE INTO meta VALUES('name', ?)", (secrets.token_hex(3),))
        if connection.execute("SELECT value FROM meta WHERE key = 'rows'").fetchone() != (ROWS_VERSION,):
            make_rows_anew(connection)
        (name,) = connection.execute("SELECT value FROM meta WHERE key = 'name'").fetchone()
        connection.execute("COMMIT")
        return str(name)
    except BaseException:
        connection.execute("ROLLBACK")
        raise


def make_rows_anew(connection: sqlite3.Connection) -> None:
    """Drops all rows and makes their tables, empty. Sessions then have no rows until they are folded again."""
    old = connection.execute("SELECT value FROM meta WHERE key = 'row_tables'").fetchone()
    for kind, name in msgspec.json.decode(old[0], type=list[tuple[str, str]]) if old else []:
        connection.execute(f'DROP {kind} IF EXISTS "{name}"')
    for statement in _rows_ddl():
        connection.execute(statement)
    for setting, value in _INDEX_SETTINGS.items():
        connection.execute("INSERT INTO search_index(search_index, rank) VALUES(?, ?)", (setting, value))
    # Views and the vocabulary first: they refer to the tables.
    names = [
        *(("VIEW", name) for name in _VIEWS),
        *(("TABLE", name) for name in (*reversed(_MORE_ROWS), *ROW_TABLES)),
    ]
    connection.execute("INSERT OR REPLACE INTO meta VALUES('row_tables', ?)", (msgspec.json.encode(names),))
    connection.execute("INSERT OR REPLACE INTO meta VALUES('rows', ?)", (ROWS_VERSION,))
    connection.execute("UPDATE session_ids SET version = '', folded = 0")
