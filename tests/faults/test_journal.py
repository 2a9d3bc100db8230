"""The journal fails while an agent streams into it: whoever waits hears why, nothing is half written, nothing is left.

The agent keeps its own copy of every line it wrote; what the journal has of it is a prefix of that, whatever happened.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeAlias

import pytest

from dragoman import AgentRuntime, AgentSpec, Limits, Run, SessionConfig, Workspace, events
from dragoman.hub.hub import Hub
from dragoman.hub.identity import is_alive, this_process
from dragoman.journal import journal_path, maintenance
from dragoman.journal.entry import Cursor
from dragoman.journal.errors import (
    JournalCorrupt,
    JournalError,
    JournalFull,
    JournalLocked,
    JournalReadOnly,
)
from dragoman.journal.protocols import Journal
from dragoman.journal.sqlite import SqliteJournal
from dragoman.proc.process import ProcessLink
from dragoman.session.journal_client import JournalClient
from dragoman.session.launch import launch

HERE = Path(__file__).parent
HANG = 60.0
"""Seconds until a test gives up: far more than anything here takes."""

# Chunks that are told before the journal fails: some commits' worth.
BEFORE = 50


Act: TypeAlias = Callable[["Struck"], None]


class Struck:
    """A journal whose agent streams without end, until something happens to the file."""

    def __init__(self, folder: Path, told: int = 0) -> None:
        self.home = folder / "home"
        self.copy = folder / "copy"
        self.path = journal_path(self.home)
        self.told = told
        self.links: list[ProcessLink] = []
        self.journal: SqliteJournal
        self._folder = folder

    async def _launch(self, spec: AgentSpec, limits: Limits, on_stderr: Callable[[str], None]) -> ProcessLink:
        link = await launch(spec, limits, on_stderr)
        assert isinstance(link, ProcessLink)
        self.links.append(link)
        return link

    async def run(self, strike: Act, mend: Act | None = None, *, in_time: bool = False) -> JournalError:
        """What the run ended with. Mended `in_time`: before the session is closed."""
        async with await SqliteJournal.open(self.path, busy_s=0.05) as self.journal:
            process = this_process()
            await self.journal.heartbeat(process)
            async with self._runtime(JournalClient(self.journal, process, is_alive)) as runtime:
                session = await runtime.open_session(SessionConfig(workspace=Workspace(self._folder)))
                problem = await self._failed(session.run("go"), strike)
                await self.links[0].wait()  # it is not left to run on unheard
                assert session.status() == "error"
                with pytest.raises(type(problem)):
                    session.run("again")
                if in_time and mend is not None:
                    mend(self)
                    await session.close()
                else:
                    with pytest.raises(type(problem)):
                        await session.close()
            if mend is not None and not in_time:
                mend(self)
        return problem

    async def _failed(self, run: Run, strike: Act) -> JournalError:
        try:
            async for event in run:
                if isinstance(event, events.AssistantDelta):
                    self.told += 1
                    if self.told == BEFORE:
                        strike(self)
            await run
        except JournalError as problem:
            return problem
        pytest.fail("the run ended as if nothing had happened")

    @asynccontextmanager
    async def _runtime(self, client: JournalClient) -> AsyncIterator[AgentRuntime]:
        spec = AgentSpec(command=[sys.executable, str(HERE / "streaming_agent.py"), str(self.copy)], name="streaming")
        limits = Limits(close_grace=0.3)  # the agent hears of nothing, and has to be ended
        runtime = AgentRuntime(spec, journal_client=client, limits=limits, launch=self._launch)
        await runtime.start()
        try:
            yield runtime
        finally:
            try:
                await runtime.close()
            except JournalError:
                pass  # of a session whose journal still fails: it was told already

    async def opens(self, status: str) -> None:
        """The file is a prefix of what was said, has all that was told, and its rows are what its frames say."""
        async with Hub(self.home) as hub:
            kept = await said_by_the_agent(hub.journal)
            copy = self.copy.read_bytes().splitlines()
            assert kept == copy[: len(kept)]
            assert sum(b"agent_message_chunk" in line for line in kept) >= self.told >= BEFORE
            assert await maintenance.verify(hub.journal) == []
            [row] = await hub.sessions()
            assert row.status == status


async def said_by_the_agent(journal: Journal) -> list[bytes]:
    found: list[bytes] = []
    cursor: Cursor | None = None
    while (page := await journal.read(after=cursor)).entries:
        found += [entry.frame for entry in page.entries if entry.origin == "agent"]
        cursor = page.cursor
    return found


@pytest.fixture
def struck(tmp_path: Path) -> Struck:
    (tmp_path / "home").mkdir(mode=0o700)
    return Struck(tmp_path)


def fill(struck: Struck) -> None:
    """As much as the disk has."""
    [count] = struck.journal._connection.execute("PRAGMA page_count").fetchone()
    struck.journal._connection.execute(f"PRAGMA max_page_count = {count}")


def empty(struck: Struck) -> None:
    struck.journal._connection.execute("PRAGMA max_page_count = 1000000")


def forbid(struck: Struck) -> None:
    """Make SQLite report that the file is read-only; one that is open cannot be taken away from it."""
    struck.journal._connection.execute("PRAGMA query_only = 1")


def permit(struck: Struck) -> None:
    struck.journal._connection.execute("PRAGMA query_only = 0")


class Lock:
    """Another process's long commit."""

    def __init__(self) -> None:
        self._other: sqlite3.Connection | None = None

    def take(self, struck: Struck) -> None:
        self._other = sqlite3.connect(struck.path, isolation_level=None, timeout=HANG)
        self._other.execute("BEGIN IMMEDIATE")

    def let_go(self, struck: Struck) -> None:
        assert self._other is not None
        self._other.close()  # and what it had begun is undone


LOCK = Lock()


@pytest.mark.parametrize("in_time", [True, False], ids=["mended in time", "mended later"])
@pytest.mark.parametrize(
    ("strike", "mend", "kind", "words"),
    [
        (fill, empty, JournalFull, "the disk is full"),
        (forbid, permit, JournalReadOnly, "no permission to write"),
        (LOCK.take, LOCK.let_go, JournalLocked, "held by another process"),
    ],
    ids=["full", "read-only", "locked"],
)
async def test_a_journal_that_cannot_be_written_ends_the_run_and_loses_nothing_of_what_was_told(
    struck: Struck,
    strike: Act,
    mend: Act,
    kind: type[JournalError],
    words: str,
    in_time: bool,
) -> None:
    async with asyncio.timeout(HANG):
        problem = await struck.run(strike, mend, in_time=in_time)
        assert isinstance(problem, kind)
        assert words in str(problem)
        assert str(struck.path) in str(problem)
        assert problem.guidance
        # What could not be kept to its end is this process's until that ends.
        await struck.opens("interrupted" if in_time else "running")


class Damage:
    """Pages that hold something else, and a copy of the file as it was."""

    def strike(self, struck: Struck) -> None:
        other = sqlite3.connect(struck.path, isolation_level=None, timeout=HANG)
        other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        other.execute("UPDATE meta SET value = value")  # whoever has pages at hand reads them anew
        other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        other.close()
        shutil.copy(struck.path, struck.path.with_suffix(".copy"))
        with struck.path.open("r+b") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(4096)
            file.write(b"\xff" * (size - 4096))

    def mend(self, struck: Struck) -> None:
        for suffix in ("-wal", "-shm"):
            struck.path.with_name(struck.path.name + suffix).unlink(missing_ok=True)
        shutil.move(struck.path.with_suffix(".copy"), struck.path)


async def test_a_damaged_journal_ends_the_run_and_a_copy_that_is_put_back_is_a_prefix(struck: Struck) -> None:
    damage = Damage()
    async with asyncio.timeout(HANG):
        problem = await struck.run(damage.strike)
        assert isinstance(problem, JournalCorrupt)
        assert "damaged" in str(problem)
        assert "restore a copy" in problem.guidance
        damage.mend(struck)
        await struck.opens("running")


async def test_a_file_that_may_grow_no_more_ends_the_program_with_a_reason_and_no_agent_is_left(tmp_path: Path) -> None:
    """As on a disk that is full, for real: by the kernel, in a process of its own that never gets room again."""
    home, copy = tmp_path / "home", tmp_path / "copy"
    program = [sys.executable, str(HERE / "limited_hub.py"), str(home), str(HERE / "streaming_agent.py"), str(copy)]
    process = await asyncio.create_subprocess_exec(*program, stdout=subprocess.PIPE)
    async with asyncio.timeout(HANG):
        out, _ = await process.communicate()
    said = out.decode().splitlines()
    assert process.returncode == 1
    assert said[-1].startswith("JournalError: the disk failed under the journal")
    assert str(home / "journal.db") in said[-1]
    with pytest.raises(ProcessLookupError):
        os.kill(int(said[0]), 0)
    struck = Struck(tmp_path, told=int(said[-2]))
    await struck.opens("interrupted")
