"""Pieces of output, without a place and colours: `render` makes them of events, `screen` writes them."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import msgspec

# Pieces of one block belong together; blank lines separate blocks.
Block: TypeAlias = Literal["prompt", "text", "thought", "line", "question", "end"]

# The meaning of a span; `screen` knows how each looks.
Style: TypeAlias = Literal["", "bold", "dim", "good", "bad", "tool", "question", "thought"]

# Deciders that the user does not see on the screen.
UNSEEN: Final = ("rule", "default", "timeout")


class Span(msgspec.Struct, frozen=True):
    text: str
    style: Style = ""


class Text(msgspec.Struct, frozen=True):
    """A part of the agent's text, for stdout, and the message it belongs to."""

    text: str
    message_id: str


class Thought(msgspec.Struct, frozen=True):
    text: str
    message_id: str


class MessageEnd(msgspec.Struct, frozen=True):
    """The end of a message or thought."""

    message_id: str


class Line(msgspec.Struct, frozen=True):
    """A line beside the text. With a `key` it stays open for its `Ending`, as long as nothing else is written."""

    spans: tuple[Span, ...]
    key: str | None = None
    block: Block = "line"


class Ending(msgspec.Struct, frozen=True):
    """The outcome of the line with this key. It replaces that line while it is still open."""

    key: str
    spans: tuple[Span, ...]


Piece: TypeAlias = Text | Thought | MessageEnd | Line | Ending
