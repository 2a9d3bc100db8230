"""The permission requests of a session: what was asked, what was answered, by whom and why."""

from __future__ import annotations

from typing import Literal

import msgspec

from dragoman.record import notes, rows
from dragoman.wire import vocabulary as acp
from dragoman.wire.messages import RequestId

_Outcome = Literal["selected", "cancelled", "failed"]


class Permissions(dict[str, rows.Permission]):
    """Rows by id, in the order they were asked. For reading; the fold alone changes it."""

    def __init__(self) -> None:
        super().__init__()
        self._waiting: dict[RequestId, str] = {}  # requests without an answer: the row's id
        self._verdicts: dict[RequestId, notes.Decision] = {}  # noted just before the answer they explain

    def asked(self, permission: rows.Permission) -> None:
        self[permission.id] = permission
        self._waiting[permission.request_id] = permission.id

    def decided(self, decision: notes.Decision) -> None:
        self._verdicts[decision.request_id] = decision

    def answered(
        self, request_id: RequestId, answer: acp.RequestPermissionResponse | None, time: float
    ) -> rows.Permission | None:
        """The request has its answer (None: an error); None when it was no permission request."""
        verdict = self._verdicts.pop(request_id, None)  # decisions on files and terminals have no row yet
        permission_id = self._waiting.pop(request_id, None)
        if permission_id is None:
            return None
        outcome = answer.outcome if answer is not None else None
        selected = outcome.option_id if isinstance(outcome, acp.SelectedPermissionOutcome) else None
        status: _Outcome = "failed" if outcome is None else "selected" if selected is not None else "cancelled"
        permission = self[permission_id] = msgspec.structs.replace(
            self[permission_id],
            outcome=status,
            option_id=selected,
            decided_by=verdict.by if verdict else None,
            reason=verdict.reason if verdict else None,
            resolved_time=time,
        )
        return permission
