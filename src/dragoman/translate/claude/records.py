"""Claude Code's records, typed: as much of each as the translation asks for.

What may be long and is often not needed is left as it stands (`msgspec.Raw`). A field of another type than expected
costs that field alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from dragoman.translate.records import decode_leniently, strict_utf8
from dragoman.wire.messages import DECODE_ERRORS

ABSENT: Final = msgspec.Raw(b"null")


class Origin(msgspec.Struct, frozen=True, gc=False):
    kind: str = ""


class Record(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Any line. Which fields are there depends on its type."""

    type: str = ""
    subtype: str | None = None
    uuid: str | None = None
    parent_uuid: str | None = None
    session_id: str | None = None
    agent_id: str | None = None
    timestamp: str | None = None
    cwd: str | None = None
    version: str | None = None
    git_branch: str | None = None
    entrypoint: str | None = None
    is_sidechain: bool = False
    is_meta: bool = False
    is_compact_summary: bool = False
    is_api_error_message: bool = False
    origin: Origin | None = None
    permission_mode: str | None = None
    message: msgspec.Raw = ABSENT
    tool_use_result: msgspec.Raw = ABSENT
    attachment: msgspec.Raw = ABSENT
    data: msgspec.Raw = ABSENT
    error: msgspec.Raw = ABSENT
    compact_metadata: msgspec.Raw = ABSENT
    content: msgspec.Raw = ABSENT
    parent_tool_use_id: str | None = msgspec.field(default=None, name="parentToolUseID")
    summary: str | None = None
    leaf_uuid: str | None = None
    ai_title: str | None = None
    custom_title: str | None = None
    total_cost_usd: float | None = msgspec.field(default=None, name="totalCostUSD")


class Tokens(msgspec.Struct, frozen=True, gc=False):
    """The tokens of one message; each of its lines repeats them."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cache_read_input_tokens: int | None = None

    @property
    def total(self) -> int:
        """Of the context, after the message."""
        return (
            (self.input_tokens or 0)
            + (self.output_tokens or 0)
            + (self.cache_creation_input_tokens or 0)
            + (self.cache_read_input_tokens or 0)
        )


class Source(msgspec.Struct, frozen=True, gc=False):
    """Of an image or a document."""

    type: str = ""
    media_type: str = ""
    data: str = ""
    url: str = ""


class Block(msgspec.Struct, frozen=True, gc=False):
    """A piece of a message's content, of any type."""

    type: str = ""
    text: str = ""
    thinking: str = ""
    id: str = ""
    name: str = ""
    input: msgspec.Raw = msgspec.Raw(b"{}")
    tool_use_id: str = ""
    content: msgspec.Raw = ABSENT
    is_error: bool | None = None
    source: Source | None = None
    title: str | None = None
    tool_name: str = ""
    from_: Any = msgspec.field(default=None, name="from")
    to: Any = None


class Message(msgspec.Struct, frozen=True, gc=False):
    """A message of the model's, or one to it. `content` is a string or blocks."""

    id: str = ""
    model: str = ""
    stop_reason: str | None = None
    usage: Tokens | None = None
    content: msgspec.Raw = ABSENT


class Attachment(msgspec.Struct, frozen=True, gc=False):
    type: str = ""
    prompt: msgspec.Raw = ABSENT
    command_mode: str = msgspec.field(default="", name="commandMode")


class Progress(msgspec.Struct, frozen=True, gc=False):
    type: str = ""
    agent_id: str | None = msgspec.field(default=None, name="agentId")


class Sidecar(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """`agent-….meta.json`, beside a sub-agent's file."""

    agent_type: str | None = None
    description: str | None = None
    tool_use_id: str | None = None


decode = strict_utf8(msgspec.json.Decoder(Record).decode)
_decode_message = msgspec.json.Decoder(Message).decode
_decode_block_list = msgspec.json.Decoder(list[Block]).decode

_BLANK: Final = Record()
_BLANK_MESSAGE: Final = Message()
_BLANK_BLOCK: Final = Block()


def build(line: bytes) -> Record | None:
    """For an object whose fields may be of any type."""
    record = decode_leniently(line, Record, _BLANK)
    return None if record is _BLANK else record


def decode_message(raw: msgspec.Raw) -> Message:
    try:
        return _decode_message(raw)
    except DECODE_ERRORS:
        return decode_leniently(raw, Message, _BLANK_MESSAGE)


def decode_blocks(raw: msgspec.Raw) -> Sequence[Block]:
    """The content of a message or a tool's result: blocks, or a string as a block of text."""
    try:
        return _decode_block_list(raw)
    except DECODE_ERRORS:
        pass
    try:
        content = msgspec.json.decode(raw)
    except DECODE_ERRORS:
        return ()
    if isinstance(content, str):
        return (Block(type="text", text=content),)
    if isinstance(content, dict):
        content = [content]
    if not isinstance(content, list):
        return ()
    return [_block(item) for item in content]


def _block(item: object) -> Block:
    if isinstance(item, str):
        return Block(type="text", text=item)
    return decode_leniently(msgspec.json.encode(item), Block, _BLANK_BLOCK)


def decode_text(raw: msgspec.Raw) -> str:
    """A string; empty for anything else."""
    try:
        return msgspec.json.decode(raw, type=str)
    except DECODE_ERRORS:
        return ""


def native_meta(record: Record) -> dict[str, Any]:
    """`_meta` of the frames of a record: its id and time in the transcript."""
    return {"native": {"uuid": record.uuid, "at": record.timestamp}}


def command_meta(record: Record) -> dict[str, Any]:
    """The same, for a slash command."""
    return {"native": {"uuid": record.uuid, "at": record.timestamp, "command": True}}
