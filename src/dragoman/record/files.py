"""The files that the agent read and wrote through the host: `fs/read_text_file` and `fs/write_text_file`."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from dragoman.record import notes, rows
from dragoman.record.facts import Fact, FileCallChanged, FileCallEnded
from dragoman.record.permissions import refusal_status, with_decision
from dragoman.record.rows import FrameContext
from dragoman.wire import vocabulary as acp
from dragoman.wire.lenient import decode_or_none
from dragoman.wire.messages import Reply, Request, RequestId


class FileCalls(dict[str, rows.FileCall]):
    """Rows by id, in the order of the requests. For reading; only the fold changes it."""

    def __init__(self) -> None:
        super().__init__()
        self._pending: dict[RequestId, str] = {}  # requests without an answer: the row's id
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

    def pending(self, request_id: RequestId) -> rows.FileCall | None:
        """Return the request with this id, if it has no answer yet."""
        return self.get(self._pending.get(request_id, ""))

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
        for request_id, row_id in list(self._pending.items()):
            if self[row_id].run_id == run_id:
                del self._pending[request_id]
                self._texts.pop(request_id, None)
                row = msgspec.structs.replace(self[row_id], status="cancelled", error=reason, ended_time=time)
                self[row_id] = row
                facts.append(FileCallEnded(row))
        return facts

    def _store(self, row: rows.FileCall) -> Sequence[Fact]:
        self[row.id] = row
        return (FileCallChanged(row),)


def _size(text: str) -> int:
    """Return the size in bytes."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
