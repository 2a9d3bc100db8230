"""What a run brought, and the error it ended with."""

from __future__ import annotations

from typing import Literal

import msgspec

from dragoman.errors import AgentCrashed, DragomanError, SilentFailure, StoppedEarly
from dragoman.record import rows
from dragoman.wire.connection import error_from_reply

RunOutcome = Literal["success", "cancelled", "error"]

_EARLY_STOPS = {
    "max_tokens": ("the agent reached its token limit", "Ask it to go on, or give it a smaller task."),
    "max_turn_requests": ("the agent reached its limit of model requests in one run", "Ask it to go on."),
    "refusal": ("the agent refused to go on", "Say it another way; the agent keeps nothing of this prompt."),
}


class RunResult(msgspec.Struct, frozen=True, kw_only=True):
    """`text` is all that the agent said in the run, a blank line between its messages."""

    run_id: str
    session_id: str
    status: RunOutcome
    text: str
    stop_reason: str | None
    usage: rows.Usage
    duration: float
    messages: tuple[str, ...] = ()
    tool_calls: tuple[rows.ToolCall, ...] = ()


def failure_of(run: rows.Run, agent: str, stderr: str) -> DragomanError | None:
    """Why a run that the agent ended did not end well; None when it did, or was cancelled."""
    if run.status in ("success", "cancelled", "running"):
        return None
    if run.error is not None:
        return error_from_reply("session/prompt", run.error)
    if run.status == "interrupted":
        return AgentCrashed(run.reason or f"{agent} ended during the run", stderr=stderr)
    if run.reason == "silent":
        hint = f"; its last lines were:\n{stderr}" if stderr else ""
        return SilentFailure(f"{agent} ended its turn without a word{hint}", stderr=stderr)
    message, guidance = _EARLY_STOPS.get(
        run.stop_reason or "", (f"the agent stopped for a reason we do not know: {run.stop_reason!r}", "")
    )
    return StoppedEarly(message, stop_reason=run.stop_reason or "", guidance=guidance)
