"""What the agent asks of us: its requests from the asking to the answer, and what the host notes in between.

Of each request it is known here which rows it belongs to, and what was decided on it, until it is answered: what is
held grows with the requests that are under way, and with no others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from dragoman.record import notes, rows
from dragoman.record.decisions import Where
from dragoman.record.facts import Fact, OtherUpdate
from dragoman.record.files import FileCalls
from dragoman.record.permissions import Permissions
from dragoman.record.questions import Questions
from dragoman.record.terminals import Terminals
from dragoman.wire import vocabulary as acp
from dragoman.wire.messages import Reply, Request, RequestId


class _Part(Protocol):
    def asked(self, where: Where, request: Request) -> Sequence[Fact] | None: ...
    def answered(self, reply: Reply, decision: notes.Decision | None, time: float) -> Sequence[Fact]: ...


class Requests:
    def __init__(self) -> None:
        self.permissions = Permissions()
        self.files = FileCalls()
        self.terminals = Terminals()
        self.questions = Questions()
        self._waiting: dict[RequestId, _Part | None] = {}  # None: nothing but the question itself
        self._decisions: dict[RequestId, notes.Decision] = {}
        self._parts: dict[str, _Part] = {
            "fs/read_text_file": self.files,
            "fs/write_text_file": self.files,
            "terminal/create": self.terminals,
            "terminal/output": self.terminals,
            "terminal/wait_for_exit": self.terminals,
            "terminal/kill": self.terminals,
            "terminal/release": self.terminals,
            "elicitation/create": self.questions,
        }

    def asked(self, where: Where, request: Request) -> Sequence[Fact]:
        """Any request but `session/request_permission`."""
        part = self._parts.get(request.method)
        if part is None:
            return ()
        facts = part.asked(where, request)
        if facts is None:
            return (OtherUpdate(request.method),)
        self._begins(request.id, part)
        return facts

    def permission_asked(self, permission: rows.Permission) -> Fact:
        """`session/request_permission`."""
        self._begins(permission.request_id, None)
        return self.permissions.asked(permission)

    def _begins(self, request_id: RequestId, part: _Part | None) -> None:
        self._waiting[request_id] = part
        # On a new connection the agent's ids begin anew; what the last one left without an answer stays so.
        self._decisions.pop(request_id, None)
        self.permissions.abandoned(request_id)

    def noted(self, where: Where, note: notes.Note) -> Sequence[Fact]:
        match note:
            case notes.Decision(request_id=request_id) if request_id in self._waiting:
                self._decisions[request_id] = note
                resolved = self.permissions.decided(note, where.time)
                return (resolved,) if resolved is not None else ()
            case notes.Asked(request_id=request_id) if request_id in self._waiting:
                return (self.permissions.asked(self._question(where, note)),)
            case notes.File():
                return self.files.located(note)
            case notes.TerminalExited():
                return self.terminals.exited(note, where.time)
            case _:
                return ()

    def answered(self, reply: Reply, time: float) -> Sequence[Fact]:
        """Our answer to a request."""
        if reply.id not in self._waiting:
            return ()
        part = self._waiting.pop(reply.id)
        decision = self._decisions.pop(reply.id, None)
        resolved = self.permissions.answered(reply, decision, time)
        facts: list[Fact] = [] if resolved is None else [resolved]
        if part is not None:
            facts.extend(part.answered(reply, decision, time))
        return facts

    def cut(self, run_id: str, reason: str, time: float) -> list[Fact]:
        """The run was cut: what it left without an answer is closed, and says why."""
        parts = (self.permissions, self.files, self.terminals, self.questions)
        return [fact for part in parts for fact in part.cut(run_id, reason, time)]

    def _question(self, where: Where, asked: notes.Asked) -> rows.Permission:
        """A question of ours, with what it is about."""
        content: tuple[acp.ToolCallContent, ...] = ()
        locations: tuple[acp.ToolCallLocation, ...] = ()
        raw_input: Any = None
        if (file := self.files.waiting(asked.request_id)) is not None:
            content = (file.diff,) if file.diff is not None else ()
            locations = (acp.ToolCallLocation(path=file.path, line=file.line),)
        elif (terminal := self.terminals.waiting(asked.request_id)) is not None:
            raw_input = {"command": terminal.command, "args": terminal.args, "cwd": terminal.cwd, "env": terminal.env}
        return rows.Permission(
            id=where.row_id("permission"),
            request_id=asked.request_id,
            run_id=where.run_id,
            time=where.time,
            options=asked.options,
            origin=asked.origin,
            title=asked.title,
            kind=asked.kind,
            content=content,
            locations=locations,
            raw_input=raw_input,
        )
