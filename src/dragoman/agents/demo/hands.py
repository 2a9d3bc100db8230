"""Files and commands: through the client where it offers that, else by the agent itself, inside the workspace.

Nothing here asks for permission; the scenes do, before they call. A cancelled turn leaves no command running and no
terminal held.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
from collections import deque
from pathlib import Path

import msgspec

from dragoman.agents.demo.turn import Tool, Turn
from dragoman.errors import NOT_FOUND, DragomanError, RequestFailed
from dragoman.wire.vocabulary import (
    CreateTerminalRequest,
    CreateTerminalResponse,
    KillTerminalRequest,
    ReadTextFileRequest,
    ReadTextFileResponse,
    ReleaseTerminalRequest,
    Terminal,
    TerminalOutputRequest,
    TerminalOutputResponse,
    WaitForTerminalExitRequest,
    WaitForTerminalExitResponse,
    WriteTextFileRequest,
    WriteTextFileResponse,
)

# Of a command's output the end is kept, as ACP's terminals do: that is where it says how it went.
OUTPUT_LIMIT = 64 * 1024

# How long we read on after a command has ended and its group is killed; only a daemon that left the group holds the
# pipe open for longer, and its words are not the command's.
LAST_WORDS = 1.0

_SHELL_SIGNS = frozenset("|&;<>()$`\\\"'*?[]#~=%!{}\n")


class CannotDo(Exception):
    """A file or command that cannot be had. The text says what and why."""


class CommandEnd(msgspec.Struct, frozen=True):
    exit_code: int | None
    signal: str | None
    output: str
    truncated: bool


# -- files


def absolute(turn: Turn, path: str) -> str:
    return os.path.normpath(os.path.join(turn.session.cwd, os.path.expanduser(path)))


def relative(turn: Turn, path: str) -> str:
    """The path as a person would say it."""
    inside = path.startswith(turn.session.cwd.rstrip("/") + "/")
    return os.path.relpath(path, turn.session.cwd) if inside else path


async def read_text(turn: Turn, path: str) -> str | None:
    """The file's text; None when there is no such file."""
    if not turn.client.fs.read_text_file:
        return _read_own(_inside(turn, path))
    try:
        params = ReadTextFileRequest(session_id=turn.session.id, path=path)
        return (await turn.request("fs/read_text_file", params, ReadTextFileResponse)).content
    except RequestFailed as problem:
        # Clients have different words for a missing file, so the file itself is asked too.
        if problem.code == NOT_FOUND or not _is_there(path):
            return None
        raise CannotDo(f"The client could not read {path}: {problem}") from None


async def write_text(turn: Turn, path: str, text: str) -> None:
    if not turn.client.fs.write_text_file:
        _write_own(_inside(turn, path), text)
        return
    try:
        params = WriteTextFileRequest(session_id=turn.session.id, path=path, content=text)
        await turn.request("fs/write_text_file", params, WriteTextFileResponse)
    except RequestFailed as problem:
        raise CannotDo(f"The client could not write {path}: {problem}") from None


def _is_there(path: str) -> bool:
    return os.path.lexists(path)


def delete(turn: Turn, path: str) -> None:
    """ACP has no method for this: the agent does it itself."""
    target = _inside(turn, path)
    try:
        target.unlink()
    except OSError as problem:
        raise CannotDo(f"{path} cannot be deleted: {problem.strerror}") from None


def exists(turn: Turn, path: str) -> bool:
    return _inside(turn, path).is_file()


def _inside(turn: Turn, path: str) -> Path:
    """The path with its links resolved, if it lies in the workspace."""
    target = Path(os.path.realpath(path))
    for folder in (turn.session.cwd, *turn.session.additional_directories):
        if target.is_relative_to(os.path.realpath(folder)):
            return target
    raise CannotDo(f"{path} lies outside of this session's workspace, {turn.session.cwd}")


def _read_own(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except UnicodeDecodeError:
        raise CannotDo(f"{path} is no text file") from None
    except OSError as problem:
        raise CannotDo(f"{path} cannot be read: {problem.strerror}") from None


def _write_own(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as problem:
        raise CannotDo(f"{path} cannot be written: {problem.strerror}") from None


# -- commands


def argv_of(command: str) -> list[str]:
    """The program and its arguments: plain words as they are, anything more through the shell."""
    if _SHELL_SIGNS.isdisjoint(command):
        return shlex.split(command)
    return ["sh", "-c", command]


async def run(turn: Turn, tool: Tool, command: str) -> CommandEnd:
    """Runs the command to its end, shown in the tool call."""
    return await (_run_in_terminal if turn.client.terminal else _run_own)(turn, tool, argv_of(command))


async def _run_in_terminal(turn: Turn, tool: Tool, argv: list[str]) -> CommandEnd:
    try:
        terminal_id = await _create_terminal(turn, argv)
        tool.progress(Terminal(terminal_id=terminal_id))
        try:
            wait = WaitForTerminalExitRequest(session_id=turn.session.id, terminal_id=terminal_id)
            ended = await turn.request("terminal/wait_for_exit", wait, WaitForTerminalExitResponse)
            ask = TerminalOutputRequest(session_id=turn.session.id, terminal_id=terminal_id)
            said = await turn.request("terminal/output", ask, TerminalOutputResponse)
        except asyncio.CancelledError:
            _tell(turn, "terminal/kill", KillTerminalRequest(session_id=turn.session.id, terminal_id=terminal_id))
            raise
        finally:
            _release(turn, terminal_id)
    except RequestFailed as problem:
        raise CannotDo(f"The client's terminal failed: {problem}") from None
    return CommandEnd(ended.exit_code, ended.signal, said.output, said.truncated)


async def _create_terminal(turn: Turn, argv: list[str]) -> str:
    params = CreateTerminalRequest(
        session_id=turn.session.id,
        command=argv[0],
        args=tuple(argv[1:]),
        cwd=turn.session.cwd,
        output_byte_limit=OUTPUT_LIMIT,
    )
    creation = asyncio.ensure_future(turn.request("terminal/create", params, CreateTerminalResponse))

    def release_late(done: asyncio.Future[CreateTerminalResponse]) -> None:
        if not done.cancelled() and done.exception() is None:
            _release(turn, done.result().terminal_id)

    try:
        return (await asyncio.shield(creation)).terminal_id
    except asyncio.CancelledError:
        # The terminal is being made while we leave: it must not stay behind.
        creation.add_done_callback(release_late)
        raise


def _release(turn: Turn, terminal_id: str) -> None:
    _tell(turn, "terminal/release", ReleaseTerminalRequest(session_id=turn.session.id, terminal_id=terminal_id))


def _tell(turn: Turn, method: str, params: object) -> None:
    """A request whose answer nobody waits for: a turn that ends must not hang on its cleaning up."""
    try:
        turn.connection.call(method, params)
    except DragomanError:
        pass  # the client is gone, and its terminals with it


async def _run_own(turn: Turn, tool: Tool, argv: list[str]) -> CommandEnd:
    reading, writing = os.pipe()
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    try:
        pipe, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(reading, "rb"))
        try:
            # The pipe is ours and not the process's: else `wait` would also wait for grandchildren that hold it.
            process = await asyncio.create_subprocess_exec(
                *argv,
                cwd=turn.session.cwd,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=writing,
                stderr=writing,
                start_new_session=True,
            )
        except BaseException:  # a cancelled turn, too
            pipe.close()
            raise
    except OSError as problem:
        raise CannotDo(f"{argv[0]} cannot be run: {problem.strerror}") from None
    finally:
        os.close(writing)
    tool.progress()
    output = asyncio.ensure_future(_last_of(reader))
    try:
        code = await process.wait()
    finally:
        # At its end and when cancelled: nothing that it started in its group outlives it.
        _kill_group(process.pid)
        try:
            if process.returncode is None:
                await process.wait()
            await asyncio.wait([output], timeout=LAST_WORDS)
        finally:
            pipe.close()
    text, truncated = await output
    if code < 0:
        return CommandEnd(None, signal.Signals(-code).name, text, truncated)
    return CommandEnd(code, None, text, truncated)


async def _last_of(reader: asyncio.StreamReader) -> tuple[str, bool]:
    """The last `OUTPUT_LIMIT` bytes as text, and whether there were more."""
    parts: deque[bytes] = deque()
    size, cut = 0, False
    while part := await reader.read(OUTPUT_LIMIT):
        parts.append(part)
        size += len(part)
        while size - len(parts[0]) >= OUTPUT_LIMIT:
            size -= len(parts.popleft())
            cut = True
    whole = b"".join(parts)
    return whole[-OUTPUT_LIMIT:].decode("utf-8", errors="replace"), cut or size > OUTPUT_LIMIT


def _kill_group(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass  # nobody is left in it (macOS says so by EPERM)


def shown_output(end: CommandEnd) -> str:
    """The output for a message: fenced, and not longer than one wants to read there."""
    lines = end.output.rstrip().splitlines()
    if not lines:
        return ""
    head = [f"… {len(lines) - 20} lines above"] if len(lines) > 20 else []
    fence = "```" if "```" not in end.output else "~~~~"
    return "\n".join([fence, *head, *lines[-20:], fence])
