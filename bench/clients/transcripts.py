"""`transcripts`: importing a folder of transcripts with rows and search index, against decoding the same lines.

python -m bench.clients.transcripts FOLDER
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
from pathlib import Path

import msgspec

from bench.clients.memory import peak, peak_of_helpers
from bench.clients.report import report
from dragoman.journal.sqlite import SqliteJournal
from dragoman.translate.discover import Transcript, detect_provider, transcripts_at
from dragoman.translate.ingest.importer import Importer


def decode(transcripts: list[Transcript]) -> tuple[float, int]:
    """Decode all lines; return the seconds, reading included, and the bytes."""
    read = msgspec.json.Decoder().decode
    size = 0
    began = time.perf_counter()
    for one in transcripts:
        with one.path.open("rb") as file:
            for line in file:
                size += len(line)
                try:
                    read(line)
                except msgspec.DecodeError:
                    pass  # two in one line, or half of one
    return time.perf_counter() - began, size


async def import_all(journal: SqliteJournal, transcripts: list[Transcript]) -> tuple[float, int]:
    """Import all transcripts; return the seconds and the number of frames."""
    began = time.perf_counter()
    importer = Importer(journal)
    frames = sum(done.frames for done in await importer.import_all(transcripts))
    return time.perf_counter() - began, frames


async def main(folder: Path) -> None:
    detected = [(detect_provider(file.path), file) for file in transcripts_at([folder])]
    transcripts = [msgspec.structs.replace(file, provider=name) for name, file in detected if name is not None]
    decode(transcripts)  # the files are in memory then, for both
    decoding, size = decode(transcripts)
    with tempfile.TemporaryDirectory() as home:
        async with await SqliteJournal.open(Path(home, "journal.db")) as journal:
            importing, frames = await import_all(journal, transcripts)
            again, more = await import_all(journal, transcripts)
    if more or not frames:
        raise SystemExit(f"{frames} frames came in, and {more} the second time")
    report(
        decode=decoding,
        take=importing,
        again=again,
        size=size,
        frames=frames,
        peak=peak() + peak_of_helpers(),
        cores=os.cpu_count() or 1,
    )


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
