"""The journal in memory: the SQLite journal without a file. It ends with the process, or when it is closed.

For tests, and for programs that do not want to leave anything on the disk.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from dragoman.journal.sqlite import SqliteJournal, schema

_NAME: Final = Path(":memory:")


class MemoryJournal(SqliteJournal):
    """See `protocols` for what each method promises."""

    def __init__(self) -> None:
        connection = schema.connect_memory()
        super().__init__(_NAME, connection, schema.prepare(connection, _NAME), is_in_memory=True)

    async def __aenter__(self) -> MemoryJournal:
        return self
