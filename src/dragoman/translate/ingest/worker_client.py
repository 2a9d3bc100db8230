"""`ImportWorker`: the importer's side of the worker process (`worker`).

Translating and committing take about as long, and in one process they would take turns. The importer checks that the
worker's answers fit the journal; if they do not, or the worker fails, it reads the file itself.

Both processes have much to load. `start_worker` needs none of it, so that a command can start the worker first and both
load at once.

A pool of `concurrent.futures` takes longer to start, answers only when it is asked, runs the program's main module
again, and outlives an owner that is killed (docs/adr/0016-import-in-bounded-memory.md).
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import IO, TYPE_CHECKING, Final

if TYPE_CHECKING:
    from dragoman.translate.ingest.worker import Answer, ReadJob

# Bytes of transcripts from which on a second process is worth its start.
MIN_BYTES_FOR_WORKER: Final = 8 * 1024 * 1024

# Bytes on their way from the worker. With the usual 64 KiB both processes would wait for each other.
_PIPE_BYTES: Final = 1024 * 1024

# Answers that wait in memory; one has up to 2 MiB of frames.
_MAX_ANSWERS_AHEAD: Final = 4


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


def start_worker() -> subprocess.Popen[bytes]:
    """Start the process. It ends when its stdin is closed, and so with this process."""
    process = subprocess.Popen(
        # -P: a module in the current folder, where anyone may have put one, must not be loaded instead of ours.
        [sys.executable, "-P", "-c", "from dragoman.translate.ingest.worker import main; main()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,  # a failure happens again in this process, and is reported then
        bufsize=_PIPE_BYTES,
        start_new_session=True,  # Ctrl-C is for this process
    )
    assert process.stdout is not None
    if sys.platform == "linux":
        with suppress(OSError):  # a user may have only so many pages of pipes
            fcntl.fcntl(process.stdout, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    return process


class ImportWorker:
    """`add` jobs; `next_answer` gives what comes of them in the same order. Use it as a context manager."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.is_ready = False  # until the process has started, nothing that it was given is read
        self._process = process
        self._loop = asyncio.get_running_loop()
        self._answers: asyncio.Queue[Answer | None] = asyncio.Queue()
        self._room = threading.Semaphore(_MAX_ANSWERS_AHEAD)
        self._is_gone = False
        self._is_closing = False
        self._jobs: asyncio.Queue[ReadJob] = asyncio.Queue()
        self._sending = asyncio.create_task(self._send_jobs())
        self._reader = threading.Thread(target=self._read_answers, name="dragoman import: worker", daemon=True)
        self._reader.start()

    async def __aenter__(self) -> ImportWorker:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._process.kill()  # it only reads files: nothing is lost with it
        self._sending.cancel()
        await asyncio.wait([self._sending])
        # The pipe may hold more answers than there is room for: the reader has to stop before it has read them all.
        self._is_closing = True
        self._room.release()
        await asyncio.to_thread(self._reader.join)
        with suppress(OSError), self._process:  # closes the pipes and reaps the process
            pass

    def add(self, job: ReadJob) -> None:
        self._jobs.put_nowait(job)

    async def next_answer(self) -> Answer | None:
        """None if the process is gone; then no job is answered any more."""
        if self._is_gone and self._answers.empty():
            return None
        answer = await self._answers.get()
        self._room.release()
        self._is_gone = self._is_gone or answer is None
        return answer

    async def _send_jobs(self) -> None:
        assert self._process.stdin is not None
        while True:
            job = await self._jobs.get()
            with suppress(OSError):  # the process is gone, which the reader notices
                await asyncio.to_thread(_send, self._process.stdin, job)

    def _read_answers(self) -> None:
        """In a thread of its own, ahead of `next_answer`: neither process is to wait for the other."""
        assert self._process.stdout is not None
        # Whatever happens is the end: of the process, or because something else writes to the pipe as well.
        with suppress(Exception):
            self.is_ready = pickle.load(self._process.stdout) is None  # noqa: S301 (from a process that we started)
            while self.is_ready:
                self._room.acquire()
                if self._is_closing:
                    break
                self._put(pickle.load(self._process.stdout))  # noqa: S301
        self._put(None)

    def _put(self, answer: Answer | None) -> None:
        with suppress(RuntimeError):  # the event loop has ended
            self._loop.call_soon_threadsafe(self._answers.put_nowait, answer)


def _send(pipe: IO[bytes], job: ReadJob) -> None:
    pickle.dump(job, pipe, pickle.HIGHEST_PROTOCOL)
    pipe.flush()
