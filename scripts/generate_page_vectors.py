"""Write web/src/store/vectors.json: the bridge's messages about a conversation, and the rows at its end.

The page's store must come to the same rows, from whichever snapshot it starts and however often it reconnects. The
conversation is one with the demo agent, kept as frames in scripts/page_frames.jsonl; `--record` holds a new one.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
from collections.abc import Iterator, Sequence
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import msgspec

from dragoman.bridge.rows import changes_of, newest_rows, session_details
from dragoman.errors import DragomanError
from dragoman.hub.hub import Hub
from dragoman.journal.entry import Entry, read_message
from dragoman.journal.rows import RowStore
from dragoman.journal.session_record import SessionRecord
from dragoman.protocol.messages import SessionSnapshot, SessionUpdate
from dragoman.protocol.models import SessionItem, SessionState

ROOT = Path(__file__).resolve().parents[1]
FRAMES = ROOT / "scripts/page_frames.jsonl"
TARGET = ROOT / "web/src/store/vectors.json"

SESSION = "s1"
PROMPTS = ("tour", "link", "stream 12", "edit README", "error")
# Frames of a commit: some changes come alone, some with many others.
COMMITS = (1, 2, 1, 5, 13)
ALL = 10_000  # rows
PAGE = 6  # rows of the snapshots that leave older ones to be asked for
SNAPSHOT_EVERY = 12  # commits


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record", action="store_true", help="hold a new conversation first")
    if parser.parse_args().record:
        FRAMES.write_bytes(msgspec.json.Encoder().encode_lines(record()))
    TARGET.write_bytes(generate())


def generate() -> bytes:
    entries = msgspec.json.Decoder(Entry).decode_lines(FRAMES.read_bytes())
    fold, store = SessionRecord(SESSION), RowStore()
    updates: list[SessionUpdate] = []
    snapshots: list[dict[str, Any]] = []
    for number, commit in enumerate(_commits(entries)):
        for entry in commit:
            fold.add(entry, read_message(entry))
        changes = fold.take()
        store.apply(changes)
        updates.append(SessionUpdate(id=SESSION, cursor=str(changes.position), changes=tuple(changes_of(changes))))
        if number % SNAPSHOT_EVERY == 0:
            snapshots.append({"after": number + 1, "whole": _snapshot(store, ALL), "newest": _snapshot(store, PAGE)})
    rows, _, _ = newest_rows(store.read(), ALL)
    return msgspec.json.encode(
        {"snapshots": snapshots, "updates": updates, "rows": rows, "details": _snapshot(store, ALL).details}
    )


def _commits(entries: Sequence[Entry]) -> Iterator[Sequence[Entry]]:
    rest = iter(entries)
    for size in cycle(COMMITS):
        if not (commit := list(islice(rest, size))):
            return
        yield commit


def _snapshot(store: RowStore, limit: int) -> SessionSnapshot:
    found = store.read()
    rows, more, before = newest_rows(found, limit)
    item = SessionItem(
        id=SESSION,
        agent="demo",
        title=None,
        prompt="tour",
        cwd="/workspace",
        created=0,
        updated=0,
        runs=0,
        frames=store.position,
        run_status=None,
        connection="connected",
        status="idle",
        pending=0,
        imported=False,
    )
    return SessionSnapshot(
        id=SESSION,
        cursor=str(store.position),
        resumed=False,
        session=item,
        state=SessionState(),
        details=session_details(next(iter(found.session_state), None)),
        rows=rows,
        more=more,
        before=before,
    )


def record() -> list[Entry]:
    """Record a new conversation. The folder and the times differ in each run, so they are replaced."""
    os.environ["DRAGOMAN_DEMO_PACE"] = "0"
    with tempfile.TemporaryDirectory() as home, tempfile.TemporaryDirectory() as workspace:
        Path(workspace, "README").write_text("Read me.\n")
        entries = asyncio.run(_talk(home, workspace))
    return [
        msgspec.structs.replace(
            entry,
            connection_id="c1",
            session_id=SESSION,
            at=float(number),
            frame=entry.frame.replace(workspace.encode(), b"/workspace"),
        )
        for number, entry in enumerate(entries)
    ]


async def _talk(home: str, workspace: str) -> Sequence[Entry]:
    async with Hub(home) as hub:
        async with hub.open_session(cwd=workspace, access="full") as session:
            for prompt in PROMPTS:
                try:
                    await session.run(prompt)
                except DragomanError as problem:
                    print(f"{prompt}: {problem}")
        return (await hub.journal.read(session.id)).entries


if __name__ == "__main__":
    main()
