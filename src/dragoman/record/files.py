"""The files that the agent read and wrote through us: `fs/read_text_file` and `fs/write_text_file`."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from dragoman.record import notes, rows
from dragoman.record.decisions import Where, decoded, refused_as, with_decision
from dragoman.record.facts import Fact, FileCallChanged, FileCallEnded
from dragoman.wire import vocabulary as acp
from dragoman.wire.messages import Reply, Request, RequestId


class FileCalls(dict[str, rows.FileCall]):
    """Rows by id, in the order they were asked. For reading; the fold alone changes it."""

    def __init__(self) -> None:
        super().__init__()
        self._waiting: dict[RequestId, str] = {}  # requests without an answer: the row's id
        self._texts: dict[RequestId, str] = {}  # what these are to write, for the diff

    def asked(self, where: Where, request: Request) -> Sequence[Fact] | None:
        """None where the request cannot be read."""
        match request.method:
            case "fs/read_text_file":
                read = decoded(request.params, acp.ReadTextFileRequest)
                return None if read is None else self._read(where, request.id, read)
            case "fs/write_text_file":
                write = decoded(request.params, acp.WriteTextFileRequest)
                return None if write is None else self._write(where, request.id, write)
            case _:
                return ()

    def _read(self, where: Where, request_id: RequestId, read: acp.ReadTextFileRequest) -> Sequence[Fact]:
        row = rows.FileCall(
            id=where.row_id("file"),
            request_id=request_id,
            run_id=where.run_id,
            time=where.time,
            operation="read",
            path=read.path,
            line=read.line,
            limit=read.limit,
        )
        return self._asked(row)

    def _write(self, where: Where, request_id: RequestId, write: acp.WriteTextFileRequest) -> Sequence[Fact]:
        size = _size(write.content)
        row = rows.FileCall(
            id=where.row_id("file"),
            request_id=request_id,
            run_id=where.run_id,
            time=where.time,
            operation="write",
            path=write.path,
            size=size,
        )
        return self._asked(row, write.content if size <= notes.TEXT_LIMIT else None)

    def _asked(self, row: rows.FileCall, text: str | None = None) -> Sequence[Fact]:
        self._waiting[row.request_id] = row.id
        self._texts.pop(row.request_id, None)  # of one that had the same id, and no answer
        if text is not None:
            self._texts[row.request_id] = text
        return self._changed(row)

    def waiting(self, request_id: RequestId) -> rows.FileCall | None:
        """The request without an answer that has this id."""
        return self.get(self._waiting.get(request_id, ""))

    def located(self, note: notes.File) -> Sequence[Fact]:
        """Where it leads, and what is there."""
        row = self.waiting(note.request_id)
        if row is None:
            return ()
        row = msgspec.structs.replace(row, path=note.path, old_size=note.old_size, old_sha256=note.old_sha256)
        text = self._texts.get(note.request_id)
        if text is not None and (note.old_text is not None or note.old_size is None):
            diff = acp.Diff(path=note.path, old_text=note.old_text, new_text=text)
            row = msgspec.structs.replace(row, diff=diff)
        return self._changed(row)

    def answered(self, reply: Reply, decision: notes.Decision | None, time: float) -> Sequence[Fact]:
        row = self.waiting(reply.id)
        if row is None:
            return ()
        del self._waiting[reply.id]
        self._texts.pop(reply.id, None)
        row = msgspec.structs.replace(with_decision(row, decision), ended_time=time)
        if reply.error is not None:
            status = refused_as(reply.error, decision)
            row = msgspec.structs.replace(row, status=status, error=reply.error.message)
        else:
            row = msgspec.structs.replace(row, status="done")
            if row.operation == "read" and (answer := decoded(reply.result, acp.ReadTextFileResponse)) is not None:
                row = msgspec.structs.replace(row, size=_size(answer.content))
        self[row.id] = row
        return (FileCallEnded(row),)

    def cut(self, run_id: str, reason: str, time: float) -> list[Fact]:
        """The run was cut: what it asked for is not done."""
        facts: list[Fact] = []
        for request_id, row_id in list(self._waiting.items()):
            if self[row_id].run_id == run_id:
                del self._waiting[request_id]
                self._texts.pop(request_id, None)
                row = msgspec.structs.replace(self[row_id], status="cancelled", error=reason, ended_time=time)
                self[row_id] = row
                facts.append(FileCallEnded(row))
        return facts

    def _changed(self, row: rows.FileCall) -> Sequence[Fact]:
        self[row.id] = row
        return (FileCallChanged(row),)


def _size(text: str) -> int:
    """In bytes."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
