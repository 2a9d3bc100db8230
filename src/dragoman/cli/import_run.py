"""The work of `dragoman import`: finds transcripts, asks for consent, imports them, and prints a summary."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from dragoman import translate
from dragoman.cli import exits
from dragoman.cli.command import async_command, confirm, count, folder, journal_file, note, print_json, print_lines
from dragoman.cli.progress import is_drawable, stderr_console
from dragoman.cli.text import plain, size
from dragoman.journal import open_journal

if TYPE_CHECKING:
    from subprocess import Popen

    from rich.progress import Progress as Bar

    from dragoman.translate import ImportedFile, ImportSummary, Transcript

# Files listed for each reason, and unknown kinds of records listed; --json has all of them.
_MAX_FILES: Final = 3
_MAX_KINDS: Final = 10

# In a log: the share of the work after which another line is printed.
_STEP: Final = 0.1


@async_command
async def run_import(
    *, paths: Sequence[str], provider: str | None, yes: bool, as_json: bool, process: Popen[bytes] | None
) -> int:
    """Import transcripts and print the result; `process` is a worker that was started early to read them."""
    transcripts = (
        translate.transcripts_at([Path(path) for path in paths], provider) if paths else _on_this_machine(provider)
    )
    if not transcripts:
        note("No transcripts found." if paths else _none_found(provider))
        if as_json:
            print_json(translate.summarize(()))
        return exits.DONE
    question = f"Import them into {folder(str(journal_file()))}?"
    if not paths and not yes and not confirm(question, action="import"):
        note("Nothing was read.")
        return exits.AGENT_FAILED
    files, done = await _import_all(transcripts, process)
    if as_json:
        print_json(done)
    else:
        _print(done)
    return exits.BAD_INPUT if _was_one_left_out(paths, files) else exits.DONE


def _was_one_left_out(paths: Sequence[str], files: Sequence[ImportedFile]) -> bool:
    """Return True if one of the files that the user named was left out."""
    named = {os.path.realpath(path) for path in paths if not os.path.isdir(path)}
    return any(_was_left_out(file) for file in files if file.path in named)


def _was_left_out(file: ImportedFile) -> bool:
    """Return True if nothing of the file is in the journal; a session that Dragoman ran itself is there."""
    from dragoman.translate.ingest.dedup import RAN_HERE

    return file.skipped not in (None, RAN_HERE) and not file.frames


def _on_this_machine(provider: str | None) -> list[Transcript]:
    """Find all transcripts of this machine and print their number. Only names and sizes are read."""
    every: list[Transcript] = []
    for name in [provider] if provider else translate.PROVIDERS:
        transcripts = translate.find_transcripts(name, os.environ, Path.home())
        if transcripts:
            unreadable = sum(not transcript.size and transcript.path.is_dir() for transcript in transcripts)
            files = count(len(transcripts) - unreadable, "file")
            path = folder(os.path.commonpath([transcript.path.parent for transcript in transcripts]))
            more = f"; {count(unreadable, 'folder')} cannot be read" if unreadable else ""
            note(f"{name}: {files}, {size(sum(transcript.size for transcript in transcripts))} in {path}{more}")
        every += transcripts
    return every


def _none_found(provider: str | None) -> str:
    names = [provider] if provider else translate.PROVIDERS
    folders = [
        folder(str(path)) for name in names for path in translate.get_provider(name).folders(os.environ, Path.home())
    ]
    return f"No {' or '.join(names)} transcripts found in {', '.join(folders)}. Name another folder as PATH."


async def _import_all(
    transcripts: Sequence[Transcript], process: Popen[bytes] | None
) -> tuple[list[ImportedFile], ImportSummary]:
    total_bytes = sum(transcript.size for transcript in transcripts)
    with _ImportProgress(len(transcripts), total_bytes) as view:
        try:
            async with await open_journal(journal_file().parent) as journal:
                importer = translate.Importer(journal)
                files = await importer.import_all(transcripts, view.within, view.done, process)
                return files, await translate.summarize_import(journal, files)
        except asyncio.CancelledError:
            view.stop()
            note("Stopped. Run the same command again to continue.")
            raise


# -- progress
class _ImportProgress:
    """A progress bar on a terminal; in a log, a line each time that another tenth is done. Sizes are in bytes."""

    def __init__(self, files: int, total_bytes: int) -> None:
        self._files = files
        self._total_bytes = total_bytes
        self._read_bytes = 0
        self._count = 0
        self._reported = 0.0  # share of the work
        self._bar = self._new_bar() if is_drawable() else None

    def _new_bar(self) -> Bar:
        from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        files = TextColumn("{task.fields[files]}")
        columns = (BarColumn(complete_style="cyan"), DownloadColumn(), files, TimeRemainingColumn())
        bar = Bar(*columns, console=stderr_console(), transient=True)
        bar.add_task("", total=self._total_bytes, files=f"0 of {self._files:,} files")
        bar.start()
        return bar

    def __enter__(self) -> _ImportProgress:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.stop()

    def within(self, read_bytes: int) -> None:
        """Report how much was read of the current file."""
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=self._read_bytes + read_bytes)

    def done(self, transcript: Transcript, result: ImportedFile) -> None:
        """Report a finished file; in a log, nothing is printed for one without anything new."""
        self._count += 1
        self._read_bytes += transcript.size
        files = f"{self._count:,} of {self._files:,} files"
        next_report_bytes = (self._reported + _STEP) * self._total_bytes
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=self._read_bytes, files=files)
        elif result.frames and self._count < self._files and self._read_bytes >= next_report_bytes:
            self._reported = self._read_bytes / self._total_bytes
            sys.stderr.write(f"{files}, {size(self._read_bytes)} of {size(self._total_bytes)}\n")

    def stop(self) -> None:
        if self._bar is not None:
            self._bar.stop()


# -- the result
def _print(done: ImportSummary) -> None:
    result = done.amounts
    if done.frames:
        print_lines(f"{_sessions(done)}.")
        figures = (count(result.messages, "message"), count(result.tool_calls, "tool call"), count(result.runs, "run"))
        if result.messages or result.tool_calls or result.runs:
            print_lines(f"  {', '.join(figures)}")
        if result.input_tokens or result.output_tokens:
            print_lines(
                f"  {result.input_tokens:,} tokens in, {result.cached_tokens:,} from caches, "
                f"{result.output_tokens:,} out"
            )
    else:
        print_lines("Nothing new.")
    if done.unchanged and done.frames:
        print_lines(f"Nothing new in {count(done.unchanged, 'other file')}.")
    if done.unknown:
        print_lines("Kept, but of an unknown kind:")
        for kind, number in list(done.unknown.items())[:_MAX_KINDS]:
            print_lines(f"  {number:,} x {plain(kind)}")
        _and_more(len(done.unknown) - _MAX_KINDS, "kind")
    for reason, paths in done.skipped.items():
        noun = "folder" if all(map(os.path.isdir, paths)) else "file"
        print_lines(f"Skipped {count(len(paths), noun)}: {plain(reason)}.")
        for path in paths[:_MAX_FILES]:
            print_lines(f"  {folder(path)}")
        _and_more(len(paths) - _MAX_FILES, noun)
    if done.left:
        print_lines(f"The last line of {count(len(done.left), 'file')} is incomplete and was left for the next import.")
    if done.new:
        note("See them with: dragoman sessions list, dragoman sessions search WORDS, dragoman serve.")


def _sessions(done: ImportSummary) -> str:
    new = f"Imported {count(done.new, 'session')}"
    if not done.grown:
        return new
    if not done.new:
        return f"Updated {count(done.grown, 'session')}"
    return f"{new}, updated {done.grown:,}"


def _and_more(number: int, noun: str) -> None:
    if number > 0:
        print_lines(f"  and {count(number, f'more {noun}')}")
