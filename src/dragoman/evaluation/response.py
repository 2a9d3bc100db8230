"""What goes into an evaluation and what comes out of it: `Prompt`, `PromptResponse`, `Stats`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import msgspec

from dragoman.errors import BudgetExceeded, DeadlineExceeded, DragomanError, IdleLimitExceeded
from dragoman.evaluation.calls import Call
from dragoman.evaluation.tool import Tool
from dragoman.evaluation.types import Type
from dragoman.record import rows
from dragoman.session.prompt import Input

T = TypeVar("T")


class Prompt(msgspec.Struct, frozen=True, kw_only=True):
    """A prompt that carries what it needs: its tools, and the type of its output."""

    text: Input
    tools: Sequence[Tool | Callable[..., Any]] = ()
    output_type: Type = None


class Stats(msgspec.Struct, frozen=True, kw_only=True):
    """How an evaluation went. What the agent did not report is None, never zero."""

    agent: str = ""
    agent_version: str | None = None
    session_id: str | None = None  # of the last attempt
    rounds: int = 0  # prompts of the last attempt
    attempts: int = 1
    duration: float = 0.0  # seconds, the agent's start included
    usage: rows.Usage = rows.Usage()  # of all rounds and attempts
    calls: int = 0  # of tools, the agent's own and the caller's, in all attempts; handing over the output is none
    tool_calls: tuple[Call, ...] = ()  # of the caller's tools, with arguments, result and duration
    reported: tuple[rows.ToolCall, ...] = ()  # all tool calls, as the agent tells of them
    refused: int = 0  # requests of the agent that were not allowed
    limit: str | None = None  # which limit ended it: deadline, idle_limit, or a budget's name
    over_budget: str | None = None  # a budget that was found used up only when all was done


class PromptResponse(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """`output` is of the type that was asked for; `text` is what the agent said in the last round."""

    output: T
    text: str
    stop_reason: str | None
    stats: Stats


def limit_of(problem: DragomanError) -> str | None:
    """The limit that ended it, where one did."""
    match problem:
        case BudgetExceeded():
            return problem.budget
        case DeadlineExceeded():
            return "deadline"
        case IdleLimitExceeded():
            return "idle_limit"
        case _:
            return None
