"""`Terminals`: the commands of one session (`terminal/*`).

Promised: a command that cannot be started is refused with the reason; none is left when `close` has returned (G6). A
released terminal has ended and is gone for the agent, while its output can still be shown (`find`) until the session
ends; the last `MAX_RELEASED_TERMINALS` of them are kept.

An agent may set options of one terminal in `_meta`: `{"dragoman": {"pty": false, "columns": 120, "rows": 40}}`.
"""

from __future__ import annotations

import asyncio
import errno
import os
import re
import shutil
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from dragoman.errors import INVALID_REQUEST, InputError, StartError
from dragoman.host.refusals import invalid, not_found
from dragoman.host.terminal.terminal import Terminal, start
from dragoman.proc.pty import DEFAULT_COLUMNS, DEFAULT_ROWS, MAX_CELLS, Pty
from dragoman.wire import vocabulary as acp
from dragoman.wire.connection import RpcRefusal
from dragoman.workspace.sandbox_policy import CommandWrapper

# Bytes, where the agent sets no limit: thousands of lines, more than a model reads, and few enough for many terminals.
DEFAULT_OUTPUT_BYTES: Final = 1024 * 1024

# The highest limit of an agent: the answer must fit into one line of the wire (64 MiB), however it is escaped.
MAX_OUTPUT_BYTES: Final = 10 * 1024 * 1024

# Unreleased terminals of one session: agents use one or two at a time, and each keeps its output.
MAX_TERMINALS: Final = 64

# Released terminals that can still be shown, and the bytes kept of each: together at most 16 MiB per session.
MAX_RELEASED_TERMINALS: Final = 64
RELEASED_OUTPUT_BYTES: Final = 256 * 1024

_PLAIN_WORD: Final = re.compile(r"[A-Za-z0-9_@%+=:,./-]+")


class TerminalOptions(msgspec.Struct, frozen=True):
    """Options of one terminal beyond the protocol; None means the session's default."""

    pty: bool | None = None
    columns: int | None = None
    rows: int | None = None


class Terminals:
    """The terminals of one session. `pty` is the default of the option; `on_exit` is called for every command.

    Commands are started in the `sandbox`, where there is one.
    """

    def __init__(
        self,
        *,
        pty: bool = True,
        columns: int = DEFAULT_COLUMNS,
        rows: int = DEFAULT_ROWS,
        sandbox: CommandWrapper | None = None,
        on_exit: Callable[[Terminal], None] | None = None,
    ) -> None:
        self._pty = pty
        self._columns = columns
        self._rows = rows
        self._sandbox = sandbox
        self._on_exit = on_exit
        self._open: dict[str, Terminal] = {}
        self._released: dict[str, Terminal] = {}  # the oldest first
        self._closed = False

    def find(self, terminal_id: str) -> Terminal | None:
        """Return a terminal to show or follow, released ones included."""
        return self._open.get(terminal_id) or self._released.get(terminal_id)

    def check(self, request: acp.CreateTerminalRequest, env: Mapping[str, str], cwd: Path) -> bool:
        """Refuse a command that cannot be started, before anyone is asked. Returns True for a line for the shell."""
        return _is_line(request, command_line(request.command, request.args, env, cwd))

    async def create(
        self, request: acp.CreateTerminalRequest, env: Mapping[str, str], cwd: Path, *, shell: bool | None = None
    ) -> acp.CreateTerminalResponse:
        """Start the command after it was approved; `shell` is the result of `check`."""
        self._check_open()
        if len(self._open) >= MAX_TERMINALS:
            raise invalid("command", f"{MAX_TERMINALS} terminals are already open: release some of them")
        argv = command_line(request.command, request.args, env, cwd)
        if shell is not None and _is_line(request, argv) != shell:
            # A program of that name has appeared or vanished: this would run another command than the approved one.
            raise invalid("command", f"{request.command!r} is now another command than the one that was approved")
        options = terminal_options(request.meta)
        rows = min(max(options.rows or self._rows, 1), MAX_CELLS)
        limit = request.output_byte_limit
        # Random, so that it differs from the terminals of earlier processes in the session's journal.
        terminal_id = f"term_{uuid.uuid4().hex[:12]}"
        try:
            self._open[terminal_id] = await start(
                terminal_id,
                argv,
                cwd=cwd,
                env=env,
                explicit=frozenset(variable.name for variable in request.env),
                limit=min(DEFAULT_OUTPUT_BYTES if limit is None else limit, MAX_OUTPUT_BYTES),
                pty=self._new_pty(options, rows),
                rows=rows,
                sandbox=self._sandbox,
                on_exit=self._on_exit,
            )
        except (InputError, StartError) as error:
            raise invalid("command", _start_error(request.command, error)) from None
        try:
            self._check_open()
        except RpcRefusal:  # closed meanwhile: nothing else would end this one
            await self.close()
            raise
        return acp.CreateTerminalResponse(terminal_id=terminal_id)

    async def output(self, request: acp.TerminalOutputRequest) -> acp.TerminalOutputResponse:
        terminal = self._find_open(request.terminal_id)
        status = terminal.exit_status  # read before the text, which is then complete
        output, truncated = await terminal.output()
        return acp.TerminalOutputResponse(output=output, truncated=truncated, exit_status=status)

    async def wait_for_exit(self, request: acp.WaitForTerminalExitRequest) -> acp.WaitForTerminalExitResponse:
        status = await self._find_open(request.terminal_id).wait()
        return acp.WaitForTerminalExitResponse(exit_code=status.exit_code, signal=status.signal)

    async def kill(self, request: acp.KillTerminalRequest) -> acp.KillTerminalResponse:
        await self._find_open(request.terminal_id).end()
        return acp.KillTerminalResponse()

    async def release(self, request: acp.ReleaseTerminalRequest) -> acp.ReleaseTerminalResponse:
        terminal = self._find_open(request.terminal_id)
        self._move_to_released(terminal)
        await terminal.end()
        self._forget_oldest()
        return acp.ReleaseTerminalResponse()

    async def end(self, terminal_ids: Collection[str]) -> None:
        """End these commands, as far as they are known; the agent can still read their output, and release them."""
        terminals = [terminal for each in terminal_ids if (terminal := self.find(each)) is not None]
        await asyncio.gather(*(terminal.end() for terminal in terminals))

    async def close(self) -> None:
        """End all of them at once."""
        self._closed = True
        for terminal in list(self._open.values()):
            self._move_to_released(terminal)
        await asyncio.gather(*(terminal.end() for terminal in self._released.values()))
        self._forget_oldest()

    def _check_open(self) -> None:
        if self._closed:
            raise RpcRefusal(INVALID_REQUEST, "terminal/create: the session is closed")

    def _move_to_released(self, terminal: Terminal) -> None:
        del self._open[terminal.id]
        terminal.shrink(RELEASED_OUTPUT_BYTES)
        self._released[terminal.id] = terminal

    def _forget_oldest(self) -> None:
        """Drop the oldest ended terminals; `close` waits for the others."""
        ended = [terminal.id for terminal in self._released.values() if terminal.ended]
        for terminal_id in ended[: max(0, len(self._released) - MAX_RELEASED_TERMINALS)]:
            del self._released[terminal_id]

    def _new_pty(self, options: TerminalOptions, rows: int) -> Pty | None:
        if not (self._pty if options.pty is None else options.pty):
            return None
        try:
            return Pty(columns=options.columns or self._columns, rows=rows)
        except OSError:
            return None  # a container may have none, or all are in use: the command also runs without

    def _find_open(self, terminal_id: str) -> Terminal:
        try:
            return self._open[terminal_id]
        except KeyError:
            raise not_found(terminal_id, "Terminal") from None


def terminal_options(meta: Mapping[str, object] | None) -> TerminalOptions:
    """Read the options of a request's `_meta`; invalid ones are ignored."""
    try:
        return msgspec.convert((meta or {}).get("dragoman", {}), TerminalOptions)
    except msgspec.ValidationError:
        return TerminalOptions()


def command_line(command: str, args: Sequence[str], env: Mapping[str, str], cwd: Path) -> list[str]:
    """Return the file of the program and its arguments.

    A command without arguments that is not the name of a program is a line for the shell: agents send
    `"make && make test"` as the command, although the protocol has a field for arguments.
    """
    if any("\0" in word for word in (command, *args)):
        raise invalid("command", "the command or one of its arguments contains a NUL character")
    if program := _program(command, env, cwd):
        return [program, *args]
    if not args and command.strip() and not _PLAIN_WORD.fullmatch(command):
        return ["/bin/sh", "-c", command]
    raise invalid("command", f"no program {command!r} was found (PATH: {env.get('PATH', os.defpath)})")


def _is_line(request: acp.CreateTerminalRequest, argv: Sequence[str]) -> bool:
    """Tell whether our shell is started: the agent gave no arguments, and there are some."""
    return not request.args and len(argv) > 1


def _program(command: str, env: Mapping[str, str], cwd: Path) -> str | None:
    if "/" in command:
        file = cwd / command
        return str(file) if file.is_file() and os.access(file, os.X_OK) else None
    return shutil.which(command, path=env.get("PATH", os.defpath))


def _start_error(command: str, error: InputError | StartError) -> str:
    """Say why the command could not be started; the system's error about our launcher is about the command."""
    cause = error.__cause__
    if isinstance(cause, OSError) and cause.errno == errno.E2BIG:
        return f"{command[:80]!r} has more or longer arguments than the system allows: use a file instead"
    return str(error)
