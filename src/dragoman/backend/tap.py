"""`Tap`: an agent's link that shows every frame in passing, in both directions and in the order of the wire.

What is shown inbound is shown before anyone acts on it, outbound before it is written. The frames are read a second
time here, so that what is seen depends on the link alone: also the handshake, noise, and what is of no session.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Literal, Protocol, TypeAlias

from dragoman.proc.link import END_GRACE_S, AgentLink
from dragoman.proc.stderr import StderrTail
from dragoman.wire.connection import wait_for_first
from dragoman.wire.framing import DEFAULT_LINE_LIMIT_BYTES
from dragoman.wire.messages import Message, Reply, Request
from dragoman.wire.peer import Peer

OnFrame: TypeAlias = Callable[[Literal["in", "out"], Message, float], None]


class Gate(Protocol):
    """When the agent may be read."""

    @property
    def has_room(self) -> bool: ...

    async def room(self) -> None:
        """Returns when there is room."""


class Tap:
    """An `AgentLink`."""

    def __init__(
        self,
        link: AgentLink,
        on_frame: OnFrame,
        gate: Gate,
        *,
        line_limit: int = DEFAULT_LINE_LIMIT_BYTES,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._link = link
        self._on_frame = on_frame
        self._gate = gate
        self._clock = clock
        self._in = Peer(line_limit=line_limit)
        self._out = Peer(line_limit=sys.maxsize)  # what we write is written whole
        self.drain = link.drain
        self.close = link.close
        self.wait = link.wait
        self.interrupt = link.interrupt
        self.kill = link.kill

    @property
    def name(self) -> str:
        return self._link.name

    @property
    def exit_code(self) -> int | None:
        return self._link.exit_code

    @property
    def stderr(self) -> StderrTail:
        return self._link.stderr

    @property
    def end_reason(self) -> str | None:
        """Of a link over the network: why it ended."""
        return getattr(self._link, "end_reason", None)

    async def end(self, grace: float = END_GRACE_S) -> int:
        return await self._link.end(grace)

    async def read(self) -> bytes:
        if not self._gate.has_room:
            # Also over when the agent has ended: what it still wrote is little, and its end must be heard of.
            await wait_for_first(self._gate.room(), self._link.wait())
        data = await self._link.read()
        for message in self._in.feed(data) if data else self._in.finish():
            self._show("in", message)
        return data

    def write(self, data: bytes) -> None:
        for message in self._out.feed(data):
            self._show("out", message)
        self._link.write(data)

    def _show(self, direction: Literal["in", "out"], message: Message) -> None:
        other = self._out if direction == "in" else self._in
        if isinstance(message, Request):
            other.expect(message.id, message.method)  # so that its answer is known for what it is
        elif isinstance(message, Reply):
            other.mark_answered(message.id)
        self._on_frame(direction, message, self._clock())
