"""What the commands on the journal share: how they open it, how they end, and how their tables look."""

from __future__ import annotations

import asyncio
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
from dragoman.journal.memory import MemoryJournal
from dragoman.journal.place import journal_path, open_journal
from dragoman.journal.sqlite import SqliteJournal
from dragoman.journal.store import Journal
from dragoman.journal.upkeep import rebuild

P = ParamSpec("P")

NOT_REPORTED: Final = "—"

# Where nobody says how wide the terminal is, nothing is cut: whoever reads a pipe can do that.
UNCUT: Final = 100_000


def told(command: Callable[P, Awaitable[int | None]]) -> Callable[P, int]:
    """Its exit code; errors become messages."""

    async def run(*args: P.args, **kwargs: P.kwargs) -> int:
        return await command(*args, **kwargs) or exits.DONE

    def tell(*args: P.args, **kwargs: P.kwargs) -> int:
        try:
            return asyncio.run(run(*args, **kwargs))
        except OutputLost as lost:
            if not lost.closed:
                sys.stderr.write(f"dragoman: the output cannot be written: {lost}\n")
            return exits.PIPE_CLOSED if lost.closed else exits.AGENT_FAILED
        except DragomanError as error:
            return failed(error)

    return tell


def failed(error: DragomanError) -> int:
    """Says what went wrong; its exit code."""
    sys.stdout.flush()
    sys.stderr.write(exits.message_of(error, width=terminal_width()))
    return exits.code_of_error(error, opened=True)


def where() -> Path:
    """The file of the journal, whether or not it is there."""
    return journal_path(load().home)


@asynccontextmanager
async def reading() -> AsyncIterator[Journal]:
    """The journal, its rows up to date. Where there is none, none is made: it then reads as an empty one."""
    if not where().exists():
        async with MemoryJournal() as empty:
            yield empty
        return
    async with existing() as journal:
        stale = await journal.stale()
        with Progress("bringing sessions up to date", len(stale)) as progress:
            for session_id in progress.each(stale):
                await rebuild(journal, [session_id])
        yield journal


@asynccontextmanager
async def existing() -> AsyncIterator[SqliteJournal]:
    """The journal as it is. There has to be one."""
    if not where().exists():
        raise InputError(f"there is no journal yet: {where()}", guidance='Make one: dragoman run "hello"')
    async with await open_journal(where().parent) as journal:
        yield journal


# -- what is shown


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
    return terminal_width(STDOUT) or UNCUT


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
