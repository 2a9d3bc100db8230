"""Errors of the journal.

JournalError                 the journal cannot do that
├── JournalClosed            this process closed the journal
├── JournalFull              the disk is full                                                       transient
├── JournalLocked            another process locks the file for longer than we wait                 transient
├── JournalReadOnly          the file or its folder cannot be written
├── JournalCorrupt           the file is not a journal, or is damaged
├── OutOfOrder               a frame that is not the next one of its connection
├── NotTheOwner              another process owns the session now
└── SessionDeleted           the session was deleted

An append that raises has written nothing. After `JournalFull` and `JournalLocked` the caller can repeat it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dragoman.errors import Category, DragomanError

if TYPE_CHECKING:
    import sqlite3  # opening a file loads it


class JournalError(DragomanError):
    category: Category = "input"


class JournalClosed(JournalError):
    default_guidance = "Open the journal again; everything that was appended before is in it."


class JournalFull(JournalError):
    category = "transient"
    default_guidance = (
        "Free some space on the disk (`dragoman journal vacuum` and `compress` may help), then try again."
    )


class JournalLocked(JournalError):
    category = "transient"
    default_guidance = "Wait for the other process, or end it; what it has written is safe."


class JournalReadOnly(JournalError):
    default_guidance = "Give yourself write permission on the file and its folder, or choose another home folder."


class JournalCorrupt(JournalError):
    default_guidance = (
        "Move the file (with its -wal and -shm files) away and restore a backup."
        " `sqlite3 FILE .recover` may save some of it."
    )


class OutOfOrder(JournalError):
    default_guidance = "This is a defect in the caller: frames of a connection must be appended in order, each once."


class NotTheOwner(JournalError):
    """`owner` is the id of the process that owns the session now, where known."""

    default_guidance = "Send it a command through the inbox, or wait until it releases the session."

    def __init__(self, message: str, *, owner: str | None = None, guidance: str | None = None) -> None:
        super().__init__(message, guidance=guidance)
        self.owner = owner


class SessionDeleted(JournalError):
    default_guidance = "Open a new session."


# Names of the errors of a file that cannot be written: nothing more of a session is recorded after one of them.
FILE_ERROR_NAMES: Final = frozenset(
    kind.__name__ for kind in (JournalError, JournalClosed, JournalFull, JournalLocked, JournalReadOnly, JournalCorrupt)
)


def from_sqlite(error: sqlite3.Error, path: str) -> JournalError:
    """Return the journal's error for an error of SQLite."""
    code = getattr(error, "sqlite_errorcode", 0) or 0
    # Of a text that it cannot decode, SQLite quotes all; it may be a conversation.
    text = f"{path}: {str(error).partition(' with text ')[0]}"
    match code & 0xFF:  # the last byte of an extended code is the plain code
        case 13:  # SQLITE_FULL
            return JournalFull(f"the journal cannot be written because the disk is full: {text}")
        case 5 | 6:  # SQLITE_BUSY, SQLITE_LOCKED
            return JournalLocked(f"another process locks the journal: {text}")
        case 8 | 3 | 23:  # SQLITE_READONLY, SQLITE_PERM, SQLITE_AUTH
            return JournalReadOnly(f"no permission to write the journal: {text}")
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
