"""Usage accounting: what agents reported, added up, and nothing that they did not report."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from dragoman.journal.rows import Session, SessionSummary
from dragoman.journal.rows import Usage as UsageReport
from dragoman.journal.usage import RunUsage, sum_usage, sum_usage_by, usage_by_run, usage_of_sessions
from dragoman.record.rows import Run, Usage
from dragoman.wire.dialect import MessageTokens
from dragoman.wire.vocabulary import Cost

# An afternoon, so that no time zone moves it to another day.
NOON = 1_794_744_000.0

SESSION = Session(id="s1", agent="demo", cwd="/w")


def summary(*usages: Usage | None) -> SessionSummary:
    """A session with a run for each of them; None is one whose agent reported nothing."""
    runs = [Run(id=f"r{n}", time=NOON, ended_time=NOON + n, status="success") for n in range(len(usages))]
    reported = [
        UsageReport(id=f"r{n}", time=NOON + n, model="m", usage=one) for n, one in enumerate(usages) if one is not None
    ]
    return SessionSummary(runs, reported)


def cost(amount: float, currency: str = "USD") -> Usage:
    return Usage(cost=Cost(amount=amount, currency=currency))


def runs(*usages: Usage | None, cumulative: bool = False) -> list[RunUsage]:
    return list(usage_by_run(SESSION, summary(*usages), cumulative=cumulative))


def test_an_unreported_figure_is_not_zero() -> None:
    one = sum_usage(runs(None, None))
    assert one.runs == 2
    assert set(one.figures.values()) == {None}
    assert one.cost == {}


def test_a_reported_zero_is_one() -> None:
    one = sum_usage(runs(Usage(input_tokens=0), cost(0.0)))
    assert (one.figures["input_tokens"], one.figures["output_tokens"]) == (0, None)
    assert one.cost == {"USD": 0.0}


def test_a_sum_knows_of_how_many_runs_it_is_made() -> None:
    one = sum_usage(runs(Usage(output_tokens=5), None, Usage(output_tokens=7)))
    assert (one.runs, one.figures["output_tokens"], one.reported["output_tokens"]) == (3, 12, 2)


def test_costs_are_the_sessions_so_far_and_counted_once() -> None:
    assert [one.usage.cost.amount for one in runs(cost(0.5), cost(0.75), cost(1.0)) if one.usage.cost] == [
        0.5,
        0.25,
        0.25,
    ]
    assert sum_usage(runs(cost(0.5), None, cost(1.0))).cost == {"USD": 1.0}


def test_a_cost_that_decreased_was_reset() -> None:
    assert sum_usage(runs(cost(2.0), cost(0.5))).cost == {"USD": 2.5}


def test_currencies_are_never_added_to_each_other() -> None:
    assert sum_usage([*runs(cost(2.0)), *runs(cost(3.0, "EUR"))]).cost == {"USD": 2.0, "EUR": 3.0}


def test_accumulated_tokens_are_split_by_run() -> None:
    reports = (Usage(input_tokens=10), None, Usage(input_tokens=25))
    assert sum_usage(runs(*reports, cumulative=True)).figures["input_tokens"] == 25
    assert sum_usage(runs(*reports)).figures["input_tokens"] == 35


def test_groups_are_days_in_their_order_or_those_with_the_most_runs_first() -> None:
    def run(day: int, agent: str, model: str | None = None) -> RunUsage:
        return RunUsage(time=NOON + day * 86_400, agent=agent, workspace="/w", model=model, usage=Usage())

    some = [run(2, "b"), run(0, "a", "m"), run(1, "b")]
    days = [datetime.fromtimestamp(NOON + n * 86_400).astimezone().date().isoformat() for n in range(3)]
    assert [one.key for one in sum_usage_by(some, "day")] == days
    assert [(one.key, one.runs) for one in sum_usage_by(some, "agent")] == [("b", 2), ("a", 1)]
    assert [(one.key, one.runs) for one in sum_usage_by(some, "model")] == [(None, 2), ("m", 1)]
    assert [(one.key, one.runs) for one in sum_usage_by(some, "workspace")] == [("/w", 3)]


# -- sessions that repeat others


def _reported(*messages: MessageTokens) -> Usage:
    return Usage(
        input_tokens=sum(one.input_tokens for one in messages),
        cached_tokens=sum(one.cached_read_tokens or 0 for one in messages),
        output_tokens=sum(one.output_tokens for one in messages),
        total_tokens=sum(
            one.input_tokens + one.output_tokens + (one.cached_read_tokens or 0) + (one.cached_write_tokens or 0)
            for one in messages
        ),
    )


def _session(id_: str, created: float, *runs_: Sequence[MessageTokens]) -> tuple[Session, SessionSummary]:
    rows = [Run(id=f"r{n}", time=NOON, ended_time=NOON, status="success") for n in range(len(runs_))]
    usage = [
        UsageReport(id=f"r{n}", time=NOON, model="m", usage=_reported(*messages), messages=tuple(messages))
        for n, messages in enumerate(runs_)
    ]
    return Session(id=id_, agent="claude", cwd=f"/{id_}", created=created), SessionSummary(rows, usage)


A, B, C = (MessageTokens(id_, 10, 5, 100, 7) for id_ in "abc")


def _usage_of(*sessions: tuple[Session, SessionSummary]) -> list[RunUsage]:
    summaries = {session.id: summary for session, summary in sessions}
    return list(usage_of_sessions([session for session, _ in sessions], summaries, cumulative_agents=()))


def test_a_message_that_a_fork_repeats_counts_once_in_the_older_session() -> None:
    original = _session("old", 1.0, [A], [B])
    fork = _session("new", 2.0, [A], [B, C])  # its second run went on
    for sessions in ((original, fork), (fork, original)):
        used = _usage_of(*sessions)
        assert [(run.workspace, run.usage) for run in used] == [
            ("/old", _reported(A)),
            ("/old", _reported(B)),
            ("/new", _reported(C)),
        ]


def test_messages_of_a_fork_count_if_the_original_is_not_there() -> None:
    assert sum_usage(_usage_of(_session("new", 2.0, [A], [B, C]))).figures["total_tokens"] == 3 * 122


def test_sessions_that_began_at_the_same_time_count_in_any_order_alike() -> None:
    twins = _session("x", 1.0, [A]), _session("y", 1.0, [A], [B])
    expected = [("/x", 122), ("/y", 122)]
    for sessions in (twins, twins[::-1]):
        assert [(run.workspace, run.usage.total_tokens) for run in _usage_of(*sessions)] == expected
