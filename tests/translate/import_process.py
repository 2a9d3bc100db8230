"""A process that imports a folder, in small commits (apart: one for each file), until it is done or killed.

    python -m translate.import_process JOURNAL FOLDER [apart]

A line on stdout says that a commit is about to be made, and another that it was.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

from dragoman.journal.sqlite import SqliteJournal
from dragoman.translate.discover import transcripts_at
from dragoman.translate.ingest import file_import, importer

file_import._MAX_COMMIT_ENTRIES = 20  # type: ignore[misc]  # many commits, so that there are many moments to be killed at


async def main(path: str, folder: str, where: str = "here") -> None:
    async with await SqliteJournal.open(Path(path)) as journal:
        append = journal.append

        async def report_commits(*entries: Any, **more: Any) -> str:
            os.write(1, b"committing\n")
            cursor = await append(*entries, **more)
            os.write(1, b"committed\n")
            return cursor

        journal.append = report_commits  # type: ignore[method-assign]
        importer.is_worker_worthwhile = lambda _: where == "apart"  # type: ignore[assignment,attr-defined]
        importer._MIN_WORKER_FILE_BYTES = 0  # type: ignore[misc]
        await importer.Importer(journal).import_all(transcripts_at([Path(folder)]))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
