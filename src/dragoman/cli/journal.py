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
from dragoman.cli.command import async_command, count, is_open_elsewhere, journal_file, note, open_existing, open_output
from dragoman.cli.progress import Progress
from dragoman.cli.text import plain, size
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
The journal holds every frame to and from every agent. See docs/journal.md."""
PATH_EPILOG = """\b
Examples:
  dragoman journal path
  sqlite3 "$(dragoman journal path)" 'SELECT kind, frame FROM frames LIMIT 5'"""
VERIFY_EPILOG = """\b
Examples:
  dragoman journal verify && echo consistent

The exit code is 1 if it is not consistent."""
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

Dragoman's own notes in a file (decisions, prompts) count only with --trust.
Sessions that exist here, or were deleted here, are skipped."""
VACUUM_EPILOG = """\b
Examples:
  dragoman journal compress && dragoman journal vacuum"""
COMPRESS_EPILOG = """\b
Examples:
  dragoman journal compress
  dragoman journal compress 3f9a1c 07be52

Frames stay the same, byte for byte. To free the space, run
`dragoman journal vacuum`."""


@click.group(epilog=EPILOG, short_help="Verify, rebuild, export, import or compress the journal.")
def journal() -> None:
    """Verify, rebuild, export, import or compress the journal of all sessions."""


_STDIN: Final = "-"


@journal.command(epilog=PATH_EPILOG, short_help="Print the path of the journal.")
@async_command
async def path() -> None:
    """Print the path of the journal, which need not exist."""
    click.echo(str(journal_file()))


@journal.command(epilog=VERIFY_EPILOG, short_help="Check the file and its rows.")
@async_command
async def verify() -> int:
    """Check the file, and that every row follows from the frames."""
    async with open_existing() as journal:
        problems = list(await journal.check())
        ids = await journal.session_ids()
        with Progress("checking", len(ids), unit="sessions") as progress:
            for session_id in progress.each(ids):
                problems += await maintenance.verify_session(journal, session_id)
        sessions = await journal.sessions()
    for problem in problems:
        click.echo(plain(problem))
    if problems:
        note("`dragoman journal rebuild` repairs rows.")
        return exits.AGENT_FAILED
    frames = sum(session.frames for session in sessions)
    click.echo(f"The journal is consistent: {count(len(sessions), 'session')}, {frames:,} frames.")
    return exits.DONE


@journal.command(epilog=REBUILD_EPILOG, short_help="Rebuild the rows from the frames.")
@click.argument("ids", metavar="[ID]...", nargs=-1)
@async_command
async def rebuild(*, ids: Sequence[str]) -> None:
    """Rebuild the rows of these sessions, or of all, from their frames."""
    async with open_existing() as journal:
        chosen = await _find_ids(journal, ids) if ids else await journal.session_ids()
        with Progress("rebuilding", len(chosen), unit="sessions") as progress:
            for session_id in progress.each(chosen):
                await maintenance.rebuild(journal, [session_id])
        existing = {session.id for session in await journal.sessions()}.intersection(chosen)  # not those deleted
    click.echo(f"Rebuilt the rows of {count(len(existing), 'session')}.")


@journal.command(epilog=EXPORT_EPILOG, short_help="Export the journal as JSON Lines.")
@click.option("-o", "--output", metavar="FILE", help="Output file. [default: stdout]")
@async_command
async def export(*, output: str | None) -> None:
    """Export the journal as JSON Lines; `dragoman sessions export` exports one session."""
    lines = 0
    async with open_existing() as journal:
        with Progress("exporting", unit="lines") as progress, open_output(output) as write:
            async for line in transfer.export(journal):
                write(line)
                lines += 1
                progress.at(lines)
    if output is not None:
        note(f"Wrote {lines:,} lines to {output}.")


@journal.command("import", epilog=IMPORT_EPILOG, short_help="Import exports and recordings.")
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@click.option("-a", "--agent", metavar="AGENT", default="", help="The agent of a recording; an export names its own.")
@click.option("--trust", "trusted", is_flag=True, help="Trust the file: it is your own export.")
@async_command
async def import_(*, files: Sequence[str], agent: str, trusted: bool) -> None:
    """Import exports and recordings; `-` is standard input."""
    sessions: list[str] = []
    skipped: list[tuple[str, str]] = []
    frames = 0
    for name in files:
        with _lines(name):  # so that nothing is imported when one of them cannot be read
            pass
    async with await open_journal(journal_file().parent) as journal:
        for name in files:
            with _lines(name) as lines:
                try:
                    done = await import_lines(
                        journal, lines, new_id=lambda: uuid.uuid4().hex[:12], agent=agent, trusted=trusted
                    )
                except InputError as error:
                    raise InputError(f"{name}: {error.message}", guidance=error.guidance) from None
            sessions += done.sessions
            skipped += done.left_out
            frames += done.frames
        with Progress("building rows of", len(sessions), unit="sessions") as progress:
            for session_id in progress.each(sessions):
                await maintenance.rebuild(journal, [session_id])
    counted = f"{count(len(sessions), 'session')}, {count(frames, 'frame')}"
    click.echo(f"Imported {counted}." if sessions else "Nothing new was imported.")
    for session_id, reason in skipped:
        note(f"Skipped {session_id}: {reason}.")


@contextmanager
def _lines(name: str) -> Iterator[Iterable[bytes]]:
    if name == _STDIN:
        yield _with_progress(sys.stdin.buffer, "standard input", 0)
        return
    try:
        with open(name, "rb") as file:
            yield _with_progress(file, Path(name).name, os.fstat(file.fileno()).st_size)
    except OSError as error:
        raise InputError(f"{name} cannot be read: {error.strerror}") from None


def _with_progress(file: BinaryIO, name: str, length: int) -> Iterator[bytes]:
    done = 0
    with Progress(f"importing {name}", length // 1000, unit="kB") as progress:
        for line in file:
            yield line
            done += len(line)
            progress.at(done // 1000)


@journal.command(epilog=VACUUM_EPILOG, short_help="Free unused space on disk.")
@async_command
async def vacuum() -> None:
    """Free unused space on disk."""
    async with open_existing() as journal:
        before = _size_bytes(journal.path)
        await journal.vacuum()
    after = _size_bytes(journal.path)
    freed = f"{size(before - after)} freed" if after < before else "nothing to free"
    click.echo(f"The journal takes {size(after)}: {freed}.")


@journal.command(epilog=COMPRESS_EPILOG, short_help="Compress sessions that are not in use.")
@click.argument("ids", metavar="[ID]...", nargs=-1)
@async_command
async def compress(*, ids: Sequence[str]) -> None:
    """Compress these sessions, or all that no process has open."""
    async with open_existing() as journal:
        chosen = await _find_ids(journal, ids) if ids else [session.id for session in await journal.sessions()]
        unused = [session_id for session_id in chosen if not await is_open_elsewhere(journal, session_id)]
        with Progress("compressing", len(unused), unit="sessions") as progress:
            for session_id in progress.each(unused):
                await journal.compress(session_id)
    click.echo(f"Compressed {count(len(unused), 'session')}.")
    if len(unused) < len(chosen):
        note(f"Skipped {count(len(chosen) - len(unused), 'session')}: open in a process.")
    if unused:
        note("`dragoman journal vacuum` frees the space on disk.")


async def _find_ids(journal: SqliteJournal, ids: Sequence[str]) -> list[str]:
    every = await journal.sessions()
    return list(dict.fromkeys(find_session(every, session_id).id for session_id in ids))


def _size_bytes(path: Path) -> int:
    """Bytes of the file and its write-ahead log."""
    files = (path.with_name(path.name + suffix) for suffix in ("", "-wal"))
    return sum(file.stat().st_size for file in files if file.exists())
