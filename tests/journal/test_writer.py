"""The writer's thread: jobs that share a commit, and one of them that fails."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from dragoman.journal.scheduler import scheduler_of_loop
from dragoman.journal.sqlite.writer import Writer


class NumberTable:
    """A table of numbers, and jobs that wait until they can share a commit."""

    def __init__(self, path: Path) -> None:
        self.connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self.connection.execute("CREATE TABLE numbers(number INTEGER PRIMARY KEY)")
        self.commits = -1  # the job that blocks the writer counts as one
        self.rollbacks = 0
        self.writer = Writer(
            self.connection,
            str(path),
            after_commit=self._count_commit,
            after_rollback=self._count_rollback,
            when_quiet=lambda: None,
        )
        self._unblocked = threading.Event()

    def _count_commit(self) -> None:
        self.commits += 1

    def _count_rollback(self) -> None:
        self.rollbacks += 1

    def insert(self, number: int, *, error: Exception | None = None) -> Callable[[], int]:
        def run() -> int:
            self.connection.execute("INSERT INTO numbers VALUES(?)", (number,))
            if error is not None:
                raise error
            return number

        return run

    async def write_together(self, *jobs: Callable[[], int], sizes: Sequence[int] = ()) -> list[int | BaseException]:
        """Give all of them to the writer while it is busy, so that they can share a commit."""
        blocker = asyncio.ensure_future(self.writer.run_alone(lambda: self._unblocked.wait(10)))
        jobs_and_sizes = zip(jobs, sizes or [0] * len(jobs), strict=True)
        writes = [asyncio.ensure_future(self.writer.write(job, size_bytes=size)) for job, size in jobs_and_sizes]
        await asyncio.sleep(0)  # the tasks begin, and give their jobs to the writer
        self._unblocked.set()
        async with asyncio.timeout(10):
            await blocker
            return await asyncio.gather(*writes, return_exceptions=True)

    def numbers(self) -> list[int]:
        return [number for (number,) in self.connection.execute("SELECT number FROM numbers ORDER BY number")]

    def close(self) -> None:
        self.writer.close()
        self.connection.close()


@pytest.fixture
def table(tmp_path: Path) -> Iterator[NumberTable]:
    numbers = NumberTable(tmp_path / "numbers.db")
    yield numbers
    numbers.close()


async def test_jobs_that_gathered_share_a_commit(table: NumberTable) -> None:
    assert await table.write_together(*map(table.insert, range(5))) == [0, 1, 2, 3, 4]
    assert (table.numbers(), table.commits) == ([0, 1, 2, 3, 4], 1)


async def test_a_large_job_shares_no_commit_with_those_before_it(table: NumberTable) -> None:
    jobs = list(map(table.insert, range(4)))
    assert await table.write_together(*jobs, sizes=[10, 20, 1_000_000, 10]) == [0, 1, 2, 3]
    assert (table.numbers(), table.commits) == ([0, 1, 2, 3], 2)


async def test_a_job_that_raises_writes_nothing_and_harms_no_other(table: NumberTable) -> None:
    error = LookupError("no such thing")
    results = await table.write_together(table.insert(1), table.insert(2, error=error), table.insert(3))
    assert results == [1, error, 3]
    assert (table.numbers(), table.commits) == ([1, 3], 1)
    assert table.rollbacks  # a cache of what was written has to be cleared


async def test_data_that_cannot_be_stored_fails_its_own_job_alone(table: NumberTable) -> None:
    first, duplicate, other = await table.write_together(table.insert(1), table.insert(1), table.insert(2))
    assert (first, other) == (1, 2)
    assert isinstance(duplicate, Exception)
    assert table.numbers() == [1, 2]


async def test_others_can_wait_for_the_commits_under_way_but_for_large_ones(table: NumberTable) -> None:
    may_go_on = threading.Event()

    def slow() -> None:
        assert may_go_on.wait(10)

    async with asyncio.timeout(10):
        large = asyncio.create_task(table.writer.write(slow, size_bytes=1_000_000))
        await asyncio.sleep(0)
        await scheduler_of_loop().wait_for_commits()
        small = asyncio.create_task(table.writer.write(table.insert(1), size_bytes=10))
        await asyncio.sleep(0)
        waiting = asyncio.create_task(scheduler_of_loop().wait_for_commits())
        for _ in range(10):
            await asyncio.sleep(0)
        assert not any(task.done() for task in (large, small, waiting))
        may_go_on.set()
        await waiting
        assert small.done()
        await large
