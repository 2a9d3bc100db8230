"""The frames of a translated session, as lines of JSON-RPC: `SessionFrames`, and `RunFrames` for its runs.

The caller chooses the ids of requests: stable, and unique within the session.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, Literal

import msgspec

from dragoman.errors import INTERNAL_ERROR
from dragoman.translate.translator import Frame
from dragoman.wire import lenient
from dragoman.wire.dialect import MessageTokens
from dragoman.wire.messages import DECODE_ERRORS, RpcError
from dragoman.wire.vocabulary import (
    ConfigOptionUpdate,
    ContentBlock,
    NewSessionRequest,
    NewSessionResponse,
    PromptRequest,
    PromptResponse,
    SessionConfigSelect,
    SessionConfigSelectItem,
    SessionUpdate,
    Usage,
)

# The answer to a prompt whose run the transcript leaves unfinished: the agent was killed, or the file was moved away.
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


class SessionFrames:
    """Appends the frames of one session to `out`, in order. Times are seconds since 1970."""

    def __init__(self, session_id: str, out: list[Frame]) -> None:
        self.session_id = session_id
        self._out = out

    def open(self, at: float, cwd: str, meta: dict[str, Any]) -> None:
        """Append `session/new` and its answer."""
        request_id = f"{self.session_id}:new"
        self.request(at, request_id, "session/new", NewSessionRequest(cwd=cwd, mcp_servers=(), meta=meta))
        answer = NewSessionResponse(session_id=self.session_id)
        self._append(at, "in", "session/new", _Answer(request_id, answer))

    def update(self, at: float, message: SessionUpdate) -> None:
        kind = _kinds.get(type(message))
        if kind is None:
            kind = _kinds[type(message)] = str(type(message).__struct_config__.tag)
        self._append(at, "in", kind, _Update(_Params(self.session_id, message)))

    def request(self, at: float, request_id: str, method: str, params: msgspec.Struct) -> None:
        self._append(at, "out", method, _Request(request_id, method, params))

    def answer_prompt(self, at: float, request_id: str, answer: PromptResponse | RpcError) -> None:
        """Append the agent's answer to a `session/prompt`: its response, or an error."""
        reply = _Failure(request_id, answer) if isinstance(answer, RpcError) else _Answer(request_id, answer)
        self._append(at, "in", "session/prompt", reply)

    def _append(self, at: float, direction: Literal["in", "out"], kind: str, message: msgspec.Struct) -> None:
        self._out.append(Frame(at, direction, self.session_id, kind, _line(message)))


class RunFrames:
    """The runs of one session, one at a time: a `session/prompt` and its answer each."""

    def __init__(self, frames: SessionFrames) -> None:
        self._frames = frames
        self._request_id: str | None = None  # of the active run

    @property
    def is_running(self) -> bool:
        return self._request_id is not None

    def _begin(self, at: float, key: object, prompt: Sequence[ContentBlock], meta: dict[str, Any]) -> None:
        """Begin a run; `key` is unique among the runs of the session."""
        session_id = self._frames.session_id
        self._request_id = f"{session_id}:{key}"
        request = PromptRequest(session_id=session_id, prompt=tuple(prompt), meta=meta)
        self._frames.request(at, self._request_id, "session/prompt", request)

    def _answer(
        self,
        at: float,
        answer: PromptResponse | RpcError,
        usage: Usage | None,
        messages: Sequence[MessageTokens] = (),
        *,
        is_timed: bool = True,
    ) -> None:
        """End the active run, with the tokens that it used, and with those of each message if the file has them.

        `is_timed`: the file says when it was.
        """
        if self._request_id is None:
            return
        native: dict[str, Any] = {}
        if messages:
            native["messages"] = messages
        if not is_timed:
            native["untimed"] = True
        if isinstance(answer, PromptResponse):
            meta = answer.meta
            if native:
                meta = {**(meta or {}), "native": {**(meta or {}).get("native", {}), **native}}
            answer = msgspec.structs.replace(answer, usage=usage, meta=meta)
        else:
            # The protocol has no fields for these in the answer to a failed run.
            extras = {"usage": usage, "native": native}
            data = {**answer.data, **{key: value for key, value in extras.items() if value}}
            answer = msgspec.structs.replace(answer, data=data)
        self._frames.answer_prompt(at, self._request_id, answer)
        self._request_id = None


def config_options(options: Iterable[tuple[str, str, str, str | None, str]]) -> ConfigOptionUpdate:
    """Build the update for the options that have a value, given as id, name, category, value and the value's name.

    A transcript does not say which other values there were.
    """
    return ConfigOptionUpdate(
        config_options=tuple(
            SessionConfigSelect(
                id=id_,
                name=name,
                category=category,
                current_value=value,
                options=(SessionConfigSelectItem(value=value, name=value_name),),
            )
            for id_, name, category, value, value_name in options
            if value is not None
        )
    )


def native_frame(provider: str, session_id: str, at: float, kind: str, record: bytes | msgspec.Raw) -> Frame:
    """Build the frame for a record of an unknown kind: verbatim, or as text if it is not JSON."""
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
    except UnicodeEncodeError:  # half a character: a program truncated the text within it
        return lenient.encode_repaired(msgspec.to_builtins(message))
