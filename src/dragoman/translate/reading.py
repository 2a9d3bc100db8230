"""Reading a transcript: its whole lines, where each stands, and how far it was read.

A last line that is half written is left.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO, Final

import msgspec

from dragoman.errors import InputError
from dragoman.translate.frames import is_json

_ZSTD: Final = ".zst"
_ZSTD_MODULES: Final = ("compression.zstd", "backports.zstd")  # Python's own from 3.14 on, and a package for others

# Bytes that are read at once. Each reading is a hand-over of the interpreter's lock, for which others wait.
_BUFFER: Final = 256 * 1024

# Bytes before a bookmark by which a file that has grown is told from one that was written anew.
_TAIL: Final = 256


class Line(msgspec.Struct, frozen=True, gc=False):
    text: bytes  # without its newline
    position: int  # of its first byte
    end: int  # of the first byte after it, its newline included


def opened(path: Path) -> BinaryIO:
    """`InputError` for a compressed file where there is nothing here to read it with."""
    if path.suffix != _ZSTD:
        return path.open("rb", buffering=_BUFFER)
    zstd = _zstd()
    return io.BufferedReader(_Unpacked(zstd.open(path, "rb"), zstd.ZstdError), _BUFFER)


def _zstd() -> Any:
    for name in _ZSTD_MODULES:
        try:
            return import_module(name)
        except ImportError:
            continue
    raise InputError("it is compressed, which takes more to read: pip install 'dragoman[zstd]'")


class _Unpacked(io.RawIOBase):
    """Ends where a file ends that is half written; what was damaged is no transcript."""

    def __init__(self, file: BinaryIO, damaged: type[Exception]) -> None:
        self._file = file
        self._damaged = damaged

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            data = self._file.read(len(buffer))
        except EOFError:
            return 0
        except self._damaged as problem:
            raise InputError(f"it is damaged: {problem}") from None
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._file.close()
        super().close()


def whole_lines(file: BinaryIO, position: int = 0) -> Iterator[Line]:
    """A last line without a newline counts where it is a whole object: with whatever follows it begins the same.

    `position`: of the first byte to be read, where a line begins.
    """
    if position:
        file.seek(position)
    for text in file:
        if not text.endswith(b"\n") and not (text.startswith(b"{") and is_json(text)):
            return
        end = position + len(text)
        yield Line(text.removesuffix(b"\n"), position, end)
        position = end


class Bookmark:
    """How far a file was read. `offset`: of the first byte that was not."""

    def __init__(self) -> None:
        self.offset = 0
        self._tail = b""  # what stands before it

    def put(self, path: Path, file: BinaryIO, offset: int) -> None:
        if path.suffix != _ZSTD:  # to look back in a compressed one is to read it again
            file.seek(start := max(0, offset - _TAIL))
            self._tail = file.read(offset - start)
        self.offset = offset

    def goes_on(self, path: Path) -> bool:
        """Whether the file is the same up to here, and what comes after begins a line. False for a compressed one."""
        if path.suffix == _ZSTD:
            return False
        with opened(path) as file:
            file.seek(self.offset - len(self._tail))
            if file.read(len(self._tail)) != self._tail:
                return False
            if self._tail.endswith(b"\n") or not self._tail:
                return True
            # The last line had no newline yet: unless there is one now, what comes is the rest of it.
            if file.read(1) != b"\n":
                return False
        self.offset, self._tail = self.offset + 1, b"\n"
        return True
