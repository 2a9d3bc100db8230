"""How far a tool is, on its way to the agent: from any thread, in order, never more than the newest waiting."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, Self, TypeAlias

Send: TypeAlias = Callable[[float, float | None, str | None], Awaitable[None]]

LIMIT: Final = 1.0
"""Seconds that the last news may take: the result waits for it, and must not wait for an agent that reads nothing."""


class Progress:
    """Sends what is reported while its block lasts, and the last of it before the block is left."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._loop = asyncio.get_running_loop()
        self._newest: tuple[float, float | None, str | None] | None = None
        self._sending: asyncio.Task[None] | None = None

    def report(self, done: float, total: float | None = None, message: str | None = None) -> None:
        try:
            self._loop.call_soon_threadsafe(self._note, done, total, message)
        except RuntimeError:
            pass  # the loop is closed: the function outlived its call

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._sending is not None:
            await asyncio.wait({self._sending}, timeout=LIMIT)
            self._sending.cancel()

    def _note(self, done: float, total: float | None, message: str | None) -> None:
        self._newest = (done, total, message)
        if self._sending is None or self._sending.done():
            self._sending = self._loop.create_task(self._send_newest())

    async def _send_newest(self) -> None:
        while self._newest is not None:
            newest, self._newest = self._newest, None
            try:
                await self._send(*newest)
            except Exception:
                return  # the agent has left; the call itself will be told so
