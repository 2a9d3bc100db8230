"""`Commits`: what comes of one transcript, given to the journal one commit after the other.

While one commit is being stored, the next part of the file is translated. Each has the position in the file with it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, Protocol

import msgspec

from dragoman.journal.entry import Cursor, Entry
from dragoman.journal.protocols import Connection, Journal, Position
from dragoman.journal.rows import RowChanges

# Commits of a file that are under way at once: one is prepared while another is stored.
_MAX_COMMITS_UNDER_WAY: Final = 2


class Commit(msgspec.Struct, frozen=True):
    """The entries and rows of a part of a transcript, to be stored at once, with the position in the file."""

    entries: Sequence[Entry]
    changes: Sequence[RowChanges]
    position: Position
    connection: Connection | None  # set if the journal does not have it yet


class CommitSink(Protocol):
    async def add(self, commit: Commit, on_committed: Callable[[Cursor], None]) -> None:
        """Take a commit. `on_committed` is called later with the journal's cursor after it, if the sink has one."""


class Commits:
    """Promised: commits are stored in the order of `add`, and none after one that failed."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._under_way: deque[tuple[int, asyncio.Task[None]]] = deque()  # with the bytes of its frames

    @property
    def size(self) -> int:
        """Bytes of frames that are not committed yet."""
        return sum([size for size, task in self._under_way if not task.done()])

    async def add(self, commit: Commit, on_committed: Callable[[Cursor], None] = lambda _: None) -> None:
        """Return when the journal has accepted the commit. Raises if an earlier one failed."""
        # After a failure the journal refuses the frames that follow. A position without frames it would store.
        await self._wait_until(_MAX_COMMITS_UNDER_WAY - 1 if commit.entries else 0)
        task = asyncio.create_task(self._append(commit, on_committed))
        task.add_done_callback(_retrieve_error)
        self._under_way.append((sum([len(entry.frame) for entry in commit.entries]), task))
        await asyncio.sleep(0)  # now the journal has it

    async def settled(self) -> None:
        """Return when all is committed; raises if a commit failed."""
        await self._wait_until(0)

    async def over(self) -> None:
        """Return when no commit is under way, whether they failed or not."""
        if self._under_way:
            await asyncio.wait([task for _, task in self._under_way])

    async def _wait_until(self, count: int) -> None:
        while len(self._under_way) > count:
            _, task = self._under_way[0]
            await asyncio.shield(task)
            if self._under_way and self._under_way[0][1] is task:  # others may wait for it too
                self._under_way.popleft()

    async def _append(self, commit: Commit, on_committed: Callable[[Cursor], None]) -> None:
        append = self._journal.append(commit.entries, commit.changes, position=commit.position)
        if commit.connection is not None:
            # Requested together, in this order, they are one commit.
            _, cursor = await asyncio.gather(self._journal.register_connection(commit.connection), append)
        else:
            cursor = await append
        on_committed(cursor)


def _retrieve_error(task: asyncio.Task[None]) -> None:
    """The first failure is raised by `add` or `settled`; the commits after it failed for the same reason."""
    if not task.cancelled():
        task.exception()
