"""`AgentLink`: the hold on a running agent. A session holds a link, never a pid."""

from __future__ import annotations

from typing import Protocol

from dragoman.proc.stderr import StderrTail
from dragoman.wire.transport import Transport

END_GRACE_S = 1.0
"""Seconds that `end()` waits after the end of stdin, and again after SIGTERM. A polite agent has ended within a few
hundred milliseconds of the end of its stdin; those that ignore it were seen to ignore it for longer than 4 s, so that
more patience would only make every close slow."""


class AgentLink(Transport, Protocol):
    """A running agent: its bytes, its stderr and its end.

    The owner of a link calls `end()`, also when the agent has ended by itself: children may be left.
    """

    @property
    def name(self) -> str:
        """The command or address, for messages."""
        ...

    @property
    def exit_code(self) -> int | None:
        """None while the agent runs; then its exit code, or minus the signal that ended it (as in `subprocess`)."""
        ...

    @property
    def stderr(self) -> StderrTail:
        """The last lines of its stderr; complete, as far as the agent itself wrote them, once `wait()` has returned."""
        ...

    async def wait(self) -> int:
        """Return the exit code as soon as the agent's process has ended, even if its children hold its pipes open.

        `read` then still returns what the agent wrote, and for a short time what its children add, then `b""`.
        """
        ...

    async def end(self, grace: float = END_GRACE_S) -> int:
        """End the agent and all that it started, release its resources, and return its exit code.

        The end of stdin, `grace` seconds, SIGTERM to the group, `grace` seconds, SIGKILL; then what is left of its
        group, and of its children outside of it. Bytes that the agent wrote before are not lost: `read` returns them.
        It may be called again, and by several tasks at once: all wait for the same end. Cancelling a caller does not
        stop it.
        """
        ...

    def interrupt(self) -> None:
        """Send SIGINT to the group. Does nothing when the agent has ended."""
        ...

    def kill(self) -> None:
        """Send SIGKILL to the group, at once. `end()` is still to be called."""
        ...
