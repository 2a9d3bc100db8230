"""Search in SQLite finds what a scan of all texts finds, however frequent the words and their parts are."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dragoman.journal.protocols import Journal
from dragoman.journal.rows import RowChanges, SearchDocument, Session, StoredMessage
from dragoman.journal.search_documents import (
    MAX_RANKED,
    Candidate,
    SearchHit,
    SearchQuery,
    fold_case,
    query_terms,
    rank,
)
from dragoman.journal.sqlite import SqliteJournal, search


async def put(journal: Journal, texts: Sequence[str]) -> None:
    messages = [
        StoredMessage(
            id=f"m{number}",
            kind="assistant",
            run_id=None,
            message_id=None,
            time=float(number),
            replayed=False,
            text=text,
            ended=True,
        )
        for number, text in enumerate(texts)
    ]
    documents = [SearchDocument(message.id, "assistant", message.time) for message in messages]
    session = Session(id="s1", agent="raw")
    await journal.append([], [RowChanges("s1", 0, [*messages, session], (), (), documents)])


@pytest.fixture
async def journal(tmp_path: Path) -> AsyncIterator[SqliteJournal]:
    async with await SqliteJournal.open(tmp_path / "journal.db") as opened:
        yield opened


async def found(journal: Journal, text: str, limit: int | None = MAX_RANKED) -> list[str]:
    return [hit.row_id for hit in await journal.search(SearchQuery(text=text, limit=limit))]


async def test_a_rare_word_of_frequent_parts_is_found_behind_all_that_only_have_the_parts(
    journal: SqliteJournal,
) -> None:
    # Each has all groups of three of the word, near each other; one, the oldest, has the word.
    await put(journal, ["a tomato", *["mato tomat"] * (search._MAX_MISMATCHES * 2)])
    assert await found(journal, "tomato") == ["m0"]


async def test_of_a_frequent_word_the_newest_are_ranked(journal: SqliteJournal) -> None:
    await put(journal, ["a frequent word"] * (MAX_RANKED * 2))
    assert set(await found(journal, "frequent")) == {f"m{number}" for number in range(MAX_RANKED, MAX_RANKED * 2)}


@pytest.mark.parametrize("term", ["e", "eq"])
async def test_of_a_frequent_letter_the_newest_are_ranked(journal: SqliteJournal, term: str) -> None:
    await put(journal, ["a frequent word"] * (MAX_RANKED * 2))
    assert set(await found(journal, term)) == {f"m{number}" for number in range(MAX_RANKED, MAX_RANKED * 2)}


@pytest.mark.parametrize("term", ["word", "w"])
async def test_without_a_limit_all_matches_are_returned(journal: SqliteJournal, term: str) -> None:
    await put(journal, ["a word"] * (MAX_RANKED + 50))
    assert len(await found(journal, term, None)) == MAX_RANKED + 50
    assert len(await found(journal, term, MAX_RANKED + 20)) == MAX_RANKED + 20


@pytest.mark.parametrize(
    ("matches", "limit", "is_cut"),
    [
        (3, 3, False),
        (4, 3, True),
        (MAX_RANKED, MAX_RANKED, False),
        (MAX_RANKED + 1, MAX_RANKED, True),
        (MAX_RANKED + 1, None, False),
    ],
)
async def test_hits_say_whether_there_are_more(
    journal: SqliteJournal, matches: int, limit: int | None, is_cut: bool
) -> None:
    await put(journal, ["a word", *["nothing"] * 5, *["another word"] * (matches - 1)])
    hits = await journal.search(SearchQuery(text="word", limit=limit))
    assert hits.is_cut == is_cut
    assert len(hits) == (matches if limit is None else min(matches, limit))


async def test_a_letter_that_only_the_oldest_text_has_is_found(journal: SqliteJournal) -> None:
    await put(journal, ["quiz", *["other words"] * (search._SCANNED_TEXTS + 1)])
    assert await found(journal, "z") == ["m0"]


def scan(texts: Sequence[str], query: SearchQuery) -> list[SearchHit]:
    """Search without an index: look through all texts, the newest first."""
    terms = query_terms(query.text)
    candidates = [
        Candidate("s1", f"m{number}", "assistant", float(number), text, fold_case(text))
        for number, text in enumerate(texts)
        if terms and all(term in fold_case(text) for term in terms)
    ]
    return rank(query, candidates[::-1][:MAX_RANKED])


# Few letters, so that groups occur again and again in other orders; one whose small form is longer, and one without
# case.
_letters = st.text(alphabet="abAB İ猫\"'*", max_size=12)
_texts = st.lists(_letters, min_size=1, max_size=30)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(texts=_texts, question=st.text(alphabet="abAB İ猫\"'*", min_size=1, max_size=8))
async def test_the_index_finds_what_a_scan_of_all_texts_finds(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], question: str
) -> None:
    path = tmp_path_factory.mktemp("search") / "journal.db"
    async with await SqliteJournal.open(path) as journal:
        await put(journal, texts)
        query = SearchQuery(text=question)
        assert await journal.search(query) == scan(texts, query)
