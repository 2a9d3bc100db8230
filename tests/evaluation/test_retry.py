"""When a failed evaluation is tried again."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.errors import (
    AgentCrashed,
    BudgetExceeded,
    DeadlineExceeded,
    DragomanError,
    IdleLimitExceeded,
    InputError,
    RequestFailed,
    StartTimeout,
)
from dragoman.evaluation.response import NO_RETRY, RetryPolicy


def refused(code: int) -> RequestFailed:
    return RequestFailed("no", method="session/prompt", code=code)


@pytest.mark.parametrize(
    ("problem", "again"),
    [
        (refused(-32603), True),
        (StartTimeout("slow"), True),
        (IdleLimitExceeded("silent"), True),
        (DeadlineExceeded("late"), False),
        (BudgetExceeded("spent", budget="tokens", allowed=1), False),
        (refused(-32602), False),
        (refused(-32000), False),
        (refused(-32800), False),
        (AgentCrashed("gone"), False),
    ],
)
def test_the_category_decides_and_limits_of_the_whole_are_final(problem: DragomanError, again: bool) -> None:
    assert RetryPolicy().should_retry(problem, 1, side_effects=False) is again
    assert not RetryPolicy().should_retry(problem, 3, side_effects=False)
    assert not RetryPolicy().should_retry(problem, 1, side_effects=True)
    assert not NO_RETRY.should_retry(problem, 1, side_effects=False)


def test_other_categories_can_be_chosen() -> None:
    assert RetryPolicy(categories=("agent",)).should_retry(AgentCrashed("gone"), 1, side_effects=False)


@settings(deadline=None)  # the machine may be busy
@given(failed=st.integers(1, 10_000))
def test_the_pauses_grow_up_to_the_longest(failed: int) -> None:
    retry = RetryPolicy(backoff=0.5, factor=2, max_backoff=10)
    assert 0.5 <= retry.pause(failed) <= retry.pause(failed + 1) <= 10


def test_a_retry_that_cannot_be_is_refused() -> None:
    with pytest.raises(InputError):
        RetryPolicy(attempts=0)
