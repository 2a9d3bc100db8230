"""`AgentLink`: our hold on a running agent. A session holds a link, never a pid.

`Transport` is its byte half. `wire` has a Protocol of the same shape; the two meet structurally,
because neither package may import the other.
"""

from __future__ import annotations

from typing import Protocol

from dragoman.proc.stderr import StderrTail

END_GRACE = 1.0
"""Seconds that `end()` waits after the end of stdin, and again after SIGTERM. A polite agent is gone within a few
hundred milliseconds of the end of its stdin; those that ignore it were seen to ignore it for longer than 4 s, so that
more patience would only make every close slow."""


class Transport(Protocol):
    """Bytes to and from an agent.

    Promised: bytes arrive in order, each once, whole runs of them at a time. An agent that is not read is not read
    ahead: it blocks in its own write. Not promised: that a call to `read` returns a whole line; that what was written
    was seen by the agent.
    """

    async def read(self) -> bytes:
        """The next bytes, as many as are there; waits for the first. `b""` at the end, then and ever after.

        One caller at a time. A cancelled call loses nothing: the next one returns what it would have.
        """
        ...

    def write(self, data: bytes) -> None:
        """Send, or keep until it can be sent. Does nothing after `close()` or once the peer is gone: `read` tells."""
        ...

    async def drain(self) -> None:
        """Wait while too much is waiting to be sent. Returns when there is room, and also when the peer is gone."""
        ...

    def close(self) -> None:
        """End the agent's stdin, after what was written. Reading goes on."""
        ...


class AgentLink(Transport, Protocol):
    """A running agent: its bytes, what it complains of, and its end.

    Whoever has a link calls `end()` once done with it, also when the agent has died by itself: children may be left.
    """

    @property
    def name(self) -> str:
        """What was started, for messages."""
        ...

    @property
    def exit_code(self) -> int | None:
        """None while the agent runs; then its exit code, or minus the signal that ended it (as `subprocess`)."""
        ...

    @property
    def stderr(self) -> StderrTail:
        """The last lines of its stderr. Complete, as far as the agent itself wrote it, once `wait()` has returned."""
        ...

    async def wait(self) -> int:
        """Return the exit code as soon as the agent's process has ended, even if its children hold its pipes open.

        `read` then still returns what the agent wrote, and for a short time what its children add, then `b""`.
        """
        ...

    async def end(self, grace: float = END_GRACE) -> int:
        """End the agent and all that it started, and give back what it held; returns its exit code.

        The end of stdin, `grace` seconds, SIGTERM to the group, `grace` seconds, SIGKILL; then what is left of its
        group, and of its children outside of it. What the agent wrote before is not lost: `read` returns it. May be
        called again, and by several at once: all wait for the same end. A caller that is cancelled does not stop it.
        """
        ...

    def interrupt(self) -> None:
        """Send SIGINT to the group. Does nothing when the agent has ended."""
        ...

    def kill(self) -> None:
        """Send SIGKILL to the group, at once. `end()` is still to be called."""
        ...
