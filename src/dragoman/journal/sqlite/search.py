"""Search in SQLite: candidates by the trigram index, newest first; `search_documents` ranks them and cuts the snippets.

The index has, for each group of three characters, the list of texts with that group, and reading these lists is what a
search costs: the list of `ing` names half of all texts, that of `rtz` hardly one. So a word is first looked up by its
rare groups alone, and the texts found are compared with the word itself: the index does not store where in a text a
group stands, which would make it several times as large. Where too many of these texts lack the word, the search is
repeated with all groups.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from typing import Any, Final

from dragoman.journal.search_documents import Candidate, SearchQuery, fold_case, query_terms

# Characters of a group in the index.
_GROUP_CHARACTERS: Final = 3

# Groups of three characters that are looked up for a shorter term. Letters have fewer continuations than this; of
# scripts with thousands of characters the most frequent ones are taken.
_MAX_CONTINUATIONS: Final = 1000

# Newest texts, and characters of each, in which groups are counted: enough to tell rare groups from frequent ones, and
# read in less than a tenth of a millisecond.
_SAMPLE_SIZE: Final = 50
_SAMPLE_CHARACTERS: Final = 300

# Texts without the word after which all its groups are used: reading so many texts costs less than long lists do.
_MAX_MISMATCHES: Final = 500

# Newest texts that are scanned for a term that is shorter than a group: it stands for many groups, and a term that
# nearly every text has is found sooner without them.
_SCANNED_TEXTS: Final = 1000

_TEXT: Final = "COALESCE(d.text, m.text)"
_WITH_MESSAGES: Final = "LEFT JOIN messages m ON m.session_key = d.session_key AND m.row_key = d.row_id"
_BY_INDEX: Final = "search_index CROSS JOIN search_documents d ON d.id = search_index.rowid"
_NEWEST: Final = f"(SELECT * FROM search_documents ORDER BY id DESC LIMIT {_SCANNED_TEXTS}) d"  # noqa: S608
_SAMPLE_TEXTS: Final = (
    f"SELECT substr({_TEXT}, 1, {_SAMPLE_CHARACTERS}) FROM search_documents d {_WITH_MESSAGES}"  # noqa: S608
    f" ORDER BY d.id DESC LIMIT {_SAMPLE_SIZE}"
)


def candidates(connection: sqlite3.Connection, query: SearchQuery) -> list[Candidate]:
    """Return the newest texts that have all terms: as many as are ranked, and one more if there are more."""
    terms = query_terms(query.text)
    if not terms:
        return []
    if min(len(term) for term in terms) < _GROUP_CHARACTERS:
        newest = _matching(connection, query, terms, _NEWEST) or []
        if query.max_candidates is not None and len(newest) > query.max_candidates:
            return newest
    sample = _Sample(connection)
    short = {term: _continuations(connection, term) for term in terms if len(term) < _GROUP_CHARACTERS}
    if not all(short.values()):
        return []
    rare = " AND ".join(short.get(term) or sample.rare_groups(term) for term in terms)
    matches = _matching(connection, query, terms, _BY_INDEX, rare, max_mismatches=_MAX_MISMATCHES)
    if matches is None:
        exact = " AND ".join(short.get(term) or _all(_groups(term)) for term in terms)
        matches = _matching(connection, query, terms, _BY_INDEX, exact)
    return matches or []


def _matching(
    connection: sqlite3.Connection,
    query: SearchQuery,
    terms: Sequence[str],
    among: str,
    match: str | None = None,
    *,
    max_mismatches: int | None = None,
) -> list[Candidate] | None:
    """Return the texts that have all terms, newest first; None when `max_mismatches` texts lack one."""
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
    # Every name in the statement is ours; the values of the query are bound.
    statement = (
        f"SELECT s.id, d.row_id, d.kind, d.at, {_TEXT} FROM {among}"  # noqa: S608
        f" CROSS JOIN sessions s ON s.session_key = d.session_key {_WITH_MESSAGES}"
        f"{' WHERE ' if conditions else ''}{' AND '.join(conditions)}"
        f" ORDER BY {'d.id' if match is None else 'search_index.rowid'} DESC"
    )
    matches: list[Candidate] = []
    mismatches = 0
    max_matches = query.max_candidates
    with closing(connection.execute(statement, values)) as rows:
        for session_id, row_id, kind, at, text in rows:
            text_folded = fold_case(text)
            for term in terms:
                if term not in text_folded:
                    mismatches += 1
                    break
            else:
                matches.append(Candidate(session_id, row_id, kind, at, text, text_folded))
            if max_matches is not None and len(matches) > max_matches:
                break
            if mismatches == max_mismatches:
                return None
    return matches


class _Sample:
    """A sample of the newest texts, to estimate how frequent a group is."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        (self._texts,) = connection.execute("SELECT MAX(id) FROM search_documents").fetchone()
        self._text = fold_case("\n".join([text for (text,) in connection.execute(_SAMPLE_TEXTS)]))
        self._counts: dict[str, int] = {}

    def rare_groups(self, term: str) -> str:
        """Choose the rarest groups of a term, as many as it takes until few texts have them all by chance. Two groups
        that share two characters say hardly more than one of them."""
        groups = _groups(term)
        chosen: list[int] = []
        expected = float(self._texts or 0)
        for frequency, start in sorted((self._frequency(group), start) for start, group in enumerate(groups)):
            if all(abs(start - other) > 1 for other in chosen):
                chosen.append(start)
                expected *= (frequency[0] + 1) / _SAMPLE_SIZE
                if expected < _MAX_MISMATCHES:
                    break
        return _all([groups[start] for start in chosen])

    def _frequency(self, group: str) -> tuple[int, int]:
        """Rate a group; among groups that do not occur in the sample, the one with rarer pairs is rarer."""
        count = self._count(group)
        return count, 0 if count else self._count(group[:2]) * self._count(group[1:])

    def _count(self, letters: str) -> int:
        if letters not in self._counts:
            self._counts[letters] = self._text.count(letters)
        return self._counts[letters]


def _continuations(connection: sqlite3.Connection, term: str) -> str | None:
    """Return a query for the groups that begin with a term shorter than a group; None when nothing can match."""
    groups = connection.execute(
        "SELECT term FROM search_terms WHERE term >= ? AND term < ? ORDER BY doc DESC LIMIT ?",
        (term, term + "\U0010ffff", _MAX_CONTINUATIONS),
    ).fetchall()
    return f"({' OR '.join(_quoted(group) for (group,) in groups)})" if groups else None


def _groups(term: str) -> list[str]:
    return [term[start : start + _GROUP_CHARACTERS] for start in range(len(term) - _GROUP_CHARACTERS + 1)]


def _all(groups: Sequence[str]) -> str:
    return " AND ".join(map(_quoted, dict.fromkeys(groups)))


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'
