"""How long an agent has been silent, as far as silence counts. Pure: the clock is the caller's."""

from __future__ import annotations

# Looking four times within the limit costs nothing, and is late by a quarter of it at most.
LOOKS = 4


class IdleWatch:
    """Told now and then how things stand; says when nothing was heard for `limit` seconds."""

    def __init__(self, limit: float, now: float, frames: int) -> None:
        self.interval = limit / LOOKS
        self._limit = limit
        self._frames = frames
        self._quiet_since = now

    def look(self, now: float, frames: int, at_work: bool) -> bool:
        """Whether the limit is exceeded. Silence while a tool runs, or while a person is asked, is not a hang."""
        if frames != self._frames or at_work:
            self._frames, self._quiet_since = frames, now
        return now - self._quiet_since >= self._limit
