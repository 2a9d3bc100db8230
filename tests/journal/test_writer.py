"""The writer's thread: jobs that share a commit, and one of them that fails."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dragoman.journal.sqlite.writer import Writer


class Written:
    """A table of numbers, and jobs that write to it while the writer is held."""

    def __init__(self, path: Path) -> None:
        self.connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self.connection.execute("CREATE TABLE numbers(number INTEGER PRIMARY KEY)")
        self.commits = -1  # what holds the writer up counts as one
        self.rollbacks = 0
        self.writer = Writer(self.connection, str(path), self._committed, self._rolled_back, lambda: None)
        self._held = threading.Event()

    def _committed(self) -> None:
        self.commits += 1

    def _rolled_back(self) -> None:
        self.rollbacks += 1

    def put(self, number: int, *, problem: Exception | None = None) -> Callable[[], int]:
        def run() -> int:
            self.connection.execute("INSERT INTO numbers VALUES(?)", (number,))
            if problem is not None:
                raise problem
            return number

        return run

    async def together(self, *jobs: Callable[[], int]) -> list[int | BaseException]:
        """All of them in one commit."""
        held = asyncio.ensure_future(self.writer.do(lambda: self._held.wait(10), alone=True))
        given = [asyncio.ensure_future(self.writer.do(job)) for job in jobs]
        await asyncio.sleep(0)  # they are given once their tasks have begun
        self._held.set()
        async with asyncio.timeout(10):
            await held
            return await asyncio.gather(*given, return_exceptions=True)

    def numbers(self) -> list[int]:
        return [number for (number,) in self.connection.execute("SELECT number FROM numbers ORDER BY number")]

    def close(self) -> None:
        self.writer.close()
        self.connection.close()


@pytest.fixture
def written(tmp_path: Path) -> Iterator[Written]:
    numbers = Written(tmp_path / "numbers.db")
    yield numbers
    numbers.close()


async def test_what_was_gathered_shares_a_commit(written: Written) -> None:
    assert await written.together(*map(written.put, range(5))) == [0, 1, 2, 3, 4]
    assert (written.numbers(), written.commits) == ([0, 1, 2, 3, 4], 1)


async def test_a_job_that_raises_leaves_nothing_behind_and_harms_no_other(written: Written) -> None:
    problem = LookupError("no such thing")
    told = await written.together(written.put(1), written.put(2, problem=problem), written.put(3))
    assert told == [1, problem, 3]
    assert (written.numbers(), written.commits) == ([1, 3], 1)
    assert written.rollbacks  # who remembers what was written has to forget it


async def test_what_cannot_be_stored_is_the_problem_of_who_gave_it_alone(written: Written) -> None:
    one, twice, other = await written.together(written.put(1), written.put(1), written.put(2))
    assert (one, other) == (1, 2)
    assert isinstance(twice, Exception)
    assert written.numbers() == [1, 2]
