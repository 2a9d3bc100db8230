"""`Terminal`: one command that runs for the agent, as `terminal/*` asks for it.

Promised: it runs in a process group of its own that the reaper knows, and `end` ends it with all that it started. Its
output (stdout and stderr in one) is kept from the end in bounded memory (`output.py`), and all that the command itself
wrote is there when the exit status is told. What it left in the background lives on, and its output too where there is
a terminal, until `end`; nobody waits for it.

A command has a real terminal (`proc/pty.py`) unless pipes are asked for. There is nothing to read for it on stdin: who
could answer is seldom there, and a program that waits for ever helps no agent. What is written to the terminal is for
those that open it themselves (`/dev/tty`), and for ^C.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from dragoman.host.terminal.output import Chunk, Output
from dragoman.host.terminal.throttle import read_throttle
from dragoman.proc.exits import signal_name
from dragoman.proc.pipes import MAX_FINAL_READ_BYTES
from dragoman.proc.process import LATE_OUTPUT_GRACE_S, ProcessLink
from dragoman.proc.pty import Pty, spawn_in
from dragoman.proc.spawn import spawn
from dragoman.wire.vocabulary import TerminalExitStatus

# Seconds between SIGTERM and SIGKILL: build tools remove their temporary files within it.
GRACE: Final = 1.0

# Bytes of text that a summary has: enough to see how it ended, and little enough for a record that keeps every one.
SUMMARY_TEXT: Final = 16 * 1024

# The launcher for pipes: becomes the command itself, with both outputs in one pipe and nothing to read.
_LAUNCH: Final = ("/bin/sh", "-c", 'exec "$@" </dev/null 2>&1', "sh")

# On a terminal these would wait for somebody who types.
_NOBODY_TYPES: Final = {
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_EDITOR": "true",
}

# What every terminal emulator of today draws; the one around us, if any, is another.
_TERM: Final = "xterm-256color"


class TerminalSummary(msgspec.Struct, frozen=True):
    """How a command ended, for the record: the end of its text stands for all of it."""

    terminal_id: str
    command: tuple[str, ...]
    cwd: str
    exit_code: int | None
    signal: str | None
    total_bytes: int
    text: str
    truncated: bool


class Terminal:
    """Made by `start`. `pty` is None for pipes; `on_exit` is called once, when the exit status can be told."""

    def __init__(
        self,
        terminal_id: str,
        process: ProcessLink,
        pty: Pty | None,
        output: Output,
        *,
        command: Sequence[str],
        cwd: Path,
        on_exit: Callable[[Terminal], None] | None,
    ) -> None:
        self.id = terminal_id
        self.command = tuple(command)
        self.cwd = cwd
        self._process = process
        self._pty = pty
        self._output = output
        self._on_exit = on_exit
        self._loop = asyncio.get_running_loop()
        self._reading = self._loop.create_task(self._read(), name=f"dragoman terminal {process.name}")
        self._settling = self._loop.create_task(self._settle(), name=f"dragoman waits for {process.name}")
        self._ending: asyncio.Task[None] | None = None

    @property
    def has_pty(self) -> bool:
        return self._pty is not None

    @property
    def total_bytes(self) -> int:
        """Written so far: the offset at which the output ends."""
        return self._output.total

    async def output(self) -> tuple[str, bool]:
        """The text so far, and whether its beginning was dropped."""
        return await self._output.text()

    def follow(self, after: int = 0) -> AsyncIterator[Chunk]:
        """The output as bytes, from the offset `after` on; ends with the output."""
        return self._output.follow(after)

    def summary(self, most: int = SUMMARY_TEXT) -> TerminalSummary:
        """With what is known by now; the exit is None until it can be told."""
        status = self.exit_status or TerminalExitStatus()
        text, truncated = self._output.last(most)
        return TerminalSummary(
            terminal_id=self.id,
            command=self.command,
            cwd=str(self.cwd),
            exit_code=status.exit_code,
            signal=status.signal,
            total_bytes=self._output.total,
            text=text,
            truncated=truncated,
        )

    @property
    def exit_status(self) -> TerminalExitStatus | None:
        """None while it runs, or while there may be more to read of what it wrote."""
        code = self._process.exit_code
        if code is None or not self._settling.done():
            return None
        return TerminalExitStatus(exit_code=code) if code >= 0 else TerminalExitStatus(signal=signal_name(-code))

    async def wait(self) -> TerminalExitStatus:
        await asyncio.shield(self._settling)
        status = self.exit_status
        assert status is not None
        return status

    async def write(self, data: bytes) -> None:
        """Type on the terminal. With pipes there is nowhere to type: nothing happens."""
        if self._pty is not None:
            self._pty.write(data)
            await self._pty.drain()

    def resize(self, columns: int, rows: int) -> None:
        """Tell the command of a new size. With pipes there is none: nothing happens."""
        if self._pty is not None:
            self._pty.resize(columns, rows)

    @property
    def ended(self) -> bool:
        """Whether `end` is done: nothing of it is left but its output."""
        return self._ending is not None and self._ending.done()

    async def end(self) -> None:
        """End the command and all that it started; the output stays. A caller that is cancelled does not stop it."""
        if self._ending is None:
            self._ending = self._loop.create_task(self._end(), name=f"dragoman ends {self._process.name}")
        await asyncio.shield(self._ending)

    def shrink(self, keep: int) -> None:
        """Keep no more of the output than this."""
        self._output.shrink(keep)

    async def _read(self) -> None:
        try:
            if self._pty is not None:
                while await self._process.read():
                    pass
                self._pty.close_slave()
            source = self._pty or self._process
            ours = read_throttle()
            while data := await source.read():
                self._output.feed(data)
                await ours.pay(len(data))
        finally:
            if words := self._process.stderr.text():  # of the launcher, where it could not become the command
                self._output.feed(words.encode() + b"\n")
            self._output.end()

    async def _settle(self) -> None:
        await self._process.wait()
        await asyncio.wait({self._reading}, timeout=LATE_OUTPUT_GRACE_S if self._pty else None)
        # Something in the background has the terminal open, and may write on for ever. What the command itself wrote
        # is among what is there now.
        most = self._output.total + MAX_FINAL_READ_BYTES
        while self._pty and not self._reading.done() and not self._pty.is_empty and self._output.total < most:
            await self._output.changed()
        if self._on_exit is not None:
            self._loop.call_soon(self._on_exit, self)

    async def _end(self) -> None:
        if self._process.exit_code is None:
            self._process.terminate()
            try:
                async with asyncio.timeout(GRACE):
                    await self._process.wait()
            except TimeoutError:
                self._process.kill()
        await self._process.end(GRACE)
        if self._pty is not None:
            # Nobody has it now, but what left both its group and its environment.
            await asyncio.wait({self._reading}, timeout=LATE_OUTPUT_GRACE_S)
            self._pty.close()
        await asyncio.wait({self._reading, self._settling})


async def start(
    terminal_id: str,
    argv: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    given: frozenset[str] = frozenset(),
    limit: int,
    pty: Pty | None,
    rows: int,
    command: Sequence[str],
    on_exit: Callable[[Terminal], None] | None = None,
) -> Terminal:
    """Start `argv`; `InputError` or `StartError` where it cannot be, and then `pty` is closed.

    `given` names the variables of `env` that were meant for this command: these are left as they are. `command` is
    what was asked for, in its own words.
    """
    name = os.path.basename(argv[0])
    try:
        if pty is not None:
            process = await spawn_in(pty, argv, cwd=cwd, env=terminal_environment(env, given), name=name)
        else:
            process = await spawn([*_LAUNCH, *argv], cwd=cwd, env=env, name=name)
    except BaseException:
        if pty is not None:
            pty.close()
        raise
    process.close()
    output = Output(limit, rows=rows if pty else None)
    return Terminal(terminal_id, process, pty, output, command=command, cwd=cwd, on_exit=on_exit)


def terminal_environment(env: Mapping[str, str], given: frozenset[str]) -> dict[str, str]:
    """What a command on a terminal gets: this terminal's own name, not the outer one's, and nothing that waits."""
    kept = {name: value for name, value in env.items() if name in given or name not in ("COLUMNS", "LINES")}
    ours = {"TERM": _TERM, **_NOBODY_TYPES}
    return kept | {name: value for name, value in ours.items() if name not in given}
