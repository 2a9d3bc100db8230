"""`kill -9` at any moment, while one process streams twenty sessions: the journal has a prefix of its lines."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
from pathlib import Path

import pytest

from attempts import Attempts
from dragoman.hub.hub import ORPHANED, Hub
from dragoman.journal import maintenance
from dragoman.journal.entry import Cursor, Entry
from dragoman.journal.protocols import Journal
from dragoman.journal.rows import SessionRows
from dragoman.record.events import AssistantDelta
from dragoman.testing.memory import session_of
from dragoman.testing.scripted import Turn

HERE = Path(__file__).parent
SESSIONS = 20
KILLS = int(os.environ.get("DRAGOMAN_KILLS", "25"))
TIMEOUT_S = 120.0

pytestmark = [pytest.mark.slow, pytest.mark.timeout(60 * KILLS)]


async def agent_lines(journal: Journal) -> list[bytes]:
    """Return every line that the agent wrote on its one connection."""
    entries: list[Entry] = []
    cursor: Cursor | None = None
    while (page := await journal.read(after=cursor)).entries:
        entries += [entry for entry in page.entries if entry.origin == "agent"]
        cursor = page.cursor
    return [entry.frame for entry in entries]


async def all_rows(journal: Journal) -> dict[str, SessionRows]:
    return {session_id: await journal.stored_rows(session_id) for session_id in await journal.session_ids()}


async def kill_once(folder: Path, chance: random.Random) -> int:
    """Start the program, kill it, and return the number of chunks that it had reported as received."""
    copy = folder / "copy"
    program = [str(HERE / "killed_hub.py"), str(folder / "home"), str(HERE / "streaming_agent.py"), str(copy)]
    process = await asyncio.create_subprocess_exec(
        sys.executable, *program, str(SESSIONS), stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        chunk_count = 0
        for _ in range(chance.randint(0, 40)):
            chunk_count = int(await process.stdout.readline())
    finally:
        process.send_signal(signal.SIGKILL)
        rest = await process.stdout.read()
        await process.wait()
    lines = rest.splitlines()
    return int(lines[-1]) if lines and rest.endswith(b"\n") else chunk_count


@pytest.mark.attempts("kills")
async def test_a_killed_hub_leaves_a_prefix_of_the_frames(tmp_path: Path, attempts: Attempts) -> None:
    chance = random.Random(20)
    for number in range(KILLS):
        folder = tmp_path / str(number)
        folder.mkdir()
        async with asyncio.timeout(TIMEOUT_S):
            reported = await kill_once(folder, chance)
            copy = (folder / "copy").read_bytes().splitlines() if (folder / "copy").exists() else []
            async with Hub(folder / "home") as hub:
                lines = await agent_lines(hub.journal)
                assert lines == copy[: len(lines)], f"kill {number}: not a prefix"
                chunks = sum(b"agent_message_chunk" in line for line in lines)
                assert chunks >= reported, f"kill {number}: {reported} were reported, {chunks} are in the journal"
                assert await maintenance.verify(hub.journal) == []
                rows = await all_rows(hub.journal)
                ends = {(run.status, run.reason) for stored in rows.values() for run in stored.runs}
                assert ends == ({("interrupted", ORPHANED)} if ends or chunks else set())
                await maintenance.rebuild(hub.journal)
                assert await all_rows(hub.journal) == rows
        attempts.add()
        attempts.detail("frames compared", len(lines))


@pytest.mark.attempts("shared home")
async def test_runs_of_a_living_process_are_left_alone_when_another_process_looks(tmp_path: Path) -> None:
    async def script(turn: Turn) -> str:
        await turn.say("on and on")
        return await turn.wait_cancelled()

    async with (
        asyncio.timeout(TIMEOUT_S),
        Hub(tmp_path / "home") as hub,
        session_of(script, runtime={"journal_client": hub.journal_client}) as session,
    ):
        run = session.run("go")
        async for event in run:
            if isinstance(event, AssistantDelta):
                async with Hub(tmp_path / "home") as other:
                    [row] = await other.sessions()
                    assert (row.id, row.status) == (session.id, "running")
                break
        await run.cancel()
        assert (await run).status == "cancelled"
