"""JSON Lines to a script: recordings as `dragoman.testing.tee` makes them, and exports of a journal.

Of an export of one session the journal gives no handshake: `initialize` is then answered from what the journal knows
of the connection. Noise is not played: a recording does not tell who said it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar, overload

import msgspec

from dragoman.agents.replay.script import NAMING, OPENINGS, Party, Recording, Step, Track, cut
from dragoman.errors import InputError
from dragoman.wire.messages import DECODE_ERRORS, Envelope, RequestId, peek

_T = TypeVar("_T", bound=msgspec.Struct)


class _Line(msgspec.Struct, frozen=True):
    """Of all kinds of lines, what matters here."""

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


class _Placed:
    """A step, and the session that it is of, which for some is known only later."""

    def __init__(self, step: Step, connection: int, session: str | None, like: _Placed | None = None) -> None:
        self.step = step
        self.connection = connection
        self.session = session
        self.like = like  # what names no session is of the same one as this

    def key(self) -> str | None:
        placed = self
        while placed.session is None and placed.like is not None:
            placed = placed.like
        return placed.session


def read_recording(lines: Iterable[bytes], *, name: str = "the recording") -> Recording:
    """The script of a recording; an `InputError` names the line that is none."""
    reader = _Reader()
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            read = msgspec.json.decode(line, type=_Line)
        except DECODE_ERRORS as problem:
            raise InputError(
                f"{name}, line {number}: {problem}",
                guidance='A recording has a JSON object a line: {"dir": "in" or "out", "ts": …, "frame": {…}}.',
            ) from problem
        reader.add(number, read)
    recording = reader.recording()
    if not any(track.stretches for track in (*recording.desks, *recording.tracks)):
        raise InputError(
            f"{name} has no request of a client's in it: there is nothing to play",
            guidance="Record with `python -m dragoman.testing.tee FILE.jsonl -- COMMAND…`, or name a session.",
        )
    return recording


class _Reader:
    def __init__(self) -> None:
        self._placed: list[_Placed] = []
        self._open: dict[tuple[int, Party, RequestId], _Placed] = {}  # requests without an answer
        self._asked: dict[int, _Placed] = {}  # of each connection, the last request of the client's
        self._greeted: set[int] = set()
        self._connections: dict[str, int] = {}
        self._count = 0
        self._told: dict[str, _Line] = {}  # of a journal: what it knows of connections
        self._cwds: dict[str, str] = {}  # the same of sessions
        self._ids: dict[str, dict[str, None]] = {}  # of each session, the agent's own
        self._renamed: dict[str, str] = {}

    def add(self, number: int, line: _Line) -> None:
        match line.dir:
            case "connection":
                self._told[line.id] = line
            case "session":
                self._cwds[line.id] = line.cwd
            case "in" | "out" if line.frame is not msgspec.UNSET:
                frame = bytes(line.frame)
                self._frame(number, line, frame, "agent" if line.dir == "in" else "client", peek(frame))
            case _:
                pass  # noise, what the host noted, how a recording began or ended

    def _frame(self, number: int, line: _Line, frame: bytes, by: Party, told: Envelope) -> None:
        if told.id is None and told.method is None:
            return
        connection = self._connection(line, by, told)
        if told.method is None:
            self._answer(connection, line, Step(number, by, "answer", line.kind, told.id, line.ts, frame), told)
        elif told.id is None:
            step = Step(number, by, "notification", told.method, None, line.ts, frame)
            self._put(connection, step, self._session(line, told.session), self._asked.get(connection))
        else:
            step = Step(number, by, "request", told.method, told.id, line.ts, frame)
            # A fork is asked of one session and opens another, which its answer names.
            session = None if told.method in NAMING else self._session(line, told.session)
            like = self._questioned(connection, step) if by == "agent" else None
            one = self._open[connection, by, told.id] = self._put(connection, step, session, like)
            if by == "client":
                self._asked[connection] = one

    def _answer(self, connection: int, line: _Line, step: Step, told: Envelope) -> None:
        assert told.id is not None
        asked = self._open.pop((connection, "client" if step.by == "agent" else "agent", told.id), None)
        like = asked or self._asked.get(connection)
        session = line.session
        if asked is not None:
            step = msgspec.structs.replace(step, method=asked.step.method)
        if step.method in NAMING and told.new_session is not None:
            session = self._session(line, told.new_session)
            if asked is not None:
                asked.session = session
            else:
                self._invent(step, connection, session)
        elif step.method in OPENINGS and told.new_session is not None and asked is not None:
            # Some agents give a session another id when it is resumed.
            self._renamed.setdefault(told.new_session, asked.session or told.new_session)
            self._session(line, told.new_session)
        self._put(connection, step, session, like)

    def _put(self, connection: int, step: Step, session: str | None, like: _Placed | None = None) -> _Placed:
        self._placed.append(placed := _Placed(step, connection, session, like))
        return placed

    @overload
    def _session(self, line: _Line, agents: str) -> str: ...
    @overload
    def _session(self, line: _Line, agents: str | None) -> str | None: ...
    def _session(self, line: _Line, agents: str | None) -> str | None:
        """The session's name here: the journal's, or the first that the agent had for it."""
        if agents is None:
            return line.session
        session = line.session or self._renamed.get(agents, agents)
        self._ids.setdefault(session, {})[agents] = None
        return session

    def _connection(self, line: _Line, by: Party, told: Envelope) -> int:
        """A client says `initialize` once: where it comes again, another connection has begun."""
        greets = by == "client" and told.method == "initialize" and told.id is not None
        known = self._connections.get(line.connection)
        if known is None or (greets and known in self._greeted):
            self._count += 1
            known = self._connections[line.connection] = self._count
        if greets:
            self._greeted.add(known)
        return known

    def _questioned(self, connection: int, step: Step) -> _Placed | None:
        """A question may name the request that it is about in place of a session."""
        about = _decoded(step.frame, _Question).requestId
        asked = None if about is None else self._open.get((connection, "client", about))
        return asked or self._asked.get(connection)

    def _invent(self, answer: Step, connection: int, session: str) -> None:
        """The journal keeps the request for a new session with the connection, and only the answer with the session."""
        request = msgspec.json.encode({"jsonrpc": "2.0", "id": answer.id, "method": answer.method, "params": {}})
        step = Step(0, "client", "request", answer.method, answer.id, answer.at, request)
        first = next((at for at, one in enumerate(self._placed) if one.key() == session), len(self._placed))
        self._placed.insert(first, _Placed(step, connection, session))

    def recording(self) -> Recording:
        desks: dict[int, list[Step]] = {number: [] for number in range(1, self._count + 1)}
        tracks: dict[str, list[_Placed]] = {}
        for one in self._placed:
            session = one.key()
            if session is None:
                desks[one.connection].append(one.step)
            else:
                tracks.setdefault(session, []).append(one)
        names = {number: name for name, number in self._connections.items()}
        return Recording(
            desks=tuple(
                Track((), number, "", cut(self._greeting(names.get(number, ""), steps)))
                for number, steps in desks.items()
            ),
            tracks=tuple(self._track(session, placed) for session, placed in tracks.items()),
        )

    def _track(self, session: str, placed: Sequence[_Placed]) -> Track:
        openings = (one.step for one in placed if one.step.method in OPENINGS and one.step.kind == "request")
        cwds = (_decoded(step.frame, _Opening).cwd for step in openings)
        cwd = self._cwds.get(session) or next((cwd for cwd in cwds if cwd), "")
        ids = tuple(self._ids.get(session, {session: None}))
        return Track(ids, placed[0].connection, cwd, cut(one.step for one in placed))

    def _greeting(self, connection: str, steps: list[Step]) -> list[Step]:
        """With a handshake, where the lines have none: as far as the journal knows what it came to."""
        if any(step.method == "initialize" for step in steps):
            return steps
        told = self._told.get(connection, _Line(dir="connection"))
        answer: dict[str, object] = {"protocolVersion": told.protocol_version or 1}
        if told.capabilities is not msgspec.UNSET:
            answer["agentCapabilities"] = told.capabilities
        if told.agent_info is not msgspec.UNSET:
            answer["agentInfo"] = told.agent_info
        asked = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {}}
        said = {"jsonrpc": "2.0", "id": 0, "result": answer}
        return [
            Step(0, "client", "request", "initialize", 0, 0.0, msgspec.json.encode(asked)),
            Step(0, "agent", "answer", "initialize", 0, 0.0, msgspec.json.encode(said)),
            *steps,
        ]


def _decoded(frame: bytes, kind: type[_T]) -> _T:
    """The frame's params; the defaults where they cannot be read."""
    try:
        return msgspec.json.decode(msgspec.json.decode(frame, type=_WithParams).params, type=kind)
    except DECODE_ERRORS:
        return kind()
