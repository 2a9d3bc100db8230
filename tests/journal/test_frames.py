"""Frames in SQLite: what is read is what was written, page by page, whether the frames of a page are alike or not."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.journal.entry import Cursor, Entry
from dragoman.journal.protocols import Connection
from dragoman.journal.sqlite import SqliteJournal

# Long enough to be stored compressed.
_LARGE = b'"' + b"large " * 1000 + b'"'

# A few frames alike, then something else: another kind, another session, another connection, a large one.
_stretches = st.lists(
    st.tuples(
        st.integers(1, 12),
        st.sampled_from(["c1", "c2"]),
        st.sampled_from(["s1", "s2", None]),
        st.sampled_from(["agent_message_chunk", "tool_call"]),
        st.sampled_from([b"{}", _LARGE]),
    ),
    max_size=6,
)


def entries_of(stretches: Sequence[tuple[int, str, str | None, str, bytes]]) -> list[Entry]:
    numbers = {"c1": 0, "c2": 0}
    entries: list[Entry] = []
    for count, connection_id, session_id, kind, frame in stretches:
        for _ in range(count):
            numbers[connection_id] += 1
            n = numbers[connection_id]
            entries.append(Entry(connection_id, session_id, n, float(len(entries)), "agent", kind, frame))
    return entries


async def read(journal: SqliteJournal, session_id: str | None, limit: int) -> list[Entry]:
    cursor: Cursor | None = None
    found: list[Entry] = []
    while (page := await journal.read(session_id, after=cursor, limit=limit)).entries:
        assert len(page.entries) == len(page.positions) <= limit
        assert page.cursor == page.cursor_at(len(page.entries) - 1)
        found.extend(page.entries)
        cursor = page.cursor
    return found


async def written(path: Path, entries: Sequence[Entry]) -> SqliteJournal:
    journal = await SqliteJournal.open(path)
    for name in ("c1", "c2"):
        await journal.register_connection(Connection(id=name, agent="raw", at=0.0))
    await journal.append(entries)
    return journal


@settings(deadline=None)
@given(stretches=_stretches, limit=st.integers(1, 6))
def test_pages_return_what_was_written(
    tmp_path_factory: pytest.TempPathFactory,
    stretches: list[tuple[int, str, str | None, str, bytes]],
    limit: int,
) -> None:
    entries = entries_of(stretches)

    async def run() -> None:
        async with await written(tmp_path_factory.mktemp("frames") / "journal.db", entries) as journal:
            assert await read(journal, None, limit) == entries
            for session_id in ("s1", "s2"):
                expected = [entry for entry in entries if entry.session_id == session_id]
                assert await read(journal, session_id, limit) == expected

    asyncio.run(run())


async def test_pages_of_uniform_frames_leave_out_deleted_ones(tmp_path: Path) -> None:
    kind = "agent_message_chunk"
    stretches = [(20, "c1", "s1", kind, b"{}"), (3, "c1", "s2", kind, b"{}"), (20, "c1", "s1", kind, b"{}")]
    entries = entries_of(stretches)
    async with await written(tmp_path / "journal.db", entries) as journal:
        await journal.delete("s2", at=1.0)
        expected = [entry for entry in entries if entry.session_id == "s1"]
        for session_id in ("s1", None):
            assert (await read(journal, session_id, 5))[: len(expected)] == expected


async def test_frames_appended_during_reading_are_read_too(tmp_path: Path) -> None:
    entries = entries_of([(20, "c1", "s1", "agent_message_chunk", b"{}")])
    async with await written(tmp_path / "journal.db", entries[:12]) as journal:
        first = await journal.read(limit=6)
        second = await journal.read(after=first.cursor, limit=6)
        await journal.append(entries[12:])
        rest = await journal.read(after=second.cursor, limit=20)
        assert [*first.entries, *second.entries, *rest.entries] == entries


async def test_reading_one_session_returns_nothing_of_another_read_at_the_same_time(tmp_path: Path) -> None:
    kind = "agent_message_chunk"
    entries = entries_of([(20, "c1", "s2", kind, b"{}"), (20, "c1", "s1", kind, b"{}")])
    async with await written(tmp_path / "journal.db", entries) as journal:
        cursor: Cursor | None = None
        for number in range(4):
            other = await journal.read("s2", limit=5)
            assert list(other.entries) == entries[:5]
            page = await journal.read("s1", after=cursor, limit=5)
            assert list(page.entries) == entries[20 + 5 * number : 25 + 5 * number]
            cursor = page.cursor
