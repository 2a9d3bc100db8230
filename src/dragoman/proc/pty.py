"""A pseudo-terminal, and a command started in it: `Pty` and `spawn_in`.

`Pty` owns both ends: the master, on the event loop, until `close`, and the slave until the command has opened it. No
other process inherits them. The command has it as its controlling terminal: it can open `/dev/tty`, is notified of a
new size, and is interrupted by a ^C that is written to the master.

The command leads a session of its own. A short shell script starts it, because Python code between fork and exec
(`preexec_fn`) can deadlock in a process with threads, and a Python launcher would cost its start-up time.
"""

from __future__ import annotations

import asyncio
import os
import termios
from collections.abc import Mapping, Sequence
from pathlib import Path

from dragoman.proc.pipes import PipeReader, PipeWriter
from dragoman.proc.process import ProcessLink
from dragoman.proc.spawn import spawn

DEFAULT_COLUMNS = 80
DEFAULT_ROWS = 24
"""The traditional size of a terminal, which all programs support."""

MAX_CELLS = 9999
"""The largest number of columns or rows: programs allocate all of them, and the kernel stores 16 bits."""

_LAUNCHER_START = """trap '' HUP; exec "$@" """
"""The start of the launcher, whose name (`$0`) is the terminal's path. Without the trap, the kernel would send SIGHUP
to background processes as soon as the command ends; they must live until Dragoman ends them, as without a terminal."""

_WITHOUT_INPUT = ("/bin/sh", "-c", _LAUNCHER_START + """1<>"$0" 2>&1 </dev/null""")
_WITH_INPUT = ("/bin/sh", "-c", _LAUNCHER_START + """0<>"$0" 1>&0 2>&1""")
"""The two launchers. The first terminal that the leader of a session opens for reading becomes its controlling one."""


class Pty:
    """A pseudo-terminal. As with a pipe, bytes that nobody reads stay in it, and then the command waits."""

    def __init__(self, *, columns: int = DEFAULT_COLUMNS, rows: int = DEFAULT_ROWS) -> None:
        """Open a pseudo-terminal; raise `OSError` where the system has none left."""
        loop = asyncio.get_running_loop()
        master, slave = os.openpty()
        try:
            self.path = os.ttyname(slave)
            write_end = os.dup(master)
        except OSError:
            os.close(master)
            os.close(slave)
            raise
        self._master = master
        self._slave = slave
        self._reader = PipeReader(loop, master)
        self._writer = PipeWriter(loop, write_end)
        self._is_open = True
        self.resize(columns, rows)

    async def read(self) -> bytes:
        """Return the next bytes; `b""` when no process has the terminal open any more, or after `close`."""
        # One read per wake-up: reading on at once was measured to delay the loop far more.
        return await self._reader.read()

    @property
    def is_empty(self) -> bool:
        """True if all that was written so far has been read."""
        return self._reader.is_empty

    def write(self, data: bytes) -> None:
        """Write input for the command. Does nothing after `close`."""
        self._writer.write(data)

    async def drain(self) -> None:
        await self._writer.drain()

    def resize(self, columns: int, rows: int) -> None:
        """Set the size in characters. Does nothing after `close`, nor once all output was read: the reader has closed
        the master then, and its number may be that of another file."""
        if self._is_open and not self._reader.is_closed:
            termios.tcsetwinsize(self._master, (_clamp_cells(rows), _clamp_cells(columns)))

    def close_slave(self) -> None:
        """Close the slave, once the command has opened it; then the end of the command ends `read`."""
        if self._slave >= 0:
            os.close(self._slave)
            self._slave = -1

    def close(self) -> None:
        """Close both ends. Bytes that were written before can still be read."""
        self._is_open = False
        self.close_slave()
        self._writer.abandon()
        self._reader.finish()

    def __del__(self) -> None:
        # The loop was closed first: release at least the descriptors.
        if getattr(self, "_is_open", False):
            self.close()


async def spawn_in(
    pty: Pty, command: Sequence[str], *, cwd: Path | None, env: Mapping[str, str], name: str, has_input: bool = False
) -> ProcessLink:
    """Start `command` in `pty`, as `spawn` does. With `has_input` it reads from the terminal, else from /dev/null.

    The link is for the process alone. The end of its `read()` means that the launcher has become the command (call
    `pty.close_slave()` then), and its `stderr` has the errors of the launcher.
    """
    link = await spawn(
        [*(_WITH_INPUT if has_input else _WITHOUT_INPUT), pty.path, *command], cwd=cwd, env=env, name=name
    )
    link.close()
    return link


def _clamp_cells(cells: int) -> int:
    return max(1, min(cells, MAX_CELLS))
