"""`Terminal`: one command that runs for the agent (`terminal/*`).

Promised: it runs in its own process group, which the reaper knows, and `end` ends it with everything that it started.
The end of its output (stdout and stderr together) is kept in bounded memory (`output.py`), and everything that the
command itself wrote is there when its exit status is reported. Processes that it left in the background run on until
`end`, and on a terminal so does their output; nobody waits for them.

A command has a real terminal (`proc/pty.py`) unless the agent asks for pipes. Its stdin is empty: usually nobody is
there to answer, and a program that waits forever helps no agent. Input to the terminal reaches programs that open it
themselves (`/dev/tty`), and carries ^C.

`ReadThrottle` limits how much the terminals of a loop read, so that floods leave time for everything else: between two
iterations of the event loop all terminals together read at most `BUDGET_BYTES` bytes, in the order in which they ask. A
flood, most of which is dropped anyway, also pauses between the iterations, so that it does not occupy a core. A
terminal that waits does not read, and then its command blocks in its own write.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Final
from weakref import WeakKeyDictionary

from dragoman.host.terminal.output import Chunk, Output
from dragoman.proc.pipes import MAX_FINAL_READ_BYTES
from dragoman.proc.process import LATE_OUTPUT_GRACE_S, ProcessLink, signal_name
from dragoman.proc.pty import Pty, spawn_in
from dragoman.proc.spawn import spawn
from dragoman.record import notes
from dragoman.wire.vocabulary import TerminalExitStatus
from dragoman.workspace.sandbox_policy import CommandWrapper

# Bytes: processing them takes 0.1 to 0.2 ms, which no session notices.
BUDGET_BYTES: Final = 64 * 1024

# Bytes without a break after which output counts as a flood: more than people or models read.
BURST_BYTES: Final = 1024 * 1024

# Seconds without output that end a flood.
QUIET_S: Final = 0.02

# Seconds between two iterations in a flood. The loop's timers have a resolution of milliseconds: `yes` is read at
# 3 MB/s from a pseudo-terminal (4 KiB at a time) and at 48 MB/s from a pipe, each for a tenth of a core. (Measured
# without it: 8 MB/s for a sixth of a core, and 950 MB/s for two thirds and more. The delay of other sessions' updates
# is in the ADR.)
PAUSE_S: Final = 0.001


class ReadThrottle:
    """Grants reads within the budget. `quiet_s` and `pause_s` are in seconds."""

    def __init__(self, *, quiet_s: float = QUIET_S, pause_s: float = PAUSE_S) -> None:
        self._quiet_s = quiet_s
        self._pause_s = pause_s
        self._waiters: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._burst_bytes = 0
        self._last_read_at = 0.0

    async def after_read(self, size: int) -> None:
        """Wait, after reading `size` bytes, until the next read is allowed."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        is_quiet = now - self._last_read_at > self._quiet_s
        self._burst_bytes = size if is_quiet else self._burst_bytes + size
        self._last_read_at = now
        waiter: asyncio.Future[None] = loop.create_future()
        if not self._waiters:
            self._schedule(loop)
        self._waiters.append((size, waiter))
        await waiter

    def _schedule(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._burst_bytes > BURST_BYTES:
            loop.call_later(self._pause_s, self._grant)
        else:
            loop.call_soon(self._grant)

    def _grant(self) -> None:
        budget = BUDGET_BYTES
        while self._waiters and budget > 0:
            size, waiter = self._waiters.popleft()
            if not waiter.done():  # cancelled meanwhile
                waiter.set_result(None)
                budget -= size
        if self._waiters:
            self._schedule(asyncio.get_running_loop())


_throttles: WeakKeyDictionary[asyncio.AbstractEventLoop, ReadThrottle] = WeakKeyDictionary()


def read_throttle() -> ReadThrottle:
    """Return the throttle of the running loop."""
    return _throttles.setdefault(asyncio.get_running_loop(), ReadThrottle())


# Seconds between SIGTERM and SIGKILL: build tools remove their temporary files within it.
END_GRACE_S: Final = 1.0

# Bytes of text in a summary: enough to see how the command ended, and little enough to store for each command.
MAX_SUMMARY_BYTES: Final = 16 * 1024

# The launcher for pipes: it becomes the command, with both outputs in one pipe and an empty stdin.
_LAUNCH: Final = ("/bin/sh", "-c", 'exec "$@" </dev/null 2>&1', "sh")

# Without these, programs on a terminal would wait for a person to type.
_NON_INTERACTIVE: Final = {
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_EDITOR": "true",
}

# The type that today's terminal emulators understand; the terminal that we run in, if any, is another one.
_TERM: Final = "xterm-256color"


class Terminal:
    """Made by `start`. `pty` is None for pipes; `on_exit` is called once, when the exit status is known."""

    def __init__(
        self,
        terminal_id: str,
        process: ProcessLink,
        pty: Pty | None,
        output: Output,
        *,
        on_exit: Callable[[Terminal], None] | None,
    ) -> None:
        self.id = terminal_id
        self._process = process
        self._pty = pty
        self._output = output
        self._on_exit = on_exit
        self._loop = asyncio.get_running_loop()
        self._reading = self._loop.create_task(self._read(), name=f"dragoman terminal {process.name}")
        self._settling = self._loop.create_task(self._settle(), name=f"dragoman waits for {process.name}")
        self._ending: asyncio.Task[None] | None = None
        self._killed = False  # it had not ended by itself

    @property
    def has_pty(self) -> bool:
        return self._pty is not None

    @property
    def total_bytes(self) -> int:
        """The number of bytes written so far, which is the offset of the end of the output."""
        return self._output.total

    async def output(self) -> tuple[str, bool]:
        """Return the text so far, and whether its beginning was dropped."""
        return await self._output.text()

    def follow(self, after: int = 0) -> AsyncIterator[Chunk]:
        """Yield the output as bytes, from the offset `after` to its end."""
        return self._output.follow(after)

    def summary(self, max_bytes: int = MAX_SUMMARY_BYTES) -> notes.TerminalExited:
        """Summarize the command so far, for the journal; the exit is None until it is known."""
        status = self.exit_status or TerminalExitStatus()
        text, truncated = self._output.last(max_bytes)
        return notes.TerminalExited(
            self.id,
            exit_code=status.exit_code,
            signal=status.signal,
            output=text,
            output_bytes=self._output.total,
            truncated=truncated,
            killed=self._killed,
        )

    @property
    def exit_status(self) -> TerminalExitStatus | None:
        """The exit status; None while the command runs, or while its own output may not be read completely."""
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
        """Send input to the terminal. Does nothing with pipes."""
        if self._pty is not None:
            self._pty.write(data)
            await self._pty.drain()

    def resize(self, columns: int, rows: int) -> None:
        """Change the size of the terminal. Does nothing with pipes."""
        if self._pty is not None:
            self._pty.resize(columns, rows)

    @property
    def ended(self) -> bool:
        """True when `end` is done: nothing is left but the output."""
        return self._ending is not None and self._ending.done()

    async def end(self) -> None:
        """End the command and everything that it started; the output stays. Cancelling a caller does not stop it."""
        if self._ending is None:
            self._ending = self._loop.create_task(self._end(), name=f"dragoman ends {self._process.name}")
        await asyncio.shield(self._ending)

    def shrink(self, keep: int) -> None:
        """Keep at most this many bytes of the output."""
        self._output.shrink(keep)

    async def _read(self) -> None:
        try:
            if self._pty is not None:
                while await self._process.read():
                    pass
                self._pty.close_slave()
            source = self._pty or self._process
            throttle = read_throttle()
            while data := await source.read():
                self._output.feed(data)
                await throttle.after_read(len(data))
        finally:
            if message := self._process.stderr.text():  # of the launcher, if it could not become the command
                self._output.feed(message.encode() + b"\n")
            self._output.end()

    async def _settle(self) -> None:
        await self._process.wait()
        await asyncio.wait({self._reading}, timeout=LATE_OUTPUT_GRACE_S if self._pty else None)
        # A process in the background has the terminal open and may write forever. The output of the command itself is
        # among the bytes that are there now.
        enough = self._output.total + MAX_FINAL_READ_BYTES
        while self._pty and not self._reading.done() and not self._pty.is_empty and self._output.total < enough:
            await self._output.changed()
        if self._on_exit is not None:
            self._loop.call_soon(self._on_exit, self)

    async def _end(self) -> None:
        if self._process.exit_code is None:
            self._killed = True
            self._process.terminate()
            try:
                async with asyncio.timeout(END_GRACE_S):
                    await self._process.wait()
            except TimeoutError:
                self._process.kill()
        await self._process.end(END_GRACE_S)
        if self._pty is not None:
            # Only a process that left both its group and its environment can still have the terminal open.
            await asyncio.wait({self._reading}, timeout=LATE_OUTPUT_GRACE_S)
            self._pty.close()
        await asyncio.wait({self._reading, self._settling})


async def start(
    terminal_id: str,
    argv: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    explicit: frozenset[str] = frozenset(),
    limit: int,
    pty: Pty | None,
    rows: int,
    sandbox: CommandWrapper | None = None,
    on_exit: Callable[[Terminal], None] | None = None,
) -> Terminal:
    """Start `argv`. On failure raise `InputError` or `StartError` and close `pty`.

    `explicit` names the variables of `env` that the agent set for this command: they are left as they are. `limit` is
    the number of bytes of text to keep.
    """
    name = os.path.basename(argv[0])
    if pty is not None:
        env = terminal_environment(env, explicit)
    if sandbox is not None:
        argv, env = sandbox.wrap(argv, env)
    try:
        if pty is not None:
            process = await spawn_in(pty, argv, cwd=cwd, env=env, name=name)
        else:
            process = await spawn([*_LAUNCH, *argv], cwd=cwd, env=env, name=name)
    except BaseException:
        if pty is not None:
            pty.close()
        raise
    process.close()
    output = Output(limit, rows=rows if pty else None)
    return Terminal(terminal_id, process, pty, output, on_exit=on_exit)


def terminal_environment(env: Mapping[str, str], explicit: frozenset[str]) -> dict[str, str]:
    """Adapt the environment to the terminal: its own type and size, and no interactive programs."""
    inherited = {name: value for name, value in env.items() if name in explicit or name not in ("COLUMNS", "LINES")}
    added = {"TERM": _TERM, **_NON_INTERACTIVE}
    return inherited | {name: value for name, value in added.items() if name not in explicit}
