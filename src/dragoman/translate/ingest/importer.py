"""`Importer`: transcripts into the journal, each record once, however often it runs and whatever ends it.

A file is translated from its beginning, and frames of its sessions that the journal has are left out. So a file that
grew, was moved, replaced or copied, or whose import was killed, adds what is new and nothing else. How far it was read
is committed with its frames: a file that has not changed since is not opened.

A watcher may have the importer remember some files that are being written: of these only the added lines are read.

An unfinished run of a transcript is ended when nobody has written to the file for a while. The frames that do so are
provisional: if the file grows after all, they are withdrawn, and the run goes on. So the sessions of a journal do not
depend on when their files were imported.
"""

from __future__ import annotations

import asyncio
import math
import os
import pickle
import subprocess
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Sequence, Set
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import IO, Final, TypeAlias

import msgspec

from dragoman.errors import InputError
from dragoman.journal.entry import TRANSCRIPT_PREFIX, Cursor
from dragoman.journal.errors import JournalError, NotTheOwner, OutOfOrder, SessionDeleted
from dragoman.journal.protocols import Journal, TranscriptPosition
from dragoman.translate.discover import Transcript, detect_provider, name_format
from dragoman.translate.ingest.dedup import (
    SESSION_DELETED,
    SESSION_OPEN,
    ImportPolicy,
    load_policy,
)
from dragoman.translate.ingest.file_import import QUIET_S, Commit, FileImport, FileState
from dragoman.translate.ingest.report import AT_REST_S, ImportedFile, ImportSummary, summarize
from dragoman.translate.ingest.worker import Answer, FileDone, ReadJob
from dragoman.translate.ingest.worker_process import is_worker_worthwhile, start_worker
from dragoman.translate.records import text_path
from dragoman.translate.translator import PROVIDERS, get_provider

# How long the policy for a remembered file is used before the journal is asked again: the agent is at work in it.
_POLICY_TRUSTED_S: Final = 30.0

# Files that are begun before the first of them is done, and bytes of frames that wait for their commit: many small
# files share one, and what waits fits in memory.
_MAX_FILES_AHEAD: Final = 64
_MAX_BYTES_AHEAD: Final = 8 * 1024 * 1024

# A smaller file is read here while the worker process starts: that takes some hundredths of a second.
_MIN_WORKER_FILE_BYTES: Final = 512 * 1024

_SUPPORTED: Final = f"supported: {', '.join(PROVIDERS)}"
NOT_A_TRANSCRIPT: Final = f"not a transcript of a known agent ({_SUPPORTED}; if it is one, name it with --provider)"

_MAX_INODE: Final = 2**63 - 1  # that a journal can store; some file systems have larger ones


# Commits of a file that are under way at once: one is prepared while another is stored.
_MAX_COMMITS_UNDER_WAY: Final = 2


class Commits:
    """Promised: commits are stored in the order of `add`, and none after one that failed."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._under_way: deque[tuple[int, asyncio.Task[None]]] = deque()  # with the bytes of its frames

    @property
    def size(self) -> int:
        """Bytes of frames that are not committed yet."""
        return sum([size for size, task in self._under_way if not task.done()])

    async def add(self, commit: Commit, on_committed: Callable[[Cursor], None] = lambda _: None) -> None:
        """Return when the journal has accepted the commit. Raises if an earlier one failed."""
        # After a failure the journal refuses the frames that follow. A position without frames it would store.
        await self._wait_until(_MAX_COMMITS_UNDER_WAY - 1 if commit.entries else 0)
        task = asyncio.create_task(self._append(commit, on_committed))
        task.add_done_callback(_retrieve_error)
        self._under_way.append((sum([len(entry.frame) for entry in commit.entries]), task))
        await asyncio.sleep(0)  # now the journal has it

    async def settled(self) -> None:
        """Return when all is committed; raises if a commit failed."""
        await self._wait_until(0)

    async def over(self) -> None:
        """Return when no commit is under way, whether they failed or not."""
        if self._under_way:
            await asyncio.wait([task for _, task in self._under_way])

    async def _wait_until(self, count: int) -> None:
        while len(self._under_way) > count:
            _, task = self._under_way[0]
            await asyncio.shield(task)
            if self._under_way and self._under_way[0][1] is task:  # others may wait for it too
                self._under_way.popleft()

    async def _append(self, commit: Commit, on_committed: Callable[[Cursor], None]) -> None:
        append = self._journal.append(commit.entries, commit.changes, transcript_position=commit.position)
        if commit.connection is not None:
            # Requested together, in this order, they are one commit.
            _, cursor = await asyncio.gather(self._journal.register_connection(commit.connection), append)
        else:
            cursor = await append
        on_committed(cursor)


def _retrieve_error(task: asyncio.Task[None]) -> None:
    """The first failure is raised by `add` or `settled`; the commits after it failed for the same reason."""
    if not task.cancelled():
        task.exception()


# Answers that wait in memory; one has up to 2 MiB of frames.
_MAX_ANSWERS_AHEAD: Final = 4


class ImportWorker:
    """The importer's side of the worker process: `add` jobs, and get their answers in the same order by `next_answer`.
    Use it as a context manager.

    Translating and committing take about as long, and in one process they would take turns. The importer checks that
    the worker's answers fit the journal; if they do not, or the worker fails, it reads the file itself.
    """

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
        """Return the next answer; None if the process is gone, after which no job is answered."""
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
        """Read answers ahead of `next_answer`, in a thread of its own: neither process is to wait for the other."""
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


class _WorkerFile:
    """A file that the worker read and that is being committed; used like a `FileImport`."""

    def __init__(self, commits: Commits, sessions: Set[str], done: FileDone) -> None:
        self.commits = commits
        self.position = done.position
        self.refusal = done.refusal
        self._sessions = sessions
        self._report = done.report

    def writes_to(self, session_id: str) -> bool:
        return session_id in self._sessions

    async def rebuild_rows(self) -> None:
        """The worker reads only sessions that the journal does not have."""

    def report(self) -> ImportedFile:
        return self._report


_ReadFile: TypeAlias = FileImport[Commits] | _WorkerFile


class GrowingFiles:
    """Imports of files that are still being written, so that only what was added has to be read.

    They take memory in proportion to the files. Those that were used last stay, up to `max_bytes` of files; the very
    last one stays however large it is, because it costs most to read again.
    """

    def __init__(self, max_bytes: int) -> None:
        """Remember files up to `max_bytes`; with 0, none."""
        self._max_bytes = max_bytes
        self._files: OrderedDict[tuple[str, str], tuple[FileImport[Commits], float]] = OrderedDict()

    def pop(self, provider: str, path: str) -> FileImport[Commits] | None:
        """Take a file out, to be put back after it was read. If reading fails, it must not be used again."""
        file, _ = self._files.pop((provider, path), (None, 0.0))
        return file

    def put(self, provider: str, path: str, file: FileImport[Commits], now: float) -> None:
        if not self._max_bytes:
            return
        self._files[provider, path] = (file, now)
        size = sum(file.position.offset for file, _ in self._files.values())
        while size > self._max_bytes and len(self._files) > 1:
            _, (oldest, _) = self._files.popitem(last=False)
            size -= oldest.position.offset

    def drop_unused_since(self, time_s: float) -> None:
        self._files = OrderedDict((key, entry) for key, entry in self._files.items() if entry[1] >= time_s)


class Importer:
    """Call `import_file` for one file after the other, or `import_all`.

    `clock` returns seconds since 1970; it decides whether a file is at rest and how old a policy is.
    `max_growing_bytes`: how many bytes of growing files may be remembered.
    """

    def __init__(self, journal: Journal, *, clock: Callable[[], float] = time.time, max_growing_bytes: int = 0) -> None:
        self._journal = journal
        self._clock = clock
        self._growing = GrowingFiles(max_growing_bytes)
        self._positions: dict[tuple[str, str], TranscriptPosition] | None = None
        self._policies: dict[str, tuple[float, ImportPolicy]] = {}  # with the time when the journal was asked
        # Files that were read after a quiet minute: their time of change then.
        self._read_when_quiet: dict[tuple[str, str], float] = {}
        # Files that were imported because a later part of the same session was: their reports, by real path.
        self._early_reports: dict[str, ImportedFile] = {}
        self._reading = asyncio.Lock()  # one file at a time: another one may belong to the same session
        self._uncommitted: list[_ReadFile] = []  # files that were read and are being committed

    async def import_all(
        self,
        transcripts: Iterable[Transcript],
        on_progress: Callable[[int], None] = lambda _: None,
        on_done: Callable[[Transcript, ImportedFile], None] = lambda _, __: None,
        process: subprocess.Popen[bytes] | None = None,
    ) -> list[ImportedFile]:
        """Import the files in their order; while one is being committed, the next ones are read.

        `on_progress` is called with the bytes that are done of the current file, `on_done` after each file. `process`:
        a worker that was started early; it is ended. Without one, a worker is started if there is enough to read.

        There may be more reports than files: earlier parts of a session are imported first, named or not.
        """
        files = list(transcripts)
        if process is None:
            read_before = {path for _, path in await self._load_positions()}
            if not is_worker_worthwhile(file.size for file in files if _key(file.path) not in read_before):
                return await self._import_ahead(files, on_progress, on_done)
        async with ImportWorker(process or start_worker()) as worker:
            return await self._import_ahead(files, on_progress, on_done, worker)

    async def _import_ahead(
        self,
        files: Sequence[Transcript],
        on_progress: Callable[[int], None],
        on_done: Callable[[Transcript, ImportedFile], None],
        worker: ImportWorker | None = None,
    ) -> list[ImportedFile]:
        reports: list[ImportedFile] = []
        ahead: deque[tuple[Transcript, asyncio.Task[ImportedFile]]] = deque()
        worker_keys: set[str] = set()

        async def finish_first() -> None:
            transcript, task = ahead.popleft()
            reports.append(await task)
            on_done(transcript, reports[-1])

        try:
            for file in files:
                reader = worker if worker is not None and await self._give(worker, file, worker_keys) else None
                ahead.append((file, asyncio.create_task(self.import_file(file, on_progress, reader))))
                while len(ahead) > (_MAX_FILES_AHEAD if worker is None or worker.is_ready else 0):
                    await finish_first()
            while ahead:
                await finish_first()
        finally:
            for _, task in ahead:
                task.cancel()
        early, self._early_reports = self._early_reports, {}
        return [*reports, *early.values()]

    async def _give(self, worker: ImportWorker, file: Transcript, worker_keys: set[str]) -> bool:
        """Give the file to the worker, if it was never read. Errors are left to `import_file`."""
        if not worker.is_ready and file.size < _MIN_WORKER_FILE_BYTES:
            return False
        try:
            provider = file.provider or detect_provider(file.path)
            key, stat = _stat(file.path)
        except (OSError, InputError):
            return False
        if provider is None or key in worker_keys or (provider, key) in await self._load_positions():
            return False
        worker_keys.add(key)
        policy = await self._policy(provider, stat.st_mtime)
        worker.add(ReadJob(os.fsencode(file.path), _first_position(provider, key), self._state(stat), policy))
        return True

    async def _commit_answers(self, worker: ImportWorker, on_progress: Callable[[int], None]) -> _WorkerFile | None:
        """Commit the answers for a file. Return None if the file has to be read here: the journal has one of its
        sessions, or something failed."""
        commits = Commits(self._journal)
        sessions: set[str] = set()
        fits = True
        while isinstance(answer := await worker.next_answer(), Commit):
            fits = fits and await self._add(commits, answer, sessions)
            if fits:
                on_progress(answer.position.offset)
        if fits and isinstance(answer, FileDone):
            file = _WorkerFile(commits, sessions, answer)
            self._uncommitted.append(file)
            return file
        await commits.over()
        self._positions = None  # some of it may be committed
        return None

    async def _add(self, commits: Commits, commit: Commit, sessions: set[str]) -> bool:
        try:
            for session_id in {entry.session_id for entry in commit.entries if entry.session_id} - sessions:
                await self._wait_for_writers(session_id)
                if (await self._journal.read(session_id, limit=1)).entries:
                    return False
                sessions.add(session_id)
            await commits.add(commit)
        except Exception:
            # Reported when the file is read here. Raised now, the next answers would be taken for another file's.
            return False
        return True

    async def import_file(
        self,
        transcript: Transcript,
        on_progress: Callable[[int], None] = lambda _: None,
        worker: ImportWorker | None = None,
    ) -> ImportedFile:
        """Commit what is new of a file. Raises for a failure of the journal, never for one of the file.

        `on_progress` is called with the bytes that are done. `worker`: the process that was given the file. Files with
        earlier parts of the same session are imported first.
        """
        empty = ImportedFile(provider=transcript.provider, path=str(text_path(transcript.path)))
        passing, failed = True, False
        try:
            async with self._reading:
                await self._wait_for_room()
                await self._import_earlier_parts(transcript)
                file: _ReadFile | None = None
                if worker is not None:
                    file = await self._commit_answers(worker, on_progress)
                if file is None:
                    path = transcript.path
                    provider = transcript.provider or await self._provider_before(path) or detect_provider(path)
                    if provider is None:
                        return msgspec.structs.replace(empty, skipped=_unsupported(path))
                    file = await self._read(provider, path, on_progress)
                    if file is None:
                        early = self._early_reports.pop(_key(path), empty)
                        return msgspec.structs.replace(early, provider=provider, path=empty.path)
            await self._finish_commits(file)
            return msgspec.structs.replace(file.report(), path=empty.path)
        except OSError as error:
            reason = f"cannot be read: {error.strerror or error}"
        except InputError as error:
            reason, passing = error.message, False
        except NotTheOwner:
            reason = SESSION_OPEN
        except SessionDeleted:
            reason, passing = SESSION_DELETED, False
        except OutOfOrder:
            reason = "another import is reading it"
        except JournalError:
            raise
        except Exception as error:  # a defect of ours in one file must not cost the others
            reason, passing, failed = f"cannot be understood: {type(error).__name__}: {error}", False, True
        self._positions = None  # the commits failed
        return msgspec.structs.replace(empty, skipped=reason, passing=passing, failed=failed)

    async def _import_earlier_parts(self, transcript: Transcript) -> None:
        """Import the files that come before a new one in the same session: frames are stored in their order."""
        positions, key = await self._load_positions(), _key(transcript.path)
        for provider in [transcript.provider] if transcript.provider else PROVIDERS:
            if (provider, key) in positions:
                continue  # looking for them takes long in a large folder
            for part in get_provider(provider).earlier_parts(transcript.path):
                with suppress(OSError, InputError):  # reported when the file itself is imported
                    file = await self._read(provider, part, lambda _: None, is_over=True)
                    if file is not None:
                        await self._finish_commits(file)
                        self._early_reports[_key(part)] = file.report()

    def forget_growing_files(self, unused_since: float) -> None:
        """Drop the remembered files that were not read since this time of the clock."""
        self._growing.drop_unused_since(unused_since)

    async def _read(
        self, provider: str, path: Path, on_progress: Callable[[int], None], *, is_over: bool = False
    ) -> FileImport[Commits] | None:
        """Read a file; return None if nothing can be new. Its records may still have to be committed.

        `is_over`: nobody will write to it any more.
        """
        key, stat = _stat(path)
        for file in [file for file in self._uncommitted if file.position.path == key]:
            await file.commits.over()
        position = (await self._load_positions()).get((provider, key))
        end = self._state(stat)
        if is_over:
            end = msgspec.structs.replace(end, age=math.inf)
        if (
            position is not None
            and (position.inode, position.size, position.modified) == (end.inode, end.size, end.modified)
            and (position.finished or not self._may_be_finished(provider, key, end))
        ):
            return None
        growing = self._growing.pop(provider, key)
        if growing is not None:
            # The session was let in a moment ago, and asking the journal takes longer the more sessions it has.
            policy = await self._policy(provider, self._clock() - _POLICY_TRUSTED_S)
            if await growing.read_on(path, end, policy, on_progress):
                self._uncommitted.append(growing)
                return growing
        policy = await self._policy(provider, stat.st_mtime)
        start = position or _first_position(provider, key)
        new = FileImport(self._journal, policy, start, end, Commits(self._journal), self._wait_for_writers)
        try:
            await new.read(path, on_progress)
        except Exception:
            await new.commits.over()
            raise
        self._uncommitted.append(new)
        return new

    def _may_be_finished(self, provider: str, key: str, end: FileState) -> bool:
        """Return True if unfinished runs of an unchanged file may be ended now.

        Either nobody has written to it for long, or, checked once, it is a copy whose times can be trusted by now.
        """
        if end.is_at_rest:
            return True
        if end.age <= QUIET_S or self._read_when_quiet.get((provider, key)) == end.modified:
            return False
        self._read_when_quiet[provider, key] = end.modified
        return True

    async def _finish_commits(self, file: _ReadFile) -> None:
        """Other files may be read meanwhile, but none of the same session."""
        try:
            await file.commits.settled()
            await file.rebuild_rows()
        finally:
            self._uncommitted.remove(file)
        if file.refusal is None:
            position = file.position
            (await self._load_positions())[position.provider, position.path] = position
            if not position.finished and isinstance(file, FileImport):
                self._growing.put(position.provider, position.path, file, self._clock())

    async def _wait_for_writers(self, session_id: str) -> None:
        for file in [file for file in self._uncommitted if file.writes_to(session_id)]:
            await file.commits.over()
            await file.rebuild_rows()

    async def _wait_for_room(self) -> None:
        """Return when there is room in memory for one more file."""
        while sum(file.commits.size for file in self._uncommitted) > _MAX_BYTES_AHEAD:
            await self._uncommitted[0].commits.over()

    def _state(self, stat: os.stat_result) -> FileState:
        age = self._clock() - stat.st_mtime
        return FileState(inode=stat.st_ino & _MAX_INODE, size=stat.st_size, modified=stat.st_mtime, age=age)

    async def _load_positions(self) -> dict[tuple[str, str], TranscriptPosition]:
        if self._positions is None:
            positions = await self._journal.transcript_positions()
            self._positions = {(position.provider, position.path): position for position in positions}
        return self._positions

    async def _provider_before(self, path: Path) -> str | None:
        """The provider of the file when it was read before."""
        positions = await self._load_positions()
        key = _key(path)
        return next((provider for provider in PROVIDERS if (provider, key) in positions), None)

    async def _policy(self, provider: str, modified: float) -> ImportPolicy:
        """The policy for a file with this time of change: a session that began after the journal was asked has written
        to its transcript since."""
        now = self._clock()
        if modified > now + AT_REST_S:  # a wrong time, for which the journal would be asked with each file
            modified = now - _POLICY_TRUSTED_S
        loaded_at, policy = self._policies.get(provider, (0.0, None))
        if policy is None or modified >= loaded_at:
            policy = await load_policy(self._journal, provider)
            self._policies[provider] = (now, policy)
        return policy


async def import_transcripts(journal: Journal, transcripts: Iterable[Transcript]) -> ImportSummary:
    """Import all of these files, as far as they are new to the journal."""
    return await summarize_import(journal, await Importer(journal).import_all(transcripts))


async def summarize_import(journal: Journal, reports: Sequence[ImportedFile]) -> ImportSummary:
    """Add up the reports of an import. Its tokens are those by which the usage of all sessions has grown."""
    providers = {report.provider for report in reports if report.messages}
    new = {session_id for report in reports for session_id in report.new}
    # Messages that this import itself added to sessions that the journal had.
    added: dict[str, set[str]] = {}
    for report in reports:
        for session_id in report.grown:
            added.setdefault(session_id, set()).update(message.message_id for message in report.messages)
    others = [
        session.id
        for session in (await journal.sessions() if providers else ())
        if session.agent in providers and session.id not in new
    ]
    counted_before = {
        message.message_id
        for session_id, summary in (await journal.summaries(others) if others else {}).items()
        for usage in summary.usage
        for message in usage.messages
        if message.message_id not in added.get(session_id, ())
    }
    return summarize(reports, counted_before)


def _unsupported(path: Path) -> str:
    """The reason to leave out a file that no provider wrote."""
    agent = name_format(path)
    return NOT_A_TRANSCRIPT if agent is None else f"a transcript of {agent}, which cannot be read yet ({_SUPPORTED})"


def _first_position(provider: str, key: str) -> TranscriptPosition:
    """The position in a file that was never read."""
    connection_id = f"{TRANSCRIPT_PREFIX}{sha256(f'{provider}:{key}'.encode()).hexdigest()[:16]}"
    return TranscriptPosition(
        connection_id=connection_id, provider=provider, path=key, session_id="", frames=0, offset=0
    )


def _stat(path: Path) -> tuple[str, os.stat_result]:
    return _key(path), path.stat()


def _key(path: Path) -> str:
    """The real path of the file, as text."""
    return str(text_path(os.path.realpath(path)))
