"""Frames on their way into a journal: reported when committed, in order, and not too many at once."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

import pytest

from dragoman.journal.entry import Cursor, Entry, read_message
from dragoman.journal.errors import JournalFull
from dragoman.journal.protocols import Connection, TranscriptPosition
from dragoman.journal.recorder import ConnectionRecorder, RecordedFrame
from dragoman.journal.rows import RowChanges
from dragoman.journal.scheduler import ROUND_BYTES, scheduler_of_loop
from dragoman.journal.session_record import SessionRecord
from dragoman.journal.sqlite import MemoryJournal
from dragoman.record.facts import TextAdded
from dragoman.wire.messages import Message
from journal.talk import all_entries, entry, register_c1


class SlowJournal(MemoryJournal):
    """Commits when it is allowed to, or fails where the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.allowed = asyncio.Semaphore(0)
        self.failing = False
        self.batches: list[int] = []

    async def append(
        self,
        entries: Sequence[Entry],
        changes: Sequence[RowChanges] = (),
        *,
        epochs: Mapping[str, int] = {},
        transcript_position: TranscriptPosition | None = None,
    ) -> Cursor:
        with scheduler_of_loop().committing(sum(len(one.frame) for one in entries)):
            await self.allowed.acquire()
            if self.failing:
                raise JournalFull("no room")
        self.batches.append(len(entries))
        return await super().append(entries, changes, epochs=epochs, transcript_position=transcript_position)


def chunk(text: str) -> Message:
    return read_message(entry(1, text))


async def begin(
    committed: list[RecordedFrame], max_waiting_bytes: int = 10_000
) -> tuple[SlowJournal, ConnectionRecorder]:
    journal = SlowJournal()
    return journal, await begin_on(journal, committed, max_waiting_bytes)


async def begin_on(
    journal: SlowJournal, committed: list[RecordedFrame], max_waiting_bytes: int = 10_000
) -> ConnectionRecorder:
    await register_c1(journal)
    connection = Connection(id="c1", agent="demo", at=0.0)
    recorder = ConnectionRecorder(journal, connection, max_waiting_bytes=max_waiting_bytes)
    recorder.add_session(SessionRecord("s1"))
    recorder.listen("s1", committed.append)
    return recorder


async def test_the_next_batch_gathers_while_one_is_committed() -> None:
    committed: list[RecordedFrame] = []
    journal, recorder = await begin(committed)
    recorder.add("agent", chunk("a"), 1.0, "s1")
    await asyncio.sleep(0)
    for text in "bcd":
        recorder.add("agent", chunk(text), 1.0, "s1")
    assert committed == []
    for _ in range(2):
        journal.allowed.release()
    await recorder.flush()
    assert journal.batches == [1, 3]
    texts = [fact.text for frame in committed for fact in frame.facts if isinstance(fact, TextAdded)]
    assert texts == list("abcd")
    assert recorder.cursor == await journal.cursor()


async def test_more_than_the_bound_waits_for_the_disk() -> None:
    journal, recorder = await begin([], max_waiting_bytes=300)
    recorder.add("agent", chunk("a"), 1.0, "s1")
    await asyncio.sleep(0)
    await recorder.ready()
    for _ in range(3):
        recorder.add("agent", chunk("b"), 1.0, "s1")
    waiting = asyncio.create_task(recorder.ready())
    await asyncio.sleep(0)
    assert not waiting.done()
    journal.allowed.release()
    async with asyncio.timeout(20):
        await waiting
    journal.allowed.release()
    await recorder.flush()
    assert [one.n for one in await all_entries(journal)] == [1, 2, 3, 4]


class BusyJournal(SlowJournal):
    """After each commit, other connections come before the recorder in the scheduler of the loop."""

    def __init__(self) -> None:
        super().__init__()
        self.others: list[asyncio.Task[None]] = []
        self.is_busy = asyncio.Event()

    async def append(
        self,
        entries: Sequence[Entry],
        changes: Sequence[RowChanges] = (),
        *,
        epochs: Mapping[str, int] = {},
        transcript_position: TranscriptPosition | None = None,
    ) -> Cursor:
        cursor = await super().append(entries, changes, epochs=epochs, transcript_position=transcript_position)
        self.others += [asyncio.create_task(scheduler_of_loop().acquire(ROUND_BYTES)) for _ in range(20)]
        await asyncio.sleep(0)
        self.is_busy.set()
        return cursor


async def test_a_flush_waits_until_commits_are_reported_even_behind_other_connections() -> None:
    committed: list[RecordedFrame] = []
    journal = BusyJournal()
    recorder = await begin_on(journal, committed)
    recorder.add("agent", chunk("a"), 1.0, "s1")
    journal.allowed.release()
    async with asyncio.timeout(20):
        await journal.is_busy.wait()
        assert (recorder.cursor is not None, committed) == (True, [])
        await recorder.flush()
        assert len(committed) == 1
        assert recorder.cursor == await journal.cursor()
        await asyncio.gather(*journal.others)


async def test_frames_that_could_not_be_written_are_written_later_in_order() -> None:
    committed: list[RecordedFrame] = []
    journal, recorder = await begin(committed)
    journal.failing = True
    recorder.add("agent", chunk("a"), 1.0, "s1")
    journal.allowed.release()
    with pytest.raises(JournalFull):
        await recorder.flush()
    recorder.add("agent", chunk("b"), 1.0, "s1")
    with pytest.raises(JournalFull):
        await recorder.ready()
    assert committed == []
    journal.failing = False
    for _ in range(2):
        journal.allowed.release()
    await recorder.flush()
    assert [one.n for one in await all_entries(journal)] == [1, 2]
    assert [one.text for one in (await journal.rows("s1")).messages] == ["ab"]
    await recorder.ready()


async def test_frames_without_a_session_are_stored_too() -> None:
    journal, recorder = await begin([])
    recorder.add("agent", chunk("a"), 1.0)
    journal.allowed.release()
    await recorder.flush()
    assert [one.session_id for one in await all_entries(journal)] == [None]
    assert await journal.session_ids() == []


async def test_the_context_of_a_frame_comes_back_with_it() -> None:
    committed: list[RecordedFrame] = []
    journal, recorder = await begin(committed)
    contexts = [object() for _ in range(3)]
    for context in contexts:
        recorder.add("agent", chunk("a"), 1.0, "s1", context)
    journal.allowed.release()
    await recorder.flush()
    assert [frame.context for frame in committed] == contexts
    assert [frame.entry.n for frame in committed] == [1, 2, 3]


async def test_each_session_hears_of_its_own_frames_until_it_is_removed() -> None:
    first: list[RecordedFrame] = []
    second: list[RecordedFrame] = []
    journal, recorder = await begin(first)
    recorder.listen("s2", second.append)
    recorder.add("agent", chunk("a"), 1.0, "s1")
    recorder.add("agent", chunk("b"), 1.0, "s2")
    recorder.add("agent", chunk("c"), 1.0)
    journal.allowed.release()
    await recorder.flush()
    recorder.remove_session("s1")
    recorder.add("agent", chunk("d"), 1.0, "s1")
    journal.allowed.release()
    await recorder.flush()
    assert [frame.entry.n for frame in first] == [1]
    assert [frame.entry.n for frame in second] == [2]
    assert len(await all_entries(journal)) == 4


async def second_recorder(journal: SlowJournal) -> ConnectionRecorder:
    connection = Connection(id="c2", agent="demo", at=0.0)
    await journal.register_connection(connection)
    return ConnectionRecorder(journal, connection)


async def begin_commit(recorder: ConnectionRecorder, text: str) -> None:
    """Add a frame, and let its commit begin. The journal ends it when the test allows that."""
    recorder.add("agent", chunk(text), 1.0, "s1")
    await asyncio.sleep(0)


async def test_a_read_without_frames_waits_for_the_commits_of_other_connections() -> None:
    journal, committing = await begin([])
    reading = await second_recorder(journal)
    await reading.wait_for_turn()
    await begin_commit(committing, "a")
    turn = asyncio.create_task(reading.wait_for_turn())
    for _ in range(10):
        await asyncio.sleep(0)
    assert not turn.done()
    journal.allowed.release()
    async with asyncio.timeout(20):
        await turn
    assert journal.batches == [1]


async def test_a_read_with_frames_waits_for_no_other_connection() -> None:
    journal, committing = await begin([])
    reading = await second_recorder(journal)
    await begin_commit(committing, "a")
    reading.add("agent", chunk("b"), 1.0)
    async with asyncio.timeout(20):
        await reading.wait_for_turn()
    assert journal.batches == []
    for _ in range(2):
        journal.allowed.release()
    await committing.flush()
    await reading.flush()


async def test_nobody_waits_for_a_large_commit() -> None:
    journal, committing = await begin([])
    reading = await second_recorder(journal)
    await begin_commit(committing, "a" * ROUND_BYTES)
    async with asyncio.timeout(20):
        await reading.wait_for_turn()
    assert journal.batches == []
    journal.allowed.release()
    await committing.flush()


async def test_a_commit_that_fails_ends_the_wait_for_it() -> None:
    journal, committing = await begin([])
    reading = await second_recorder(journal)
    journal.failing = True
    await begin_commit(committing, "a")
    turn = asyncio.create_task(reading.wait_for_turn())
    await asyncio.sleep(0)
    journal.allowed.release()
    async with asyncio.timeout(20):
        await turn
