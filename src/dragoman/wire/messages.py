"""What a line from a peer can be, decoded: the values that the peer hands out.

Each keeps `line`, the bytes as they came: typed values are for reading, what is stored or
forwarded is always the line.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

from dragoman.wire.vocabulary import SessionUpdate

RequestId: TypeAlias = int | str

# What msgspec raises for bytes that are not the value asked for: wrong shape or no JSON; not UTF-8; nested too deeply.
UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class RpcError(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    code: int
    message: str = ""
    data: Any = None


class Unknown(msgspec.Struct, frozen=True, gc=False):
    """A value of a kind we do not know, or one too broken to repair. Nothing of it is lost."""

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
    """The answer to a request: `error` is None when it went well, and `result` may then be JSON null."""

    id: RequestId
    method: str
    result: msgspec.Raw
    error: RpcError | None
    line: bytes


class Noise(msgspec.Struct, frozen=True, gc=False):
    """A line that is no message, or one that fits nothing: kept and reported, never fatal."""

    reason: str
    line: bytes


class Oversized(msgspec.Struct, frozen=True, gc=False):
    """A line over the limit: its length, its digest, its beginning and a little of its end are what we keep."""

    length: int
    sha256: str
    head: bytes
    tail: bytes = b""


Message: TypeAlias = Update | Request | Notification | Reply | Noise | Oversized
OutgoingMessage: TypeAlias = Request | Notification | Reply
