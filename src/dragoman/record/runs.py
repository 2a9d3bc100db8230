"""The runs of a session: which prompt began each, and how it ended."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from dragoman.errors import REQUEST_CANCELLED
from dragoman.record import notes, rows
from dragoman.record.decisions import decoded
from dragoman.wire import vocabulary as acp
from dragoman.wire.dialect import LATEST_VERSION, RunEnd, dialect_for
from dragoman.wire.messages import Reply, Request, RequestId

_dialect = dialect_for(LATEST_VERSION)


class Runs(dict[str, rows.Run]):
    """Rows by id, in the order they began. For reading; the fold alone changes it."""

    def __init__(self) -> None:
        super().__init__()
        self.current_id: str | None = None  # of the run that is going on
        self._unheard: set[str] = set()  # runs that have not brought a word, thought, tool call or plan yet
        self._prompts: dict[RequestId, str] = {}  # prompts without an answer: request id to run id
        self._announced: notes.Prompt | None = None

    def announced(self, prompt: notes.Prompt) -> None:
        """The prompt that is sent next."""
        self._announced = prompt

    def started(self, position: int, time: float, request: Request) -> tuple[rows.Run, Sequence[acp.ContentBlock]]:
        """The run that a `session/prompt` begins, and the user's own words."""
        announced, self._announced = self._announced, None
        run = rows.Run(id=announced.run_id if announced else f"run-{position}", time=time, position=position)
        self[run.id] = run
        self._prompts[request.id] = run.id
        self.current_id = run.id
        self._unheard.add(run.id)
        return run, announced.prompt if announced else _prompt_of(request)

    def heard(self) -> None:
        """The agent brought something: a run that ends after this was not a silent one."""
        self._unheard.clear()

    def cancelling(self) -> None:
        for run_id in self._prompts.values():
            self[run_id] = msgspec.structs.replace(self[run_id], cancel_requested=True)

    def end_in(self, reply: Reply) -> tuple[rows.Run, RunEnd] | None:
        """The run that this answer ends, and how; None where it ends none."""
        run_id = self._prompts.get(reply.id)
        if run_id is None or (end := _dialect.run_end(reply)) is None:
            return None
        del self._prompts[reply.id]
        return self[run_id], end

    def ended(self, run: rows.Run, time: float, end: RunEnd, usage: rows.Usage) -> rows.Run:
        status, reason = self._outcome(run, end)
        closed = msgspec.structs.replace(
            run, status=status, reason=reason, stop_reason=end.stop_reason, error=end.error
        )
        return self._closed(closed, time, usage, has_tokens=end.usage is not None)

    def cut(self, cut: notes.RunCut, time: float, usage: rows.Usage) -> rows.Run | None:
        """The agent did not end it; None where there is no such run, or it has ended."""
        run = self.get(cut.run_id)
        if run is None or run.status != "running":
            return None
        self._prompts = {key: value for key, value in self._prompts.items() if value != run.id}
        closed = msgspec.structs.replace(run, status=cut.status, reason=cut.reason)
        return self._closed(closed, time, usage, has_tokens=False)

    def paid(self, cost: acp.Cost) -> rows.Run | None:
        """The session has cost so much. The last run, where that is more than it ended with and none goes on: the rest
        is its own. A cost that went down began anew, and is the next run's."""
        if self.current_id is not None or not self:
            return None
        run = next(reversed(self.values()))
        usage = run.usage or rows.Usage()
        known = usage.cost
        if known is not None and (known.currency != cost.currency or known.amount >= cost.amount):
            return None
        self[run.id] = paid = msgspec.structs.replace(run, usage=msgspec.structs.replace(usage, cost=cost))
        return paid

    def _closed(self, run: rows.Run, time: float, usage: rows.Usage, *, has_tokens: bool) -> rows.Run:
        if not has_tokens:
            # The tokens are an earlier run's; the size of the context and the cost are the session's.
            usage = rows.Usage(context_used=usage.context_used, context_size=usage.context_size, cost=usage.cost)
        closed = self[run.id] = msgspec.structs.replace(run, usage=usage, ended_time=time)
        self._unheard.discard(run.id)
        # Where prompts overlap, what comes next belongs to the youngest that still runs.
        self.current_id = next(reversed(self._prompts.values()), None)
        return closed

    def _outcome(self, run: rows.Run, end: RunEnd) -> tuple[rows.RunStatus, str | None]:
        if end.error is not None:
            if run.cancel_requested or end.error.code == REQUEST_CANCELLED:
                return "cancelled", None  # who answers a cancel with an error did what was asked
            match end.error.data:
                case {"reason": "interrupted"}:  # as imports tell of a run whose end the transcript does not have
                    return "interrupted", end.error.message
                case _:
                    return "error", None
        match end.stop_reason:
            case "cancelled":
                return "cancelled", None
            case "end_turn" if run.cancel_requested:
                # Some agents end the turn they were told to cancel as if they had come to its end. What was
                # asked for was done; the stop reason stays as they gave it.
                return "cancelled", None
            case "end_turn" if run.id in self._unheard:
                return "error", "silent"
            case "end_turn":
                return "success", None
            case _:
                return "error", end.stop_reason


def _prompt_of(request: Request) -> Sequence[acp.ContentBlock]:
    asked = decoded(request.params, acp.PromptRequest)
    return asked.prompt if asked is not None else ()
