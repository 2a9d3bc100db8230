"""`Apart`: transcripts that are read in a process of its own, while this one commits what came of them.

To translate and to commit take about as long, and in one process they would take turns. The other process knows nothing
of the journal: it is for files that were never read, with sessions that nobody has heard of. Its answers are tried, and
where they do not fit, or it fails, the file is simply read here.
"""

from __future__ import annotations

import asyncio
import pickle
import struct
import sys
from collections.abc import Set
from types import TracebackType
from typing import Final, TypeAlias

import msgspec

from dragoman.journal.store import Position
from dragoman.translate.admission import Admission
from dragoman.translate.commits import Commit, Commits
from dragoman.translate.imported import ImportedFile
from dragoman.translate.intake import Seen

# Before each message stands its length; before the first one that comes, one that says that the process is up.
LENGTH: Final = struct.Struct("<Q")
UP: Final = LENGTH.pack(0)

# Answers that are held until they are asked for, beside the one that is being read: each may be some megabytes.
_AHEAD: Final = 1

# Bytes that are held of the next one.
_BUFFER: Final = 1024 * 1024

# Seconds that the other process has to end once nobody asks any more; it may be in the middle of a file.
_GRACE: Final = 1.0


class Asked(msgspec.Struct, frozen=True):
    path: bytes
    position: Position
    end: Seen
    admission: Admission | None  # None: as the last time


class Done(msgspec.Struct, frozen=True):
    report: ImportedFile
    position: Position
    refusal: str | None


class Failed(msgspec.Struct, frozen=True):
    """Nothing more comes of this file."""


Answer: TypeAlias = Commit | Done | Failed


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

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.is_up = False  # until then nothing that is asked is being read
        self._process = process
        self._admission: Admission | None = None
        self._answers: asyncio.Queue[Answer] = asyncio.Queue(_AHEAD)
        self._lost = False  # it is no more: whatever was asked will not be answered
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def begun(cls) -> Apart:
        return cls(
            await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "dragoman.translate.apart_process",
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,  # what goes wrong there goes wrong here once more, and is told
                start_new_session=True,  # Ctrl-C is for whoever began it
                limit=_BUFFER,
            )
        )

    async def __aenter__(self) -> Apart:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._reading.cancel()
        await asyncio.wait([self._reading])
        assert self._process.stdin is not None
        self._process.stdin.close()  # nobody asks any more
        if kind is not None and self._process.returncode is None:
            self._process.kill()
        try:
            async with asyncio.timeout(_GRACE):
                await self._process.communicate()
        except TimeoutError:
            self._process.kill()
            await self._process.communicate()

    def ask(self, path: bytes, position: Position, end: Seen, admission: Admission) -> None:
        told = None if admission is self._admission else admission
        self._admission = admission
        data = msgspec.msgpack.encode(Asked(path, position, end, told))
        assert self._process.stdin is not None
        self._process.stdin.write(LENGTH.pack(len(data)) + data)

    async def answer(self) -> Answer:
        return Failed() if self._lost and self._answers.empty() else await self._answers.get()

    async def _read(self) -> None:
        """Ahead of who asks: neither of the two processes is to wait for the other."""
        stdout = self._process.stdout
        assert stdout is not None
        while True:
            try:
                if not self.is_up:
                    self.is_up = await stdout.readexactly(len(UP)) == UP
                (length,) = LENGTH.unpack(await stdout.readexactly(LENGTH.size))
                data = await stdout.readexactly(length)
            except (asyncio.IncompleteReadError, ConnectionError):
                self._lost = True
                await self._answers.put(Failed())  # of the file that is at hand
                return
            await self._answers.put(pickle.loads(data))  # noqa: S301 (from our own process)
