"""Usage accounting: tokens and costs of runs, added up from the rows of the journal. Pure.

A figure that an agent did not report is None, never zero: a sum says how many runs each of its figures is made of.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, Literal, TypeAlias

import msgspec

from dragoman.journal.rows import Session, SessionSummary
from dragoman.record.rows import Usage
from dragoman.wire.dialect import MessageTokens

GroupBy: TypeAlias = Literal["day", "agent", "model", "workspace"]

TOKEN_FIGURES: Final = ("input_tokens", "cached_tokens", "output_tokens", "thought_tokens", "total_tokens")


class RunUsage(msgspec.Struct, frozen=True, kw_only=True):
    """One run and its own share of the usage of its session."""

    time: float
    agent: str
    workspace: str
    model: str | None
    usage: Usage
    messages: tuple[MessageTokens, ...] = ()  # those that the tokens are the sum of, where a transcript has them


class UsageSum(msgspec.Struct, frozen=True, kw_only=True):
    """The usage of several runs. `reported` says how many of the runs each figure is made of."""

    key: str | None
    runs: int
    figures: dict[str, int | None]
    cost: dict[str, float]  # by currency; empty where no run reported any
    reported: dict[str, int]


def usage_by_run(session: Session, summary: SessionSummary, *, cumulative: bool) -> Iterator[RunUsage]:
    """Split the usage of a session into that of its runs. All agents report the cost of the session so far; with
    `cumulative`, the agent does so with tokens too."""
    reports = {report.id: report for report in summary.usage}
    before = Usage()
    for run in summary.runs:
        report = reports.get(run.id)
        own_usage = Usage()
        if report is not None:
            own_usage = usage_of_run(before, report.usage, cumulative=cumulative)
            before = latest_usage(before, report.usage)
        yield RunUsage(
            time=run.ended_time or run.time,
            agent=session.agent,
            workspace=session.cwd,
            model=report.model if report is not None else None,
            usage=own_usage,
            messages=report.messages if report is not None else (),
        )


def usage_of_sessions(
    sessions: Iterable[Session], summaries: Mapping[str, SessionSummary], *, cumulative_agents: Container[str]
) -> Iterator[RunUsage]:
    """Split the usage of these sessions into that of their runs, and count each message once.

    A session that was forked, or resumed under another id, repeats messages of another one. They count in the session
    that began first; a run that only repeats others is left out.
    """
    counted: set[str] = set()
    for session in sorted(sessions, key=lambda session: (session.created, session.id)):
        is_cumulative = session.agent in cumulative_agents
        for run in usage_by_run(session, summaries[session.id], cumulative=is_cumulative):
            repeated = [message for message in run.messages if message.message_id in counted]
            counted.update(message.message_id for message in run.messages)
            if not repeated:
                yield run
            elif len(repeated) < len(run.messages):
                yield msgspec.structs.replace(run, usage=_without_messages(run.usage, repeated))


def _without_messages(usage: Usage, messages: Sequence[MessageTokens]) -> Usage:
    inputs = sum(message.input_tokens for message in messages)
    outputs = sum(message.output_tokens for message in messages)
    cached = sum(message.cached_read_tokens or 0 for message in messages)
    written = sum(message.cached_write_tokens or 0 for message in messages)
    repeated = {
        "input_tokens": inputs,
        "cached_tokens": cached,
        "output_tokens": outputs,
        "total_tokens": inputs + outputs + cached + written,
    }
    figures = {
        name: getattr(usage, name) - count for name, count in repeated.items() if getattr(usage, name) is not None
    }
    return msgspec.structs.replace(usage, **figures)


def usage_of_run(before: Usage, after: Usage, *, cumulative: bool) -> Usage:
    """Return a run's share of the figures reported after it. A figure that went down started again from zero."""
    tokens = {
        name: _increase(getattr(before, name), getattr(after, name)) if cumulative else getattr(after, name)
        for name in TOKEN_FIGURES
    }
    cost = after.cost
    if cost is not None and before.cost is not None and before.cost.currency == cost.currency:
        cost = msgspec.structs.replace(cost, amount=_increase(before.cost.amount, cost.amount) or 0)
    return msgspec.structs.replace(after, **tokens, cost=cost)


def _increase(before: Any, after: Any) -> Any:
    return after - before if after is not None and before is not None and after >= before else after


def latest_usage(before: Usage, after: Usage) -> Usage:
    """Return each figure as last reported; a report without a figure does not change it."""
    reported = {name: getattr(after, name) for name in Usage.__struct_fields__ if getattr(after, name) is not None}
    return msgspec.structs.replace(before, **reported)


def sum_usage_by(runs: Iterable[RunUsage], group_by: GroupBy) -> list[UsageSum]:
    """Return a sum for each group: days in their order, otherwise the groups with the most runs first."""
    key_of = _group_key(group_by)
    groups: dict[str | None, list[RunUsage]] = {}
    for run in runs:
        groups.setdefault(key_of(run), []).append(run)
    sums = [sum_usage(group, key) for key, group in groups.items()]
    if group_by == "day":
        return sorted(sums, key=lambda usage_sum: usage_sum.key or "")
    return sorted(sums, key=lambda usage_sum: (-usage_sum.runs, usage_sum.key or ""))


def _group_key(group_by: GroupBy) -> Callable[[RunUsage], str | None]:
    match group_by:
        case "day":
            return lambda run: datetime.fromtimestamp(run.time).astimezone().date().isoformat() if run.time else None
        case "agent":
            return lambda run: run.agent or None
        case "model":
            return lambda run: run.model
        case "workspace":
            return lambda run: run.workspace or None


def sum_usage(runs: Iterable[RunUsage], key: str | None = None) -> UsageSum:
    count = 0
    figures: dict[str, int | None] = dict.fromkeys(TOKEN_FIGURES)
    reported = dict.fromkeys((*TOKEN_FIGURES, "cost"), 0)
    cost: dict[str, float] = {}
    for run in runs:
        count += 1
        for name in TOKEN_FIGURES:
            value = getattr(run.usage, name)
            if value is not None:
                figures[name] = (figures[name] or 0) + value
                reported[name] += 1
        if run.usage.cost is not None:
            currency = run.usage.cost.currency
            cost[currency] = cost.get(currency, 0.0) + run.usage.cost.amount
            reported["cost"] += 1
    return UsageSum(key=key, runs=count, figures=figures, cost=cost, reported=reported)


def usage_record(usage_sum: UsageSum, group_by: GroupBy) -> Mapping[str, object]:
    """Return a sum as JSON for programs."""
    costs = [{"amount": round(amount, 10), "currency": currency} for currency, amount in usage_sum.cost.items()]
    return {
        group_by: usage_sum.key,
        "runs": usage_sum.runs,
        **usage_sum.figures,
        "cost": costs or None,
        "reported": usage_sum.reported,
    }
