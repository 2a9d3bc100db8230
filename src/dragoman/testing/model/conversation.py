"""A request for an answer, independent of the API that it came by; and what the APIs share."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Final, Literal, TypeAlias

import msgspec
from msgspec import Struct

ABSENT: Final = msgspec.Raw(b"")
"""A part of a request that is absent; one that is present may have any shape."""


class User(Struct, frozen=True):
    """One piece of text in the user role. Agents add pieces of their own to those of the person."""

    text: str


class Assistant(Struct, frozen=True):
    """An earlier answer of the model; only the number of its tool calls matters."""

    calls: int = 0


class Result(Struct, frozen=True):
    """The result of one tool call."""

    text: str


Entry: TypeAlias = User | Assistant | Result


class Tool(Struct, frozen=True):
    """`custom` tools take text instead of JSON; `namespace` is a group that a call must name with the tool."""

    name: str
    kind: Literal["function", "custom"] = "function"
    namespace: str | None = None


class Conversation(Struct, frozen=True, kw_only=True):
    """A decoded request. `key` identifies its bytes: ids are made of it."""

    key: str
    model: str
    entries: tuple[Entry, ...]
    tools: tuple[Tool, ...] = ()
    stream: bool = False
    schema: msgspec.Raw = ABSENT  # the answer must be JSON of this schema
    usage_in_stream: bool = True
    size: int = 0  # bytes of the request, from which tokens are estimated


def is_present(part: msgspec.Raw) -> bool:
    return bytes(part) not in (b"", b"null")


def key_of_body(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()[:16]


def merge_answers(entries: Iterable[Entry]) -> tuple[Entry, ...]:
    """Merge consecutive answers of the model into one."""
    out: list[Entry] = []
    for entry in entries:
        last = out[-1] if out else None
        if isinstance(entry, Assistant) and isinstance(last, Assistant):
            out[-1] = Assistant(last.calls + entry.calls)
        else:
            out.append(entry)
    return tuple(out)


class _Block(Struct, frozen=True):
    text: str | None = None


def text_of(content: msgspec.Raw) -> tuple[str, ...]:
    """Return the texts of a string or of a list of blocks, one per block; content of another shape as its JSON."""
    if not is_present(content):
        return ()
    try:
        blocks = _content_decoder.decode(content)
    except msgspec.ValidationError:
        return (bytes(content).decode(),)
    if isinstance(blocks, str):
        return (blocks,)
    return tuple(block.text for block in blocks if block.text is not None)


_content_decoder = msgspec.json.Decoder(str | list[_Block])


def sse_event(data: object, name: str | None = None) -> bytes:
    """Encode one server-sent event; `data` is JSON on one line."""
    head = b"" if name is None else b"event: " + name.encode() + b"\n"
    return head + b"data: " + msgspec.json.encode(data) + b"\n\n"
