"""Text files of a session, for `fs/*`: `WorkspaceFiles`, and `Buffers` for text that an editor has not saved yet."""

from __future__ import annotations

import asyncio
import io
import itertools
import logging
from pathlib import Path
from typing import Protocol

from dragoman.host.files.text_files import (
    MAX_FILE_BYTES,
    FileText,
    WriteTarget,
    check_lines,
    comparable_text,
    locate,
    prepare_write,
    read_text,
    too_large,
    write_text,
)
from dragoman.wire import vocabulary as acp
from dragoman.workspace import Workspace

logger = logging.getLogger(__name__)


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
