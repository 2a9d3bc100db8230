"""The commands that the agent ran through us: `terminal/*`. What it polls of their output is not kept here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from dragoman.record import notes, rows
from dragoman.record.decisions import Where, decoded, refused_as, with_decision
from dragoman.record.facts import Fact, TerminalChanged, TerminalExited, TerminalRefused, TerminalStarted
from dragoman.wire import vocabulary as acp
from dragoman.wire.messages import Reply, Request, RequestId

_Ending = Literal["exited", "killed", "released"]


class _Named(msgspec.Struct, frozen=True, rename="camel"):
    """All that the requests about a terminal say."""

    terminal_id: str


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    """What `terminal/output` and `terminal/wait_for_exit` say of the end. Outputs are long, and not read."""

    exit_status: acp.TerminalExitStatus | None = None
    exit_code: int | None = None
    signal: str | None = None


class Terminals(dict[str, rows.Terminal]):
    """Rows by id, in the order they were asked for. For reading; the fold alone changes it."""

    def __init__(self) -> None:
        super().__init__()
        self._waiting: dict[RequestId, str] = {}  # `terminal/create` without an answer: the row's id
        self._about: dict[RequestId, tuple[str, str]] = {}  # other requests without one: method, and the row's id
        self._known: dict[str, str] = {}  # terminal ids to the row's
        self._ending: dict[str, _Ending] = {}  # those that the agent has asked to end
        self._early: dict[str, notes.TerminalExited] = {}  # ended before the agent was told that they run

    def by_terminal_id(self, terminal_id: str) -> rows.Terminal | None:
        """The one that the agent, or a tool call, means by this id now."""
        return self.get(self._known.get(terminal_id, ""))

    def asked(self, where: Where, request: Request) -> Sequence[Fact] | None:
        """None where the request cannot be read."""
        if request.method == "terminal/create":
            create = decoded(request.params, acp.CreateTerminalRequest)
            return None if create is None else self._create(where, request.id, create)
        named = decoded(request.params, _Named)
        if named is None:
            return None
        row = self.by_terminal_id(named.terminal_id)
        if row is not None and row.status == "running":
            self._about[request.id] = request.method, row.id
            if request.method == "terminal/kill":
                self._ending[row.id] = "killed"
            elif request.method == "terminal/release":
                self._ending.setdefault(row.id, "released")
        return ()

    def _create(self, where: Where, request_id: RequestId, create: acp.CreateTerminalRequest) -> Sequence[Fact]:
        row = rows.Terminal(
            id=where.row_id("terminal"),
            request_id=request_id,
            run_id=where.run_id,
            time=where.time,
            command=create.command,
            args=create.args,
            cwd=create.cwd,
            env=tuple(variable.name for variable in create.env),
        )
        self._waiting[request_id] = row.id
        self[row.id] = row
        return (TerminalChanged(row),)

    def waiting(self, request_id: RequestId) -> rows.Terminal | None:
        """The one that is to be created by the request with this id."""
        return self.get(self._waiting.get(request_id, ""))

    def answered(self, reply: Reply, decision: notes.Decision | None, time: float) -> Sequence[Fact]:
        row = self.waiting(reply.id)
        if row is not None:
            del self._waiting[reply.id]
            return self._created(with_decision(row, decision), reply, decision, time)
        method, row_id = self._about.pop(reply.id, ("", ""))
        row = self.get(row_id)
        if row is None or row.ended:
            return ()
        ends = method in ("terminal/kill", "terminal/release")
        if reply.error is not None:
            if ends:
                self._ending.pop(row_id, None)
            return ()
        if ends:
            return (self._ended(row, time),)
        told = decoded(reply.result, _Status) or _Status()
        status = told.exit_status or told
        if method == "terminal/output" and told.exit_status is None:
            return ()
        row = msgspec.structs.replace(row, exit_code=status.exit_code, signal=status.signal)
        return (self._ended(row, time),)

    def _created(
        self, row: rows.Terminal, reply: Reply, decision: notes.Decision | None, time: float
    ) -> Sequence[Fact]:
        answer = None if reply.error is not None else decoded(reply.result, acp.CreateTerminalResponse)
        early = self._early.pop(answer.terminal_id, None) if answer is not None else None
        if not self._waiting:
            self._early.clear()  # of terminals that nobody was told of
        if answer is None:
            status = refused_as(reply.error, decision) if reply.error is not None else "failed"
            error = reply.error.message if reply.error is not None else "the answer names no terminal"
            row = self[row.id] = msgspec.structs.replace(row, status=status, error=error, ended_time=time)
            return (TerminalRefused(row),)
        self._known[answer.terminal_id] = row.id
        row = self[row.id] = msgspec.structs.replace(row, status="running", terminal_id=answer.terminal_id)
        return (TerminalStarted(row), *(self.exited(early, time) if early is not None else ()))

    def cut(self, run_id: str, reason: str, time: float) -> list[Fact]:
        """The run was cut: what waited is not run, and what ran was ended with the agent."""
        facts: list[Fact] = []
        for request_id, row_id in list(self._waiting.items()):
            if self[row_id].run_id == run_id:
                del self._waiting[request_id]
                row = msgspec.structs.replace(self[row_id], status="cancelled", error=reason, ended_time=time)
                self[row_id] = row
                facts.append(TerminalRefused(row))
        for row in [row for row in self.values() if row.run_id == run_id and row.status == "running"]:
            self._ending.setdefault(row.id, "killed")
            facts.append(self._ended(row, time))
        return facts

    def exited(self, note: notes.TerminalExited, time: float) -> Sequence[Fact]:
        row = self.by_terminal_id(note.terminal_id)
        if row is None:
            if self._waiting:
                self._early[note.terminal_id] = note
            return ()
        heard = row.exit_code is not None or row.signal is not None
        row = msgspec.structs.replace(
            row,
            exit_code=row.exit_code if heard else note.exit_code,
            signal=row.signal if heard else note.signal,
            output=note.output,
            output_bytes=note.output_bytes,
            truncated=note.truncated,
        )
        if not row.ended:
            return (self._ended(row, time),)
        self[row.id] = row
        return (TerminalChanged(row),)

    def _ended(self, row: rows.Terminal, time: float) -> TerminalExited:
        status = self._ending.pop(row.id, "exited")
        row = self[row.id] = msgspec.structs.replace(row, status=status, ended_time=time)
        return TerminalExited(row)
