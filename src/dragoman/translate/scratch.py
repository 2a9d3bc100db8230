"""Scratch space for one transcript: sets, maps and objects that stay in memory while they are few.

A transcript may have millions of records and a hundred thousand sub-agents. Whatever a translation has to remember of
each of them goes into a temporary SQLite database once there is much of it, and memory stays bounded.

Promised: keys are compared as a whole, so two different records are never taken for one. (Of a key longer than
`MAX_KEY_CHARS` the SHA-256 is compared.) Objects come back as they were. The database has no name in the file system
and is gone with the last object that uses it, also when the process is killed.

Not promised: any use by several threads at once.
"""

from __future__ import annotations

import errno
import io
import pickle
import sqlite3
from collections.abc import Container, Iterator
from hashlib import sha256
from typing import Any, Final, Generic, TypeAlias, TypeVar

Key: TypeAlias = str | bytes
T = TypeVar("T")
V = TypeVar("V", int, str, bytes)

# Entries of a map, and characters of its values, that stay in memory: about 2 MB.
MAX_ENTRIES_IN_MEMORY: Final = 10_000
MAX_VALUE_CHARS_IN_MEMORY: Final = 1024 * 1024

# Objects of a store that stay in memory. A session takes about 15 kB, and few of them are active at once.
MAX_OBJECTS_IN_MEMORY: Final = 256

# Ids are shorter. A longer key is a whole line of a transcript, or no id that any agent would write.
MAX_KEY_CHARS: Final = 64

# Memory for pages of the database; the others are on disk.
_PAGE_CACHE_KIB: Final = 4096

_SELECT_ENTRY: Final = "SELECT value FROM entries WHERE owner = ? AND key = ?"
_PUT_ENTRY: Final = "INSERT OR REPLACE INTO entries VALUES (?, ?, ?)"
_ADD_ENTRY: Final = "INSERT OR IGNORE INTO entries VALUES (?, ?, ?)"
_SELECT_OBJECT: Final = "SELECT body FROM objects WHERE owner = ? AND number = ?"
_PUT_OBJECT: Final = "INSERT OR REPLACE INTO objects VALUES (?, ?, ?)"


class Scratch:
    """A temporary database, opened when the first map or store has too much for memory."""

    def __init__(self) -> None:
        self._connection: sqlite3.Connection | None = None
        self._last_owner = 0

    def new_owner(self) -> int:
        """Return the number of one more map or store, by which its rows are distinguished."""
        self._last_owner += 1
        return self._last_owner

    def execute(self, statement: str, parameters: tuple[Any, ...] = ()) -> sqlite3.Cursor:
        """Execute a statement. Raises `OSError` if there is no room for temporary files."""
        if self._connection is None:
            self._connection = _open_database()
        try:
            return self._connection.execute(statement, parameters)
        except sqlite3.OperationalError as error:
            raise OSError(
                errno.ENOSPC, f"no room for temporary files ({error}); set TMPDIR to a folder that has some"
            ) from error


def _open_database() -> sqlite3.Connection:
    # An empty name means a temporary database: it is written to disk only as far as the page cache overflows.
    connection = sqlite3.connect("", isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA journal_mode = OFF")
    connection.execute(f"PRAGMA cache_size = -{_PAGE_CACHE_KIB}")
    connection.execute("BEGIN")  # never committed: nothing has to survive
    connection.execute("CREATE TABLE entries (owner INTEGER, key BLOB, value, PRIMARY KEY (owner, key)) WITHOUT ROWID")
    connection.execute("CREATE TABLE objects (owner INTEGER, number INTEGER, body BLOB, PRIMARY KEY (owner, number))")
    return connection


class SpillingMap(Generic[V]):
    """A dict that moves to the scratch database when it becomes large. Entries are never removed."""

    def __init__(self, scratch: Scratch, *, max_entries: int | None = None) -> None:
        """`max_entries` stay in memory; with 0, none do."""
        self._scratch = scratch
        self._max_entries = max_entries
        self._in_memory: dict[Key, V] = {}
        self._value_chars = 0
        self._owner: int | None = None  # in the database; None while all entries are in memory

    def __contains__(self, key: Key) -> bool:
        return self.get(key) is not None

    def get(self, key: Key) -> V | None:
        if len(key) > MAX_KEY_CHARS:
            key = _digest(key)
        if self._owner is None:
            return self._in_memory.get(key)
        row = self._scratch.execute(_SELECT_ENTRY, (self._owner, _encode(key))).fetchone()
        return None if row is None else _unpack(row[0])

    def put(self, key: Key, value: V) -> None:
        if len(key) > MAX_KEY_CHARS:
            key = _digest(key)
        if self._owner is None:
            self._in_memory[key] = value
            self._value_chars += 0 if isinstance(value, int) else len(value)
            if self._is_too_large():
                self._spill()
        else:
            self._scratch.execute(_PUT_ENTRY, (self._owner, _encode(key), _pack(value)))

    def _is_too_large(self) -> bool:
        limit = MAX_ENTRIES_IN_MEMORY if self._max_entries is None else self._max_entries
        return len(self._in_memory) > limit or self._value_chars > MAX_VALUE_CHARS_IN_MEMORY

    def _spill(self) -> None:
        self._owner = self._scratch.new_owner()
        for key, value in self._in_memory.items():
            self.put(key, value)
        self._in_memory = {}


class SpillingSet(SpillingMap[int]):
    """A set that moves to the scratch database when it becomes large."""

    def add(self, key: Key) -> bool:
        """Add a key; return False if it was there before. Called for every record of a file."""
        if len(key) > MAX_KEY_CHARS:
            key = _digest(key)
        if self._owner is None:
            if key in self._in_memory:
                return False
            self.put(key, 1)
            return True
        return self._scratch.execute(_ADD_ENTRY, (self._owner, _encode(key), 1)).rowcount > 0


def digest(*parts: bytes) -> bytes:
    """The key of several texts together."""
    hasher = sha256()
    for part in parts:
        hasher.update(len(part).to_bytes(8, "little"))
        hasher.update(part)
    return hasher.digest()


def _digest(key: Key) -> bytes:
    return sha256(_encode(key)).digest()


def _encode(key: Key) -> bytes:
    # A string from a damaged file may hold half a character, which SQLite takes as bytes only.
    return key if isinstance(key, bytes) else key.encode("utf-8", "surrogatepass")


def _pack(value: int | str | bytes) -> int | bytes:
    if isinstance(value, int):
        return value
    return b"b" + value if isinstance(value, bytes) else b"s" + _encode(value)


def _unpack(stored: int | bytes) -> Any:
    if isinstance(stored, int):
        return stored
    return stored[1:] if stored.startswith(b"b") else stored[1:].decode("utf-8", "surrogatepass")


class ObjectStore(Generic[T]):
    """Objects by name, in the order in which they were added. Call `evict` from time to time.

    `shared` are objects that the stored ones refer to and that are not stored with them.
    """

    def __init__(self, scratch: Scratch, *shared: object) -> None:
        self.loaded: dict[str, T] = {}
        self._scratch = scratch
        self._shared = shared
        self._numbers: SpillingMap[int] = SpillingMap(scratch)  # by name, from 0, in the order of adding
        self._count = 0
        self._owner = scratch.new_owner()

    def __len__(self) -> int:
        return self._count

    def __contains__(self, name: str) -> bool:
        return name in self.loaded or name in self._numbers

    def add(self, name: str, value: T) -> None:
        """Add an object whose name is new."""
        self._numbers.put(name, self._count)
        self._count += 1
        self.loaded[name] = value

    def get(self, name: str) -> T | None:
        """Load an object, if there is one of this name."""
        if name in self.loaded or (number := self._numbers.get(name)) is None:
            return self.loaded.get(name)
        value = self.loaded[name] = self._load(number)
        return value

    def values(self) -> Iterator[T]:
        """Yield all objects as they are at the start of the iteration. Only for reading: changes of objects that are
        not loaded are lost."""
        loaded = {self._numbers.get(name): value for name, value in self.loaded.items()}
        for number in range(self._count):
            yield loaded[number] if number in loaded else self._load(number)

    @property
    def is_all_loaded(self) -> bool:
        return len(self.loaded) == self._count

    def evict(self, busy: Container[str] = ()) -> None:
        """Move the objects that were loaded longest ago to the database, except the `busy` ones, if many are loaded."""
        if len(self.loaded) <= MAX_OBJECTS_IN_MEMORY:
            return
        idle = [name for name in self.loaded if name not in busy]
        for name in idle[: len(self.loaded) - MAX_OBJECTS_IN_MEMORY // 2]:
            out = io.BytesIO()
            try:
                _Pickler(out, (self._scratch, *self._shared)).dump(self.loaded[name])
            except RecursionError:
                continue  # a hostile file nests its values so deeply that they cannot be pickled: stays in memory
            self._scratch.execute(_PUT_OBJECT, (self._owner, self._numbers.get(name), out.getvalue()))
            del self.loaded[name]

    def _load(self, number: int) -> T:
        (body,) = self._scratch.execute(_SELECT_OBJECT, (self._owner, number)).fetchone()
        value: T = _Unpickler(io.BytesIO(body), (self._scratch, *self._shared)).load()
        return value


class _Pickler(pickle.Pickler):
    def __init__(self, out: io.BytesIO, shared: tuple[object, ...]) -> None:
        super().__init__(out, pickle.HIGHEST_PROTOCOL)
        self._shared = {id(value): index for index, value in enumerate(shared)}

    def persistent_id(self, value: Any) -> int | None:
        return self._shared.get(id(value))


class _Unpickler(pickle.Unpickler):
    def __init__(self, data: io.BytesIO, shared: tuple[object, ...]) -> None:
        super().__init__(data)
        self._shared = shared

    def persistent_load(self, index: int) -> object:
        return self._shared[index]
