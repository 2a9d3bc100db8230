"""Reading a transcript: its whole lines, and where each stands. A last line that is half written is left."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import BinaryIO, Final, cast

import msgspec

from dragoman.errors import InputError
from dragoman.translate.frames import is_json

_ZSTD: Final = ".zst"


class Line(msgspec.Struct, frozen=True, gc=False):
    text: bytes  # without its newline
    position: int  # of its first byte
    end: int  # of the first byte after it, its newline included


def opened(path: Path) -> BinaryIO:
    """`InputError` for a compressed file where this Python has nothing to read it with."""
    if path.suffix != _ZSTD:
        return path.open("rb")
    try:
        zstd = import_module("compression.zstd")
    except ImportError:
        raise InputError(
            "it is compressed (zstd)", guidance="Run Dragoman with Python 3.14 or later, or unpack it: unzstd FILE"
        ) from None
    return cast(BinaryIO, zstd.open(path, "rb"))


def whole_lines(file: BinaryIO) -> Iterator[Line]:
    """A last line without a newline counts where it is a whole object: with whatever follows it begins the same."""
    position = 0
    while text := file.readline():
        if not text.endswith(b"\n") and not (text.startswith(b"{") and is_json(text)):
            return
        end = position + len(text)
        yield Line(text.removesuffix(b"\n"), position, end)
        position = end
