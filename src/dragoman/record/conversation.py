"""Which session a frame belongs to: one connection carries many, and answers name none.

Pure. Used on the living connection and on recordings alike.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Literal

import msgspec

from dragoman.record.decisions import decoded
from dragoman.record.fold import SessionFold
from dragoman.wire.messages import Message, Notification, Reply, Request, RequestId, Update, session_id_in
from dragoman.wire.peer import Peer

# Whose answers tell the id of a session that is new.
_NAMING = ("session/new", "session/fork")

# Addresses that wait for the agent to say that all is done there; it may never say so.
KEEP_VISITS = 64


class Heard(msgspec.Struct, frozen=True):
    message: Message
    session_id: str | None  # the agent's id; None for what concerns the connection as a whole


class Conversation:
    """Follows both directions of one connection."""

    def __init__(self) -> None:
        # Without a limit: what was sent, or kept, is a whole line already.
        self._readers = {"in": Peer(line_limit=sys.maxsize), "out": Peer(line_limit=sys.maxsize)}
        self._sessions: dict[tuple[str, RequestId], str | None] = {}  # of requests without an answer
        self._visits: dict[str, str] = {}  # of addresses that the agent asked to visit: elicitation id to session

    def read(self, direction: Literal["in", "out"], line: bytes) -> list[Heard]:
        """A line that was sent or received, newline or not."""
        messages = self._readers[direction].feed(line if line.endswith(b"\n") else line + b"\n")
        return [Heard(message, self.session_of(direction, message)) for message in messages]

    def session_of(self, direction: Literal["in", "out"], message: Message) -> str | None:
        """Each message is to be shown once, in order: requests are remembered, so that their answers are known."""
        match message:
            case Update():
                return message.session_id
            case Notification(params=params):
                return session_id_in(params) or self._visited(message)
            case Request(id=request_id, params=params, method=method):
                session_id = session_id_in(params)
                if method == "elicitation/create":
                    session_id = self._question_of(params, session_id)
                self._sessions[direction, request_id] = session_id
                self._readers["out" if direction == "in" else "in"].expect(request_id, method)
                return session_id
            case Reply(id=request_id, result=result, method=method):
                asked: Literal["in", "out"] = "out" if direction == "in" else "in"
                self._readers[asked].mark_answered(request_id)
                self._readers[direction].forget(request_id)  # where the line itself was read by another
                known = self._sessions.pop((asked, request_id), None)
                # A fork is asked of one session, and its answer tells the id of another.
                return session_id_in(result) or known if method in _NAMING else known or session_id_in(result)
            case _:
                return None

    def session_of_request(self, direction: Literal["in", "out"], request_id: RequestId) -> str | None:
        """The session of a request that was shown, and has no answer yet."""
        return self._sessions.get((direction, request_id))

    def _question_of(self, params: msgspec.Raw, session_id: str | None) -> str | None:
        """A question may be about a request of ours instead, and is then of that one's session."""
        asked = decoded(params, _Asked) or _Asked()
        if session_id is None and asked.requestId is not None:
            session_id = self._sessions.get(("out", asked.requestId))
        if session_id is not None and asked.elicitationId is not None:
            self._visits[asked.elicitationId] = session_id
            if len(self._visits) > KEEP_VISITS:
                del self._visits[next(iter(self._visits))]
        return session_id

    def _visited(self, message: Notification) -> str | None:
        """`elicitation/complete` names the question alone."""
        if message.method != "elicitation/complete" or not self._visits:
            return None
        asked = decoded(message.params, _Asked) or _Asked()
        return self._visits.pop(asked.elicitationId or "", None)


class _Asked(msgspec.Struct, frozen=True):
    elicitationId: str | None = None  # noqa: N815 (the wire's names)
    requestId: RequestId | None = None  # noqa: N815


class _Recorded(msgspec.Struct, frozen=True):
    dir: str
    frame: msgspec.Raw = msgspec.Raw(b"null")
    ts: float = 0.0


def fold_recording(lines: Iterable[bytes]) -> dict[str, SessionFold]:
    """The sessions of a recorded connection: lines `{dir, ts, frame}`, as `dragoman` records them."""
    conversation = Conversation()
    folds: dict[str, SessionFold] = {}
    for position, line in enumerate(lines):
        recorded = msgspec.json.decode(line, type=_Recorded)
        direction: Literal["in", "out"]
        match recorded.dir:
            case "in":
                direction = "in"
            case "out":
                direction = "out"
            case _:
                continue  # how the recording itself began or ended
        for heard in conversation.read(direction, bytes(recorded.frame)):
            if heard.session_id is not None:
                fold = folds.setdefault(heard.session_id, SessionFold())
                fold.apply(position, recorded.ts, direction, heard.message)
    return folds
