"""The journal in an SQLite file."""

from dragoman.journal.sqlite.journal import SqliteJournal

__all__ = ["SqliteJournal"]
