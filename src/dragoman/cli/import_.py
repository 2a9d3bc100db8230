"""`dragoman import`: finds transcripts, asks for consent, imports them, and prints a summary."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

import click

from dragoman import translate
from dragoman.cli import exits
from dragoman.cli.command import async_command, count, folder, journal_file, note, print_json
from dragoman.cli.figures import size
from dragoman.cli.output import STDIN
from dragoman.cli.progress import is_drawable, stderr_console
from dragoman.cli.text import plain
from dragoman.errors import InputError
from dragoman.journal import open_journal
from dragoman.translate.ingest.worker_client import is_worker_worthwhile, sizes_below, start_worker

if TYPE_CHECKING:
    from subprocess import Popen

    from dragoman.translate import ImportedFile, ImportSummary, Transcript

# Files that are named for each reason, and kinds that nobody knows; --json has all of them.
_NAMED: Final = 3
_KINDS: Final = 10

# Where nobody watches: a line each time that so much more is done.
_STEP: Final = 0.1

EPILOG = """\b
Examples:
  dragoman import                          what is there? then it asks
  dragoman import --yes --provider claude
  dragoman import ~/backup/.codex/sessions
  dragoman import --provider codex rollout.jsonl --json

Without PATH it looks where the agents keep their transcripts. Nothing is read
before you agree; a PATH that you name is read at once.

Run it again at any time: only what is new comes in. What Dragoman ran itself,
or what was deleted here, is left out. docs/import.md tells more."""


@click.command("import", epilog=EPILOG)
@click.argument("paths", metavar="[PATH]...", nargs=-1)
@click.option("--provider", type=click.Choice(["claude", "codex"]), help="Whose transcripts. [default: all]")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--json", "as_json", is_flag=True, help="What came of it, as JSON.")
def import_(**given: Any) -> int:
    """Take in transcripts: files, or folders with files in them."""
    # The worker loads the translators while this process does: `translate` loads them when they are first used.
    with start_worker() if is_worker_worthwhile(sizes_below(given["paths"])) else nullcontext() as process:
        return run_import(**given, process=process)


@async_command
async def run_import(
    *, paths: Sequence[str], provider: str | None, yes: bool, as_json: bool, process: Popen[bytes] | None
) -> int:
    """`process`: a worker that was started early to read the files."""
    found = translate.transcripts_at([Path(path) for path in paths], provider) if paths else _on_this_machine(provider)
    if not found:
        note("No transcripts there." if paths else _none(provider))
        if as_json:
            print_json(translate.summarize(()))
        return exits.DONE
    if not paths and not yes and not _agreed():
        note("Nothing was read.")
        return exits.AGENT_FAILED
    done = translate.summarize(await _taken(found, process))
    if as_json:
        print_json(done)
    else:
        _print(done)
    return exits.DONE


def _on_this_machine(provider: str | None) -> list[Transcript]:
    """All of them; says how many there are. Their names and sizes are looked at, and nothing else."""
    every: list[Transcript] = []
    for name in [provider] if provider else translate.PROVIDERS:
        found = translate.find_transcripts(name, os.environ, Path.home())
        if found:
            closed = sum(not one.size and one.path.is_dir() for one in found)
            files = count(len(found) - closed, "file")
            place = folder(os.path.commonpath([one.path.parent for one in found]))
            more = f"; {count(closed, 'folder')} there cannot be looked into" if closed else ""
            note(f"{name}: {files}, {size(sum(one.size for one in found))} in {place}{more}")
        every += found
    return every


def _none(provider: str | None) -> str:
    names = [provider] if provider else translate.PROVIDERS
    looked = [
        folder(str(place)) for name in names for place in translate.get_provider(name).folders(os.environ, Path.home())
    ]
    return f"No transcripts of {' or '.join(names)} here. Looked in {', '.join(looked)}; a PATH names another place."


def _agreed() -> bool:
    if not os.isatty(STDIN):
        raise InputError(
            "there is nobody to ask whether these may be read", guidance="Say so beforehand: --yes reads them unasked."
        )
    return click.confirm(f"Read them, and keep what they say in {folder(str(journal_file()))}?", err=True)


async def _taken(found: Sequence[Transcript], process: Popen[bytes] | None) -> list[ImportedFile]:
    with _shown(found) as shown:
        try:
            async with await open_journal(journal_file().parent) as journal:
                return await translate.Importer(journal).import_all(found, shown.within, shown.done, process)
        except asyncio.CancelledError:
            shown.stop()
            note("Stopped. What came in stays; the same command goes on from there.")
            raise


# -- how far it is
def _shown(found: Sequence[Transcript]) -> _Lines:
    return (_Bar if is_drawable() else _Lines)(len(found), sum(one.size for one in found))


class _Lines:
    """Where nobody watches."""

    def __init__(self, files: int, total: int) -> None:
        self._files = files
        self._total = total
        self._read = 0
        self._count = 0
        self._said = 0.0

    def __enter__(self) -> _Lines:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def within(self, read: int) -> None:
        """So many bytes of the next file are done."""

    def done(self, one: Transcript, came: ImportedFile) -> None:
        """Nothing is said of files of which nothing came: who imports every night hears of what is new."""
        self._count += 1
        self._read += one.size
        if came.frames and self._read >= (self._said + _STEP) * self._total and self._count < self._files:
            self._said = self._read / self._total
            sys.stderr.write(f"{self._count:,} of {self._files:,} files, {size(self._read)} of {size(self._total)}\n")

    def stop(self) -> None:
        pass


class _Bar(_Lines):
    """On a terminal."""

    def __init__(self, files: int, total: int) -> None:
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

        super().__init__(files, total)
        columns = (
            BarColumn(complete_style="cyan"),
            DownloadColumn(),
            TextColumn("{task.fields[files]}"),
            TimeRemainingColumn(),
        )
        self._bar = Progress(*columns, console=stderr_console(), transient=True)
        self._id = self._bar.add_task("", total=total, files=f"0 of {files:,} files")
        self._bar.start()

    def within(self, read: int) -> None:
        self._bar.update(self._id, completed=self._read + read)

    def done(self, one: Transcript, came: ImportedFile) -> None:
        self._count += 1
        self._read += one.size
        self._bar.update(self._id, completed=self._read, files=f"{self._count:,} of {self._files:,} files")

    def stop(self) -> None:
        self._bar.stop()


# -- what came of it
def _print(done: ImportSummary) -> None:
    came = done.amounts
    if done.frames:
        click.echo(f"{_sessions(done)}.")
        figures = (count(came.messages, "message"), count(came.tool_calls, "tool call"), count(came.runs, "run"))
        if came.messages or came.tool_calls or came.runs:
            click.echo(f"  {', '.join(figures)}")
        if came.input_tokens or came.output_tokens:
            click.echo(
                f"  {came.input_tokens:,} tokens in, {came.cached_tokens:,} from caches, {came.output_tokens:,} out"
            )
    else:
        click.echo("Nothing new.")
    if done.unchanged and done.frames:
        click.echo(f"Nothing new in {count(done.unchanged, 'other file')}.")
    if done.unknown:
        click.echo("Kept, but not understood:")
        for kind, number in list(done.unknown.items())[:_KINDS]:
            click.echo(f"  {number:,} x {plain(kind)}")
        _and_more(len(done.unknown) - _KINDS, "kind")
    for reason, paths in done.skipped.items():
        noun = "folder" if all(map(os.path.isdir, paths)) else "file"
        click.echo(f"Left out {count(len(paths), noun)}: {plain(reason)}.")
        for path in paths[:_NAMED]:
            click.echo(f"  {folder(path)}")
        _and_more(len(paths) - _NAMED, noun)
    if done.left:
        click.echo(f"The last line of {count(len(done.left), 'file')} is half written: it is left for the next time.")
    if done.new:
        note("To look at them: dragoman sessions list, dragoman sessions search WORDS, dragoman serve.")


def _sessions(done: ImportSummary) -> str:
    new = f"Imported {count(done.new, 'session')}"
    if not done.grown:
        return new
    were = "was" if done.grown == 1 else "were"
    if not done.new:
        return f"Imported more of {count(done.grown, 'session')} that {were} here"
    return f"{new}, and more of {done.grown:,} that {were} here"


def _and_more(number: int, noun: str) -> None:
    if number > 0:
        click.echo(f"  and {count(number, f'more {noun}')}")
