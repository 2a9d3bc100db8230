"""A program that gets the person's own terminal for a while, as a shell would give it.

Promised: it runs in our process group, so that the keys of the terminal (Ctrl-C, Ctrl-Z) reach it; here Ctrl-C means
nothing meanwhile. The terminal is afterwards as it was before, also where the program crashed in the middle of a
picture. What it leaves behind (a browser) is left alone: it is not an agent.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

STDIN: Final = 0

# Seconds between SIGTERM and SIGKILL for a program that we have to end.
GRACE: Final = 1.0


async def run_in_foreground(command: Sequence[str], *, env: Mapping[str, str], cwd: Path | None) -> int:
    """Its exit code, or minus the signal that ended it. Raises `OSError` where it cannot be started."""
    with _terminal_kept(), _keys_left_to_it():
        process = await asyncio.create_subprocess_exec(*command, env=dict(env), cwd=cwd)
        try:
            return await process.wait()
        except asyncio.CancelledError:
            await _end(process)
            raise


async def _end(process: asyncio.subprocess.Process) -> None:
    process.terminate()
    try:
        async with asyncio.timeout(GRACE):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()


@contextmanager
def _terminal_kept() -> Iterator[None]:
    if not os.isatty(STDIN):
        yield
        return
    import termios

    before = termios.tcgetattr(STDIN)
    try:
        yield
    finally:
        termios.tcsetattr(STDIN, termios.TCSADRAIN, before)


@contextmanager
def _keys_left_to_it() -> Iterator[None]:
    """Not by ignoring the signals: the program would inherit that."""
    if threading.current_thread() is not threading.main_thread():  # others are never told of them
        yield
        return
    loop = asyncio.get_running_loop()
    keys = (signal.SIGINT, signal.SIGQUIT)
    before = {key: signal.getsignal(key) for key in keys}
    for key in keys:
        loop.add_signal_handler(key, lambda: None)
    try:
        yield
    finally:
        for key in keys:
            loop.remove_signal_handler(key)
            signal.signal(key, before[key])
