"""The result of a tool as content for the agent: texts, images, and the value itself where it is an object. Pure.

A text is shown as it is. An `ImageAttachment`, bytes of an image, and images of a library that can `save` them (Pillow)
become pictures, also in a list or tuple beside texts. Everything else is JSON.
"""

from __future__ import annotations

import base64
import io
import mimetypes
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec

from dragoman.evaluation.types import Shape, encode
from dragoman.session.prompt import ImageAttachment

# Models take far less, and agents keep results in memory and in their transcripts.
MAX_RESULT_BYTES: Final = 4 * 1024 * 1024

_MAGIC: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
)


class Text(msgspec.Struct, frozen=True):
    text: str


class Picture(msgspec.Struct, frozen=True):
    data: str  # Base64
    mime_type: str


Block: TypeAlias = Text | Picture


class Content(msgspec.Struct, frozen=True, kw_only=True):
    """An answer to the agent."""

    blocks: tuple[Block, ...] = ()
    structured: dict[str, Any] | None = None
    value: Any = None  # JSON, for the record of the call; of pictures only what they are
    is_error: bool = False

    @property
    def text(self) -> str:
        return "\n".join(block.text for block in self.blocks if isinstance(block, Text))

    @property
    def size(self) -> int:
        return sum(len(block.text.encode()) if isinstance(block, Text) else len(block.data) for block in self.blocks)


class Unfit(Exception):
    """A result that cannot be passed on; the text is for the agent."""


def content_of(result: Any, shape: Shape | None, max_bytes: int = MAX_RESULT_BYTES) -> Content:
    """Return the content of a result. `Unfit` where it is no `shape` (the tool's return type), or is too large."""
    content = _structured(result, shape) if shape is not None else _shown(result)
    if content.size > max_bytes:
        raise Unfit(f"the result has {content.size:,} bytes, and {max_bytes:,} is the most: ask for less at a time")
    return content


def failed(message: str) -> Content:
    return Content(blocks=(Text(message),), is_error=True)


def _structured(result: Any, shape: Shape) -> Content:
    value = shape.encode_object(result)
    try:
        shape.decode_object(value)  # the agent has the schema, and would reject a value that does not fit
    except ValueError as error:
        raise Unfit(f"the tool returned a value that is not a {shape.name}: {error}") from error
    plain = encode(result)
    return Content(blocks=(Text(_json(plain)),), structured=value, value=plain)


def _shown(result: Any) -> Content:
    if result is None:
        return Content(blocks=(Text("done"),))
    if (picture := _picture(result)) is not None:
        return _mixed([picture])
    if isinstance(result, list | tuple):
        parts = [_picture(part) for part in result]
        if any(parts):
            return _mixed(part or _words(value) for part, value in zip(parts, result, strict=True))
    value = encode(result)
    structured = value if isinstance(value, dict) else None
    return Content(blocks=(_words(result),), structured=structured, value=value)


def _mixed(blocks: Iterable[Block]) -> Content:
    content = tuple(blocks)
    value = [block.text if isinstance(block, Text) else {"image": block.mime_type} for block in content]
    return Content(blocks=content, value=value[0] if len(value) == 1 else value)


def _words(value: Any) -> Text:
    plain = encode(value)
    return Text(plain if isinstance(plain, str) else _json(plain))


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _picture(value: Any) -> Picture | None:
    match value:
        case ImageAttachment():
            return _read(value)
        case bytes() if (kind := _kind(value)) is not None:
            return Picture(base64.b64encode(value).decode(), kind)
        case _:
            return _saved(value)


def _saved(value: Any) -> Picture | None:
    """Return an image of Pillow, or of a library with the same methods, as PNG."""
    if callable(save := getattr(value, "save", None)) and isinstance(getattr(value, "mode", None), str):
        saved = io.BytesIO()
        save(saved, format="PNG")
        return Picture(base64.b64encode(saved.getvalue()).decode(), "image/png")
    return None


def _read(image: ImageAttachment) -> Picture:
    source = image.source
    data = source if isinstance(source, bytes) else Path(source).expanduser().read_bytes()
    named = None if isinstance(source, bytes) else mimetypes.guess_type(Path(source).name)[0]
    mime_type = image.mime_type or _kind(data) or named
    if mime_type is None:
        raise Unfit("the tool returned an image of an unknown kind: pass its mime_type")
    return Picture(base64.b64encode(data).decode(), mime_type)


def _kind(data: bytes) -> str | None:
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for magic, kind in _MAGIC if data.startswith(magic)), None)
