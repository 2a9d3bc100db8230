"""`Importer`: transcripts into the journal, each record once, whatever ends it and however often it is run.

A file is translated from its beginning, and what the journal has of its sessions is left out, frame by frame. So a file
that grew, was moved, replaced or copied, or whose import was killed, brings what is new and nothing else. How far it
was read is committed with what came of it: a file that has not changed since is not opened.

Who follows files while they are written may have some kept at hand: of these only what was added is read.

What a transcript leaves open is ended when nobody has written to it for a while. Should it go on after all, its next
runs come in as any others.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256
from pathlib import Path
from subprocess import Popen
from typing import Final, TypeAlias

import msgspec

from dragoman.errors import InputError
from dragoman.journal.errors import JournalError, NotTheOwner, OutOfOrder, SessionDeleted
from dragoman.journal.protocols import Journal, Position
from dragoman.translate.discover import Transcript, whose
from dragoman.translate.ingest.apart import Apart, Arrived
from dragoman.translate.ingest.apart_begin import begin, pays
from dragoman.translate.ingest.apart_messages import Done
from dragoman.translate.ingest.at_hand import AtHand
from dragoman.translate.ingest.commit import Commit
from dragoman.translate.ingest.commits import Commits
from dragoman.translate.ingest.file_import import QUIET, Intake, Seen
from dragoman.translate.ingest.import_policy import CONNECTION, DELETED, OPEN, Admission, look
from dragoman.translate.ingest.report import REST, ImportedFile
from dragoman.translate.lines import named
from dragoman.translate.translator import PROVIDERS

# Seconds for which we need not look again who else has the session of a file at hand: the agent is at work in it.
_TRUSTED: Final = 30.0

# Files that are begun before the first of them is done, and bytes of frames that wait for their commit: many small
# files share one, and what waits fits in memory.
_AHEAD: Final = 64
_AHEAD_BYTES: Final = 8 * 1024 * 1024

# Bytes of a file that is rather read here while that process begins: some hundredths of a second.
_SMALL: Final = 512 * 1024

NOBODYS: Final = "no transcript that is known here (where it is one, --provider tells whose)"

_Taken: TypeAlias = Intake[Commits] | Arrived

_LARGEST: Final = 2**63 - 1  # that a journal can keep; some file systems number their files beyond it


class Importer:
    """`take` files one after the other. `clock` tells whether a file is at rest, and how old what we know is.
    `at_hand`: bytes of files that may be kept at hand."""

    def __init__(self, journal: Journal, *, clock: Callable[[], float] = time.time, at_hand: int = 0) -> None:
        self._journal = journal
        self._clock = clock
        self._at_hand = AtHand(at_hand)
        self._positions: dict[tuple[str, str], Position] | None = None
        self._admissions: dict[str, tuple[float, Admission]] = {}
        self._trusted: dict[tuple[str, str], float] = {}  # files that were read when they were quiet: their last change
        self._taking = asyncio.Lock()  # one file at a time is read: another one may tell of the same session
        self._unsettled: list[_Taken] = []  # files that were read, and are being committed

    async def take_all(
        self,
        transcripts: Iterable[Transcript],
        told: Callable[[int], None] = lambda _: None,
        done: Callable[[Transcript, ImportedFile], None] = lambda _, __: None,
        process: Popen[bytes] | None = None,
    ) -> list[ImportedFile]:
        """`take`, for each in turn; while one is being committed, the next ones are read. `done` hears of each.
        `process`: who may read them, where one was begun; it is ended."""
        every = list(transcripts)
        if process is None:
            known = {path for _, path in await self._all_positions()}
            if not pays(one.size for one in every if _key(one.path) not in known):
                return await self._take_ahead(every, told, done)
        async with Apart(process or begin()) as apart:
            return await self._take_ahead(every, told, done, apart)

    async def _take_ahead(
        self,
        every: Sequence[Transcript],
        told: Callable[[int], None],
        done: Callable[[Transcript, ImportedFile], None],
        apart: Apart | None = None,
    ) -> list[ImportedFile]:
        taken: list[ImportedFile] = []
        ahead: deque[tuple[Transcript, asyncio.Task[ImportedFile]]] = deque()
        keys: set[str] = set()  # of files that were asked for

        async def next_one() -> None:
            transcript, taking = ahead.popleft()
            taken.append(await taking)
            done(transcript, taken[-1])

        try:
            for one in every:
                asked = apart if apart is not None and await self._ask(apart, one, keys) else None
                ahead.append((one, asyncio.create_task(self.take(one, told, asked))))
                while len(ahead) > (_AHEAD if apart is None or apart.is_up else 0):
                    await next_one()
            while ahead:
                await next_one()
        finally:
            for _, taking in ahead:
                taking.cancel()
        return taken

    async def _ask(self, apart: Apart, one: Transcript, keys: set[str]) -> bool:
        """Only for what was never read. Whatever else there is to say of a file, `take` says."""
        if not apart.is_up and one.size < _SMALL:
            return False
        try:
            name = one.provider or whose(one.path)
            key, stat = _looked_at(one.path)
        except (OSError, InputError):
            return False
        if name is None or key in keys or (name, key) in await self._all_positions():
            return False
        keys.add(key)
        end = self._end(stat)
        apart.ask(os.fsencode(one.path), _start(name, key), end, await self._admission(name, stat.st_mtime))
        return True

    async def _arrived(self, apart: Apart, told: Callable[[int], None]) -> Arrived | None:
        """None where the file is to be read here: it tells of a session that the journal has, or something failed."""
        commits = Commits(self._journal)
        sessions: set[str] = set()
        fits = True
        while isinstance(answer := await apart.answer(), Commit):
            fits = fits and await self._added(commits, answer, sessions)
            if fits:
                told(answer.position.offset)
        if fits and isinstance(answer, Done):
            arrived = Arrived(commits, sessions, answer)
            self._unsettled.append(arrived)
            return arrived
        await commits.over()
        self._positions = None  # some of it may be committed
        return None

    async def _added(self, commits: Commits, commit: Commit, sessions: set[str]) -> bool:
        try:
            for session_id in {one.session_id for one in commit.entries if one.session_id is not None} - sessions:
                await self._others(session_id)
                if (await self._journal.read(session_id, limit=1)).entries:
                    return False
                sessions.add(session_id)
            await commits.add(commit)
        except Exception:
            # It is told when the file is read here. Raised now, the answers to come would be taken for another's.
            return False
        return True

    async def take(
        self, transcript: Transcript, told: Callable[[int], None] = lambda _: None, apart: Apart | None = None
    ) -> ImportedFile:
        """What is new of a file, committed. `told` hears how many bytes of it are done. Raises for the journal's sake
        alone, never for a file. `apart`: who was asked for it."""
        nothing = ImportedFile(provider=transcript.provider, path=str(named(transcript.path)))
        passing, failed = True, False
        try:
            async with self._taking:
                await self._room()
                taken: _Taken | None = await self._arrived(apart, told) if apart is not None else None
                if taken is None:
                    name = transcript.provider or await self._known_as(transcript.path) or whose(transcript.path)
                    if name is None:
                        return msgspec.structs.replace(nothing, skipped=NOBODYS)
                    taken = await self._read(name, transcript.path, told)
                    if taken is None:
                        return msgspec.structs.replace(nothing, provider=name)
            await self._settled(taken)
            return msgspec.structs.replace(taken.report(), path=nothing.path)
        except OSError as problem:
            reason = f"cannot be read: {problem.strerror or problem}"
        except InputError as problem:
            reason, passing = problem.message, False
        except NotTheOwner:
            reason = OPEN
        except SessionDeleted:
            reason, passing = DELETED, False
        except OutOfOrder:
            reason = "another import is reading it"
        except JournalError:
            raise
        except Exception as problem:  # a defect of ours in one file must not cost the others
            reason, passing, failed = f"cannot be understood: {type(problem).__name__}: {problem}", False, True
        self._positions = None  # what was to be committed was not
        return msgspec.structs.replace(nothing, skipped=reason, passing=passing, failed=failed)

    def let_go(self, before: float) -> None:
        """Files that nobody has asked for since then, by our clock, are at hand no longer."""
        self._at_hand.let_go(before)

    async def _read(self, name: str, path: Path, told: Callable[[int], None]) -> Intake[Commits] | None:
        """None where nothing can be new. What was read may still have to be committed."""
        key, stat = _looked_at(path)
        for one in [one for one in self._unsettled if one.position.path == key]:
            await one.commits.over()
        positions = await self._all_positions()
        known = positions.get((name, key))
        end = self._end(stat)
        state = (end.inode, end.size, end.modified)
        if (
            known is not None
            and (known.inode, known.size, known.modified) == state
            and (known.finished or not self._may_be_over(name, key, end))
        ):
            return None
        intake = self._at_hand.pop(name, key)
        if intake is None or not await intake.read_on(path, end, await self._recent_admission(name), told):
            admission = await self._admission(name, stat.st_mtime)
            commits = Commits(self._journal)
            intake = Intake(self._journal, admission, known or _start(name, key), end, commits, self._others)
            try:
                await intake.read(path, told)
            except Exception:
                await intake.commits.over()
                raise
        self._unsettled.append(intake)
        return intake

    def _may_be_over(self, name: str, key: str, end: Seen) -> bool:
        """Whether what it leaves open may be ended now: nobody has written to it for long; or, as is looked at once,
        it was brought here, and its times are trusted by now."""
        if end.is_at_rest:
            return True
        if end.age <= QUIET or self._trusted.get((name, key)) == end.modified:
            return False
        self._trusted[name, key] = end.modified
        return True

    async def _settled(self, taken: _Taken) -> None:
        """Another file may be read meanwhile, but none that tells of the same session."""
        try:
            await taken.commits.settled()
        finally:
            self._unsettled.remove(taken)
        if taken.refusal is None:
            position = taken.position
            (await self._all_positions())[position.provider, position.path] = position
            if not position.finished and isinstance(taken, Intake):
                self._at_hand.put(position.provider, position.path, taken, self._clock())

    async def _others(self, session_id: str) -> None:
        for one in [one for one in self._unsettled if one.writes_to(session_id)]:
            await one.commits.over()

    async def _room(self) -> None:
        """Returns when there is room in memory for one more file."""
        while sum(one.commits.size for one in self._unsettled) > _AHEAD_BYTES:
            await self._unsettled[0].commits.over()

    def _end(self, stat: os.stat_result) -> Seen:
        age = self._clock() - stat.st_mtime
        return Seen(inode=stat.st_ino & _LARGEST, size=stat.st_size, modified=stat.st_mtime, age=age)

    async def _all_positions(self) -> dict[tuple[str, str], Position]:
        if self._positions is None:
            self._positions = {(one.provider, one.path): one for one in await self._journal.positions()}
        return self._positions

    async def _known_as(self, path: Path) -> str | None:
        """Whose the file was when it was read before."""
        positions = await self._all_positions()
        key, _ = _looked_at(path)
        return next((name for name in PROVIDERS if (name, key) in positions), None)

    async def _admission(self, name: str, modified: float) -> Admission:
        """A session that began after we looked has written to its transcript since."""
        now = self._clock()
        if modified > now + REST:  # a time that tells nothing, and would have us look for each file
            modified = now - _TRUSTED
        looked, admission = self._admissions.get(name, (0.0, None))
        if admission is None or modified >= looked:
            looked = now
            admission = await look(self._journal, name)
            self._admissions[name] = (looked, admission)
        return admission

    async def _recent_admission(self, name: str) -> Admission:
        """For a session that was let in a moment ago. To look takes the longer the more sessions there are."""
        return await self._admission(name, self._clock() - _TRUSTED)


def _start(name: str, key: str) -> Position:
    """Of a file that was never read."""
    connection_id = f"{CONNECTION}{sha256(f'{name}:{key}'.encode()).hexdigest()[:16]}"
    return Position(connection_id=connection_id, provider=name, path=key, session_id="", frames=0, offset=0)


def _looked_at(path: Path) -> tuple[str, os.stat_result]:
    """The file's own name, and how it is now."""
    return _key(path), path.stat()


def _key(path: Path) -> str:
    """The file's own name."""
    return str(named(os.path.realpath(path)))
