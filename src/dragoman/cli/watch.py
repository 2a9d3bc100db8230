"""`dragoman watch`: asks for consent, watches the agents' transcripts, and prints new entries."""

from __future__ import annotations

import asyncio
import os
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Final

import click
import msgspec

from dragoman.cli import exits
from dragoman.cli.command import async_command, confirm, count, folder, journal_file, note, print_json, styled, width
from dragoman.cli.options import provider_option
from dragoman.cli.output import STDIN, STDOUT, watch_reader
from dragoman.cli.text import one_line
from dragoman.config import load
from dragoman.errors import InputError
from dragoman.journal import open_journal
from dragoman.journal.entry import Cursor, Entry, read_message
from dragoman.journal.protocols import Journal
from dragoman.journal.rows import Session
from dragoman.translate.ingest.folder_watch import folders_at, provider_folders
from dragoman.translate.ingest.watcher import WatchConsent, Watcher, WatchStatus
from dragoman.translate.translator import PROVIDERS
from dragoman.wire import vocabulary as acp
from dragoman.wire.messages import DECODE_ERRORS, Message, Reply, Request, Update

EPILOG = """\b
Examples:
  dragoman watch                           asks for consent, then watches
  dragoman watch --provider claude --yes
  dragoman watch ~/backup/.codex/sessions
  dragoman watch --json | jq -r .kind

Without PATH, the folders of the agents are watched. Nothing is read before you
agree, once for each agent. A PATH is watched without asking. In config.toml:
[watch] claude = "on", "off" or "ask" (the default).

Earlier transcripts are imported too, as by `dragoman import`. Stop it at any
time: the next watch continues from there. See docs/watch.md."""

# Marks before lines; the agent's own text has none.
_USER, _TOOL, _BAD, _END = "> ", "· ", "✗ ", "✓ "


class WatchLines:
    """Makes lines of entries, at most `width` columns wide."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._titles: dict[str, str] = {}
        self._calls: dict[tuple[str, str], str] = {}  # titles of those that have not ended
        self._last: str | None = None

    def knows(self, session_id: str) -> bool:
        return session_id in self._titles

    def meet(self, session: Session, workspace: str) -> None:
        """Introduce a session, before its first entry."""
        words = session.title or session.prompt
        self._titles[session.id] = f"{session.id} {session.agent} {workspace}: {words}"

    def of(self, entry: Entry) -> Iterator[str]:
        """Make the lines of another entry; its session's title goes first when another session was printed last."""
        session_id = entry.session_id or ""
        text = self._text(session_id, read_message(entry))
        if text is None:
            return
        if session_id != self._last:
            self._last = session_id
            yield one_line(self._titles.get(session_id, session_id), self._width)
        clock = datetime.fromtimestamp(entry.at).astimezone().strftime("%H:%M:%S") if entry.at else "--:--:--"
        yield f"  {clock} {one_line(text, self._width - len(clock) - 3)}"

    def _text(self, session_id: str, message: Message) -> str | None:
        match message:
            case Request(method="session/prompt"):
                return _USER + _prompt(message)
            case Reply(method="session/prompt"):
                return _end(message)
            case Update(update=acp.UserMessageChunk(content=acp.TextContent(text=text))):
                return _USER + text
            case Update(update=acp.AgentMessageChunk(content=acp.TextContent(text=text))):
                return text if text.strip() else None
            case Update(update=acp.ToolCall() as call):
                self._calls[session_id, call.tool_call_id] = call.title
                return (_BAD if call.status == "failed" else _TOOL) + call.title
            case Update(
                update=acp.SessionToolCallUpdate(tool_call_id=call_id, status="completed" | "failed" as status)
            ):
                title = self._calls.pop((session_id, call_id), call_id)
                return f"{_BAD}{title}" if status == "failed" else None
            case Update(update=acp.Plan(entries=entries)):
                done = sum(step.status == "completed" for step in entries)
                return f"{_TOOL}plan: {done} of {len(entries)} done"
            case Update(update=acp.Notice(title=title, description=more)):
                return f"! {title}{f': {more}' if more else ''}"
            case _:
                return None


def _prompt(request: Request) -> str:
    try:
        blocks = msgspec.json.decode(request.params, type=acp.PromptRequest).prompt
    except DECODE_ERRORS:
        return "(a prompt that cannot be read)"
    words = " ".join(block.text for block in blocks if isinstance(block, acp.TextContent))
    return words or "(no text)"


def _end(reply: Reply) -> str:
    if reply.error is not None:
        return _BAD + reply.error.message
    try:
        response = msgspec.json.decode(reply.result, type=acp.PromptResponse)
    except DECODE_ERRORS:
        return f"{_END}done"
    if response.stop_reason != "end_turn":
        return f"{_BAD}{response.stop_reason.replace('_', ' ')}"
    usage = response.usage
    return f"{_END}done" + (f", {usage.output_tokens:,} tokens out" if usage and usage.output_tokens else "")


# Seconds before the start: older entries are counted, and not printed line by line.
_RECENT_S: Final = 60.0


@click.command(epilog=EPILOG, short_help="Follow Claude Code and Codex in other terminals.")
@click.argument("paths", metavar="[PATH]...", nargs=-1)
@provider_option
@click.option("--yes", is_flag=True, help="Give consent without being asked, now and for the future.")
@click.option("--json", "as_json", is_flag=True, help="Print entries as lines of JSON.")
@async_command
async def watch(*, paths: Sequence[str], provider: str | None, yes: bool, as_json: bool) -> int:
    """Follow Claude Code and Codex in other terminals: import transcripts while they are written, until Ctrl-C."""
    folders = folders_at([Path(path) for path in paths], provider)
    consent = None if paths else WatchConsent(load())
    chosen = [provider] if provider else list(PROVIDERS)
    if consent is not None and not _has_consent(consent, chosen, yes=yes):
        note("Nothing to watch.")
        return exits.AGENT_FAILED
    try:
        async with await open_journal(journal_file().parent) as journal:
            printer = _EntryPrinter(journal, as_json=as_json)
            after = await journal.cursor()
            async with Watcher(journal, consent, folders=folders, providers=chosen) as watcher:
                note(*_watched(watcher.status()))
                await _follow(watcher, printer, after)
    except asyncio.CancelledError:  # Ctrl-C: how it is meant to end
        note("Stopped. The next watch continues from here.")
    return exits.DONE


# -- consent
def _has_consent(consent: WatchConsent, chosen: Sequence[str], *, yes: bool) -> bool:
    """Test whether anything may be watched; ask for consent where there is a terminal."""
    unasked = [name for name in chosen if consent.mode(name) == "ask"]
    if unasked and not yes and not os.isatty(STDIN):
        if not any(consent.mode(name) == "on" for name in chosen):
            raise InputError(
                "there is no terminal to ask for consent",
                guidance=f'Use --yes, or set in config.toml: [watch] {unasked[0]} = "on"',
            )
        note(f"Not watching {' and '.join(unasked)}: agree with --yes, now and for the future.")
        unasked = []
    for name in unasked:
        if yes or confirm(f"Watch {name}?", action="watch", details=_plan(name)):
            consent.grant(name)
    for name in chosen:
        if consent.mode(name) == "off":
            note(f"{name}: turned off in config.toml.")
    return any(consent.mode(name) == "on" for name in chosen)


def _plan(name: str) -> Sequence[str]:
    folders = " and ".join(folder(watched.path) for watched in provider_folders(name, os.environ, Path.home()))
    return [f"Everything that {name} writes to {folders}", f"is imported into {folder(str(journal_file()))}."]


def _watched(statuses: Sequence[WatchStatus]) -> list[str]:
    lines = [
        f"Watching {status.provider or 'PATH'}: {', '.join(map(folder, status.folders))}"
        for status in statuses
        if status.folders
    ]
    return [*lines, "Press Ctrl-C to stop."]


# -- new entries
async def _follow(watcher: Watcher, printer: _EntryPrinter, after: Cursor) -> None:
    """Print entries until interrupted, or until the reader of stdout has gone."""
    gone = asyncio.Event()
    watch_reader(STDOUT, gone.set)
    tasks = [
        asyncio.create_task(printer.follow(after)),
        asyncio.create_task(_report_errors(watcher, printer)),
        asyncio.create_task(gone.wait()),
    ]
    try:
        await asyncio.wait(tasks[::2], return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
    for error in ended:
        if isinstance(error, Exception):
            raise error


async def _report_errors(watcher: Watcher, printer: _EntryPrinter) -> None:
    """Report the earlier sessions once they are imported, and then errors."""
    await watcher.settled()
    await printer.caught_up()
    if printer.before:
        note(f"{count(len(printer.before), 'session')} imported from before.")
    reports: defaultdict[str, ErrorReports] = defaultdict(ErrorReports)
    while True:
        for status in watcher.status():
            if (news := reports[status.provider].news(status.error)) is not None:
                note(f"{status.provider or 'watch'}: {news}")
        await asyncio.sleep(1.0)


class ErrorReports:
    """The errors of one provider: which of them to report. Pure."""

    def __init__(self) -> None:
        self._reported: set[str] = set()
        self._last: str | None = None

    def news(self, error: str | None) -> str | None:
        """Report an error that is seen twice in a row: another watcher may hold a file for a moment."""
        is_repeated, self._last = error == self._last, error
        if error is None:
            self._reported.clear()  # should it come again, that is news
        elif is_repeated and error not in self._reported:
            self._reported.add(error)
            return error
        return None


class _EntryPrinter:
    """Prints imported entries as they are committed."""

    def __init__(self, journal: Journal, *, as_json: bool) -> None:
        self._journal = journal
        self._as_json = as_json
        self._lines = WatchLines(width())
        self._began = time.time()
        self._cursor: Cursor | None = None
        self._moved = asyncio.Event()
        self.before: set[str] = set()  # sessions of which something older came in

    async def follow(self, after: Cursor) -> None:
        self._cursor = after
        async for page in self._journal.subscribe(after=after):
            for entry in page.entries:
                if entry.origin == "import" and entry.session_id is not None:
                    await self._show(entry, entry.session_id)
            self._cursor = page.cursor
            self._moved.set()

    async def caught_up(self) -> None:
        """Return when everything committed is printed."""
        self._moved.clear()
        while (await self._journal.read(after=self._cursor, limit=1)).entries:
            await self._moved.wait()
            self._moved.clear()

    async def _show(self, entry: Entry, session_id: str) -> None:
        if self._as_json:
            return _print_json(entry)
        if entry.at < self._began - _RECENT_S:
            self.before.add(session_id)
            return None
        if not self._lines.knows(session_id) and (session := await self._journal.session(session_id)) is not None:
            self._lines.meet(session, folder(session.cwd))
        for line in self._lines.of(entry):
            click.echo(line if line.startswith(" ") else styled(line, bold=True))
        return None


def _print_json(entry: Entry) -> None:
    record = {
        "type": "entry",
        "session_id": entry.session_id,
        "at": entry.at,
        "kind": entry.kind,
        "frame": msgspec.Raw(entry.frame),
    }
    print_json(record, indent=0)
