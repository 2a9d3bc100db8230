"""The SQLite file: its tables, how it is opened, and how a file of an older version is brought up to date.

There are two kinds of tables. Frames, connections, owners, the inbox and positions of transcripts are the truth: they
are migrated and never dropped. Rows are folded from frames: their tables are made from the row types themselves, and
where these or the fold's version have changed, the tables are dropped and filled again from the frames.

Names that occur in every frame (connections, sessions, kinds) are stored once and referred to by number; the view
`frames` resolves them.
"""

from __future__ import annotations

import codecs
import secrets
import sqlite3
import time
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
from dragoman.journal.search_documents import MAX_MESSAGE_CHARACTERS

# `process`: a commit survives any end of the process; a power failure may cost the last moments, never the file
# (NORMAL: the log is synced before it is copied into the file, not at each commit). `power`: each commit is synced.
Durability: TypeAlias = Literal["process", "power"]

# How long a writer waits for another process. A commit takes milliseconds; only a vacuum or a stopped process holds
# the file for longer.
BUSY_TIMEOUT_S: Final = 30.0

# Every table and index has a page at least, and most journals are small; larger pages were no faster in a burst.
PAGE_BYTES: Final = 4096

# Pages of log after which it is copied back into the file in any case: 64 MB. Usually that happens before, at a quiet
# moment (`SqliteJournal`), so that no burst waits for the disk.
MAX_LOG_PAGES: Final = 16_000

# JSON of more bytes is stored compressed: the lists of models and commands that agents send are long, and alike from
# session to session; diffs and inputs of tools are in their frames already. (Measured on transcripts: with a tenth of
# it the file is 7 % smaller, and compressing it takes a fifth longer.)
_MAX_PLAIN_JSON_BYTES: Final = 4000

# Text of more characters is stored compressed: what an agent wrote at once is often a file, and all sessions wait while
# it is written. (The text of a message that is no longer is what the search index refers to.)
_MAX_PLAIN_TEXT_CHARACTERS: Final = MAX_MESSAGE_CHARACTERS
# Characters, or bytes, that are encoded at once: no other thread runs meanwhile.
_TEXT_STEP: Final = 256 * 1024
_MAX_CHARACTER_BYTES: Final = 4  # in UTF-8

# Page cache of the writer. A commit of several sessions changes more pages than SQLite's default of 2 MB holds; pages
# that do not fit are written and read again early.
WRITER_CACHE_KIB: Final = 8 * 1024

# Page cache of a reader. A search touches a page for each of some hundred texts, besides the pages of the index; with
# SQLite's default of 2 MB they displace one another.
READER_CACHE_KIB: Final = 16 * 1024

APPLICATION_ID: Final = 0x4452474D  # "DRGM"
# Journals that were written before the first release, with other tables.
EARLY_APPLICATION_ID: Final = 0x44524147  # "DRAG"

_ORIGIN: Final = f"CASE f.origin {' '.join(f'WHEN {key} THEN {name!r}' for key, name in enumerate(ORIGINS))} END"

MIGRATIONS: Final = (
    f"""
    CREATE TABLE meta(key TEXT PRIMARY KEY, value) WITHOUT ROWID;
    CREATE TABLE connections(
        key INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, agent TEXT NOT NULL, at REAL NOT NULL,
        protocol_version INTEGER, capabilities TEXT, agent_info TEXT, frame_count INTEGER NOT NULL DEFAULT 0);
    CREATE TABLE session_keys(
        key INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, frame_count INTEGER NOT NULL DEFAULT 0,
        folded_count INTEGER NOT NULL DEFAULT 0, rows_version TEXT NOT NULL DEFAULT '',
        is_deleted INTEGER NOT NULL DEFAULT 0);
    CREATE TABLE frame_kinds(key INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
    CREATE TABLE compression_dictionaries(
        key INTEGER PRIMARY KEY AUTOINCREMENT, session_key INTEGER NOT NULL, data BLOB NOT NULL);
    CREATE TABLE stored_frames(
        seq INTEGER PRIMARY KEY AUTOINCREMENT, connection_key INTEGER NOT NULL, session_key INTEGER,
        n INTEGER NOT NULL, at REAL NOT NULL, origin INTEGER NOT NULL, kind_key INTEGER NOT NULL, frame BLOB NOT NULL,
        dictionary_key INTEGER);
    CREATE INDEX stored_frames_session ON stored_frames(session_key);
    CREATE VIEW frames AS
        SELECT f.seq, c.id AS connection_id, s.id AS session_id, f.n, f.at, {_ORIGIN} AS origin, k.name AS kind,
            CASE WHEN f.dictionary_key IS NULL THEN CAST(f.frame AS TEXT) END AS frame
        FROM stored_frames f JOIN connections c ON c.key = f.connection_key JOIN frame_kinds k ON k.key = f.kind_key
            LEFT JOIN session_keys s ON s.key = f.session_key;
    CREATE TABLE processes(
        id TEXT PRIMARY KEY, host TEXT NOT NULL, pid INTEGER NOT NULL, started TEXT NOT NULL,
        heartbeat REAL NOT NULL) WITHOUT ROWID;
    CREATE TABLE owners(
        session_id TEXT PRIMARY KEY, process_id TEXT, epoch INTEGER NOT NULL) WITHOUT ROWID;
    CREATE TABLE inbox(
        seq INTEGER PRIMARY KEY AUTOINCREMENT, command_id TEXT NOT NULL UNIQUE, session_id TEXT NOT NULL,
        at REAL NOT NULL, body BLOB NOT NULL, taken_epoch INTEGER, outcome TEXT, detail TEXT, done_at REAL);
    CREATE INDEX inbox_pending ON inbox(session_id) WHERE outcome IS NULL;
    CREATE TABLE transcript_positions(
        connection_id TEXT PRIMARY KEY, provider TEXT NOT NULL, path TEXT NOT NULL, session_id TEXT NOT NULL,
        frames INTEGER NOT NULL, offset INTEGER NOT NULL, inode INTEGER NOT NULL, size INTEGER NOT NULL,
        modified REAL NOT NULL, finished INTEGER NOT NULL) WITHOUT ROWID
    """,  # noqa: S608 (all names are ours)
)


_MAX_INTEGER: Final = 2**63 - 1


class Column(msgspec.Struct, frozen=True):
    """A field of a row. A value that is not plain is stored as JSON, compressed where long, and its default as NULL."""

    name: str
    type: Any
    is_plain: bool
    default: Any

    @property
    def is_stored_as_is(self) -> bool:
        """True where the value is neither JSON nor a boolean nor a number that may be too large."""
        return self.is_plain and not any(part in (int, bool) for part in (self.type, *get_args(self.type)))

    def encode(self, value: Any) -> Any:
        if self.is_plain:
            # A number that is too large for SQLite: agents choose the ids of their requests.
            return msgspec.json.encode(value) if type(value) is int and abs(value) > _MAX_INTEGER else value
        if value is None or value == self.default:
            return None
        data = msgspec.json.encode(value)
        # The lightest level: more would take several times as long, and save a tenth.
        return data.decode() if len(data) <= _MAX_PLAIN_JSON_BYTES else zlib.compress(data, 1)

    def decode(self, value: Any) -> Any:
        if self.is_plain:
            if type(value) is bytes:
                return msgspec.json.decode(value)
            return bool(value) if self.type is bool else value
        if value is None:
            return None if self.default is msgspec.NODEFAULT else self.default
        return _decoder(self.type).decode(zlib.decompress(value) if type(value) is bytes else value)


def pack_text(text: str) -> str | bytes:
    """Return a text as it is stored."""
    if len(text) <= _MAX_PLAIN_TEXT_CHARACTERS:
        return text
    compressor = zlib.compressobj(1)
    parts = [
        compressor.compress(text[begin : begin + _TEXT_STEP].encode()) for begin in range(0, len(text), _TEXT_STEP)
    ]
    return b"".join((*parts, compressor.flush()))


def unpack_text(value: str | bytes, max_characters: int | None = None) -> str:
    """Return a text from its stored form; of a compressed one, its first `max_characters`."""
    if isinstance(value, str):
        return value
    if max_characters is not None:
        beginning = zlib.decompressobj().decompress(value, max_characters * _MAX_CHARACTER_BYTES)
        return codecs.getincrementaldecoder("utf-8")().decode(beginning)[:max_characters]
    data = memoryview(zlib.decompress(value))
    decoder = codecs.getincrementaldecoder("utf-8")()
    text = ""
    for begin in range(0, len(data), _TEXT_STEP):
        text += decoder.decode(data[begin : begin + _TEXT_STEP])  # in place, as nothing else has it
        time.sleep(0)  # other threads have their turn, a commit above all
    return text


class Table(msgspec.Struct, frozen=True):
    """A table of rows: the session, the row's key, a number that orders the rows, and one column for each field."""

    name: str
    type: type[Any]
    columns: tuple[Column, ...]
    names: tuple[str, ...]
    encoded_columns: tuple[tuple[int, Column], ...]  # those whose values are not stored as they are
    text_columns: tuple[int, ...]  # all others: their texts are, unless they are long
    upsert: str

    @property
    def ddl(self) -> str:
        # With rowids: without them SQLite stores a quarter of a page of a row in place, and a longer row, as most tool
        # calls are, takes whole pages for the rest.
        names = ", ".join(f'"{column.name}"' for column in self.columns)
        return (
            f'CREATE TABLE "{self.name}"(session_key INTEGER NOT NULL, row_key TEXT NOT NULL,'
            f" row_order INTEGER NOT NULL, {names}, PRIMARY KEY(session_key, row_key))"
        )

    @property
    def select(self) -> str:
        """Select all fields of rows, then their order."""
        names = ", ".join(f'"{column.name}"' for column in self.columns)
        return f'SELECT {names}, row_order FROM "{self.name}"'  # noqa: S608 (names of our own)

    def encode(self, row: Any) -> list[Any]:
        values = list(msgspec.structs.astuple(row))
        for index, column in self.encoded_columns:
            values[index] = column.encode(values[index])
        for index in self.text_columns:
            if type(values[index]) is str:
                values[index] = pack_text(values[index])
        return values

    def decode(self, values: tuple[Any, ...], max_characters: int | None = None) -> Any:
        fields = list(values)
        for index, column in self.encoded_columns:
            fields[index] = column.decode(fields[index])
        if bytes in map(type, fields):
            for index in self.text_columns:
                if type(fields[index]) is bytes:
                    fields[index] = unpack_text(fields[index], max_characters)
        return self.type(**dict(zip(self.names, fields, strict=False)))  # without the row's order, the last value


@cache
def _decoder(type_: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(type_)


_PLAIN_TYPES: Final = (str, int, float, bool, type(None))


def _is_plain(type_: Any) -> bool:
    origin = get_origin(type_)
    if origin in (Union, types.UnionType):
        return all(_is_plain(member) for member in get_args(type_))
    return origin is Literal or type_ in _PLAIN_TYPES


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
    encoded = tuple((index, column) for index, column in enumerate(columns) if not column.is_stored_as_is)
    texts = tuple(index for index, column in enumerate(columns) if column.is_stored_as_is)
    return Table(name, type_, tuple(columns), names, encoded, texts, _upsert(name, names))


def _upsert(table: str, names: Sequence[str]) -> str:
    values = ", ".join("?" * (len(names) + 3))
    changes = ", ".join(f'"{name}" = excluded."{name}"' for name in names)
    return f'INSERT INTO "{table}" VALUES({values}) ON CONFLICT(session_key, row_key) DO UPDATE SET {changes}'


ROW_TABLES: Final = {name: _table(name, type_) for name, type_ in TABLES.items()}

# Beside the tables of rows: the parts of unfinished messages, and the search index. The index stores no text of its
# own; a message's is in its row, a tool call's in `search_documents`.
_OTHER_ROW_TABLES: Final = {
    "message_parts": (
        "CREATE TABLE message_parts("
        "session_key INTEGER NOT NULL, message_id TEXT NOT NULL, text TEXT NOT NULL, blocks)",
        "CREATE INDEX message_parts_message ON message_parts(session_key, message_id)",
    ),
    "search_documents": (
        "CREATE TABLE search_documents("
        "id INTEGER PRIMARY KEY AUTOINCREMENT, session_key INTEGER NOT NULL, row_id TEXT NOT NULL, kind TEXT NOT NULL,"
        " at REAL NOT NULL, text TEXT)",
        "CREATE INDEX search_documents_session ON search_documents(session_key)",
    ),
    "search_index": (
        "CREATE VIRTUAL TABLE search_index USING fts5(text, content='', columnsize=0, detail=none, tokenize='trigram')",
    ),
    "search_terms": ("CREATE VIRTUAL TABLE search_terms USING fts5vocab(search_index, 'row')",),
}
# How the index is written. Each commit adds a segment, and segments are merged along the way: with SQLite's default of
# 4, nearly half of the time goes there, and a search hardly notices a dozen. Below 16, at which all are merged at once,
# each commit merges a little. And a segment may grow to 2 MB before it is written.
_INDEX_SETTINGS: Final = {"automerge": 12, "hashsize": 2 * 1024 * 1024}

_VIEWS: Final = {
    "workspaces": "CREATE VIEW workspaces AS SELECT cwd, MIN(created) AS created, MAX(updated) AS updated,"
    " COUNT(*) AS sessions FROM sessions WHERE cwd <> '' GROUP BY cwd",
}
SESSION_TABLES: Final = (*ROW_TABLES, "message_parts", "search_documents")


def _rows_ddl() -> list[str]:
    tables = [table.ddl for table in ROW_TABLES.values()]
    others = [statement for statements in _OTHER_ROW_TABLES.values() for statement in statements]
    return [*tables, *others, *_VIEWS.values()]


# The version of stored rows: that of the fold, and the shape of the tables.
ROWS_VERSION: Final = f"{FOLD_VERSION}.{zlib.crc32(' '.join(_rows_ddl()).encode()):08x}"


def connect(path: Path, durability: Durability = "process", *, busy_s: float = BUSY_TIMEOUT_S) -> sqlite3.Connection:
    """Open the file for writing, by one thread at a time. The caller begins transactions.

    A file that is not a journal of a version that we know is refused before anything in it is changed.
    """
    connection = sqlite3.connect(
        path, isolation_level=None, timeout=busy_s, check_same_thread=False, cached_statements=256
    )
    try:
        _check_format(connection, path)
        connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")  # only an empty file takes it
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA synchronous = {'FULL' if durability == 'power' else 'NORMAL'}")
        connection.execute(f"PRAGMA wal_autocheckpoint = {MAX_LOG_PAGES}")
        connection.execute(f"PRAGMA cache_size = -{WRITER_CACHE_KIB}")
        connection.execute("PRAGMA secure_delete = ON")  # overwrite what is deleted
    except BaseException:
        connection.close()
        raise
    return connection


def connect_memory() -> sqlite3.Connection:
    """Open a database that lives in memory, as long as this connection."""
    return sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False, cached_statements=256)


def connect_reader(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(
        path, isolation_level=None, timeout=BUSY_TIMEOUT_S, check_same_thread=False, cached_statements=64
    )
    connection.execute("PRAGMA query_only = ON")
    connection.execute(f"PRAGMA cache_size = -{READER_CACHE_KIB}")
    return connection


def _check_format(connection: sqlite3.Connection, path: Path) -> None:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (objects,) = connection.execute("SELECT COUNT(*) FROM sqlite_schema").fetchone()
    if application == EARLY_APPLICATION_ID:
        raise JournalError(
            f"{path} is a journal of an early version of Dragoman (format {version}), and this version"
            " cannot read it. Nothing in the file was changed.",
            guidance="To keep its sessions, run `dragoman journal export -o old.jsonl` with the version that wrote it."
            f" Then move {path.name} out of the folder, start this version, which creates a new journal, and run"
            " `dragoman journal import --trust old.jsonl`.",
        )
    if objects and application != APPLICATION_ID:
        raise JournalCorrupt(f"{path} is a database, but not a journal", guidance="Choose another file.")
    if version > len(MIGRATIONS):
        raise JournalError(
            f"{path} was written by a newer version of Dragoman (format {version}; this version reads"
            f" {len(MIGRATIONS)}). Nothing in the file was changed.",
            guidance="Update Dragoman, or choose another home folder with DRAGOMAN_HOME.",
        )


def prepare(connection: sqlite3.Connection, path: Path) -> str:
    """Create the tables, or bring them up to date; return the name of the journal, which its cursors carry."""
    try:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        name = connection.execute("SELECT value FROM meta WHERE key = 'name'").fetchone() if version else None
        rows = connection.execute("SELECT value FROM meta WHERE key = 'rows'").fetchone() if version else None
        if version == len(MIGRATIONS) and name is not None and rows == (ROWS_VERSION,):
            return str(name[0])
        return _migrate(connection)
    except sqlite3.Error as error:
        raise from_sqlite(error, str(path)) from error


def check_version(connection: sqlite3.Connection, path: Path) -> None:
    """Raise a `JournalError` where another version of Dragoman has changed the tables of an open journal."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    rows = connection.execute("SELECT value FROM meta WHERE key = 'rows'").fetchone()
    if version != len(MIGRATIONS) or rows != (ROWS_VERSION,):
        raise JournalError(
            f"another version of Dragoman has changed the format of {path} while this process had it open. Nothing more"
            " is written to it here.",
            guidance="Restart this process with that version.",
        )


def _migrate(connection: sqlite3.Connection) -> str:
    connection.execute("BEGIN EXCLUSIVE")
    try:
        (version,) = connection.execute("PRAGMA user_version").fetchone()  # another process may have been faster
        for migration in MIGRATIONS[version:]:
            for statement in migration.split(";"):
                connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute("INSERT OR IGNORE INTO meta VALUES('name', ?)", (secrets.token_hex(3),))
        if connection.execute("SELECT value FROM meta WHERE key = 'rows'").fetchone() != (ROWS_VERSION,):
            recreate_row_tables(connection)
        (name,) = connection.execute("SELECT value FROM meta WHERE key = 'name'").fetchone()
        connection.execute("COMMIT")
        return str(name)
    except BaseException:
        connection.execute("ROLLBACK")
        raise


def recreate_row_tables(connection: sqlite3.Connection) -> None:
    """Drop all rows and create their tables, empty. Sessions then have no rows until they are folded again."""
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
        *(("TABLE", name) for name in (*reversed(_OTHER_ROW_TABLES), *ROW_TABLES)),
    ]
    connection.execute("INSERT OR REPLACE INTO meta VALUES('row_tables', ?)", (msgspec.json.encode(names),))
    connection.execute("INSERT OR REPLACE INTO meta VALUES('rows', ?)", (ROWS_VERSION,))
    connection.execute("UPDATE session_keys SET rows_version = '', folded_count = 0")
