"""Two helpers of everything that is opened and closed: closing once, and calling a program's own function."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

logger = logging.getLogger(__name__)


class CloseOnce:
    """Closing something: the first call does it, all callers wait for the same end, and giving up does not stop it."""

    def __init__(self, close: Callable[[], Coroutine[Any, Any, None]], name: str) -> None:
        self._close = close
        self._name = name
        self._task: asyncio.Task[None] | None = None

    async def __call__(self) -> None:
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._close(), name=self._name)
        # What is closed may, on its way, ask for the closing of what holds it: that is under way already.
        if asyncio.current_task() is not self._task:
            await asyncio.shield(self._task)


def call_safely(session_id: str, callback: Callable[..., None], *arguments: object) -> None:
    """Call a program's own function in the middle of our work; log what it raises."""
    try:
        callback(*arguments)
    except Exception:
        # A defect of the program is no reason to lose the agent.
        logger.exception("a callback of session %s failed", session_id)
