"""The agent's side of a link: the bytes, a stderr, and the way to end."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from dragoman.wire.transport import Transport


class AgentExit(Exception):
    """Raised by an agent to end as a process would, with this exit code."""

    def __init__(self, code: int) -> None:
        super().__init__(f"exit code {code}")
        self.code = code


class AgentSide:
    """A transport, seen from the agent, with a stderr beside it."""

    def __init__(self, transport: Transport, complain: Callable[[str], None]) -> None:
        self._transport = transport
        self.complain = complain  # one line to stderr
        self.read = transport.read
        self.write = transport.write
        self.drain = transport.drain
        self.close = transport.close


# An agent as a function: lives until it returns its exit code (None is 0), raises AgentExit, or fails (1).
AgentMain: TypeAlias = Callable[[AgentSide], Awaitable[int | None]]
