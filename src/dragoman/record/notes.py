"""What the host itself did, as notes in the conversation: `_dragoman/…` notifications.

They count only with the origin `host`. The same method from an agent is an unknown notification.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Final, Literal, TypeAlias, TypeVar

import msgspec

from dragoman.wire import lenient
from dragoman.wire.messages import Notification, RequestId
from dragoman.wire.vocabulary import ContentBlock, PermissionOption

T = TypeVar("T")

# Bytes of a text that are kept for a diff. Nearly every source file is smaller, and nobody reads a diff of more; an
# agent that rewrites a large file again and again would else fill the record with copies of it.
TEXT_LIMIT: Final = 256 * 1024


class Prompt(msgspec.Struct, frozen=True):
    """The user's own words, before anything was put around them, and the run they began."""

    run_id: str
    prompt: tuple[ContentBlock, ...]


class Decision(msgspec.Struct, frozen=True, omit_defaults=True):
    """What was decided on a request of the agent's, who decided it, and why. Noted before the request is answered."""

    request_id: RequestId
    by: str
    reason: str
    decision: Literal["allow", "deny", "cancelled"] | None = None
    option_id: str | None = None  # the option that was taken, where it was asked
    rule: str | None = None  # as it reads
    layer: str | None = None
    remembered: tuple[str, ...] = ()


class Asked(msgspec.Struct, frozen=True, omit_defaults=True):
    """Someone is asked whether a request of the agent's that is no question itself may be carried out."""

    request_id: RequestId
    origin: str  # files, terminals
    title: str
    kind: str
    options: tuple[PermissionOption, ...]


class File(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where the path of an `fs/*` request leads, and what a write there replaces. Made by `file`."""

    request_id: RequestId
    path: str
    old_text: str | None = None
    old_size: int | None = None  # in bytes; None where there is no file yet
    old_sha256: str | None = None  # in place of a text that is too large to keep


class TerminalExited(msgspec.Struct, frozen=True, omit_defaults=True):
    """How a command ended. Noted before the agent is told, so that whoever hears of the end has the output too."""

    terminal_id: str
    exit_code: int | None = None
    signal: str | None = None
    output: str = ""  # the end of what it wrote
    output_bytes: int = 0  # of all that it wrote
    truncated: bool = False


class RunCut(msgspec.Struct, frozen=True):
    """A run that the agent itself did not end."""

    run_id: str
    status: Literal["cancelled", "error", "interrupted"]
    reason: str


class Difference(msgspec.Struct, frozen=True, omit_defaults=True):
    """How each begins: as it is kept here, and as the agent tells it. Empty where there is none."""

    what: Literal["prompt", "answer", "tool_calls"]
    here: str = ""
    told: str = ""
    run_id: str | None = None  # the run it is about, or that came before


class HistoryDiffers(msgspec.Struct, frozen=True):
    """What the agent told again of an earlier time is not what is kept of it. Found by `record.retold`."""

    differences: tuple[Difference, ...]  # the first of them
    count: int  # of all


Note: TypeAlias = Prompt | Decision | Asked | File | TerminalExited | RunCut | HistoryDiffers

_TYPES: dict[str, type[Note]] = {
    "_dragoman/prompt": Prompt,
    "_dragoman/decision": Decision,
    "_dragoman/asked": Asked,
    "_dragoman/file": File,
    "_dragoman/terminal_exited": TerminalExited,
    "_dragoman/run_cut": RunCut,
    "_dragoman/history_differs": HistoryDiffers,
}
_METHODS = {type_: method for method, type_ in _TYPES.items()}


def file(request_id: RequestId, path: str, old_text: str | None = None, *, old_size: int | None = None) -> File:
    """The note on a file, with its text where that is not too large. `old_size` alone: there is one, but no text."""
    if old_text is None:
        return File(request_id, path, old_size=old_size)
    data = old_text.encode("utf-8", "surrogatepass")
    if len(data) <= TEXT_LIMIT:
        return File(request_id, path, old_text, len(data))
    return File(request_id, path, None, len(data), hashlib.sha256(data).hexdigest())


class _Line(msgspec.Struct, frozen=True):
    method: str
    params: msgspec.Raw
    jsonrpc: str = "2.0"


def write(note: Note) -> Notification:
    """The note as the frame that is kept."""
    return written(_METHODS[type(note)], note)


def read(message: Notification) -> Note | None:
    return read_as(_TYPES, message)


def written(method: str, note: msgspec.Struct) -> Notification:
    """Any note, by its method."""
    try:
        params = msgspec.Raw(msgspec.json.encode(note))
    except UnicodeEncodeError:  # the name of a file or folder that is no UTF-8
        params = msgspec.Raw(lenient.encode_repaired(msgspec.to_builtins(note)))
    return Notification(method, params, msgspec.json.encode(_Line(method, params)))


def read_as(types: Mapping[str, type[T]], message: Notification) -> T | None:
    """The note of one of these methods; None where it is none, or cannot be read."""
    type_ = types.get(message.method)
    if type_ is None:
        return None
    try:
        return msgspec.json.decode(message.params, type=type_)
    except msgspec.MsgspecError:
        return None
