"""`Apart`: transcripts that are read in a process of its own, while this one commits what came of them.

To translate and to commit take about as long, and in one process they would take turns. The other process knows nothing
of the journal: it is for files that were never read, with sessions that nobody has heard of. Its answers are tried, and
where they do not fit, or it fails, the file is simply read here.
"""

from __future__ import annotations

import asyncio
import os
import pickle
from collections.abc import Set
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from subprocess import Popen
from types import TracebackType
from typing import Final

import msgspec

from dragoman.journal.protocols import Position
from dragoman.translate.ingest.apart_messages import LENGTH, UP, Answer, Asked, Done, Failed
from dragoman.translate.ingest.commits import Commits
from dragoman.translate.ingest.file_import import Seen
from dragoman.translate.ingest.import_policy import Admission
from dragoman.translate.ingest.report import ImportedFile

# Bytes of answers that are held until they are asked for, beside the one that is being read: one of a large file, or
# many of small ones.
_AHEAD: Final = 4 * 1024 * 1024


class Arrived:
    """A file of which all was answered, and is being committed: what an `Intake` is that was read here."""

    def __init__(self, commits: Commits, sessions: Set[str], done: Done) -> None:
        self.commits = commits
        self.position = done.position
        self.refusal = done.refusal
        self._sessions = sessions
        self._report = done.report

    def writes_to(self, session_id: str) -> bool:
        return session_id in self._sessions

    def report(self) -> ImportedFile:
        return self._report


class Apart:
    """`ask` for files; `answer` gives what comes of them, in the same order: commits, then `Done` or `Failed`."""

    def __init__(self, process: Popen[bytes]) -> None:
        self.is_up = False  # until then nothing that is asked is being read
        self._process = process
        self._admission: Admission | None = None
        self._answers: asyncio.Queue[tuple[Answer, int]] = asyncio.Queue()  # with their bytes
        self._ahead = 0  # bytes of these
        self._asked_for = asyncio.Event()
        self._lost = False  # it is no more: whatever was asked will not be answered
        self._writer = ThreadPoolExecutor(1, "dragoman import: asks")
        self._reader = ThreadPoolExecutor(1, "dragoman import: hears")
        self._reading = asyncio.create_task(self._read())

    async def __aenter__(self) -> Apart:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._reading.cancel()
        self._process.kill()  # it only reads: nothing is lost with it
        with self._process:  # its pipes are closed when nobody is at them any more
            self._reader.shutdown()
            self._writer.shutdown()
        await asyncio.wait([self._reading])

    def ask(self, path: bytes, position: Position, end: Seen, admission: Admission) -> None:
        told = None if admission is self._admission else admission
        self._admission = admission
        data = msgspec.msgpack.encode(Asked(path, position, end, told))
        self._writer.submit(self._send, LENGTH.pack(len(data)) + data)

    async def answer(self) -> Answer:
        if self._lost and self._answers.empty():
            return Failed()
        answer, size = await self._answers.get()
        self._ahead -= size
        self._asked_for.set()
        return answer

    async def _read(self) -> None:
        """Ahead of who asks: neither of the two processes is to wait for the other."""
        hear = partial(asyncio.get_running_loop().run_in_executor, self._reader)
        self.is_up = bytes(await hear(self._received, len(UP)) or b"") == UP
        while not self._lost:
            answer, size = await hear(self._next)
            self._lost = answer is None
            self._ahead += size
            self._answers.put_nowait((answer or Failed(), size))  # of the file that is at hand
            while self._ahead > _AHEAD:
                self._asked_for.clear()
                await self._asked_for.wait()

    # -- in threads of their own

    def _send(self, data: bytes) -> None:
        assert self._process.stdin is not None
        left = memoryview(data)
        try:
            while left:
                left = left[self._process.stdin.write(left) :]
        except OSError:
            pass  # it is no more, as the reader finds

    def _next(self) -> tuple[Answer | None, int]:
        """With its bytes; None when there is no more to come, or what comes is no answer."""
        head = self._received(LENGTH.size)
        if not self.is_up or head is None:
            return None, 0
        try:
            data = self._received(LENGTH.unpack(head)[0])
            return (None, 0) if data is None else (pickle.loads(data), len(data))  # noqa: S301 (from our own process)
        except Exception:  # someone else writes to the pipe as well: whatever it is, the files are read here
            return None, 0

    def _received(self, length: int) -> bytearray | None:
        assert self._process.stdout is not None
        data = bytearray(length)
        left = memoryview(data)
        while left:
            count = os.readv(self._process.stdout.fileno(), [left])
            if not count:
                return None
            left = left[count:]
        return data
