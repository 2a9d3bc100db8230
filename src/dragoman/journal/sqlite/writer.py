"""The one writer of a process: a thread that commits one batch of jobs while the next batch gathers.

There is no timer: with little to do each job is a commit of its own, in a burst hundreds share one. A large job shares
none with jobs before it, which would otherwise wait for it, too: a session beside one that floods waits for one commit
of the flood, and not for two. Jobs run in the order in which they were given. A job that raises writes nothing and
harms no other: its whole batch is rolled back and run again, each job by itself. When the file itself fails, every job
of the batch fails and nothing of it is written.

`ChangeNotifier` wakes the readers of a journal after each commit, of this process or of another one. A notification
carries nothing: readers read the journal by themselves, so that a slow reader holds no memory.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, Generic, TypeVar

from dragoman.journal.errors import JournalClosed, JournalError, from_sqlite
from dragoman.journal.scheduler import scheduler_of_loop
from dragoman.wire.connection import copy_error

T = TypeVar("T")

logger = logging.getLogger(__name__)

# Errors of SQLite about the data of one job, which cannot be stored. All others are about the file.
_JOB_ERRORS: Final = (
    sqlite3.ProgrammingError,
    sqlite3.InterfaceError,
    sqlite3.DataError,
    sqlite3.IntegrityError,
    sqlite3.NotSupportedError,
)

# How long the thread waits for a job before it does maintenance. Between the batches of a burst there are a few
# milliseconds.
_QUIET_S: Final = 0.1

# Bytes of a large job: some ten milliseconds, much more than a commit of its own costs.
_LARGE_BYTES: Final = 128 * 1024

# Commits whose durations are stored until someone reads them: some seconds of a burst.
_MAX_COMMIT_TIMES: Final = 10_000


class _Job(Generic[T]):
    def __init__(
        self,
        run: Callable[[], T],
        is_alone: bool,
        on_committed: Callable[[T], None] | None,
        *,
        is_read: bool = False,
        size_bytes: int = 0,
    ) -> None:
        self.run = run
        self.size_bytes = size_bytes
        self.is_read = is_read
        self.is_alone = is_alone  # without a transaction around it
        self.on_committed = on_committed
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[T] = self.loop.create_future()
        self.result: T | None = None
        self.error: Exception | None = None

    def finish(self) -> None:
        """Report the outcome, in the job's own loop."""
        if self.error is None and self.on_committed is not None:
            try:
                self.on_committed(self.result)  # type: ignore[arg-type]  # T may be None itself
            except Exception:
                # The commit stands, and the caller must still learn of it.
                logger.exception("a commit could not be reported")
        if self.future.done():
            return  # the caller was cancelled; the commit stands
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.result)  # type: ignore[arg-type]  # T may be None itself


class Writer:
    """Owns the connection of the thread.

    The thread calls `before_commit` at the beginning of each transaction, and writes nothing where it raises a
    `JournalError`. It calls `after_commit` and `after_rollback` before any caller learns of the outcome, and
    `when_quiet` once after jobs, when there was nothing to do for a moment.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        path: str,
        *,
        before_commit: Callable[[], None] = lambda: None,
        after_commit: Callable[[], None],
        after_rollback: Callable[[], None],
        when_quiet: Callable[[], None],
    ) -> None:
        self._connection = connection
        self._path = path
        self._before_commit = before_commit
        self._after_commit = after_commit
        self._after_rollback = after_rollback
        self._when_quiet = when_quiet
        self._has_worked = False  # since the last quiet moment
        self._jobs: deque[_Job[Any]] = deque()
        self._commit_times: deque[float] = deque(maxlen=_MAX_COMMIT_TIMES)  # seconds
        self._job_added = threading.Condition()
        self._is_closing = False
        # A daemon: a program that forgets to close must still be able to end. What it awaited is committed.
        self._thread = threading.Thread(target=self._work, name="dragoman journal", daemon=True)
        self._thread.start()

    async def write(
        self, run: Callable[[], T], *, size_bytes: int = 0, on_committed: Callable[[T], None] | None = None
    ) -> T:
        """Call `run` in the thread, within a transaction, and return its result when that is committed.

        `size_bytes` is about how much it writes. `run` may be called twice, the first time in vain: it must have no
        effect except on the file. If the caller is cancelled while it waits, the job may or may not be committed;
        `on_committed` is called in the caller's loop if it is, in the order of the commits.
        """
        with scheduler_of_loop().committing(size_bytes):
            return await self._add(_Job(run, False, on_committed, size_bytes=size_bytes))

    async def run_alone(self, run: Callable[[], T]) -> T:
        """Call `run` in the thread, outside of any transaction."""
        return await self._add(_Job(run, True, None))

    async def read(self, run: Callable[[], T]) -> T:
        """Call `run`, which writes nothing, in the thread, after all jobs that were given before."""
        return await self._add(_Job(run, True, None, is_read=True))

    async def _add(self, job: _Job[T]) -> T:
        with self._job_added:
            if self._is_closing:
                raise JournalClosed(f"the journal {self._path} is closed")
            self._jobs.append(job)
            self._job_added.notify()
        return await job.future

    @property
    def pending_jobs(self) -> int:
        return len(self._jobs)

    def commit_times(self) -> list[float]:
        """Return the seconds that each commit took since the last call."""
        times = self._commit_times
        return [times.popleft() for _ in range(len(times))]

    def close(self) -> None:
        """Block until all jobs are done."""
        with self._job_added:
            self._is_closing = True
            self._job_added.notify()
        self._thread.join()

    # -- in the thread

    def _work(self) -> None:
        while (jobs := self._next_batch()) is not None:
            if not jobs:
                self._has_worked = False
                self._when_quiet()
                continue
            self._has_worked = True
            if jobs[0].is_alone:
                self._run_alone(jobs[0])
            else:
                began = time.perf_counter()
                self._commit(jobs)
                self._commit_times.append(time.perf_counter() - began)
            self._report(jobs)

    def _next_batch(self) -> list[_Job[Any]] | None:
        """Wait for jobs; None at the end, an empty list when it has just become quiet."""
        with self._job_added:
            while not self._jobs:
                if self._is_closing:
                    return None
                if not self._job_added.wait(_QUIET_S if self._has_worked else None):
                    return []
            jobs: list[_Job[Any]] = []
            while self._jobs and not (jobs and (jobs[0].is_alone or _needs_own_commit(self._jobs[0]))):
                jobs.append(self._jobs.popleft())
            return jobs

    def _commit(self, jobs: list[_Job[Any]]) -> None:
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            self._before_commit()
            if not self._run_together(jobs):
                self._connection.execute("ROLLBACK")
                self._after_rollback()
                self._connection.execute("BEGIN IMMEDIATE")
                for job in jobs:
                    self._run_in_savepoint(job)
            self._connection.execute("COMMIT")
        except (sqlite3.Error, JournalError) as error:
            for job in jobs:
                job.error = job.error or _journal_error(error, self._path)
            try:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
            except sqlite3.Error:
                pass  # the next BEGIN will fail, and report it
            self._after_rollback()
        else:
            self._after_commit()

    def _run_together(self, jobs: list[_Job[Any]]) -> bool:
        """Run all jobs; False when one raised, because nobody knows then what it has written.

        Nearly always none does. A savepoint for each job would copy every page that it changes, and would write out
        the search index each time.
        """
        for job in jobs:
            try:
                job.result = job.run()
            except Exception as error:
                if isinstance(error, sqlite3.Error) and not isinstance(error, _JOB_ERRORS):
                    raise
                return False
        return True

    def _run_in_savepoint(self, job: _Job[Any]) -> None:
        self._connection.execute("SAVEPOINT job")
        try:
            job.result = job.run()
        except Exception as error:
            if isinstance(error, _JOB_ERRORS):
                job.error = from_sqlite(error, self._path)
            elif isinstance(error, sqlite3.Error):
                raise
            else:
                job.error = error
            self._connection.execute("ROLLBACK TO job")
            self._after_rollback()
        self._connection.execute("RELEASE job")

    def _run_alone(self, job: _Job[Any]) -> None:
        try:
            job.result = job.run()
        except sqlite3.Error as error:
            job.error = from_sqlite(error, self._path)
        except Exception as error:
            job.error = error
        if not job.is_read:
            self._after_commit()

    def _report(self, jobs: list[_Job[Any]]) -> None:
        loops: dict[asyncio.AbstractEventLoop, list[_Job[Any]]] = {}
        for job in jobs:
            loops.setdefault(job.loop, []).append(job)
        for loop, finished in loops.items():
            try:
                loop.call_soon_threadsafe(_finish_all, finished)
            except RuntimeError:
                pass  # the loop has ended, and its callers with it


def _needs_own_commit(job: _Job[Any]) -> bool:
    """Return whether the job shares no commit with those before it."""
    return job.is_alone or job.size_bytes > _LARGE_BYTES


def _journal_error(error: sqlite3.Error | JournalError, path: str) -> JournalError:
    """An error for one job. Each gets its own: its traceback grows wherever it is raised."""
    return from_sqlite(error, path) if isinstance(error, sqlite3.Error) else copy_error(error)


def _finish_all(jobs: list[_Job[Any]]) -> None:
    for job in jobs:
        job.finish()


# Seconds between two looks for commits of other processes; the pause grows while nothing happens. Nobody notices the
# shortest, and the longest still costs next to nothing.
MIN_POLL_S: Final = 0.01
MAX_POLL_S: Final = 0.25


class ChangeNotifier:
    """Serves any number of event loops and threads.

    `read_version` returns a number that changes with each commit of any process. A thread of its own calls it, and
    only while there is a subscriber. `wait` pauses that thread for so many seconds and returns True once the notifier
    is closed; tests replace it to be independent of time.
    """

    def __init__(
        self, read_version: Callable[[], int] | None = None, wait: Callable[[float], bool] | None = None
    ) -> None:
        self._read_version = read_version
        self._lock = threading.Lock()
        self._subscribers: dict[asyncio.Event, asyncio.AbstractEventLoop] = {}
        self._closed = threading.Event()
        self._has_subscribers = threading.Event()
        self._wait = wait or self._closed.wait
        self._thread: threading.Thread | None = None

    @property
    def is_closed(self) -> bool:
        return self._closed.is_set()

    @contextmanager
    def subscribe(self) -> Iterator[asyncio.Event]:
        """Yield an event that is set when there may be more to read. Clear it before reading, to miss nothing."""
        event = asyncio.Event()
        with self._lock:
            self._subscribers[event] = asyncio.get_running_loop()
            if self._read_version is not None and self._thread is None and not self.is_closed:
                self._thread = threading.Thread(target=self._poll, name="dragoman journal notifier", daemon=True)
                self._thread.start()
            self._has_subscribers.set()
        try:
            yield event
        finally:
            with self._lock:
                del self._subscribers[event]
                if not self._subscribers:
                    self._has_subscribers.clear()

    def notify(self) -> None:
        """Wake all subscribers. May be called from any thread."""
        with self._lock:
            subscribers = list(self._subscribers.items())
        for event, loop in subscribers:
            try:
                loop.call_soon_threadsafe(event.set)
            except RuntimeError:
                pass  # the subscriber's loop has ended

    def close(self) -> None:
        """Wake all subscribers, who then find the notifier closed, and end the thread."""
        self._closed.set()
        self._has_subscribers.set()
        self.notify()
        if self._thread is not None:
            self._thread.join()

    def _poll(self) -> None:
        assert self._read_version is not None
        pause = MIN_POLL_S
        last_version = self._read_version()
        self.notify()  # a commit may have come between a subscriber's last read and this first look
        while not self._wait(pause):
            self._has_subscribers.wait()
            version = self._read_version()
            if version != last_version:
                last_version = version
                pause = MIN_POLL_S
                self.notify()
            else:
                pause = min(pause * 1.5, MAX_POLL_S)
