"""What anyone may want of a session that some process has open: commands, as the journal's inbox keeps them.

Whoever sends one chooses its id; sent twice, it is done once. The process that owns the session carries it out.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from dragoman.errors import InputError
from dragoman.protocol.requests import Attachment


class _Given(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="type"):
    pass


class Prompt(_Given, frozen=True, kw_only=True, tag="prompt"):
    """`when` the session is busy: `queue` it, do it `now` (what runs is cancelled first), or `refuse`."""

    text: str
    attachments: tuple[Attachment, ...] = ()
    when: Literal["queue", "now", "refuse"] = "queue"
    run_id: str | None = None  # of the run that it begins; chosen by the session where nobody else does


class Cancel(_Given, frozen=True, kw_only=True, tag="cancel"):
    """`run_id`: that run alone; where another one runs by now, nothing is done."""

    run_id: str | None = None


class EditQueued(_Given, frozen=True, kw_only=True, tag="edit_queued"):
    """`queued_id` is the id of the command that was queued."""

    queued_id: str
    text: str


class MoveQueued(_Given, frozen=True, kw_only=True, tag="move_queued"):
    queued_id: str
    to: int


class SendQueued(_Given, frozen=True, kw_only=True, tag="send_queued"):
    """Now, before the others: what runs is cancelled first."""

    queued_id: str


class RemoveQueued(_Given, frozen=True, kw_only=True, tag="remove_queued"):
    queued_id: str


class AnswerPermission(_Given, frozen=True, kw_only=True, tag="answer_permission"):
    """One of the agent's options by its id, or what is meant: then the option that says so is taken.

    `by`: who decided, a person or a program. `remember`: whether they may make rules; where not, an option that means
    "always" is still the agent's to heed, and no rule is made of it.
    """

    permission_id: str
    option_id: str | None = None
    answer: Literal["allow", "reject", "cancel"] | None = None
    always: bool = False
    by: Literal["person", "callback"] = "person"
    remember: bool = True


class AnswerQuestion(_Given, frozen=True, kw_only=True, tag="answer_question"):
    question_id: str
    action: Literal["accept", "decline", "cancel"]
    content: dict[str, Any] | None = None
    by: Literal["person", "callback"] = "person"


class SetOption(_Given, frozen=True, kw_only=True, tag="set_option"):
    option_id: str
    value: str | bool


class SetMode(_Given, frozen=True, kw_only=True, tag="set_mode"):
    mode: str


class Close(_Given, frozen=True, kw_only=True, tag="close"):
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


def written(command: Command) -> bytes:
    return msgspec.json.encode(command)


def read(body: bytes) -> Command:
    """Raises `InputError` for what a newer Dragoman, or nobody, has written."""
    try:
        return _decoder.decode(body)
    except msgspec.MsgspecError as problem:
        raise InputError(f"this command is not known here: {problem}") from problem


class Outcome(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What came of a command. Of a prompt: the run that began, or that it waits in the queue."""

    run_id: str | None = None
    queued_id: str | None = None
    how: Literal["started", "queued", "steered", "cancelled_first"] | None = None
    accepted: bool = True  # of an answer: False when another one was first, or the question was withdrawn
