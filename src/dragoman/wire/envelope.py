"""As much of a message as it takes to send it the right way: who asks, what, and about which session."""

from __future__ import annotations

import msgspec

from dragoman.wire.messages import UNREADABLE, RequestId


class _Named(msgspec.Struct, frozen=True):
    sessionId: str | None = None  # noqa: N815 (the wire's name)


class _Line(msgspec.Struct, frozen=True):
    id: int | str | msgspec.UnsetType | None = msgspec.UNSET
    method: str | msgspec.UnsetType = msgspec.UNSET
    params: msgspec.Raw = msgspec.Raw(b"null")
    result: msgspec.Raw = msgspec.Raw(b"null")


class Envelope(msgspec.Struct, frozen=True):
    id: RequestId | None = None
    method: str | None = None
    session: str | None = None  # that it is about
    new_session: str | None = None  # that an answer tells of

    @property
    def is_request(self) -> bool:
        return self.method is not None and self.id is not None

    @property
    def is_answer(self) -> bool:
        return self.method is None


def peek(line: bytes) -> Envelope:
    try:
        read = msgspec.json.decode(line, type=_Line)
    except UNREADABLE:
        return Envelope()  # no message: the peer will say so
    request_id = None if read.id is msgspec.UNSET else read.id
    if read.method is msgspec.UNSET:
        return Envelope(request_id, new_session=session_in(read.result))
    return Envelope(request_id, read.method, session_in(read.params))


def session_in(raw: msgspec.Raw) -> str | None:
    """The session that params or a result name."""
    try:
        return msgspec.json.decode(raw, type=_Named).sessionId
    except UNREADABLE:
        return None
