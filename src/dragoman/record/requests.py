"""The requests of the agent, from the request to the answer, with the notes of the host in between.

Until a request is answered, its table and the decision on it are in memory here; memory grows only with the requests
that are pending. Permission requests and questions to the user are here; `host_calls` has the files and commands.

For a permission the agent asks by `session/request_permission`, and the answer to that resolves it. About a file to
write or a command to run for the agent, the host asks: it records the question as a note, and its decision resolves it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Protocol

import msgspec

from dragoman.errors import REQUEST_CANCELLED
from dragoman.record import notes, rows
from dragoman.record.facts import (
    Fact,
    OtherUpdate,
    PermissionChanged,
    PermissionRequested,
    PermissionResolved,
    QuestionAnswered,
    QuestionAsked,
    QuestionCompleted,
)
from dragoman.record.host_calls import FileCalls, RequestRows, Terminals, with_decision
from dragoman.record.rows import FrameContext
from dragoman.wire import vocabulary as acp
from dragoman.wire.lenient import decode_or_none
from dragoman.wire.messages import Notification, Reply, Request, RequestId

_Outcome = Literal["selected", "cancelled", "failed"]


class Permissions(RequestRows[rows.Permission]):
    def add(self, permission: rows.Permission) -> PermissionRequested:
        self[permission.id] = permission
        self._pending[permission.request_id] = permission.id
        return PermissionRequested(permission)

    def abandon(self, request_id: RequestId) -> None:
        """Stop expecting an answer to the request with this id."""
        self._pending.pop(request_id, None)

    def on_guarded(self, note: notes.PermissionGuarded) -> PermissionChanged | None:
        """Add the reason why a pending request is asked whatever rules allow."""
        row = self.pending(note.request_id)
        if row is None:
            return None
        row = self[row.id] = msgspec.structs.replace(row, asked_because=note.reason)
        return PermissionChanged(row)

    def on_decision(self, decision: notes.Decision, time: float) -> PermissionResolved | None:
        """Resolve a request of the host; the answer to the agent is about the file or the command itself."""
        row = self.pending(decision.request_id)
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
        row = self.pending(reply.id)
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
        for pending in self._take_pending_of(run_id):
            row = self._resolve(pending, time, "cancelled", None, None).permission
            row = self[row.id] = msgspec.structs.replace(row, decided_by="cancel", reason=reason)
            facts.append(PermissionResolved(row))
        return facts

    def _resolve(
        self,
        row: rows.Permission,
        time: float,
        outcome: _Outcome,
        option_id: str | None,
        decision: notes.Decision | None,
    ) -> PermissionResolved:
        self.abandon(row.request_id)
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


class Questions(RequestRows[rows.Question]):
    def __init__(self) -> None:
        super().__init__()
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
        row = _with_params(blank, params, msgspec.json.decode(request.params, type=_SchemaParam))
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
        for pending in self._take_pending_of(run_id):
            row = self[pending.id] = msgspec.structs.replace(
                pending, action="cancel", answered_time=time, decided_by="cancel", reason=reason
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


class _SchemaParam(msgspec.Struct, frozen=True, rename="camel"):
    """The schema as the agent wrote it: the vocabulary knows no properties of new kinds."""

    requested_schema: Any = None


def _with_params(row: rows.Question, params: acp.CreateElicitationRequest, raw: _SchemaParam) -> rows.Question:
    match params:
        case acp.ElicitationFormMode():
            return msgspec.structs.replace(
                row,
                mode="form",
                message=params.message,
                tool_call_id=params.tool_call_id,
                schema=raw.requested_schema if isinstance(raw.requested_schema, dict) else None,
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


class _Table(Protocol):
    def on_request(self, context: FrameContext, request: Request) -> Sequence[Fact] | None: ...
    def on_answer(self, reply: Reply, decision: notes.Decision | None, time: float) -> Sequence[Fact]: ...


class Requests:
    def __init__(self) -> None:
        self.permissions = Permissions()
        self.files = FileCalls()
        self.terminals = Terminals()
        self.questions = Questions()
        self._pending: dict[RequestId, _Table | None] = {}  # None: a permission request alone
        self._decisions: dict[RequestId, notes.Decision] = {}
        self._tables: dict[str, _Table] = {
            "fs/read_text_file": self.files,
            "fs/write_text_file": self.files,
            "terminal/create": self.terminals,
            "terminal/output": self.terminals,
            "terminal/wait_for_exit": self.terminals,
            "terminal/kill": self.terminals,
            "terminal/release": self.terminals,
            "elicitation/create": self.questions,
        }

    def on_request(self, context: FrameContext, request: Request) -> Sequence[Fact]:
        """Handle any request but `session/request_permission`. Of one that is unknown, only its method is reported."""
        table = self._tables.get(request.method)
        facts = table.on_request(context, request) if table is not None else None
        if table is None or facts is None:
            return (OtherUpdate(request.method),)
        self._add_pending(request.id, table)
        return facts

    def on_permission_request(self, permission: rows.Permission) -> Fact:
        """Handle `session/request_permission`."""
        self._add_pending(permission.request_id, None)
        return self.permissions.add(permission)

    def _add_pending(self, request_id: RequestId, table: _Table | None) -> None:
        self._pending[request_id] = table
        # On a new connection the agent's ids start again; requests of the last one stay without an answer.
        self._decisions.pop(request_id, None)
        self.permissions.abandon(request_id)

    def on_note(self, context: FrameContext, note: notes.Note) -> Sequence[Fact]:
        match note:
            case notes.Decision(request_id=request_id) if request_id in self._pending:
                self._decisions[request_id] = note
                resolved = self.permissions.on_decision(note, context.time)
                return (resolved,) if resolved is not None else ()
            case notes.PermissionRequested(request_id=request_id) if request_id in self._pending:
                return (self.permissions.add(self._host_request(context, note)),)
            case notes.PermissionGuarded():
                changed = self.permissions.on_guarded(note)
                return (changed,) if changed is not None else ()
            case notes.File():
                return self.files.on_note(note)
            case notes.TerminalExited():
                return self.terminals.on_exit(note, context.time)
            case _:
                return ()

    def on_answer(self, reply: Reply, time: float) -> Sequence[Fact]:
        """Handle the answer that the agent gets to a request."""
        if reply.id not in self._pending:
            return ()
        table = self._pending.pop(reply.id)
        decision = self._decisions.pop(reply.id, None)
        resolved = self.permissions.on_answer(reply, decision, time)
        facts: list[Fact] = [] if resolved is None else [resolved]
        if table is not None:
            facts.extend(table.on_answer(reply, decision, time))
        return facts

    def on_run_interrupted(self, run_id: str, reason: str, time: float) -> list[Fact]:
        """Close the pending requests of an interrupted run, with the reason."""
        tables = (self.permissions, self.files, self.terminals, self.questions)
        return [fact for table in tables for fact in table.on_run_interrupted(run_id, reason, time)]

    def _host_request(self, context: FrameContext, note: notes.PermissionRequested) -> rows.Permission:
        """Return the row of a permission that the host asks for, with the file or command that it is about."""
        content: tuple[acp.ToolCallContent, ...] = ()
        locations: tuple[acp.ToolCallLocation, ...] = ()
        raw_input: Any = None
        if (file := self.files.pending(note.request_id)) is not None:
            content = (file.diff,) if file.diff is not None else ()
            locations = (acp.ToolCallLocation(path=file.path, line=file.line),)
        elif (terminal := self.terminals.pending(note.request_id)) is not None:
            raw_input = {"command": terminal.command, "args": terminal.args, "cwd": terminal.cwd, "env": terminal.env}
        return rows.Permission(
            id=context.row_id("permission"),
            request_id=note.request_id,
            run_id=context.run_id,
            time=context.time,
            options=note.options,
            origin=note.origin,
            title=note.title,
            kind=note.kind,
            content=content,
            locations=locations,
            raw_input=raw_input,
        )
