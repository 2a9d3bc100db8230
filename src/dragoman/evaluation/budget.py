"""`Budget`: limits of an evaluation; `Spending`: its usage so far, compared with the budget. Pure.

All agents report costs of the whole session so far, and tokens of a run, or, as their preset notes, of the session so
far: `usage_of_run` takes the difference. During a run agents report only the size of the context. At least that many
tokens were sent, so a budget of tokens can end a run before its final count is known.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from dragoman.errors import BudgetExceeded, BudgetNotReported, InputError
from dragoman.journal.usage import TOKEN_FIGURES, latest_usage, usage_of_run
from dragoman.record.rows import Usage

_MESSAGES: Final[dict[str, str]] = {
    "tokens": "{used:,.0f} tokens of {allowed:,.0f}",
    "cost_usd": "{used:.4g} USD of {allowed:.4g}",
    "tool_calls": "{used:,.0f} tool calls, and {allowed:,.0f} were allowed",
    "seconds": "{used:.4g} s of {allowed:.4g}",
}


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """Limits for all rounds and attempts of an evaluation together; None is no limit.

    The first tool call beyond `tool_calls` ends the evaluation. The other limits end it when they are reached.
    """

    tokens: int | None = None
    cost_usd: float | None = None
    tool_calls: int | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value: Any = getattr(self, name)
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if value is not None and not (number and (value > 0 or (name == "tool_calls" and value == 0))):
                raise InputError(f"Budget.{name} is {value!r}; expected a number, more than 0")


NO_BUDGET: Final = Budget()


class Spending:
    """Usage so far, compared with a budget."""

    def __init__(self, budget: Budget, *, cumulative: bool = False) -> None:
        self.budget = budget
        self.total = Usage()
        self.tool_calls = 0
        self._cumulative = cumulative
        self._session = Usage()  # reported by the session when the run began
        self._run = Usage()  # reported by it now
        self._estimated_tokens = 0  # at least, of runs that ended without reporting any

    def begin_session(self) -> None:
        self._session = Usage()

    def begin_run(self) -> None:
        self._run = Usage()

    def reported(self, usage: Usage) -> str | None:
        """Take the usage that the agent reports during a run; return the name of a budget that is used up."""
        self._run = usage
        return self.used_up()

    def counted(self, tool_calls: int) -> str | None:
        """Set the number of tool calls so far; return the name of a budget that is used up."""
        self.tool_calls = tool_calls
        return self.used_up()

    def end_run(self, usage: Usage) -> Usage:
        """Return the usage of a run by its final figures."""
        own = usage_of_run(self._session, usage, cumulative=self._cumulative)
        self.total = _sum(self.total, own)
        if own.total_tokens is None:
            self._estimated_tokens += self._run.context_used or 0
        self._session = latest_usage(self._session, usage)
        self._run = Usage()
        return own

    def used_up(self) -> str | None:
        """Return the name of the first budget that is used up, as far as the figures are known."""
        budget = self.budget
        if budget.tool_calls is not None and self.tool_calls > budget.tool_calls:
            return "tool_calls"
        if budget.tokens is not None and self.tokens >= budget.tokens:
            return "tokens"
        cost = self.cost_usd
        if budget.cost_usd is not None and cost is not None and cost >= budget.cost_usd:
            return "cost_usd"
        return None

    @property
    def tokens(self) -> int:
        """The tokens so far, at least."""
        return (self.total.total_tokens or 0) + self._estimated_tokens + (self._run.context_used or 0)

    @property
    def cost_usd(self) -> float | None:
        """The cost so far; None where none was reported in dollars."""
        now = usage_of_run(self._session, self._run, cumulative=True).cost
        amounts = [cost.amount for cost in (self.total.cost, now) if cost is not None and cost.currency == "USD"]
        return sum(amounts) if amounts else None

    def exceeded(self, name: str, *, seconds: float = 0.0) -> BudgetExceeded:
        allowed: float = getattr(self.budget, name)
        used = {
            "tokens": float(self.tokens),
            "cost_usd": self.cost_usd or 0.0,
            "tool_calls": float(self.tool_calls),
            "seconds": seconds,
        }[name]
        message = _MESSAGES[name].format(used=used, allowed=allowed)
        return BudgetExceeded(f"the budget {name} is used up: {message}", budget=name, used=used, allowed=allowed)

    def not_reported(self, agent: str) -> BudgetNotReported | None:
        """Return the error of a budget whose figure the agent did not report by the end of a run."""
        budget, total = self.budget, self.total
        if budget.tokens is not None and total.total_tokens is None:
            return BudgetNotReported(
                f"a budget of {budget.tokens:,} tokens is set, and {agent} does not report its tokens", budget="tokens"
            )
        if budget.cost_usd is not None and (total.cost is None or total.cost.currency != "USD"):
            how = "its cost" if total.cost is None else f"its cost in dollars, but in {total.cost.currency}"
            return BudgetNotReported(
                f"a budget of {budget.cost_usd:g} USD is set, and {agent} does not report {how}", budget="cost_usd"
            )
        return None


def _sum(total: Usage, more: Usage) -> Usage:
    tokens = {name: _add(getattr(total, name), getattr(more, name)) for name in TOKEN_FIGURES}
    cost = more.cost or total.cost
    if cost is not None and total.cost is not None and more.cost is not None and total.cost.currency == cost.currency:
        cost = msgspec.structs.replace(cost, amount=total.cost.amount + more.cost.amount)
    context = Usage(
        context_used=more.context_used if more.context_used is not None else total.context_used,
        context_size=more.context_size if more.context_size is not None else total.context_size,
        cost=cost,
    )
    return msgspec.structs.replace(context, **tokens)


def _add(left: int | None, right: int | None) -> int | None:
    return left if right is None else right if left is None else left + right
