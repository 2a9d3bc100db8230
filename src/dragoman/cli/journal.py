"""`dragoman journal`: verify, rebuild, export, import, compress and vacuum the journal."""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

import click

from dragoman.cli import exits
from dragoman.cli.command import async_command, count, journal_file, note, open_existing
from dragoman.cli.figures import size
from dragoman.cli.progress import Progress
from dragoman.cli.session_filter import is_held
from dragoman.cli.sessions.export import writing
from dragoman.cli.text import plain
from dragoman.errors import InputError
from dragoman.journal import maintenance, open_journal, transfer
from dragoman.journal.sessions import find_session
from dragoman.journal.sqlite import SqliteJournal
from dragoman.journal.transfer import import_lines

EPILOG = """\b
Examples:
  dragoman journal path
  dragoman journal verify
  dragoman journal export -o backup.jsonl
  dragoman journal import recording.jsonl --agent claude

\b
Every frame to and from every agent is in it; docs/journal.md describes it."""
PATH_EPILOG = """\b
Examples:
  dragoman journal path
  sqlite3 "$(dragoman journal path)" 'SELECT kind, frame FROM frames LIMIT 5'"""
VERIFY_EPILOG = """\b
Examples:
  dragoman journal verify && echo all is well

The exit code is 1 where something is wrong."""
REBUILD_EPILOG = """\b
Examples:
  dragoman journal rebuild
  dragoman journal rebuild 3f9a1c"""
EXPORT_EPILOG = """\b
Examples:
  dragoman journal export -o backup.jsonl
  dragoman journal export | gzip > backup.jsonl.gz"""
IMPORT_EPILOG = """\b
Examples:
  dragoman journal import backup.jsonl --trust
  dragoman journal import recording.jsonl --agent claude
  zcat backup.jsonl.gz | dragoman journal import -

What a file claims that Dragoman itself noted is believed with --trust alone.
A session that is here already, or was deleted here, is left as it is."""
VACUUM_EPILOG = """\b
Examples:
  dragoman journal compress && dragoman journal vacuum"""
COMPRESS_EPILOG = """\b
Examples:
  dragoman journal compress
  dragoman journal compress 3f9a1c 07be52

Frames read as before, byte by byte. The room is given back by vacuum."""


@click.group(epilog=EPILOG, short_help="Look after the journal: verify, rebuild, export, import, vacuum.")
def journal() -> None:
    """Look after the journal, in which all is kept that is said."""


_STDIN: Final = "-"


@journal.command(epilog=PATH_EPILOG, short_help="Where it is.")
@async_command
async def path() -> None:
    """Print the path of the journal's file, whether or not it is there yet."""
    click.echo(str(journal_file()))


@journal.command(epilog=VERIFY_EPILOG, short_help="Check it: the file, and that all rows are what frames say.")
@async_command
async def verify() -> int:
    """Check the file, and that every row is what the frames say."""
    async with open_existing() as journal:
        problems = list(await journal.check())
        ids = await journal.session_ids()
        with Progress("checking", len(ids), unit="sessions") as progress:
            for session_id in progress.each(ids):
                problems += await maintenance.verify_session(journal, session_id)
        kept = await journal.sessions()
    for problem in problems:
        click.echo(plain(problem))
    if problems:
        note("What is wrong with rows is mended by `dragoman journal rebuild`.")
        return exits.AGENT_FAILED
    click.echo(f"All is well: {count(len(kept), 'session')}, {sum(one.frames for one in kept):,} frames.")
    return exits.DONE


@journal.command(epilog=REBUILD_EPILOG, short_help="Make the rows anew from the frames.")
@click.argument("ids", metavar="[ID]...", nargs=-1)
@async_command
async def rebuild(*, ids: Sequence[str]) -> None:
    """Make the rows of these sessions, or of all, anew from their frames."""
    async with open_existing() as journal:
        chosen = await _chosen(journal, ids) if ids else await journal.session_ids()
        with Progress("rebuilding", len(chosen), unit="sessions") as progress:
            for session_id in progress.each(chosen):
                await maintenance.rebuild(journal, [session_id])
    click.echo(f"Made the rows of {count(len(chosen), 'session')} anew.")


@journal.command(epilog=EXPORT_EPILOG, short_help="All of it as JSON Lines.")
@click.option("-o", "--output", metavar="FILE", help="Where to. [default: stdout]")
@async_command
async def export(*, output: str | None) -> None:
    """Write all of it as JSON Lines; `dragoman sessions export` writes one session."""
    count = 0
    async with open_existing() as journal:
        with Progress("exporting", unit="lines") as progress, writing(output) as write:
            async for line in transfer.export(journal):
                write(line)
                count += 1
                progress.at(count)
    if output is not None:
        note(f"{count:,} lines are in {output}.")


@journal.command("import", epilog=IMPORT_EPILOG, short_help="Take in exports and recordings.")
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@click.option("-a", "--agent", metavar="AGENT", default="", help="Whose recording it is; an export says so itself.")
@click.option("--trust", "trusted", is_flag=True, help="It is an export of your own: believe all of it.")
@async_command
async def import_(*, files: Sequence[str], agent: str, trusted: bool) -> None:
    """Take in exports and recordings; `-` is standard input."""
    sessions: list[str] = []
    left_out: list[tuple[str, str]] = []
    frames = 0
    for name in files:
        with _lines(name):  # whatever cannot be read is found before anything is taken in
            pass
    async with await open_journal(journal_file().parent) as journal:
        for name in files:
            with _lines(name) as lines:
                try:
                    done = await import_lines(
                        journal, lines, new_id=lambda: uuid.uuid4().hex[:12], agent=agent, trusted=trusted
                    )
                except InputError as problem:
                    raise InputError(f"{name}: {problem.message}", guidance=problem.guidance) from None
            sessions += done.sessions
            left_out += done.left_out
            frames += done.frames
        with Progress("making rows of", len(sessions), unit="sessions") as progress:
            for session_id in progress.each(sessions):
                await maintenance.rebuild(journal, [session_id])
    click.echo(f"Imported {count(len(sessions), 'session')} of {frames:,} frames.")
    for session_id, reason in left_out:
        note(f"Left out {session_id}: {reason}.")


@contextmanager
def _lines(name: str) -> Iterator[Iterable[bytes]]:
    if name == _STDIN:
        yield _counted(sys.stdin.buffer, "standard input", 0)
        return
    try:
        with open(name, "rb") as file:
            yield _counted(file, Path(name).name, os.fstat(file.fileno()).st_size)
    except OSError as problem:
        raise InputError(f"{name} cannot be read: {problem.strerror}") from None


def _counted(file: BinaryIO, name: str, length: int) -> Iterator[bytes]:
    done = 0
    with Progress(f"importing {name}", length // 1000, unit="kB") as progress:
        for line in file:
            yield line
            done += len(line)
            progress.at(done // 1000)


@journal.command(epilog=VACUUM_EPILOG, short_help="Give back room that is not used.")
@async_command
async def vacuum() -> None:
    """Give back to the disk what is not used any more."""
    async with open_existing() as journal:
        before = _room(journal.path)
        await journal.vacuum()
    after = _room(journal.path)
    given = f"{size(before - after)} given back" if after < before else "there was nothing to give back"
    click.echo(f"The journal takes {size(after)}: {given}.")


@journal.command(epilog=COMPRESS_EPILOG, short_help="Store sessions that are at rest smaller.")
@click.argument("ids", metavar="[ID]...", nargs=-1)
@async_command
async def compress(*, ids: Sequence[str]) -> None:
    """Store these sessions, or all that no process has open, smaller."""
    async with open_existing() as journal:
        wanted = await _chosen(journal, ids) if ids else [one.id for one in await journal.sessions()]
        resting = [session_id for session_id in wanted if not await is_held(journal, session_id)]
        with Progress("compressing", len(resting), unit="sessions") as progress:
            for session_id in progress.each(resting):
                await journal.compress(session_id)
    click.echo(f"Compressed {count(len(resting), 'session')}.")
    if len(resting) < len(wanted):
        note(f"Left {count(len(wanted) - len(resting), 'session')} as they are: a process has them open.")
    if resting:
        note("`dragoman journal vacuum` gives the room back to the disk.")


async def _chosen(journal: SqliteJournal, ids: Sequence[str]) -> list[str]:
    every = await journal.sessions()
    return list(dict.fromkeys(find_session(every, wanted).id for wanted in ids))


def _room(path: Path) -> int:
    """What the file takes, with its log."""
    files = (path.with_name(path.name + suffix) for suffix in ("", "-wal"))
    return sum(file.stat().st_size for file in files if file.exists())
