"""Usage, run by run, compared with a budget."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.errors import InputError
from dragoman.evaluation.budget import Budget, Spending
from dragoman.journal.usage import usage_of_run
from dragoman.record.rows import Usage
from dragoman.wire.vocabulary import Cost


def dollars(amount: float) -> Cost:
    return Cost(amount=amount, currency="USD")


@settings(deadline=None)  # the machine may be busy
@given(runs=st.lists(st.integers(0, 10**9), max_size=6))
def test_usage_that_adds_up_is_taken_apart_into_runs_and_sums_to_the_same(runs: list[int]) -> None:
    spending = Spending(Budget(), cumulative=True)
    so_far = 0
    for run in runs:
        so_far += run
        spending.begin_run()
        assert spending.end_run(Usage(total_tokens=so_far, cost=dollars(so_far))).total_tokens == run
    assert (spending.total.total_tokens or 0) == sum(runs)
    assert spending.total.cost is None or spending.total.cost.amount == sum(runs)


@settings(deadline=None)  # the machine may be busy
@given(runs=st.lists(st.integers(0, 10**9), max_size=6))
def test_usage_of_each_run_is_added_up(runs: list[int]) -> None:
    spending = Spending(Budget())
    for run in runs:
        assert spending.end_run(Usage(total_tokens=run)).total_tokens == run
    assert (spending.total.total_tokens or 0) == sum(runs)


def test_a_figure_that_decreased_started_again() -> None:
    after = usage_of_run(
        Usage(total_tokens=500, cost=dollars(2)), Usage(total_tokens=80, cost=dollars(0.5)), cumulative=True
    )
    assert (after.total_tokens, after.cost) == (80, dollars(0.5))


def test_a_figure_that_was_not_reported_stays_unknown() -> None:
    spending = Spending(Budget(tokens=10))
    spending.end_run(Usage())
    assert spending.total == Usage()
    assert spending.not_reported("x") is not None


def test_a_run_that_says_nothing_takes_nothing_back() -> None:
    spending = Spending(Budget(), cumulative=True)
    for usage in (Usage(total_tokens=100), Usage(), Usage(total_tokens=130)):
        spending.begin_run()
        spending.end_run(usage)
    assert spending.total.total_tokens == 130


def test_the_cost_of_a_new_session_begins_at_nothing_and_counts_all_the_same() -> None:
    spending = Spending(Budget(cost_usd=5))
    for _ in range(2):
        spending.begin_session()
        spending.begin_run()
        assert spending.reported(Usage(cost=dollars(2))) is None
        spending.end_run(Usage(cost=dollars(2)))
    spending.begin_session()
    spending.begin_run()
    assert spending.reported(Usage(cost=dollars(1))) == "cost_usd"


def test_a_budget_of_calls_allows_that_many() -> None:
    spending = Spending(Budget(tool_calls=2))
    assert [spending.counted(number) for number in (1, 2, 3)] == [None, None, "tool_calls"]


@pytest.mark.parametrize(
    "given", [{"tokens": 0}, {"cost_usd": -1}, {"seconds": "3"}, {"tool_calls": -1}, {"tokens": True}]
)
def test_a_budget_that_cannot_be_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=next(iter(given))):
        Budget(**given)
