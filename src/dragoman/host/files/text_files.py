"""Text files on disk, inside the workspace: found, read and written. Blocking; `files` calls it in threads.

Promised: only regular files inside the workspace are read or written (`workspace.paths` says how that is held). A read
gives the text as it is in the file, with its line ends and its byte order mark. A write is whole or not at all: other
readers see the old file or the new one. It replaces the file's name, so that a hard link elsewhere keeps its content;
the mode stays, and so does the file's form (`shape`). What was judged and what is written are one place: where the path
leads elsewhere by then, it is refused. Everything that goes wrong is an `RpcRefusal`.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import Any, BinaryIO, Final

import msgspec

from dragoman.host.files import shape
from dragoman.host.refusals import failed, invalid
from dragoman.wire.connection import RpcRefusal
from dragoman.workspace import OutsideWorkspace, PinnedPath, Workspace

# So that an answer fits into one line of the wire (64 MiB) even when every byte is written as \u00XX.
SIZE_LIMIT: Final = 10 * 1024 * 1024

# Bytes that are read to find a line. A file can be of any length and have nothing in it: looking for its second line
# would hold a thread for hours.
SEARCH_LIMIT: Final = 1024 * 1024 * 1024

_STEP: Final = 64 * 1024


class FileText(msgspec.Struct, frozen=True):
    """What a read found."""

    path: Path  # where it is, with no link in it
    text: str
    unsaved: bool = False  # it is an editor's, and not on disk
    meta: dict[str, Any] | None = None  # a handler's own word on it


class WriteTarget(msgspec.Struct, frozen=True):
    """Where a write would go, and what it would replace."""

    path: Path  # with no link in it; what is judged, and what is written
    old_text: str | None = None  # to be shown beside the new one (`shape.show`); None where there is no text
    old_size: int | None = None  # bytes of what is there; None for a new file


def locate(workspace: Workspace, path: str) -> Path:
    """Where the path leads, inside the workspace. To judge by: what is opened later may be elsewhere."""
    try:
        return _checked(path, workspace.resolve(path))
    except OutsideWorkspace as problem:
        raise invalid("path", str(problem)) from None


def check_same(workspace: Workspace, path: str, real: Path) -> None:
    """Looks it up anew: a person may have thought for minutes, and what was allowed is this place."""
    if locate(workspace, path) != real:
        raise _elsewhere(path)


def check_lines(line: int | None, limit: int | None) -> None:
    for field, number in (("line", line), ("limit", limit)):
        if number is not None and number < 0:
            raise invalid(field, f"is {number}; lines are counted from 1")


def read_text(workspace: Workspace, path: str, line: int | None = None, limit: int | None = None) -> FileText:
    """The file's text, or `limit` lines of it from `line` on (the first is 1)."""
    with _hold(workspace, path) as place:
        try:
            with _opened(path, place) as file:
                _skip_lines(path, file, (line or 1) - 1)
                start = file.tell()
                data = file.read(SIZE_LIMIT + 1) if limit is None else _lines(file, limit)
        except OSError as problem:
            raise _failed(path, problem) from None
    if len(data) > SIZE_LIMIT:
        raise too_large(path)
    try:
        return FileText(place.path, data.decode())
    except UnicodeDecodeError as problem:
        where = start + problem.start
        raise invalid(
            "path",
            f"{path} is not UTF-8 text: byte {where + 1} of it is 0x{data[problem.start]:02x} ({problem.reason})",
        ) from None


def prepare_write(workspace: Workspace, path: str, content: str) -> WriteTarget:
    """Where a write of this content would go. Changes nothing."""
    _encoded(content)
    with _hold(workspace, path) as place:
        try:
            status = _check_target(path, place)
            if status is None:
                return WriteTarget(place.path)
            old = _old_text(place)
        except OSError as problem:
            raise _failed(path, problem) from None
    return WriteTarget(place.path, None if old is None else shape.show(old, content), status.st_size)


def write_text(workspace: Workspace, real: Path, content: str) -> str:
    """Replace or create the file at a target's path, and the folders above it. Returns its text, as it now is."""
    path = str(real)
    _encoded(content)
    with _hold(workspace, path) as place:
        if place.path != real:
            raise _elsewhere(path)
        try:
            _check_target(path, place)
            text = shape.keep(_old_text(place) or "", content)
            place.replace(text.encode())
        except OSError as problem:
            raise _not_written(path, problem) from None
    return text


def _hold(workspace: Workspace, path: str) -> PinnedPath:
    try:
        place = workspace.pin(path)
    except OutsideWorkspace as problem:
        raise invalid("path", str(problem)) from None
    except OSError as problem:
        raise _failed(path, problem) from None
    try:
        _checked(path, place.path)
    except BaseException:
        place.close()
        raise
    return place


def _checked(path: str, real: Path) -> Path:
    if path.endswith(("/", "/.")):
        raise invalid("path", f"{path} names a folder, not a file")
    try:
        str(real).encode()
    except UnicodeEncodeError:
        # Whoever is asked could not be told which file it is, nor could the record.
        raise invalid("path", f"{path} leads to a name that is not UTF-8: {str(real)!r}") from None
    return real


def _check_target(path: str, place: PinnedPath) -> os.stat_result | None:
    """The file that would be replaced, None for a new one."""
    status = place.status()
    if status is not None:
        _check_regular(path, status)
        # To replace it asks only for the folder's permission; a file that was made read-only stays so.
        if not place.is_writable():
            raise invalid("path", f"{path} is read-only")
    return status


def _old_text(place: PinnedPath) -> str | None:
    """None where there is nothing that could be shown: no file, no text, too much of it, or not to be read by us."""
    try:
        with _opened("", place) as file:
            data = file.read(SIZE_LIMIT + 1)
            return data.decode() if len(data) <= SIZE_LIMIT else None
    except (OSError, UnicodeDecodeError, RpcRefusal):
        return None


def _opened(path: str, place: PinnedPath) -> BinaryIO:
    # Looked at before it is opened, since opening a device can itself do something; and after, since it can change.
    status = place.status()
    if status is not None:
        _check_regular(path, status)
    file = place.open()
    try:
        _check_regular(path, os.fstat(file.fileno()))
    except BaseException:
        file.close()
        raise
    return file


def _check_regular(path: str, status: os.stat_result) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise invalid("path", f"{path} is a folder")
    if stat.S_ISLNK(status.st_mode):
        raise _exchanged(path)
    if not stat.S_ISREG(status.st_mode):
        raise invalid("path", f"{path} is no regular file")


def _encoded(content: str) -> bytes:
    try:
        data = content.encode()
    except UnicodeEncodeError as problem:
        raise invalid("content", f"is not text: {problem.reason}") from None
    if len(data) > SIZE_LIMIT:
        raise invalid("content", f"has {len(data)} bytes; the limit is {SIZE_LIMIT}")
    return data


def _skip_lines(path: str, file: BinaryIO, count: int) -> None:
    room = SEARCH_LIMIT
    while count > 0 and (piece := file.readline(_STEP)):
        count -= piece.endswith(b"\n")
        room -= len(piece)
        if room < 0:
            raise invalid("line", f"is not within the first {SEARCH_LIMIT} bytes of {path}, where it was looked for")


def _lines(file: BinaryIO, count: int) -> bytes:
    """At most `count` lines, and one byte more than the limit at most."""
    pieces: list[bytes] = []
    room = SIZE_LIMIT + 1
    while count > 0 and room > 0 and (piece := file.readline(min(_STEP, room))):
        pieces.append(piece)
        room -= len(piece)
        count -= piece.endswith(b"\n")
    return b"".join(pieces)


def too_large(path: str) -> RpcRefusal:
    return invalid("path", f"{path}: more than {SIZE_LIMIT} bytes; ask for fewer lines with `line` and `limit`")


def _elsewhere(path: str) -> RpcRefusal:
    return invalid("path", f"{path} leads elsewhere now than when it was allowed")


def _exchanged(path: str) -> RpcRefusal:
    return invalid("path", f"{path} was exchanged for a link while it was being opened")


def _failed(path: str, problem: OSError) -> RpcRefusal:
    return _exchanged(path) if problem.errno == errno.ELOOP else failed(path, problem)


def _not_written(path: str, problem: OSError) -> RpcRefusal:
    match problem:
        case PermissionError():
            return invalid("path", f"{path}: {problem.strerror}; a file is replaced whole: its folder must be writable")
        case OSError(errno=errno.ENAMETOOLONG):
            return invalid("path", f"{path}: {problem.strerror}")
        case _ if problem.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO):
            return failed(path, OSError(problem.errno, f"{problem.strerror}; what was there is unchanged"))
        case _:
            return _failed(path, problem)
