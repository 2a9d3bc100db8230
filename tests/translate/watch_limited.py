"""A process that may have few of the system's watches, and watches the transcripts of a home folder.

    unshare --user --map-root-user python -m translate.watch_limited HOME

Says on stdout how it watches; then a transcript appears in a folder that is new, and is written to, and it says how it
watches when all of that came in.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from dragoman.journal.sqlite import MemoryJournal
from dragoman.translate.ingest.folder_watch import WatchIntervals
from translate.claude_talk import SESSION
from translate.watched import append, lines, settled, talk, wait_for_status, wait_for_text, watcher

WATCHES = 5
WATCHES_FILE = Path("/proc/sys/user/max_inotify_watches")


async def main(home: Path) -> None:
    async with (
        MemoryJournal() as journal,
        watcher(journal, home, WatchIntervals(look_s=1000.0, poll_s=0.02, settle_s=0.0)) as watch,
    ):
        await settled(watch)
        await wait_for_status(watch, lambda status: status.method != "absent")
        print(watch.status()[0].method, flush=True)
        folder = home / ".claude" / "projects"
        for number in range(WATCHES * 2):
            (folder / f"new-{number}").mkdir()
        path = folder / f"new-{WATCHES * 2 - 1}" / f"{SESSION}.jsonl"
        for number in range(3):
            append(path, lines(talk("0", "1", "2")[number * 4 : number * 4 + 4]))
            await wait_for_text(journal, f"Answer to {number}")
        await wait_for_status(watch, lambda status: status.method == "polling")
        print(watch.status()[0].error)


if __name__ == "__main__":
    WATCHES_FILE.write_text(str(WATCHES))
    asyncio.run(main(Path(sys.argv[1])))
