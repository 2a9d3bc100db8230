"""The questions of the agent to the user, `elicitation/create`, and their answers."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from dragoman.errors import REQUEST_CANCELLED
from dragoman.record import notes, rows
from dragoman.record.facts import Fact, QuestionAnswered, QuestionAsked, QuestionCompleted
from dragoman.record.permissions import with_decision
from dragoman.record.rows import FrameContext
from dragoman.wire import vocabulary as acp
from dragoman.wire.lenient import decode_or_none
from dragoman.wire.messages import Notification, Reply, Request, RequestId


class Questions(dict[str, rows.Question]):
    """Rows by id, in the order of the requests. For reading; only the fold changes it."""

    def __init__(self) -> None:
        super().__init__()
        self._pending: dict[RequestId, str] = {}  # requests without an answer: the row's id
        self._visits: dict[str, str] = {}  # elicitation ids of URLs to visit: the row's id

    def on_request(self, context: FrameContext, request: Request) -> Sequence[Fact] | None:
        """Add the row of a question; return None where the request cannot be read."""
        params = decode_or_none(request.params, acp.CreateElicitationRequest)
        if params is None:
            return None
        blank = rows.Question(
            id=context.row_id("question"),
            request_id=request.id,
            run_id=context.run_id,
            time=context.time,
            mode="",
            message="",
        )
        row = _with_params(blank, params)
        if row.elicitation_id is not None:
            self._visits[row.elicitation_id] = row.id
        self._pending[request.id] = row.id
        self[row.id] = row
        return (QuestionAsked(row),)

    def on_answer(self, reply: Reply, decision: notes.Decision | None, time: float) -> Sequence[Fact]:
        row = self.get(self._pending.pop(reply.id, ""))
        if row is None:
            return ()
        row = msgspec.structs.replace(with_decision(row, decision), answered_time=time)
        answer = None if reply.error is not None else decode_or_none(reply.result, acp.CreateElicitationResponse)
        match answer:
            case acp.ElicitationAcceptAction(content=content):
                row = msgspec.structs.replace(row, action="accept", content=content)
            case acp.ElicitationDeclineAction():
                row = msgspec.structs.replace(row, action="decline")
            case acp.ElicitationCancelAction():
                row = msgspec.structs.replace(row, action="cancel")
            case acp.OtherCreateElicitationResponse(kind=kind):
                row = msgspec.structs.replace(row, action=kind)
            case None:
                withdrawn = reply.error is not None and reply.error.code == REQUEST_CANCELLED
                row = msgspec.structs.replace(row, action="cancel" if withdrawn else "failed")
        self[row.id] = row
        return (QuestionAnswered(row),)

    def on_run_interrupted(self, run_id: str, reason: str, time: float) -> list[Fact]:
        """Cancel the pending questions of an interrupted run."""
        facts: list[Fact] = []
        for request_id, row_id in list(self._pending.items()):
            if self[row_id].run_id == run_id:
                del self._pending[request_id]
                row = self[row_id] = msgspec.structs.replace(
                    self[row_id], action="cancel", answered_time=time, decided_by="cancel", reason=reason
                )
                facts.append(QuestionAnswered(row))
        return facts

    def on_complete(self, message: Notification, time: float) -> Sequence[Fact] | None:
        """Handle `elicitation/complete`; return None for an unknown id, or where the visit is complete already."""
        params = decode_or_none(message.params, acp.CompleteElicitationNotification)
        row = self.get(self._visits.pop(params.elicitation_id, "")) if params is not None else None
        if row is None:
            return None
        row = self[row.id] = msgspec.structs.replace(row, completed_time=time)
        return (QuestionCompleted(row),)


def _with_params(row: rows.Question, params: acp.CreateElicitationRequest) -> rows.Question:
    match params:
        case acp.ElicitationFormMode():
            return msgspec.structs.replace(
                row,
                mode="form",
                message=params.message,
                tool_call_id=params.tool_call_id,
                schema=params.requested_schema,
            )
        case acp.ElicitationUrlMode():
            return msgspec.structs.replace(
                row,
                mode="url",
                message=params.message,
                tool_call_id=params.tool_call_id,
                url=params.url,
                elicitation_id=params.elicitation_id,
            )
        case acp.OtherCreateElicitationRequest(kind=kind):
            return msgspec.structs.replace(row, mode=kind)
