"""Search in SQLite: candidates by the trigram index, newest first; `words` ranks them and cuts the snippets."""

from __future__ import annotations

import sqlite3
from typing import Any, Final

from dragoman.journal.words import RANKED, Candidate, Query, terms_of

# Groups of three characters that may stand for a shorter term. Letters have fewer followers than this; of scripts with
# thousands of characters the most frequent ones are taken.
_CONTINUATIONS: Final = 1000


def candidates(connection: sqlite3.Connection, query: Query) -> list[Candidate]:
    terms = terms_of(query.text)
    matches = [match for term in terms if (match := _match(connection, term)) is not None]
    if not terms or len(matches) < len(terms):
        return []
    conditions = ["search_index MATCH ?"]
    values: list[Any] = [" AND ".join(matches)]
    if query.kinds:
        conditions.append(f"d.kind IN ({', '.join('?' * len(query.kinds))})")
        values.extend(query.kinds)
    for condition, value in (
        ("s.id = ?", query.session_id),
        ("s.agent = ?", query.agent),
        ("s.cwd = ?", query.cwd),
        ("d.at >= ?", query.since),
        ("d.at < ?", query.until),
    ):
        if value is not None:
            conditions.append(condition)
            values.append(value)
    # Every name in the statement is ours; all that was asked for is bound.
    statement = (
        "SELECT s.id, d.row_id, d.kind, d.at, COALESCE(d.text, m.text) FROM search_index"  # noqa: S608
        " CROSS JOIN search_docs d ON d.id = search_index.rowid CROSS JOIN sessions s ON s.session = d.session"
        " LEFT JOIN messages m ON m.session = d.session AND m.key = d.row_id"
        f" WHERE {' AND '.join(conditions)} ORDER BY search_index.rowid {{order}} LIMIT ?"
    )
    # The index is read forwards at half the cost; which are the newest matters only where there are too many.
    found = connection.execute(statement.format(order="ASC"), (*values, RANKED + 1)).fetchall()
    if len(found) > RANKED:
        found = connection.execute(statement.format(order="DESC"), (*values, RANKED)).fetchall()
    return [Candidate(*columns) for columns in found]


def _match(connection: sqlite3.Connection, term: str) -> str | None:
    """The term in the language of the index; None when nothing can match."""
    if len(term) >= 3:
        return _quoted(term)
    found = connection.execute(
        "SELECT term FROM search_terms WHERE term >= ? AND term < ? ORDER BY doc DESC LIMIT ?",
        (term, term + "\U0010ffff", _CONTINUATIONS),
    ).fetchall()
    return f"({' OR '.join(_quoted(longer) for (longer,) in found)})" if found else None


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'
