"""The runs of a session: the prompt that began each, and its end."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from dragoman.errors import REQUEST_CANCELLED
from dragoman.record import notes, rows
from dragoman.wire import vocabulary as acp
from dragoman.wire.dialect import LATEST_VERSION, RunEnd, dialect_for
from dragoman.wire.lenient import decode_or_none
from dragoman.wire.messages import Reply, Request, RequestId

_dialect = dialect_for(LATEST_VERSION)


def covered_seconds(spans: Iterable[tuple[float, float]]) -> float:
    """Return the seconds that these spans of time (begin, end) cover; what several cover counts once."""
    seconds, covered_until = 0.0, 0.0
    for begin, end in sorted(spans):
        seconds += max(0.0, end - max(begin, covered_until))
        covered_until = max(covered_until, end)
    return seconds


class Runs(dict[str, rows.Run]):
    """Rows by id, in the order in which they began. For reading; only the fold changes it."""

    def __init__(self) -> None:
        super().__init__()
        self.current_id: str | None = None  # the id of the active run
        self._silent: set[str] = set()  # runs without a message, thought, tool call or plan so far
        self._prompts: dict[RequestId, str] = {}  # prompts without an answer: request id to run id
        self._announced: notes.Prompt | None = None

    def announce(self, prompt: notes.Prompt) -> None:
        """Take note of the user's own prompt; the next `session/prompt` sends it."""
        self._announced = prompt

    def start(self, position: int, time: float, request: Request) -> tuple[rows.Run, Sequence[acp.ContentBlock]]:
        """Begin the run of a `session/prompt`; return it and the user's own prompt."""
        announced, self._announced = self._announced, None
        run = rows.Run(
            id=announced.run_id if announced else f"run-{position}",
            time=time,
            position=position,
            context=announced.context if announced else None,
        )
        self[run.id] = run
        self._prompts[request.id] = run.id
        self.current_id = run.id
        self._silent.add(run.id)
        return run, announced.prompt if announced else _prompt_of(request)

    def mark_active(self) -> None:
        """Take note that the agent produced something: the current runs are not silent."""
        self._silent.clear()

    def request_cancel(self) -> None:
        for run_id in self._prompts.values():
            self[run_id] = msgspec.structs.replace(self[run_id], cancel_requested=True)

    def find_end(self, reply: Reply) -> tuple[rows.Run, RunEnd] | None:
        """Return the run that this answer ends, and its end; None where it ends none."""
        run_id = self._prompts.get(reply.id)
        if run_id is None or (end := _dialect.run_end(reply)) is None:
            return None
        del self._prompts[reply.id]
        return self[run_id], end

    def end(self, run: rows.Run, time: float, end: RunEnd, usage: rows.Usage) -> rows.Run:
        status, reason = self._outcome(run, end)
        closed = msgspec.structs.replace(
            run, status=status, reason=reason, stop_reason=end.stop_reason, error=end.error
        )
        return self._close(closed, time if end.is_timed else None, usage, has_tokens=end.usage is not None)

    def interrupt(self, note: notes.RunInterrupted, time: float, usage: rows.Usage) -> rows.Run | None:
        """End a run that the agent did not end; return None where there is no such run, or it has ended."""
        run = self.get(note.run_id)
        if run is None or run.status != "running":
            return None
        self._prompts = {key: value for key, value in self._prompts.items() if value != run.id}
        closed = msgspec.structs.replace(run, status=note.status, reason=note.reason)
        return self._close(closed, time, usage, has_tokens=False)

    def add_late_cost(self, cost: acp.Cost) -> rows.Run | None:
        """Add the session's cost to the last run, where it grew after that run's end; return the run, else None.

        While a run is active, the cost is that run's. A cost that went down was reset, and belongs to the next run.
        """
        if self.current_id is not None or not self:
            return None
        run = next(reversed(self.values()))
        usage = run.usage or rows.Usage()
        last_cost = usage.cost
        if last_cost is not None and (last_cost.currency != cost.currency or last_cost.amount >= cost.amount):
            return None
        run = self[run.id] = msgspec.structs.replace(run, usage=msgspec.structs.replace(usage, cost=cost))
        return run

    def _close(self, run: rows.Run, time: float | None, usage: rows.Usage, *, has_tokens: bool) -> rows.Run:
        if not has_tokens:
            # The tokens are an earlier run's; the size of the context and the cost are the session's.
            usage = rows.Usage(
                context_used=usage.context_used,
                context_size=usage.context_size,
                is_context_size_guessed=usage.is_context_size_guessed,
                cost=usage.cost,
            )
        closed = self[run.id] = msgspec.structs.replace(run, usage=usage, ended_time=time)
        self._silent.discard(run.id)
        # Where prompts overlap, the following frames belong to the youngest run that is still active.
        self.current_id = next(reversed(self._prompts.values()), None)
        return closed

    def _outcome(self, run: rows.Run, end: RunEnd) -> tuple[rows.RunStatus, str | None]:
        if end.error is not None:
            if run.cancel_requested or end.error.code == REQUEST_CANCELLED:
                return "cancelled", None  # an agent that answers a cancelled prompt with an error did cancel it
            match end.error.data:
                case {"reason": "interrupted"}:  # from imports, where the transcript lacks the end of the run
                    return "interrupted", end.error.message
                case _:
                    return "error", None
        match end.stop_reason:
            case "cancelled":
                return "cancelled", None
            case "end_turn" if run.cancel_requested:
                # Some agents answer a cancelled prompt with `end_turn`. It was cancelled all the same; the stop reason
                # stays as they gave it.
                return "cancelled", None
            case "end_turn" if run.id in self._silent:
                return "error", "silent"
            case "end_turn":
                return "success", None
            case _:
                return "error", end.stop_reason


def _prompt_of(request: Request) -> Sequence[acp.ContentBlock]:
    params = decode_or_none(request.params, acp.PromptRequest)
    return params.prompt if params is not None else ()
