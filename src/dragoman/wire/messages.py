"""JSON-RPC messages as the peer reads and writes them, and a quick look at a line that is only passed on.

Each message keeps `line`, the bytes as they came: typed values are for reading, what is stored or forwarded is always
the line.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

from dragoman.wire.vocabulary import SessionUpdate

RequestId: TypeAlias = int | str

# The errors that msgspec raises for bytes that are not the wanted value: wrong shape or no JSON; not UTF-8; nested too
# deeply.
DECODE_ERRORS = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class RpcError(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    code: int
    message: str = ""
    data: Any = None


class Unknown(msgspec.Struct, frozen=True, gc=False):
    """An update of an unknown kind, or one too broken to repair. Nothing of it is lost."""

    kind: str
    raw: msgspec.Raw


class Update(msgspec.Struct, frozen=True, gc=False):
    """`session/update`, the one message that comes by the hundred thousand."""

    session_id: str
    update: SessionUpdate | Unknown
    line: bytes


class Request(msgspec.Struct, frozen=True, gc=False):
    id: RequestId
    method: str
    params: msgspec.Raw
    line: bytes


class Notification(msgspec.Struct, frozen=True, gc=False):
    method: str
    params: msgspec.Raw
    line: bytes


class Reply(msgspec.Struct, frozen=True, gc=False):
    """The answer to a request. `error` is None on success, and `result` may then be JSON null."""

    id: RequestId
    method: str
    result: msgspec.Raw
    error: RpcError | None
    line: bytes


class Noise(msgspec.Struct, frozen=True, gc=False):
    """A line that is no message, or a message that fits nothing: recorded and reported, never fatal."""

    reason: str
    line: bytes


class Oversized(msgspec.Struct, frozen=True, gc=False):
    """A line over the limit, of which only the length, the digest, the beginning and a little of the end are stored."""

    length: int
    sha256: str
    head: bytes
    tail: bytes = b""

    def __len__(self) -> int:
        return self.length


Message: TypeAlias = Update | Request | Notification | Reply | Noise | Oversized
OutgoingMessage: TypeAlias = Request | Notification | Reply


# -- a quick look


class _SessionParams(msgspec.Struct, frozen=True):
    sessionId: str | None = None  # noqa: N815 (the wire's name)


class _Line(msgspec.Struct, frozen=True):
    id: int | str | msgspec.UnsetType | None = msgspec.UNSET
    method: str | msgspec.UnsetType = msgspec.UNSET
    params: msgspec.Raw = msgspec.Raw(b"null")
    result: msgspec.Raw = msgspec.Raw(b"null")


class Envelope(msgspec.Struct, frozen=True):
    """The part of a message by which it is routed: the id, the method and the session."""

    id: RequestId | None = None
    method: str | None = None
    session_id: str | None = None  # in the params
    new_session_id: str | None = None  # in a result

    @property
    def is_request(self) -> bool:
        return self.method is not None and self.id is not None

    @property
    def is_answer(self) -> bool:
        return self.method is None


def peek(line: bytes) -> Envelope:
    """Return the envelope of a line; an empty one where the line is no message."""
    try:
        message = msgspec.json.decode(line, type=_Line)
    except DECODE_ERRORS:
        return Envelope()
    request_id = None if message.id is msgspec.UNSET else message.id
    if message.method is msgspec.UNSET:
        return Envelope(request_id, new_session_id=session_id_in(message.result))
    return Envelope(request_id, message.method, session_id_in(message.params))


def session_id_in(raw: msgspec.Raw) -> str | None:
    """Return the `sessionId` of params or of a result."""
    try:
        return msgspec.json.decode(raw, type=_SessionParams).sessionId
    except DECODE_ERRORS:
        return None
