"""`journal`: the size of a file with the recordings of real agents: the bytes of the file, and those of its frames.

python -m bench.clients.journal_recordings FOLDER
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import uuid
from collections.abc import Sequence
from pathlib import Path

from bench.clients.report import report
from dragoman.journal.sqlite import SqliteJournal
from dragoman.journal.transfer import import_lines


async def store_recordings(path: Path, recordings: Sequence[Path]) -> int:
    """Store the recordings in a journal at the path; return the bytes of their frames."""
    frames = 0
    async with await SqliteJournal.open(path) as journal:
        for one in recordings:
            lines = one.read_bytes().splitlines()
            await import_lines(journal, lines, new_id=lambda: uuid.uuid4().hex, agent=one.parent.name)
        page = await journal.read()
        while page.entries:
            frames += sum(len(entry.frame) for entry in page.entries)
            page = await journal.read(after=page.cursor)
    return frames


def main(folder: Path) -> None:
    recordings = sorted(folder.glob("*/*.jsonl"))
    if not recordings:
        raise SystemExit(f"there are no recordings in {folder}")
    with tempfile.TemporaryDirectory() as home:
        path = Path(home, "journal.db")
        frames = asyncio.run(store_recordings(path, recordings))
        report(file_bytes=path.stat().st_size, frame_bytes=frames)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
