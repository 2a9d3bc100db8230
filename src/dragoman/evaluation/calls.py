"""What was called through our tools, and which of the agent's tool calls each was.

A `Call` is told twice: when it begins (`outcome` is "running") and when it has ended; both have the same `id`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, Literal, Protocol, TypeAlias

import msgspec

Outcome = Literal["running", "ok", "error", "refused", "cancelled"]
"""`refused`: the arguments did not fit, and the function was not run."""


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """One call of a tool of ours."""

    id: str  # ours; the agent is shown it beside an error that it is not told more of
    name: str  # the tool's
    arguments: Any  # JSON, as the agent sent it
    read_only: bool = False  # the tool said of itself that it changes nothing
    outcome: Outcome = "running"
    result: Any = None  # JSON, of a call that went well
    error: str | None = None  # what the agent was told
    traceback: str | None = None  # of what the tool raised; for the caller, the agent never sees it
    started: float  # seconds since the epoch
    duration: float | None = None  # seconds; None while it runs
    tool_call_id: str | None = None  # the agent's id of it, where `link` found one

    @property
    def finished(self) -> bool:
        return self.outcome != "running"


OnCall: TypeAlias = Callable[[Call], None]


class Reported(Protocol):
    """A tool call as the agent reports it: a row of the record, or the event's."""

    @property
    def tool_call_id(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def name(self) -> str | None: ...
    @property
    def raw_input(self) -> Any: ...


def link(calls: Iterable[Call], reported: Iterable[Reported]) -> tuple[Call, ...]:
    """The calls, each with the id of the agent's tool call that it was.

    Agents do not say which is which. They name the tool in the call's name or title, each in its own way, and most
    repeat the arguments; equal ones are taken in order. A call that nothing speaks for stays without.
    """
    linked = list(calls)
    free = list(reported)
    for fits in (_same_call, _same_name, _same_arguments):
        for position, call in enumerate(linked):
            found = next((row for row in free if call.tool_call_id is None and fits(call, row)), None)
            if found is not None:
                free.remove(found)
                linked[position] = msgspec.structs.replace(call, tool_call_id=found.tool_call_id)
    return tuple(linked)


def _same_call(call: Call, row: Reported) -> bool:
    return _names(call, row) and _repeats(call, row)


def _same_name(call: Call, row: Reported) -> bool:
    """Named, and no arguments that speak against it: some agents report none, or only what they show."""
    return _names(call, row) and not row.raw_input


def _same_arguments(call: Call, row: Reported) -> bool:
    """Goose puts a title of the model's over the tool's name; the arguments stay."""
    return not row.name and bool(call.arguments) and _repeats(call, row)


def _names(call: Call, row: Reported) -> bool:
    """`mcp__dragoman__lookup`, `dragoman_lookup`, `dragoman.lookup`, `dragoman: look up`, `lookup (dragoman MCP …)`.

    Gemini puts an argument over some calls, but begins their ids with the name: `mcp_dragoman_lookup__…`.
    """
    wanted = _words(call.name)
    texts = (row.name, row.title, row.tool_call_id.rpartition("__")[0])
    return any(_words(text)[-len(wanted) :] == wanted for text in texts if text)


def _words(text: str) -> list[str]:
    return [word for word in re.split(r"[\W_]+", re.sub(r"\(.*\)$", "", text).lower()) if word]


def _repeats(call: Call, row: Reported) -> bool:
    """The arguments are the raw input, or a value in it (`{"tool": …, "arguments": …}`)."""
    given = row.raw_input
    if given == call.arguments:
        return True
    return isinstance(given, dict) and any(value == call.arguments for value in given.values() if value)
