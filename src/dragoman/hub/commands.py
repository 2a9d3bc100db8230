"""Commands to a session that some process has open, as the journal's inbox stores them.

The sender chooses the id of a command; sent twice, it is carried out once, by the process that owns the session.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from dragoman.errors import InputError
from dragoman.protocol.requests import Attachment


class _Model(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="type"):
    pass


class Prompt(_Model, frozen=True, kw_only=True, tag="prompt"):
    """A prompt. `when` the session is busy: `queue` it, send it `now` (the active run is cancelled), or `refuse`."""

    text: str
    attachments: tuple[Attachment, ...] = ()
    when: Literal["queue", "now", "refuse"] = "queue"
    run_id: str | None = None  # of the run that it begins; the session chooses one by default


class Cancel(_Model, frozen=True, kw_only=True, tag="cancel"):
    """Cancel the active run; with `run_id` only that one: where another one is active by now, nothing is done."""

    run_id: str | None = None


class EditQueued(_Model, frozen=True, kw_only=True, tag="edit_queued"):
    """Replace the text of a queued prompt. `queued_id` is the id of its command."""

    queued_id: str
    text: str


class MoveQueued(_Model, frozen=True, kw_only=True, tag="move_queued"):
    queued_id: str
    to: int


class SendQueued(_Model, frozen=True, kw_only=True, tag="send_queued"):
    """Send a queued prompt now, before the others: the active run is cancelled first."""

    queued_id: str


class RemoveQueued(_Model, frozen=True, kw_only=True, tag="remove_queued"):
    queued_id: str


class AnswerPermission(_Model, frozen=True, kw_only=True, tag="answer_permission"):
    """Answer a permission request, by one of the agent's options or by a meaning, for which an option is chosen.

    `by` tells who decided, a person or a program. Without `remember` no rule is made of the answer, though the agent
    may heed an option that means "always".
    """

    permission_id: str
    option_id: str | None = None
    answer: Literal["allow", "reject", "cancel"] | None = None
    always: bool = False
    by: Literal["person", "callback"] = "person"
    remember: bool = True


class AnswerQuestion(_Model, frozen=True, kw_only=True, tag="answer_question"):
    question_id: str
    action: Literal["accept", "decline", "cancel"]
    content: dict[str, Any] | None = None
    by: Literal["person", "callback"] = "person"


class SetOption(_Model, frozen=True, kw_only=True, tag="set_option"):
    option_id: str
    value: str | bool


class SetMode(_Model, frozen=True, kw_only=True, tag="set_mode"):
    mode: str


class Close(_Model, frozen=True, kw_only=True, tag="close"):
    pass


Command: TypeAlias = (
    Prompt
    | Cancel
    | EditQueued
    | MoveQueued
    | SendQueued
    | RemoveQueued
    | AnswerPermission
    | AnswerQuestion
    | SetOption
    | SetMode
    | Close
)

_decoder: msgspec.json.Decoder[Command] = msgspec.json.Decoder(Command)


def encode(command: Command) -> bytes:
    """Return the command as the inbox stores it; equal commands give equal bytes."""
    return msgspec.json.encode(command)


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
