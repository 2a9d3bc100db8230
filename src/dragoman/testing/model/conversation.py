"""What a request for an answer says, whichever API it came by."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Final, Literal, TypeAlias

import msgspec
from msgspec import Struct

NOTHING: Final = msgspec.Raw(b"")
"""A part of a request that is not there, where one that is may be of any shape."""


class User(Struct, frozen=True):
    """One piece of text in the user's name. Agents put pieces of their own beside those of the person."""

    text: str


class Assistant(Struct, frozen=True):
    """What the model said before: here only how many tools it called by it."""

    calls: int = 0


class Result(Struct, frozen=True):
    """What one tool returned."""

    text: str


Entry: TypeAlias = User | Assistant | Result


class Tool(Struct, frozen=True):
    """`custom` tools take text in place of JSON; `namespace` is a group that the call must name beside the tool."""

    name: str
    kind: Literal["function", "custom"] = "function"
    namespace: str | None = None


class Conversation(Struct, frozen=True, kw_only=True):
    """A request, read. `key` differs between requests and is the same for a repeated one: ids are made of it."""

    key: str
    model: str
    entries: tuple[Entry, ...]
    tools: tuple[Tool, ...] = ()
    stream: bool = False
    schema: msgspec.Raw = NOTHING  # the answer must be JSON of this schema
    usage_in_stream: bool = True
    size: int = 0  # bytes of the request, from which tokens are estimated


def given(part: msgspec.Raw) -> bool:
    return bytes(part) not in (b"", b"null")


def key_of(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()[:16]


def joined(entries: Iterable[Entry]) -> tuple[Entry, ...]:
    """The same, with what the model said in several pieces in a row as one."""
    out: list[Entry] = []
    for entry in entries:
        last = out[-1] if out else None
        if isinstance(entry, Assistant) and isinstance(last, Assistant):
            out[-1] = Assistant(last.calls + entry.calls)
        else:
            out.append(entry)
    return tuple(out)
