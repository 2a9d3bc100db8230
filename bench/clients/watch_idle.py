"""`watch_idle`: watch a folder of transcripts to which no program writes.

python -m bench.clients.watch_idle prepare FOLDER COUNT
python -m bench.clients.watch_idle native|polling FOLDER COUNT SECONDS
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path

import msgspec

from bench.clients.memory import resident
from bench.clients.report import report
from dragoman.journal.sqlite import SqliteJournal
from dragoman.translate.ingest.folder_watch import WatchIntervals, folders_at, stamp_of
from dragoman.translate.ingest.watcher import Watcher

# Sessions of one workspace: people have many workspaces, and many sessions in few of them.
IN_ONE_FOLDER = 20
LONG_AGO = 1.7e9


def write(folder: Path, count: int) -> None:
    for number in range(count):
        session = f"{number:08}-1111-2222-3333-444444444444"
        path = folder / f"-home-ada-{number // IN_ONE_FOLDER}" / f"{session}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"".join(msgspec.json.encode(record) + b"\n" for record in _records(session)))
        os.utime(path, (LONG_AGO, LONG_AGO))


def _records(session: str) -> list[dict[str, object]]:
    common = {"sessionId": session, "cwd": "/home/ada", "version": "2.1.200", "timestamp": "2026-03-01T10:00:00.000Z"}
    message = {
        "id": "msg_1",
        "role": "assistant",
        "model": "claude-opus-5",
        "content": [{"type": "text", "text": "Done."}],
        "stop_reason": "end_turn",
    }
    return [
        {"type": "user", "uuid": "u1", "parentUuid": None, "message": {"role": "user", "content": "Go"}, **common},
        {"type": "assistant", "uuid": "u2", "parentUuid": "u1", "message": message, **common},
    ]


async def watch(folder: Path, count: int, seconds: float, *, use_notifications: bool = True) -> None:
    folders = folders_at([folder / "transcripts"], "claude")
    intervals = WatchIntervals(use_notifications=use_notifications)
    began = time.perf_counter()
    async with await SqliteJournal.open(folder / "journal.db") as journal:
        opened = time.perf_counter()
        async with Watcher(journal, folders=folders, intervals=intervals) as watcher:
            await watcher.settled()
            started = time.perf_counter() - opened
            (status,) = watcher.status()
            if status.files != count or status.error is not None:
                raise SystemExit(f"{status.files} of {count} files are watched; error: {status.error}")
            cpu = time.process_time()
            await asyncio.sleep(seconds)
            cpu = time.process_time() - cpu
            memory = resident()
    report(start=started, idle=cpu * 60 / seconds, memory=memory, whole=time.perf_counter() - began)


def look(folder: Path) -> float:
    """Return the seconds that it takes to ask for the state of every file, and nothing else."""
    began = time.perf_counter()
    for parent, _, names in os.walk(folder):
        for name in names:
            stamp_of(os.path.join(parent, name))
    return time.perf_counter() - began


def main(how: str, folder: Path, count: int, seconds: float = 0.0) -> None:
    if how == "prepare":
        write(folder / "transcripts", count)
        asyncio.run(watch(folder, count, 0.1))
    elif how == "look":
        report(seconds=look(folder / "transcripts"))
    else:
        asyncio.run(watch(folder, count, seconds, use_notifications=how == "native"))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), *map(float, sys.argv[4:]))
