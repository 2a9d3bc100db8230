"""`kill -9` at any moment, while one process streams twenty sessions: the journal is a prefix of what was said."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
from pathlib import Path

import pytest

from dragoman.hub.hub import ORPHANED, Hub
from dragoman.journal import maintenance
from dragoman.journal.entry import Cursor, Entry
from dragoman.journal.protocols import Journal
from dragoman.record.events import AssistantDelta
from dragoman.testing.scripted import Turn
from dragoman.testing.stage import session_of

HERE = Path(__file__).parent
SESSIONS = 20
KILLS = int(os.environ.get("DRAGOMAN_KILLS", "25"))
LIMIT = 120.0

pytestmark = [pytest.mark.slow, pytest.mark.timeout(60 * KILLS)]


async def said_by_the_agent(journal: Journal) -> list[bytes]:
    """Every line of the agent's, of the one connection that there was."""
    found: list[Entry] = []
    cursor: Cursor | None = None
    while (page := await journal.read(after=cursor)).entries:
        found += [entry for entry in page.entries if entry.origin == "agent"]
        cursor = page.cursor
    return [entry.frame for entry in found]


async def killed_once(folder: Path, chance: random.Random) -> int:
    """How many chunks its program had been told of when it was killed."""
    copy = folder / "copy"
    program = [str(HERE / "killed_hub.py"), str(folder / "home"), str(HERE / "streaming_agent.py"), str(copy)]
    process = await asyncio.create_subprocess_exec(
        sys.executable, *program, str(SESSIONS), stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        told = 0
        for _ in range(chance.randint(0, 40)):
            told = int(await process.stdout.readline())
    finally:
        process.send_signal(signal.SIGKILL)
        rest = await process.stdout.read()
        await process.wait()
    lines = rest.splitlines()
    return int(lines[-1]) if lines and rest.endswith(b"\n") else told


async def test_a_killed_hub_leaves_a_prefix_of_what_was_said(tmp_path: Path) -> None:
    chance = random.Random(20)
    for number in range(KILLS):
        folder = tmp_path / str(number)
        folder.mkdir()
        async with asyncio.timeout(LIMIT):
            told = await killed_once(folder, chance)
            copy = (folder / "copy").read_bytes().splitlines() if (folder / "copy").exists() else []
            async with Hub(folder / "home") as hub:
                kept = await said_by_the_agent(hub.journal)
                assert kept == copy[: len(kept)], f"kill {number}: not a prefix"
                chunks = sum(b"agent_message_chunk" in line for line in kept)
                assert chunks >= told, f"kill {number}: {told} were told of, {chunks} are kept"
                assert await maintenance.verify(hub.journal) == []
                rows = {one: await hub.journal.stored_rows(one) for one in await hub.journal.session_ids()}
                cut = {(run.status, run.reason) for one in rows.values() for run in one.runs}
                assert cut == ({("interrupted", ORPHANED)} if cut or chunks else set())
                await maintenance.rebuild(hub.journal)
                again = {one: await hub.journal.stored_rows(one) for one in await hub.journal.session_ids()}
                assert again == rows


async def test_what_a_living_process_runs_is_left_alone_when_another_looks(tmp_path: Path) -> None:
    async def script(turn: Turn) -> str:
        await turn.say("on and on")
        return await turn.wait_cancelled()

    async with (
        asyncio.timeout(LIMIT),
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
