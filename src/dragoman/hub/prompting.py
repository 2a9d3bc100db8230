"""A client's prompt as the parts of a prompt. Files of the workspace are read here, and only those."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from dragoman.errors import InputError
from dragoman.host.files import read_text
from dragoman.protocol import requests
from dragoman.session.prompt import Part, TextAttachment
from dragoman.wire import vocabulary as acp
from dragoman.wire.connection import RpcRefusal
from dragoman.workspace import Workspace


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
        found = read_text(workspace, os.path.join(workspace.cwd, path))
    except RpcRefusal as problem:
        raise InputError(f"{path} cannot go with the prompt: {problem}") from problem
    if is_within(found.path, home):
        raise InputError(f"{path} cannot go with the prompt: it is a file of Dragoman's own")
    return TextAttachment(str(found.path), found.text)


def _check_kind(mime_type: str, family: str) -> None:
    if not mime_type.startswith(f"{family}/"):
        raise InputError(f"{mime_type!r} is no {family} type")
