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
from dragoman.cli.command import async_command, count, folder, journal_file, note, styled, width
from dragoman.cli.output import STDIN, STDOUT, watch_reader
from dragoman.cli.text import inert_json, one_line
from dragoman.config import load
from dragoman.errors import InputError
from dragoman.journal import open_journal
from dragoman.journal.entry import Cursor, Entry, read_message
from dragoman.journal.protocols import Journal
from dragoman.journal.rows import Session
from dragoman.translate.ingest.folder_watch import folders_at, provider_folders
from dragoman.translate.ingest.watch_consent import WatchConsent
from dragoman.translate.ingest.watcher import Watcher, WatchStatus
from dragoman.translate.translator import PROVIDERS
from dragoman.wire import vocabulary as acp
from dragoman.wire.messages import DECODE_ERRORS, Message, Reply, Request, Update

EPILOG = """\b
Examples:
  dragoman watch                           it asks, and then it watches
  dragoman watch --provider claude --yes
  dragoman watch ~/backup/.codex/sessions
  dragoman watch --json | jq -r .kind

Without PATH it watches where the agents keep their transcripts. Nothing is read
before you agree, once for each agent; a PATH that you name is watched at once.
In config.toml: [watch] claude = "on" (or "off"; "ask" is what it is now).

What was there before comes in too, as by `dragoman import`. Kill it at any
time: the next one goes on from there. docs/watch.md tells more."""

# Marks that tell at a glance who speaks. What the agent says has none.
_USER, _TOOL, _BAD, _END = "> ", "· ", "✗ ", "✓ "


class WatchLines:
    """`width`: columns that a line may take."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._titles: dict[str, str] = {}
        self._calls: dict[tuple[str, str], str] = {}  # titles of those that have not ended
        self._last: str | None = None

    def knows(self, session_id: str) -> bool:
        return session_id in self._titles

    def meet(self, session: Session, workspace: str) -> None:
        """To be told before the session's first entry."""
        words = session.title or session.prompt
        self._titles[session.id] = f"{session.id} {session.agent} {workspace}: {words}"

    def of(self, entry: Entry) -> Iterator[str]:
        """Lines for one more entry; before it, when another session was shown last, which one this is."""
        session_id = entry.session_id or ""
        text = self._text(session_id, read_message(entry))
        if text is None:
            return
        if session_id != self._last:
            self._last = session_id
            yield one_line(self._titles.get(session_id, session_id), self._width)
        clock = datetime.fromtimestamp(entry.at).astimezone().strftime("%H:%M:%S")
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
                done = sum(one.status == "completed" for one in entries)
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
    return words or "(nobody's words)"


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


# Seconds: what was said longer than this before we began is counted, and not shown line by line.
_NEWS: Final = 60.0


@click.command(epilog=EPILOG, short_help="See what Claude Code and Codex do in other terminals.")
@click.argument("paths", metavar="[PATH]...", nargs=-1)
@click.option("--provider", type=click.Choice(["claude", "codex"]), help="Whose transcripts. [default: all]")
@click.option("--yes", is_flag=True, help="Agree, now and for the next times.")
@click.option("--json", "as_json", is_flag=True, help="What comes in, as lines of JSON.")
@async_command
async def watch(*, paths: Sequence[str], provider: str | None, yes: bool, as_json: bool) -> int:
    """Take in transcripts while they are written, and show what happens, until Ctrl-C."""
    folders = folders_at([Path(path) for path in paths], provider)
    consent = None if paths else WatchConsent(load())
    chosen = [provider] if provider else list(PROVIDERS)
    if consent is not None and not _agreed(consent, chosen, yes=yes):
        note("Nothing is watched.")
        return exits.AGENT_FAILED
    try:
        async with await open_journal(journal_file().parent) as journal:
            shown = _Shown(journal, as_json=as_json)
            after = await journal.cursor()
            async with Watcher(journal, consent, folders=folders, providers=chosen) as watcher:
                note(*_watched(watcher.status()))
                await _follow(watcher, shown, after)
    except asyncio.CancelledError:  # Ctrl-C: how it is meant to end
        note("Stopped. What came in stays; the next time it goes on from there.")
    return exits.DONE


# -- who agreed
def _agreed(consent: WatchConsent, chosen: Sequence[str], *, yes: bool) -> bool:
    """Whether anything may be watched. Asks where it can, and says how to agree where it cannot."""
    unasked = [name for name in chosen if consent.mode(name) == "ask"]
    if unasked and not yes and not os.isatty(STDIN):
        if not any(consent.mode(name) == "on" for name in chosen):
            raise InputError(
                "there is nobody to ask whether transcripts may be watched",
                guidance=f'Say so beforehand: --yes, or in config.toml: [watch] {unasked[0]} = "on"',
            )
        note(f"Nobody agreed to watch {' and '.join(unasked)} yet: --yes does, now and for the next times.")
        unasked = []
    for name in unasked:
        if yes or click.confirm(_question(name), err=True):
            consent.grant(name)
    for name in chosen:
        if consent.mode(name) == "off":
            note(f"{name}: off, as config.toml says.")
    return any(consent.mode(name) == "on" for name in chosen)


def _question(name: str) -> str:
    folders = " and ".join(folder(watched.path) for watched in provider_folders(name, os.environ, Path.home()))
    return f"Read what {name} wrote and will write to {folders}, and keep it in {folder(str(journal_file()))}?"


def _watched(statuses: Sequence[WatchStatus]) -> list[str]:
    lines = [
        f"Watching {one.provider or 'what you named'}: {', '.join(map(folder, one.folders))}"
        for one in statuses
        if one.folders
    ]
    return [*lines, "Ctrl-C ends it."]


# -- what comes in
async def _follow(watcher: Watcher, shown: _Shown, after: Cursor) -> None:
    """Until it is interrupted, or nobody reads what is shown."""
    gone = asyncio.Event()
    watch_reader(STDOUT, gone.set)
    tasks = [
        asyncio.create_task(shown.follow(after)),
        asyncio.create_task(_tell(watcher, shown)),
        asyncio.create_task(gone.wait()),
    ]
    try:
        await asyncio.wait(tasks[::2], return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
    for problem in ended:
        if isinstance(problem, Exception):
            raise problem


async def _tell(watcher: Watcher, shown: _Shown) -> None:
    """What was there before, once it is in; and then what goes wrong."""
    await watcher.settled()
    await shown.caught_up()
    if shown.before:
        note(f"{count(len(shown.before), 'session')} from before came in.")
    problems: defaultdict[str, Problems] = defaultdict(Problems)
    while True:
        for status in watcher.status():
            if (news := problems[status.provider].news(status.error)) is not None:
                note(f"{status.provider or 'watch'}: {news}")
        await asyncio.sleep(1.0)


class Problems:
    """Of one provider: which of them is to be told. Pure."""

    def __init__(self) -> None:
        self._said: set[str] = set()
        self._last: str | None = None

    def news(self, problem: str | None) -> str | None:
        """One that is gone at the next look is none: another watcher may be at the same file for a moment."""
        stays, self._last = problem == self._last, problem
        if problem is None:
            self._said.clear()  # should it come again, that is news
        elif stays and problem not in self._said:
            self._said.add(problem)
            return problem
        return None


class _Shown:
    """What comes in, on stdout, as it is committed."""

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
        """Returns when all that is committed is shown."""
        self._moved.clear()
        while (await self._journal.read(after=self._cursor, limit=1)).entries:
            await self._moved.wait()
            self._moved.clear()

    async def _show(self, entry: Entry, session_id: str) -> None:
        if self._as_json:
            return _print_json(entry)
        if entry.at < self._began - _NEWS:
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
    data = msgspec.json.encode(record)
    click.echo((inert_json(data) if os.isatty(STDOUT) else data).decode())
