"""Handlers: a program's own files and terminals, in place of ours.

A handler does the work, and only that: the host still restricts the agent to the workspace and to its access, and asks
before anything is written or run. An exception of a handler becomes the agent's answer: an `RpcRefusal` as it is, an
`OSError` as the protocol's error (a missing file is "not found"), anything else as an internal error.

`HandledFiles` and `HandledTerminals` offer the host what `files.WorkspaceFiles` and `terminals.Terminals` do.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from dragoman.host.files import FileText, WriteTarget, check_same, locate
from dragoman.host.refusals import failed, not_found
from dragoman.wire import vocabulary as acp
from dragoman.workspace import Workspace

logger = logging.getLogger(__name__)


class FileHandler(Protocol):
    """`fs/*`. Paths are absolute, and were found to lead into the workspace; lines count from 1."""

    async def read_text_file(self, request: acp.ReadTextFileRequest) -> acp.ReadTextFileResponse: ...

    async def write_text_file(self, request: acp.WriteTextFileRequest) -> acp.WriteTextFileResponse:
        """Do it; the host calls this once it is allowed."""


class TerminalHandler(Protocol):
    """`terminal/*`. Only terminals of the same session that are not released are asked for.

    A killed terminal stays until it is released. The host kills those of a run that was cancelled, and releases the
    others when the session ends.
    """

    async def create(self, request: acp.CreateTerminalRequest) -> acp.CreateTerminalResponse:
        """Do it; the host calls this once it is allowed."""

    async def output(self, request: acp.TerminalOutputRequest) -> acp.TerminalOutputResponse: ...

    async def wait_for_exit(self, request: acp.WaitForTerminalExitRequest) -> acp.WaitForTerminalExitResponse: ...

    async def kill(self, request: acp.KillTerminalRequest) -> acp.KillTerminalResponse: ...

    async def release(self, request: acp.ReleaseTerminalRequest) -> acp.ReleaseTerminalResponse: ...


class HandledFiles:
    """A session's use of a `FileHandler`."""

    def __init__(self, handler: FileHandler, workspace: Workspace) -> None:
        self._handler = handler
        self._workspace = workspace

    async def read(self, request: acp.ReadTextFileRequest) -> FileText:
        path = await asyncio.to_thread(locate, self._workspace, request.path)
        with _in_our_words(request.path):
            answer = await self._handler.read_text_file(request)
        return FileText(path, answer.content, meta=answer.meta)

    async def prepare_write(self, request: acp.WriteTextFileRequest) -> WriteTarget:
        path = await asyncio.to_thread(locate, self._workspace, request.path)
        reading = acp.ReadTextFileRequest(session_id=request.session_id, path=request.path)
        try:
            text = (await self._handler.read_text_file(reading)).content
        except Exception:
            return WriteTarget(path)  # new, binary, too large: it can be written all the same
        return WriteTarget(path, text, len(text.encode("utf-8", "surrogatepass")))

    async def write(self, path: Path, request: acp.WriteTextFileRequest) -> acp.WriteTextFileResponse:
        await asyncio.to_thread(check_same, self._workspace, request.path, path)
        with _in_our_words(request.path):
            return await self._handler.write_text_file(request)


class HandledTerminals:
    """A session's use of a `TerminalHandler`: which terminals are its own, and their end."""

    def __init__(self, handler: TerminalHandler) -> None:
        self._handler = handler
        self._open: dict[str, str] = {}  # the terminal's id to the agent's id of the session
        self._closed = False

    def check(self, request: acp.CreateTerminalRequest, env: Mapping[str, str], cwd: Path) -> bool:
        """Return whether the command may be a line for a shell. The handler itself knows which programs exist."""
        return not request.args

    async def create(
        self, request: acp.CreateTerminalRequest, env: Mapping[str, str], cwd: Path, *, shell: bool | None = None
    ) -> acp.CreateTerminalResponse:
        with _in_our_words(request.command):
            made = await self._handler.create(request)
        self._open[made.terminal_id] = request.session_id
        if self._closed:  # meanwhile
            await self.close()
            raise not_found(made.terminal_id, "Terminal")
        return made

    async def output(self, request: acp.TerminalOutputRequest) -> acp.TerminalOutputResponse:
        with self._own(request.terminal_id):
            return await self._handler.output(request)

    async def wait_for_exit(self, request: acp.WaitForTerminalExitRequest) -> acp.WaitForTerminalExitResponse:
        with self._own(request.terminal_id):
            return await self._handler.wait_for_exit(request)

    async def kill(self, request: acp.KillTerminalRequest) -> acp.KillTerminalResponse:
        with self._own(request.terminal_id):
            return await self._handler.kill(request)

    async def release(self, request: acp.ReleaseTerminalRequest) -> acp.ReleaseTerminalResponse:
        with self._own(request.terminal_id):
            del self._open[request.terminal_id]
            return await self._handler.release(request)

    async def end(self, terminal_ids: Collection[str]) -> None:
        """Kill those of these terminals that the agent has not released, all at once: one of them may take long."""
        open_ids = [terminal_id for terminal_id in terminal_ids if terminal_id in self._open]
        await asyncio.gather(*map(self._kill_safely, open_ids))

    async def close(self) -> None:
        """Release the terminals that are still open."""
        self._closed = True
        while self._open:
            terminal_id, session_id = self._open.popitem()
            try:
                await self._handler.release(acp.ReleaseTerminalRequest(session_id=session_id, terminal_id=terminal_id))
            except Exception:
                # The others are to be released too, and the session is to end.
                logger.exception("the terminal %s could not be released", terminal_id)

    async def _kill_safely(self, terminal_id: str) -> None:
        request = acp.KillTerminalRequest(session_id=self._open[terminal_id], terminal_id=terminal_id)
        try:
            await self._handler.kill(request)
        except Exception:
            # The others are to be killed too, and the run is to end.
            logger.exception("the terminal %s could not be killed", terminal_id)

    @contextmanager
    def _own(self, terminal_id: str) -> Iterator[None]:
        if terminal_id not in self._open:
            raise not_found(terminal_id, "Terminal")
        with _in_our_words(terminal_id):
            yield


@contextmanager
def _in_our_words(what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise failed(what, error) from None
