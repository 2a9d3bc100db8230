"""Frames, built: what translators say, as lines of JSON-RPC.

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

# What a run ends with whose end the transcript does not tell: the agent was killed, or someone took the file away.
CUT: Final = RpcError(INTERNAL_ERROR, "The transcript ends before this run does.", {"reason": "interrupted"})


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


def update(session_id: str, at: float, said: SessionUpdate) -> Frame:
    kind = _kinds.get(type(said))
    if kind is None:
        kind = _kinds[type(said)] = str(type(said).__struct_config__.tag)
    return Frame(at, "in", session_id, kind, _line(_Update(_Params(session_id, said))))


def new_session(session_id: str, at: float, request_id: str, asked: NewSessionRequest) -> Frame:
    return Frame(at, "out", session_id, "session/new", _line(_Request(request_id, "session/new", asked)))


def prompt(session_id: str, at: float, request_id: str, asked: PromptRequest) -> Frame:
    return Frame(at, "out", session_id, "session/prompt", _line(_Request(request_id, "session/prompt", asked)))


def answer(session_id: str, at: float, request_id: str, method: str, result: msgspec.Struct) -> Frame:
    """The agent's answer to a request of ours that went well."""
    return Frame(at, "in", session_id, method, _line(_Answer(request_id, result)))


def failure(session_id: str, at: float, request_id: str, method: str, error: RpcError) -> Frame:
    """The agent's answer to a request of ours that did not."""
    return Frame(at, "in", session_id, method, _line(_Failure(request_id, error)))


def native(provider: str, session_id: str, at: float, kind: str, record: bytes | msgspec.Raw) -> Frame:
    """What nobody knows: the record as it stands, or as text where it is no JSON."""
    method = f"_native/{provider}"
    kept = msgspec.Raw(record) if is_json(record) else bytes(record).decode("utf-8", "backslashreplace")
    return Frame(at, "in", session_id, method, _line(_Notification(method, _Native(session_id, kind, kept))))


def is_json(text: bytes | msgspec.Raw) -> bool:
    try:
        bytes(text).decode("utf-8")
        msgspec.json.decode(text)
    except DECODE_ERRORS:
        return False
    return True


def _line(said: msgspec.Struct) -> bytes:
    try:
        return _encode(said)
    except UnicodeEncodeError:  # half a character, as a program cut it
        return lenient.encode_repaired(msgspec.to_builtins(said))
