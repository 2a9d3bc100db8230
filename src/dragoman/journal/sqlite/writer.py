"""The one writer of a process: a thread that commits what was gathered while it committed what came before.

No timer: with little to do each job is a commit of its own, in a burst hundreds share one. Jobs are done in the order
in which they were given. One that raises leaves nothing behind and harms no other: all of that commit are then taken
back and run once more, each by itself. When the file itself fails, all of that commit fail, and nothing of them is
written.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

from dragoman.journal.errors import JournalClosed, from_sqlite

T = TypeVar("T")

logger = logging.getLogger(__name__)

# Errors of SQLite that are the job's own: what it gave cannot be stored. All others are the file's.
_THE_JOBS_OWN: Final = (
    sqlite3.ProgrammingError,
    sqlite3.InterfaceError,
    sqlite3.DataError,
    sqlite3.IntegrityError,
    sqlite3.NotSupportedError,
)


class _Job(Generic[T]):
    def __init__(self, run: Callable[[], T], alone: bool, then: Callable[[T], None] | None) -> None:
        self.run = run
        self.alone = alone  # without a transaction around it
        self.then = then
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[T] = self.loop.create_future()
        self.result: T | None = None
        self.problem: Exception | None = None

    def tell(self) -> None:
        """In the job's own loop."""
        if self.problem is None and self.then is not None:
            try:
                self.then(self.result)  # type: ignore[arg-type]  # T may be None itself
            except Exception:
                # It is committed, and whoever waits for that must learn of it.
                logger.exception("what was committed could not be told")
        if self.future.done():
            return  # whoever waited has gone; what was written stays
        if self.problem is not None:
            self.future.set_exception(self.problem)
        else:
            self.future.set_result(self.result)  # type: ignore[arg-type]  # T may be None itself


# Seconds without a job after which there is time for upkeep. Between the batches of a burst there are a few
# milliseconds.
_QUIET: Final = 0.1


# Commits whose times are kept until someone takes them: some seconds of a burst.
_TIMES: Final = 10_000


class Writer:
    """`after_commit` and `after_rollback` are called in the thread, before anyone is told; `when_quiet` there too, once
    after jobs, when for a moment there was nothing to do."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        path: str,
        after_commit: Callable[[], None],
        after_rollback: Callable[[], None],
        when_quiet: Callable[[], None],
    ) -> None:
        self._connection = connection
        self._path = path
        self._after_commit = after_commit
        self._after_rollback = after_rollback
        self._when_quiet = when_quiet
        self._worked = False  # since the last quiet moment
        self._jobs: deque[_Job[Any]] = deque()
        self.times: deque[float] = deque(maxlen=_TIMES)  # seconds of the last commits, for who measures them
        self._wanted = threading.Condition()
        self._closing = False
        # A daemon: a program that forgets to close must still be able to end. What was awaited is committed.
        self._thread = threading.Thread(target=self._work, name="dragoman journal", daemon=True)
        self._thread.start()

    async def do(self, run: Callable[[], T], *, alone: bool = False, then: Callable[[T], None] | None = None) -> T:
        """Runs it in the thread, within a transaction unless `alone`; returns when that is committed.

        It may be run twice, the first time in vain: it has to leave nothing behind but in the file.

        Who is cancelled while waiting does not stop it: it may or may not be committed then. `then` is called where it
        is, in the loop, in the order of the commits.
        """
        job = _Job(run, alone, then)
        with self._wanted:
            if self._closing:
                raise JournalClosed(f"the journal {self._path} is closed")
            self._jobs.append(job)
            self._wanted.notify()
        return await job.future

    @property
    def waiting(self) -> int:
        """Jobs that wait for the thread."""
        return len(self._jobs)

    def close(self) -> None:
        """Blocks until what was given is done."""
        with self._wanted:
            self._closing = True
            self._wanted.notify()
        self._thread.join()

    # -- in the thread

    def _work(self) -> None:
        while (jobs := self._next()) is not None:
            if not jobs:
                self._worked = False
                self._when_quiet()
                continue
            self._worked = True
            if jobs[0].alone:
                self._run_alone(jobs[0])
            else:
                began = time.perf_counter()
                self._commit(jobs)
                self.times.append(time.perf_counter() - began)
            self._tell(jobs)

    def _next(self) -> list[_Job[Any]] | None:
        """None at the end; an empty list where it has just become quiet."""
        with self._wanted:
            while not self._jobs:
                if self._closing:
                    return None
                if not self._wanted.wait(_QUIET if self._worked else None):
                    return []
            jobs: list[_Job[Any]] = []
            while self._jobs and not (jobs and (jobs[0].alone or self._jobs[0].alone)):
                jobs.append(self._jobs.popleft())
            return jobs

    def _commit(self, jobs: list[_Job[Any]]) -> None:
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            if not self._run_together(jobs):
                self._connection.execute("ROLLBACK")
                self._after_rollback()
                self._connection.execute("BEGIN IMMEDIATE")
                for job in jobs:
                    self._run_apart(job)
            self._connection.execute("COMMIT")
        except sqlite3.Error as problem:
            for job in jobs:
                job.problem = job.problem or from_sqlite(problem, self._path)
            try:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
            except sqlite3.Error:
                pass  # it could not even be taken back; the next BEGIN will say so
            self._after_rollback()
        else:
            self._after_commit()

    def _run_together(self, jobs: list[_Job[Any]]) -> bool:
        """False when one raised: nobody knows then what it left behind.

        Nearly always none does. A savepoint for each would keep a copy of every page that it changes, and at each one
        the index for search is written out.
        """
        for job in jobs:
            try:
                job.result = job.run()
            except Exception as problem:
                if isinstance(problem, sqlite3.Error) and not isinstance(problem, _THE_JOBS_OWN):
                    raise
                return False
        return True

    def _run_apart(self, job: _Job[Any]) -> None:
        self._connection.execute("SAVEPOINT job")
        try:
            job.result = job.run()
        except Exception as problem:
            if isinstance(problem, _THE_JOBS_OWN):
                job.problem = from_sqlite(problem, self._path)
            elif isinstance(problem, sqlite3.Error):
                raise
            else:
                job.problem = problem
            self._connection.execute("ROLLBACK TO job")
            self._after_rollback()
        self._connection.execute("RELEASE job")

    def _run_alone(self, job: _Job[Any]) -> None:
        try:
            job.result = job.run()
        except sqlite3.Error as problem:
            job.problem = from_sqlite(problem, self._path)
        except Exception as problem:
            job.problem = problem
        self._after_commit()

    def _tell(self, jobs: list[_Job[Any]]) -> None:
        loops: dict[asyncio.AbstractEventLoop, list[_Job[Any]]] = {}
        for job in jobs:
            loops.setdefault(job.loop, []).append(job)
        for loop, told in loops.items():
            try:
                loop.call_soon_threadsafe(_tell_all, told)
            except RuntimeError:
                pass  # the loop has ended, and with it whoever waited


def _tell_all(jobs: list[_Job[Any]]) -> None:
    for job in jobs:
        job.tell()
