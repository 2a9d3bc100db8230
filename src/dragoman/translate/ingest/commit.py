"""`Commit`: what came of a part of a transcript, to be stored at once, and how far the file was read with it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from dragoman.journal.entry import Cursor, Entry
from dragoman.journal.protocols import Connection, Position
from dragoman.journal.rows import RowChanges


class Commit(msgspec.Struct, frozen=True):
    entries: Sequence[Entry]
    changes: Sequence[RowChanges]
    position: Position
    connection: Connection | None  # where the journal has not heard of it


class Adds(Protocol):
    """Whoever brings them to the journal."""

    async def add(self, commit: Commit, then: Callable[[Cursor], None]) -> None:
        """`then` hears where the journal ends with it."""
