"""What runs used, added up. Pure.

What an agent did not report is no zero: a sum knows of how many runs it is made, and one of none is None.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Final, Literal, TypeAlias

import msgspec

from dragoman.evaluation.budget import per_run
from dragoman.journal.glance import Glance
from dragoman.journal.rows import Session
from dragoman.record.rows import Usage

By: TypeAlias = Literal["day", "agent", "model", "workspace"]

FIGURES: Final = ("input_tokens", "cached_tokens", "output_tokens", "thought_tokens", "total_tokens")


class Spent(msgspec.Struct, frozen=True, kw_only=True):
    """One run. `usage` is its own share alone."""

    time: float
    agent: str
    workspace: str
    model: str | None
    usage: Usage


class Sum(msgspec.Struct, frozen=True, kw_only=True):
    """`reported` tells how many of the runs each figure is made of."""

    key: str | None
    runs: int
    figures: dict[str, int | None]
    cost: dict[str, float]  # by currency; empty where none was reported
    reported: dict[str, int]


def spent(session: Session, known: Glance, *, cumulative: bool) -> Iterator[Spent]:
    """The runs of a session. Costs are the session's so far, in all agents; with `cumulative`, tokens are too."""
    reported = {one.id: one for one in known.usage}
    before = Usage()
    for run in known.runs:
        told = reported.get(run.id)
        own = Usage()
        if told is not None:
            own = per_run(before, told.usage, cumulative=cumulative)
            before = _latest(before, told.usage)
        yield Spent(
            time=run.ended_time or run.time,
            agent=session.agent,
            workspace=session.cwd,
            model=told.model if told is not None else None,
            usage=own,
        )


def _latest(before: Usage, after: Usage) -> Usage:
    told = {name: getattr(after, name) for name in (*FIGURES, "cost") if getattr(after, name) is not None}
    return msgspec.structs.replace(before, **told)


def key_by(by: By) -> Callable[[Spent], str | None]:
    match by:
        case "day":
            return lambda one: datetime.fromtimestamp(one.time).astimezone().date().isoformat()
        case "agent":
            return lambda one: one.agent or None
        case "model":
            return lambda one: one.model
        case "workspace":
            return lambda one: one.workspace or None


def summed(runs: Iterable[Spent], by: By) -> list[Sum]:
    """Days in their order; else those with the most runs first."""
    key_of = key_by(by)
    groups: dict[str | None, list[Spent]] = {}
    for one in runs:
        groups.setdefault(key_of(one), []).append(one)
    sums = [total(group, key) for key, group in groups.items()]
    if by == "day":
        return sorted(sums, key=lambda one: one.key or "")
    return sorted(sums, key=lambda one: (-one.runs, one.key or ""))


def total(runs: Iterable[Spent], key: str | None = None) -> Sum:
    count = 0
    figures: dict[str, int | None] = dict.fromkeys(FIGURES)
    reported = dict.fromkeys((*FIGURES, "cost"), 0)
    cost: dict[str, float] = {}
    for one in runs:
        count += 1
        for name in FIGURES:
            value = getattr(one.usage, name)
            if value is not None:
                figures[name] = (figures[name] or 0) + value
                reported[name] += 1
        if one.usage.cost is not None:
            cost[one.usage.cost.currency] = cost.get(one.usage.cost.currency, 0.0) + one.usage.cost.amount
            reported["cost"] += 1
    return Sum(key=key, runs=count, figures=figures, cost=cost, reported=reported)


def record_of(one: Sum, by: By) -> Mapping[str, object]:
    return {
        by: one.key,
        "runs": one.runs,
        **one.figures,
        "cost": [{"amount": round(amount, 10), "currency": currency} for currency, amount in one.cost.items()] or None,
        "reported": one.reported,
    }
