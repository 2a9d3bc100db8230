"""Codex's records, typed: the fields that the translation uses, and their content as ACP content blocks.

One struct serves the payloads of all kinds. Values that are long and seldom needed, or that have several types, stay
undecoded (`msgspec.Raw`). If a field has an unexpected type, only that field is lost.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeVar
from urllib.parse import unquote

import msgspec

from dragoman.translate.records import decode_leniently, strict_utf8
from dragoman.wire.messages import DECODE_ERRORS
from dragoman.wire.vocabulary import AudioContent, ContentBlock, ImageContent, ResourceLink, TextContent


class RecordRef(msgspec.Struct, frozen=True, gc=False):
    at: float  # seconds since 1970
    stamp: str | None  # the same time as the record has it; None in files without times
    offset: int  # of the record's first byte

    def meta(self, **extras: object) -> dict[str, Any]:
        """Build the `_meta` of a frame: the native time, and values for which the protocol has no field."""
        native: dict[str, object] = {"at": self.stamp} if self.stamp is not None else {}
        native.update((key, value) for key, value in extras.items() if value is not None)
        return {"native": native}


ABSENT: Final = msgspec.Raw(b"null")

T = TypeVar("T")
B = TypeVar("B")


class Tokens(msgspec.Struct, frozen=True, gc=False):
    """`input_tokens` includes the cached ones."""

    input_tokens: int = 0
    cached_input_tokens: int = 0
    cache_write_input_tokens: int | None = None  # not counted before 0.166
    output_tokens: int = 0
    reasoning_output_tokens: int = 0
    total_tokens: int = 0


class TokenInfo(msgspec.Struct, frozen=True, gc=False):
    total_token_usage: Tokens | None = None
    last_token_usage: Tokens | None = None
    model_context_window: int | None = None


class Item(msgspec.Struct, frozen=True, gc=False):
    """The item of `item_completed`. It has the id of its response item or call; a prompt has an id of its own."""

    type: str = ""
    id: str = ""
    content: msgspec.Raw = ABSENT
    phase: str | None = None
    summary_text: msgspec.Raw = ABSENT
    raw_content: msgspec.Raw = ABSENT
    text: str = ""
    command: msgspec.Raw = ABSENT
    cwd: str = ""
    parsed_cmd: msgspec.Raw = ABSENT
    aggregated_output: str | None = None
    exit_code: int | None = None
    source: msgspec.Raw = ABSENT
    status: str = ""
    changes: msgspec.Raw = ABSENT
    stdout: str = ""
    stderr: str = ""
    query: str = ""
    action: msgspec.Raw = ABSENT
    path: str = ""
    server: str = ""
    tool: str = ""
    namespace: str | None = None
    arguments: msgspec.Raw = ABSENT
    result: msgspec.Raw = ABSENT
    error: msgspec.Raw = ABSENT
    content_items: msgspec.Raw = ABSENT
    success: bool | None = None
    revised_prompt: str | None = None
    saved_path: str | None = None
    agent_thread_id: str = ""
    agent_path: str = ""
    kind: str = ""
    prompt: str | None = None
    user_facing_hint: str | None = None
    agents_states: msgspec.Raw = ABSENT
    name: str = ""
    output: msgspec.Raw = ABSENT


class Payload(msgspec.Struct, frozen=True, gc=False):
    """The payload of a line with an envelope; a flat line is itself a payload."""

    type: str = ""
    id: str | None = None
    call_id: str | None = None
    turn_id: str | None = None
    # messages, thoughts
    role: str = ""
    content: msgspec.Raw = ABSENT
    summary: msgspec.Raw = ABSENT
    phase: str | None = None
    message: str = ""
    text: str = ""
    images: msgspec.Raw = ABSENT
    local_images: msgspec.Raw = ABSENT
    author: str = ""
    recipient: str = ""
    passthrough: msgspec.Raw = msgspec.field(default=ABSENT, name="internal_chat_message_metadata_passthrough")
    # calls and their ends
    name: str = ""
    namespace: str | None = None
    arguments: msgspec.Raw = ABSENT
    input: str = ""
    output: msgspec.Raw = ABSENT
    action: msgspec.Raw = ABSENT
    query: str = ""
    status: msgspec.Raw = ABSENT
    command: msgspec.Raw = ABSENT
    parsed_cmd: msgspec.Raw = ABSENT
    aggregated_output: str | None = None
    exit_code: int | None = None
    success: bool | None = None
    changes: msgspec.Raw = ABSENT
    stdout: str = ""
    stderr: str = ""
    invocation: msgspec.Raw = ABSENT
    result: msgspec.Raw = ABSENT
    revised_prompt: str | None = None
    item: Item | None = None
    dynamic_call_id: str | None = msgspec.field(default=None, name="callId")
    tool: str = ""
    content_items: msgspec.Raw = ABSENT
    error: msgspec.Raw = ABSENT
    # the turn and its settings
    info: TokenInfo | None = None
    reason: str = ""
    codex_error_info: msgspec.Raw = ABSENT
    thread_name: str | None = None
    thread_settings: msgspec.Raw = ABSENT
    model: str | None = None
    effort: str | None = None
    approval_policy: msgspec.Raw = ABSENT
    approvals_reviewer: str | None = None
    sandbox_policy: msgspec.Raw = ABSENT
    collaboration_mode: msgspec.Raw = ABSENT
    user_facing_hint: str | None = None
    num_turns: int | None = None
    # sub-agents
    new_thread_id: str | None = None
    new_agent_nickname: str | None = None
    new_agent_role: str | None = None
    receiver_thread_id: str | None = None
    receiver_agent_nickname: str | None = None
    agent_thread_id: str = ""
    agent_path: str | None = None
    kind: str = ""
    prompt: str | None = None
    agent_statuses: msgspec.Raw = ABSENT
    # the thread
    timestamp: str | None = None
    cwd: str | None = None
    originator: str | None = None
    cli_version: str | None = None
    model_provider: str | None = None
    source: msgspec.Raw = ABSENT
    git: msgspec.Raw = ABSENT
    history_mode: str | None = None
    forked_from_id: str | None = None
    parent_thread_id: str | None = None
    agent_nickname: str | None = None
    agent_role: str | None = None
    history_base: msgspec.Raw = ABSENT
    subagent_history_start_ordinal: int | None = None


class Provenance(msgspec.Struct, frozen=True, gc=False):
    """The origin of an item of the model's history, in files since about 0.153."""

    compaction_output: bool = False  # the model was asked for a summary
    inherited_user_message: bool = False  # it belongs to another thread
    delivered_assistant_message: str = ""  # a text that a tool delivered, or a mark that it is incomplete


class Line(msgspec.Struct, frozen=True, gc=False):
    type: str = ""
    timestamp: str | None = None
    ordinal: int | None = None
    payload: Payload | None = None
    metadata: Provenance | None = None
    record_type: str = ""  # set in a flat line that marks a state of the program


class _Loose(msgspec.Struct, frozen=True, gc=False):
    payload: msgspec.Raw = ABSENT


class Part(msgspec.Struct, frozen=True, gc=False):
    """A piece of a message, a thought, a prompt or a result. The spelling of types varies between versions."""

    type: str = ""
    text: str = ""
    image_url: str = ""
    image_address: str = msgspec.field(default="", name="imageUrl")  # in outputs of dynamic tools
    audio_url: str = ""
    audio_address: str = msgspec.field(default="", name="audioUrl")
    path: str = ""
    name: str = ""  # of something that the user picked from a list
    encrypted_content: str = ""


decode = strict_utf8(msgspec.json.Decoder(Line).decode)
decode_payload = msgspec.json.Decoder(Payload).decode
_decode_parts = msgspec.json.Decoder(list[Part]).decode

_BLANK_LINE: Final = Line()
_BLANK_PAYLOAD: Final = Payload()
_BLANK_PART: Final = Part()


def build(line: bytes) -> Line | None:
    """Build a line from an object whose fields may have any type."""
    record = decode_leniently(line, Line, _BLANK_LINE)
    if record.payload is None:
        loose = decode_leniently(line, _Loose, _Loose()).payload
        if bytes(loose).startswith(b"{"):
            record = msgspec.structs.replace(record, payload=_payload(loose))
    return record


def flat(line: bytes) -> Payload:
    """Decode a line without an envelope."""
    try:
        return decode_payload(line)
    except DECODE_ERRORS:
        return _payload(line)


def _payload(raw: bytes | msgspec.Raw) -> Payload:
    return decode_leniently(raw, Payload, _BLANK_PAYLOAD)


def parts(raw: msgspec.Raw) -> Sequence[Part]:
    """Decode a list of pieces; a string is one piece of text, anything else is no piece."""
    try:
        return _decode_parts(raw)
    except DECODE_ERRORS:
        pass
    value = plain(raw)
    items = value if isinstance(value, list) else [value]
    return [part for part in map(_part, items) if part is not None]


def _part(item: object) -> Part | None:
    if isinstance(item, str):
        return Part(type="text", text=item)
    return decode_leniently(msgspec.json.encode(item), Part, _BLANK_PART) if isinstance(item, dict) else None


def plain(raw: bytes | msgspec.Raw) -> Any:
    """Decode any value; None if it cannot be decoded."""
    try:
        return msgspec.json.decode(raw)
    except DECODE_ERRORS:
        return None


def string(raw: msgspec.Raw) -> str:
    """Decode a string; empty for anything else."""
    value = plain(raw)
    return value if isinstance(value, str) else ""


def is_encrypted(text: str) -> bool:
    """Return True for a Fernet token: all begin with the same version and the same first bytes of the time."""
    return text.startswith("gAAAA")


def texts(raw: msgspec.Raw) -> tuple[str, ...]:
    """Return the readable text of each piece; not `encrypted_content`."""
    return tuple(part.text for part in parts(raw) if part.text)


def read(raw: bytes | str | msgspec.Raw, type_: type[T], blank: B) -> T | B:
    """Decode a value of this type; return `blank` if it is none."""
    try:
        return msgspec.json.decode(raw, type=type_)
    except DECODE_ERRORS:
        return blank


_DRIVE: Final = re.compile(r"[A-Za-z]:[\\/]|\\\\")


def local_path(path: str) -> str:
    """Return the path of a `file:` URL; a path stays as it is."""
    if not path.startswith("file://"):
        return path
    decoded = unquote(path.removeprefix("file://"))
    return decoded[1:] if _DRIVE.match(decoded[1:]) else decoded


def absolute(path: str, folder: str) -> str:
    """Return the absolute path of a path relative to a folder; unchanged if the folder is not known."""
    path, folder = local_path(path), local_path(folder)
    if not path or not folder or path.startswith(("/", "~")) or _DRIVE.match(path):
        return path
    if _DRIVE.match(folder) and "/" not in folder:
        return folder.rstrip("\\") + "\\" + path.removeprefix(".\\").replace("/", "\\")
    return posixpath.normpath(posixpath.join(folder, path))


_DATA_URL: Final = re.compile(r"data:([^;,]*)[^,]*;base64,", re.IGNORECASE)


def prompt_blocks(text: str, images: msgspec.Raw, local_images: msgspec.Raw) -> tuple[ContentBlock, ...]:
    """Convert a prompt of a text and lists of images to content blocks."""
    blocks: list[ContentBlock] = [TextContent(text=text)] if text else []
    blocks += [image_block(address) for address in texts(images)]
    blocks += [_file_link(path) for path in texts(local_images)]
    return tuple(blocks)


def content_blocks(pieces: Iterable[Part]) -> tuple[ContentBlock, ...]:
    """Convert pieces to content blocks, in their order."""
    blocks: list[ContentBlock] = []
    for part in pieces:
        if address := part.image_url or part.image_address:
            blocks.append(image_block(address))
        elif part.text:
            blocks.append(TextContent(text=part.text))
        elif address := part.audio_url or part.audio_address:
            blocks.append(_audio_block(address))
        elif part.path:
            blocks.append(_file_link(part.path, part.name))
    return tuple(blocks)


def image_block(address: str) -> ContentBlock:
    """Convert the address of an image: a `data:` URL becomes an image, any other address a link."""
    match = _DATA_URL.match(address)
    if match is not None:
        return ImageContent(data=address[match.end() :], mime_type=match[1] or "image/png")
    return ResourceLink(name=address.rpartition("/")[2] or "image", uri=address)


def _audio_block(address: str) -> ContentBlock:
    match = _DATA_URL.match(address)
    if match is not None:
        return AudioContent(data=address[match.end() :], mime_type=match[1] or "audio/wav")
    return ResourceLink(name=address.rpartition("/")[2] or "audio", uri=address)


def _file_link(path: str, name: str = "") -> ResourceLink:
    path = local_path(path)
    uri = f"file://{path}" if path.startswith("/") else path
    return ResourceLink(name=name or re.split(r"[/\\]", path)[-1], uri=uri)
