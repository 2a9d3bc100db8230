"""Pieces: what there is to show, before anyone knows where and in which colours.

`render` makes them of events, `screen` puts them somewhere.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import msgspec

# What belongs together; a blank line parts one from the other.
Block: TypeAlias = Literal["prompt", "text", "thought", "line", "question", "end"]

# Names of what a span means; `screen` knows how each looks.
Style: TypeAlias = Literal["", "bold", "dim", "good", "bad", "tool", "question", "thought"]

# By whom things are decided without a word on the screen.
UNSEEN: Final = ("rule", "default", "timeout")


class Span(msgspec.Struct, frozen=True):
    text: str
    style: Style = ""


class Text(msgspec.Struct, frozen=True):
    """A part of the agent's words, for stdout, and the message it belongs to."""

    text: str
    message_id: str


class Thought(msgspec.Struct, frozen=True):
    text: str
    message_id: str


class MessageEnd(msgspec.Struct, frozen=True):
    """Nothing more will be said in this message, or thought."""

    message_id: str


class Line(msgspec.Struct, frozen=True):
    """A line beside the text. With a `key` it stays open for its `Ending`, as long as nothing else comes."""

    spans: tuple[Span, ...]
    key: str | None = None
    block: Block = "line"


class Ending(msgspec.Struct, frozen=True):
    """What became of the line with this key. It takes its place where that is still open."""

    key: str
    spans: tuple[Span, ...]


Piece: TypeAlias = Text | Thought | MessageEnd | Line | Ending
