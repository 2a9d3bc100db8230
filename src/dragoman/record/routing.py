"""Routing: the session to which each frame of a connection belongs. One connection carries many, and answers name none.

Pure. Used on the live connection and on recordings alike.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Literal, TypeAlias

import msgspec

from dragoman.record.fold import SessionFold
from dragoman.wire.lenient import decode_or_none
from dragoman.wire.messages import Message, Notification, Reply, Request, RequestId, Update, session_id_in
from dragoman.wire.peer import Peer

_Direction: TypeAlias = Literal["in", "out"]

# The methods whose answers name a new session.
_NAMING_METHODS = ("session/new", "session/fork")

# URLs that wait for the agent to say that their visit is complete; it may never say so.
MAX_PENDING_VISITS = 64


class SessionIndex:
    """Follows both directions of one connection. Show it each message once, in order."""

    def __init__(self) -> None:
        self._sessions: dict[tuple[_Direction, RequestId], str | None] = {}  # of requests without an answer
        self._visits: dict[str, str] = {}  # of URLs that the agent asked to visit: elicitation id to session

    def session_of(self, direction: _Direction, message: Message, request_session: str | None = None) -> str | None:
        """Return the agent's session id; None for a message about the connection as a whole.

        `request_session` is the session of a request whose sender knows it: it is then not looked for in the params.
        """
        match message:
            case Update():
                return message.session_id
            case Notification(params=params):
                return session_id_in(params) or self._session_of_visit(message)
            case Request(id=request_id, params=params, method=method):
                session_id = request_session or session_id_in(params)
                if method == "elicitation/create":
                    session_id = self._session_of_question(params, session_id)
                self._sessions[direction, request_id] = session_id
                return session_id
            case Reply(id=request_id, result=result, method=method):
                asked_session = self._sessions.pop((_opposite(direction), request_id), None)
                # A fork is requested of one session, and its answer names another.
                if method in _NAMING_METHODS:
                    return session_id_in(result) or asked_session
                return asked_session or session_id_in(result)
            case _:
                return None

    def session_of_request(self, direction: _Direction, request_id: RequestId) -> str | None:
        """Return the session of a request that has no answer yet."""
        return self._sessions.get((direction, request_id))

    def _session_of_question(self, params: msgspec.Raw, session_id: str | None) -> str | None:
        """Return the session of a question: its own, or that of the request to the agent that it is about."""
        question = decode_or_none(params, _QuestionParams) or _QuestionParams()
        if session_id is None and question.requestId is not None:
            session_id = self._sessions.get(("out", question.requestId))
        if session_id is not None and question.elicitationId is not None:
            self._visits[question.elicitationId] = session_id
            if len(self._visits) > MAX_PENDING_VISITS:
                del self._visits[next(iter(self._visits))]
        return session_id

    def _session_of_visit(self, message: Notification) -> str | None:
        """Return the session of `elicitation/complete`, which names only the question."""
        if message.method != "elicitation/complete" or not self._visits:
            return None
        question = decode_or_none(message.params, _QuestionParams) or _QuestionParams()
        return self._visits.pop(question.elicitationId or "", None)


class RoutedMessage(msgspec.Struct, frozen=True):
    message: Message
    session_id: str | None  # the agent's id; None for a message about the connection as a whole


class ConnectionReader(SessionIndex):
    """Reader of the recorded lines of one connection, in both directions."""

    def __init__(self) -> None:
        super().__init__()
        # Without a limit: a line that was sent, or recorded, is complete.
        self._peers = {"in": Peer(line_limit=sys.maxsize), "out": Peer(line_limit=sys.maxsize)}

    def read(self, direction: _Direction, line: bytes) -> list[RoutedMessage]:
        """Read a line that was sent or received, with or without its newline."""
        messages = self._peers[direction].feed(line if line.endswith(b"\n") else line + b"\n")
        return [RoutedMessage(message, self.session_of(direction, message)) for message in messages]

    def session_of(self, direction: _Direction, message: Message, request_session: str | None = None) -> str | None:
        other = self._peers[_opposite(direction)]
        match message:
            case Request(id=request_id, method=method):
                other.expect(request_id, method)
            case Reply(id=request_id):
                other.mark_answered(request_id)
                self._peers[direction].forget(request_id)  # where another peer read the line
            case _:
                pass
        return super().session_of(direction, message, request_session)


def _opposite(direction: _Direction) -> _Direction:
    return "out" if direction == "in" else "in"


class _QuestionParams(msgspec.Struct, frozen=True):
    elicitationId: str | None = None  # noqa: N815 (the wire's names)
    requestId: RequestId | None = None  # noqa: N815


class _RecordedLine(msgspec.Struct, frozen=True):
    dir: str
    frame: msgspec.Raw = msgspec.Raw(b"null")
    ts: float = 0.0


def fold_recording(lines: Iterable[bytes]) -> dict[str, SessionFold]:
    """Return the sessions of a recorded connection: lines `{dir, ts, frame}`, as `dragoman` records them."""
    reader = ConnectionReader()
    folds: dict[str, SessionFold] = {}
    for position, line in enumerate(lines):
        recorded = msgspec.json.decode(line, type=_RecordedLine)
        direction: _Direction
        match recorded.dir:
            case "in":
                direction = "in"
            case "out":
                direction = "out"
            case _:
                continue  # the start or the end of the recording itself
        for routed in reader.read(direction, bytes(recorded.frame)):
            if routed.session_id is not None:
                fold = folds.setdefault(routed.session_id, SessionFold())
                fold.apply(position, recorded.ts, direction, routed.message)
    return folds
