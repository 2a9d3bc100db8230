"""The requests of the agent, from the request to the answer, with the notes of the host in between.

Until a request is answered, its table and the decision on it are in memory here; memory grows only with the requests
that are pending.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from dragoman.record import notes, rows
from dragoman.record.facts import Fact, OtherUpdate
from dragoman.record.files import FileCalls
from dragoman.record.permissions import Permissions
from dragoman.record.questions import Questions
from dragoman.record.rows import FrameContext
from dragoman.record.terminals import Terminals
from dragoman.wire import vocabulary as acp
from dragoman.wire.messages import Reply, Request, RequestId


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
        """Handle any request but `session/request_permission`."""
        table = self._tables.get(request.method)
        if table is None:
            return ()
        facts = table.on_request(context, request)
        if facts is None:
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
