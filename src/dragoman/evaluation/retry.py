"""Whether an evaluation that failed is tried again, and when. Pure.

Trying again means a new session and the prompt from its beginning. What was done in the world is not undone by it:
after a tool that may have changed something, an evaluation is not tried again unless the caller says so.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

import msgspec

from dragoman.errors import BudgetExceeded, Category, DeadlineExceeded, DragomanError, InputError
from dragoman.evaluation.calls import Call
from dragoman.record import rows

# Kinds of an agent's own tool calls that leave everything as it was.
HARMLESS: Final = ("read", "search", "think", "fetch")


class Retry(msgspec.Struct, frozen=True, kw_only=True):
    """`attempts` in all, the first included. The pause before the second is `backoff` seconds, then `factor` times as
    much each time, and never more than `longest`."""

    attempts: int = 3
    categories: tuple[Category, ...] = ("transient",)
    backoff: float = 1.0
    factor: float = 2.0
    longest: float = 30.0
    after_side_effects: bool = False

    def __post_init__(self) -> None:
        if self.attempts < 1 or self.backoff < 0 or self.factor < 1 or self.longest < 0:
            raise InputError(f"{self!r}: expected attempts and factor of 1 or more, and no pause below 0")

    def pause(self, failed: int) -> float:
        """Seconds to wait after so many failed attempts."""
        # Capped before it is raised to a power: a float has an end.
        return min(self.longest, self.backoff * self.factor ** min(failed - 1, 64))

    def again(self, problem: DragomanError, failed: int, *, side_effects: bool) -> bool:
        """Whether to try again after so many failed attempts, the last of which ended with this."""
        if failed >= self.attempts or problem.category not in self.categories:
            return False
        if isinstance(problem, DeadlineExceeded | BudgetExceeded):  # they hold for all attempts together
            return False
        return self.after_side_effects or not side_effects


NO_RETRY: Final = Retry(attempts=1)


def had_side_effects(calls: Iterable[Call], reported: Iterable[rows.ToolCall], refused: Collection[str | None]) -> bool:
    """Whether something may have been changed: by a tool of the caller's, or by one of the agent's own.

    `calls` are linked to what the agent reported; `refused` are the ids of tool calls that were not allowed. In doubt
    it was: a tool that failed may have got half way.
    """
    calls = tuple(calls)
    ours = {call.tool_call_id for call in calls if call.tool_call_id is not None}
    if any(not call.read_only and call.outcome != "refused" for call in calls):
        return True
    return any(
        row.kind not in HARMLESS and row.tool_call_id not in ours and row.tool_call_id not in refused
        for row in reported
    )
