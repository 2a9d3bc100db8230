"""`journal`, the store by itself: frames written and read back by cursor, a session opened from its rows and by folding
its frames. One process, one file at a time, no agent."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from statistics import median

from bench.clients.report import arguments, report
from bench.raw_agent import SESSION_ID, stream
from dragoman.journal import maintenance
from dragoman.journal.entry import Cursor
from dragoman.journal.protocols import Connection
from dragoman.journal.recorder import ConnectionRecorder
from dragoman.journal.session_record import SessionRecord
from dragoman.journal.sqlite import SqliteJournal
from dragoman.wire.peer import Peer

# Frames of the session that is opened, of which every hundredth is followed by a tool call, as in a session of some
# hours' work.
OPENED = 100_000
OPENED_TOOL_EVERY = 100

TRIES = 15


async def write_session(journal: SqliteJournal, name: str, count: int, tool_every: int) -> float:
    """Stream frames as an agent would and commit each as it comes; return the seconds."""
    await journal.register_connection(Connection(id=name, agent="raw", at=0.0))
    recorder = ConnectionRecorder(journal, Connection(id=name, agent="raw", at=0.0))
    recorder.add_session(SessionRecord(name))
    peer = Peer()
    blocks = list(stream(SESSION_ID % 1, count, tool_every))
    started = time.perf_counter()
    for number, block in enumerate(blocks):
        for message in peer.feed(block):
            recorder.add("agent", message, float(number), name)
        await asyncio.sleep(0)
        await recorder.ready()
    await recorder.flush()
    return time.perf_counter() - started


async def read_back(journal: SqliteJournal, name: str, count: int) -> float:
    cursor: Cursor | None = None
    seen = 0
    started = time.perf_counter()
    while (page := await journal.read(after=cursor)).entries:
        seen += len(page.entries)
        cursor = page.cursor
    seconds = time.perf_counter() - started
    if seen != count:
        raise SystemExit(f"read {seen} frames, {count} were written")
    return seconds


async def middle(act: Callable[[], Awaitable[object]]) -> float:
    seconds: list[float] = []
    for _ in range(TRIES):
        started = time.perf_counter()
        await act()
        seconds.append(time.perf_counter() - started)
    return median(seconds)


async def main() -> None:
    options = arguments()
    with tempfile.TemporaryDirectory(dir=options.cwd) as folder:
        async with await SqliteJournal.open(Path(folder, "frames.db")) as journal:
            write_seconds = await write_session(journal, "long", options.count, 0)
            read_seconds = await read_back(journal, "long", options.count)

        async with await SqliteJournal.open(Path(folder, "session.db")) as journal:
            opened = min(OPENED, options.count)
            await write_session(journal, "opened", opened, OPENED_TOOL_EVERY)
            rows_seconds = await middle(lambda: journal.rows("opened"))
            fold_seconds = await middle(lambda: maintenance.fold_session(journal, "opened"))

        report(
            write_seconds=write_seconds,
            read_seconds=read_seconds,
            rows_seconds=rows_seconds,
            fold_seconds=fold_seconds,
        )


if __name__ == "__main__":
    asyncio.run(main())
