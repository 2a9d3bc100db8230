"""Shared by the commands: run a command, open the journal or an output file, print tables, JSON, notes and errors."""

from __future__ import annotations

import asyncio
import functools
import os
import select
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, ParamSpec, TypeAlias

import click
import msgspec

from dragoman.cli import exits
from dragoman.cli.output import STDERR, STDIN, STDOUT, OutputLost, terminal_width
from dragoman.cli.progress import Progress
from dragoman.cli.text import ELLIPSIS, columns, inert_json, plain, truncate
from dragoman.config import Config, home_folder, load
from dragoman.errors import ConfigError, DragomanError, InputError
from dragoman.fileio import replacing
from dragoman.hub.identity import is_alive
from dragoman.journal import journal_path, open_journal
from dragoman.journal.maintenance import rebuild
from dragoman.journal.protocols import Journal
from dragoman.journal.rows import Session
from dragoman.journal.sqlite import MemoryJournal, SqliteJournal
from dragoman.translate.ingest.report import is_at_work

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


# -- settings


def usable_settings() -> Config:
    """Read the settings for a command that works without them: an invalid one is reported on stderr and left out."""
    errors: dict[str, ConfigError] = {}
    settings = load(on_error=lambda error: errors.setdefault(str(error), error))
    for error in errors.values():
        print_error(error)
    return settings


# -- the journal and its sessions


def journal_file() -> Path:
    """Return the path of the journal, which need not exist. No setting is read: a bad one hides no session."""
    return journal_path(home_folder())


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


# The words of the page (`STATE_LABELS`), where it has no connection to tell of.
State: TypeAlias = Literal["running", "needs you", "failed", "interrupted", "idle"]


async def state_of(journal: Journal, session: Session) -> State:
    match session.status:
        case "interrupted":
            return "interrupted"
        case "error":
            return "failed"
        case "running":
            return await _state_of_running(journal, session)
        case "success" | "cancelled" | None:
            return "idle"


async def _state_of_running(journal: Journal, session: Session) -> State:
    owner = await journal.owner(session.id)
    if session.imported and (owner is None or owner.process is None):
        # A transcript that was left in the middle of a run never records its end.
        return "running" if is_at_work(session, time.time()) else "idle"
    if not await is_open_elsewhere(journal, session.id):
        return "interrupted"
    rows = await journal.rows(session.id)
    is_pending = any(row.outcome == "pending" for row in rows.permissions) or any(
        row.action == "pending" for row in rows.questions
    )
    return "needs you" if is_pending else "running"


async def is_open_elsewhere(journal: Journal, session_id: str) -> bool:
    """Test whether a living process has the session open."""
    owner = await journal.owner(session_id)
    return owner is not None and owner.process is not None and is_alive(owner.process)


# -- output files


def save_path(text: str, by: str = "--save") -> Path:
    """Check that a file may be written there; `by` names the option, in errors."""
    path = Path(text).expanduser()
    if path.is_dir():
        raise InputError(f"{by}: {path} is a folder", guidance="Name a file in it.")
    if not path.parent.is_dir():
        raise InputError(f"{by}: the folder {path.parent} does not exist")
    if path.exists() and not path.is_file():
        # Replaced by a file it would be gone: /dev/null, /dev/stdout.
        raise InputError(f"{by}: {path} is not a regular file", guidance="Name a file; it is overwritten.")
    return Path(os.path.realpath(path))


@contextmanager
def open_output(output: str | None) -> Iterator[Callable[[bytes], object]]:
    """Open stdout, or a file that is replaced as a whole when all of it is written."""
    if output is None:
        write = sys.stdout.buffer.write
        yield (lambda data: write(inert_json(data))) if os.isatty(STDOUT) else write
        sys.stdout.buffer.flush()
        return
    path = save_path(output, "-o")
    try:
        with replacing(path) as file:
            yield file.write
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}") from None


# -- printing


def print_json(content: object, *, indent: int = 2) -> None:
    """Print JSON, with an `indent` of 0 on one line; on a terminal nothing in it acts."""
    data = msgspec.json.encode(content)
    data = msgspec.json.format(data, indent=indent) if indent else data
    click.echo((inert_json(data) if os.isatty(STDOUT) else data).decode())


def choose(question: str, words: Sequence[str], *, action: str) -> str:
    """Ask the user for one of these words, or its first letter, the last one by default; InputError without a terminal.

    `--yes` does the `action` without asking.
    """
    _require_terminal(action)
    try:
        with _interruptible_lines() as read_line:
            while True:
                click.echo(f"{question}: ", nl=False, err=True)
                answer = read_line().lower() or words[-1]
                for word in words:
                    if answer in (word, word[0]):
                        return word
                letters = [word[0] for word in words]
                click.echo(f"Answer {', '.join(letters[:-1])} or {letters[-1]}.", err=True)
    except (KeyboardInterrupt, EOFError):
        click.echo(err=True)  # ends the line of the question
        raise click.Abort from None


def confirm(question: str, *, action: str, details: Iterable[str] = ()) -> bool:
    """Show the details and ask the user; InputError without a terminal. `--yes` does the `action` without asking."""
    _require_terminal(action)
    for line in details:
        click.echo(line, err=True)
    return choose(f"{question} [y/N]", ("yes", "no"), action=action) == "yes"


def _require_terminal(action: str) -> None:
    if not os.isatty(STDIN):
        raise InputError(
            "there is no terminal to ask for confirmation", guidance=f"Use --yes to {action} without asking."
        )


@contextmanager
def _interruptible_lines() -> Iterator[Callable[[], str]]:
    """Return a function that reads a line from the terminal. Meanwhile, Ctrl-C raises KeyboardInterrupt.

    An event loop would only note a Ctrl-C, and `input` would not notice one that comes just before it reads. A byte in
    a pipe is not missed.
    """
    woken, waker = os.pipe()
    os.set_blocking(waker, False)
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    wakeup = signal.set_wakeup_fd(waker, warn_on_full_buffer=False)

    def read_line() -> str:
        while STDIN not in select.select([STDIN, woken], [], [])[0]:
            os.read(woken, 1)  # of a signal that interrupts nothing
        line = os.read(STDIN, 4096)  # the terminal hands over a line at a time
        if not line:
            raise EOFError
        return line.decode(errors="replace").strip()

    try:
        yield read_line
    finally:
        signal.set_wakeup_fd(wakeup)
        signal.signal(signal.SIGINT, handler)
        os.close(woken)
        os.close(waker)


def styled(text: str, **look: bool | str) -> str:
    """Style the text, where stdout has colours."""
    return click.style(text, **look) if text and has_colours() else text  # type: ignore[arg-type]  # as click names them


def has_colours() -> bool:
    return os.isatty(STDOUT) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def width() -> int:
    """Return the columns of the terminal that stdout is; practically unlimited where it is none."""
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
        """Return the width that it takes where nothing is truncated."""
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


UNKNOWN_TIME: Final = "unknown"


def when(at: float) -> str:
    """Format a time, in seconds since the epoch, as a local day and minute; 0 is an unknown time."""
    if not at:
        return UNKNOWN_TIME
    return datetime.fromtimestamp(at).astimezone().strftime("%Y-%m-%d %H:%M")


def how_long_ago(at: float, now: float) -> str:
    """Format a time as people say it: "5 min ago"; the day, where it was more than a week ago. 0 is an unknown time."""
    if not at:
        return UNKNOWN_TIME
    seconds = max(0.0, now - at)
    if seconds < 60:
        return "just now"
    for unit, length, limit in (("min", 60, 60), ("h", 3600, 24), ("d", 86_400, 8)):
        if seconds < length * limit:
            return f"{int(seconds // length)} {unit} ago"
    return datetime.fromtimestamp(at).astimezone().strftime("%Y-%m-%d")


def count(number: int, noun: str) -> str:
    """Format a number with its noun: "1 session", "2 sessions"."""
    return f"{number:,} {noun}{'s' * (number != 1)}"


def folder(path: str) -> str:
    """Format the path of a folder or file as people write it, on one line."""
    home = os.path.expanduser("~")
    written = "~" + path.removeprefix(home) if path == home or path.startswith(f"{home}/") else path
    return plain(written).replace("\n", "\\n")


def end_of(text: str, room: int) -> str:
    """Return the end of the text, in `room` columns: the end of a path tells it from others."""
    return text if columns(text) <= room else ELLIPSIS + truncate(text[::-1], room).removesuffix(ELLIPSIS)[::-1]


def print_lines(*lines: str) -> None:
    """Print lines on stdout; on a terminal, long ones are broken between words."""
    click.echo(exits.lay_out(lines, terminal_width(STDOUT)), nl=False)


def show_paged(lines: Iterable[str]) -> None:
    """Print lines; on a terminal through the user's pager, which by default stays only if they do not fit on it."""
    pager = _pager() if os.isatty(STDOUT) else []
    if not pager:
        for line in lines:
            click.echo(line)
        return
    sys.stdout.flush()
    text = "".join(f"{line}\n" for line in lines).encode("utf-8", "replace")
    # As git does it: end if everything fits, show colours, leave the text on the screen.
    process = subprocess.Popen(pager, stdin=subprocess.PIPE, env={"LESS": "FRX", "LV": "-c", **os.environ})
    previous = signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the pager's, and it does not end at it
    try:
        process.communicate(text)  # also if the user leaves it early
    finally:
        signal.signal(signal.SIGINT, previous)


def _pager() -> list[str]:
    """Return the command of the pager (`PAGER`, or less); empty where there is none."""
    try:
        command = shlex.split(os.environ.get("PAGER", "less"))
    except ValueError:
        return []
    return command if command and command != ["cat"] and shutil.which(command[0]) is not None else []


def note(*lines: str) -> None:
    """Write lines about the output to stderr, out of the way of a program that reads stdout."""
    sys.stdout.flush()
    sys.stderr.write(exits.lay_out(lines, terminal_width(STDERR)))
