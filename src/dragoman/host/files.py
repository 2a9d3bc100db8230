"""Text files inside the workspace, as `fs/*` asks for them: `OwnFiles`, and what it does in threads.

Promised: only regular files that `Workspace.resolve` finds inside are read or written, and no link is followed after
that. A write is whole or not at all: other readers see the old file or the new one. It replaces the file's name, so
that a hard link elsewhere keeps its content; the mode stays. Everything that goes wrong is an `RpcRefusal`.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final

from dragoman.host.refusals import failed, invalid
from dragoman.wire import vocabulary as acp
from dragoman.wire.connection import RpcRefusal
from dragoman.workspace import OutsideWorkspace, Workspace

# So that an answer fits into one line of the wire (64 MiB) even when every byte is written as \u00XX.
SIZE_LIMIT: Final = 10 * 1024 * 1024

_STEP: Final = 64 * 1024

# A folder to step through. Where the system can (Linux), without reading it: search permission is enough.
_FOLDER: Final = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class OwnFiles:
    """A session's files, read and written by us."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    async def read(self, request: acp.ReadTextFileRequest) -> acp.ReadTextFileResponse:
        text = await asyncio.to_thread(read_text, self._workspace, request.path, request.line, request.limit)
        return acp.ReadTextFileResponse(content=text)

    async def before_write(self, request: acp.WriteTextFileRequest) -> tuple[Path, str | None]:
        """Where it would go, and the text it would replace. What cannot be done anyway is refused here."""
        return await asyncio.to_thread(before_write, self._workspace, request.path, request.content)

    async def write(self, path: Path, request: acp.WriteTextFileRequest) -> acp.WriteTextFileResponse:
        """Once it is allowed; `path` is what `before_write` found."""
        await asyncio.to_thread(write_text, self._workspace, path, request.content)
        return acp.WriteTextFileResponse()


def locate(workspace: Workspace, path: str) -> Path:
    """Where the path leads, inside the workspace."""
    try:
        return workspace.resolve(path)
    except OutsideWorkspace as problem:
        raise invalid("path", str(problem)) from None


def check_same(workspace: Workspace, path: str, real: Path) -> None:
    """Looks it up anew: a person may have thought for minutes, and what was allowed is this place."""
    if locate(workspace, path) != real:
        raise invalid("path", f"{path} leads elsewhere now than when it was allowed")


def read_text(workspace: Workspace, path: str, line: int | None = None, limit: int | None = None) -> str:
    """The file's text, or `limit` lines of it from `line` on (the first is 1). Line endings stay as they are."""
    for field, number in (("line", line), ("limit", limit)):
        if number is not None and number < 0:
            raise invalid(field, f"is {number}; lines are counted from 1")
    real = locate(workspace, path)
    try:
        with _place(workspace, real) as (folder, name), _opened(path, folder, name) as file:
            _skip_lines(file, (line or 1) - 1)
            data = file.read(SIZE_LIMIT + 1) if limit is None else _lines(file, limit)
    except OSError as problem:
        raise failed(path, problem) from None
    if len(data) > SIZE_LIMIT:
        raise invalid("path", f"{path}: more than {SIZE_LIMIT} bytes; ask for fewer lines with `line` and `limit`")
    try:
        return data.decode()
    except UnicodeDecodeError as problem:
        raise invalid("path", f"{path} is not UTF-8 text (byte {problem.start + 1} of what was asked for)") from None


def before_write(workspace: Workspace, path: str, content: str) -> tuple[Path, str | None]:
    """Where a write would go, and the text that it would replace (None: there is none). Changes nothing."""
    real = locate(workspace, path)
    _encoded(content)
    try:
        with _place(workspace, real) as (folder, name):
            _check_target(path, folder, name)
    except FileNotFoundError:
        pass  # a folder above it is to be made
    except OSError as problem:
        raise failed(path, problem) from None
    try:
        return real, read_text(workspace, str(real))
    except RpcRefusal:
        return real, None  # new, binary or too large: it can be written, but there is nothing to show


def write_text(workspace: Workspace, real: Path, content: str) -> None:
    """Replace or create the file that `before_write` found, and the folders above it."""
    path = str(real)
    check_same(workspace, path, real)
    data = _encoded(content)
    try:
        with _place(workspace, real, make=True) as (folder, name):
            _replace(folder, name, data, _check_target(path, folder, name))
    except OSError as problem:
        raise failed(path, problem) from None


def _encoded(content: str) -> bytes:
    try:
        data = content.encode()
    except UnicodeEncodeError as problem:
        raise invalid("content", f"is not text: {problem.reason}") from None
    if len(data) > SIZE_LIMIT:
        raise invalid("content", f"has {len(data)} bytes; the limit is {SIZE_LIMIT}")
    return data


@contextmanager
def _place(workspace: Workspace, real: Path, *, make: bool = False) -> Iterator[tuple[int, str]]:
    """The folder that a file is in, held open, and the file's name in it. `make` makes the folders that are missing.

    Stepped into from the workspace's own folder, one by one and through no link: whoever puts a link in the place of a
    folder after the path was looked up gains nothing.
    """
    # The outermost: what lies inside of another folder of the workspace can be exchanged like any file.
    root = min(
        (folder for folder in workspace.folders if real.is_relative_to(folder)), key=lambda path: len(path.parts)
    )
    *above, name = real.relative_to(root).parts or (".",)
    folder = os.open(root, _FOLDER)
    try:
        for part in above:
            if make:
                with suppress(FileExistsError):
                    os.mkdir(part, dir_fd=folder)
            below = os.open(part, _FOLDER, dir_fd=folder)
            os.close(folder)
            folder = below
        yield folder, name
    finally:
        os.close(folder)


def _check_target(path: str, folder: int, name: str) -> int | None:
    """The mode of the file that would be replaced, None for a new one."""
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    _check_regular(path, status)
    # A rename asks only for the folder's permission; a file that was made read-only stays so.
    if not os.access(name, os.W_OK, dir_fd=folder):
        raise invalid("path", f"{path} is read-only")
    return stat.S_IMODE(status.st_mode)


def _replace(folder: int, name: str, data: bytes, mode: int | None) -> None:
    beside = f".dragoman-{secrets.token_hex(8)}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(beside, flags, 0o666, dir_fd=folder)
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
            if mode is not None:
                os.fchmod(file.fileno(), mode)
        os.replace(beside, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        os.unlink(beside, dir_fd=folder)
        raise


def _opened(path: str, folder: int, name: str) -> BinaryIO:
    # Looked at before it is opened, since opening a device can itself do something; and after, since it can change.
    _check_regular(path, os.stat(name, dir_fd=folder, follow_symlinks=False))
    descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    try:
        _check_regular(path, os.fstat(descriptor))
    except BaseException:
        os.close(descriptor)
        raise
    return open(descriptor, "rb")


def _check_regular(path: str, status: os.stat_result) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise invalid("path", f"{path} is a folder")
    if not stat.S_ISREG(status.st_mode):
        raise invalid("path", f"{path} is no regular file")


def _skip_lines(file: BinaryIO, count: int) -> None:
    while count > 0 and (piece := file.readline(_STEP)):
        count -= piece.endswith(b"\n")


def _lines(file: BinaryIO, count: int) -> bytes:
    """At most `count` lines, and one byte more than the limit at most."""
    pieces: list[bytes] = []
    room = SIZE_LIMIT + 1
    while count > 0 and room > 0 and (piece := file.readline(min(_STEP, room))):
        pieces.append(piece)
        room -= len(piece)
        count -= piece.endswith(b"\n")
    return b"".join(pieces)
