"""Floods: taken in bounded memory, with the neighbour served meanwhile (G2, G11)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import msgspec
import pytest

from dragoman import errors, events
from dragoman.hub.identity import is_alive, this_process
from dragoman.journal.entry import Entry
from dragoman.journal.sqlite import SqliteJournal
from dragoman.record.notes import NOISE_OMITTED
from dragoman.session.journal_client import JournalClient
from dragoman.session.router import MAX_NOISE_LINES
from dragoman.testing.clock import ManualClock

from .cases import QUICK_CANCEL, RUN_LIMIT_S
from .stage import LIMITS, Neighbour, Witness, config, resident, rogue, untouched

pytestmark = pytest.mark.asyncio(loop_scope="module")

MB = 1_000_000

# Memory that a flood may cost beside its text: a good deal more than was seen, and far less than the flood.
ROOM_BYTES = 60 * MB


@pytest.mark.attempts("agent faults")
async def test_a_million_chunks_are_taken_in_bounded_memory_with_every_word(
    neighbour: Neighbour, tmp_path: Path
) -> None:
    async with untouched(neighbour), rogue("flood_of_updates") as runtime:
        session = await runtime.open_session(config(tmp_path))
        before = resident()
        result = await session.run("go")
        grown = resident() - before
        assert result.text == "flood " * MB
        assert grown < 3 * len(result.text) + ROOM_BYTES
        assert (await session.run("go")).text == "fine"


@pytest.mark.attempts("agent faults")
@pytest.mark.parametrize("behaviour", ["flood_of_notifications", "flood_of_strays", "flood_of_garbage"])
async def test_useless_messages_by_the_hundred_thousand_are_read_in_bounded_memory(
    behaviour: str, neighbour: Neighbour, tmp_path: Path
) -> None:
    async with untouched(neighbour), rogue(behaviour, count=200_000) as runtime:
        session = await runtime.open_session(config(tmp_path))
        before = resident()
        assert (await session.run("go")).text == "before after"
        assert resident() - before < ROOM_BYTES
        assert (await session.run("go")).text == "fine"


@pytest.mark.attempts("agent faults")
async def test_noise_is_recorded_in_bounded_size_and_the_rest_is_counted(neighbour: Neighbour, tmp_path: Path) -> None:
    noise = b"INFO nothing to see here"
    async with untouched(neighbour), await SqliteJournal.open(tmp_path / "journal.db") as journal:
        client = JournalClient(journal, this_process(), is_alive)
        await journal.heartbeat(client.process)
        async with rogue("flood_of_garbage", count=20_000, journal_client=client) as runtime:
            session = await runtime.open_session(config(tmp_path))
            assert (await session.run("go")).text == "before after"
        entries = [entry async for page in _pages(journal) for entry in page]
    assert [entry.frame for entry in entries if entry.kind == "noise"] == [noise] * MAX_NOISE_LINES
    [note] = [msgspec.json.decode(entry.frame)["params"] for entry in entries if entry.kind == NOISE_OMITTED]
    omitted = 20_000 - MAX_NOISE_LINES
    assert note == {"lines": omitted, "bytes": omitted * len(noise)}


async def _pages(journal: SqliteJournal) -> AsyncIterator[Sequence[Entry]]:
    cursor = None
    while (page := await journal.read(after=cursor)).entries:
        cursor = page.cursor
        yield page.entries


@pytest.mark.attempts("agent faults")
async def test_updates_that_need_repair_are_read_in_bounded_memory_too(neighbour: Neighbour, tmp_path: Path) -> None:
    async with untouched(neighbour), rogue("flood_of_bad_updates", count=50_000) as runtime:
        session = await runtime.open_session(config(tmp_path))
        before = resident()
        assert (await session.run("go")).text == "before after"
        assert resident() - before < ROOM_BYTES


@pytest.mark.attempts("agent faults")
async def test_a_flood_before_the_session_has_a_name_is_kept_only_in_part(neighbour: Neighbour, tmp_path: Path) -> None:
    witness = Witness()
    before = resident()
    async with untouched(neighbour), rogue("flood_before_the_session", witness) as runtime:
        session = await runtime.open_session(config(tmp_path))
        assert resident() - before < 5 * ROOM_BYTES  # a million would be three times as much
        assert (await session.run("go")).text == "fine"
    assert witness.reported("'elsewhere'")


@pytest.mark.attempts("agent faults")
async def test_a_flood_of_requests_is_answered_to_the_last(neighbour: Neighbour, tmp_path: Path) -> None:
    async with untouched(neighbour), rogue("flood_of_requests", count=20_000) as runtime:
        session = await runtime.open_session(config(tmp_path))
        before = resident()
        assert (await session.run("go")).text == "20000 answered"
        assert resident() - before < ROOM_BYTES


@pytest.mark.attempts("agent faults")
@pytest.mark.parametrize("behaviour", ["flood_of_requests_unread", "flood_of_cancelled_requests"])
async def test_an_agent_that_reads_no_answers_is_not_read_either(
    behaviour: str, neighbour: Neighbour, tmp_path: Path
) -> None:
    witness, clock = Witness(), ManualClock()
    async with untouched(neighbour), rogue(behaviour, clock=clock) as runtime:
        session = await runtime.open_session(config(tmp_path, witness))
        before = resident()
        run = session.run("go", deadline=RUN_LIMIT_S)
        await witness.spoke.wait()
        frames = -1
        while session.frames > frames:
            frames = session.frames
            await neighbour.run()
        assert frames < 15_000  # what the pipe and our own buffer hold; the agent would send without end
        clock.advance(RUN_LIMIT_S)
        await clock.wait_for_timers()
        clock.advance(LIMITS.cancel_timeout)
        with pytest.raises(errors.DeadlineExceeded) as caught:
            await run
        assert caught.value.result.text == "before"
        assert session.frames < 15_000
        assert resident() - before < ROOM_BYTES


@pytest.mark.attempts("agent faults")
async def test_a_flood_without_end_is_ended_by_the_cancel(neighbour: Neighbour, tmp_path: Path) -> None:
    witness = Witness()
    async with untouched(neighbour), rogue("endless_updates", limits=QUICK_CANCEL) as runtime:
        session = await runtime.open_session(config(tmp_path, witness))
        run = session.run("go")
        await witness.spoke.wait()
        await run.cancel()
        result = await run
        assert result.status == "cancelled"
        assert set(result.text.split()) == {"flood"}


@pytest.mark.attempts("agent faults")
@pytest.mark.parametrize("behaviour", ["endless_updates", "endless_large_updates"])
async def test_a_flood_to_a_reader_that_does_not_read_waits_in_the_pipe(
    behaviour: str, neighbour: Neighbour, tmp_path: Path
) -> None:
    async with untouched(neighbour), rogue(behaviour, limits=QUICK_CANCEL) as runtime:
        session = await runtime.open_session(config(tmp_path))
        before = resident()
        async with session.run("go") as run:
            reader = aiter(run)
            while not isinstance(await anext(reader), events.AssistantDelta):
                pass
            while not runtime.reader_is_paused:
                await neighbour.run()
                assert resident() - before < 3 * ROOM_BYTES
            for _ in range(5):
                await neighbour.run()  # time passes, and none of it is the flood's
            assert resident() - before < 3 * ROOM_BYTES


@pytest.mark.attempts("agent faults")
async def test_cancelling_a_flood_that_nobody_reads_costs_bounded_memory(neighbour: Neighbour, tmp_path: Path) -> None:
    async with untouched(neighbour), rogue("endless_updates", limits=QUICK_CANCEL) as runtime:
        session = await runtime.open_session(config(tmp_path))
        run = session.run("go")
        while not runtime.reader_is_paused:
            await neighbour.run()
        before = resident()
        await run.cancel()
        assert resident() - before < 3 * ROOM_BYTES
        assert (await run).status == "cancelled"


@pytest.mark.attempts("agent faults")
async def test_stderr_without_end_is_drained_and_its_end_kept(neighbour: Neighbour, tmp_path: Path) -> None:
    async with untouched(neighbour), rogue("endless_stderr") as runtime:
        session = await runtime.open_session(config(tmp_path))
        before = resident()
        assert (await session.run("go")).text == "fine"
        while "still here" not in runtime.stderr_tail():
            await neighbour.run()
        assert (await session.run("go")).text == "fine"
        assert resident() - before < ROOM_BYTES
