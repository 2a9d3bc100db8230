"""A watcher in a test: a home folder of its own, and waiting for what comes in."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from dragoman.config import load
from dragoman.journal.entry import Entry
from dragoman.journal.protocols import Journal
from dragoman.journal.sqlite import MemoryJournal
from dragoman.translate.discover import transcripts_at
from dragoman.translate.ingest.dedup import imported_session_id
from dragoman.translate.ingest.folder_watch import WatchIntervals
from dragoman.translate.ingest.importer import Importer
from dragoman.translate.ingest.watcher import WatchConsent, Watcher, WatchStatus
from journal.talk import all_entries
from translate.claude_talk import SESSION, Transcript

TIMEOUT_S = 30.0
OURS = imported_session_id("claude", SESSION)

# New files are read at once. Looks through folders so seldom that what comes in was noticed; or all the time.
NATIVE = WatchIntervals(look_s=1000.0, absent_s=0.02, settle_s=0.0, retry_s=0.01)
POLLING = WatchIntervals(look_s=0.02, poll_s=0.02, absent_s=0.02, settle_s=0.0, retry_s=0.01)
UNTOLD = msgspec.structs.replace(POLLING, use_notifications=False)


def talk(*prompts: str, session: str = SESSION) -> list[bytes]:
    transcript = Transcript(sessionId=session)
    for number, prompt in enumerate(prompts):
        transcript.user(prompt)
        transcript.call("Bash", {"command": "ls"}, f"toolu_{number}", id=f"msg_c{number}")
        transcript.result("a", None, f"toolu_{number}")
        transcript.text(f"Answer to {prompt}", id=f"msg_{number}")
    return transcript.lines


def lines(some: Sequence[bytes]) -> bytes:
    return b"".join(line + b"\n" for line in some)


def transcript_in(home: Path, session: str = SESSION) -> Path:
    path = home / ".claude" / "projects" / "-home-ada-proj" / f"{session}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def modes(home: Path, text: str = '[watch]\nclaude = "on"\n') -> WatchConsent:
    ours = home / ".dragoman"
    ours.mkdir(exist_ok=True)
    (ours / "config.toml").write_text(text)
    return WatchConsent(load(ours, {}))


def watcher(journal: Journal, home: Path, pace: WatchIntervals = NATIVE, **more: Any) -> Watcher:
    given_modes = more.pop("modes", None) or modes(home)
    return Watcher(journal, given_modes, environment={}, home=home, intervals=pace, **more)


async def until(journal: Journal, enough: Callable[[list[Entry]], bool]) -> list[Entry]:
    """Wait until there are enough entries; return all of them."""
    entries: list[Entry] = []
    async with asyncio.timeout(TIMEOUT_S):
        async for page in journal.subscribe():
            entries += page.entries
            if enough(entries):
                return entries
    raise AssertionError("the journal was closed")


async def wait_for_text(journal: Journal, words: str) -> list[Entry]:
    return await until(journal, lambda entries: any(words.encode() in entry.frame for entry in entries))


async def wait_for_status(watch: Watcher, is_reached: Callable[[WatchStatus], bool]) -> None:
    """Wait until the first provider's status is as the test needs it."""
    async with asyncio.timeout(TIMEOUT_S):
        while not is_reached(watch.status()[0]):
            await watch.status_changed()


async def settled(watch: Watcher) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        await watch.settled()


def frame_keys(entries: Sequence[Entry]) -> list[tuple[str | None, str, bytes]]:
    return [(entry.session_id, entry.kind, entry.frame) for entry in entries]


async def imported(*paths: Path, provider: str | None = None) -> list[tuple[str | None, str, bytes]]:
    """The frames of one import of the files as they are now."""
    async with MemoryJournal() as journal:
        importer = Importer(journal)
        for one in transcripts_at(paths, provider):
            await importer.import_file(one)
        return frame_keys(await all_entries(journal))
