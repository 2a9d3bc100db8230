"""Prompts as content blocks: text and its attachments, as far as the agent takes them.

Files become embedded resources where the agent takes them, otherwise text. Images and audio have no
stand-in: an agent that does not take them is a clear error.
"""

from __future__ import annotations

import base64
import mimetypes
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

import msgspec

from dragoman.errors import InputError
from dragoman.session.capabilities import Capabilities
from dragoman.wire import vocabulary as acp


class ImageAttachment(msgspec.Struct, frozen=True):
    """An image: a file, or bytes with their type."""

    source: Path | str | bytes
    mime_type: str | None = None


class AudioAttachment(msgspec.Struct, frozen=True):
    source: Path | str | bytes
    mime_type: str | None = None


class FileAttachment(msgspec.Struct, frozen=True):
    """A text file whose content goes with the prompt."""

    path: Path | str


class TextAttachment(msgspec.Struct, frozen=True):
    """Text that goes with the prompt under a name: standard input, a selection, a page."""

    name: str
    text: str
    mime_type: str = "text/plain"


class LinkAttachment(msgspec.Struct, frozen=True):
    """A resource that the agent may look at itself."""

    uri: str
    name: str | None = None


Part: TypeAlias = (
    str | ImageAttachment | AudioAttachment | FileAttachment | TextAttachment | LinkAttachment | acp.ContentBlock
)
Input: TypeAlias = Part | Sequence[Part]


def input_parts(prompt: Input) -> tuple[Part, ...]:
    if not isinstance(prompt, str | msgspec.Struct | Sequence) or isinstance(prompt, bytes | bytearray):
        raise InputError(f"the prompt is {prompt!r:.80}; expected a text, or a list of texts and attachments")
    parts = (prompt,) if isinstance(prompt, str | msgspec.Struct) else tuple(prompt)
    if not parts or all(isinstance(part, str) and not part.strip() for part in parts):
        raise InputError("the prompt is empty", guidance="Say what the agent should do.")
    return parts


def assemble(prompt: Input, capabilities: Capabilities) -> tuple[acp.ContentBlock, ...]:
    """Return the blocks of `session/prompt`, in the order of the parts."""
    return tuple(_block(part, capabilities) for part in input_parts(prompt))


def _block(part: Part, capabilities: Capabilities) -> acp.ContentBlock:
    match part:
        case str():
            return acp.TextContent(text=part)
        case ImageAttachment():
            capabilities.require("image", "take an image")
            data, mime_type = _media(part.source, part.mime_type, "image")
            return acp.ImageContent(data=data, mime_type=mime_type)
        case AudioAttachment():
            capabilities.require("audio", "take audio")
            data, mime_type = _media(part.source, part.mime_type, "audio")
            return acp.AudioContent(data=data, mime_type=mime_type)
        case FileAttachment():
            _check_regular(given_path := Path(part.path).expanduser())
            path = given_path.resolve()
            kind = mimetypes.guess_type(path.name)[0] or "text/plain"
            return text_resource(path.as_uri(), str(path), _read_text(path), kind, capabilities)
        case TextAttachment():
            return text_resource(f"attachment:{part.name}", part.name, part.text, part.mime_type, capabilities)
        case LinkAttachment():
            return acp.ResourceLink(uri=part.uri, name=part.name or part.uri.rstrip("/").rsplit("/", 1)[-1] or part.uri)
        case acp.ImageContent():
            capabilities.require("image", "take an image")
            return part
        case acp.AudioContent():
            capabilities.require("audio", "take audio")
            return part
        case acp.EmbeddedResource():
            capabilities.require("embedded_context", "take an embedded resource")
            return part
        case acp.TextContent() | acp.ResourceLink():
            return part
        case _:
            raise InputError(f"a prompt is made of texts, attachments and content blocks; got {part!r:.80}")


def text_resource(uri: str, name: str, text: str, mime_type: str, capabilities: Capabilities) -> acp.ContentBlock:
    """Return a text as an embedded resource, or under its name where the agent takes none."""
    if capabilities.embedded_context:
        return acp.EmbeddedResource(resource=acp.TextResourceContents(uri=uri, text=text, mime_type=mime_type))
    fence = "`" * max(3, _longest_backticks(text) + 1)
    return acp.TextContent(text=f"{name}:\n{fence}\n{text}\n{fence}")


def _longest_backticks(text: str) -> int:
    longest = run = 0
    for character in text:
        run = run + 1 if character == "`" else 0
        longest = max(longest, run)
    return longest


# What a file is, and some endings of its name.
_FAMILIES = {"image": "an image (.png, .jpg, .gif, .webp, …)", "audio": "audio (.wav, .mp3, .ogg, …)"}


def _media(source: Path | str | bytes, mime_type: str | None, family: str) -> tuple[str, str]:
    if isinstance(source, bytes):
        if mime_type is None:
            raise InputError(f"{family} given as bytes needs a mime_type, such as '{family}/png'")
        return base64.b64encode(source).decode(), mime_type
    path = Path(source).expanduser()
    kind = mime_type or mimetypes.guess_type(path.name)[0]
    if kind is None or not kind.startswith(f"{family}/"):
        raise InputError(
            f"{path} is not {_FAMILIES[family]}, judging by its name",
            guidance=f"Give it the ending of its format, or in Python its mime_type ('{family}/…').",
        )
    return base64.b64encode(_read_bytes(path)).decode(), kind


def _check_regular(path: Path) -> None:
    """Refuse pipes and devices: a pipe would block the whole program, and a device may have no end."""
    if path.exists() and not path.is_dir() and not path.is_file():
        raise InputError(
            f"{path} is no regular file", guidance="Read it yourself and pass a TextAttachment; or pipe it in."
        )


def _read_bytes(path: Path) -> bytes:
    _check_regular(path)
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from error


def _read_text(path: Path) -> str:
    try:
        return _read_bytes(path).decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path} is not UTF-8 text ({error.reason} at byte {error.start})",
            guidance="Attach it as an image, or give the agent its path.",
        ) from error
