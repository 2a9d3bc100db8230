"""The journal in SQLite: a file, or memory."""

from dragoman.journal.sqlite.journal import MemoryJournal, SqliteJournal

__all__ = ["MemoryJournal", "SqliteJournal"]
