"""Standard input: the prompt of a command line with what is piped into it, and lines typed on a terminal."""

from __future__ import annotations

import asyncio
import os
import select
import stat
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from dragoman.cli.figures import size
from dragoman.cli.output import STDIN
from dragoman.errors import InputError
from dragoman.session.prompt import FileAttachment, ImageAttachment, Part, TextAttachment

# Far more than any model reads, and far less than the line limits of agents.
MAX_STDIN_BYTES = 8_000_000

# Seconds before we tell what we wait for: the program that started us may have left its pipe open.
PATIENCE_S = 2.0
EXAMPLE = 'For example: dragoman run "Explain this project", or: dragoman run < task.md'


def prompt_parts(
    words: Sequence[str], *, files: Sequence[Path] = (), images: Sequence[Path] = (), fd: int = STDIN
) -> tuple[Part, ...]:
    """The prompt from the words, or from stdin (`-`, or no words); otherwise piped input is attached."""
    text = " ".join(words)
    if text.strip() in ("", "-"):
        if not text.strip() and os.isatty(fd):
            raise InputError("there is no prompt", guidance=EXAMPLE)
        text, piped = read_text(fd), ""
        if not text.strip():
            raise InputError("the prompt is empty: standard input has no text", guidance=EXAMPLE)
    else:
        piped = read_text(fd) if _is_piped(fd) else ""
    attached = (TextAttachment("stdin", piped),) if piped.strip() else ()
    return (text, *attached, *(FileAttachment(path) for path in files), *(ImageAttachment(path) for path in images))


def read_text(fd: int) -> str:
    """Read all of a stream as text; InputError where it is not."""
    try:
        return b"".join(_pieces(fd)).decode("utf-8")
    except OSError as error:
        raise InputError(f"standard input cannot be read: {error.strerror}", guidance=EXAMPLE) from None
    except UnicodeDecodeError as error:
        raise InputError(
            f"standard input is not UTF-8 text ({error.reason} at byte {error.start})",
            guidance="Give the agent the file's path, or attach a picture with --image.",
        ) from None


def _pieces(fd: int) -> Iterator[bytes]:
    _say_when_waiting(fd)
    length = 0
    while piece := os.read(fd, 1 << 16):
        length += len(piece)
        if length > MAX_STDIN_BYTES:
            raise InputError(
                f"standard input is longer than {size(MAX_STDIN_BYTES)}",
                guidance="Save it to a file in the workspace and name that file in the prompt.",
            )
        yield piece


def _say_when_waiting(fd: int) -> None:
    if not os.isatty(fd) and not select.select([fd], [], [], PATIENCE_S)[0]:
        note = "dragoman: reading standard input until its end (with nothing to attach, add: < /dev/null)\n"
        sys.stderr.write(note)
        sys.stderr.flush()


def _is_piped(fd: int) -> bool:
    try:
        mode = os.fstat(fd).st_mode
    except OSError:  # closed
        return False
    # Not devices: /dev/null is empty, and other terminals are not ours to read.
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode) or stat.S_ISSOCK(mode)


async def read_line(fd: int) -> str | None:
    """Read the next line without blocking the event loop; None at the end of input."""
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
    """Discard input that was typed before the question was seen: it must not answer it."""
    import termios

    try:
        termios.tcflush(fd, termios.TCIFLUSH)
    except termios.error:  # no terminal after all
        pass


def chosen_index(line: str, count: int) -> int | None:
    """The index that a typed number names; None for any other line."""
    text = line.strip().rstrip(".)")
    return int(text) - 1 if text.isascii() and text.isdecimal() and 1 <= int(text) <= count else None
