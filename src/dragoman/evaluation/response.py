"""Input and result of an evaluation: `EvaluationPrompt`, `PromptResponse`, `EvaluationStats`; and `RetryPolicy`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, Final, Generic, TypeVar

import msgspec

from dragoman.errors import BudgetExceeded, Category, DeadlineExceeded, DragomanError, IdleLimitExceeded, InputError
from dragoman.evaluation.tool import Tool
from dragoman.evaluation.toolbox import Call
from dragoman.evaluation.types import Type
from dragoman.record import rows
from dragoman.session.prompt import Input
from dragoman.session.spec import check_type, field_types

T = TypeVar("T")


class EvaluationPrompt(msgspec.Struct, frozen=True, kw_only=True):
    """A prompt with its tools and the type of its output."""

    text: Input
    tools: Sequence[Tool | Callable[..., Any]] = ()
    output_type: Type = None


class EvaluationStats(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of an evaluation. A figure that the agent did not report is None, never zero."""

    agent: str = ""
    agent_version: str | None = None
    session_id: str | None = None  # of the last attempt
    rounds: int = 0  # prompts of the last attempt
    attempts: int = 1
    duration: float = 0.0  # seconds, the agent's start included
    usage: rows.Usage = rows.Usage()  # of all rounds and attempts
    calls: int = 0  # of tools, the agent's own and the caller's, in all attempts; handing over the output is none
    tool_calls: tuple[Call, ...] = ()  # of the caller's tools, with arguments, result and duration
    reported: tuple[rows.ToolCall, ...] = ()  # all tool calls, as the agent reports them
    refused: int = 0  # requests of the agent that were not allowed
    cwd: str | None = None  # the agent's folder; of an isolated evaluation it is there until the guards have run
    limit: str | None = None  # which limit ended it: deadline, idle_limit, or a budget's name
    over_budget: str | None = None  # a budget that turned out to be used up only after the last run


class PromptResponse(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """`output` has the requested type; `text` is the agent's answer in the last round."""

    output: T
    text: str
    stop_reason: str | None
    stats: EvaluationStats


def limit_of(error: DragomanError) -> str | None:
    """Return the name of the limit that ended an evaluation, where one did."""
    match error:
        case BudgetExceeded():
            return error.budget
        case DeadlineExceeded():
            return "deadline"
        case IdleLimitExceeded():
            return "idle_limit"
        case _:
            return None


# Kinds of an agent's own tool calls that leave everything as it was.
HARMLESS_KINDS: Final = ("read", "search", "think", "fetch")


class RetryPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """`attempts` in all, the first included. The pause before the second is `backoff` seconds, then `factor` times as
    much each time, and never more than `max_backoff`."""

    attempts: int = 3
    categories: tuple[Category, ...] = ("transient",)
    backoff: float = 1.0
    factor: float = 2.0
    max_backoff: float = 30.0
    after_side_effects: bool = False

    def __post_init__(self) -> None:
        for name in RetryPolicy.__struct_fields__:
            check_type(_RETRY_TYPES, name, getattr(self, name))
        if self.attempts < 1 or self.backoff < 0 or self.factor < 1 or self.max_backoff < 0:
            raise InputError(f"{self!r}: expected attempts and factor of 1 or more, and no pause below 0")

    def pause(self, failed: int) -> float:
        """Return the seconds to wait after so many failed attempts."""
        # Capped before it is raised to a power: a float has an end.
        return min(self.max_backoff, self.backoff * self.factor ** min(failed - 1, 64))

    def should_retry(self, error: DragomanError, failed: int, *, side_effects: bool) -> bool:
        """Return whether to try again after `failed` attempts, the last of which raised `error`."""
        if failed >= self.attempts or error.category not in self.categories:
            return False
        if isinstance(error, DeadlineExceeded | BudgetExceeded):  # they hold for all attempts together
            return False
        return self.after_side_effects or not side_effects


_RETRY_TYPES: Final = field_types(RetryPolicy)

NO_RETRY: Final = RetryPolicy(attempts=1)


def had_side_effects(calls: Iterable[Call], reported: Iterable[rows.ToolCall], refused: Collection[str | None]) -> bool:
    """Return whether a tool of the caller or of the agent may have changed something.

    `calls` are linked to what the agent reported; `refused` are the ids of tool calls that were not allowed. In doubt
    it was: a tool that failed may have got half way.
    """
    calls = tuple(calls)
    ours = {call.tool_call_id for call in calls if call.tool_call_id is not None}
    if any(not call.read_only and call.outcome != "refused" for call in calls):
        return True
    return any(
        row.kind not in HARMLESS_KINDS and row.tool_call_id not in ours and row.tool_call_id not in refused
        for row in reported
    )
