"""The worker process: reads and translates transcripts while the importer commits what came of them.

`worker_process` starts it; `importer` has the other side. Jobs come on stdin and answers go to stdout, each as one
pickle. The process ends at the end of stdin, and so with the importer, however that ends. It does not know the journal:
it is for files that were never read and whose sessions the journal does not have.
"""

from __future__ import annotations

import gc
import os
import pickle
import sys
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final, TypeAlias, cast

import msgspec

from dragoman.journal.entry import Cursor, Page
from dragoman.journal.protocols import PAGE_ENTRIES, Journal, Owner, TranscriptPosition
from dragoman.translate.ingest.dedup import ImportPolicy
from dragoman.translate.ingest.file_import import Commit, FileImport, FileState, yield_to_others
from dragoman.translate.ingest.report import ImportedFile
from dragoman.translate.transcript_file import has_long_line

# Objects that are made before Python looks for cycles among them. With the usual thousand that takes a twentieth of the
# time, and there are none: whatever a line makes is freed with the next one.
_GC_THRESHOLD: Final = 50_000


class ReadJob(msgspec.Struct, frozen=True):
    path: bytes
    position: TranscriptPosition
    end: FileState
    policy: ImportPolicy


class FileDone(msgspec.Struct, frozen=True):
    report: ImportedFile
    position: TranscriptPosition
    refusal: str | None


class FileFailed(msgspec.Struct, frozen=True):
    """The worker could not read the file: the importer has to."""


Answer: TypeAlias = Commit | FileDone | FileFailed


def answer(job: ReadJob) -> Iterator[Answer]:
    """Yield the commits of a file, then `FileDone` or `FileFailed`."""
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
        yield from commits.take()
    except Exception:  # whatever it is, the file is read once more where the failure can be reported
        yield FileFailed()
    else:
        yield FileDone(file_import.report(), file_import.position, file_import.refusal)


def _pauses(reading: Coroutine[Any, Any, None]) -> Iterator[None]:
    """Run a coroutine that waits for nothing here, step by step and without an event loop."""
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
        await yield_to_others()  # so that it is on its way before the next one is made

    def take(self) -> list[Commit]:
        commits, self._commits = self._commits, []
        return commits


class _EmptyJournal:
    """The part of a journal that a file import needs, without any session."""

    async def owner(self, session_id: str) -> Owner | None:
        return None

    async def read(
        self, session_id: str | None = None, *, after: Cursor | None = None, limit: int = PAGE_ENTRIES
    ) -> Page:
        return Page((), "", "", ())


def serve(jobs: BinaryIO, answers: BinaryIO) -> None:
    """Answer jobs until there are no more. The first answer is None, and says that the process has started."""
    pickle.dump(None, answers)
    answers.flush()
    while True:
        try:
            job: ReadJob = pickle.load(jobs)  # noqa: S301 (from the importer that started this process)
        except EOFError:
            return
        for one in answer(job):
            pickle.dump(one, answers, pickle.HIGHEST_PROTOCOL)
            answers.flush()


def main() -> None:
    gc.freeze()
    gc.set_threshold(_GC_THRESHOLD)
    try:
        serve(sys.stdin.buffer, sys.stdout.buffer)
    except BrokenPipeError:
        pass  # the importer has ended
    os._exit(0)  # all answers are out; freeing every object would only take time
