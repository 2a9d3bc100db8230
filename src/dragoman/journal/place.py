"""Where the journal of a home folder is. Nobody else says so.

To know it loads no database: the home folder may have no journal yet.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from dragoman.config import make_home

if TYPE_CHECKING:
    from dragoman.journal.schema import Durability
    from dragoman.journal.sqlite import SqliteJournal

FILE_NAME: Final = "journal.db"


def journal_path(home: Path) -> Path:
    """It need not be there yet."""
    return home / FILE_NAME


async def open_journal(home: Path, *, durability: Durability = "process") -> SqliteJournal:
    """Opens the journal, and makes it, and the home folder, where they are missing. To be closed by the caller."""
    from dragoman.journal.sqlite import SqliteJournal

    return await SqliteJournal.open(journal_path(make_home(home)), durability=durability)
