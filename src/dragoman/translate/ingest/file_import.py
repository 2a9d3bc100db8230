"""`Intake`: one transcript into the journal, as far as it is new there.

The file is translated from its beginning; what the journal has of its sessions is left out, frame by frame, each as
often as it is there. Of a session that Dragoman ran, all is left out until someone asks for something elsewhere, after
the last that was said here. How far it was read is committed with what came of it. Of a file that has grown since, the
rest is read with what is known from before.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Awaitable, Callable, Generator, Sequence
from pathlib import Path
from types import coroutine
from typing import Final, Generic, Literal, TypeVar

import msgspec

from dragoman.errors import InputError
from dragoman.journal import notes
from dragoman.journal.entry import Cursor, Entry, read_message
from dragoman.journal.protocols import Connection, Journal, Position
from dragoman.session.handle import SessionHandle
from dragoman.translate.ingest.commit import Adds, Commit
from dragoman.translate.ingest.dedup import Known, read_known
from dragoman.translate.ingest.import_policy import LIVE, Admission, of_parent
from dragoman.translate.ingest.report import REST, Amounts, ImportedFile, amounts
from dragoman.translate.lines import in_calendar
from dragoman.translate.scratch import ObjectStore, Scratch, SpillingSet
from dragoman.translate.transcript_file import Bookmark, is_packed, opened, whole_lines
from dragoman.translate.translator import Frame, Translator, provider

# What one commit holds: enough that a commit is little beside it, and no burden on memory or on other writers.
_ENTRIES: Final = 2000
_BYTES: Final = 2 * 1024 * 1024

_NATIVE: Final = "_native/"

# What a transcript tells of a session before anything is said in it, and often all that it ever tells.
_SETTINGS: Final = frozenset(
    {"session/new", "session_info_update", "current_mode_update", "config_option_update", "available_commands_update"}
    | {"usage_update"}
)

# Seconds since a file was written to, after which the times in it are trusted. Of one that is being written they are
# not: the agent's clock may be wrong.
QUIET: Final = 60.0

# Bytes that are translated before others in this process have their turn: a few milliseconds.
_PAUSE: Final = 64 * 1024

# Lines before the first that tells of a session, and their bytes: all of them wait in memory. Beyond that it is
# something else that stands in a transcript's place.
_SILENT: Final = 50_000
_SILENT_BYTES: Final = 64 * 1024 * 1024

# Bytes of the largest sidecar: an index of a hundred thousand threads has half of it.
_SIDECAR: Final = 32 * 1024 * 1024


NOTHING_SAID: Final = "no conversation was found there"


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """How the file is when it is read; kept when all of it was."""

    inode: int
    size: int
    modified: float
    age: float  # seconds since then

    @property
    def is_at_rest(self) -> bool:
        """Nothing more will come, as far as anyone can tell."""
        return self.age > REST


_UNSEEN: Final[dict[str, float]] = {"inode": 0, "size": 0, "modified": 0.0}


C = TypeVar("C", bound=Adds)


@coroutine
def _turn() -> Generator[None, None, None]:
    """Others in this process have theirs. (What `asyncio.sleep(0)` is: to load all of it takes longer than a file.)"""
    yield


class Intake(Generic[C]):
    """One file: `read` it, then ask for the `report`. Should it grow, `read_on`, and ask for the `report` of that."""

    def __init__(
        self,
        journal: Journal,
        admission: Admission,
        position: Position,
        end: Seen,
        commits: C,
        others: Callable[[str], Awaitable[None]] | None = None,
    ) -> None:
        """`others`: to be awaited before a session is read, where another file may be about to add to it."""
        self.commits = commits
        self.position = position
        self.refusal: str | None = None  # of the file's own session
        self._journal = journal
        self._admission = admission
        self._others = others
        self._end = end
        self._scratch = Scratch()
        # By the agent's id; None for those that stay out.
        self._sessions: ObjectStore[Known | None] = ObjectStore(self._scratch)
        self._session_ids = SpillingSet(self._scratch)  # ours, of the same
        self._unsaid: list[Frame] | None = []  # what came before the first word; None from then on
        self._early: dict[str, list[Frame]] = {}  # of sessions that are not told of yet
        self._n = self._began = position.frames
        self._entries: list[Entry] = []
        self._size = 0
        self._unknown: Counter[str] = Counter()
        self._refused: str | None = None  # of any session
        self._left = 0  # bytes of a last line that is half written
        self._last = 0.0  # when the latest of its records was written, as it says
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
            or not self._sessions.is_all_loaded
            or any(self._is_another(admission, name, one) for name, one in self._at_hand())
            or not self._bookmark.goes_on(path)
            or await self._overtaken()
        ):
            return False
        self._admission, self._end = admission, end
        self._began = self._n
        self._unknown, self._refused = Counter(), None
        for _, session in self._at_hand():
            session.settle()
        await self._read(path, told, translator)
        return True

    def _is_another(self, admission: Admission, native_id: str, session: Known) -> bool:
        """It may not go on, or is another session now."""
        session_id = admission.session_id(self.position.provider, native_id)
        return admission.refusal(native_id) is not None or session_id != session.record.session_id

    async def _overtaken(self) -> bool:
        """Whether others have added to the sessions: another file, another process, or Dragoman itself."""
        for _, session in self._at_hand():
            if self._others is not None:
                await self._others(session.record.session_id)
            page = await self._journal.read(session.record.session_id, after=session.cursor, limit=1)
            if page.entries:
                return True
        return False

    def _at_hand(self) -> list[tuple[str, Known]]:
        return [(name, one) for name, one in self._sessions.loaded.items() if one is not None]

    async def _read(self, path: Path, told: Callable[[int], None], translator: Translator) -> None:
        offset = paused = self._bookmark.offset
        silent = 0  # lines before the first that tells of a session
        with opened(path) as file:
            # Up to where it ended when it was looked at: one that is written without a pause would keep us for ever.
            for line in whole_lines(file, offset, None if is_packed(path) else self._end.size):
                frames = translator.feed(line.text, line.position)
                offset = line.end
                del line  # it may be a long one
                if frames:
                    await self._add(frames)
                    if self.refusal is not None:
                        return
                if not self._sessions:
                    silent += 1
                    if silent > _SILENT or offset > _SILENT_BYTES:
                        raise InputError("there is no conversation in the beginning of it")
                if self._is_full:
                    await self._commit(offset)
                    told(offset)
                if offset - paused >= _PAUSE:
                    paused = offset
                    await _turn()
            self._bookmark.put(path, file, offset)
        if finished := self._end.is_at_rest or self._is_copy():
            for frame in translator.finish():
                await self._add((frame,))
                if self._is_full:
                    await self._commit(offset)
        if not self._sessions:
            self._unknown = translator.unknown
        self._left = max(self._end.size - offset, 0) if not is_packed(path) else 0
        await self._commit(offset, self._end, finished=finished)

    def _is_copy(self) -> bool:
        """Whoever wrote the file had said nothing for long: it was brought here, and tells of what was over then."""
        return self._end.age > QUIET and 0.0 < self._last < self._end.modified - REST

    def writes_to(self, session_id: str) -> bool:
        return session_id in self._session_ids

    async def _add(self, frames: Sequence[Frame]) -> None:
        if self._unsaid is not None:
            self._unsaid.extend(frames)
            if _SETTINGS.issuperset([frame.kind for frame in frames]):
                return
            frames, self._unsaid = self._unsaid, None
        for frame in frames:
            session = self._sessions.get(frame.session_id)
            if session is not None:  # nearly always
                self._keep(session, frame)
            elif frame.session_id not in self._sessions:
                await self._begin(frame)

    async def _begin(self, frame: Frame) -> None:
        """What stands before the beginning of its session comes after it."""
        native_id = frame.session_id
        if frame.kind != "session/new" or frame.direction != "out":
            self._early.setdefault(native_id, []).append(frame)
            return
        asked = msgspec.json.decode(frame.line, type=_NewSession).params
        session = await self._open(frame, asked)
        self._sessions.add(native_id, session)
        early = self._early.pop(native_id, ())
        if session is not None:
            self._keep(session, self._note(frame, asked), "host")
            for one in (frame, *early):
                self._keep(session, one)

    async def _open(self, frame: Frame, asked: _Params) -> Known | None:
        """None where it stays out."""
        is_first = not self._sessions
        native_id = frame.session_id
        refusal = self._admission.refusal(native_id, asked.parent_id) or await self._told_by_parent(frame, asked)
        if refusal is not None:
            self._refused = refusal
            self.refusal = refusal if is_first else None
            return None
        session_id = self._admission.session_id(self.position.provider, native_id)
        session = await self._known(session_id, is_live=native_id in self._admission.live)
        self._session_ids.add(session_id)
        if is_first:
            self.position = msgspec.structs.replace(self.position, session_id=session_id)
        return session

    async def _told_by_parent(self, frame: Frame, asked: _Params) -> str | None:
        """A sub-agent's work was heard of with that of a session that Dragoman ran then."""
        parent_id = self._admission.live.get(asked.parent_id or "")
        if parent_id is None:
            return None
        parent = await self._known(parent_id, is_live=True)
        return of_parent(LIVE) if self._when(frame) <= (parent.last_word or 0.0) else None

    async def _known(self, session_id: str, *, is_live: bool) -> Known:
        if self._others is not None:
            await self._others(session_id)
        return await read_known(self._journal, session_id, self._scratch, is_live=is_live)

    def _note(self, frame: Frame, asked: _Params) -> Frame:
        name, native_id, parent_id = self.position.provider, frame.session_id, asked.parent_id
        handle = SessionHandle(
            session_id=self._admission.session_id(name, native_id),
            agent_session_id=native_id,
            agent=name,
            cwd=asked.cwd,
        )
        note = notes.write(
            notes.SessionOpened(
                agent=name,
                cwd=asked.cwd,
                agent_session_id=native_id,
                # A sub-agent is the agent's own to talk to; and a session of another kind of machine, or of no known
                # folder, cannot go on here.
                handle=handle.to_json() if parent_id is None and os.path.isabs(asked.cwd) else None,
                parent=None if parent_id is None else self._admission.session_id(name, parent_id),
            )
        )
        return Frame(frame.at, "out", native_id, note.method, note.line)

    def _keep(self, session: Known, frame: Frame, origin: Literal["import", "host"] = "import") -> None:
        at, kind, line = self._when(frame), frame.kind, frame.line
        if frame.at > self._last:
            self._last = frame.at
        if kind == "session/prompt" and frame.direction == "out":
            session.asked(at)
        if session.has(kind, line):
            return
        if kind.startswith(_NATIVE):
            self._unknown[msgspec.json.decode(line, type=_Unknown).params.kind] += 1
        self._n += 1
        record = session.record
        entry = Entry(self.position.connection_id, record.session_id, self._n, at, origin, kind, line)
        record.add(entry, read_message(entry))
        session.changed = True
        self._entries.append(entry)
        self._size += len(line)

    def _when(self, frame: Frame) -> float:
        return frame.at or in_calendar(self._end.modified) or 0.0

    @property
    def _is_full(self) -> bool:
        """There is enough for a commit."""
        return len(self._entries) >= _ENTRIES or self._size >= _BYTES

    async def _commit(self, offset: int, end: Seen | None = None, *, finished: bool = False) -> None:
        seen = {"inode": end.inode, "size": end.size, "modified": end.modified} if end is not None else _UNSEEN
        position = msgspec.structs.replace(self.position, frames=self._n, offset=offset, finished=finished, **seen)
        ids = {entry.session_id for entry in self._entries}
        touched = {name: one for name, one in self._at_hand() if one.record.session_id in ids}
        sessions = [*touched.values()]
        changes = [one.record.take() for one in sessions]
        if end is None:  # there is more to come
            for one in sessions:
                one.fold.release()
        connection: Connection | None = None
        if self._entries and not self.position.frames:
            connection = Connection(id=position.connection_id, agent=position.provider, at=self._entries[0].at)

        def then(cursor: Cursor) -> None:
            for one in sessions:
                one.cursor = cursor

        await self.commits.add(Commit(self._entries, changes, position, connection), then)
        self.position = position
        self._entries, self._size = [], 0
        self._sessions.evict(busy=touched)

    def report(self) -> ImportedFile:
        new: list[str] = []
        grown: list[str] = []
        came = Amounts()
        all_is_known = False  # of one
        for one in self._sessions.values():
            if one is not None and one.changed:
                (new if one.is_new else grown).append(one.record.session_id)
                came += amounts(one.fold) - one.before
            all_is_known |= one is not None and one.all_is_known
        refused = self._refused if self._sessions else NOTHING_SAID
        if all_is_known and not new and not grown:
            refused = LIVE
        return ImportedFile(
            provider=self.position.provider,
            path=self.position.path,
            new=new,
            grown=grown,
            frames=self._n - self._began,
            amounts=came,
            unknown=dict(self._unknown),
            skipped=refused,
            left=self._left,
        )


class _Link(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    parent_session_id: str | None = None


class _Params(msgspec.Struct, frozen=True, gc=False):
    cwd: str = ""
    meta: dict[str, _Link] = msgspec.field(name="_meta", default_factory=dict)

    @property
    def parent_id(self) -> str | None:
        """The agent's id of the session that this one is a sub-agent of."""
        links = [link.parent_session_id for link in self.meta.values()]
        return next((link for link in links if link is not None), None)


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
        with opened(Path(path)) as file:
            said = file.read(_SIDECAR + 1)
    except (OSError, InputError):
        return b""  # there may be one
    return said if len(said) <= _SIDECAR else b""
