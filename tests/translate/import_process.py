"""A process that imports a folder, in small commits, until it is done or killed.

    python -m translate.import_process JOURNAL FOLDER

A line on stdout says that a commit is about to be made, and another that it was.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

from dragoman.journal.sqlite import SqliteJournal
from dragoman.translate import intake
from dragoman.translate.discover import given
from dragoman.translate.importer import Importer

intake._ENTRIES = 20  # type: ignore[misc]  # many commits, so that there are many moments to be killed at


async def main(path: str, folder: str) -> None:
    async with await SqliteJournal.open(Path(path)) as journal:
        append = journal.append

        async def told(*entries: Any, **more: Any) -> str:
            os.write(1, b"committing\n")
            cursor = await append(*entries, **more)
            os.write(1, b"committed\n")
            return cursor

        journal.append = told  # type: ignore[method-assign]
        importer = Importer(journal)
        for transcript in given([Path(folder)]):
            await importer.take(transcript)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
