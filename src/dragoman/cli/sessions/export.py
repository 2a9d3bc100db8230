"""`dragoman sessions export`: a session as frames, rows or Markdown."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, TypeAlias, get_args

import click
import msgspec

from dragoman.cli.command import async_command, note, open_readonly
from dragoman.cli.output import STDOUT
from dragoman.cli.plan import save_path
from dragoman.cli.text import inert_json
from dragoman.errors import InputError
from dragoman.fileio import replacing
from dragoman.journal import transfer
from dragoman.journal.markdown import session_markdown
from dragoman.journal.protocols import Journal
from dragoman.journal.rows import Session
from dragoman.journal.sessions import find_session

EXPORT_EPILOG = """\b
Examples:
  dragoman sessions export 3f9a1c -o talk.md
  dragoman sessions export - --format json | jq '.tool_calls[].title'
  dragoman sessions export 3f9a1c > talk.jsonl

\b
Formats:
  jsonl     every frame, byte by byte; `dragoman journal import` reads it
  markdown  the conversation, for people
  json      the rows: runs, messages, tool calls, usage, …
Without --format, the file's suffix decides; the default is jsonl."""

Format: TypeAlias = Literal["jsonl", "markdown", "json"]
FORMATS: tuple[Format, ...] = get_args(Format)
_SUFFIXES: dict[str, Format] = {".jsonl": "jsonl", ".md": "markdown", ".markdown": "markdown", ".json": "json"}

Write: TypeAlias = Callable[[bytes], object]


@click.command(epilog=EXPORT_EPILOG)
@click.argument("session", metavar="ID")
@click.option("--format", "format_", type=click.Choice(["jsonl", "markdown", "json"]), help="Output format.")
@click.option("-o", "--output", metavar="FILE", help="Output file. [default: stdout]")
@async_command
async def export(*, session: str, format_: Format | None, output: str | None) -> None:
    """Export a session to stdout or to a file."""
    chosen = format_ or _SUFFIXES.get(Path(output or "").suffix.lower(), "jsonl")
    async with open_readonly() as journal:
        found = find_session(await journal.sessions(), session)
        with writing(output) as write:
            async for part in _exported(journal, found, chosen):
                write(part)
    if output is not None:
        note(f"Exported session {found.id} to {output} as {chosen}.")


async def _exported(journal: Journal, session: Session, format_: Format) -> AsyncIterator[bytes]:
    match format_:
        case "jsonl":
            async for line in transfer.export(journal, session.id):
                yield line
        case "json":
            rows = msgspec.json.encode(await journal.rows(session.id))
            yield msgspec.json.format(rows, indent=2) + b"\n"
        case "markdown":
            for text in session_markdown(await journal.rows(session.id)):
                yield text.encode("utf-8", "replace")


@contextmanager
def writing(output: str | None) -> Iterator[Write]:
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
    except OSError as problem:
        raise InputError(f"{path} cannot be written: {problem.strerror}") from None
