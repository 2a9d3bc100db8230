"""A line that a person types on a terminal, without holding up the loop."""

from __future__ import annotations

import asyncio
import os


async def read_line(fd: int) -> str | None:
    """The next one; None at the end of input."""
    loop = asyncio.get_running_loop()
    typed = bytearray()
    line: asyncio.Future[str | None] = loop.create_future()

    def readable() -> None:
        try:
            data = os.read(fd, 4096)
        except OSError:  # the terminal is gone
            data = b""
        typed.extend(data)
        if not line.done() and (not data or b"\n" in data):
            line.set_result(bytes(typed).partition(b"\n")[0].decode("utf-8", "replace") if typed else None)

    loop.add_reader(fd, readable)
    try:
        return await line
    finally:
        loop.remove_reader(fd)


def forget_typed(fd: int) -> None:
    """What was typed before the question was seen must not answer it."""
    import termios

    try:
        termios.tcflush(fd, termios.TCIFLUSH)
    except termios.error:  # no terminal after all
        pass


def chosen(line: str, count: int) -> int | None:
    """The index that a typed line names; None where it names none."""
    text = line.strip().rstrip(".)")
    return int(text) - 1 if text.isascii() and text.isdecimal() and 1 <= int(text) <= count else None
