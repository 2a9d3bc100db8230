"""`Intake`: one transcript into the journal, as far as it is new there.

The file is translated from its beginning; what the journal has of its sessions is left out, frame by frame, each as
often as it is there. Of a session that Dragoman ran, all is left out until someone asks for something elsewhere, after
the last that was said here. How far it was read is committed with what came of it. Of a file that has grown since, the
rest is read with what is known from before.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, Literal

import msgspec

from dragoman.journal import notes
from dragoman.journal.entry import Cursor, Entry, message_of
from dragoman.journal.errors import NotTheOwner
from dragoman.journal.session_record import SessionRecord
from dragoman.journal.store import Connection, Journal, Position
from dragoman.session.handle import SessionHandle
from dragoman.translate.admission import LIVE, Admission, of_parent
from dragoman.translate.commits import Commit, Commits
from dragoman.translate.hashed import HashMap
from dragoman.translate.imported import Amounts, ImportedFile, amounts
from dragoman.translate.lean import LeanFold
from dragoman.translate.reading import Bookmark, opened, whole_lines
from dragoman.translate.translator import Frame, Translator, provider

# What one commit holds: enough that a commit is little beside it, and no burden on memory or on other writers.
_ENTRIES: Final = 2000
_BYTES: Final = 2 * 1024 * 1024

# Entries that are read back at once: they may be large.
_PAGE: Final = 200

_NATIVE: Final = "_native/"

# What is said, of all that goes between Dragoman and an agent. The rest may come at any time.
_SAID: Final = frozenset(
    {
        "session/prompt",
        "user_message_chunk",
        "agent_message_chunk",
        "agent_thought_chunk",
        "tool_call",
        "tool_call_update",
    }
)

# Seconds after which a prompt without an answer is not the one that its transcript tells of. It is written there a
# moment after it was sent, and where the agent died with it, nothing else tells when that was.
_UNANSWERED: Final = 60.0

# Bytes that are translated before others in this process have their turn: a few milliseconds.
_PAUSE: Final = 64 * 1024


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """How the file is when it is read; kept when all of it was."""

    inode: int
    size: int
    modified: float
    finished: bool  # nothing more will come, as far as anyone can tell


_UNSEEN: Final = Seen(inode=0, size=0, modified=0.0, finished=False)


class _Session:
    """A session of the file, as the journal has it, and what it has of the file already."""

    def __init__(
        self,
        record: SessionRecord,
        fold: LeanFold,
        told: HashMap | None,
        cursor: Cursor | None,
        last_word: float | None,
        *,
        is_new: bool,
    ) -> None:
        self.record = record
        self.fold = fold  # the record's
        self.told = told  # frames, and how often each; None of a session that is new
        self.cursor = cursor  # after the last frame of it that is known here
        self.last_word = last_word  # when it was said here; None where Dragoman did not run it
        self.elsewhere = last_word is None  # what is told now was said elsewhere
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
    asks: bool = False  # a prompt
    parent_id: str | None = None  # of a note: the session that this one is a sub-agent of


class Intake:
    """One file: `read` it, then ask for the `report`. Should it grow, `read_on`, and ask for the `report` of that."""

    def __init__(
        self,
        journal: Journal,
        admission: Admission,
        position: Position,
        end: Seen,
        others: Callable[[str], Awaitable[None]] | None = None,
    ) -> None:
        """`others`: to be awaited before a session is read, where another file may be about to add to it."""
        self.commits = Commits(journal)
        self.position = position
        self.refusal: str | None = None  # of the file's own session
        self._journal = journal
        self._admission = admission
        self._others = others
        self._end = end
        self._sessions: dict[str, _Session | None] = {}  # by the agent's id; None for those that stay out
        self._early: dict[str, list[Frame]] = {}  # of sessions that are not told of yet
        self._n = self._began = position.frames
        self._entries: list[Entry] = []
        self._size = 0
        self._unknown: Counter[str] = Counter()
        self._refused: str | None = None  # of any session
        self._left = 0  # bytes of a last line that is half written
        self._translator: Translator | None = None
        self._sidecar = b""
        self._bookmark = Bookmark()

    async def read(self, path: Path, told: Callable[[int], None]) -> None:
        """What is new of it is given to the journal; `commits` tells when it is there. `told` hears how far it is."""
        its = provider(self.position.provider)
        self._sidecar = _sidecar(its.sidecar(path))
        self._translator = its.translator(path, self._sidecar)
        await self._read(path, told, self._translator)

    async def read_on(self, path: Path, end: Seen, admission: Admission, told: Callable[[int], None]) -> bool:
        """The same for what was added since. False where something else happened, to the file or to its sessions: then
        nothing was read, and the file is to be read anew."""
        translator = self._translator
        sidecar = provider(self.position.provider).sidecar(path)
        if (
            translator is None
            or (end.inode, self._sidecar) != (self._end.inode, _sidecar(sidecar))
            or any(self._is_another(admission, name, one) for name, one in self._sessions.items() if one is not None)
            or not self._bookmark.goes_on(path)
            or await self._overtaken()
        ):
            return False
        self._admission, self._end = admission, end
        self._began = self._n
        self._unknown, self._refused = Counter(), None
        for session in self._sessions.values():
            if session is not None:
                session.before, session.changed, session.is_new = amounts(session.record), False, False
        await self._read(path, told, translator)
        return True

    def _is_another(self, admission: Admission, native_id: str, session: _Session) -> bool:
        """It may not go on, or is another session now."""
        session_id = admission.session_id(self.position.provider, native_id)
        return admission.refusal(native_id) is not None or session_id != session.record.session_id

    async def _overtaken(self) -> bool:
        """Whether others have added to the sessions: another file, another process, or Dragoman itself."""
        for session in self._sessions.values():
            if session is not None:
                if self._others is not None:
                    await self._others(session.record.session_id)
                page = await self._journal.read(session.record.session_id, after=session.cursor, limit=1)
                if page.entries:
                    return True
        return False

    async def _read(self, path: Path, told: Callable[[int], None], translator: Translator) -> None:
        offset = paused = self._bookmark.offset
        with opened(path) as file:
            for line in whole_lines(file, offset):
                await self._add(translator.feed(line.text, line.position))
                if self.refusal is not None:
                    return
                offset = line.end
                if len(self._entries) >= _ENTRIES or self._size >= _BYTES:
                    await self._commit(offset)
                    told(offset)
                if offset - paused >= _PAUSE:
                    paused = offset
                    await asyncio.sleep(0)
            self._bookmark.put(path, file, offset)
        if self._end.finished:
            await self._add(translator.finish())
        if not self._sessions:
            self._unknown = translator.unknown
        self._left = max(self._end.size - offset, 0) if path.suffix == ".jsonl" else 0
        await self._commit(offset, self._end)

    def writes_to(self, session_id: str) -> bool:
        return any(one.record.session_id == session_id for one in self._sessions.values() if one is not None)

    async def _add(self, frames: Sequence[Frame]) -> None:
        for frame in frames:
            session = self._sessions.get(frame.session_id)
            if session is not None:  # nearly always
                self._keep(session, self._said(frame))
                continue
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
            yield self._said(one)

    def _said(self, frame: Frame) -> _Said:
        asks = frame.kind == "session/prompt" and frame.direction == "out"
        return _Said(frame.session_id, frame.at or self._end.modified, "import", frame.kind, frame.line, asks)

    def _note(self, frame: Frame) -> _Said:
        asked = msgspec.json.decode(frame.line, type=_NewSession).params
        links = [link.parent_session_id for link in asked.meta.values() if link.parent_session_id is not None]
        name, native_id = self.position.provider, frame.session_id
        handle = SessionHandle(
            session_id=self._admission.session_id(name, native_id),
            agent_session_id=native_id,
            agent=name,
            cwd=asked.cwd,
        )
        opened_ = notes.SessionOpened(
            agent=name,
            cwd=asked.cwd,
            agent_session_id=native_id,
            # A sub-agent is the agent's own to talk to.
            handle=handle.to_json() if not links and asked.cwd else None,
        )
        note = notes.write(opened_)
        at, parent_id = frame.at or self._end.modified, links[0] if links else None
        return _Said(native_id, at, "host", note.method, note.line, parent_id=parent_id)

    async def _open(self, note: _Said) -> None:
        is_first = not self._sessions
        refusal = self._admission.refusal(note.native_id, note.parent_id)
        parent = self._admission.live.get(note.parent_id or "")
        if refusal is None and parent is not None and note.at <= ((await self._known(parent)).last_word or 0.0):
            refusal = of_parent(LIVE)
        session: _Session | None = None
        if refusal is None:
            session = await self._known(self._admission.session_id(self.position.provider, note.native_id))
        if refusal is not None:
            self._refused = refusal
            self.refusal = refusal if is_first else None
        elif is_first and session is not None:
            self.position = msgspec.structs.replace(self.position, session_id=session.record.session_id)
        self._sessions[note.native_id] = session

    async def _known(self, session_id: str) -> _Session:
        """The session as the journal has it. Raises where a process has it open: nobody else may add to it."""
        if self._others is not None:
            await self._others(session_id)
        owner = await self._journal.owner(session_id)
        if owner is not None and owner.process is not None:
            raise NotTheOwner(f"session {session_id} is open", owner=owner.process.id)
        record = SessionRecord(session_id, fold := LeanFold())
        told: HashMap | None = None
        cursor: Cursor | None = None
        last_word = 0.0 if session_id in self._admission.live.values() else None
        unanswered = 0
        while (page := await self._journal.read(session_id, after=cursor, limit=_PAGE)).entries:
            told = told or HashMap()
            for entry in page.entries:
                if entry.origin in ("import", "host"):
                    told.put((entry.kind, entry.frame), (told.get((entry.kind, entry.frame)) or 0) + 1)
                elif entry.origin != "replay" and entry.kind in _SAID:
                    last_word = entry.at
                    if entry.kind == "session/prompt":
                        unanswered += 1 if entry.origin == "client" else -1
                record.add(entry, message_of(entry))
            cursor = page.cursor
            record.take()  # the journal has these rows
            if len(page.entries) == _PAGE:
                fold.let_go()
        if last_word is not None and unanswered > 0:
            last_word += _UNANSWERED
        return _Session(record, fold, told, cursor, last_word, is_new=not record.position)

    def _keep(self, session: _Session, said: _Said) -> None:
        if not session.elsewhere:
            if not said.asks or said.at <= (session.last_word or 0.0):
                return
            session.elsewhere = True
        if session.told is not None and (count := session.told.get((said.kind, said.line))):
            session.told.put((said.kind, said.line), count - 1)
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
        sessions = [one for one in self._sessions.values() if one is not None and one.record.session_id in touched]
        changes = [one.record.take() for one in sessions]
        if end is None:  # there is more to come
            for one in sessions:
                one.fold.let_go()
        connection: Connection | None = None
        if self._entries and not self.position.frames:
            connection = Connection(id=position.connection_id, agent=position.provider, at=self._entries[0].at)

        def then(cursor: Cursor) -> None:
            for one in sessions:
                one.cursor = cursor

        await self.commits.add(Commit(self._entries, changes, position, connection), then)
        self.position = position
        self._entries, self._size = [], 0

    def report(self) -> ImportedFile:
        changed = [one for one in self._sessions.values() if one is not None and one.changed]
        refused = self._refused if self._sessions else "there is no conversation in it"
        if any(one is not None and not one.elsewhere for one in self._sessions.values()) and not changed:
            refused = LIVE
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
