"""What HTTP needs of the bridge."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Protocol

from dragoman.bridge.asked import Control
from dragoman.bridge.caller import Caller
from dragoman.bridge.messages import PermissionsSnapshot
from dragoman.bridge.payload import Out


class Steered(Protocol):
    """Every method raises `Refusal`, and nothing else."""

    async def do(self, asked: Control, caller: Caller) -> Out: ...

    def follow(self, session_id: str, *, after: str | None, frames: bool, caller: Caller) -> AsyncGenerator[Out, None]:
        """A `SessionSnapshot`, then what comes: each message of the stream `session`, as on the socket."""
        ...

    async def waiting(self, caller: Caller) -> PermissionsSnapshot:
        """All that waits for a person."""
        ...
