"""`Turns`: many connections on one event loop, of which each does a little at a time.

What is folded, and what is told once it is committed, is done in one go for all that came in one read or one commit.
With one connection that is a millisecond; with twenty in a burst, which are all woken by the same commit, it would be
thirty before the loop gets to anything else. So in each round of the loop only so many bytes are dealt with; who comes
too late has the next round, in the order of coming.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final
from weakref import WeakKeyDictionary

# Bytes of frames in one round of the loop: two full pipes, a few milliseconds. One connection alone never waits.
ROUND: Final = 128 * 1024


class Turns:
    """Of one loop. `of_this_loop` has it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._left = ROUND
        self._waiting: deque[tuple[asyncio.Future[None], int]] = deque()
        self._counting = False  # whether this round's end is waited for

    async def take(self, size: int) -> None:
        """Returns when so many bytes may be dealt with. The last in a round may have more than is left of it."""
        if self._left <= 0 or self._waiting:
            future = self._loop.create_future()
            self._waiting.append((future, size))
            await future
        else:
            self._count(size)

    def _count(self, size: int) -> None:
        self._left -= size
        if not self._counting:
            self._counting = True
            self._loop.call_soon(self._next_round)

    def _next_round(self) -> None:
        self._counting = False
        self._left = ROUND
        while self._waiting and self._left > 0:
            future, size = self._waiting.popleft()
            if not future.done():  # else whoever waited has gone
                future.set_result(None)
                self._count(size)


_turns: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, Turns]] = WeakKeyDictionary()


def of_this_loop() -> Turns:
    loop = asyncio.get_running_loop()
    turns = _turns.get(loop)
    if turns is None:
        turns = _turns[loop] = Turns(loop)
    return turns
