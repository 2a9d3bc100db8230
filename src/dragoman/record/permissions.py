"""The permission requests of a session, and the decisions on all requests of the agent.

The agent asks by `session/request_permission`, and the answer to that resolves it. About a file to write or a command
to run for the agent, the host asks: it records the question as a note, and its decision resolves it.
"""

from __future__ import annotations

from typing import Literal, TypeVar

import msgspec

from dragoman.errors import REQUEST_CANCELLED
from dragoman.record import notes, rows
from dragoman.record.facts import Fact, PermissionRequested, PermissionResolved
from dragoman.wire import vocabulary as acp
from dragoman.wire.lenient import decode_or_none
from dragoman.wire.messages import Reply, RequestId, RpcError

_Outcome = Literal["selected", "cancelled", "failed"]
_Row = TypeVar("_Row", bound=rows.DecidedRow)


def with_decision(row: _Row, decision: notes.Decision | None) -> _Row:
    """Return the row with the decision on it."""
    if decision is None:
        return row
    return msgspec.structs.replace(
        row,
        decision=decision.decision,
        decided_by=decision.by,
        reason=decision.reason,
        rule=decision.rule,
        layer=decision.layer,
        remembered=decision.remembered,
    )


def refusal_status(error: RpcError, decision: notes.Decision | None) -> Literal["denied", "cancelled", "failed"]:
    """Return the status of a request that was answered by an error."""
    if decision is not None and decision.decision == "deny":
        return "denied"
    if error.code == REQUEST_CANCELLED or (decision is not None and decision.decision == "cancelled"):
        return "cancelled"
    return "failed"


class Permissions(dict[str, rows.Permission]):
    """Rows by id, in the order of the requests. For reading; only the fold changes it."""

    def __init__(self) -> None:
        super().__init__()
        self._pending: dict[RequestId, str] = {}  # requests without an answer: the row's id

    def add(self, permission: rows.Permission) -> PermissionRequested:
        self[permission.id] = permission
        self._pending[permission.request_id] = permission.id
        return PermissionRequested(permission)

    def abandon(self, request_id: RequestId) -> None:
        """Stop expecting an answer to the request with this id."""
        self._pending.pop(request_id, None)

    def on_decision(self, decision: notes.Decision, time: float) -> PermissionResolved | None:
        """Resolve a request of the host; the answer to the agent is about the file or the command itself."""
        row = self._pending_row(decision.request_id)
        if row is None or row.origin == "agent":
            return None
        match decision.decision:
            case "cancelled":
                return self._resolve(row, time, "cancelled", None, decision)
            case None:
                return self._resolve(row, time, "failed", None, decision)
            case "allow" | "deny":
                return self._resolve(row, time, "selected", decision.option_id, decision)

    def on_answer(self, reply: Reply, decision: notes.Decision | None, time: float) -> PermissionResolved | None:
        """Resolve the request that this reply answers; None where there is none, or it is resolved already."""
        row = self._pending_row(reply.id)
        if row is None:
            return None
        answer = None if reply.error is not None else decode_or_none(reply.result, acp.RequestPermissionResponse)
        match answer.outcome if answer is not None else None:
            case acp.SelectedPermissionOutcome(option_id=option_id):
                return self._resolve(row, time, "selected", option_id, decision)
            case acp.CancelledPermissionOutcome():
                return self._resolve(row, time, "cancelled", None, decision)
            case None:
                return self._resolve(row, time, "failed", None, decision)

    def on_run_interrupted(self, run_id: str, reason: str, time: float) -> list[Fact]:
        """Cancel the pending requests of an interrupted run."""
        facts: list[Fact] = []
        for row_id in list(self._pending.values()):
            if self[row_id].run_id == run_id:
                row = self._resolve(self[row_id], time, "cancelled", None, None).permission
                row = self[row_id] = msgspec.structs.replace(row, decided_by="cancel", reason=reason)
                facts.append(PermissionResolved(row))
        return facts

    def _pending_row(self, request_id: RequestId) -> rows.Permission | None:
        return self.get(self._pending.get(request_id, ""))

    def _resolve(
        self,
        row: rows.Permission,
        time: float,
        outcome: _Outcome,
        option_id: str | None,
        decision: notes.Decision | None,
    ) -> PermissionResolved:
        del self._pending[row.request_id]
        row = msgspec.structs.replace(row, outcome=outcome, option_id=option_id, resolved_time=time)
        row = with_decision(row, decision)
        if row.decision is None:
            row = msgspec.structs.replace(row, decision=_decision_from_option(row))
        self[row.id] = row
        return PermissionResolved(row)


def _decision_from_option(row: rows.Permission) -> str | None:
    """Derive the decision from the chosen option, where the host recorded none."""
    match row.option_kind:
        case "allow_once" | "allow_always":
            return "allow"
        case "reject_once" | "reject_always":
            return "deny"
        case _:
            return "cancelled" if row.outcome == "cancelled" else None
