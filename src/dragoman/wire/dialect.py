"""The one place that knows protocol versions.

A dialect says how a version's frames read and which message ends a run. Version 1 is the only one
spoken today; version 2 (a draft) ends a run by a state update instead of the prompt's answer, and
would be a second class here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, Protocol

import msgspec

from dragoman.errors import INTERNAL_ERROR, UnsupportedVersion
from dragoman.wire import lenient
from dragoman.wire.messages import Message, Reply, RpcError, Unknown
from dragoman.wire.vocabulary import PromptResponse, SessionNotification, SessionUpdate, Usage


class RunEnd(msgspec.Struct, frozen=True):
    """How the agent ended a run: a stop reason, or an error in its place."""

    stop_reason: str | None
    usage: Usage | None = None
    error: RpcError | None = None


class UpdateFrame(msgspec.Struct, frozen=True, gc=False):
    """`session/update` as it stands on the wire."""

    params: SessionNotification
    method: Literal["session/update"]
    # A notification has no id; a frame that has one is a request and takes the careful path.
    id: None = None


class Dialect(Protocol):
    version: int

    @property
    def read_update(self) -> Callable[[bytes], UpdateFrame]:
        """Reads a line as `session/update`; raises `msgspec.MsgspecError` when it is not one, to the letter.

        A decoder's own function, not a method around it: it is called a hundred thousand times.
        """

    def decode_update(self, raw: bytes | msgspec.Raw) -> SessionUpdate | Unknown:
        """An update that was not to the letter: repaired where possible, never an error."""

    def run_end(self, message: Message) -> RunEnd | None:
        """Whether this message ends the session's run."""


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
            return RunEnd(stop_reason=None, error=message.error, usage=_usage_of(message.error))
        try:
            response = lenient.decode(message.result, PromptResponse)
        except msgspec.MsgspecError:
            # A stop reason we do not know still ends the run; one that is missing is the agent's error.
            try:
                stop_reason = lenient.decode(message.result, _LenientPromptResponse).stopReason
            except msgspec.MsgspecError as problem:
                return RunEnd(
                    stop_reason=None, error=RpcError(code=INTERNAL_ERROR, message=f"no stop reason: {problem}")
                )
            return RunEnd(stop_reason=stop_reason)
        return RunEnd(stop_reason=response.stop_reason, usage=response.usage)


def _usage_of(error: RpcError) -> Usage | None:
    """What a run that failed had used by then, where the error tells."""
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
    """The dialect of a negotiated protocol version."""
    if version != LATEST_VERSION:
        raise UnsupportedVersion(
            f"the agent speaks protocol version {version}; this Dragoman speaks version {LATEST_VERSION}"
        )
    # Built on first use: the decoder of the whole vocabulary costs milliseconds that `--version` need not pay.
    if version not in _DIALECTS:
        _DIALECTS[version] = Version1()
    return _DIALECTS[version]
