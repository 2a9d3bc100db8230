"""The ACP side of the replay agent: which recorded session a request means, and `serve`, which plays on a transport.

`Player` is pure: `receive` takes a line of the client, `step` returns the lines that are due, `wake` is the time when
more will be. Sessions are opened in recorded order, under their recorded ids; a client that loads or resumes one by
another id gets it by that id.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Final

import msgspec

from dragoman.agents.replay.frames import Substitutions
from dragoman.agents.replay.playback import ClientRequest, PlaybackOptions, SessionPlayback
from dragoman.agents.replay.recording import (
    CREATING_METHODS,
    NEW,
    OPENING_METHODS,
    PROMPT,
    RecordedFrame,
    Recording,
    Track,
)
from dragoman.errors import INVALID_PARAMS, INVALID_REQUEST, NOT_FOUND, PARSE_ERROR, InputError
from dragoman.wire.framing import LineFramer
from dragoman.wire.messages import DECODE_ERRORS, Envelope, Oversized, RequestId, peek
from dragoman.wire.transport import Transport

LIST: Final = "session/list"


class Player:
    """Plays for one client. `session/new` opens the sessions of the recorded `connection`, counted from 1."""

    def __init__(self, recording: Recording, options: PlaybackOptions | None = None, *, connection: int = 1) -> None:
        if not 1 <= connection <= len(recording.connections):
            count = len(recording.connections)
            there = "1 connection" if count == 1 else f"{count} connections"
            raise InputError(f"the recording has {there}, not {connection}")
        self._options = options or PlaybackOptions()
        self._ids: set[RequestId] = set()  # of our requests
        self._connection_playback = self._new_playback(recording.connections[connection - 1])
        self._connection = connection
        # An export of a journal may not show how a session was opened.
        opened = [track for track in recording.tracks if track.opened]
        self._unopened = opened or [track for track in recording.tracks if track.starting_with(PROMPT)]
        self._tracks = recording.tracks
        self._sessions: dict[str, SessionPlayback] = {}
        for track in recording.tracks:
            if opened and not track.opened:  # it was an error in the recording, and is one now
                self._sessions.update(dict.fromkeys(track.session_ids, self._new_playback(track)))
        self._outgoing: list[bytes] = []
        self._openings: list[tuple[ClientRequest, SessionPlayback, int]] = []

    def _new_playback(self, track: Track) -> SessionPlayback:
        return SessionPlayback(track, Substitutions(track.session_ids, track.cwd), self._options, self._new_id)

    def _new_id(self, recorded: RequestId) -> RequestId:
        number, request_id = 1, recorded
        while request_id in self._ids:
            number += 1
            request_id = f"{recorded}-{number}"
        self._ids.add(request_id)
        return request_id

    # -- input from the client

    def receive(self, line: bytes) -> None:
        if not line.strip():
            return
        envelope = peek(line)
        if envelope.method is None:
            self._on_answer(envelope, line)
        elif envelope.id is None:
            self._on_notification(envelope, line)
        else:
            self._on_request(ClientRequest(envelope.id, envelope.method, line), envelope.session_id)

    def _on_answer(self, envelope: Envelope, line: bytes) -> None:
        if envelope.id is None:
            error = {"code": PARSE_ERROR, "message": "this is no JSON-RPC message"}
            self._outgoing.append(msgspec.json.encode({"jsonrpc": "2.0", "id": None, "error": error}))
        elif any(playback.answer(envelope.id, line) for playback in self._all()):
            self._ids.discard(envelope.id)

    def _on_notification(self, envelope: Envelope, line: bytes) -> None:
        match envelope.method:
            case "session/cancel" if envelope.session_id in self._sessions:
                self._sessions[envelope.session_id].cancel()
            case "$/cancel_request":
                request_id = _read_params(line).requestId
                if request_id is not None:
                    any(playback.withdraw(request_id) for playback in self._all())
            case _:
                pass

    def _on_request(self, request: ClientRequest, session: str | None) -> None:
        if request.method in OPENING_METHODS:
            self._open(request, session)
        elif request.method == LIST and not self._connection_playback.track.starting_with(LIST):
            listed = [{"sessionId": track.session_ids[0], "cwd": track.cwd or "/"} for track in self._tracks]
            self._send_result(request, {"sessions": listed})
        elif session is None:
            self._connection_playback.add_request(request)
        elif (playback := self._sessions.get(session)) is not None:
            playback.add_request(request)
        else:
            self._refuse(request, NOT_FOUND, f"there is no open session {session!r}; {self._known()}")

    def _all(self) -> list[SessionPlayback]:
        return [self._connection_playback, *dict.fromkeys(self._sessions.values())]

    # -- output to the client

    def step(self, now: float) -> list[bytes]:
        """Return the lines that are due, each with its newline."""
        for request, playback, number in self._openings:
            playback.begin(number, request, now)
        self._openings = []
        outgoing, self._outgoing = self._outgoing, []
        for playback in self._all():
            outgoing += playback.step(now)
        return [line + b"\n" for line in outgoing]

    @property
    def wake(self) -> float | None:
        times = [playback.wake for playback in self._all() if playback.wake is not None]
        return min(times, default=None)

    # -- sessions

    def _open(self, request: ClientRequest, session: str | None) -> None:
        cwd = _read_params(request.frame).cwd
        failure = self._connection_playback.next_unplayed(request.method)
        if session is not None and session in self._sessions and request.method not in CREATING_METHODS:
            self._reopen(request, self._sessions[session], session, cwd)
            return
        track = self._find(request.method, session)
        if failure is not None and (track is None or self._failed_before(failure, track, request.method)):
            self._openings.append((request, self._connection_playback, failure))
        elif track is None:
            self._refuse(request, *self._no_session(request.method, session))
        else:
            self._unopened.remove(track)
            playback = self._new_playback(track)
            self._skip_earlier_connections(playback, request.method)
            session_id = None if request.method in CREATING_METHODS else session
            self._sessions.update(dict.fromkeys((*track.session_ids, *([session_id] if session_id else [])), playback))
            self._reopen(request, playback, session_id, cwd)

    def _skip_earlier_connections(self, playback: SessionPlayback, method: str) -> None:
        """Skip what was recorded before our connection, if the session was opened in this way on ours as well."""
        segments = playback.track.segments
        began = self._connection_playback.track.segments[0].first_request.number
        if any(segments[number].first_request.number > began for number in playback.track.starting_with(method)):
            playback.skip(number for number, segment in enumerate(segments) if segment.first_request.number < began)

    def _reopen(self, request: ClientRequest, playback: SessionPlayback, session: str | None, cwd: str) -> None:
        if playback.busy:
            self._refuse(
                request, INVALID_REQUEST, f"{request.method}: a prompt of this session is running; cancel it first"
            )
            return
        playback.substitutions.set_client_names(session, cwd)
        number = playback.next_unplayed(request.method)
        if number is not None:
            self._openings.append((request, playback, number))
            return
        if request.method == "session/load":
            self._outgoing += [playback.substitutions.to_client(frame) for frame in history_frames(playback.track)]
            playback.skip(range(len(playback.track.segments)))
        named = {"sessionId": playback.track.session_ids[0]} if request.method in CREATING_METHODS else {}
        self._send_result(request, {**named, **opening_settings(playback.track)})

    def _find(self, method: str, session: str | None) -> Track | None:
        """Return the track with this session id; otherwise the next that was opened by the same method."""
        if method not in CREATING_METHODS:
            for track in self._unopened:
                if session in track.session_ids:
                    return track
        ours = [track for track in self._unopened if method != NEW or track.connection == self._connection]
        for track in ours:
            if track.starting_with(method):
                return track
        # If every recorded session was loaded or resumed, a new session is the recorded one all the same.
        never = method == NEW and not any(track.starting_with(NEW) for track in self._tracks)
        return next(iter(ours), None) if never else None

    def _failed_before(self, failure: int, track: Track, method: str) -> bool:
        """Return whether the request was refused in the recording before it succeeded."""
        leads = [track.segments[number].first_request.number for number in track.starting_with(method)]
        return not leads or self._connection_playback.track.segments[failure].first_request.number < leads[0]

    def _no_session(self, method: str, session: str | None) -> tuple[int, str]:
        if method in CREATING_METHODS:
            there = sum(
                bool(track.starting_with(method)) for track in self._tracks if track.connection == self._connection
            )
            had = f"has {there}, all of them open already," if there else "has none"
            return INVALID_REQUEST, f"{method}: the recording {had} of the sessions that were opened in this way"
        if session is None:
            return INVALID_PARAMS, f"{method}: sessionId is missing"
        return NOT_FOUND, f"the recording has no session {session!r}; {self._known()}"

    def _known(self) -> str:
        return f"recorded sessions: {', '.join(track.session_ids[0] for track in self._tracks) or 'none'}"

    def _send_result(self, request: ClientRequest, result: object) -> None:
        self._outgoing.append(msgspec.json.encode({"jsonrpc": "2.0", "id": request.id, "result": result}))

    def _refuse(self, request: ClientRequest, code: int, message: str) -> None:
        error = {"code": code, "message": message}
        self._outgoing.append(msgspec.json.encode({"jsonrpc": "2.0", "id": request.id, "error": error}))


class _Params(msgspec.Struct, frozen=True):
    cwd: str = ""
    requestId: RequestId | None = None  # noqa: N815 (the wire's name)


class _Message(msgspec.Struct, frozen=True):
    params: _Params = _Params()


def _read_params(frame: bytes) -> _Params:
    """Decode the params that matter here; defaults if the frame cannot be decoded."""
    try:
        return msgspec.json.decode(frame, type=_Message).params
    except DECODE_ERRORS:
        return _Params()


# -- history, for sessions whose recording has no `session/load` of its own


class _Prompt(msgspec.Struct, frozen=True):
    prompt: tuple[msgspec.Raw, ...] = ()


class _PromptRequest(msgspec.Struct, frozen=True):
    params: _Prompt = _Prompt()


class _Answer(msgspec.Struct, frozen=True):
    result: dict[str, msgspec.Raw]


def history_frames(track: Track) -> Iterator[bytes]:
    """Yield the updates of all runs, each run with the user's prompt first."""
    for segment in track.segments:
        if segment.first_request.method != PROMPT:
            continue
        for step in segment.steps:
            if step.method == PROMPT and step.kind == "request":
                yield from _user_message_frames(track.session_ids[0], step)
            elif step.method == "session/update":
                yield step.frame


def opening_settings(track: Track) -> Mapping[str, msgspec.Raw]:
    """Return the modes and options that the agent reported when the session was opened."""
    for segment in track.segments:
        if segment.first_request.method in OPENING_METHODS:
            for step in segment.steps:
                if step.kind == "answer" and step.id == segment.first_request.id and step.sender == "agent":
                    try:
                        result = msgspec.json.decode(step.frame, type=_Answer).result
                    except DECODE_ERRORS:
                        continue  # the request was refused
                    return {name: value for name, value in result.items() if name != "sessionId"}
    return {}


def _user_message_frames(session_id: str, step: RecordedFrame) -> Iterator[bytes]:
    try:
        blocks = msgspec.json.decode(step.frame, type=_PromptRequest).params.prompt
    except DECODE_ERRORS:
        return
    for block in blocks:
        update = {"sessionUpdate": "user_message_chunk", "content": block}
        params = {"sessionId": session_id, "update": update}
        yield msgspec.json.encode({"jsonrpc": "2.0", "method": "session/update", "params": params})


async def serve(transport: Transport, player: Player, clock: Callable[[], float] = time.monotonic) -> None:
    """Play until the client closes its side."""
    framer = LineFramer()
    reading = asyncio.ensure_future(transport.read())
    try:
        while True:
            pause = None if player.wake is None else max(0.0, player.wake - clock())
            await asyncio.wait([reading], timeout=pause)
            if reading.done():
                data = reading.result()
                if not data:
                    return
                for line in framer.feed(data):
                    if not isinstance(line, Oversized):
                        player.receive(line)
                        # After each line, so that a prompt has begun when a cancel follows in the same chunk.
                        _write(transport, player.step(clock()))
                reading = asyncio.ensure_future(transport.read())
            else:
                _write(transport, player.step(clock()))
            await transport.drain()
    finally:
        reading.cancel()
        await asyncio.wait([reading])


def _write(transport: Transport, lines: list[bytes]) -> None:
    if lines:
        transport.write(b"".join(lines))
