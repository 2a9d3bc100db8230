"""Search, as far as it is the same for every store: the searchable text of a row, the terms of a query, the ranking.

Pure. A store finds candidates by its own index; this module ranks them and cuts the snippets.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Final

import msgspec

from dragoman.journal.rows import DocumentKind, SearchDocument, StoredMessage
from dragoman.record import rows
from dragoman.wire import vocabulary as acp

# Characters of a tool call that are indexed. Titles, commands and paths are far shorter; of a diff this is enough to
# find it, and an agent that writes large files does not fill the index with them.
MAX_TOOL_CHARACTERS: Final = 16 * 1024
# Values of a tool's input that are looked at for texts.
MAX_TOOL_VALUES: Final = 10_000

# Characters of a message that are indexed: a book of 150 pages. All sessions wait while a text is added to the index.
MAX_MESSAGE_CHARACTERS: Final = 256 * 1024

# Candidates that are ranked: the newest matches. With more matches than this a person has to refine the query anyway,
# and a query that half of the journal matches then costs no more than others.
MAX_RANKED: Final = 500

# Characters around the first match.
SNIPPET_CHARACTERS: Final = 160

_TERM = re.compile(r'"([^"]+)"|(\S+)')


class SearchQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Words that must all occur, in any order, as parts of words too; "in quotes" as one. Case does not matter."""

    text: str
    agent: str | None = None
    cwd: str | None = None
    kinds: Sequence[DocumentKind] = ()
    session_id: str | None = None
    since: float | None = None
    until: float | None = None
    limit: int | None = 20  # hits; None: all

    @property
    def max_candidates(self) -> int | None:
        """The number of the newest matches that are ranked; None: all."""
        return None if self.limit is None else max(MAX_RANKED, self.limit)


class SearchHit(msgspec.Struct, frozen=True, kw_only=True):
    session_id: str
    row_id: str
    kind: DocumentKind
    at: float
    snippet: str
    marks: Sequence[tuple[int, int]]  # matches within the snippet: from, to
    score: float


class SearchHits(list[SearchHit]):
    """The best hits first. `is_cut`: the journal has more matches than these."""

    def __init__(self, hits: Iterable[SearchHit] = (), *, is_cut: bool = False) -> None:
        super().__init__(hits)
        self.is_cut = is_cut


class Candidate(msgspec.Struct, frozen=True):
    """A text that has all the terms. `case_folded` is the same without case."""

    session_id: str
    row_id: str
    kind: DocumentKind
    at: float
    text: str
    case_folded: str


def search_documents(row: StoredMessage | rows.ToolCall | rows.FileCall | rows.Terminal) -> list[SearchDocument]:
    if isinstance(row, rows.ToolCall):
        return _document(row.id, "tool", row.time, _tool_texts(row))
    if isinstance(row, rows.FileCall):
        return _document(row.id, "file", row.time, [row.path, *(_diff_texts(row.diff) if row.diff else ())])
    if isinstance(row, rows.Terminal):
        return _document(row.id, "command", row.time, [" ".join((row.command, *row.args)), row.cwd or ""])
    if not row.text:
        return []
    own_text = None if len(row.text) <= MAX_MESSAGE_CHARACTERS else row.text[:MAX_MESSAGE_CHARACTERS]
    return [SearchDocument(row.id, row.kind, row.time, own_text)]


def _document(row_id: str, kind: DocumentKind, at: float, texts: Iterable[str]) -> list[SearchDocument]:
    """Make a document of the first characters of these texts, each of them once."""
    chosen: dict[str, None] = {}
    left = MAX_TOOL_CHARACTERS
    for text in texts:
        part = text[:left]
        if part and part not in chosen:
            chosen[part] = None
            left -= len(part) + 1
        if left <= 0:
            break
    return [SearchDocument(row_id, kind, at, "\n".join(chosen))] if chosen else []


def _tool_texts(call: rows.ToolCall) -> Iterator[str]:
    yield call.title
    yield call.name or ""
    yield from (value for value in islice(_values(call.raw_input, depth=4), MAX_TOOL_VALUES) if isinstance(value, str))
    for location in call.locations:
        yield location.path
    for item in call.content:
        if isinstance(item, acp.Diff):
            yield from _diff_texts(item)


def _diff_texts(diff: acp.Diff) -> Iterator[str]:
    yield diff.path
    yield diff.new_text
    yield diff.old_text or ""


def _values(value: Any, depth: int) -> Iterator[Any]:
    """Yield the values of a tool's input, among them the strings: its command, its paths, its pattern."""
    yield value
    if depth and isinstance(value, dict):
        for item in value.values():
            yield from _values(item, depth - 1)
    elif depth and isinstance(value, list):
        for item in value:
            yield from _values(item, depth - 1)


def query_terms(text: str) -> list[str]:
    """Return the words and quoted phrases that must all occur, in lower case."""
    return [fold_case(phrase or word) for phrase, word in _TERM.findall(text.replace("\0", " "))]


def fold_case(text: str) -> str:
    """Lower the case character by character, so that indexes stay the same."""
    lowered = text.lower()
    return lowered if len(lowered) == len(text) else "".join(c.lower() if len(c.lower()) == 1 else c for c in text)


def rank(query: SearchQuery, candidates: Sequence[Candidate]) -> SearchHits:
    """Return the best hits first: many matches in a short text, then the newest.

    `candidates` has one more than are ranked if the journal has more.
    """
    terms = query_terms(query.text)
    ranked = candidates[: query.max_candidates]
    scored = [(_score(candidate.case_folded, terms), candidate) for candidate in ranked]
    scored.sort(key=lambda pair: (-pair[0], -pair[1].at, pair[1].session_id, pair[1].row_id))
    hits = [_hit(candidate, score, terms) for score, candidate in scored[: query.limit]]
    return SearchHits(hits, is_cut=len(hits) < len(candidates))


def _score(text: str, terms: Sequence[str]) -> float:
    score = 0.0
    for term in terms:
        count = text.count(term)
        # Saturating, and less in a long text: as BM25 weighs one word, for which rarity is the same everywhere.
        score += count / (count + 0.6 + 0.6 * len(text) / 500)
    return round(score, 6)


def _hit(candidate: Candidate, score: float, terms: Sequence[str]) -> SearchHit:
    begin = max(0, min(candidate.case_folded.find(term) for term in terms) - SNIPPET_CHARACTERS // 3)
    snippet = candidate.text[begin : begin + SNIPPET_CHARACTERS]
    return SearchHit(
        session_id=candidate.session_id,
        row_id=candidate.row_id,
        kind=candidate.kind,
        at=candidate.at,
        snippet=snippet,
        marks=_marks(candidate.case_folded[begin : begin + SNIPPET_CHARACTERS], terms),
        score=score,
    )


def _marks(snippet: str, terms: Sequence[str]) -> list[tuple[int, int]]:
    matches = sorted((match.start(), match.end()) for term in terms for match in re.finditer(re.escape(term), snippet))
    marks: list[tuple[int, int]] = []
    for begin, end in matches:
        if marks and begin <= marks[-1][1]:
            marks[-1] = (marks[-1][0], max(end, marks[-1][1]))
        else:
            marks.append((begin, end))
    return marks
