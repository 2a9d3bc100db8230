"""The store of all sessions: every frame of every connection, and the rows folded from them.

`protocols` is the contract: `JournalStore`, `SessionOwners` and `CommandInbox`. `sqlite` implements it, in a file and
in memory. `SessionRecord` folds frames into rows, `ConnectionRecorder` brings the frames of a connection into a
journal. docs/journal.md describes the file.

This module knows where the journal of a home folder is. It loads neither settings nor a database
before a journal is opened.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from dragoman.journal.sqlite import SqliteJournal
    from dragoman.journal.sqlite.schema import Durability

FILE_NAME: Final = "journal.db"


def journal_path(home: Path) -> Path:
    """Return the path of a home folder's journal. The file may not exist yet."""
    return home / FILE_NAME


async def open_journal(home: Path, *, durability: Durability = "process") -> SqliteJournal:
    """Open the journal of a home folder, and create both where they are missing. The caller closes the journal."""
    from dragoman.config import make_home
    from dragoman.journal.sqlite import SqliteJournal

    return await SqliteJournal.open(journal_path(make_home(home)), durability=durability)
