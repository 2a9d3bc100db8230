"""Recordings as a script of segments: read from JSON Lines, sorted by session, split where the client has the word.

Reads recordings that `dragoman.testing.tee` makes, and exports of a journal. An export of one session has no handshake:
`initialize` is then answered from what the journal knows of the connection. Noise is not played, because a recording
does not say who wrote it. Pure: no I/O, no clock.

A *segment* begins with a request of the client that came when none was open, and lasts until the next such request: a
prompt, all that the agent sent and requested, its answer, and what it sent after that. A second prompt that came while
the first was open is part of the segment. A *track* has all segments of one session; frames of a connection as a whole
are a track too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, TypeAlias, TypeVar, overload

import msgspec

from dragoman.errors import InputError
from dragoman.wire.messages import DECODE_ERRORS, Envelope, RequestId, peek

Sender: TypeAlias = Literal["client", "agent"]

PROMPT = "session/prompt"
CANCEL = "session/cancel"
NEW = "session/new"
# Methods by which a client opens a session.
OPENING_METHODS = (NEW, "session/load", "session/resume", "session/fork")
# Those whose answers have the id of a new session.
CREATING_METHODS = (NEW, "session/fork")


class RecordedFrame(msgspec.Struct, frozen=True):
    """`method` of an answer is that of its request; `number` is the line in the recording, `at` the time in seconds."""

    number: int
    sender: Sender
    kind: Literal["request", "notification", "answer"]
    method: str
    id: RequestId | None
    at: float
    frame: bytes


class Segment(msgspec.Struct, frozen=True):
    """A request of the client and all frames until the next one; `steps[0]` is that request."""

    steps: tuple[RecordedFrame, ...]

    @property
    def first_request(self) -> RecordedFrame:
        return self.steps[0]


class Track(msgspec.Struct, frozen=True):
    """`session_ids` are the agent's own: they may change when a session is resumed. `connection` counts from 1."""

    session_ids: tuple[str, ...]
    connection: int
    cwd: str
    segments: tuple[Segment, ...]

    def starting_with(self, method: str) -> list[int]:
        """Return the numbers of the segments whose first request has this method."""
        return [number for number, segment in enumerate(self.segments) if segment.first_request.method == method]

    @property
    def opened(self) -> bool:
        """Return whether the recording shows how the session was opened."""
        return any(segment.first_request.method in OPENING_METHODS for segment in self.segments)


class Recording(msgspec.Struct, frozen=True):
    """`connections` has a track for each connection, with the frames of no session; `tracks` has the sessions."""

    connections: tuple[Track, ...]
    tracks: tuple[Track, ...]


def split_segments(steps: Iterable[RecordedFrame]) -> tuple[Segment, ...]:
    """Split the frames of a track into segments. Frames before the first request belong to its segment."""
    early: list[RecordedFrame] = []
    segments: list[list[RecordedFrame]] = []
    unanswered: set[RequestId | None] = set()
    for step in steps:
        is_request = step.sender == "client" and step.kind == "request"
        if is_request and not unanswered:
            segments.append([step, *early])
            early = []
        elif segments:
            segments[-1].append(step)
        else:
            early.append(step)
        if is_request:
            unanswered.add(step.id)
        elif step.sender == "agent" and step.kind == "answer":
            unanswered.discard(step.id)
    return tuple(Segment(tuple(steps)) for steps in segments)


_T = TypeVar("_T", bound=msgspec.Struct)


class _Line(msgspec.Struct, frozen=True):
    """The fields of all kinds of lines that matter here."""

    dir: str
    ts: float = 0.0
    frame: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    kind: str = ""
    connection: str = ""
    session: str | None = None
    id: str = ""
    cwd: str = ""
    protocol_version: int | None = None
    capabilities: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    agent_info: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class _Opening(msgspec.Struct, frozen=True):
    cwd: str = ""


class _Question(msgspec.Struct, frozen=True):
    requestId: RequestId | None = None  # noqa: N815 (the wire's name)


class _WithParams(msgspec.Struct, frozen=True):
    params: msgspec.Raw = msgspec.Raw(b"{}")


class _PlacedFrame:
    """A frame and its session, which may become known only later."""

    def __init__(
        self, step: RecordedFrame, connection: int, session: str | None, same_session_as: _PlacedFrame | None = None
    ) -> None:
        self.step = step
        self.connection = connection
        self.session = session
        self.same_session_as = same_session_as  # a frame that names no session belongs to this one's

    def key(self) -> str | None:
        placed = self
        while placed.session is None and placed.same_session_as is not None:
            placed = placed.same_session_as
        return placed.session


def read_recording(lines: Iterable[bytes], *, name: str = "the recording") -> Recording:
    """Read a recording; an `InputError` names the line that is not part of one."""
    reader = _Reader()
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            decoded = msgspec.json.decode(line, type=_Line)
        except DECODE_ERRORS as error:
            raise InputError(
                f"{name}, line {number}: {error}",
                guidance='A recording has a JSON object a line: {"dir": "in" or "out", "ts": …, "frame": {…}}.',
            ) from error
        reader.add(number, decoded)
    recording = reader.recording()
    if not any(track.segments for track in (*recording.connections, *recording.tracks)):
        raise InputError(
            f"{name} has no request of a client: there is nothing to play",
            guidance="Record with `python -m dragoman.testing.tee FILE.jsonl -- COMMAND…`, or name a session.",
        )
    return recording


class _Reader:
    def __init__(self) -> None:
        self._placed: list[_PlacedFrame] = []
        self._open_requests: dict[tuple[int, Sender, RequestId], _PlacedFrame] = {}  # requests without an answer
        self._last_requests: dict[int, _PlacedFrame] = {}  # by connection: the last request of the client
        self._initialized: set[int] = set()
        self._connections: dict[str, int] = {}
        self._count = 0
        self._connection_lines: dict[str, _Line] = {}  # by connection: what an exported journal knows of it
        self._cwds: dict[str, str] = {}  # by session
        self._ids: dict[str, dict[str, None]] = {}  # by session: the agent's own ids
        self._renamed: dict[str, str] = {}

    def add(self, number: int, line: _Line) -> None:
        match line.dir:
            case "connection":
                self._connection_lines[line.id] = line
            case "session":
                self._cwds[line.id] = line.cwd
            case "in" | "out" if line.frame is not msgspec.UNSET:
                frame = bytes(line.frame)
                self._frame(number, line, frame, "agent" if line.dir == "in" else "client", peek(frame))
            case _:
                pass  # noise, notes of the host, the beginning or end of a recording

    def _frame(self, number: int, line: _Line, frame: bytes, by: Sender, envelope: Envelope) -> None:
        if envelope.id is None and envelope.method is None:
            return
        connection = self._connection(line, by, envelope)
        if envelope.method is None:
            self._answer(
                connection, line, RecordedFrame(number, by, "answer", line.kind, envelope.id, line.ts, frame), envelope
            )
        elif envelope.id is None:
            step = RecordedFrame(number, by, "notification", envelope.method, None, line.ts, frame)
            self._append(
                connection, step, self._session(line, envelope.session_id), self._last_requests.get(connection)
            )
        else:
            step = RecordedFrame(number, by, "request", envelope.method, envelope.id, line.ts, frame)
            # A fork names one session and opens another, whose id is in its answer.
            session = None if envelope.method in CREATING_METHODS else self._session(line, envelope.session_id)
            same_session_as = self._subject_of(connection, step) if by == "agent" else None
            placed = self._open_requests[connection, by, envelope.id] = self._append(
                connection, step, session, same_session_as
            )
            if by == "client":
                self._last_requests[connection] = placed

    def _answer(self, connection: int, line: _Line, step: RecordedFrame, envelope: Envelope) -> None:
        assert envelope.id is not None
        request = self._open_requests.pop(
            (connection, "client" if step.sender == "agent" else "agent", envelope.id), None
        )
        same_session_as = request or self._last_requests.get(connection)
        session = line.session
        if request is not None:
            step = msgspec.structs.replace(step, method=request.step.method)
        if step.method in CREATING_METHODS and envelope.new_session_id is not None:
            session = self._session(line, envelope.new_session_id)
            if request is not None:
                request.session = session
            else:
                self._insert_request(step, connection, session)
        elif step.method in OPENING_METHODS and envelope.new_session_id is not None and request is not None:
            # Some agents give a session another id when it is resumed.
            self._renamed.setdefault(envelope.new_session_id, request.session or envelope.new_session_id)
            self._session(line, envelope.new_session_id)
        self._append(connection, step, session, same_session_as)

    def _append(
        self, connection: int, step: RecordedFrame, session: str | None, same_session_as: _PlacedFrame | None = None
    ) -> _PlacedFrame:
        self._placed.append(placed := _PlacedFrame(step, connection, session, same_session_as))
        return placed

    @overload
    def _session(self, line: _Line, agents: str) -> str: ...
    @overload
    def _session(self, line: _Line, agents: str | None) -> str | None: ...
    def _session(self, line: _Line, agents: str | None) -> str | None:
        """Return our name of a session: the journal's id, or the first id that the agent used."""
        if agents is None:
            return line.session
        session = line.session or self._renamed.get(agents, agents)
        self._ids.setdefault(session, {})[agents] = None
        return session

    def _connection(self, line: _Line, by: Sender, envelope: Envelope) -> int:
        """Return the connection of a line. A second `initialize` begins another connection."""
        initializes = by == "client" and envelope.method == "initialize" and envelope.id is not None
        number = self._connections.get(line.connection)
        if number is None or (initializes and number in self._initialized):
            self._count += 1
            number = self._connections[line.connection] = self._count
        if initializes:
            self._initialized.add(number)
        return number

    def _subject_of(self, connection: int, step: RecordedFrame) -> _PlacedFrame | None:
        """Return the request that a question is about: it may name a request instead of a session."""
        about = _decode_params(step.frame, _Question).requestId
        request = None if about is None else self._open_requests.get((connection, "client", about))
        return request or self._last_requests.get(connection)

    def _insert_request(self, answer: RecordedFrame, connection: int, session: str) -> None:
        """Insert the request for a new session, which a journal stores with the connection, not with the session."""
        frame = msgspec.json.encode({"jsonrpc": "2.0", "id": answer.id, "method": answer.method, "params": {}})
        step = RecordedFrame(0, "client", "request", answer.method, answer.id, answer.at, frame)
        first = next((at for at, placed in enumerate(self._placed) if placed.key() == session), len(self._placed))
        self._placed.insert(first, _PlacedFrame(step, connection, session))

    def recording(self) -> Recording:
        connections: dict[int, list[RecordedFrame]] = {number: [] for number in range(1, self._count + 1)}
        tracks: dict[str, list[_PlacedFrame]] = {}
        for placed in self._placed:
            session = placed.key()
            if session is None:
                connections[placed.connection].append(placed.step)
            else:
                tracks.setdefault(session, []).append(placed)
        names = {number: name for name, number in self._connections.items()}
        return Recording(
            connections=tuple(
                Track((), number, "", split_segments(self._with_handshake(names.get(number, ""), steps)))
                for number, steps in connections.items()
            ),
            tracks=tuple(self._track(session, placed) for session, placed in tracks.items()),
        )

    def _track(self, session: str, placed: Sequence[_PlacedFrame]) -> Track:
        openings = (
            frame.step for frame in placed if frame.step.method in OPENING_METHODS and frame.step.kind == "request"
        )
        cwds = (_decode_params(step.frame, _Opening).cwd for step in openings)
        cwd = self._cwds.get(session) or next((cwd for cwd in cwds if cwd), "")
        ids = tuple(self._ids.get(session, {session: None}))
        return Track(ids, placed[0].connection, cwd, split_segments(frame.step for frame in placed))

    def _with_handshake(self, connection: str, steps: list[RecordedFrame]) -> list[RecordedFrame]:
        """Add a handshake if there is none, from what the journal knows of the connection."""
        if any(step.method == "initialize" for step in steps):
            return steps
        line = self._connection_lines.get(connection, _Line(dir="connection"))
        answer: dict[str, object] = {"protocolVersion": line.protocol_version or 1}
        if line.capabilities is not msgspec.UNSET:
            answer["agentCapabilities"] = line.capabilities
        if line.agent_info is not msgspec.UNSET:
            answer["agentInfo"] = line.agent_info
        request = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {}}
        response = {"jsonrpc": "2.0", "id": 0, "result": answer}
        return [
            RecordedFrame(0, "client", "request", "initialize", 0, 0.0, msgspec.json.encode(request)),
            RecordedFrame(0, "agent", "answer", "initialize", 0, 0.0, msgspec.json.encode(response)),
            *steps,
        ]


def _decode_params(frame: bytes, kind: type[_T]) -> _T:
    """Decode the params of a frame; defaults if they cannot be decoded."""
    try:
        return msgspec.json.decode(msgspec.json.decode(frame, type=_WithParams).params, type=kind)
    except DECODE_ERRORS:
        return kind()
