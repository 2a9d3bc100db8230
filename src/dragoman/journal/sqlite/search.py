"""Search in SQLite: candidates by the trigram index, newest first; `words` ranks them and cuts the snippets.

The index is a list of texts for each group of three characters, and reading the lists is what a search costs: that of
`ing` names half of all texts, that of `rtz` hardly one. So a word is first asked for by those of its groups that are
rare, and what comes is held against the text itself: the index does not know where in a text a group stands, which
would make it several times as large. Where too much of it does not have the word, the index is asked for all groups.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from typing import Any, Final

from dragoman.journal.search_documents import MAX_RANKED, Candidate, SearchQuery, fold_case, query_terms

# Characters of a group in the index.
_GROUP: Final = 3

# Groups of three characters that may stand for a shorter term. Letters have fewer followers than this; of scripts with
# thousands of characters the most frequent ones are taken.
_CONTINUATIONS: Final = 1000

# Texts, the newest, and characters of each, by which it is told how frequent a group is: enough to know the rare ones
# from the others, and read in less than a tenth of a millisecond.
_RECENT: Final = 50
_RECENT_CHARACTERS: Final = 300

# Texts without the word, after which all its groups are asked for: looking at so many costs less than long lists do.
_IN_VAIN: Final = 500

# The newest texts, which are looked through for a term that is shorter than a group: it stands for many groups, and one
# that nearly every text has is found sooner without them.
_LOOKED_THROUGH: Final = 1000

_TEXT: Final = "COALESCE(d.text, m.text)"
_WITH_MESSAGES: Final = "LEFT JOIN messages m ON m.session = d.session AND m.key = d.row_id"
_BY_INDEX: Final = "search_index CROSS JOIN search_docs d ON d.id = search_index.rowid"
_NEWEST: Final = f"(SELECT * FROM search_docs ORDER BY id DESC LIMIT {_LOOKED_THROUGH}) d"  # noqa: S608
_RECENT_TEXTS: Final = (
    f"SELECT substr({_TEXT}, 1, {_RECENT_CHARACTERS}) FROM search_docs d {_WITH_MESSAGES}"  # noqa: S608
    f" ORDER BY d.id DESC LIMIT {_RECENT}"
)


def candidates(connection: sqlite3.Connection, query: SearchQuery) -> list[Candidate]:
    """The newest that have all terms, at most as many as are ranked."""
    terms = query_terms(query.text)
    if not terms:
        return []
    if min(len(term) for term in terms) < _GROUP:
        newest = _matching(connection, query, terms, _NEWEST) or []
        if len(newest) == MAX_RANKED:
            return newest
    recent = _Recent(connection)
    short = {term: _longer(connection, term) for term in terms if len(term) < _GROUP}
    if not all(short.values()):
        return []
    rough = " AND ".join(short.get(term) or recent.rough(term) for term in terms)
    found = _matching(connection, query, terms, _BY_INDEX, rough, in_vain=_IN_VAIN)
    if found is None:
        closely = " AND ".join(short.get(term) or _all(_groups(term)) for term in terms)
        found = _matching(connection, query, terms, _BY_INDEX, closely)
    return found or []


def _matching(
    connection: sqlite3.Connection,
    query: SearchQuery,
    terms: Sequence[str],
    among: str,
    match: str | None = None,
    *,
    in_vain: int | None = None,
) -> list[Candidate] | None:
    """Those that have all terms, newest first; None when more than `in_vain` have not."""
    conditions: list[str] = []
    values: list[Any] = []
    if query.kinds:
        conditions.append(f"d.kind IN ({', '.join('?' * len(query.kinds))})")
        values.extend(query.kinds)
    for condition, value in (
        ("search_index MATCH ?", match),
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
        f"SELECT s.id, d.row_id, d.kind, d.at, {_TEXT} FROM {among}"  # noqa: S608
        f" CROSS JOIN sessions s ON s.session = d.session {_WITH_MESSAGES}"
        f"{' WHERE ' if conditions else ''}{' AND '.join(conditions)}"
        f" ORDER BY {'d.id' if match is None else 'search_index.rowid'} DESC"
    )
    found: list[Candidate] = []
    wrong = 0
    with closing(connection.execute(statement, values)) as rows:
        for session_id, row_id, kind, at, text in rows:
            text_folded = fold_case(text)
            for term in terms:
                if term not in text_folded:
                    wrong += 1
                    break
            else:
                found.append(Candidate(session_id, row_id, kind, at, text, text_folded))
            if len(found) == MAX_RANKED:
                break
            if wrong == in_vain:
                return None
    return found


class _Recent:
    """The newest texts: how frequent is what stands in all of them?"""

    def __init__(self, connection: sqlite3.Connection) -> None:
        (self._texts,) = connection.execute("SELECT MAX(id) FROM search_docs").fetchone()
        self._text = fold_case("\n".join([text for (text,) in connection.execute(_RECENT_TEXTS)]))
        self._counts: dict[str, int] = {}

    def rough(self, term: str) -> str:
        """As many of the term's groups as it takes for few texts to have them by chance; the rarest first. Two that
        share two characters tell hardly more than one of them."""
        groups = _groups(term)
        taken: list[int] = []
        by_chance = float(self._texts or 0)
        for frequency, start in sorted((self._frequency(group), start) for start, group in enumerate(groups)):
            if all(abs(start - other) > 1 for other in taken):
                taken.append(start)
                by_chance *= (frequency[0] + 1) / _RECENT
                if by_chance < _IN_VAIN:
                    break
        return _all([groups[start] for start in taken])

    def _frequency(self, group: str) -> tuple[int, int]:
        """Of those that do not occur here, that one is rarer whose pairs are."""
        found = self._count(group)
        return found, 0 if found else self._count(group[:2]) * self._count(group[1:])

    def _count(self, letters: str) -> int:
        if letters not in self._counts:
            self._counts[letters] = self._text.count(letters)
        return self._counts[letters]


def _longer(connection: sqlite3.Connection, term: str) -> str | None:
    """What a term shorter than a group may be the beginning of; None when nothing can match."""
    found = connection.execute(
        "SELECT term FROM search_terms WHERE term >= ? AND term < ? ORDER BY doc DESC LIMIT ?",
        (term, term + "\U0010ffff", _CONTINUATIONS),
    ).fetchall()
    return f"({' OR '.join(_quoted(longer) for (longer,) in found)})" if found else None


def _groups(term: str) -> list[str]:
    return [term[start : start + _GROUP] for start in range(len(term) - _GROUP + 1)]


def _all(groups: Sequence[str]) -> str:
    return " AND ".join(map(_quoted, dict.fromkeys(groups)))


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'
