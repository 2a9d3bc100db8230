"""Shared by the commands: run a command, open the journal, print JSON, notes and errors."""

from __future__ import annotations

import asyncio
import functools
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, ParamSpec

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
from dragoman.journal.protocols import Journal
from dragoman.journal.sqlite import MemoryJournal, SqliteJournal

if TYPE_CHECKING:
    from rich.console import Console

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
    """Style the text, where stdout has colours."""
    return click.style(text, **look) if text and has_colours() else text  # type: ignore[arg-type]  # as click names them


def has_colours() -> bool:
    return os.isatty(STDOUT) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def width() -> int:
    """Columns of the terminal that stdout is; practically unlimited where it is none."""
    return terminal_width(STDOUT) or UNLIMITED_WIDTH


class Table:
    """A table for stdout, by rich: aligned columns, as wide as the terminal at most. In a pipe nothing is truncated.

    Cells are text of any origin: nothing in them acts on the terminal.
    """

    def __init__(self) -> None:
        from rich.table import Table as RichTable

        self._table = RichTable(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")

    def add_column(self, heading: str, *, right: bool = False, shrinks: bool = False) -> None:
        """`shrinks`: the column gives way where the terminal is too narrow, and its cells end in an ellipsis."""
        self._table.add_column(heading, justify="right" if right else "left", no_wrap=not shrinks)

    def add_row(self, *cells: str, style: str | None = None, styles: Mapping[int, str] | None = None) -> None:
        """`style` is that of the row, `styles` are those of single cells, by their position."""
        from rich.text import Text

        looks = styles or {}
        texts = [
            Text(" ".join(plain(cell).split("\n")), style=looks.get(position, ""), no_wrap=True, overflow="ellipsis")
            for position, cell in enumerate(cells)
        ]
        self._table.add_row(*texts, style=style)

    def columns(self) -> int:
        """The width that it takes where nothing is truncated."""
        from rich.measure import Measurement

        console = _console(UNLIMITED_WIDTH)
        return Measurement.get(console, console.options, self._table).maximum

    def print(self) -> None:
        console = _console(width())
        if self.columns() > width():
            self._table.padding = (0, 1, 0, 0)
        with console.capture() as capture:
            console.print(self._table)
        for line in capture.get().splitlines():
            click.echo(line.rstrip())


def _console(columns: int) -> Console:
    from rich.console import Console

    return Console(
        file=sys.stdout,
        width=columns,
        force_terminal=has_colours(),
        color_system="standard" if has_colours() else None,
        highlight=False,
        markup=False,
    )


def when(time: float) -> str:
    return datetime.fromtimestamp(time).astimezone().strftime("%Y-%m-%d %H:%M")


def how_long_ago(time: float, now: float) -> str:
    """A time as people say it: "5 min ago"; the day, where it was more than a week ago."""
    seconds = max(0.0, now - time)
    if seconds < 60:
        return "just now"
    for unit, length, limit in (("min", 60, 60), ("h", 3600, 24), ("d", 86_400, 8)):
        if seconds < length * limit:
            return f"{int(seconds // length)} {unit} ago"
    return datetime.fromtimestamp(time).astimezone().strftime("%Y-%m-%d")


def count(number: int, noun: str) -> str:
    """A number with its noun: "1 session", "2 sessions"."""
    return f"{number:,} {noun}{'s' * (number != 1)}"


def folder(path: str) -> str:
    """The path of a folder or file as people write it, on one line."""
    home = os.path.expanduser("~")
    written = "~" + path.removeprefix(home) if path == home or path.startswith(f"{home}/") else path
    return plain(written).replace("\n", "\\n")


def end_of(text: str, room: int) -> str:
    """The end of the text, in so many columns: the end of a path tells it from others."""
    return text if columns(text) <= room else ELLIPSIS + cut(text[::-1], room).removesuffix(ELLIPSIS)[::-1]


def print_lines(*lines: str) -> None:
    """Print lines on stdout; on a terminal, long ones are broken between words."""
    click.echo(exits.lay_out(lines, terminal_width(STDOUT)), nl=False)


def note(*lines: str) -> None:
    """Write lines about the output to stderr, out of the way of a program that reads stdout."""
    sys.stdout.flush()
    sys.stderr.write(exits.lay_out(lines, terminal_width(STDERR)))
