"""A process that watches the transcripts of a home folder, in small commits, until it is stopped or killed.

    python -m translate.watch_process JOURNAL HOME

A line on stdout says that a commit is about to be made, and another that it was. At the end of stdin it takes in what
is there, and ends.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

from dragoman.journal.sqlite import SqliteJournal
from dragoman.translate.ingest import file_import
from translate.watched import POLLING, modes, watcher

file_import._MAX_COMMIT_ENTRIES = 3  # type: ignore[misc]  # many commits, so that there are many moments to be killed at


async def main(path: str, home: str) -> None:
    async with await SqliteJournal.open(Path(path)) as journal:
        append = journal.append

        async def report_commits(*entries: Any, **more: Any) -> str:
            os.write(1, b"committing\n")
            cursor = await append(*entries, **more)
            os.write(1, b"committed\n")
            return cursor

        journal.append = report_commits  # type: ignore[method-assign]
        async with watcher(journal, Path(home), POLLING, modes=modes(Path(home))):
            await asyncio.to_thread(sys.stdin.read)
        async with watcher(journal, Path(home), POLLING, modes=modes(Path(home))) as last:
            await last.settled()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
