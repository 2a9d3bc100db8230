"""Export and import: a journal, or a session of it, as JSON Lines; recordings of connections read the same way.

    {"dir": "journal", "format": 1}
    {"dir": "connection", "id": "…", "agent": "…", "at": …}
    {"dir": "session", "id": "…", "agent": "…", "cwd": "…", "agent_session_id": "…", "folders": []}
    {"dir": "in", "ts": 1794724271.9, "frame": {…}, "origin": "agent", "kind": "…", "connection": "…", "session": "…"}
    {"dir": "noise", "ts": …, "bytes": "base64", "origin": …}

Frames are written byte for byte; a frame that does not fit into a line of JSON is written as `bytes`. A line with only
`dir`, `ts` and `frame` belongs to a recording, whose sessions are distinguished by the agent's ids.

Imported frames have the origin `import`, and notes of the host in a file are ignored, unless the caller vouches for the
file (`trusted`). A session that the journal has already, or that was deleted from it, stays as it is.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import AsyncIterator, Callable, Iterable, Sequence

import msgspec

from dragoman.errors import InputError
from dragoman.journal import notes
from dragoman.journal.entry import (
    NOISE,
    ORIGINS,
    OVERSIZED,
    Cursor,
    Entry,
    Origin,
    direction_of,
    entry_kind,
    read_message,
    stored_frame,
)
from dragoman.journal.protocols import OWN_CONNECTION, PAGE_ENTRIES, Connection, JournalStore
from dragoman.record.routing import ConnectionReader
from dragoman.wire.lenient import decode_or_none
from dragoman.wire.messages import DECODE_ERRORS, Message, Reply, Request, RequestId

FORMAT_VERSION = 1

_OPENING_METHODS = ("session/new", "session/load", "session/resume", "session/fork")


class _Line(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    dir: str
    format: int | None = None
    ts: float = 0.0
    frame: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    bytes: str | None = None
    line: str | None = None  # noise in a recording, as far as it could be decoded
    origin: Origin | None = None
    kind: str = ""
    connection: str = ""
    session: str | None = None
    id: str = ""
    agent: str = ""
    at: float = 0.0
    protocol_version: int | None = None
    capabilities: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    agent_info: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    cwd: str = ""
    agent_session_id: str = ""
    folders: tuple[str, ...] = ()


class _Opening(msgspec.Struct, frozen=True):
    """The workspace in a request that opens a session; names as on the wire."""

    cwd: str = ""
    additionalDirectories: tuple[str, ...] = ()  # noqa: N815


class ImportResult(msgspec.Struct, frozen=True):
    """The sessions that were imported, and those that were left out, with the reason."""

    sessions: Sequence[str]
    left_out: Sequence[tuple[str, str]]
    frames: int


async def export(journal: JournalStore, session_id: str | None = None) -> AsyncIterator[bytes]:
    """Yield the lines of the journal, or of one session with its connections, each with its newline."""
    yield _encoded(_Line(dir="journal", format=FORMAT_VERSION))
    connections = {connection.id: connection for connection in await journal.connections()}
    if session_id is None:
        for connection in connections.values():
            yield _encoded(_connection_line(connection))
        connections = {}
    for session in await journal.sessions():
        if session_id in (None, session.id):
            yield _encoded(
                _Line(
                    dir="session",
                    ts=session.created,
                    id=session.id,
                    agent=session.agent,
                    cwd=session.cwd,
                    agent_session_id=session.agent_session_id,
                    folders=session.folders,
                )
            )
    cursor: Cursor | None = None
    while (page := await journal.read(session_id, after=cursor)).entries:
        for entry in page.entries:
            if entry.connection_id in connections:  # once, before its first frame
                yield _encoded(_connection_line(connections.pop(entry.connection_id)))
            yield _encoded(_entry_line(entry))
        cursor = page.cursor


def _connection_line(connection: Connection) -> _Line:
    return _Line(
        dir="connection",
        id=connection.id,
        agent=connection.agent,
        at=connection.at,
        protocol_version=connection.protocol_version,
        capabilities=connection.capabilities or msgspec.UNSET,
        agent_info=connection.agent_info or msgspec.UNSET,
    )


def _entry_line(entry: Entry) -> _Line:
    fits = entry.kind not in (NOISE, OVERSIZED) and _is_one_line(entry.frame)
    return _Line(
        dir=direction_of(entry.origin, read_message(entry)) if fits else "noise",
        ts=entry.at,
        frame=msgspec.Raw(entry.frame) if fits else msgspec.UNSET,
        bytes=None if fits else base64.b64encode(entry.frame).decode(),
        origin=entry.origin,
        kind=entry.kind,
        connection=entry.connection_id,
        session=entry.session_id,
    )


def _is_one_line(frame: bytes) -> bool:
    try:
        frame.decode()
        msgspec.json.decode(frame)
    except DECODE_ERRORS:
        return False
    return frame.startswith(b"{") and b"\r" not in frame and b"\n" not in frame


def _encoded(line: _Line) -> bytes:
    return msgspec.json.encode(line) + b"\n"


async def import_lines(
    journal: JournalStore, lines: Iterable[bytes], *, new_id: Callable[[], str], agent: str = "", trusted: bool = False
) -> ImportResult:
    """Import an export or a recording. `new_id` makes ids of connections and of recorded sessions; `agent` is the agent
    of a recording."""
    importing = _Import(journal, new_id, agent, trusted)
    await importing.begin()
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            read = msgspec.json.decode(line, type=_Line)
            frame = base64.b64decode(read.bytes, validate=True) if read.bytes is not None else None
        except (*DECODE_ERRORS, binascii.Error) as error:
            await importing.flush()
            before = "; the lines before it were imported" if number > 1 else ""
            raise InputError(f"line {number} cannot be imported: {error}{before}") from error
        importing.add(read, frame)
        if len(importing.entries) >= PAGE_ENTRIES:
            await importing.flush()
    await importing.flush()
    return ImportResult(list(importing.sessions), list(importing.left_out.items()), importing.count)


class _Import:
    def __init__(self, journal: JournalStore, new_id: Callable[[], str], agent: str, trusted: bool) -> None:
        self._journal = journal
        self._new_id = new_id
        self._agent = agent
        self._trusted = trusted
        self._stored_ids: set[str] = set()
        self._deleted: set[tuple[str, str]] = set()
        self._connection_lines: dict[str, _Line] = {}
        self._connections: dict[str, str] = {}
        self._new_connections: list[Connection] = []
        self._numbers: dict[str, int] = {}
        self._readers: dict[str, ConnectionReader] = {}
        self._recorded_ids: dict[tuple[str, str], str] = {}  # in recordings: connection and the agent's id to ours
        self._openings: dict[str, dict[RequestId, _Opening]] = {}  # in recordings, by connection and request
        self.entries: list[Entry] = []
        self.sessions: dict[str, None] = {}
        self.left_out: dict[str, str] = {}
        self.count = 0

    async def begin(self) -> None:
        self._stored_ids = set(await self._journal.session_ids())
        self._deleted = {
            (tombstone.agent, tombstone.agent_session_id) for tombstone in await self._journal.tombstones()
        }

    async def flush(self) -> None:
        for connection in self._new_connections:
            await self._journal.register_connection(connection)
        self._new_connections = []
        if self.entries:
            self.count += len(self.entries)
            entries, self.entries = self.entries, []
            await self._journal.append(entries)

    def add(self, line: _Line, frame: bytes | None) -> None:
        match line.dir:
            case "journal":
                if line.format != FORMAT_VERSION:
                    raise InputError(
                        f"this is an export of format {line.format}; this version reads format {FORMAT_VERSION}"
                    )
            case "connection":
                self._connection_lines[line.id] = line
            case "session":
                self._add_session(line)
            case "in" | "out" | "host" | "noise" if line.origin is not None:
                self._add_exported(line, line.origin, frame)
            case "in" | "out" if line.frame is not msgspec.UNSET:
                self._add_recorded(line, "in" if line.dir == "in" else "out", bytes(line.frame))
            case "noise" if line.line is not None:
                self._put(line, "import", NOISE, None, line.line.encode())
            case _:
                pass  # the beginning or end of a recording

    def _add_session(self, line: _Line) -> None:
        if not self._admit(line.id, line.agent, line.agent_session_id) or self._trusted:
            return  # the frames of a trusted file have this note
        opened = notes.SessionOpened(
            agent=line.agent, cwd=line.cwd, agent_session_id=line.agent_session_id, folders=line.folders
        )
        self._put_opened(line, line.id, opened)

    def _put_opened(self, line: _Line, session_id: str, opened: notes.SessionOpened) -> None:
        note = notes.write(opened)
        self._put(line, "host", note.method, session_id, note.line)

    def _admit(self, session_id: str, agent: str = "", agent_session_id: str = "") -> bool:
        if session_id in self.sessions:
            return True
        if session_id in self.left_out:
            return False
        if session_id in self._stored_ids:
            self.left_out[session_id] = "it is already in the journal, or was deleted"
        elif agent_session_id and (agent, agent_session_id) in self._deleted:
            self.left_out[session_id] = "it was deleted"
        else:
            self.sessions[session_id] = None
            return True
        return False

    def _add_exported(self, line: _Line, origin: Origin, frame: bytes | None) -> None:
        if line.connection == OWN_CONNECTION:
            return  # notes of the other journal about itself
        if line.session is not None and not self._admit(line.session):
            return
        data = frame if frame is not None else bytes(line.frame) if line.frame is not msgspec.UNSET else b""
        assert origin in ORIGINS
        self._put(line, origin if self._trusted else "import", line.kind, line.session, data)

    def _add_recorded(self, line: _Line, direction: str, frame: bytes) -> None:
        reader = self._readers.setdefault(line.connection, ConnectionReader())
        for routed in reader.read("in" if direction == "in" else "out", frame):
            message: Message = routed.message
            if isinstance(message, Request) and message.method in _OPENING_METHODS:
                opening = decode_or_none(message.params, _Opening) or _Opening()
                self._openings.setdefault(line.connection, {})[message.id] = opening
            session_id = None
            if routed.session_id is not None:
                session_id = self._recorded_ids.get((line.connection, routed.session_id))
                if session_id is None:
                    session_id = self._recorded_ids[line.connection, routed.session_id] = self._new_id()
                    if self._admit(session_id, self._agent, routed.session_id):
                        self._put_opened(line, session_id, self._opening_of(line, message, routed.session_id))
                if session_id not in self.sessions:
                    continue
            self._put(line, "import", entry_kind(message), session_id, stored_frame(message))

    def _opening_of(self, line: _Line, message: Message, agent_session_id: str) -> notes.SessionOpened:
        """Return the note for the session that this message opens. Without a matching request, the latest counts."""
        openings = self._openings.get(line.connection, {})
        matching = openings.get(message.id) if isinstance(message, Request | Reply) else None
        opening = matching or next(reversed(openings.values()), _Opening())
        return notes.SessionOpened(
            agent=self._agent,
            cwd=opening.cwd,
            agent_session_id=agent_session_id,
            folders=(opening.cwd, *opening.additionalDirectories) if opening.cwd else (),
        )

    def _put(self, line: _Line, origin: Origin, kind: str, session_id: str | None, frame: bytes) -> None:
        connection_id = self._connection(line)
        n = self._numbers[connection_id] = self._numbers.get(connection_id, 0) + 1
        self.entries.append(Entry(connection_id, session_id, n, line.ts, origin, kind, frame))

    def _connection(self, line: _Line) -> str:
        connection_id = self._connections.get(line.connection)
        if connection_id is None:
            connection_id = self._connections[line.connection] = self._new_id()
            described = self._connection_lines.get(line.connection)
            self._new_connections.append(
                Connection(
                    id=connection_id,
                    agent=described.agent if described else self._agent,
                    at=described.at if described else line.ts,
                    protocol_version=described.protocol_version if described else None,
                    capabilities=_raw(described.capabilities) if described else None,
                    agent_info=_raw(described.agent_info) if described else None,
                )
            )
        return connection_id


def _raw(value: msgspec.Raw | msgspec.UnsetType) -> msgspec.Raw | None:
    return None if value is msgspec.UNSET else msgspec.Raw(bytes(value))
