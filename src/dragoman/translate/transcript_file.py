"""Reading a transcript file: its whole lines, the offset of each, and a bookmark for reading on.

A last line that is half written is left for later. Reading ends whatever the file turns out to be: only regular files
are opened, a line that is too long for memory is summarised, and a compressed file may expand only so far.
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

_ZSTD_SUFFIX: Final = ".zst"
_ZSTD_MODULES: Final = ("compression.zstd", "backports.zstd")  # Python's own from 3.14 on, and a package for others

# Bytes that are read at once: each read gives up the interpreter's lock, and other threads make use of that.
_READ_BYTES: Final = 256 * 1024

# The longest line that is read, which takes up to ten times that in memory. Agents write lines of some megabytes, with
# images or a whole history in them. Of a longer line its length, its digest and an excerpt are imported.
MAX_LINE_BYTES: Final = 32 * 1024 * 1024
_OVERLONG_EXCERPT_BYTES: Final = 64 * 1024
OVERLONG_KIND: Final = "overlong line"  # the type of the record that replaces it; no agent writes it

# From this length on, each copy of a line in memory counts.
LONG_LINE_BYTES: Final = 4 * 1024 * 1024
_M_MMAP_THRESHOLD: Final = -3  # as <malloc.h> has it

# A compressed file may expand to so many times its size, or at least to so many bytes. Transcripts expand to some tens
# of times.
_MAX_EXPANSION: Final = 1000
_MIN_EXPANDED_BYTES: Final = 64 * 1024 * 1024

# Bytes before a bookmark that are compared, to tell a file that has grown from one that was rewritten.
_BOOKMARK_BYTES: Final = 256


class Line(msgspec.Struct, frozen=True, gc=False):
    text: bytes  # without its newline
    offset: int  # of its first byte
    end: int  # of the first byte after it, its newline included


def is_compressed(path: Path) -> bool:
    return path.suffix == _ZSTD_SUFFIX


def open_transcript(path: Path) -> BinaryIO:
    """Open a file for reading. Raises `InputError` if it is no regular file, or compressed and zstd is missing."""
    zstd = _zstd() if is_compressed(path) else None
    file = open(path, "rb", buffering=_READ_BYTES, opener=_open)  # noqa: SIM115 (the caller's to close)
    if zstd is None:
        return file
    max_bytes = max(_MIN_EXPANDED_BYTES, _MAX_EXPANSION * os.fstat(file.fileno()).st_size)
    return io.BufferedReader(_Decompressed(file, zstd.open(file, "rb"), zstd.ZstdError, max_bytes), _READ_BYTES)


def _open(path: str, flags: int) -> int:
    """Open only a regular file: opening a pipe may block for ever, and a symlink may lead out of its folder."""
    try:
        file = os.open(path, flags | os.O_NONBLOCK | os.O_NOFOLLOW)
    except OSError as error:
        if os.path.islink(path):
            raise InputError(
                "it is a symlink, and symlinks in a folder are not followed (name the file it points to)"
            ) from error
        raise
    if not S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise InputError("it is not a regular file")
    return file


def _zstd() -> Any:
    for name in _ZSTD_MODULES:
        try:
            return import_module(name)
        except ImportError:
            continue
    raise InputError("it is compressed; to read it: pip install 'dragoman[zstd]'")


class _Decompressed(io.RawIOBase):
    """The content of a compressed file. One that is half written ends early; a damaged one raises `InputError`."""

    def __init__(self, compressed: BinaryIO, file: BinaryIO, error_type: type[Exception], max_bytes: int) -> None:
        self._compressed = compressed
        self._file = file
        self._error_type = error_type
        self._left = max_bytes

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            data = self._file.read(len(buffer))
        except EOFError:
            return 0
        except self._error_type as error:
            raise InputError(f"it is damaged: {error}") from None
        self._left -= len(data)
        if self._left < 0:
            raise InputError("it is damaged: it expands to more than any transcript")
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._file.close()
        self._compressed.close()
        super().close()


def whole_lines(file: BinaryIO, offset: int = 0, until: int | None = None) -> Iterator[Line]:
    """Yield the lines from `offset`, where one begins, up to the line that begins at `until` or later.

    A last line without a newline counts if it is a whole JSON object: whatever follows, it begins the same.
    """
    if offset:
        file.seek(offset)
    while (until is None or offset < until) and (read := _line(file, offset)):
        offset = read[0].end
        yield read.pop()  # only the caller holds on to it: it may be a long one


def _line(file: BinaryIO, offset: int) -> list[Line]:
    """The next line; none at the end of the file, and none that is half written."""
    text = file.readline(MAX_LINE_BYTES)
    if len(text) > LONG_LINE_BYTES:
        _return_freed_memory()
    end = offset + len(text)
    if text.endswith(b"\n"):
        return [Line(text[:-1], offset, end)]
    if len(text) == MAX_LINE_BYTES:
        return _skip_overlong(file, text, offset)
    return [Line(text, offset, end)] if text.startswith(b"{") and is_json(text) else []


@cache
def _return_freed_memory() -> None:
    """Make glibc return the memory of long lines to the system when it is freed.

    It would keep it, and take more for the next copy if that is larger. Other systems need nothing of the kind.
    """
    with suppress(ImportError, OSError, AttributeError):
        import ctypes  # slow to load, and few files have such a line

        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, LONG_LINE_BYTES)


def has_long_line(path: Path, until: int) -> bool:
    """Return True if one of the first `until` bytes is in a long line. No line is held in memory."""
    if until <= LONG_LINE_BYTES and not is_compressed(path):
        return False
    length = 0
    with open_transcript(path) as file:
        while length <= LONG_LINE_BYTES and (is_compressed(path) or file.tell() < until):
            if not (data := file.read(_READ_BYTES)):
                break
            first = data.find(b"\n")
            if first < 0:
                length += len(data)
            elif length + first > LONG_LINE_BYTES:
                return True
            else:
                length = len(data) - data.rfind(b"\n") - 1
    return length > LONG_LINE_BYTES


def _skip_overlong(file: BinaryIO, text: bytes, offset: int) -> list[Line]:
    """Read over a line that is too long and begins with `text`; returns a record in its place, if the line is whole."""
    length, digest = len(text), sha256(text)
    beginning = text[:_OVERLONG_EXCERPT_BYTES].decode("utf-8", "backslashreplace")
    while not text.endswith(b"\n"):
        if not (text := file.readline(_READ_BYTES)):
            return []
        length += len(text)
        digest.update(text.removesuffix(b"\n"))
    summary = {"type": OVERLONG_KIND, "length": length - 1, "sha256": digest.hexdigest(), "beginning": beginning}
    return [Line(msgspec.json.encode(summary), offset, offset + length)]


class Bookmark:
    """A mark in a file that was read up to `offset`, in bytes."""

    def __init__(self) -> None:
        self.offset = 0
        self._tail = b""  # the bytes before it

    def put(self, path: Path, file: BinaryIO, offset: int) -> None:
        if not is_compressed(path):  # there, going back means reading from the beginning
            file.seek(start := max(0, offset - _BOOKMARK_BYTES))
            self._tail = file.read(offset - start)
        self.offset = offset

    def continues(self, path: Path) -> bool:
        """Return True if the file is the same up to here and a line begins here. Always False if compressed."""
        if is_compressed(path):
            return False
        with open_transcript(path) as file:
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
