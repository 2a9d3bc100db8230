"""Work that is done once, however often and by how many it is asked for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any


class CloseOnce:
    """Closing something: the first call does it, all wait for the same end, none who gives up stops it."""

    def __init__(self, work: Callable[[], Coroutine[Any, Any, None]], name: str) -> None:
        self._work = work
        self._name = name
        self._task: asyncio.Task[None] | None = None

    async def __call__(self) -> None:
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._work(), name=self._name)
        # What is closed may, on its way, ask for the closing of what holds it: that is under way already.
        if asyncio.current_task() is not self._task:
            await asyncio.shield(self._task)
