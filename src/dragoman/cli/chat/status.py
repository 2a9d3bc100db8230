"""The line beneath the input: which agent this is, how it is set, and what it has used. Pure."""

from __future__ import annotations

import msgspec

from dragoman.cli.figures import context_part, cost_part
from dragoman.cli.pieces import Span
from dragoman.cli.status import FRAME_TIME, FRAMES
from dragoman.cli.text import columns, one_line
from dragoman.record import rows
from dragoman.record.fold import SessionFold

_BETWEEN = " · "
_UNKNOWN = "not reported"


class Doing(msgspec.Struct, frozen=True):
    """What goes on, in a word, and since when."""

    what: str
    since: float


def status_line(
    agent: str, access: str, fold: SessionFold | None, doing: Doing | None, now: float, width: int
) -> tuple[Span, ...]:
    """As much of it as fits; what tells least goes first."""
    busy = _activity(doing, now) if doing is not None else ""
    parts = [(0, one_line(agent, 30)), *(_known(fold) if fold is not None else ()), (3, f"access {access}")]
    room = width - 1 - (columns(busy) + len(_BETWEEN) if busy else 0)
    while len(parts) > 1 and _length(parts) > room:
        parts.remove(max(parts, key=lambda part: part[0]))
    line = one_line(_BETWEEN.join(text for _, text in parts), max(0, room))
    if not busy:
        return (Span(line, "dim"),)
    return Span(busy, "bold"), Span(f"{_BETWEEN}{line}" if room > 0 else "", "dim")


def _known(fold: SessionFold) -> list[tuple[int, str]]:
    """Each with its rank: the highest goes first where there is no room."""
    usage = fold.usage
    cost, context = cost_part(usage), context_part(usage)
    return [
        _setting(fold, "model", 2),
        _setting(fold, "mode", 4),
        (1, f"context {context}") if context else (6, f"context {_UNKNOWN}"),
        (5, cost) if cost else (7, f"cost {_UNKNOWN}"),
    ]


def _setting(fold: SessionFold, category: str, rank: int) -> tuple[int, str]:
    setting = fold.setting(category)
    if setting is None or setting.current is None:
        return rank + 4, f"{category} {_UNKNOWN}"
    return rank, f"{category} {one_line(_name(setting), 30)}"


def _name(setting: rows.Setting) -> str:
    """What is typed to choose it."""
    return str(setting.current)


def _length(parts: list[tuple[int, str]]) -> int:
    return sum(columns(text) for _, text in parts) + len(_BETWEEN) * (len(parts) - 1)


def _activity(doing: Doing, now: float) -> str:
    elapsed = max(0.0, now - doing.since)
    return f"{FRAMES[int(elapsed / FRAME_TIME) % len(FRAMES)]} {doing.what} {elapsed:.0f}s"
