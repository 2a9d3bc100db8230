"""`journal`, searching: a word that a hundred of many messages have, by the index and by looking through all."""

from __future__ import annotations

import asyncio
import random
import sqlite3
import tempfile
import time
from pathlib import Path

from bench.clients.journal_store import middle
from bench.clients.report import arguments, report
from dragoman.journal.rows import RowChanges, Session, StoredMessage
from dragoman.journal.sqlite import SqliteJournal
from dragoman.journal.words import Doc, Query

# Messages in each session.
A_SESSION = 1_000


async def library(journal: SqliteJournal, count: int) -> str:
    """So many messages of a dozen words; a word that a hundred of them have."""
    chance = random.Random(11)
    words = ["".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=chance.randint(3, 9))) for _ in range(20_000)]
    needle = "quartzite"
    rare = set(chance.sample(range(count), min(100, count)))
    for first in range(0, count, A_SESSION):
        name = f"library {first}"
        stored: list[StoredMessage] = []
        for number in range(first, min(first + A_SESSION, count)):
            text = " ".join(chance.choices(words, k=12)) + (f" {needle}" if number in rare else "")
            message_id = f"message-{number}"
            stored.append(
                StoredMessage(
                    id=message_id,
                    kind="assistant",
                    run_id=None,
                    message_id=None,
                    time=float(number),
                    replayed=False,
                    text=text,
                    ended=True,
                )
            )
        docs = [Doc(message.id, "assistant", message.time) for message in stored]
        session = Session(id=name, agent="raw", updated=float(first))
        await journal.append([], [RowChanges(name, 0, [*stored, session], (), (), docs)])
    return needle


async def main() -> None:
    given = arguments()
    with tempfile.TemporaryDirectory(dir=given.cwd) as folder:
        path = Path(folder, "library.db")
        started = time.perf_counter()
        async with await SqliteJournal.open(path) as journal:
            needle = await library(journal, given.count)
            index_seconds = time.perf_counter() - started
            found = len(await journal.search(Query(text=needle, limit=1000)))
            search_seconds = await middle(lambda: journal.search(Query(text=needle)))
        scan = sqlite3.connect(path)

        async def look_through() -> None:
            matched = scan.execute("SELECT COUNT(*) FROM messages WHERE text LIKE ?", (f"%{needle}%",)).fetchone()
            if matched != (found,):
                raise SystemExit(f"the scan found {matched[0]}, the search {found}")

        scan_seconds = await middle(look_through)
        scan.close()
        report(index_seconds=index_seconds, search_seconds=search_seconds, scan_seconds=scan_seconds)


if __name__ == "__main__":
    asyncio.run(main())
