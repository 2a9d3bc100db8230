"""What the host itself did, as notes in the conversation: `_dragoman/…` notifications.

They count only with the origin `host`. The same method from an agent is an unknown notification.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from dragoman.wire.messages import Notification, RequestId
from dragoman.wire.vocabulary import ContentBlock


class Prompt(msgspec.Struct, frozen=True):
    """The user's own words, before anything was put around them, and the run they began."""

    run_id: str
    prompt: tuple[ContentBlock, ...]


class Decision(msgspec.Struct, frozen=True):
    """Who answered a permission request, and why."""

    request_id: RequestId
    by: str
    reason: str


class RunCut(msgspec.Struct, frozen=True):
    """A run that the agent itself did not end."""

    run_id: str
    status: Literal["cancelled", "error", "interrupted"]
    reason: str


Note: TypeAlias = Prompt | Decision | RunCut

_TYPES: dict[str, type[Note]] = {
    "_dragoman/prompt": Prompt,
    "_dragoman/decision": Decision,
    "_dragoman/run_cut": RunCut,
}
_METHODS = {type_: method for method, type_ in _TYPES.items()}


class _Line(msgspec.Struct, frozen=True):
    method: str
    params: msgspec.Raw
    jsonrpc: str = "2.0"


def write(note: Note) -> Notification:
    """The note as the frame that is kept."""
    method = _METHODS[type(note)]
    params = msgspec.Raw(msgspec.json.encode(note))
    return Notification(method, params, msgspec.json.encode(_Line(method, params)))


def read(message: Notification) -> Note | None:
    type_ = _TYPES.get(message.method)
    if type_ is None:
        return None
    try:
        return msgspec.json.decode(message.params, type=type_)
    except msgspec.MsgspecError:
        return None
