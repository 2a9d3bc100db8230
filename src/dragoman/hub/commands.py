"""Commands: the requests that the owner of a session carries out, and their encoding in the journal's inbox.

The sender chooses a command's id; sent twice, it is carried out once, by the process that owns the session. The files
that a prompt attaches are read here, from the workspace only.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final, Literal, TypeAlias

import msgspec

from dragoman.errors import InputError
from dragoman.host import permission
from dragoman.host.files import read_text
from dragoman.protocol import requests, results
from dragoman.protocol.messages import Scope
from dragoman.protocol.requests import (
    CheckpointRewind,
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
from dragoman.record import notes
from dragoman.session.prompt import Part, TextAttachment
from dragoman.session.session import Session
from dragoman.wire import vocabulary as acp
from dragoman.wire.connection import RpcRefusal
from dragoman.workspace import Workspace


class GitActionNoted(requests.Request[results.Done], tag="git.action_noted", frozen=True, kw_only=True):
    """Record what another process did with git for this session. No client sends it: no request declares it."""

    session_id: str
    note: notes.GitAction


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
    | CheckpointRewind
    | GitActionNoted
)

# The kinds of option that an answer takes, in order; with `always` the other way round.
_OPTION_KINDS: Final = {"allow": ("allow_once", "allow_always"), "reject": ("reject_once", "reject_always")}


# The outcome of a command that needs a higher scope than its client has.
FORBIDDEN: Final = "forbidden"


class SentCommand(msgspec.Struct, frozen=True):
    """A command, and the scope of the client that sent it."""

    command: Command
    scope: Scope


_decoder: msgspec.json.Decoder[SentCommand] = msgspec.json.Decoder(SentCommand)
_bare_decoder: msgspec.json.Decoder[Command] = msgspec.json.Decoder(Command)


def encode(sent: SentCommand) -> bytes:
    """Return the command as the inbox stores it; equal commands give equal bytes, whatever their ids."""
    return msgspec.json.encode(SentCommand(msgspec.structs.replace(sent.command, id="", command_id=None), sent.scope))


def decode(body: bytes) -> SentCommand:
    """Read a command from the inbox. `InputError` for one that this version does not know.

    A command without a scope is of an earlier version, and counts as sent with the scope `prompt`.
    """
    try:
        return _decoder.decode(body)
    except msgspec.MsgspecError as error:
        try:
            return SentCommand(_bare_decoder.decode(body), "prompt")
        except msgspec.MsgspecError:
            raise InputError(f"this version of Dragoman does not know this command: {error}") from error


class Outcome(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The outcome of a command. Of a prompt: the run that began, or its id in the queue."""

    run_id: str | None = None
    queued_id: str | None = None
    how: Literal["started", "queued", "steered", "cancelled_first"] | None = None
    accepted: bool = True  # of an answer: False when another one was first, or the question was withdrawn


async def request_parts(
    prompt: requests.SessionPrompt, workspace: Workspace, home: Path, check_file: Callable[[Path], None]
) -> list[Part]:
    """Return the text first, then the attachments in their order.

    Files of the `home` folder are refused: it holds keys, and attachments are stored and shown to everyone.
    `check_file` is called in a thread with the path of each file, and raises where it may not be attached.
    """
    parts: list[Part] = [prompt.text] if prompt.text.strip() else []
    for attachment in prompt.attachments:
        match attachment:
            case requests.AttachedFile(path=path):
                parts.append(await asyncio.to_thread(_file, workspace, path, home, check_file))
            case requests.AttachedImage(mime_type=mime_type, data=data):
                _check_kind(mime_type, "image")
                parts.append(acp.ImageContent(data=data, mime_type=mime_type))
            case requests.AttachedAudio(mime_type=mime_type, data=data):
                _check_kind(mime_type, "audio")
                parts.append(acp.AudioContent(data=data, mime_type=mime_type))
            case requests.AttachedText(name=name, text=text, uri=uri):
                parts.append(TextAttachment(f"{name} ({uri})" if uri else name, text))
    return parts


def reply_to(session: Session, command: PermissionAnswer) -> permission.Reply:
    """Return the answer that a command means. `InputError` where there is no such request, or no option for it."""
    row = session.fold.permissions.get(command.permission_id)
    if row is None:
        raise InputError(f"session {session.id} was never asked {command.permission_id!r}")
    if command.option_id is not None:
        option = next((option for option in row.options if option.option_id == command.option_id), None)
        if option is None:
            raise InputError(f"there is no option {command.option_id!r}", guidance="Choose one of the agent's options.")
        always = command.remember and (command.always or option.kind.endswith("_always"))
        allowed = option.kind.startswith("allow")
        return permission.PermissionAnswer(
            "selected", option.option_id, allowed=allowed, always=always, only_files=command.only_files
        )
    if command.answer is None:
        raise InputError("an answer is needed: option_id, or answer")
    if command.answer == "cancel":
        return None
    kinds = _OPTION_KINDS[command.answer]
    # With `only_files` the agent is told "once": it would itself remember more.
    for kind in reversed(kinds) if command.always and not command.only_files else kinds:
        for option in row.options:
            if option.kind == kind:
                allowed = command.answer == "allow"
                return permission.PermissionAnswer(
                    "selected", option.option_id, allowed=allowed, always=command.always, only_files=command.only_files
                )
    if command.answer == "reject":
        return permission.PermissionAnswer("cancelled", always=command.always)
    raise InputError("the agent offers no option that allows it", guidance="Choose one of its options, or refuse.")


def describe(attachment: requests.Attachment) -> str:
    """Return a short name of an attachment, for lists."""
    match attachment:
        case requests.AttachedFile(path=path):
            return path
        case requests.AttachedImage(name=name) | requests.AttachedAudio(name=name):
            return name or ("image" if isinstance(attachment, requests.AttachedImage) else "audio")
        case requests.AttachedText(name=name):
            return name


def is_within(path: str | Path, home: Path) -> bool:
    """Return whether a path without links is in our home folder."""
    return Path(path).is_relative_to(os.path.realpath(home))


def _file(
    workspace: Workspace, path: str, home: Path, check_file: Callable[[Path], None]
) -> TextAttachment | acp.ContentBlock:
    try:
        file = read_text(workspace, os.path.join(workspace.cwd, path))
    except RpcRefusal as error:
        raise InputError(f"{path} cannot go with the prompt: {error}") from error
    if is_within(file.path, home):
        raise InputError(f"{path} cannot go with the prompt: it is a file of Dragoman's own")
    check_file(file.path)
    return TextAttachment(str(file.path), file.text)


def _check_kind(mime_type: str, family: str) -> None:
    if not mime_type.startswith(f"{family}/"):
        raise InputError(f"{mime_type!r} is no {family} type")
