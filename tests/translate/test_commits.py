"""Commits of a file, of which several are under way at once: none may follow one that failed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from dragoman.journal.errors import NotTheOwner
from dragoman.journal.protocols import Connection, Journal, TranscriptPosition
from dragoman.journal.sqlite import MemoryJournal, SqliteJournal
from dragoman.translate.ingest.file_import import Commit
from dragoman.translate.ingest.importer import Commits
from journal.talk import all_entries, entry, process

POSITION = TranscriptPosition(
    connection_id="c1", provider="claude", path="/a.jsonl", session_id="s1", frames=0, offset=0
)


@pytest.fixture(params=["memory", "sqlite"])
async def journal(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Journal]:
    if request.param == "memory":
        async with MemoryJournal() as memory:
            yield memory
    else:
        async with await SqliteJournal.open(tmp_path / "journal.db") as sqlite:
            yield sqlite


def _commit(*numbers: int) -> Commit:
    connection = Connection(id="c1", agent="claude", at=0.0) if 1 in numbers else None
    return Commit([entry(n) for n in numbers], [], POSITION, connection)


async def test_they_are_made_in_the_order_in_which_they_were_added(journal: Journal) -> None:
    commits = Commits(journal)
    cursors: list[str] = []
    for numbers in ((1, 2), (3,), (4, 5), ()):
        await commits.add(_commit(*numbers), cursors.append)
    await commits.settled()
    assert [one.n for one in await all_entries(journal)] == [1, 2, 3, 4, 5]
    assert cursors[-1] == await journal.cursor()
    assert (len(cursors), commits.size) == (4, 0)


@pytest.mark.parametrize("before", [[(1, 2)], [(1, 2), (3,)]])
async def test_none_follows_one_that_failed(journal: Journal, before: list[tuple[int, ...]]) -> None:
    """Neither with frames, nor the last word on how far the file was read."""
    await journal.heartbeat(process("p"))
    await journal.claim("s1", "p", is_alive=lambda _: True)
    commits = Commits(journal)
    for numbers in before:
        await commits.add(_commit(*numbers))
    with pytest.raises(NotTheOwner):
        await commits.add(_commit())
    with pytest.raises(NotTheOwner):
        await commits.settled()
    await commits.over()
    assert await all_entries(journal) == []
    assert list(await journal.transcript_positions()) == []
