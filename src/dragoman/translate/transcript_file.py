"""Reading a transcript: its whole lines, where each stands, and how far it was read.

A last line that is half written is left. Whatever stands in a transcript's place, reading it ends: only files are
opened, no line is held that is too long for memory, and what is packed may only be so much larger than its file.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from stat import S_ISREG
from typing import Any, BinaryIO, Final

import msgspec

from dragoman.errors import InputError
from dragoman.translate.frames import is_json

_ZSTD: Final = ".zst"
_ZSTD_MODULES: Final = ("compression.zstd", "backports.zstd")  # Python's own from 3.14 on, and a package for others

# Bytes that are read at once. Each reading is a hand-over of the interpreter's lock, for which others wait.
_BUFFER: Final = 256 * 1024

# Bytes of the longest line that is read: it takes up to ten times that in memory. Those that agents write are of some
# megabytes, where there are images in them or a whole history. Of a longer one we keep what is kept of such a frame.
LONGEST: Final = 32 * 1024 * 1024
_BEGINNING: Final = 64 * 1024
OVERLONG: Final = "overlong line"  # the kind of record that stands for it: one that no agent writes

# Bytes of a line from which on each copy of it counts.
LONG: Final = 4 * 1024 * 1024
_M_MMAP_THRESHOLD: Final = -3  # as <malloc.h> has it

# Bytes that a compressed file may unpack to, for each of its own; and in any case. Transcripts unpack to some tens.
_UNPACKED: Final = 1000
_UNPACKED_LEAST: Final = 64 * 1024 * 1024

# Bytes before a bookmark by which a file that has grown is told from one that was written anew.
_TAIL: Final = 256


class Line(msgspec.Struct, frozen=True, gc=False):
    text: bytes  # without its newline
    position: int  # of its first byte
    end: int  # of the first byte after it, its newline included


def is_packed(path: Path) -> bool:
    return path.suffix == _ZSTD


def opened(path: Path) -> BinaryIO:
    """`InputError` for what is no file, and for a compressed one where there is nothing here to read it with."""
    zstd = _zstd() if is_packed(path) else None
    file = open(path, "rb", buffering=_BUFFER, opener=_open)  # noqa: SIM115 (the caller's to close)
    if zstd is None:
        return file
    most = max(_UNPACKED_LEAST, _UNPACKED * os.fstat(file.fileno()).st_size)
    return io.BufferedReader(_Unpacked(file, zstd.open(file, "rb"), zstd.ZstdError, most), _BUFFER)


def _open(path: str, flags: int) -> int:
    """Of a file alone. Who opens a pipe may wait for ever, and a link that stands in a folder may lead out of it."""
    try:
        file = os.open(path, flags | os.O_NONBLOCK | os.O_NOFOLLOW)
    except OSError as problem:
        if os.path.islink(path):
            raise InputError(
                "a link, and links in a folder are not followed (name the file that it leads to)"
            ) from problem
        raise
    if not S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise InputError("no file")
    return file


def _zstd() -> Any:
    for name in _ZSTD_MODULES:
        try:
            return import_module(name)
        except ImportError:
            continue
    raise InputError("it is compressed, which takes more to read: pip install 'dragoman[zstd]'")


class _Unpacked(io.RawIOBase):
    """Ends where a file ends that is half written; what was damaged is no transcript."""

    def __init__(self, packed: BinaryIO, file: BinaryIO, damaged: type[Exception], most: int) -> None:
        self._packed = packed
        self._file = file
        self._damaged = damaged
        self._left = most

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            data = self._file.read(len(buffer))
        except EOFError:
            return 0
        except self._damaged as problem:
            raise InputError(f"it is damaged: {problem}") from None
        self._left -= len(data)
        if self._left < 0:
            raise InputError("it is damaged: it unpacks to more than any transcript")
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._file.close()
        self._packed.close()
        super().close()


def whole_lines(file: BinaryIO, position: int = 0, until: int | None = None) -> Iterator[Line]:
    """A last line without a newline counts where it is a whole object: with whatever follows it begins the same.

    `position`: of the first byte to be read, where a line begins. `until`: lines that begin there or later are left.
    """
    if position:
        file.seek(position)
    while (until is None or position < until) and (read := _line(file, position)):
        position = read[0].end
        yield read.pop()  # nobody but who is given it holds it: it may be a long one


def _line(file: BinaryIO, position: int) -> list[Line]:
    """The next one; none at the end, and none that is half written."""
    text = file.readline(LONGEST)
    if len(text) > LONG:
        _give_back()
    end = position + len(text)
    if text.endswith(b"\n"):
        return [Line(text[:-1], position, end)]
    if len(text) == LONGEST:
        return _passed_over(file, text, position)
    return [Line(text, position, end)] if text.startswith(b"{") and is_json(text) else []


@cache
def _give_back() -> None:
    """From now on, what a long line took goes back to the system when it is let go of. glibc would keep it, and take
    more for the next copy where that is larger. For others there is nothing to be said."""
    with suppress(ImportError, OSError, AttributeError):
        import ctypes  # most files have no such line, and it takes long to load

        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, LONG)


def has_long_line(path: Path, until: int) -> bool:
    """Told without holding one. `until`: the bytes that the file had; what was added since is left."""
    if until <= LONG and not is_packed(path):
        return False
    length = 0
    with opened(path) as file:
        while length <= LONG and (is_packed(path) or file.tell() < until) and (data := file.read(_BUFFER)):
            first = data.find(b"\n")
            if first < 0:
                length += len(data)
            elif length + first > LONG:
                return True
            else:
                length = len(data) - data.rfind(b"\n") - 1
    return length > LONG


def _passed_over(file: BinaryIO, text: bytes, position: int) -> list[Line]:
    """What stands for a line that is too long, of which this is the beginning; none where it is half written."""
    length, digest = len(text), sha256(text)
    beginning = text[:_BEGINNING].decode("utf-8", "backslashreplace")
    while not text.endswith(b"\n"):
        if not (text := file.readline(_BUFFER)):
            return []
        length += len(text)
        digest.update(text.removesuffix(b"\n"))
    told = {"type": OVERLONG, "length": length - 1, "sha256": digest.hexdigest(), "beginning": beginning}
    return [Line(msgspec.json.encode(told), position, position + length)]


class Bookmark:
    """How far a file was read. `offset`: of the first byte that was not."""

    def __init__(self) -> None:
        self.offset = 0
        self._tail = b""  # what stands before it

    def put(self, path: Path, file: BinaryIO, offset: int) -> None:
        if not is_packed(path):  # to look back in a compressed one is to read it again
            file.seek(start := max(0, offset - _TAIL))
            self._tail = file.read(offset - start)
        self.offset = offset

    def goes_on(self, path: Path) -> bool:
        """Whether the file is the same up to here, and what comes after begins a line. False for a compressed one."""
        if is_packed(path):
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
