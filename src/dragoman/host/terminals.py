"""Commands that run for the agent, as `terminal/*` asks for them: `Terminal`, one of them; `Terminals`, a session's.

Promised: each runs in a process group of its own that the reaper knows, and ends, with all that it started, when it is
released, killed, or the session ends. Its output (stdout and stderr in one, without a terminal behind them; stdin is
empty) is kept from the end in bounded memory, and is whole when the exit status is told. What the command's children
write after it has ended is not kept.
"""

from __future__ import annotations

import asyncio
import codecs
import os
import re
import shutil
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from dragoman.errors import InputError, StartError
from dragoman.host.refusals import invalid, not_found
from dragoman.proc.exits import signal_name
from dragoman.proc.process import ProcessLink
from dragoman.proc.spawn import spawn
from dragoman.wire import vocabulary as acp
from dragoman.wire.vocabulary import TerminalExitStatus

# Where the agent names none: thousands of lines, more than a model reads, and little enough for many terminals.
DEFAULT_OUTPUT_LIMIT: Final = 1024 * 1024

# What an agent can ask for at most: the answer has to fit into one line of the wire (64 MiB), however it is escaped.
MOST_OUTPUT: Final = 10 * 1024 * 1024

# Of one session, unreleased: agents use one or two at a time, and each keeps its output.
MOST_TERMINALS: Final = 64

# Seconds between SIGTERM and SIGKILL: build tools remove their temporary files within it.
GRACE: Final = 1.0

# The launcher: becomes the command itself, with both outputs in one pipe and nothing to read.
_LAUNCH: Final = ("/bin/sh", "-c", 'exec "$@" </dev/null 2>&1', "sh")

_PLAIN_WORD: Final = re.compile(r"[A-Za-z0-9_@%+=:,./-]+")
_CONTINUATION: Final = range(0x80, 0xC0)


class OutputTail:
    """The last `limit` bytes of a stream, as text that begins at a character."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._kept = bytearray()
        self._dropped = False

    def feed(self, data: bytes) -> None:
        self._kept += data
        if (excess := len(self._kept) - self._limit) > 0:
            del self._kept[:excess]
            self._dropped = True

    def text(self, *, ended: bool) -> tuple[str, bool]:
        """The text, and whether its beginning was dropped. Until the end, half a character waits for its rest."""
        data, dropped = bytes(self._kept), self._dropped
        if dropped:
            data = _from_character(data)
        text = codecs.getincrementaldecoder("utf-8")("replace").decode(data, ended)
        # What is no UTF-8 grows when it is replaced; the limit is on what the agent gets.
        if len(encoded := text.encode()) > self._limit:
            text, dropped = _from_character(encoded[len(encoded) - self._limit :]).decode(), True
        return text, dropped


def _from_character(data: bytes) -> bytes:
    start = 0
    while start < min(3, len(data)) and data[start] in _CONTINUATION:
        start += 1
    return data[start:]


class Terminal:
    def __init__(self, link: ProcessLink, limit: int) -> None:
        self._link = link
        self._tail = OutputTail(limit)
        self._loop = asyncio.get_running_loop()
        self._reading = self._loop.create_task(self._read(), name=f"dragoman terminal {link.name}")
        self._ending: asyncio.Task[None] | None = None

    async def _read(self) -> None:
        while data := await self._link.read():
            self._tail.feed(data)

    @property
    def output(self) -> tuple[str, bool]:
        """The text so far, and whether its beginning was dropped."""
        return self._tail.text(ended=self._reading.done())

    @property
    def exit_status(self) -> TerminalExitStatus | None:
        """None while it runs, or while there may be more to read."""
        code = self._link.exit_code
        if code is None or not self._reading.done():
            return None
        return TerminalExitStatus(exit_code=code) if code >= 0 else TerminalExitStatus(signal=signal_name(-code))

    async def wait(self) -> TerminalExitStatus:
        await self._link.wait()
        await asyncio.shield(self._reading)
        status = self.exit_status
        assert status is not None
        return status

    async def end(self) -> None:
        """End the command and all that it started; the output stays. A caller that is cancelled does not stop it."""
        if self._ending is None:
            self._ending = self._loop.create_task(self._end(), name=f"dragoman ends {self._link.name}")
        await asyncio.shield(self._ending)

    async def _end(self) -> None:
        if self._link.exit_code is None:
            self._link.terminate()
            try:
                async with asyncio.timeout(GRACE):
                    await self._link.wait()
            except TimeoutError:
                self._link.kill()
        await self._link.end(GRACE)
        await self._reading


class Terminals:
    def __init__(self) -> None:
        self._terminals: dict[str, Terminal] = {}
        self._released: set[Terminal] = set()  # and still ending

    def check(self, request: acp.CreateTerminalRequest, env: Mapping[str, str], cwd: Path) -> None:
        """Before anyone is asked: what cannot be done anyway is no question."""
        command_line(request.command, request.args, env, cwd)

    async def create(
        self, request: acp.CreateTerminalRequest, env: Mapping[str, str], cwd: Path
    ) -> acp.CreateTerminalResponse:
        """Once it is allowed."""
        if len(self._terminals) >= MOST_TERMINALS:
            raise invalid("command", f"{MOST_TERMINALS} terminals are open already: release those that are not needed")
        argv = command_line(request.command, request.args, env, cwd)
        try:
            link = await spawn([*_LAUNCH, *argv], cwd=cwd, env=env, name=os.path.basename(argv[0]))
        except (InputError, StartError) as problem:
            raise invalid("command", str(problem)) from None
        link.close()
        wanted = request.output_byte_limit
        limit = min(DEFAULT_OUTPUT_LIMIT if wanted is None else wanted, MOST_OUTPUT)
        # Random, so that no terminal of an earlier process of ours has the same in the session's record.
        terminal_id = f"term_{uuid.uuid4().hex[:12]}"
        self._terminals[terminal_id] = Terminal(link, limit)
        return acp.CreateTerminalResponse(terminal_id=terminal_id)

    async def output(self, request: acp.TerminalOutputRequest) -> acp.TerminalOutputResponse:
        terminal = self._own(request.terminal_id)
        output, truncated = terminal.output
        return acp.TerminalOutputResponse(output=output, truncated=truncated, exit_status=terminal.exit_status)

    async def wait_for_exit(self, request: acp.WaitForTerminalExitRequest) -> acp.WaitForTerminalExitResponse:
        status = await self._own(request.terminal_id).wait()
        return acp.WaitForTerminalExitResponse(exit_code=status.exit_code, signal=status.signal)

    async def kill(self, request: acp.KillTerminalRequest) -> acp.KillTerminalResponse:
        await self._own(request.terminal_id).end()
        return acp.KillTerminalResponse()

    async def release(self, request: acp.ReleaseTerminalRequest) -> acp.ReleaseTerminalResponse:
        terminal = self._own(request.terminal_id)
        del self._terminals[request.terminal_id]
        self._released.add(terminal)
        await terminal.end()
        self._released.discard(terminal)
        return acp.ReleaseTerminalResponse()

    async def close(self) -> None:
        """End all of them, at once."""
        self._released |= set(self._terminals.values())
        self._terminals.clear()
        await asyncio.gather(*(terminal.end() for terminal in self._released))
        self._released.clear()

    def _own(self, terminal_id: str) -> Terminal:
        try:
            return self._terminals[terminal_id]
        except KeyError:
            raise not_found(terminal_id, "Terminal") from None


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


def _program(command: str, env: Mapping[str, str], cwd: Path) -> str | None:
    if "/" in command:
        file = cwd / command
        return str(file) if file.is_file() and os.access(file, os.X_OK) else None
    return shutil.which(command, path=env.get("PATH", os.defpath))
