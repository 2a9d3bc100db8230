"""A recording as a script: what was said on each connection, sorted by session, cut where the client had the word.

A *step* is a frame. A *stretch* begins with a request of the client's that came when none was open, and goes on until
the next such request: a prompt, what the agent said and asked meanwhile, its answer, and what it still said after
that. A second prompt that came while the first was open is within the stretch. A *track* is all stretches of one
session; what concerns a connection as a whole is a track too.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, TypeAlias

import msgspec

from dragoman.wire.messages import RequestId

Party: TypeAlias = Literal["client", "agent"]

PROMPT = "session/prompt"
CANCEL = "session/cancel"
NEW = "session/new"
# By which a client gets hold of a session.
OPENINGS = (NEW, "session/load", "session/resume", "session/fork")
# Whose answers tell the id of a session that is new.
NAMING = (NEW, "session/fork")


class Step(msgspec.Struct, frozen=True):
    """`method` of an answer is the method of what it answers. `number` is the frame's place in the recording."""

    number: int
    by: Party
    kind: Literal["request", "notification", "answer"]
    method: str
    id: RequestId | None
    at: float
    frame: bytes


class Stretch(msgspec.Struct, frozen=True):
    """`steps[0]` is the client's request that it begins with."""

    steps: tuple[Step, ...]

    @property
    def lead(self) -> Step:
        return self.steps[0]


class Track(msgspec.Struct, frozen=True):
    """`session_ids` are the agent's own: they may change when a session is resumed. `connection` counts from 1."""

    session_ids: tuple[str, ...]
    connection: int
    cwd: str
    stretches: tuple[Stretch, ...]

    def led_by(self, method: str) -> list[int]:
        """The numbers of the stretches that begin with this method."""
        return [number for number, stretch in enumerate(self.stretches) if stretch.lead.method == method]

    @property
    def opened(self) -> bool:
        """Whether the recording tells how the session was opened."""
        return any(stretch.lead.method in OPENINGS for stretch in self.stretches)


class Recording(msgspec.Struct, frozen=True):
    """`desks` are the tracks of the connections as such, one for each; `tracks` those of the sessions."""

    desks: tuple[Track, ...]
    tracks: tuple[Track, ...]


def cut(steps: Iterable[Step]) -> tuple[Stretch, ...]:
    """The stretches of a track. What the agent said before the first request belongs to that one."""
    early: list[Step] = []
    stretches: list[list[Step]] = []
    unanswered: set[RequestId | None] = set()
    for step in steps:
        asks = step.by == "client" and step.kind == "request"
        if asks and not unanswered:
            stretches.append([step, *early])
            early = []
        elif stretches:
            stretches[-1].append(step)
        else:
            early.append(step)
        if asks:
            unanswered.add(step.id)
        elif step.by == "agent" and step.kind == "answer":
            unanswered.discard(step.id)
    return tuple(Stretch(tuple(steps)) for steps in stretches)
