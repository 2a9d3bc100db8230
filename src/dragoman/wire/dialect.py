"""Protocol versions: the one module that knows them.

A dialect defines how the frames of a version are read and which message ends a run. Version 1 is the only one spoken
today; version 2 (a draft) ends a run by a state update instead of the answer to the prompt, and would be a second class
here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, Protocol

import msgspec

from dragoman.errors import INTERNAL_ERROR, UnsupportedVersion
from dragoman.wire import lenient
from dragoman.wire.messages import Message, Reply, RpcError, Unknown
from dragoman.wire.vocabulary import PromptResponse, SessionNotification, SessionUpdate, Usage


class MessageTokens(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """The tokens of one message of a run. Another session may have the same message: it was forked, or resumed under
    another id."""

    message_id: str
    input_tokens: int
    output_tokens: int
    cached_read_tokens: int | None = None
    cached_write_tokens: int | None = None


class RunEnd(msgspec.Struct, frozen=True):
    """The end of a run as the agent reported it: a stop reason, or an error in its place."""

    stop_reason: str | None
    usage: Usage | None = None
    error: RpcError | None = None
    messages: tuple[MessageTokens, ...] = ()  # only from transcripts: the messages that `usage` is the sum of
    is_timed: bool = True  # False for a transcript without times: nobody knows when the run ended


class UpdateFrame(msgspec.Struct, frozen=True, gc=False):
    """`session/update` on the wire."""

    params: SessionNotification
    method: Literal["session/update"]
    # A notification has no id; a frame that has one is a request and is not read here.
    id: None = None


class Dialect(Protocol):
    version: int

    @property
    def read_update(self) -> Callable[[bytes], UpdateFrame]:
        """Read a line as a well-formed `session/update`; raise `msgspec.MsgspecError` for anything else.

        A property that returns the decoder's own function, because it is called a hundred thousand times.
        """

    def decode_update(self, raw: bytes | msgspec.Raw) -> SessionUpdate | Unknown:
        """Read a malformed update: repair it where possible, never raise."""

    def run_end(self, message: Message) -> RunEnd | None:
        """Return the end of the session's run, if this message is one."""


class _LenientPromptResponse(msgspec.Struct, frozen=True):
    stopReason: str  # noqa: N815 (the wire's name)


class Version1:
    version = 1

    def __init__(self) -> None:
        self.read_update = msgspec.json.Decoder(UpdateFrame).decode

    def decode_update(self, raw: bytes | msgspec.Raw) -> SessionUpdate | Unknown:
        return lenient.decode_update(raw)

    def run_end(self, message: Message) -> RunEnd | None:
        if not isinstance(message, Reply) or message.method != "session/prompt":
            return None
        if message.error is not None:
            native = _native_of(message.error.data)
            return RunEnd(
                stop_reason=None,
                error=_without_native(message.error),
                usage=_usage_of(message.error),
                messages=native.messages,
                is_timed=not native.untimed,
            )
        try:
            response = lenient.decode(message.result, PromptResponse)
        except msgspec.MsgspecError:
            # An unknown stop reason still ends the run; a missing one is the agent's error.
            try:
                stop_reason = lenient.decode(message.result, _LenientPromptResponse).stopReason
            except msgspec.MsgspecError as error:
                return RunEnd(stop_reason=None, error=RpcError(code=INTERNAL_ERROR, message=f"no stop reason: {error}"))
            return RunEnd(stop_reason=stop_reason)
        native = _native_of(response.meta)
        return RunEnd(
            stop_reason=response.stop_reason,
            usage=response.usage,
            messages=native.messages,
            is_timed=not native.untimed,
        )


class _Native(msgspec.Struct, frozen=True):
    """The part of an answer that an importer adds, in `_meta` or in the data of an error."""

    messages: tuple[MessageTokens, ...] = ()
    untimed: bool = False


_NOTHING_NATIVE = _Native()


def _native_of(extras: object) -> _Native:
    if not isinstance(extras, dict) or not isinstance(native := extras.get("native"), dict):
        return _NOTHING_NATIVE
    try:
        return msgspec.convert(native, _Native)
    except msgspec.ValidationError:
        return _NOTHING_NATIVE


def _without_native(error: RpcError) -> RpcError:
    if not isinstance(error.data, dict) or "native" not in error.data:
        return error
    data = {key: value for key, value in error.data.items() if key != "native"}
    return msgspec.structs.replace(error, data=data)


def _usage_of(error: RpcError) -> Usage | None:
    """Return the usage of a failed run, where the error's data has it."""
    data = error.data
    if not isinstance(data, dict) or not isinstance(data.get("usage"), dict):
        return None
    try:
        return msgspec.convert(data["usage"], Usage)
    except msgspec.ValidationError:
        return None


_DIALECTS: dict[int, Dialect] = {}

LATEST_VERSION = 1


def dialect_for(version: int) -> Dialect:
    """Return the dialect of a negotiated protocol version."""
    if version != LATEST_VERSION:
        raise UnsupportedVersion(
            f"the agent speaks protocol version {version}; this Dragoman speaks version {LATEST_VERSION}"
        )
    # Built on first use: the decoder of the whole vocabulary costs milliseconds, which `--version` should not pay.
    if version not in _DIALECTS:
        _DIALECTS[version] = Version1()
    return _DIALECTS[version]
