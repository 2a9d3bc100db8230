"""`Terminals`: the commands of one session, as `terminal/*` asks for them.

Promised: a command is refused clearly where it cannot be started; none is left when `close` has returned (G6). A
released terminal is ended and gone for the agent, while its output can still be shown (`find`) until the session ends,
for the last `MAX_RELEASED_TERMINALS` of them.

What the agent may say for one terminal, in `_meta`: `{"dragoman": {"pty": false, "columns": 120, "rows": 40}}`.
"""

from __future__ import annotations

import asyncio
import errno
import os
import re
import shutil
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from dragoman.errors import INVALID_REQUEST, InputError, StartError
from dragoman.host.refusals import invalid, not_found
from dragoman.host.terminal.terminal import Terminal, start
from dragoman.proc.pty import DEFAULT_COLUMNS, DEFAULT_ROWS, MAX_CELLS, Pty
from dragoman.wire import vocabulary as acp
from dragoman.wire.connection import RpcRefusal

# Where the agent names none: thousands of lines, more than a model reads, and little enough for many terminals.
DEFAULT_OUTPUT_LIMIT: Final = 1024 * 1024

# What an agent can ask for at most: the answer has to fit into one line of the wire (64 MiB), however it is escaped.
MAX_OUTPUT_BYTES: Final = 10 * 1024 * 1024

# Of one session, unreleased: agents use one or two at a time, and each keeps its output.
MAX_TERMINALS: Final = 64

# Released ones that can still be looked at, and what is kept of each: together at most 16 MiB a session.
MAX_RELEASED_TERMINALS: Final = 64
RELEASED_OUTPUT_BYTES: Final = 256 * 1024

_PLAIN_WORD: Final = re.compile(r"[A-Za-z0-9_@%+=:,./-]+")


class TerminalOptions(msgspec.Struct, frozen=True):
    """What the agent asks for beyond the protocol; None leaves it to us."""

    pty: bool | None = None
    columns: int | None = None
    rows: int | None = None


class Terminals:
    """`pty` is whether commands get a terminal where the agent does not say; `on_exit` hears of every end."""

    def __init__(
        self,
        *,
        pty: bool = True,
        columns: int = DEFAULT_COLUMNS,
        rows: int = DEFAULT_ROWS,
        on_exit: Callable[[Terminal], None] | None = None,
    ) -> None:
        self._pty = pty
        self._columns = columns
        self._rows = rows
        self._on_exit = on_exit
        self._open: dict[str, Terminal] = {}
        self._shown: dict[str, Terminal] = {}  # released; the oldest first
        self._closed = False

    def find(self, terminal_id: str) -> Terminal | None:
        """To show or to follow: also one that was released, as long as it is kept."""
        return self._open.get(terminal_id) or self._shown.get(terminal_id)

    def check(self, request: acp.CreateTerminalRequest, env: Mapping[str, str], cwd: Path) -> bool:
        """Before anyone is asked: what cannot be done anyway is no question. Whether it is a line for the shell."""
        return _is_line(request, command_line(request.command, request.args, env, cwd))

    async def create(
        self, request: acp.CreateTerminalRequest, env: Mapping[str, str], cwd: Path, *, shell: bool | None = None
    ) -> acp.CreateTerminalResponse:
        """Once it is allowed; `shell` is what `check` found it to be."""
        self._check_open()
        if len(self._open) >= MAX_TERMINALS:
            raise invalid("command", f"{MAX_TERMINALS} terminals are open already: release those that are not needed")
        argv = command_line(request.command, request.args, env, cwd)
        if shell is not None and _is_line(request, argv) != shell:
            # A program of that name has come or gone meanwhile: it would be another command than the one allowed.
            raise invalid("command", f"{request.command!r} is something else now than when it was allowed")
        wishes = terminal_options(request.meta)
        rows = min(max(wishes.rows or self._rows, 1), MAX_CELLS)
        wanted = request.output_byte_limit
        # Random, so that no terminal of an earlier process of ours has the same in the session's record.
        terminal_id = f"term_{uuid.uuid4().hex[:12]}"
        try:
            self._open[terminal_id] = await start(
                terminal_id,
                argv,
                cwd=cwd,
                env=env,
                given=frozenset(variable.name for variable in request.env),
                limit=min(DEFAULT_OUTPUT_LIMIT if wanted is None else wanted, MAX_OUTPUT_BYTES),
                pty=self._new_pty(wishes, rows),
                rows=rows,
                command=(request.command, *request.args),
                on_exit=self._on_exit,
            )
        except (InputError, StartError) as problem:
            raise invalid("command", _reason(request.command, problem)) from None
        try:
            self._check_open()
        except RpcRefusal:  # closed meanwhile: nobody else would end this one
            await self.close()
            raise
        return acp.CreateTerminalResponse(terminal_id=terminal_id)

    async def output(self, request: acp.TerminalOutputRequest) -> acp.TerminalOutputResponse:
        terminal = self._own(request.terminal_id)
        status = terminal.exit_status  # before the text, which then is whole
        output, truncated = await terminal.output()
        return acp.TerminalOutputResponse(output=output, truncated=truncated, exit_status=status)

    async def wait_for_exit(self, request: acp.WaitForTerminalExitRequest) -> acp.WaitForTerminalExitResponse:
        status = await self._own(request.terminal_id).wait()
        return acp.WaitForTerminalExitResponse(exit_code=status.exit_code, signal=status.signal)

    async def kill(self, request: acp.KillTerminalRequest) -> acp.KillTerminalResponse:
        await self._own(request.terminal_id).end()
        return acp.KillTerminalResponse()

    async def release(self, request: acp.ReleaseTerminalRequest) -> acp.ReleaseTerminalResponse:
        terminal = self._own(request.terminal_id)
        self._show_only(terminal)
        await terminal.end()
        self._forget_oldest()
        return acp.ReleaseTerminalResponse()

    async def close(self) -> None:
        """End all of them, at once."""
        self._closed = True
        for terminal in list(self._open.values()):
            self._show_only(terminal)
        await asyncio.gather(*(terminal.end() for terminal in self._shown.values()))
        self._forget_oldest()

    def _check_open(self) -> None:
        if self._closed:
            raise RpcRefusal(INVALID_REQUEST, "terminal/create: the session is closed")

    def _show_only(self, terminal: Terminal) -> None:
        del self._open[terminal.id]
        terminal.shrink(RELEASED_OUTPUT_BYTES)
        self._shown[terminal.id] = terminal

    def _forget_oldest(self) -> None:
        """Not one that has not ended: `close` has to wait for it."""
        ended = [terminal.id for terminal in self._shown.values() if terminal.ended]
        for terminal_id in ended[: max(0, len(self._shown) - MAX_RELEASED_TERMINALS)]:
            del self._shown[terminal_id]

    def _new_pty(self, wishes: TerminalOptions, rows: int) -> Pty | None:
        if not (self._pty if wishes.pty is None else wishes.pty):
            return None
        try:
            return Pty(columns=wishes.columns or self._columns, rows=rows)
        except OSError:
            return None  # a container without them, or none left: the command runs as well without

    def _own(self, terminal_id: str) -> Terminal:
        try:
            return self._open[terminal_id]
        except KeyError:
            raise not_found(terminal_id, "Terminal") from None


def terminal_options(meta: Mapping[str, object] | None) -> TerminalOptions:
    """Of a request's `_meta`; what is not as it should be is no wish."""
    try:
        return msgspec.convert((meta or {}).get("dragoman", {}), TerminalOptions)
    except msgspec.ValidationError:
        return TerminalOptions()


def command_line(command: str, args: Sequence[str], env: Mapping[str, str], cwd: Path) -> list[str]:
    """The program's file and its arguments.

    Where there are no arguments and the command is no program's name, it is a line for the shell: agents send
    `"make && make test"` as the command, though the protocol has a field for arguments.
    """
    if any("\0" in word for word in (command, *args)):
        raise invalid("command", "it, or one of its arguments, has a NUL character in it")
    if program := _program(command, env, cwd):
        return [program, *args]
    if not args and command.strip() and not _PLAIN_WORD.fullmatch(command):
        return ["/bin/sh", "-c", command]
    raise invalid("command", f"no program {command!r} was found (PATH: {env.get('PATH', os.defpath)})")


def _is_line(request: acp.CreateTerminalRequest, argv: Sequence[str]) -> bool:
    """Whether what is started is a shell of ours: the agent gave no arguments, and there are some."""
    return not request.args and len(argv) > 1


def _program(command: str, env: Mapping[str, str], cwd: Path) -> str | None:
    if "/" in command:
        file = cwd / command
        return str(file) if file.is_file() and os.access(file, os.X_OK) else None
    return shutil.which(command, path=env.get("PATH", os.defpath))


def _reason(command: str, problem: InputError | StartError) -> str:
    """Why it could not be started. What the system says of our launcher is meant for the command."""
    cause = problem.__cause__
    if isinstance(cause, OSError) and cause.errno == errno.E2BIG:
        return f"{command[:80]!r} has more arguments, or a longer one, than the system passes on: use a file instead"
    return str(problem)
