"""Building the frames of translators, as lines of JSON-RPC.

Ids of requests are the caller's to choose: stable, and unique within the session.
"""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

from dragoman.errors import INTERNAL_ERROR
from dragoman.translate.translator import Frame
from dragoman.wire import lenient
from dragoman.wire.messages import DECODE_ERRORS, RpcError
from dragoman.wire.vocabulary import NewSessionRequest, PromptRequest, SessionUpdate

# The end of a run that the transcript leaves unfinished: the agent was killed, or the file was moved away.
INTERRUPTED: Final = RpcError(INTERNAL_ERROR, "The transcript ends before this run does.", {"reason": "interrupted"})


class _Params(msgspec.Struct, frozen=True, gc=False):
    sessionId: str  # noqa: N815 (the wire's names)
    update: Any


class _Update(msgspec.Struct, frozen=True, gc=False):
    params: _Params
    method: Literal["session/update"] = "session/update"
    jsonrpc: Literal["2.0"] = "2.0"


class _Request(msgspec.Struct, frozen=True, gc=False):
    id: str
    method: str
    params: Any
    jsonrpc: Literal["2.0"] = "2.0"


class _Answer(msgspec.Struct, frozen=True, gc=False):
    id: str
    result: Any
    jsonrpc: Literal["2.0"] = "2.0"


class _Failure(msgspec.Struct, frozen=True, gc=False):
    id: str
    error: RpcError
    jsonrpc: Literal["2.0"] = "2.0"


class _Native(msgspec.Struct, frozen=True, gc=False):
    sessionId: str  # noqa: N815
    kind: str
    record: Any


class _Notification(msgspec.Struct, frozen=True, gc=False):
    method: str
    params: Any
    jsonrpc: Literal["2.0"] = "2.0"


_encode = msgspec.json.Encoder().encode
_kinds: dict[type, str] = {}


def update(session_id: str, at: float, message: SessionUpdate) -> Frame:
    kind = _kinds.get(type(message))
    if kind is None:
        kind = _kinds[type(message)] = str(type(message).__struct_config__.tag)
    return Frame(at, "in", session_id, kind, _line(_Update(_Params(session_id, message))))


def new_session(session_id: str, at: float, request_id: str, request: NewSessionRequest) -> Frame:
    return Frame(at, "out", session_id, "session/new", _line(_Request(request_id, "session/new", request)))


def prompt(session_id: str, at: float, request_id: str, request: PromptRequest) -> Frame:
    return Frame(at, "out", session_id, "session/prompt", _line(_Request(request_id, "session/prompt", request)))


def answer(session_id: str, at: float, request_id: str, method: str, result: msgspec.Struct) -> Frame:
    """The agent's answer to a request that succeeded."""
    return Frame(at, "in", session_id, method, _line(_Answer(request_id, result)))


def failure(session_id: str, at: float, request_id: str, method: str, error: RpcError) -> Frame:
    """The agent's answer to a request that failed."""
    return Frame(at, "in", session_id, method, _line(_Failure(request_id, error)))


def native(provider: str, session_id: str, at: float, kind: str, record: bytes | msgspec.Raw) -> Frame:
    """A record of an unknown kind, verbatim; as text if it is no JSON."""
    method = f"_native/{provider}"
    content = msgspec.Raw(record) if is_json(record) else bytes(record).decode("utf-8", "backslashreplace")
    return Frame(at, "in", session_id, method, _line(_Notification(method, _Native(session_id, kind, content))))


def is_json(text: bytes | msgspec.Raw) -> bool:
    try:
        bytes(text).decode("utf-8")
        msgspec.json.decode(text)
    except DECODE_ERRORS:
        return False
    return True


def _line(message: msgspec.Struct) -> bytes:
    try:
        return _encode(message)
    except UnicodeEncodeError:  # half a character, where a program truncated it
        return lenient.encode_repaired(msgspec.to_builtins(message))
