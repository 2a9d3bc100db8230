"""What a play is made of while it lasts: the client's requests, the manner, and the stretch under way."""

from __future__ import annotations

import msgspec

from dragoman.agents.replay.script import CANCEL, Step, Stretch
from dragoman.wire.messages import RequestId


class Asked(msgspec.Struct, frozen=True):
    """A request of the client's, as it came."""

    id: RequestId
    method: str
    frame: bytes


class Manner(msgspec.Struct, frozen=True):
    """How it is played. `strict`: what the client says is compared. `real`: with the pauses of the recording."""

    strict: bool = True
    real: bool = False


class Act:
    """A stretch under way."""

    def __init__(self, stretch: Stretch, now: float) -> None:
        self.steps = stretch.steps
        self.at = 0
        self.due = now
        self.heard: dict[RequestId, Asked] = {}  # requests without an answer, by their recorded ids
        self.unheard: set[RequestId] = set()  # recorded, and not made now
        self.withdrawn: set[RequestId] = set()
        self.cancelled = False
        self.hurried = False  # the client is further on: no pauses, and no waiting for answers
        self.patient_until: float | None = None

    @property
    def step(self) -> Step | None:
        return self.steps[self.at] if self.at < len(self.steps) else None

    def cancel_ahead(self) -> bool:
        return any(step.method == CANCEL for step in self.steps[self.at :])
