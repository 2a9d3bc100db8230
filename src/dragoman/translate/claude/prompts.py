"""What someone asked of Claude, as the content of a prompt, and where in the transcript it stands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dragoman.translate.claude import words
from dragoman.translate.claude.records import Block, Record
from dragoman.translate.claude.results import words_of
from dragoman.wire.vocabulary import (
    BlobResourceContents,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    TextContent,
)


def native(record: Record) -> dict[str, Any]:
    """`_meta` of what is told of a record: where it stands in the transcript."""
    return {"native": {"uuid": record.uuid, "at": record.timestamp}}


def commanded(record: Record) -> dict[str, Any]:
    """The same, for a slash command."""
    return {"native": {"uuid": record.uuid, "at": record.timestamp, "command": True}}


def prompt_of(record: Record, content: Sequence[Block]) -> list[ContentBlock]:
    """The user's own words, and what was sent with them; nothing where nobody said anything."""
    asked: list[ContentBlock] = []
    for block in content:
        if block.type != "text":
            asked.append(_attached(record, block))
        elif (text := words.read(block.text).prompt).strip():
            asked.append(TextContent(text=text))
    return asked


def _attached(record: Record, block: Block) -> ContentBlock:
    source = block.source
    if source is not None and source.type == "base64":
        if block.type == "image":
            return ImageContent(data=source.data, mime_type=source.media_type)
        uri = f"claude:{record.uuid}/{block.title or block.type}"
        return EmbeddedResource(resource=BlobResourceContents(uri=uri, mime_type=source.media_type, blob=source.data))
    return TextContent(text=words_of(block))
