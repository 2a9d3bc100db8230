"""A pseudo-terminal, and a command started in it: `Pty` and `spawn_in`.

`Pty` owns both ends: ours (the master) on the event loop until `close`, and the command's (the slave) until the command
has it. Neither is inherited by any other process. A command that is started in it has it as its controlling terminal:
it finds it as `/dev/tty`, hears of a new size, and is interrupted by a ^C that is written to it.

The command is a session of its own, led by a launcher that becomes it: a few words of shell, for Python code between
fork and exec (`preexec_fn`) can deadlock in a process with threads, and a Python launcher would cost its start-up.
"""

from __future__ import annotations

import asyncio
import os
import termios
from collections.abc import Mapping, Sequence
from pathlib import Path

from dragoman.proc.pipes import PulledEnd, PushedEnd
from dragoman.proc.process import ProcessLink
from dragoman.proc.spawn import spawn

COLUMNS = 80
ROWS = 24
"""What a terminal has had since there were any: programs are at ease with it."""

MOST_CELLS = 9999
"""Of a size, in either direction: programs make room for all of them, and the kernel keeps 16 bits."""

_PREPARE = """trap '' HUP; exec "$@" """
"""Begins the launcher, whose name (`$0`) is the terminal's path. The kernel would hang up on what the command leaves in
the background as soon as the command itself has ended; it is to live until we end it, as it does without a terminal."""

_DEAF = ("/bin/sh", "-c", _PREPARE + """1<>"$0" 2>&1 </dev/null""")
_TYPED_TO = ("/bin/sh", "-c", _PREPARE + """0<>"$0" 1>&0 2>&1""")
"""How it goes on. The first terminal that the leader of a session opens, to read as well, is its controlling one."""


class Pty:
    """Reading is as with a pipe: what is not asked for waits, and then the command does."""

    def __init__(self, *, columns: int = COLUMNS, rows: int = ROWS) -> None:
        """OSError where the system has none to give."""
        loop = asyncio.get_running_loop()
        master, slave = os.openpty()
        try:
            self.path = os.ttyname(slave)
            writing = os.dup(master)
        except OSError:
            os.close(master)
            os.close(slave)
            raise
        self._master = master
        self._slave = slave
        self._reading = PulledEnd(loop, master)
        self._writing = PushedEnd(loop, writing)
        self._open = True
        self.resize(columns, rows)

    async def read(self) -> bytes:
        """The next bytes; `b""` when nobody has the terminal open any more, or after `close`."""
        # Once for each time that there is something: looking for more at once was measured to delay the loop by far.
        return await self._reading.read()

    @property
    def dry(self) -> bool:
        """Whether all that was written until now has been read."""
        return self._reading.dry

    def write(self, data: bytes) -> None:
        """Type it. Does nothing after `close`."""
        self._writing.write(data)

    async def drain(self) -> None:
        await self._writing.drain()

    def resize(self, columns: int, rows: int) -> None:
        """Does nothing after `close`."""
        if self._open:
            termios.tcsetwinsize(self._master, (_cells(rows), _cells(columns)))

    def taken(self) -> None:
        """The command has it now: from here on, its end is the end of what can be read."""
        if self._slave >= 0:
            os.close(self._slave)
            self._slave = -1

    def close(self) -> None:
        """What was written before can still be read."""
        self._open = False
        self.taken()
        self._writing.abandon()
        self._reading.finish()

    def __del__(self) -> None:
        # Its loop was torn down around it: the descriptors at least are given back.
        if getattr(self, "_open", False):
            self.close()


async def spawn_in(
    pty: Pty, command: Sequence[str], *, cwd: Path | None, env: Mapping[str, str], name: str, typed_to: bool = False
) -> ProcessLink:
    """Start `command` in `pty`, as `spawn` does. It reads from the terminal if it is `typed_to`, else from /dev/null.

    The link is for the process alone: the end of its `read()` tells that the launcher has become the command (then
    `pty.taken()` is to be called), and its `stderr` has what the launcher had to complain of.
    """
    link = await spawn([*(_TYPED_TO if typed_to else _DEAF), pty.path, *command], cwd=cwd, env=env, name=name)
    link.close()
    return link


def _cells(number: int) -> int:
    return max(1, min(number, MOST_CELLS))
