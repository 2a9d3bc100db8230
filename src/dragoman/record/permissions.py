"""The permission requests of a session: what was asked, what was answered, by whom and why.

The agent asks by `session/request_permission`, and our answer to that resolves it. About a file that it wants us to
write, or a command to run, we ask ourselves: the host notes the question, and its decision resolves it.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from dragoman.record import notes, rows
from dragoman.record.decisions import decoded, with_decision
from dragoman.record.facts import Fact, PermissionRequested, PermissionResolved
from dragoman.wire import vocabulary as acp
from dragoman.wire.messages import Reply, RequestId

_Outcome = Literal["selected", "cancelled", "failed"]


class Permissions(dict[str, rows.Permission]):
    """Rows by id, in the order they were asked. For reading; the fold alone changes it."""

    def __init__(self) -> None:
        super().__init__()
        self._waiting: dict[RequestId, str] = {}  # questions without an answer: the row's id

    def asked(self, permission: rows.Permission) -> PermissionRequested:
        self[permission.id] = permission
        self._waiting[permission.request_id] = permission.id
        return PermissionRequested(permission)

    def abandoned(self, request_id: RequestId) -> None:
        """Whatever was asked under this id will have no answer."""
        self._waiting.pop(request_id, None)

    def decided(self, decision: notes.Decision, time: float) -> PermissionResolved | None:
        """Resolves a question of ours; what the agent is then told is about the file or the command itself."""
        row = self._waits(decision.request_id)
        if row is None or row.origin == "agent":
            return None
        match decision.decision:
            case "cancelled":
                return self._resolved(row, time, "cancelled", None, decision)
            case None:
                return self._resolved(row, time, "failed", None, decision)
            case "allow" | "deny":
                return self._resolved(row, time, "selected", decision.option_id, decision)

    def answered(self, reply: Reply, decision: notes.Decision | None, time: float) -> PermissionResolved | None:
        """The agent has its answer; None when that was no question, or it is resolved already."""
        row = self._waits(reply.id)
        if row is None:
            return None
        answer = None if reply.error is not None else decoded(reply.result, acp.RequestPermissionResponse)
        match answer.outcome if answer is not None else None:
            case acp.SelectedPermissionOutcome(option_id=option_id):
                return self._resolved(row, time, "selected", option_id, decision)
            case acp.CancelledPermissionOutcome():
                return self._resolved(row, time, "cancelled", None, decision)
            case None:
                return self._resolved(row, time, "failed", None, decision)

    def cut(self, run_id: str, reason: str, time: float) -> list[Fact]:
        """The run was cut: what it asked will have no answer."""
        facts: list[Fact] = []
        for row_id in list(self._waiting.values()):
            if self[row_id].run_id == run_id:
                row = self._resolved(self[row_id], time, "cancelled", None, None).permission
                row = self[row_id] = msgspec.structs.replace(row, decided_by="cancel", reason=reason)
                facts.append(PermissionResolved(row))
        return facts

    def _waits(self, request_id: RequestId) -> rows.Permission | None:
        return self.get(self._waiting.get(request_id, ""))

    def _resolved(
        self,
        row: rows.Permission,
        time: float,
        outcome: _Outcome,
        option_id: str | None,
        decision: notes.Decision | None,
    ) -> PermissionResolved:
        del self._waiting[row.request_id]
        row = msgspec.structs.replace(row, outcome=outcome, option_id=option_id, resolved_time=time)
        row = with_decision(row, decision)
        if row.decision is None:
            row = msgspec.structs.replace(row, decision=_meant(row))
        self[row.id] = row
        return PermissionResolved(row)


def _meant(row: rows.Permission) -> str | None:
    """What the answer says where nobody noted it."""
    match row.option_kind:
        case "allow_once" | "allow_always":
            return "allow"
        case "reject_once" | "reject_always":
            return "deny"
        case _:
            return "cancelled" if row.outcome == "cancelled" else None
