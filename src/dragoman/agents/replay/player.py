"""The ACP side of the replay agent: which recorded session a request means, and who it is passed to.

Pure: `hear` takes a line of the client's, `step` gives the lines that are due by now, `wake` tells when more will be.
Sessions are given out in the order in which they were recorded, under their recorded ids; a client that loads or
resumes one by another id gets it by that id.
"""

from __future__ import annotations

from typing import Final

import msgspec

from dragoman.agents.replay.act import Asked, Manner
from dragoman.agents.replay.history import history, settings
from dragoman.agents.replay.names import Names
from dragoman.agents.replay.playing import Playing
from dragoman.agents.replay.script import NAMING, NEW, OPENINGS, PROMPT, Recording, Track
from dragoman.errors import INVALID_PARAMS, INVALID_REQUEST, NOT_FOUND, PARSE_ERROR, InputError
from dragoman.wire.messages import DECODE_ERRORS, Envelope, RequestId, peek

LIST: Final = "session/list"


class Player:
    """One client. `connection`, counted from 1, is the recorded one whose sessions `session/new` gives out."""

    def __init__(self, recording: Recording, manner: Manner | None = None, *, connection: int = 1) -> None:
        if not 1 <= connection <= len(recording.desks):
            count = len(recording.desks)
            there = "1 connection" if count == 1 else f"{count} connections"
            raise InputError(f"the recording has {there}, and no number {connection}")
        self._manner = manner or Manner()
        self._ids: set[RequestId] = set()  # that our requests have had
        self._desk = self._playing(recording.desks[connection - 1])
        self._connection = connection
        # Of a session out of a journal it may not be known how it was opened.
        opened = [track for track in recording.tracks if track.opened]
        self._unopened = opened or [track for track in recording.tracks if track.led_by(PROMPT)]
        self._tracks = recording.tracks
        self._sessions: dict[str, Playing] = {}
        for track in recording.tracks:
            if opened and not track.opened:  # asked for without being there: it was an error then, and is now
                self._sessions.update(dict.fromkeys(track.session_ids, self._playing(track)))
        self._said: list[bytes] = []
        self._openings: list[tuple[Asked, Playing, int]] = []

    def _playing(self, track: Track) -> Playing:
        return Playing(track, Names(track.session_ids, track.cwd), self._manner, self._new_id)

    def _new_id(self, recorded: RequestId) -> RequestId:
        number, wanted = 1, recorded
        while wanted in self._ids:
            number += 1
            wanted = f"{recorded}-{number}"
        self._ids.add(wanted)
        return wanted

    # -- in

    def hear(self, line: bytes) -> None:
        if not line.strip():
            return
        told = peek(line)
        if told.method is None:
            self._answered(told, line)
        elif told.id is None:
            self._notified(told, line)
        else:
            self._asked(Asked(told.id, told.method, line), told.session)

    def _answered(self, told: Envelope, line: bytes) -> None:
        if told.id is None:
            error = {"code": PARSE_ERROR, "message": "this is no JSON-RPC message"}
            self._said.append(msgspec.json.encode({"jsonrpc": "2.0", "id": None, "error": error}))
        elif any(playing.answer(told.id, line) for playing in self._all()):
            self._ids.discard(told.id)

    def _notified(self, told: Envelope, line: bytes) -> None:
        match told.method:
            case "session/cancel" if told.session in self._sessions:
                self._sessions[told.session].cancel()
            case "$/cancel_request":
                request_id = _read(line).requestId
                if request_id is not None:
                    any(playing.withdraw(request_id) for playing in self._all())
            case _:
                pass

    def _asked(self, asked: Asked, session: str | None) -> None:
        if asked.method in OPENINGS:
            self._open(asked, session)
        elif asked.method == LIST and not self._desk.track.led_by(LIST):
            listed = [{"sessionId": track.session_ids[0], "cwd": track.cwd or "/"} for track in self._tracks]
            self._say(asked, {"sessions": listed})
        elif session is None:
            self._desk.ask(asked)
        elif (playing := self._sessions.get(session)) is not None:
            playing.ask(asked)
        else:
            self._refuse(asked, NOT_FOUND, f"there is no open session {session!r}; {self._known()}")

    def _all(self) -> list[Playing]:
        return [self._desk, *dict.fromkeys(self._sessions.values())]

    # -- out

    def step(self, now: float) -> list[bytes]:
        """The lines that are due, each with its newline."""
        for asked, playing, number in self._openings:
            playing.begin(number, asked, now)
        self._openings = []
        said, self._said = self._said, []
        for playing in self._all():
            said += playing.step(now)
        return [line + b"\n" for line in said]

    @property
    def wake(self) -> float | None:
        times = [playing.wake for playing in self._all() if playing.wake is not None]
        return min(times, default=None)

    # -- sessions

    def _open(self, asked: Asked, session: str | None) -> None:
        cwd = _read(asked.frame).cwd
        failure = self._desk.unplayed(asked.method)
        if session is not None and session in self._sessions and asked.method not in NAMING:
            self._reopen(asked, self._sessions[session], session, cwd)
            return
        found = self._find(asked.method, session)
        if failure is not None and (found is None or self._failed_before(failure, found, asked.method)):
            self._openings.append((asked, self._desk, failure))
        elif found is None:
            self._refuse(asked, *self._no_session(asked.method, session))
        else:
            self._unopened.remove(found)
            playing = self._playing(found)
            given = None if asked.method in NAMING else session
            self._sessions.update(dict.fromkeys((*found.session_ids, *([given] if given else [])), playing))
            self._reopen(asked, playing, given, cwd)

    def _reopen(self, asked: Asked, playing: Playing, session: str | None, cwd: str) -> None:
        if playing.busy:
            self._refuse(asked, INVALID_REQUEST, f"{asked.method}: a prompt of this session is under way; cancel it")
            return
        playing.names.settle(session, cwd)
        number = playing.unplayed(asked.method)
        if number is not None:
            self._openings.append((asked, playing, number))
            return
        if asked.method == "session/load":
            self._said += [playing.names.now(frame) for frame in history(playing.track)]
            playing.skip_all()
        named = {"sessionId": playing.track.session_ids[0]} if asked.method in NAMING else {}
        self._say(asked, {**named, **settings(playing.track)})

    def _find(self, method: str, session: str | None) -> Track | None:
        """The track that is to be opened: the one that is named; else the next that was opened in the same way."""
        if method not in NAMING:
            for track in self._unopened:
                if session in track.session_ids:
                    return track
        ours = [track for track in self._unopened if method != NEW or track.connection == self._connection]
        for track in ours:
            if track.led_by(method):
                return track
        # Who wants a new session where each was loaded or resumed means the recorded one all the same.
        never = method == NEW and not any(track.led_by(NEW) for track in self._tracks)
        return next(iter(ours), None) if never else None

    def _failed_before(self, failure: int, found: Track, method: str) -> bool:
        """Whether it was refused at first, and this is the first time now."""
        leads = [found.stretches[number].lead.number for number in found.led_by(method)]
        return not leads or self._desk.track.stretches[failure].lead.number < leads[0]

    def _no_session(self, method: str, session: str | None) -> tuple[int, str]:
        if method in NAMING:
            there = sum(bool(track.led_by(method)) for track in self._tracks if track.connection == self._connection)
            had = f"has {there}, and all are open" if there else "has none"
            return INVALID_REQUEST, f"{method}: of sessions that were opened in this way the recording {had}"
        if session is None:
            return INVALID_PARAMS, f"{method}: sessionId is missing"
        return NOT_FOUND, f"the recording has no session {session!r}; {self._known()}"

    def _known(self) -> str:
        return f"recorded were {', '.join(track.session_ids[0] for track in self._tracks) or 'none'}"

    def _say(self, asked: Asked, result: object) -> None:
        self._said.append(msgspec.json.encode({"jsonrpc": "2.0", "id": asked.id, "result": result}))

    def _refuse(self, asked: Asked, code: int, message: str) -> None:
        error = {"code": code, "message": message}
        self._said.append(msgspec.json.encode({"jsonrpc": "2.0", "id": asked.id, "error": error}))


class _Params(msgspec.Struct, frozen=True):
    cwd: str = ""
    requestId: RequestId | None = None  # noqa: N815 (the wire's name)


class _Message(msgspec.Struct, frozen=True):
    params: _Params = _Params()


def _read(frame: bytes) -> _Params:
    """What matters here of a message; nothing of it where it cannot be read."""
    try:
        return msgspec.json.decode(frame, type=_Message).params
    except DECODE_ERRORS:
        return _Params()
