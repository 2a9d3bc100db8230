"""What the journal raises.

JournalError                 the journal cannot do that
├── JournalClosed            it was closed by this process
├── JournalFull              no room is left on the disk                                            transient
├── JournalLocked            another process holds the file for longer than we wait                 transient
├── JournalReadOnly          the file or its folder may not be written
├── JournalCorrupt           what the file holds is no journal, or no longer one
├── OutOfOrder               a frame that is not the next one of its connection
├── NotTheOwner              another process owns the session now
└── SessionDeleted           the session was deleted, and stays so

An append that raises has written nothing of its own. After `JournalFull` and `JournalLocked` the same append can be
made again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragoman.errors import Category, DragomanError

if TYPE_CHECKING:
    import sqlite3  # loaded by who opens a file


class JournalError(DragomanError):
    category: Category = "input"


class JournalClosed(JournalError):
    default_guidance = "Open the journal again; what was appended before is in it."


class JournalFull(JournalError):
    category = "transient"
    default_guidance = "Make room on the disk (`dragoman journal vacuum` and `compress` may help), then go on."


class JournalLocked(JournalError):
    category = "transient"
    default_guidance = "Wait for the other process, or end it; what it has written stays."


class JournalReadOnly(JournalError):
    default_guidance = "Give yourself write permission on the file and its folder, or choose another home folder."


class JournalCorrupt(JournalError):
    default_guidance = (
        "Move the file (with its -wal and -shm files) away and restore a copy; `sqlite3 FILE .recover` may save some."
    )


class OutOfOrder(JournalError):
    default_guidance = "This is a defect in the caller: frames of a connection are appended in order, each once."


class NotTheOwner(JournalError):
    """`owner` is the process that owns the session now, where known."""

    default_guidance = "Send it a command through the inbox, or wait until it has let go of the session."

    def __init__(self, message: str, *, owner: str | None = None, guidance: str | None = None) -> None:
        super().__init__(message, guidance=guidance)
        self.owner = owner


class SessionDeleted(JournalError):
    default_guidance = "Open a new session."


def from_sqlite(problem: sqlite3.Error, path: str) -> JournalError:
    """What an error of SQLite means to the one who asked."""
    code = getattr(problem, "sqlite_errorcode", 0) or 0
    text = f"{path}: {problem}"
    match code & 0xFF:  # extended codes keep the plain one in their last byte
        case 13:  # SQLITE_FULL
            return JournalFull(f"the journal could not be written, the disk is full: {text}")
        case 5 | 6:  # SQLITE_BUSY, SQLITE_LOCKED
            return JournalLocked(f"the journal is held by another process: {text}")
        case 8 | 3 | 23:  # SQLITE_READONLY, SQLITE_PERM, SQLITE_AUTH
            return JournalReadOnly(f"the journal may not be written: {text}")
        case 14:  # SQLITE_CANTOPEN
            return JournalReadOnly(f"the journal cannot be opened: {text}")
        case 11 | 26:  # SQLITE_CORRUPT, SQLITE_NOTADB
            return JournalCorrupt(f"the journal is damaged: {text}")
        case 10:  # SQLITE_IOERR
            return JournalError(
                f"the disk failed under the journal: {text}", guidance="Check the disk, then try again."
            )
        case _:
            return JournalError(f"the journal failed: {text}")
