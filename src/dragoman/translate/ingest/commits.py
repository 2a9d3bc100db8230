"""`Commits`: what comes of one transcript, given to the journal one commit after the other.

While one is being made, what comes next is translated. How far the file was read is part of each.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

from dragoman.journal.entry import Cursor
from dragoman.journal.protocols import Journal
from dragoman.translate.ingest.commit import Commit

# Commits of a file that are under way at once: one is made ready to be stored while another is stored.
_AT_ONCE: Final = 2


class Commits:
    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._under_way: deque[tuple[int, asyncio.Task[None]]] = deque()  # bytes of frames, and who commits them

    @property
    def size(self) -> int:
        """Bytes of frames that are not committed yet."""
        return sum([size for size, task in self._under_way if not task.done()])

    async def add(self, commit: Commit, then: Callable[[Cursor], None] = lambda _: None) -> None:
        """Returns when the journal has been given it; `then` hears where it ends. Raises where one before failed."""
        # Where one fails, the journal takes no frames that come after. A position without frames it would take.
        await self._until(_AT_ONCE - 1 if commit.entries else 0)
        task = asyncio.create_task(self._append(commit, then))
        task.add_done_callback(_heard)
        self._under_way.append((sum([len(entry.frame) for entry in commit.entries]), task))
        await asyncio.sleep(0)  # now the journal has it

    async def settled(self) -> None:
        """Returns when all is committed; raises where that failed."""
        await self._until(0)

    async def over(self) -> None:
        """The same, whether it failed or not: whoever reads the file is told."""
        if self._under_way:
            await asyncio.wait([task for _, task in self._under_way])

    async def _until(self, left: int) -> None:
        while len(self._under_way) > left:
            _, task = self._under_way[0]
            await asyncio.shield(task)
            if self._under_way and self._under_way[0][1] is task:  # others may wait for it too
                self._under_way.popleft()

    async def _append(self, commit: Commit, then: Callable[[Cursor], None]) -> None:
        append = self._journal.append(commit.entries, commit.changes, position=commit.position)
        if commit.connection is not None:
            # Asked for together, in this order, they are one commit.
            _, cursor = await asyncio.gather(self._journal.register_connection(commit.connection), append)
        else:
            cursor = await append
        then(cursor)


def _heard(task: asyncio.Task[None]) -> None:
    """The first that failed is told of; those after it failed for that."""
    if not task.cancelled():
        task.exception()
