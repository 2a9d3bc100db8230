"""Text files of a session, for `fs/*`: `WorkspaceFiles`, and `Buffers` for text that an editor has not saved yet."""

from __future__ import annotations

import asyncio
import io
import itertools
import logging
from pathlib import Path
from typing import Protocol

from dragoman.host.files import shape
from dragoman.host.files.text_files import (
    SIZE_LIMIT,
    FileText,
    WriteTarget,
    check_lines,
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
    """Files that are open in an editor and may have changes there which are not saved. Paths have no links in them.

    What `read` raises refuses the request; what `wrote` raises is logged, since the file is written by then.
    """

    async def read(self, path: Path) -> str | None:
        """The whole text that is not saved yet; None where the file on disk counts. There may be none on disk."""

    async def wrote(self, path: Path, text: str) -> None:
        """The agent wrote the file, which now has this text on disk; `read` was asked before."""


class WorkspaceFiles:
    """A session's files, read and written by us."""

    def __init__(self, workspace: Workspace, *, buffers: Buffers | None = None) -> None:
        self._workspace = workspace
        self._buffers = buffers

    async def find(self, request: acp.ReadTextFileRequest) -> FileText:
        """The text that was asked for."""
        check_lines(request.line, request.limit)
        if self._buffers is not None:
            path = await asyncio.to_thread(locate, self._workspace, request.path)
            text = await self._buffers.read(path)
            if text is not None:
                return FileText(path, _cut(request.path, text, request.line, request.limit), unsaved=True)
        return await asyncio.to_thread(read_text, self._workspace, request.path, request.line, request.limit)

    async def target(self, request: acp.WriteTextFileRequest) -> WriteTarget:
        """What is to be judged. What cannot be done anyway is refused here; nothing is changed."""
        target = await asyncio.to_thread(prepare_write, self._workspace, request.path, request.content)
        text = await self._buffers.read(target.path) if self._buffers is not None else None
        if text is None:
            return target
        # The editor's is what the user sees, and would lose.
        size = len(text.encode("utf-8", "surrogatepass"))
        return WriteTarget(target.path, shape.show(text, request.content), size)

    async def write(self, path: Path, request: acp.WriteTextFileRequest) -> acp.WriteTextFileResponse:
        """Once it is allowed; `path` is the target's."""
        text = await asyncio.to_thread(write_text, self._workspace, path, request.content)
        if self._buffers is not None:
            try:
                await self._buffers.wrote(path, text)
            except Exception:
                logger.exception("%s is written, but the editor could not be told", path)
        return acp.WriteTextFileResponse()


def _cut(path: str, text: str, line: int | None, limit: int | None) -> str:
    """The lines of an editor's text that were asked for, by the same rules."""
    start = max((line or 1) - 1, 0)
    stop = None if limit is None else start + limit
    text = "".join(itertools.islice(io.StringIO(text, newline="\n"), start, stop))
    if len(text.encode("utf-8", "replace")) > SIZE_LIMIT:
        raise too_large(path)
    return text
