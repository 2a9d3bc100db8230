"""`journal`, searching many messages by the index, and by looking through all: for a word that a hundred of them have,
for one that every fifteenth has, and for two words in a row."""

from __future__ import annotations

import asyncio
import random
import sqlite3
import tempfile
import time
from pathlib import Path
from pydoc_data import topics

from bench.clients.journal_store import middle
from bench.clients.report import arguments, report
from dragoman.journal.rows import RowChanges, SearchDocument, Session, StoredMessage
from dragoman.journal.search_documents import MAX_RANKED, SearchQuery
from dragoman.journal.sqlite import SqliteJournal

# Messages in each session.
A_SESSION = 1_000

# Words of a message. They are taken from Python's own reference, as they stand there: in a language some groups of
# letters are in half of all messages, and a search has to cope with those.
WORDS = 12

RARE = "quartzite"  # is put into a hundred messages; the reference does not have it
FREQUENT = "function"
PHRASE = "the function"


async def library(journal: SqliteJournal, count: int) -> None:
    chance = random.Random(11)
    prose = " ".join(topics.topics.values()).split()
    rare = set(chance.sample(range(count), min(100, count)))
    for first in range(0, count, A_SESSION):
        name = f"library {first}"
        stored: list[StoredMessage] = []
        for number in range(first, min(first + A_SESSION, count)):
            begin = chance.randrange(len(prose) - WORDS)
            text = " ".join(prose[begin : begin + WORDS]) + (f" {RARE}" if number in rare else "")
            stored.append(
                StoredMessage(
                    id=f"message-{number}",
                    kind="assistant",
                    run_id=None,
                    message_id=None,
                    time=float(number),
                    replayed=False,
                    text=text,
                    ended=True,
                )
            )
        docs = [SearchDocument(message.id, "assistant", message.time) for message in stored]
        session = Session(id=name, agent="raw", updated=float(first))
        await journal.append([], [RowChanges(name, 0, [*stored, session], (), (), docs)])


async def compare(journal: SqliteJournal, path: Path, words: str) -> tuple[float, float]:
    """Return the seconds of a search by the index and of a scan; exit if they do not find the same."""
    query = SearchQuery(text=f'"{words}"')
    found = len(await journal.search(SearchQuery(text=query.text, limit=MAX_RANKED)))
    by_index = await middle(lambda: journal.search(query))
    scan = sqlite3.connect(path)

    async def look_through() -> None:
        (matched,) = scan.execute("SELECT COUNT(*) FROM messages WHERE text LIKE ?", (f"%{words}%",)).fetchone()
        if min(matched, MAX_RANKED) != found:
            raise SystemExit(f"the scan found {matched}, the search {found}")

    by_scan = await middle(look_through)
    scan.close()
    return by_index, by_scan


async def main() -> None:
    options = arguments()
    with tempfile.TemporaryDirectory(dir=options.cwd) as folder:
        path = Path(folder, "library.db")
        started = time.perf_counter()
        async with await SqliteJournal.open(path) as journal:
            await library(journal, options.count)
            index_seconds = time.perf_counter() - started
            search_seconds, scan_seconds = await compare(journal, path, RARE)
            frequent_seconds, frequent_scan_seconds = await compare(journal, path, FREQUENT)
            phrase_seconds, phrase_scan_seconds = await compare(journal, path, PHRASE)
        report(
            index_seconds=index_seconds,
            search_seconds=search_seconds,
            scan_seconds=scan_seconds,
            frequent_seconds=frequent_seconds,
            frequent_scan_seconds=frequent_scan_seconds,
            phrase_seconds=phrase_seconds,
            phrase_scan_seconds=phrase_scan_seconds,
        )


if __name__ == "__main__":
    asyncio.run(main())
