"""Commands: the requests that the owner of a session carries out, and their encoding in the journal's inbox.

The sender chooses a command's id; sent twice, it is carried out once, by the process that owns the session.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from dragoman.errors import InputError
from dragoman.protocol.requests import (
    PermissionAnswer,
    QuestionAnswer,
    QueueEdit,
    QueueMove,
    QueueRemove,
    QueueSend,
    SessionCancel,
    SessionClose,
    SessionPrompt,
    SessionSetMode,
    SessionSetOption,
)

Command: TypeAlias = (
    SessionPrompt
    | SessionCancel
    | QueueEdit
    | QueueMove
    | QueueSend
    | QueueRemove
    | PermissionAnswer
    | QuestionAnswer
    | SessionSetOption
    | SessionSetMode
    | SessionClose
)

_decoder: msgspec.json.Decoder[Command] = msgspec.json.Decoder(Command)


def encode(command: Command) -> bytes:
    """Return the command as the inbox stores it; equal commands give equal bytes, whatever their ids."""
    return msgspec.json.encode(msgspec.structs.replace(command, id="", command_id=None))


def decode(body: bytes) -> Command:
    """Read a command from the inbox. `InputError` for one that this version does not know."""
    try:
        return _decoder.decode(body)
    except msgspec.MsgspecError as error:
        raise InputError(f"this version of Dragoman does not know this command: {error}") from error


class Outcome(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The outcome of a command. Of a prompt: the run that began, or its id in the queue."""

    run_id: str | None = None
    queued_id: str | None = None
    how: Literal["started", "queued", "steered", "cancelled_first"] | None = None
    accepted: bool = True  # of an answer: False when another one was first, or the question was withdrawn
