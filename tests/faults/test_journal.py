"""The journal fails while an agent streams into it: the run fails with the reason, and nothing is half written or left.

The agent keeps its own copy of every line it wrote; the journal always has a prefix of that copy.
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
from dragoman.session.link import launch

HERE = Path(__file__).parent
HANG = 60.0
"""Seconds until a test gives up: far more than anything here takes."""

# Chunks that the client receives before the journal fails: several commits.
CHUNKS_BEFORE_FAULT = 50


Act: TypeAlias = Callable[["FaultyJournal"], None]


class FaultyJournal:
    """A journal whose agent streams without end, until something happens to the file."""

    def __init__(self, folder: Path, chunk_count: int = 0) -> None:
        self.home = folder / "home"
        self.copy = folder / "copy"
        self.path = journal_path(self.home)
        self.chunk_count = chunk_count
        self.links: list[ProcessLink] = []
        self.journal: SqliteJournal
        self._folder = folder

    async def _launch(self, spec: AgentSpec, limits: Limits, on_stderr: Callable[[str], None]) -> ProcessLink:
        link = await launch(spec, limits, on_stderr)
        assert isinstance(link, ProcessLink)
        self.links.append(link)
        return link

    async def run(self, strike: Act, mend: Act | None = None, *, in_time: bool = False) -> JournalError:
        """Strike during a run and return its error. With `in_time` the fault is mended before the session is closed."""
        async with await SqliteJournal.open(self.path, busy_s=0.05) as self.journal:
            process = this_process()
            await self.journal.heartbeat(process)
            async with self._runtime(JournalClient(self.journal, process, is_alive)) as runtime:
                session = await runtime.open_session(SessionConfig(workspace=Workspace(self._folder)))
                error = await self._failed(session.run("go"), strike)
                await self.links[0].wait()  # the agent does not go on unread
                assert session.status() == "error"
                with pytest.raises(type(error)):
                    session.run("again")
                if in_time and mend is not None:
                    mend(self)
                    await session.close()
                else:
                    with pytest.raises(type(error)):
                        await session.close()
            if mend is not None and not in_time:
                mend(self)
        return error

    async def _failed(self, run: Run, strike: Act) -> JournalError:
        try:
            async for event in run:
                if isinstance(event, events.AssistantDelta):
                    self.chunk_count += 1
                    if self.chunk_count == CHUNKS_BEFORE_FAULT:
                        strike(self)
            await run
        except JournalError as error:
            return error
        pytest.fail("the run ended as if nothing had happened")

    @asynccontextmanager
    async def _runtime(self, client: JournalClient) -> AsyncIterator[AgentRuntime]:
        spec = AgentSpec(command=[sys.executable, str(HERE / "streaming_agent.py"), str(self.copy)], name="streaming")
        limits = Limits(close_timeout=0.3)  # the agent gets no cancel, and has to be ended
        runtime = AgentRuntime(spec, journal_client=client, limits=limits, launch=self._launch)
        await runtime.start()
        try:
            yield runtime
        finally:
            try:
                await runtime.close()
            except JournalError:
                pass  # the journal still fails: the run has raised this already

    async def check_file(self, status: str) -> None:
        """Check that the file has a prefix of the agent's lines, all received chunks, and the rows of its frames."""
        async with Hub(self.home) as hub:
            lines = await agent_lines(hub.journal)
            copy = self.copy.read_bytes().splitlines()
            assert lines == copy[: len(lines)]
            assert sum(b"agent_message_chunk" in line for line in lines) >= self.chunk_count >= CHUNKS_BEFORE_FAULT
            assert await maintenance.verify(hub.journal) == []
            [row] = await hub.sessions()
            assert row.status == status


async def agent_lines(journal: Journal) -> list[bytes]:
    lines: list[bytes] = []
    cursor: Cursor | None = None
    while (page := await journal.read(after=cursor)).entries:
        lines += [entry.frame for entry in page.entries if entry.origin == "agent"]
        cursor = page.cursor
    return lines


@pytest.fixture
def faulty(tmp_path: Path) -> FaultyJournal:
    (tmp_path / "home").mkdir(mode=0o700)
    return FaultyJournal(tmp_path)


def fill(faulty: FaultyJournal) -> None:
    """Let the file grow no more, as on a full disk."""
    [count] = faulty.journal._connection.execute("PRAGMA page_count").fetchone()
    faulty.journal._connection.execute(f"PRAGMA max_page_count = {count}")


def empty(faulty: FaultyJournal) -> None:
    faulty.journal._connection.execute("PRAGMA max_page_count = 1000000")


def forbid(faulty: FaultyJournal) -> None:
    """Make SQLite refuse to write: the permissions of a file that is open cannot be taken away."""
    faulty.journal._connection.execute("PRAGMA query_only = 1")


def permit(faulty: FaultyJournal) -> None:
    faulty.journal._connection.execute("PRAGMA query_only = 0")


class Lock:
    """A lock on the database, as of another process in a long commit."""

    def __init__(self) -> None:
        self._other: sqlite3.Connection | None = None

    def take(self, faulty: FaultyJournal) -> None:
        self._other = sqlite3.connect(faulty.path, isolation_level=None, timeout=HANG)
        self._other.execute("BEGIN IMMEDIATE")

    def release(self, faulty: FaultyJournal) -> None:
        assert self._other is not None
        self._other.close()  # which rolls its transaction back


LOCK = Lock()


@pytest.mark.attempts("journal faults")
@pytest.mark.parametrize("in_time", [True, False], ids=["mended in time", "mended later"])
@pytest.mark.parametrize(
    ("strike", "mend", "kind", "words"),
    [
        (fill, empty, JournalFull, "the disk is full"),
        (forbid, permit, JournalReadOnly, "no permission to write"),
        (LOCK.take, LOCK.release, JournalLocked, "another process locks"),
    ],
    ids=["full", "read-only", "locked"],
)
async def test_a_journal_that_cannot_be_written_ends_the_run_and_loses_nothing_that_was_delivered(
    faulty: FaultyJournal,
    strike: Act,
    mend: Act,
    kind: type[JournalError],
    words: str,
    in_time: bool,
) -> None:
    async with asyncio.timeout(HANG):
        error = await faulty.run(strike, mend, in_time=in_time)
        assert isinstance(error, kind)
        assert words in str(error)
        assert str(faulty.path) in str(error)
        assert error.guidance
        # A session whose end could not be recorded belongs to this process until the process ends.
        await faulty.check_file("interrupted" if in_time else "running")


class Damage:
    """Overwritten pages, and a copy of the file from before."""

    def strike(self, faulty: FaultyJournal) -> None:
        other = sqlite3.connect(faulty.path, isolation_level=None, timeout=HANG)
        other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        other.execute("UPDATE meta SET value = value")  # makes every connection drop its cached pages
        other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        other.close()
        shutil.copy(faulty.path, faulty.path.with_suffix(".copy"))
        with faulty.path.open("r+b") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(4096)
            file.write(b"\xff" * (size - 4096))

    def mend(self, faulty: FaultyJournal) -> None:
        for suffix in ("-wal", "-shm"):
            faulty.path.with_name(faulty.path.name + suffix).unlink(missing_ok=True)
        shutil.move(faulty.path.with_suffix(".copy"), faulty.path)


@pytest.mark.attempts("journal faults")
async def test_a_damaged_journal_ends_the_run_and_a_copy_that_is_put_back_is_a_prefix(faulty: FaultyJournal) -> None:
    damage = Damage()
    async with asyncio.timeout(HANG):
        error = await faulty.run(damage.strike)
        assert isinstance(error, JournalCorrupt)
        assert "damaged" in str(error)
        assert "restore a backup" in error.guidance
        damage.mend(faulty)
        await faulty.check_file("running")


@pytest.mark.attempts("journal faults")
async def test_a_file_that_may_grow_no_more_ends_the_program_with_a_reason_and_no_agent_is_left(tmp_path: Path) -> None:
    """The kernel refuses to let the file grow, in a separate process that never gets room again."""
    home, copy = tmp_path / "home", tmp_path / "copy"
    program = [sys.executable, str(HERE / "limited_hub.py"), str(home), str(HERE / "streaming_agent.py"), str(copy)]
    process = await asyncio.create_subprocess_exec(*program, stdout=subprocess.PIPE)
    async with asyncio.timeout(HANG):
        out, _ = await process.communicate()
    lines = out.decode().splitlines()
    assert process.returncode == 1
    assert lines[-1].startswith("JournalError: the disk failed under the journal")
    assert str(home / "journal.db") in lines[-1]
    with pytest.raises(ProcessLookupError):
        os.kill(int(lines[0]), 0)
    faulty = FaultyJournal(tmp_path, chunk_count=int(lines[-2]))
    await faulty.check_file("interrupted")
