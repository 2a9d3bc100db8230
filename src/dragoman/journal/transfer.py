"""Export and import: a journal, or a session of it, as JSON Lines; recordings of connections read the same way.

    {"dir": "journal", "format": 1}
    {"dir": "connection", "id": "…", "agent": "…", "at": …}
    {"dir": "session", "id": "…", "agent": "…", "cwd": "…", "agent_session_id": "…", "folders": []}
    {"dir": "in", "ts": 1794724271.9, "frame": {…}, "origin": "agent", "kind": "…", "connection": "…", "session": "…"}
    {"dir": "noise", "ts": …, "bytes": "base64", "origin": …}

Frames stand there byte by byte; one that cannot stand in a line of JSON is `bytes`. A line with only `dir`, `ts` and
`frame` is a recording's, and its sessions are told apart by the agent's ids.

What is imported counts as said by nobody we know: its origin is `import`, and what it claims the host noted is not
believed, unless the caller vouches for it (`trusted`). A session that is here already, or was deleted, stays as it is.
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

FORMAT = 1

_OPENING = ("session/new", "session/load", "session/resume", "session/fork")


class _Line(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    dir: str
    format: int | None = None
    ts: float = 0.0
    frame: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    bytes: str | None = None
    line: str | None = None  # of a recording: noise, as far as it could be read
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
    """What a request that opens a session says of its workspace; names as on the wire."""

    cwd: str = ""
    additionalDirectories: tuple[str, ...] = ()  # noqa: N815


class Imported(msgspec.Struct, frozen=True):
    """What came of an import: the sessions that are here now, and those that were left out, with the reason."""

    sessions: Sequence[str]
    left_out: Sequence[tuple[str, str]]
    frames: int


async def export(journal: JournalStore, session_id: str | None = None) -> AsyncIterator[bytes]:
    """Lines, each with its newline. Of one session: it alone, and the connections that it was on."""
    yield _encoded(_Line(dir="journal", format=FORMAT))
    connections = {connection.id: connection for connection in await journal.connections()}
    if session_id is None:
        for connection in connections.values():
            yield _encoded(_line_of_connection(connection))
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
            if entry.connection_id in connections:  # told once, before its first frame
                yield _encoded(_line_of_connection(connections.pop(entry.connection_id)))
            yield _encoded(_line_of(entry))
        cursor = page.cursor


def _line_of_connection(connection: Connection) -> _Line:
    return _Line(
        dir="connection",
        id=connection.id,
        agent=connection.agent,
        at=connection.at,
        protocol_version=connection.protocol_version,
        capabilities=connection.capabilities or msgspec.UNSET,
        agent_info=connection.agent_info or msgspec.UNSET,
    )


def _line_of(entry: Entry) -> _Line:
    stands = entry.kind not in (NOISE, OVERSIZED) and _is_one_line(entry.frame)
    return _Line(
        dir=direction_of(entry.origin, read_message(entry)) if stands else "noise",
        ts=entry.at,
        frame=msgspec.Raw(entry.frame) if stands else msgspec.UNSET,
        bytes=None if stands else base64.b64encode(entry.frame).decode(),
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
) -> Imported:
    """`new_id` names connections, and sessions of recordings; `agent` is whose recording it is."""
    importing = _Import(journal, new_id, agent, trusted)
    await importing.begin()
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            read = msgspec.json.decode(line, type=_Line)
            frame = base64.b64decode(read.bytes, validate=True) if read.bytes is not None else None
        except (*DECODE_ERRORS, binascii.Error) as problem:
            await importing.flush()
            raise InputError(f"line {number} cannot be imported: {problem}; the lines before it are") from problem
        importing.add(read, frame)
        if len(importing.entries) >= PAGE_ENTRIES:
            await importing.flush()
    await importing.flush()
    return Imported(list(importing.sessions), list(importing.left_out.items()), importing.count)


class _Import:
    def __init__(self, journal: JournalStore, new_id: Callable[[], str], agent: str, trusted: bool) -> None:
        self._journal = journal
        self._new_id = new_id
        self._agent = agent
        self._trusted = trusted
        self._here: set[str] = set()
        self._deleted: set[tuple[str, str]] = set()
        self._told: dict[str, _Line] = {}  # what the file says of connections
        self._connections: dict[str, str] = {}
        self._new: list[Connection] = []
        self._numbers: dict[str, int] = {}
        self._conversations: dict[str, ConnectionReader] = {}
        self._recorded: dict[tuple[str, str], str] = {}  # of recordings: the agent's id to ours
        self._openings: dict[str, dict[RequestId, _Opening]] = {}  # of recordings: requests that open a session
        self.entries: list[Entry] = []
        self.sessions: dict[str, None] = {}
        self.left_out: dict[str, str] = {}
        self.count = 0

    async def begin(self) -> None:
        self._here = set(await self._journal.session_ids())
        self._deleted = {(one.agent, one.agent_session_id) for one in await self._journal.tombstones()}

    async def flush(self) -> None:
        for connection in self._new:
            await self._journal.register_connection(connection)
        self._new = []
        if self.entries:
            self.count += len(self.entries)
            entries, self.entries = self.entries, []
            await self._journal.append(entries)

    def add(self, line: _Line, frame: bytes | None) -> None:
        match line.dir:
            case "journal":
                if line.format != FORMAT:
                    raise InputError(f"an export of format {line.format}; this Dragoman reads format {FORMAT}")
            case "connection":
                self._told[line.id] = line
            case "session":
                self._session(line)
            case "in" | "out" | "host" | "noise" if line.origin is not None:
                self._exported(line, line.origin, frame)
            case "in" | "out" if line.frame is not msgspec.UNSET:
                self._from_recording(line, "in" if line.dir == "in" else "out", bytes(line.frame))
            case "noise" if line.line is not None:
                self._put(line, "import", NOISE, None, line.line.encode())
            case _:
                pass  # how a recording began or ended

    def _session(self, line: _Line) -> None:
        if not self._admitted(line.id, line.agent, line.agent_session_id) or self._trusted:
            return  # trusted: its own frames say so
        opened = notes.SessionOpened(
            agent=line.agent, cwd=line.cwd, agent_session_id=line.agent_session_id, folders=line.folders
        )
        self._opened(line, line.id, opened)

    def _opened(self, line: _Line, session_id: str, opened: notes.SessionOpened) -> None:
        note = notes.write(opened)
        self._put(line, "host", note.method, session_id, note.line)

    def _admitted(self, session_id: str, agent: str = "", agent_session_id: str = "") -> bool:
        if session_id in self.sessions:
            return True
        if session_id in self.left_out:
            return False
        if session_id in self._here:
            self.left_out[session_id] = "it is here already, or was deleted"
        elif agent_session_id and (agent, agent_session_id) in self._deleted:
            self.left_out[session_id] = "it was deleted"
        else:
            self.sessions[session_id] = None
            return True
        return False

    def _exported(self, line: _Line, origin: Origin, frame: bytes | None) -> None:
        if line.connection == OWN_CONNECTION:
            return  # what was done to the other journal
        if line.session is not None and not self._admitted(line.session):
            return
        data = frame if frame is not None else bytes(line.frame) if line.frame is not msgspec.UNSET else b""
        assert origin in ORIGINS
        self._put(line, origin if self._trusted else "import", line.kind, line.session, data)

    def _from_recording(self, line: _Line, direction: str, frame: bytes) -> None:
        conversation = self._conversations.setdefault(line.connection, ConnectionReader())
        for heard in conversation.read("in" if direction == "in" else "out", frame):
            message: Message = heard.message
            if isinstance(message, Request) and message.method in _OPENING:
                asked = decode_or_none(message.params, _Opening) or _Opening()
                self._openings.setdefault(line.connection, {})[message.id] = asked
            session_id = None
            if heard.session_id is not None:
                session_id = self._recorded.get((line.connection, heard.session_id))
                if session_id is None:
                    session_id = self._recorded[line.connection, heard.session_id] = self._new_id()
                    if self._admitted(session_id, self._agent, heard.session_id):
                        self._opened(line, session_id, self._opening_of(line, message, heard.session_id))
                if session_id not in self.sessions:
                    continue
            self._put(line, "import", entry_kind(message), session_id, stored_frame(message))

    def _opening_of(self, line: _Line, message: Message, agent_session_id: str) -> notes.SessionOpened:
        """By the request that it is, or answers; what comes before the answer is of the latest one."""
        asked = self._openings.get(line.connection, {})
        named = asked.get(message.id) if isinstance(message, Request | Reply) else None
        opening = named or next(reversed(asked.values()), _Opening())
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
        known = self._connections.get(line.connection)
        if known is None:
            known = self._connections[line.connection] = self._new_id()
            told = self._told.get(line.connection)
            self._new.append(
                Connection(
                    id=known,
                    agent=told.agent if told else self._agent,
                    at=told.at if told else line.ts,
                    protocol_version=told.protocol_version if told else None,
                    capabilities=_raw(told.capabilities) if told else None,
                    agent_info=_raw(told.agent_info) if told else None,
                )
            )
        return known


def _raw(value: msgspec.Raw | msgspec.UnsetType) -> msgspec.Raw | None:
    return None if value is msgspec.UNSET else msgspec.Raw(bytes(value))
