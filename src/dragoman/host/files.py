"""Text files of a session, for `fs/*`: `WorkspaceFiles`, and `Buffers` for text that an editor has not saved yet.

Promised: only regular files inside the workspace are read or written (`workspace.paths` says how). A read returns the
text as it is in the file, with its line ends and byte order mark. A write happens completely or not at all: other
readers see the old file or the new one. It replaces the name of the file, so a hard link elsewhere keeps its content;
the mode stays the same. The file that was approved is the file that is written: if the path has come to lead elsewhere
meanwhile, the write is refused. Every failure is an `RpcRefusal`.

Models write lines that end with LF and no byte order mark, whatever the file had. A file whose lines all end with CR LF
would come back changed in every line, and some programs read a script without its mark in another encoding. So:

- a file that begins with a byte order mark keeps it, even if the new text has none;
- a file whose lines all end with CR LF keeps them, if the new text has no CR at all. A text with a CR is written as it
  is: its author knows about them.

Everything else is written as it was sent, the end of the last line too. The functions of this module block;
`WorkspaceFiles` calls them in threads.
"""

from __future__ import annotations

import asyncio
import errno
import io
import itertools
import logging
import os
import stat
from pathlib import Path
from typing import Any, BinaryIO, Final, Protocol

import msgspec

from dragoman.host.refusals import failed, invalid
from dragoman.wire import vocabulary as acp
from dragoman.wire.connection import RpcRefusal
from dragoman.workspace import OutsideWorkspace, PinnedPath, Workspace

logger = logging.getLogger(__name__)

# An answer must fit into one line of the wire (64 MiB) even when every byte is written as \u00XX.
MAX_FILE_BYTES: Final = 10 * 1024 * 1024

# Bytes that are read to find a line. A sparse file can be of any length: looking for its second line would occupy a
# thread for hours.
MAX_SEARCH_BYTES: Final = 1024 * 1024 * 1024

_READ_STEP_BYTES: Final = 64 * 1024

_BYTE_ORDER_MARK: Final = "\ufeff"


class FileText(msgspec.Struct, frozen=True):
    """The text of a file, or of some of its lines."""

    path: Path  # with links resolved
    text: str
    unsaved: bool = False  # the text comes from an editor and is not on disk
    meta: dict[str, Any] | None = None  # `_meta` of a handler's answer


class WriteTarget(msgspec.Struct, frozen=True):
    """The file that a write would replace."""

    path: Path  # with links resolved; the path that is approved and written
    old_text: str | None = None  # to show beside the new text (`comparable_text`); None where there is no text
    old_size: int | None = None  # bytes of the old file; None for a new file


def locate(workspace: Workspace, path: str) -> Path:
    """Resolve the path inside the workspace, for a decision. The file that is opened later may be another one."""
    try:
        return _check_path(path, workspace.resolve(path))
    except OutsideWorkspace as error:
        raise invalid("path", str(error)) from None


def check_same(workspace: Workspace, path: str, real: Path) -> None:
    """Resolve the path again: minutes may have passed, and only this file was approved."""
    if locate(workspace, path) != real:
        raise _leads_elsewhere(path)


def check_lines(line: int | None, limit: int | None) -> None:
    for field, number in (("line", line), ("limit", limit)):
        if number is not None and number < 0:
            raise invalid(field, f"is {number}; lines are counted from 1")


def read_text(workspace: Workspace, path: str, line: int | None = None, limit: int | None = None) -> FileText:
    """Read the text of a file, or `limit` lines from `line` on (the first is 1)."""
    with _pin(workspace, path) as pinned:
        try:
            with _open_regular(path, pinned) as file:
                _skip_lines(path, file, (line or 1) - 1)
                start = file.tell()
                data = file.read(MAX_FILE_BYTES + 1) if limit is None else _lines(file, limit)
        except OSError as error:
            raise _failed(path, error) from None
    if len(data) > MAX_FILE_BYTES:
        raise too_large(path)
    try:
        return FileText(pinned.path, data.decode())
    except UnicodeDecodeError as error:
        where = start + error.start
        raise invalid(
            "path",
            f"{path} is not UTF-8 text: byte {where + 1} of it is 0x{data[error.start]:02x} ({error.reason})",
        ) from None


def prepare_write(workspace: Workspace, path: str, content: str) -> WriteTarget:
    """Find the file that this content would replace, and refuse a write that cannot succeed. Changes nothing."""
    _encode(content)
    with _pin(workspace, path) as pinned:
        try:
            status = _check_target(path, pinned)
            if status is None:
                return WriteTarget(pinned.path)
            old = _old_text(pinned)
        except OSError as error:
            raise _failed(path, error) from None
    return WriteTarget(pinned.path, None if old is None else comparable_text(old, content), status.st_size)


def write_text(workspace: Workspace, real: Path, content: str) -> str:
    """Replace or create the file at a target's path, and the folders above it. Returns the text written."""
    path = str(real)
    _encode(content)
    with _pin(workspace, path) as pinned:
        if pinned.path != real:
            raise _leads_elsewhere(path)
        try:
            _check_target(path, pinned)
            text = preserve_form(_old_text(pinned) or "", content)
            pinned.replace(text.encode())
        except OSError as error:
            raise _not_written(path, error) from None
    return text


def _pin(workspace: Workspace, path: str) -> PinnedPath:
    try:
        pinned = workspace.pin(path)
    except OutsideWorkspace as error:
        raise invalid("path", str(error)) from None
    except OSError as error:
        raise _failed(path, error) from None
    try:
        _check_path(path, pinned.path)
    except BaseException:
        pinned.close()
        raise
    return pinned


def _check_path(path: str, real: Path) -> Path:
    if path.endswith(("/", "/.")):
        raise invalid("path", f"{path} names a folder, not a file")
    try:
        str(real).encode()
    except UnicodeEncodeError:
        # Neither the person who approves nor the journal could show such a name.
        raise invalid("path", f"{path} leads to a name that is not UTF-8: {str(real)!r}") from None
    return real


def _check_target(path: str, pinned: PinnedPath) -> os.stat_result | None:
    """Return the status of the file that would be replaced; None for a new one."""
    status = pinned.status()
    if status is not None:
        _check_regular(path, status)
        # Replacing needs only the folder's permission; a file that was made read-only must stay unchanged.
        if not pinned.is_writable():
            raise invalid("path", f"{path} is read-only")
    return status


def _old_text(pinned: PinnedPath) -> str | None:
    """Return the old text; None where there is none to show: no file, no text, too long, or not readable."""
    try:
        with _open_regular("", pinned) as file:
            data = file.read(MAX_FILE_BYTES + 1)
            return data.decode() if len(data) <= MAX_FILE_BYTES else None
    except (OSError, UnicodeDecodeError, RpcRefusal):
        return None


def _open_regular(path: str, pinned: PinnedPath) -> BinaryIO:
    # Checked before it is opened, since opening a device can have effects; and after, since it can change meanwhile.
    status = pinned.status()
    if status is not None:
        _check_regular(path, status)
    file = pinned.open()
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
        raise _replaced_by_link(path)
    if not stat.S_ISREG(status.st_mode):
        raise invalid("path", f"{path} is not a regular file")


def _encode(content: str) -> bytes:
    try:
        data = content.encode()
    except UnicodeEncodeError as error:
        raise invalid("content", f"is not text: {error.reason}") from None
    if len(data) > MAX_FILE_BYTES:
        raise invalid("content", f"has {len(data)} bytes; the limit is {MAX_FILE_BYTES}")
    return data


def _skip_lines(path: str, file: BinaryIO, count: int) -> None:
    room = MAX_SEARCH_BYTES
    while count > 0 and (piece := file.readline(_READ_STEP_BYTES)):
        count -= piece.endswith(b"\n")
        room -= len(piece)
        if room < 0:
            raise invalid("line", f"is not within the first {MAX_SEARCH_BYTES} bytes of {path}")


def _lines(file: BinaryIO, count: int) -> bytes:
    """Read at most `count` lines, and at most one byte more than the limit."""
    pieces: list[bytes] = []
    room = MAX_FILE_BYTES + 1
    while count > 0 and room > 0 and (piece := file.readline(min(_READ_STEP_BYTES, room))):
        pieces.append(piece)
        room -= len(piece)
        count -= piece.endswith(b"\n")
    return b"".join(pieces)


def too_large(path: str) -> RpcRefusal:
    return invalid("path", f"{path}: more than {MAX_FILE_BYTES} bytes; ask for fewer lines with `line` and `limit`")


def _leads_elsewhere(path: str) -> RpcRefusal:
    return invalid("path", f"{path} now leads to another file than the one that was approved")


def _replaced_by_link(path: str) -> RpcRefusal:
    return invalid("path", f"{path} was replaced by a link while it was being opened")


def _failed(path: str, error: OSError) -> RpcRefusal:
    return _replaced_by_link(path) if error.errno == errno.ELOOP else failed(path, error)


def _not_written(path: str, error: OSError) -> RpcRefusal:
    match error:
        case PermissionError():
            return invalid("path", f"{path}: {error.strerror}; a write replaces the file: its folder must be writable")
        case OSError(errno=errno.ENAMETOOLONG):
            return invalid("path", f"{path}: {error.strerror}")
        case _ if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO):
            return failed(path, OSError(error.errno, f"{error.strerror}; the old file is unchanged"))
        case _:
            return _failed(path, error)


# The form of a file, which a write keeps


def preserve_form(old: str, new: str) -> str:
    """Return the new text with the line ends and byte order mark of the old one, where they are to be kept."""
    if _keeps_line_ends(old, new):
        new = new.replace("\n", "\r\n")
    return _BYTE_ORDER_MARK + new if _keeps_mark(old, new) else new


def comparable_text(old: str, new: str) -> str:
    """Return the old text to show beside the new one: without the parts that a write keeps."""
    if _keeps_line_ends(old, new):
        old = old.replace("\r\n", "\n")
    return old.removeprefix(_BYTE_ORDER_MARK) if _keeps_mark(old, new) else old


def _keeps_line_ends(old: str, new: str) -> bool:
    return "\r" not in new and 0 < old.count("\n") == old.count("\r\n")


def _keeps_mark(old: str, new: str) -> bool:
    return old.startswith(_BYTE_ORDER_MARK) and new != "" and not new.startswith(_BYTE_ORDER_MARK)


# The files of a session


class Buffers(Protocol):
    """Files that are open in an editor with unsaved changes. Paths are resolved.

    An exception of `read` refuses the request; one of `wrote` is logged, since the file is written by then.
    """

    async def read(self, path: Path) -> str | None:
        """Return the whole unsaved text; None where the file on disk counts. There may be none on disk."""

    async def wrote(self, path: Path, text: str) -> None:
        """Take note that the agent wrote this text to the file; `read` was called before."""


class WorkspaceFiles:
    """The text files of a session's workspace, on disk or in an editor."""

    def __init__(self, workspace: Workspace, *, buffers: Buffers | None = None) -> None:
        self._workspace = workspace
        self._buffers = buffers

    async def read(self, request: acp.ReadTextFileRequest) -> FileText:
        """Read the requested lines."""
        check_lines(request.line, request.limit)
        if self._buffers is not None:
            path = await asyncio.to_thread(locate, self._workspace, request.path)
            text = await self._buffers.read(path)
            if text is not None:
                return FileText(path, _select_lines(request.path, text, request.line, request.limit), unsaved=True)
        return await asyncio.to_thread(read_text, self._workspace, request.path, request.line, request.limit)

    async def prepare_write(self, request: acp.WriteTextFileRequest) -> WriteTarget:
        """Find the file to be written, for the decision. A write that cannot succeed is refused; nothing is changed."""
        target = await asyncio.to_thread(prepare_write, self._workspace, request.path, request.content)
        text = await self._buffers.read(target.path) if self._buffers is not None else None
        if text is None:
            return target
        # The user sees the editor's text, and would lose that one.
        size = len(text.encode("utf-8", "surrogatepass"))
        return WriteTarget(target.path, comparable_text(text, request.content), size)

    async def write(self, path: Path, request: acp.WriteTextFileRequest) -> acp.WriteTextFileResponse:
        """Write the file after it was approved; `path` is the target's."""
        text = await asyncio.to_thread(write_text, self._workspace, path, request.content)
        if self._buffers is not None:
            try:
                await self._buffers.wrote(path, text)
            except Exception:
                logger.exception("%s is written, but the editor could not be notified", path)
        return acp.WriteTextFileResponse()


def _select_lines(path: str, text: str, line: int | None, limit: int | None) -> str:
    """Return the requested lines of an editor's text, by the same rules as for files on disk."""
    start = max((line or 1) - 1, 0)
    stop = None if limit is None else start + limit
    text = "".join(itertools.islice(io.StringIO(text, newline="\n"), start, stop))
    if len(text.encode("utf-8", "replace")) > MAX_FILE_BYTES:
        raise too_large(path)
    return text
