"""Shared by the commands: run a command, open the journal, print JSON, notes and errors."""

from __future__ import annotations

import asyncio
import functools
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Final, ParamSpec

import click
import msgspec

from dragoman.cli import exits
from dragoman.cli.output import STDERR, STDOUT, OutputLost, terminal_width
from dragoman.cli.progress import Progress
from dragoman.cli.text import ELLIPSIS, columns, cut, inert_json, plain
from dragoman.config import load
from dragoman.errors import DragomanError, InputError
from dragoman.journal import journal_path, open_journal
from dragoman.journal.maintenance import rebuild
from dragoman.journal.memory import MemoryJournal
from dragoman.journal.protocols import Journal
from dragoman.journal.sqlite import SqliteJournal

P = ParamSpec("P")

NOT_REPORTED: Final = "—"

# Columns where stdout is no terminal: nothing is truncated, the reader of a pipe can do that.
UNLIMITED_WIDTH: Final = 100_000


def sync_command(func: Callable[P, int | None]) -> Callable[P, int]:
    """Run `func` and return its exit code; print a DragomanError as a message."""

    @functools.wraps(func)
    def command(*args: P.args, **kwargs: P.kwargs) -> int:
        try:
            return func(*args, **kwargs) or exits.DONE
        except OutputLost as lost:
            if not lost.closed:
                sys.stderr.write(f"dragoman: the output cannot be written: {lost}\n")
            return exits.PIPE_CLOSED if lost.closed else exits.AGENT_FAILED
        except DragomanError as error:
            return print_error(error)

    return command


def async_command(func: Callable[P, Awaitable[int | None]]) -> Callable[P, int]:
    """Run `func` in an event loop and return its exit code; print a DragomanError as a message."""

    @sync_command
    @functools.wraps(func)
    def command(*args: P.args, **kwargs: P.kwargs) -> int | None:
        async def run() -> int | None:
            return await func(*args, **kwargs)

        return asyncio.run(run())

    return command


def print_error(error: DragomanError, *, opened: bool = True, verbose: bool = False) -> int:
    """Print the error on stderr and return its exit code. `opened`: a session had been opened by then."""
    sys.stdout.flush()
    sys.stderr.write(exits.message_of(error, verbose=verbose, width=terminal_width()))
    return exits.code_of_error(error, opened=opened)


def journal_file() -> Path:
    """The path of the journal, which need not exist."""
    return journal_path(load().home)


@asynccontextmanager
async def open_readonly() -> AsyncIterator[Journal]:
    """Open the journal with its rows up to date. Without a journal, an empty one is read and no file is created."""
    if not journal_file().exists():
        async with MemoryJournal() as empty:
            yield empty
        return
    async with open_existing() as journal:
        stale = await journal.stale_sessions()
        with Progress("updating sessions", len(stale)) as progress:
            for session_id in progress.each(stale):
                await rebuild(journal, [session_id])
        yield journal


@asynccontextmanager
async def open_existing() -> AsyncIterator[SqliteJournal]:
    """Open the journal as it is; InputError where there is none."""
    if not journal_file().exists():
        raise InputError(f"there is no journal yet: {journal_file()}", guidance='Create one: dragoman run "hello"')
    async with await open_journal(journal_file().parent) as journal:
        yield journal


# -- printing


def print_json(content: object) -> None:
    data = msgspec.json.format(msgspec.json.encode(content), indent=2)
    click.echo((inert_json(data) if os.isatty(STDOUT) else data).decode())


def styled(text: str, **look: bool | str) -> str:
    """In colours, where stdout has any."""
    return click.style(text, **look) if text and has_colours() else text  # type: ignore[arg-type]  # as click names them


def has_colours() -> bool:
    return os.isatty(STDOUT) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def width() -> int:
    """Columns of the terminal that stdout is."""
    return terminal_width(STDOUT) or UNLIMITED_WIDTH


def when(time: float) -> str:
    return datetime.fromtimestamp(time).astimezone().strftime("%Y-%m-%d %H:%M")


def folder(path: str) -> str:
    """A folder, or a file, as people write it, on one line."""
    home = os.path.expanduser("~")
    written = "~" + path.removeprefix(home) if path == home or path.startswith(f"{home}/") else path
    return plain(written).replace("\n", "\\n")


def padded(text: str, room: int, *, right: bool = False) -> str:
    """In a column of a table; scripts differ in how wide their characters are."""
    gap = " " * (room - columns(text))
    return gap + text if right else text + gap


def ending(text: str, room: int) -> str:
    """The end of a line that fits into so many columns: of a path that is what tells it from others."""
    return text if columns(text) <= room else ELLIPSIS + cut(text[::-1], room).removesuffix(ELLIPSIS)[::-1]


def widest(texts: Sequence[str]) -> int:
    return max(map(columns, texts), default=0)


def note(*lines: str) -> None:
    """What we have to say about what stdout has. Not in the way of a program that reads it."""
    sys.stdout.flush()
    sys.stderr.write(exits.laid_out(lines, terminal_width(STDERR)))
