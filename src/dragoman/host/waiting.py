"""`Waiting`: what somebody was asked, until there is an outcome. The first one counts, and who is late is told so."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Final, Generic, TypeVar

Asked = TypeVar("Asked")
Outcome = TypeVar("Outcome")

# Held: the loop itself holds tasks only weakly, and one that is cancelled may still have something to put away.
_CONSULTING: Final[set[asyncio.Task[None]]] = set()


class Waiting(Generic[Asked, Outcome]):
    """It can be decided from the moment it is made."""

    def __init__(self, asked: Asked) -> None:
        self.asked = asked
        self._outcome: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()

    @property
    def decided(self) -> bool:
        """It has its outcome, or nobody waits for one any more."""
        return self._outcome.done()

    def decide(self, outcome: Outcome) -> bool:
        """Whether it counted."""
        if self._outcome.done():
            return False
        self._outcome.set_result(outcome)
        return True

    async def outcome(self, consulting: Coroutine[None, None, None], time_limit: float | None) -> Outcome | None:
        """The outcome, by whoever decides it; None after `time_limit` seconds without one.

        `consulting` asks somebody, and decides by their answer. It is ended when nobody needs it any more, and not
        begun where there is an outcome already.
        """
        if self._outcome.done():
            consulting.close()
            return self._outcome.result()
        task = asyncio.get_running_loop().create_task(consulting, name="dragoman asks")
        _CONSULTING.add(task)
        task.add_done_callback(_CONSULTING.discard)
        try:
            async with asyncio.timeout(time_limit):
                return await self._outcome
        except TimeoutError:
            return None
        finally:
            self._outcome.cancel()
            task.cancel()
