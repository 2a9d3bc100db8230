"""`Importer`: transcripts into the journal, each record once, whatever ends it and however often it is run.

A file is translated from its beginning, and what the journal has of its sessions is left out, frame by frame. So a file
that grew, was moved, replaced or copied, or whose import was killed, brings what is new and nothing else. How far it
was read is committed with what came of it: a file that has not changed since is not opened.

What a transcript leaves open is ended when nobody has written to it for a while. Should it go on after all, its next
runs come in as any others.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Final, Literal

import msgspec

from dragoman.errors import InputError
from dragoman.journal import notes
from dragoman.journal.entry import Cursor, Entry, message_of
from dragoman.journal.errors import NotTheOwner, OutOfOrder, SessionDeleted
from dragoman.journal.session_record import SessionRecord
from dragoman.journal.store import Connection, Journal, Position
from dragoman.session.handle import SessionHandle
from dragoman.translate.admission import DELETED, LIVE, Admission, look, session_id_of
from dragoman.translate.discover import Transcript, whose
from dragoman.translate.imported import Amounts, ImportedFile, amounts
from dragoman.translate.reading import opened, whole_lines
from dragoman.translate.translator import PROVIDERS, Frame, provider

# Seconds without a word after which a transcript is taken to be over. A tool may well run for minutes, and seldom for
# an hour.
REST: Final = 3600.0

# What one commit holds: enough that a commit is little beside it, and no burden on memory or on other writers.
_ENTRIES: Final = 2000
_BYTES: Final = 2 * 1024 * 1024

_LARGEST: Final = 2**63 - 1  # that a journal can keep; some file systems number their files beyond it

_NATIVE: Final = "_native/"


class Importer:
    """`take` files one after the other. `clock` tells whether a file is at rest; nothing else depends on it."""

    def __init__(self, journal: Journal, *, clock: Callable[[], float] = time.time) -> None:
        self._journal = journal
        self._clock = clock
        self._positions: dict[tuple[str, str], Position] | None = None
        self._admissions: dict[str, tuple[float, Admission]] = {}

    async def take(self, transcript: Transcript, read: Callable[[int], None] = lambda _: None) -> ImportedFile:
        """What is new of a file, committed. `read` is told how many bytes of it are done. Never raises for a file."""
        nothing = ImportedFile(provider=transcript.provider, path=str(transcript.path))
        try:
            name = transcript.provider or await self._known_as(transcript.path) or whose(transcript.path)
            if name is None:
                return msgspec.structs.replace(nothing, skipped="it is no transcript that is known here")
            return await self._take(name, transcript.path, read)
        except OSError as problem:
            reason = f"it cannot be read: {problem.strerror or problem}"
        except InputError as problem:
            reason = problem.message
        except NotTheOwner:
            reason = "a process has its session open"
        except SessionDeleted:
            reason = DELETED
        except OutOfOrder:
            reason = "another import is reading it"
        return msgspec.structs.replace(nothing, skipped=reason)

    async def _take(self, name: str, path: Path, read: Callable[[int], None]) -> ImportedFile:
        positions = await self._all_positions()
        key, stat = _looked_at(path)
        at_rest = self._clock() - stat.st_mtime > REST
        known = positions.get((name, key))
        state = (stat.st_ino & _LARGEST, stat.st_size, stat.st_mtime)
        if known is not None and (known.inode, known.size, known.modified) == state and known.finished >= at_rest:
            return ImportedFile(provider=name, path=str(path))
        start = known or Position(
            connection_id=f"import-{sha256(f'{name}:{key}'.encode()).hexdigest()[:16]}",
            provider=name,
            path=key,
            session_id="",
            frames=0,
            offset=0,
        )
        reading = _Reading(self._journal, await self._admission(name, stat.st_mtime), start, stat.st_mtime)
        done = await reading.run(path, stat.st_size, read, finish=at_rest)
        if reading.refusal is None:
            inode, size, modified = state
            end = msgspec.structs.replace(reading.position, inode=inode, size=size, modified=modified, finished=at_rest)
            await self._journal.append((), position=end)
            positions[name, key] = end
        return msgspec.structs.replace(done, path=str(path))

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
        looked, admission = self._admissions.get(name, (0.0, None))
        if admission is None or modified >= looked:
            looked = self._clock()
            admission = await look(self._journal, name)
            self._admissions[name] = (looked, admission)
        return admission


class _Session:
    """A session of the file, as the journal has it, and what it has of the file already."""

    def __init__(self, record: SessionRecord, told: Counter[int], *, is_new: bool) -> None:
        self.record = record
        self.told = told
        self.is_new = is_new
        self.before = amounts(record)
        self.changed = False


class _Said(msgspec.Struct, frozen=True, gc=False):
    """What is to be kept: a frame of the translator's, or our note on a session."""

    native_id: str
    at: float
    origin: Literal["import", "host"]
    kind: str
    line: bytes
    parent_id: str | None = None  # of a note: the session that this one is a sub-agent of


class _Reading:
    """One file, once."""

    def __init__(self, journal: Journal, admission: Admission, position: Position, modified: float) -> None:
        self.position = position
        self.refusal: str | None = None  # of the file's own session
        self._journal = journal
        self._admission = admission
        self._modified = modified
        self._sessions: dict[str, _Session | None] = {}  # by the agent's id; None for those that stay out
        self._early: dict[str, list[Frame]] = {}  # of sessions that are not told of yet
        self._n = self._began = position.frames
        self._entries: list[Entry] = []
        self._size = 0
        self._committing: asyncio.Task[Cursor] | None = None
        self._unknown: Counter[str] = Counter()
        self._refused: str | None = None  # of any session

    async def run(self, path: Path, length: int, read: Callable[[int], None], *, finish: bool) -> ImportedFile:
        its = provider(self.position.provider)
        translator = its.translator(path, _sidecar(its.sidecar(path)))
        offset = 0
        try:
            with opened(path) as file:
                for line in whole_lines(file):
                    await self._add(translator.feed(line.text, line.position))
                    if self.refusal is not None:
                        break
                    offset = line.end
                    if len(self._entries) >= _ENTRIES or self._size >= _BYTES:
                        await self._commit(offset)
                        read(offset)
            if finish and self.refusal is None:
                await self._add(translator.finish())
            await self._commit(offset)
        finally:
            await self._committed()
        if not self._sessions:
            self._unknown = translator.unknown
        return self._done(max(length - offset, 0) if path.suffix == ".jsonl" else 0)

    async def _add(self, frames: Sequence[Frame]) -> None:
        for frame in frames:
            for said in self._in_order(frame):
                if said.native_id not in self._sessions:
                    await self._open(said)
                if (session := self._sessions[said.native_id]) is not None:
                    self._keep(session, said)

    def _in_order(self, frame: Frame) -> Iterator[_Said]:
        """What stands before the beginning of its session comes after it."""
        native_id = frame.session_id
        if native_id not in self._sessions:
            if frame.kind != "session/new" or frame.direction != "out":
                self._early.setdefault(native_id, []).append(frame)
                return
            yield self._note(frame)
        for one in (frame, *self._early.pop(native_id, ())):
            yield _Said(native_id, one.at or self._modified, "import", one.kind, one.line)

    def _note(self, frame: Frame) -> _Said:
        asked = msgspec.json.decode(frame.line, type=_NewSession).params
        links = [link.parent_session_id for link in asked.meta.values() if link.parent_session_id is not None]
        name, native_id = self.position.provider, frame.session_id
        handle = SessionHandle(
            session_id=session_id_of(name, native_id), agent_session_id=native_id, agent=name, cwd=asked.cwd
        )
        opened_ = notes.SessionOpened(
            agent=name,
            cwd=asked.cwd,
            agent_session_id=native_id,
            # A sub-agent is the agent's own to talk to.
            handle=handle.to_json() if not links and asked.cwd else None,
        )
        note = notes.write(opened_)
        return _Said(native_id, frame.at or self._modified, "host", note.method, note.line, links[0] if links else None)

    async def _open(self, note: _Said) -> None:
        is_first = not self._sessions
        refusal = self._admission.refusal(note.native_id, note.parent_id)
        session: _Session | None = None
        if refusal is None:
            session = await self._known(session_id_of(self.position.provider, note.native_id))
            refusal = LIVE if session is None else None
        if refusal is not None:
            self._refused = refusal
            self.refusal = refusal if is_first else None
        elif is_first and session is not None:
            self.position = msgspec.structs.replace(self.position, session_id=session.record.session_id)
        self._sessions[note.native_id] = session

    async def _known(self, session_id: str) -> _Session | None:
        """The session as the journal has it; None where it was continued by Dragoman after it was imported."""
        record = SessionRecord(session_id)
        told: Counter[int] = Counter()
        cursor: Cursor | None = None
        while (page := await self._journal.read(session_id, after=cursor)).entries:
            for entry in page.entries:
                if entry.origin not in ("import", "host"):
                    return None
                told[hash((entry.kind, entry.frame))] += 1
                record.add(entry, message_of(entry))
            cursor = page.cursor
        is_new = not record.position
        record.take()  # the journal has these rows
        return _Session(record, told, is_new=is_new)

    def _keep(self, session: _Session, said: _Said) -> None:
        if session.told:
            key = hash((said.kind, said.line))
            if session.told[key] > 0:
                session.told[key] -= 1
                return
        if said.kind.startswith(_NATIVE):
            self._unknown[msgspec.json.decode(said.line, type=_Unknown).params.kind] += 1
        self._n += 1
        record = session.record
        entry = Entry(
            self.position.connection_id, record.session_id, self._n, said.at, said.origin, said.kind, said.line
        )
        record.add(entry, message_of(entry))
        session.changed = True
        self._entries.append(entry)
        self._size += len(said.line)

    async def _commit(self, offset: int) -> None:
        """The next batch is gathered while this one is written."""
        await self._committed()
        if not self._entries:
            return
        if self.position.frames == 0:
            at = self._entries[0].at
            await self._journal.connect(Connection(id=self.position.connection_id, agent=self.position.provider, at=at))
        self.position = msgspec.structs.replace(
            self.position, frames=self._n, offset=offset, inode=0, size=0, modified=0.0, finished=False
        )
        entries, self._entries, self._size = self._entries, [], 0
        touched = dict.fromkeys(entry.session_id for entry in entries)
        records = [one.record for one in self._sessions.values() if one is not None]
        changes = [record.take() for record in records if record.session_id in touched]
        append = self._journal.append(entries, changes, position=self.position)
        self._committing = asyncio.ensure_future(append)

    async def _committed(self) -> None:
        committing, self._committing = self._committing, None
        if committing is not None:
            await committing

    def _done(self, left: int) -> ImportedFile:
        changed = [one for one in self._sessions.values() if one is not None and one.changed]
        refused = self._refused if self._sessions else "there is no conversation in it"
        return ImportedFile(
            provider=self.position.provider,
            path=self.position.path,
            new=[one.record.session_id for one in changed if one.is_new],
            grown=[one.record.session_id for one in changed if not one.is_new],
            frames=self._n - self._began,
            amounts=sum((amounts(one.record) - one.before for one in changed), Amounts()),
            unknown=dict(self._unknown),
            skipped=refused,
            left=left if self.refusal is None else 0,
        )


class _Link(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    parent_session_id: str | None = None


class _Params(msgspec.Struct, frozen=True, gc=False):
    cwd: str = ""
    meta: dict[str, _Link] = msgspec.field(name="_meta", default_factory=dict)


class _NewSession(msgspec.Struct, frozen=True, gc=False):
    params: _Params


class _Kind(msgspec.Struct, frozen=True, gc=False):
    kind: str


class _Unknown(msgspec.Struct, frozen=True, gc=False):
    params: _Kind


def _looked_at(path: Path) -> tuple[str, os.stat_result]:
    """The file's own name, as text that can be kept whatever bytes are in it, and how it is now."""
    return os.fsencode(os.path.realpath(path)).decode("utf-8", "backslashreplace"), path.stat()


def _sidecar(path: os.PathLike[str] | None) -> bytes:
    if path is None:
        return b""
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""  # there may be one
