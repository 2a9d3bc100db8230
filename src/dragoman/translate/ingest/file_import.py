"""`FileImport`: imports one transcript, as far as it is new to the journal.

The file is translated from its beginning, and `dedup` leaves out what the journal has. How far the file was read is
committed with what came of it. If the file has grown since, `read_on` reads the rest with the state from before.

The worker process imports this module, and has to start quickly: it loads neither asyncio nor a session.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Awaitable, Callable, Generator, Sequence
from pathlib import Path
from types import coroutine
from typing import Final, Generic, Literal, Protocol, TypeVar

import msgspec

from dragoman.errors import InputError
from dragoman.journal import notes
from dragoman.journal.entry import Cursor, Entry, mark_provisional
from dragoman.journal.maintenance import refresh_rows
from dragoman.journal.protocols import Connection, Journal, TranscriptPosition
from dragoman.journal.rows import RowChanges
from dragoman.journal.rows import Usage as UsageRow
from dragoman.translate.ingest.bounded_fold import count_amounts
from dragoman.translate.ingest.dedup import (
    RAN_HERE,
    ImportPolicy,
    SessionDedup,
    load_dedup,
    refusal_for_sub_agent,
)
from dragoman.translate.ingest.report import AT_REST_S, Amounts, ImportedFile
from dragoman.translate.scratch import ObjectStore, Scratch, SpillingSet
from dragoman.translate.transcript_file import Bookmark, is_compressed, open_transcript, whole_lines
from dragoman.translate.translator import Frame, Translator, get_provider
from dragoman.wire.dialect import MessageTokens


class Commit(msgspec.Struct, frozen=True):
    """The entries and rows of a part of a transcript, to be stored at once, with the position in the file."""

    entries: Sequence[Entry]
    changes: Sequence[RowChanges]
    position: TranscriptPosition
    connection: Connection | None  # set if the journal does not have it yet


class CommitSink(Protocol):
    async def add(self, commit: Commit, on_committed: Callable[[Cursor], None]) -> None:
        """Take a commit. `on_committed` is called later with the journal's cursor after it, if the sink has one."""


# The size of a commit: large enough that its overhead is small, and no burden on memory or on other writers.
_MAX_COMMIT_ENTRIES: Final = 2000
_MAX_COMMIT_BYTES: Final = 2 * 1024 * 1024

_NATIVE_PREFIX: Final = "_native/"

# Frames that come before a conversation begins. Many a file has no others, and is not imported.
_SETTINGS_KINDS: Final = frozenset(
    {"session/new", "session_info_update", "current_mode_update", "config_option_update", "available_commands_update"}
    | {"usage_update", "notice"}
)

# The times in a file are trusted when nobody has written to it for so long: the clock of a running agent may be wrong.
QUIET_S: Final = 60.0

# Bytes that are translated before other tasks of this process get a turn: a few milliseconds.
_PAUSE_BYTES: Final = 64 * 1024

# Lines, and bytes, before the first record of a session: all of them wait in memory. A file with more is no transcript.
_MAX_LINES_BEFORE_SESSION: Final = 50_000
_MAX_BYTES_BEFORE_SESSION: Final = 64 * 1024 * 1024

# An index of a hundred thousand threads has half of this.
_MAX_SIDECAR_BYTES: Final = 32 * 1024 * 1024

NO_CONVERSATION: Final = "no conversation was found there"


class FileState(msgspec.Struct, frozen=True, kw_only=True):
    """The file when it was looked at; stored with the position when all of it was read."""

    inode: int
    size: int
    modified: float
    age: float  # seconds since `modified`

    @property
    def is_at_rest(self) -> bool:
        """Return True if nobody has written to it for long: the agent has probably ended."""
        return self.age > AT_REST_S


_NO_STATE: Final[dict[str, float]] = {"inode": 0, "size": 0, "modified": 0.0}


SinkT = TypeVar("SinkT", bound=CommitSink)


@coroutine
def yield_to_others() -> Generator[None, None, None]:
    """Do what `asyncio.sleep(0)` does. The worker process has no asyncio: loading it takes longer than most files."""
    yield


class FileImport(Generic[SinkT]):
    """Call `read`, then `report`. If the file grows, call `read_on`, then `report` again."""

    def __init__(
        self,
        journal: Journal,
        policy: ImportPolicy,
        position: TranscriptPosition,
        end: FileState,
        commits: SinkT,
        wait_for_writers: Callable[[str], Awaitable[None]] | None = None,
    ) -> None:
        """`wait_for_writers` is awaited before a session is read, because another file may be about to add to it."""
        self.commits = commits
        self.position = position
        self.refusal: str | None = None  # why the session of the file itself is left out
        self._journal = journal
        self._policy = policy
        self._wait_for_writers = wait_for_writers
        self._end = end
        self._scratch = Scratch()
        # By the agent's id; None for sessions that are left out.
        self._sessions: ObjectStore[SessionDedup | None] = ObjectStore(self._scratch)
        self._session_ids = SpillingSet(self._scratch)  # our ids of the same sessions
        self._settings: list[Frame] | None = []  # frames before the conversation begins; None from then on
        self._early: dict[str, list[Frame]] = {}  # frames before the `session/new` of their session
        self._n = self._first_n = position.frames
        self._entries: list[Entry] = []
        self._entries_bytes = 0
        self._messages: dict[str, MessageTokens] = {}  # that are new since the last report, of runs that ended
        self._unknown: Counter[str] = Counter()
        self._last_refusal: str | None = None  # of any session
        self._unread_bytes = 0  # of a last line that is half written
        self._latest = 0.0  # the latest time in the file
        self._last = 0.0  # the last one; 0 while the file has none
        self._translator: Translator | None = None
        self._sidecar = b""
        self._bookmark = Bookmark()

    async def read(self, path: Path, on_progress: Callable[[int], None]) -> None:
        """Read the file and give what is new to `commits`. `on_progress` is called with the bytes that are done."""
        provider = get_provider(self.position.provider)
        self._sidecar = _read_sidecar(provider.sidecar(path))
        self._translator = provider.translator(path, self._sidecar)
        await self._read(path, on_progress, self._translator)

    async def read_on(
        self, path: Path, end: FileState, policy: ImportPolicy, on_progress: Callable[[int], None]
    ) -> bool:
        """Read what was added. Returns False if something else happened to the file or to its sessions: then nothing
        was read, and the file has to be read from its beginning."""
        translator = self._translator
        sidecar = get_provider(self.position.provider).sidecar(path)
        if (
            translator is None
            or (end.inode, self._sidecar) != (self._end.inode, _read_sidecar(sidecar))
            or not self._sessions.is_all_loaded
            or any(self._is_replaced(policy, native_id, session) for native_id, session in self._loaded_sessions())
            or not self._bookmark.continues(path)
            or await self._is_overtaken()
        ):
            return False
        self._policy, self._end = policy, end
        self._first_n = self._n
        self._unknown, self._last_refusal, self._messages = Counter(), None, {}
        for _, session in self._loaded_sessions():
            session.reset_changes()
        await self._read(path, on_progress, translator)
        return True

    def _is_replaced(self, policy: ImportPolicy, native_id: str, session: SessionDedup) -> bool:
        """Return True if the session is left out from now on, or has become another one."""
        session_id = policy.session_id(self.position.provider, native_id)
        return policy.refusal(native_id) is not None or session_id != session.record.session_id

    async def _is_overtaken(self) -> bool:
        """Return True if another file, another process or Dragoman itself has added to the sessions."""
        for _, session in self._loaded_sessions():
            if self._wait_for_writers is not None:
                await self._wait_for_writers(session.record.session_id)
            page = await self._journal.read(session.record.session_id, after=session.cursor, limit=1)
            if page.entries:
                return True
        return False

    def _loaded_sessions(self) -> list[tuple[str, SessionDedup]]:
        return [(native_id, session) for native_id, session in self._sessions.loaded.items() if session is not None]

    async def _read(self, path: Path, on_progress: Callable[[int], None], translator: Translator) -> None:
        offset = paused_at = self._bookmark.offset
        lines_before_session = 0
        with open_transcript(path) as file:
            # Not beyond the size it had: reading a file that is written without a pause would never end.
            for line in whole_lines(file, offset, None if is_compressed(path) else self._end.size):
                frames = translator.feed(line.text, line.offset)
                offset = line.end
                del line  # may be a long one
                if frames:
                    await self._add(frames)
                    if self.refusal is not None:
                        return
                if not self._sessions:
                    lines_before_session += 1
                    if lines_before_session > _MAX_LINES_BEFORE_SESSION or offset > _MAX_BYTES_BEFORE_SESSION:
                        raise InputError("there is no conversation in the beginning of it")
                if self._is_commit_full:
                    await self._commit(offset)
                    on_progress(offset)
                if offset - paused_at >= _PAUSE_BYTES:
                    paused_at = offset
                    await yield_to_others()
            self._bookmark.put(path, file, offset)
        if finished := self._end.is_at_rest or self._is_copy():
            ends: dict[str, list[Frame]] = {}  # few frames: of each session, the end of its run
            for frame in translator.finish():
                ends.setdefault(frame.session_id, []).append(frame)
            for end_frames in ends.values():
                await self._add_end(end_frames)
                if self._is_commit_full:
                    await self._commit(offset)
        if not self._sessions:
            self._unknown = translator.unknown
        self._unread_bytes = max(self._end.size - offset, 0) if not is_compressed(path) else 0
        await self._commit(offset, self._end, finished=finished)

    def _is_copy(self) -> bool:
        """Return True if the file was copied here: its last record was old when the file was written."""
        return self._end.age > QUIET_S and 0.0 < self._latest < self._end.modified - AT_REST_S

    def writes_to(self, session_id: str) -> bool:
        return session_id in self._session_ids

    async def _add(self, frames: Sequence[Frame]) -> None:
        if self._settings is not None:
            self._settings.extend(frames)
            if _SETTINGS_KINDS.issuperset([frame.kind for frame in frames]):
                return
            frames, self._settings = self._settings, None
        for frame in frames:
            session = self._sessions.get(frame.session_id)
            if session is not None:  # nearly always
                self._add_entry(session, frame)
            elif frame.session_id not in self._sessions:
                await self._begin_session(frame)

    async def _add_end(self, frames: Sequence[Frame]) -> None:
        """Add the frames at the end of one session, as provisional ones: the file may go on after all."""
        if self._settings is not None:
            if _SETTINGS_KINDS.issuperset([frame.kind for frame in frames]):
                return
            settings, self._settings = self._settings, None
            await self._add(settings)
        session = self._sessions.get(frames[0].session_id)
        if session is None or not session.accepts_end([frame.line for frame in frames]):
            return
        group = session.record.position
        for frame in frames:
            line = mark_provisional(frame.line, group)
            self._append(session, self._time_of(frame), "import", frame.kind, line)

    async def _begin_session(self, frame: Frame) -> None:
        """Frames before the `session/new` of their session are added after it."""
        native_id = frame.session_id
        if frame.kind != "session/new" or frame.direction != "out":
            self._early.setdefault(native_id, []).append(frame)
            return
        request = msgspec.json.decode(frame.line, type=_NewSession).params
        session = await self._open_session(frame, request)
        self._sessions.add(native_id, session)
        early = self._early.pop(native_id, ())
        if session is not None:
            self._add_entry(session, self._opening_note(frame, request), "host")
            for next_frame in (frame, *early):
                self._add_entry(session, next_frame)

    async def _open_session(self, frame: Frame, request: _Params) -> SessionDedup | None:
        """Load the session; return None if it is left out."""
        is_first = not self._sessions
        native_id = frame.session_id
        refusal = self._policy.refusal(native_id, request.parent_id) or await self._parent_refusal(frame, request)
        if refusal is not None:
            self._last_refusal = refusal
            self.refusal = refusal if is_first else None
            return None
        session_id = self._policy.session_id(self.position.provider, native_id)
        session = await self._load_session(session_id, is_live=native_id in self._policy.live)
        self._session_ids.add(session_id)
        if is_first:
            self.position = msgspec.structs.replace(self.position, session_id=session_id)
        return session

    async def _parent_refusal(self, frame: Frame, request: _Params) -> str | None:
        """The work of a sub-agent was recorded with that of its parent, if Dragoman ran the parent then."""
        parent_id = self._policy.live.get(request.parent_id or "")
        if parent_id is None:
            return None
        parent = await self._load_session(parent_id, is_live=True)
        is_recorded = self._time_of(frame) <= (parent.recorded_until or 0.0)
        return refusal_for_sub_agent(RAN_HERE) if is_recorded else None

    async def _load_session(self, session_id: str, *, is_live: bool) -> SessionDedup:
        if self._wait_for_writers is not None:
            await self._wait_for_writers(session_id)
        return await load_dedup(self._journal, session_id, self._scratch, is_live=is_live)

    def _opening_note(self, frame: Frame, request: _Params) -> Frame:
        agent, native_id, parent_id = self.position.provider, frame.session_id, request.parent_id
        # The fields of a `SessionHandle` that an import knows.
        handle = {
            "session_id": self._policy.session_id(agent, native_id),
            "agent_session_id": native_id,
            "agent": agent,
            "cwd": request.cwd,
        }
        is_resumable = parent_id is None and os.path.isabs(request.cwd)
        note = notes.write(
            notes.SessionOpened(
                agent=agent,
                cwd=request.cwd,
                agent_session_id=native_id,
                # A sub-agent cannot be resumed by us; nor can a session of another kind of machine or of no folder.
                handle=msgspec.json.encode(handle).decode() if is_resumable else None,
                parent=self._policy.session_id(agent, parent_id) if parent_id else parent_id,
            )
        )
        return Frame(frame.at, "out", native_id, note.method, note.line)

    def _add_entry(self, session: SessionDedup, frame: Frame, origin: Literal["import", "host"] = "import") -> None:
        at, kind, line = self._time_of(frame), frame.kind, frame.line
        self._last = at
        if at > self._latest:
            self._latest = at
        if kind == "session/prompt" and frame.direction == "out":
            session.see_prompt(at)
        if session.has_frame(kind, line):
            return
        if kind.startswith(_NATIVE_PREFIX):
            self._unknown[msgspec.json.decode(line, type=_Unknown).params.kind] += 1
        self._append(session, at, origin, kind, line)

    def _append(
        self, session: SessionDedup, at: float, origin: Literal["import", "host"], kind: str, line: bytes
    ) -> None:
        self._n += 1
        entry = Entry(self.position.connection_id, session.record.session_id, self._n, at, origin, kind, line)
        session.add_entry(entry)
        self._entries.append(entry)
        self._entries_bytes += len(line)

    def _time_of(self, frame: Frame) -> float:
        """Return the frame's time, or that of the frame before; 0 if the file has had no time so far.

        Not the time of the file, which changes whenever somebody writes to it or copies it.
        """
        return frame.at or self._last

    @property
    def _is_commit_full(self) -> bool:
        return len(self._entries) >= _MAX_COMMIT_ENTRIES or self._entries_bytes >= _MAX_COMMIT_BYTES

    async def _commit(self, offset: int, end: FileState | None = None, *, finished: bool = False) -> None:
        state = {"inode": end.inode, "size": end.size, "modified": end.modified} if end is not None else _NO_STATE
        position = msgspec.structs.replace(self.position, frames=self._n, offset=offset, finished=finished, **state)
        session_ids = {entry.session_id for entry in self._entries}
        loaded = self._loaded_sessions()
        touched = {native_id: session for native_id, session in loaded if session.record.session_id in session_ids}
        sessions = [*touched.values()]
        changes = self._take_changes(sessions)
        if end is None:  # there is more to come
            for session in sessions:
                session.fold.release()
        connection: Connection | None = None
        if self._entries and not self.position.frames:
            connection = Connection(id=position.connection_id, agent=position.provider, at=self._entries[0].at)

        def on_committed(cursor: Cursor) -> None:
            for session in sessions:
                session.cursor = cursor

        await self.commits.add(Commit(self._entries, changes, position, connection), on_committed)
        self.position = position
        self._entries, self._entries_bytes = [], 0
        self._sessions.evict(busy=touched)

    def _take_changes(self, sessions: Sequence[SessionDedup]) -> list[RowChanges]:
        """Take the changed rows. The journal itself makes those of a session from which frames were withdrawn."""
        changes: list[RowChanges] = []
        for session in sessions:
            change = session.record.take()
            if not session.needs_rebuild:
                changes.append(change)
            for row in change.puts:
                if isinstance(row, UsageRow):
                    self._messages.update(
                        (message.message_id, message)
                        for message in row.messages
                        if message.message_id not in session.messages_before
                    )
        return changes

    async def rebuild_rows(self) -> None:
        """Have the journal make the rows that it lacks. Call it when everything is committed."""
        for _, session in self._loaded_sessions():
            if session.needs_rebuild:
                await refresh_rows(self._journal, session.record.session_id)
                session.needs_rebuild = False

    def report(self) -> ImportedFile:
        new: list[str] = []
        grown: list[str] = []
        amounts = Amounts()
        is_one_recorded = False
        for session in self._sessions.values():
            if session is not None and session.has_changed:
                (new if session.is_new else grown).append(session.record.session_id)
                amounts += count_amounts(session.fold) - session.amounts_before
            is_one_recorded |= session is not None and session.is_all_recorded
        skipped = self._last_refusal if self._sessions else NO_CONVERSATION
        if is_one_recorded and not new and not grown:
            skipped = RAN_HERE
        return ImportedFile(
            provider=self.position.provider,
            path=self.position.path,
            new=new,
            grown=grown,
            frames=self._n - self._first_n,
            amounts=amounts,
            messages=[*self._messages.values()],
            unknown=dict(self._unknown),
            skipped=skipped,
            left=self._unread_bytes,
        )


class _Link(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    parent_session_id: str | None = None


class _Params(msgspec.Struct, frozen=True, gc=False):
    cwd: str = ""
    meta: dict[str, _Link] = msgspec.field(name="_meta", default_factory=dict)

    @property
    def parent_id(self) -> str | None:
        """The agent's id of the session that this one is a sub-agent of; empty if it is not known."""
        parents = [link.parent_session_id for link in self.meta.values()]
        return next((parent for parent in parents if parent is not None), None)


class _NewSession(msgspec.Struct, frozen=True, gc=False):
    params: _Params


class _Kind(msgspec.Struct, frozen=True, gc=False):
    kind: str


class _Unknown(msgspec.Struct, frozen=True, gc=False):
    params: _Kind


def _read_sidecar(path: os.PathLike[str] | None) -> bytes:
    if path is None:
        return b""
    try:
        with open_transcript(Path(path)) as file:
            data = file.read(_MAX_SIDECAR_BYTES + 1)
    except (OSError, InputError):
        return b""  # most files have none
    return data if len(data) <= _MAX_SIDECAR_BYTES else b""
