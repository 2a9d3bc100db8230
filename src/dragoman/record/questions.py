"""What the agent asked the user: `elicitation/create`, and what became of it."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from dragoman.errors import REQUEST_CANCELLED
from dragoman.record import notes, rows
from dragoman.record.decisions import Where, decoded, with_decision
from dragoman.record.facts import Fact, QuestionAnswered, QuestionAsked, QuestionCompleted
from dragoman.wire import vocabulary as acp
from dragoman.wire.messages import Notification, Reply, Request, RequestId


class Questions(dict[str, rows.Question]):
    """Rows by id, in the order they were asked. For reading; the fold alone changes it."""

    def __init__(self) -> None:
        super().__init__()
        self._waiting: dict[RequestId, str] = {}  # requests without an answer: the row's id
        self._visits: dict[str, str] = {}  # elicitation ids to the row's

    def asked(self, where: Where, request: Request) -> Sequence[Fact] | None:
        """None where the request cannot be read."""
        asked = decoded(request.params, acp.CreateElicitationRequest)
        if asked is None:
            return None
        blank = rows.Question(
            id=where.row_id("question"),
            request_id=request.id,
            run_id=where.run_id,
            time=where.time,
            mode="",
            message="",
        )
        row = _filled(blank, asked)
        if row.elicitation_id is not None:
            self._visits[row.elicitation_id] = row.id
        self._waiting[request.id] = row.id
        self[row.id] = row
        return (QuestionAsked(row),)

    def answered(self, reply: Reply, decision: notes.Decision | None, time: float) -> Sequence[Fact]:
        row = self.get(self._waiting.pop(reply.id, ""))
        if row is None:
            return ()
        row = msgspec.structs.replace(with_decision(row, decision), answered_time=time)
        answer = None if reply.error is not None else decoded(reply.result, acp.CreateElicitationResponse)
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

    def cut(self, run_id: str, reason: str, time: float) -> list[Fact]:
        """The run was cut: what it asked will have no answer."""
        facts: list[Fact] = []
        for request_id, row_id in list(self._waiting.items()):
            if self[row_id].run_id == run_id:
                del self._waiting[request_id]
                row = self[row_id] = msgspec.structs.replace(
                    self[row_id], action="cancel", answered_time=time, decided_by="cancel", reason=reason
                )
                facts.append(QuestionAnswered(row))
        return facts

    def completed(self, message: Notification, time: float) -> Sequence[Fact] | None:
        """`elicitation/complete`; None where nothing of that id was asked here, or it is complete already."""
        told = decoded(message.params, acp.CompleteElicitationNotification)
        row = self.get(self._visits.pop(told.elicitation_id, "")) if told is not None else None
        if row is None:
            return None
        row = self[row.id] = msgspec.structs.replace(row, completed_time=time)
        return (QuestionCompleted(row),)


def _filled(row: rows.Question, asked: acp.CreateElicitationRequest) -> rows.Question:
    match asked:
        case acp.ElicitationFormMode():
            return msgspec.structs.replace(
                row,
                mode="form",
                message=asked.message,
                tool_call_id=asked.tool_call_id,
                schema=asked.requested_schema,
            )
        case acp.ElicitationUrlMode():
            return msgspec.structs.replace(
                row,
                mode="url",
                message=asked.message,
                tool_call_id=asked.tool_call_id,
                url=asked.url,
                elicitation_id=asked.elicitation_id,
            )
        case acp.OtherCreateElicitationRequest(kind=kind):
            return msgspec.structs.replace(row, mode=kind)
