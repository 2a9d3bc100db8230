"""Text out of the shapes in which messages carry it: a string, or a list of blocks of which some have text."""

from __future__ import annotations

import msgspec
from msgspec import Raw, Struct

from dragoman.testing.model.conversation import given


class _Block(Struct, frozen=True):
    text: str | None = None


def text_of(content: Raw) -> tuple[str, ...]:
    """The pieces of text, one a block. Anything of another shape is given as its JSON."""
    if not given(content):
        return ()
    try:
        blocks = _decoder.decode(content)
    except msgspec.ValidationError:
        return (bytes(content).decode(),)
    if isinstance(blocks, str):
        return (blocks,)
    return tuple(block.text for block in blocks if block.text is not None)


_decoder = msgspec.json.Decoder(str | list[_Block])
