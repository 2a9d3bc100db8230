"""`ImportWorker`: a second process that reads and translates transcripts while this one commits what came of them.

Translating and committing take about as long, and in one process they would take turns. The worker does not know the
journal: it is for files that were never read and whose sessions the journal does not have. The importer checks that,
and where an answer does not fit, or the worker fails, it reads the file itself.

Promised: answers come in the order of the jobs. The worker ends with this process, however that ends. It runs neither
the program's main module nor a module of the current folder.
"""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from multiprocessing.connection import wait
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any, Final, TypeAlias, cast

import msgspec

from dragoman.journal.entry import Cursor, Page
from dragoman.journal.protocols import PAGE_ENTRIES, Journal, Owner, Position
from dragoman.translate.ingest.commits import Commit
from dragoman.translate.ingest.dedup import ImportPolicy
from dragoman.translate.ingest.file_import import FileImport, FileState
from dragoman.translate.ingest.report import ImportedFile
from dragoman.translate.transcript_file import has_long_line

# Bytes of transcripts from which on a second process is worth its start.
MIN_BYTES_FOR_WORKER: Final = 8 * 1024 * 1024

# Frames, and pauses of the import of a file (one in 64 KiB of it), after which the worker returns what it has.
_BATCH_BYTES: Final = 1024 * 1024
_BATCH_PAUSES: Final = 64

# Batches that the worker is asked for at once: it works on one while another is on its way.
_MAX_BATCHES: Final = 2

# Objects that the worker makes before Python looks for cycles among them. With the usual thousand that takes a
# twentieth of the time, and there are none: whatever a line makes is freed with the next one.
_GC_THRESHOLD: Final = 50_000


class ReadJob(msgspec.Struct, frozen=True):
    path: bytes
    position: Position
    end: FileState
    policy: ImportPolicy


class FileDone(msgspec.Struct, frozen=True):
    report: ImportedFile
    position: Position
    refusal: str | None


class FileFailed(msgspec.Struct, frozen=True):
    """Nothing more comes of this file."""


Answer: TypeAlias = Commit | FileDone | FileFailed


def is_worker_worthwhile(sizes: Iterable[int]) -> bool:
    total = 0
    return (os.cpu_count() or 1) > 1 and any((total := total + size) >= MIN_BYTES_FOR_WORKER for size in sizes)


def sizes_below(paths: Iterable[str]) -> Iterator[int]:
    """The sizes of these files, and of all files in these folders. Errors are left to the import."""
    for path in paths:
        inside = (os.path.join(folder, name) for folder, _, names in os.walk(path) for name in names)
        for file in inside if os.path.isdir(path) else [path]:
            with suppress(OSError):
                yield os.stat(file).st_size


class ImportWorker:
    """`add` jobs; `next_answer` gives what comes of them: of each file its commits, then `FileDone` or `FileFailed`.

    The process starts with the object. It may be made before there is an event loop; `next_answer` needs one.
    """

    def __init__(self) -> None:
        self._answers: deque[Answer] = deque()
        self._batches: deque[Future[list[Answer]]] = deque()  # that the worker was asked for
        self._new_jobs: list[ReadJob] = []  # that the worker does not have yet
        self._unfinished_jobs = 0
        with _isolated_start():
            self._pool = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), initializer=_initialize)
            self._start: Future[list[Answer]] = self._pool.submit(_next_batch, ())

    @property
    def is_ready(self) -> bool:
        """Whether the process has started; until then nothing is read."""
        return self._start.done() and self._start.exception() is None

    async def __aenter__(self) -> ImportWorker:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.close)

    def close(self) -> None:
        """End the process; returns when it has ended. Closing twice is fine."""
        self._pool.shutdown(cancel_futures=True)

    def add(self, job: ReadJob) -> None:
        self._new_jobs.append(job)
        self._unfinished_jobs += 1
        self._ask()

    async def next_answer(self) -> Answer:
        """Only for a job whose last answer has not come yet."""
        while not self._answers:
            batch = await self._next_batch()
            self._unfinished_jobs -= sum(not isinstance(answer, Commit) for answer in batch)
            self._answers.extend(batch)
            self._ask()
        return self._answers.popleft()

    async def _next_batch(self) -> list[Answer]:
        if self._batches:
            try:
                return await asyncio.wrap_future(self._batches.popleft())
            except BrokenProcessPool:
                pass
        return [FileFailed()]  # the process is gone, and with it all that it was given

    def _ask(self) -> None:
        while self._unfinished_jobs and len(self._batches) < _MAX_BATCHES:
            jobs, self._new_jobs = self._new_jobs, []
            try:
                self._batches.append(self._pool.submit(_next_batch, jobs))
            except BrokenProcessPool:
                return  # `next_answer` says so


@contextmanager
def _isolated_start() -> Iterator[None]:
    """Start a process of `multiprocessing` that takes nothing over but the environment.

    It would import the main module a second time, which runs a script without a `__main__` guard again; look for
    modules in the current folder, where anyone may have put one; and print a traceback on Ctrl-C.
    """
    main, safe_path = sys.modules["__main__"], os.environ.get("PYTHONSAFEPATH")
    sys.modules["__main__"] = ModuleType("__main__")
    os.environ["PYTHONSAFEPATH"] = "1"
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        sys.modules["__main__"] = main
        if safe_path is None:
            del os.environ["PYTHONSAFEPATH"]
        else:
            os.environ["PYTHONSAFEPATH"] = safe_path


# -- in the worker process


def _initialize() -> None:
    gc.freeze()
    gc.set_threshold(_GC_THRESHOLD)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """A pool does not notice that its owner was killed."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)


_jobs: deque[ReadJob] = deque()
_current: Iterator[Answer | None] = iter(())


def _next_batch(jobs: Sequence[ReadJob]) -> list[Answer]:
    """Queue the jobs, and return the next answers; none when there is nothing to do."""
    global _current
    _jobs.extend(jobs)
    answers: list[Answer] = []
    size = pauses = 0
    while size < _BATCH_BYTES and pauses < _BATCH_PAUSES:
        for answer in _current:
            if answer is not None:
                answers.append(answer)
                size += sum([len(entry.frame) for entry in answer.entries]) if isinstance(answer, Commit) else 1000
            else:
                pauses += 1
            break
        else:
            if not _jobs:
                break
            _current = _read(_jobs.popleft())
    return answers


def _read(job: ReadJob) -> Iterator[Answer | None]:
    """The answers to a job, and None at each pause."""
    commits = _CollectedCommits()
    file_import = FileImport(cast(Journal, _EmptyJournal()), job.policy, job.position, job.end, commits)
    path = Path(os.fsdecode(job.path))
    try:
        if has_long_line(path, job.end.size):
            # On its way to the other process it would be copied several times, in both of them.
            yield FileFailed()
            return
        for _ in _pauses(file_import.read(path, lambda _: None)):
            yield from commits.take()
            yield None
        yield from commits.take()
    except Exception:  # whatever it is, the file is read once more where the failure can be reported
        yield FileFailed()
    else:
        yield FileDone(file_import.report(), file_import.position, file_import.refusal)


def _pauses(reading: Coroutine[Any, Any, None]) -> Iterator[None]:
    """Run a coroutine that waits for nothing here, without an event loop, which would take long to load."""
    try:
        while True:
            reading.send(None)
            yield
    except StopIteration:
        pass
    finally:
        reading.close()


class _CollectedCommits:
    def __init__(self) -> None:
        self._commits: list[Commit] = []

    async def add(self, commit: Commit, on_committed: Callable[[Cursor], None]) -> None:
        self._commits.append(commit)

    def take(self) -> list[Commit]:
        commits, self._commits = self._commits, []
        return commits


class _EmptyJournal:
    """What a file import asks of a journal that has nothing of its sessions."""

    async def owner(self, session_id: str) -> Owner | None:
        return None

    async def read(
        self, session_id: str | None = None, *, after: Cursor | None = None, limit: int = PAGE_ENTRIES
    ) -> Page:
        return Page((), "", "", ())
