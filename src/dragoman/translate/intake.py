"""`Intake`: one transcript into the journal, as far as it is new there.

The file is translated from its beginning; what the journal has of its sessions is left out, frame by frame, each as
often as it is there. How far it was read is committed with what came of it.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, Literal

import msgspec

from dragoman.journal import notes
from dragoman.journal.entry import Cursor, Entry, message_of
from dragoman.journal.session_record import SessionRecord
from dragoman.journal.store import Connection, Journal, Position
from dragoman.session.handle import SessionHandle
from dragoman.translate.admission import LIVE, Admission, session_id_of
from dragoman.translate.imported import Amounts, ImportedFile, amounts
from dragoman.translate.reading import opened, whole_lines
from dragoman.translate.translator import Frame, provider

# What one commit holds: enough that a commit is little beside it, and no burden on memory or on other writers.
_ENTRIES: Final = 2000
_BYTES: Final = 2 * 1024 * 1024

_NATIVE: Final = "_native/"


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """How the file is when it is read; kept when all of it was."""

    inode: int
    size: int
    modified: float
    finished: bool  # nothing more will come, as far as anyone can tell


_UNSEEN: Final = Seen(inode=0, size=0, modified=0.0, finished=False)


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


class Intake:
    """One file, once: `read` it, then ask for the `report`."""

    def __init__(self, journal: Journal, admission: Admission, position: Position, end: Seen) -> None:
        self.position = position
        self.refusal: str | None = None  # of the file's own session
        self._journal = journal
        self._admission = admission
        self._end = end
        self._sessions: dict[str, _Session | None] = {}  # by the agent's id; None for those that stay out
        self._early: dict[str, list[Frame]] = {}  # of sessions that are not told of yet
        self._n = self._began = position.frames
        self._entries: list[Entry] = []
        self._size = 0
        self._unknown: Counter[str] = Counter()
        self._refused: str | None = None  # of any session
        self._left = 0  # bytes of a last line that is half written

    async def read(self, path: Path, told: Callable[[int], None]) -> None:
        """Commits what is new of it. `told` hears how far it is."""
        its = provider(self.position.provider)
        translator = its.translator(path, _sidecar(its.sidecar(path)))
        offset = 0
        with opened(path) as file:
            for line in whole_lines(file):
                await self._add(translator.feed(line.text, line.position))
                if self.refusal is not None:
                    return
                offset = line.end
                if len(self._entries) >= _ENTRIES or self._size >= _BYTES:
                    await self._commit(offset)
                    told(offset)
        if self._end.finished:
            await self._add(translator.finish())
        if not self._sessions:
            self._unknown = translator.unknown
        self._left = max(self._end.size - offset, 0) if path.suffix == ".jsonl" else 0
        await self._commit(offset, self._end)

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
            yield _Said(native_id, one.at or self._end.modified, "import", one.kind, one.line)

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
        return _Said(
            native_id, frame.at or self._end.modified, "host", note.method, note.line, links[0] if links else None
        )

    async def _open(self, note: _Said) -> None:
        is_first = not self._sessions
        refusal = self._admission.refusal(note.native_id, note.parent_id)
        session: _Session | None = None
        if refusal is None:
            session_id = session_id_of(self.position.provider, note.native_id)
            session = await self._known(session_id)
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

    async def _commit(self, offset: int, end: Seen | None = None) -> None:
        seen = msgspec.structs.asdict(end or _UNSEEN)
        position = msgspec.structs.replace(self.position, frames=self._n, offset=offset, **seen)
        touched = {entry.session_id for entry in self._entries}
        records = [one.record for one in self._sessions.values() if one is not None]
        changes = [record.take() for record in records if record.session_id in touched]
        append = self._journal.append(self._entries, changes, position=position)
        if self._entries and not self.position.frames:
            name, at = position.provider, self._entries[0].at
            connect = self._journal.connect(Connection(id=position.connection_id, agent=name, at=at))
            await asyncio.gather(connect, append)  # asked for together, in this order, they are one commit
        else:
            await append
        self.position = position
        self._entries, self._size = [], 0

    def report(self) -> ImportedFile:
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
            left=self._left,
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


def _sidecar(path: os.PathLike[str] | None) -> bytes:
    if path is None:
        return b""
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""  # there may be one
