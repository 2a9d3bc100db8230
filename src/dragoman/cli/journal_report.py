"""What the commands of `dragoman journal` do."""

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
from dragoman.cli.figures import size
from dragoman.cli.progress import Progress
from dragoman.cli.sessions_export import writing
from dragoman.cli.sessions_find import is_held
from dragoman.cli.stored import existing, note, told, where
from dragoman.cli.text import plain
from dragoman.errors import InputError
from dragoman.journal import upkeep
from dragoman.journal.find import find
from dragoman.journal.place import open_journal
from dragoman.journal.sqlite import SqliteJournal
from dragoman.journal.transfer import export, import_lines

_STDIN: Final = "-"


@told
async def run_path() -> None:
    click.echo(str(where()))


@told
async def run_verify() -> int:
    async with existing() as journal:
        problems = list(await journal.check())
        ids = await journal.session_ids()
        with Progress("checking", len(ids), unit="sessions") as progress:
            for session_id in progress.each(ids):
                problems += await upkeep.verify_session(journal, session_id)
        kept = await journal.sessions()
    for problem in problems:
        click.echo(plain(problem))
    if problems:
        note("What is wrong with rows is mended by `dragoman journal rebuild`.")
        return exits.AGENT_FAILED
    click.echo(f"All is well: {_count(len(kept), 'session')}, {sum(one.frames for one in kept):,} frames.")
    return exits.DONE


@told
async def run_rebuild(*, ids: Sequence[str]) -> None:
    async with existing() as journal:
        chosen = await _chosen(journal, ids) if ids else await journal.session_ids()
        with Progress("rebuilding", len(chosen), unit="sessions") as progress:
            for session_id in progress.each(chosen):
                await upkeep.rebuild(journal, [session_id])
    click.echo(f"Made the rows of {_count(len(chosen), 'session')} anew.")


@told
async def run_export(*, output: str | None) -> None:
    count = 0
    async with existing() as journal:
        with Progress("exporting", unit="lines") as progress, writing(output) as write:
            async for line in export(journal):
                write(line)
                count += 1
                progress.at(count)
    if output is not None:
        note(f"{count:,} lines are in {output}.")


@told
async def run_import(*, files: Sequence[str], agent: str, trusted: bool) -> None:
    sessions: list[str] = []
    left_out: list[tuple[str, str]] = []
    frames = 0
    for name in files:
        with _lines(name):  # whatever cannot be read is found before anything is taken in
            pass
    async with await open_journal(where().parent) as journal:
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
                await upkeep.rebuild(journal, [session_id])
    click.echo(f"Imported {_count(len(sessions), 'session')} of {frames:,} frames.")
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


@told
async def run_vacuum() -> None:
    async with existing() as journal:
        before = _room(journal.path)
        await journal.vacuum()
    after = _room(journal.path)
    given = f"{size(before - after)} given back" if after < before else "there was nothing to give back"
    click.echo(f"The journal takes {size(after)}: {given}.")


@told
async def run_compress(*, ids: Sequence[str]) -> None:
    async with existing() as journal:
        wanted = await _chosen(journal, ids) if ids else [one.id for one in await journal.sessions()]
        resting = [session_id for session_id in wanted if not await is_held(journal, session_id)]
        with Progress("compressing", len(resting), unit="sessions") as progress:
            for session_id in progress.each(resting):
                await journal.compress(session_id)
    click.echo(f"Compressed {_count(len(resting), 'session')}.")
    if len(resting) < len(wanted):
        note(f"Left {_count(len(wanted) - len(resting), 'session')} as they are: a process has them open.")
    if resting:
        note("`dragoman journal vacuum` gives the room back to the disk.")


async def _chosen(journal: SqliteJournal, ids: Sequence[str]) -> list[str]:
    every = await journal.sessions()
    return list(dict.fromkeys(find(every, wanted).id for wanted in ids))


def _room(path: Path) -> int:
    """What the file takes, with its log."""
    files = (path.with_name(path.name + suffix) for suffix in ("", "-wal"))
    return sum(file.stat().st_size for file in files if file.exists())


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' * (number != 1)}"
