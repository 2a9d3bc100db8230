"""The files and commands that the agent used through the host.

Files by `fs/read_text_file` and `fs/write_text_file`, commands by `terminal/*`. Output that the agent polls is not
recorded here. `with_decision` and `refusal_status` apply a decision of the host to the row of any request.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeVar

import msgspec

from dragoman.errors import REQUEST_CANCELLED
from dragoman.record import notes, rows
from dragoman.record.facts import (
    Fact,
    FileCallChanged,
    FileCallEnded,
    TerminalChanged,
    TerminalExited,
    TerminalRefused,
    TerminalStarted,
)
from dragoman.record.rows import FrameContext
from dragoman.wire import vocabulary as acp
from dragoman.wire.lenient import decode_or_none
from dragoman.wire.messages import Reply, Request, RequestId, RpcError

_Row = TypeVar("_Row", bound=rows.DecidedRow)
_RequestRow = TypeVar("_RequestRow", rows.FileCall, rows.Terminal, rows.Permission, rows.Question)


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


class RequestRows(dict[str, _RequestRow]):
    """Rows by id, in the order of the requests. For reading; only the fold changes it."""

    def __init__(self) -> None:
        super().__init__()
        self._pending: dict[RequestId, str] = {}  # requests without an answer: the row's id

    def pending(self, request_id: RequestId) -> _RequestRow | None:
        """Return the row of the request with this id, if it has no answer yet."""
        return self.get(self._pending.get(request_id, ""))

    def _take_pending_of(self, run_id: str) -> list[_RequestRow]:
        """Return the rows of the run's pending requests, which are pending no more."""
        pending = [self[row_id] for row_id in self._pending.values() if self[row_id].run_id == run_id]
        for row in pending:
            del self._pending[row.request_id]
        return pending


class FileCalls(RequestRows[rows.FileCall]):
    def __init__(self) -> None:
        super().__init__()
        self._texts: dict[RequestId, str] = {}  # the texts that these are to write, for the diff

    def on_request(self, context: FrameContext, request: Request) -> Sequence[Fact] | None:
        """Add the row of a request; return None where the request cannot be read."""
        match request.method:
            case "fs/read_text_file":
                read = decode_or_none(request.params, acp.ReadTextFileRequest)
                return None if read is None else self._read(context, request.id, read)
            case "fs/write_text_file":
                write = decode_or_none(request.params, acp.WriteTextFileRequest)
                return None if write is None else self._write(context, request.id, write)
            case _:
                return ()

    def _read(self, context: FrameContext, request_id: RequestId, read: acp.ReadTextFileRequest) -> Sequence[Fact]:
        row = rows.FileCall(
            id=context.row_id("file"),
            request_id=request_id,
            run_id=context.run_id,
            time=context.time,
            operation="read",
            path=read.path,
            line=read.line,
            limit=read.limit,
        )
        return self._add(row)

    def _write(self, context: FrameContext, request_id: RequestId, write: acp.WriteTextFileRequest) -> Sequence[Fact]:
        size = _size(write.content)
        row = rows.FileCall(
            id=context.row_id("file"),
            request_id=request_id,
            run_id=context.run_id,
            time=context.time,
            operation="write",
            path=write.path,
            size=size,
        )
        return self._add(row, write.content if size <= notes.MAX_DIFF_TEXT_BYTES else None)

    def _add(self, row: rows.FileCall, text: str | None = None) -> Sequence[Fact]:
        self._pending[row.request_id] = row.id
        self._texts.pop(row.request_id, None)  # of an earlier request with this id that got no answer
        if text is not None:
            self._texts[row.request_id] = text
        return self._store(row)

    def on_note(self, note: notes.File) -> Sequence[Fact]:
        """Add the resolved path and the old text to a request."""
        row = self.pending(note.request_id)
        if row is None:
            return ()
        row = msgspec.structs.replace(row, path=note.path, old_size=note.old_size, old_sha256=note.old_sha256)
        text = self._texts.get(note.request_id)
        if text is not None and (note.old_text is not None or note.old_size is None):
            diff = acp.Diff(path=note.path, old_text=note.old_text, new_text=text)
            row = msgspec.structs.replace(row, diff=diff)
        return self._store(row)

    def on_answer(self, reply: Reply, decision: notes.Decision | None, time: float) -> Sequence[Fact]:
        row = self.pending(reply.id)
        if row is None:
            return ()
        del self._pending[reply.id]
        self._texts.pop(reply.id, None)
        row = msgspec.structs.replace(with_decision(row, decision), ended_time=time)
        if reply.error is not None:
            status = refusal_status(reply.error, decision)
            row = msgspec.structs.replace(row, status=status, error=reply.error.message)
        else:
            row = msgspec.structs.replace(row, status="done")
            if (
                row.operation == "read"
                and (answer := decode_or_none(reply.result, acp.ReadTextFileResponse)) is not None
            ):
                row = msgspec.structs.replace(row, size=_size(answer.content))
        self[row.id] = row
        return (FileCallEnded(row),)

    def on_run_interrupted(self, run_id: str, reason: str, time: float) -> list[Fact]:
        """Cancel the pending requests of an interrupted run."""
        facts: list[Fact] = []
        for row in self._take_pending_of(run_id):
            self._texts.pop(row.request_id, None)
            cancelled = msgspec.structs.replace(row, status="cancelled", error=reason, ended_time=time)
            self[row.id] = cancelled
            facts.append(FileCallEnded(cancelled))
        return facts

    def _store(self, row: rows.FileCall) -> Sequence[Fact]:
        self[row.id] = row
        return (FileCallChanged(row),)


def _size(text: str) -> int:
    """Return the size in bytes."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


_Ending = Literal["exited", "killed", "released"]


class _TerminalParams(msgspec.Struct, frozen=True, rename="camel"):
    """The params of requests about a terminal, as far as they matter here."""

    terminal_id: str


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    """The end of a command in answers to `terminal/output` and `terminal/wait_for_exit`, without the long output."""

    exit_status: acp.TerminalExitStatus | None = None
    exit_code: int | None = None
    signal: str | None = None


class Terminals(RequestRows[rows.Terminal]):
    """Only `terminal/create` has a row and is pending here; the other requests change that row."""

    def __init__(self) -> None:
        super().__init__()
        self._about: dict[RequestId, tuple[str, str]] = {}  # other requests without an answer: method and row id
        self._row_ids: dict[str, str] = {}  # by terminal id
        self._ending: dict[str, _Ending] = {}  # commands that the agent has asked to end
        self._early: dict[str, notes.TerminalExited] = {}  # ended before `terminal/create` was answered

    def by_terminal_id(self, terminal_id: str) -> rows.Terminal | None:
        """Return the terminal to which the agent, or a tool call, refers by this id now."""
        return self.get(self._row_ids.get(terminal_id, ""))

    def on_request(self, context: FrameContext, request: Request) -> Sequence[Fact] | None:
        """Add or update the row of a request; return None where the request cannot be read."""
        if request.method == "terminal/create":
            create = decode_or_none(request.params, acp.CreateTerminalRequest)
            return None if create is None else self._create(context, request.id, create)
        params = decode_or_none(request.params, _TerminalParams)
        if params is None:
            return None
        row = self.by_terminal_id(params.terminal_id)
        if row is not None and row.status == "running":
            self._about[request.id] = request.method, row.id
            if request.method == "terminal/kill":
                self._ending[row.id] = "killed"
            elif request.method == "terminal/release":
                self._ending.setdefault(row.id, "released")
        return ()

    def _create(
        self, context: FrameContext, request_id: RequestId, create: acp.CreateTerminalRequest
    ) -> Sequence[Fact]:
        row = rows.Terminal(
            id=context.row_id("terminal"),
            request_id=request_id,
            run_id=context.run_id,
            time=context.time,
            command=create.command,
            args=create.args,
            cwd=create.cwd,
            env=tuple(variable.name for variable in create.env),
        )
        self._pending[request_id] = row.id
        self[row.id] = row
        return (TerminalChanged(row),)

    def on_answer(self, reply: Reply, decision: notes.Decision | None, time: float) -> Sequence[Fact]:
        row = self.pending(reply.id)
        if row is not None:
            del self._pending[reply.id]
            return self._create_answered(with_decision(row, decision), reply, decision, time)
        method, row_id = self._about.pop(reply.id, ("", ""))
        row = self.get(row_id)
        if row is None or row.ended:
            return ()
        is_ending = method in ("terminal/kill", "terminal/release")
        if reply.error is not None:
            if is_ending:
                self._ending.pop(row_id, None)
            return ()
        if is_ending:
            return (self._end(row, time),)
        result = decode_or_none(reply.result, _Status) or _Status()
        status = result.exit_status or result
        if method == "terminal/output" and result.exit_status is None:
            return ()
        row = msgspec.structs.replace(row, exit_code=status.exit_code, signal=status.signal)
        return (self._end(row, time),)

    def _create_answered(
        self, row: rows.Terminal, reply: Reply, decision: notes.Decision | None, time: float
    ) -> Sequence[Fact]:
        answer = None if reply.error is not None else decode_or_none(reply.result, acp.CreateTerminalResponse)
        early = self._early.pop(answer.terminal_id, None) if answer is not None else None
        if not self._pending:
            self._early.clear()  # of terminals whose creation was never answered
        if answer is None:
            status = refusal_status(reply.error, decision) if reply.error is not None else "failed"
            error = reply.error.message if reply.error is not None else "the answer names no terminal"
            row = self[row.id] = msgspec.structs.replace(row, status=status, error=error, ended_time=time)
            return (TerminalRefused(row),)
        self._row_ids[answer.terminal_id] = row.id
        row = self[row.id] = msgspec.structs.replace(row, status="running", terminal_id=answer.terminal_id)
        return (TerminalStarted(row), *(self.on_exit(early, time) if early is not None else ()))

    def on_run_interrupted(self, run_id: str, reason: str, time: float) -> list[Fact]:
        """Cancel the pending requests of an interrupted run, and mark its running commands as killed."""
        facts: list[Fact] = []
        for row in self._take_pending_of(run_id):
            cancelled = msgspec.structs.replace(row, status="cancelled", error=reason, ended_time=time)
            self[row.id] = cancelled
            facts.append(TerminalRefused(cancelled))
        for row in [row for row in self.values() if row.run_id == run_id and row.status == "running"]:
            self._ending.setdefault(row.id, "killed")
            facts.append(self._end(row, time))
        return facts

    def on_exit(self, note: notes.TerminalExited, time: float) -> Sequence[Fact]:
        row = self.by_terminal_id(note.terminal_id)
        if row is None:
            if self._pending:
                self._early[note.terminal_id] = note
            return ()
        has_status = row.exit_code is not None or row.signal is not None
        row = msgspec.structs.replace(
            row,
            exit_code=row.exit_code if has_status else note.exit_code,
            signal=row.signal if has_status else note.signal,
            output=note.output,
            output_bytes=note.output_bytes,
            truncated=note.truncated,
        )
        if not row.ended:
            if note.killed:
                self._ending.setdefault(row.id, "killed")  # by the host, unless the agent asked for it
            return (self._end(row, time),)
        self[row.id] = row
        return (TerminalChanged(row),)

    def _end(self, row: rows.Terminal, time: float) -> TerminalExited:
        status = self._ending.pop(row.id, "exited")
        row = self[row.id] = msgspec.structs.replace(row, status=status, ended_time=time)
        return TerminalExited(row)
