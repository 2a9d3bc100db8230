"""Commands: the requests that the owner of a session carries out, and their encoding in the journal's inbox.

The sender chooses a command's id; sent twice, it is carried out once, by the process that owns the session. The files
that a prompt attaches are read here, from the workspace only.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from dragoman.errors import InputError
from dragoman.host.files import read_text
from dragoman.protocol import requests
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
from dragoman.session.prompt import Part, TextAttachment
from dragoman.wire import vocabulary as acp
from dragoman.wire.connection import RpcRefusal
from dragoman.workspace import Workspace

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


async def request_parts(prompt: requests.SessionPrompt, workspace: Workspace, home: Path) -> list[Part]:
    """Return the text first, then the attachments in their order.

    Files of the `home` folder are refused: it holds keys, and attachments are stored and shown to everyone.
    """
    parts: list[Part] = [prompt.text] if prompt.text.strip() else []
    for attachment in prompt.attachments:
        match attachment:
            case requests.AttachedFile(path=path):
                parts.append(await asyncio.to_thread(_file, workspace, path, home))
            case requests.AttachedImage(mime_type=mime_type, data=data):
                _check_kind(mime_type, "image")
                parts.append(acp.ImageContent(data=data, mime_type=mime_type))
            case requests.AttachedAudio(mime_type=mime_type, data=data):
                _check_kind(mime_type, "audio")
                parts.append(acp.AudioContent(data=data, mime_type=mime_type))
            case requests.AttachedText(name=name, text=text, uri=uri):
                parts.append(TextAttachment(f"{name} ({uri})" if uri else name, text))
    return parts


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


def _file(workspace: Workspace, path: str, home: Path) -> TextAttachment | acp.ContentBlock:
    try:
        file = read_text(workspace, os.path.join(workspace.cwd, path))
    except RpcRefusal as error:
        raise InputError(f"{path} cannot go with the prompt: {error}") from error
    if is_within(file.path, home):
        raise InputError(f"{path} cannot go with the prompt: it is a file of Dragoman's own")
    return TextAttachment(str(file.path), file.text)


def _check_kind(mime_type: str, family: str) -> None:
    if not mime_type.startswith(f"{family}/"):
        raise InputError(f"{mime_type!r} is no {family} type")
