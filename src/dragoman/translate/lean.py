"""`LeanFold`: a session's fold that lets go of what was taken from it, so that a transcript of any size fits in memory.

Of a message that has ended only its kind stays. What a tool call has in it that has ended is put aside, in a file
without a name: an update may come late, and the row is then written again as a whole.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from tempfile import TemporaryFile
from typing import IO, Final

import msgspec

from dragoman.record import rows
from dragoman.record.facts import Fact
from dragoman.record.fold import SessionFold
from dragoman.record.text import GrowingText
from dragoman.record.tool_calls import ToolCalls
from dragoman.wire import vocabulary as acp

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(rows.ToolCall).decode


class LeanFold(SessionFold):
    def __init__(self) -> None:
        super().__init__()
        self.tool_calls = self._calls = LeanCalls()
        self._let_go = 0  # messages

    def let_go(self) -> None:
        """To be called when what changed was taken: nobody will ask for it again."""
        messages = self.messages
        while self._let_go < len(messages) and messages[self._let_go].ended:
            messages[self._let_go] = _GONE[messages[self._let_go].kind]
            self._let_go += 1
        self._calls.put_aside()


class LeanCalls(ToolCalls):
    """One that was put aside reads as a call of which nothing is known but that it ended, until there is news of it."""

    def __init__(self) -> None:
        super().__init__()
        self._recent: set[str] = set()  # rows that were written since
        self._aside: dict[str, int] = {}  # where in the file each begins: on a line of its own
        self._file: IO[bytes] | None = None
        self._end = 0

    def put_aside(self) -> None:
        for row_id in [row_id for row_id in self._recent if self._rows[row_id].finished]:
            self._recent.discard(row_id)
            data = _encode(self._rows[row_id])
            if self._file is None:
                self._file = TemporaryFile()  # noqa: SIM115 (it goes with us)
                weakref.finalize(self, self._file.close)
            self._file.seek(self._end)
            self._end, self._aside[row_id] = self._end + self._file.write(data + b"\n"), self._end
            self._rows[row_id] = _ENDED

    def _bring_back(self, agent_id: str) -> None:
        row_id = self._now.get(agent_id) or self._before.get(agent_id) or ""
        place = self._aside.pop(row_id, None)
        if place is not None and self._file is not None:
            self._file.seek(place)
            self._rows[row_id] = _decode(self._file.readline())
            self._recent.add(row_id)

    def started(self, origin: rows.ToolCall, call: acp.ToolCall) -> Sequence[Fact]:
        self._bring_back(call.tool_call_id)
        return super().started(origin, call)

    def changed(self, origin: rows.ToolCall, call: acp.ToolCallUpdate) -> Sequence[Fact]:
        self._bring_back(call.tool_call_id)
        return super().changed(origin, call)

    def asked_for(self, origin: rows.ToolCall, call: acp.ToolCallUpdate) -> tuple[rows.ToolCall, Sequence[Fact]]:
        self._bring_back(call.tool_call_id)
        return super().asked_for(origin, call)

    def _store(
        self, before: rows.ToolCall | None, after: rows.ToolCall, kind: str = "tool_call_update"
    ) -> Sequence[Fact]:
        self._recent.add(after.id)
        return super()._store(before, after, kind)


def _gone(kind: rows.MessageKind) -> rows.Message:
    return rows.Message(
        id="", kind=kind, run_id=None, message_id=None, time=0.0, replayed=False, body=GrowingText(), ended=True
    )


# One object stands for all that nobody asks for: a few bytes each, however many there are.
_ENDED: Final = rows.ToolCall(id="", tool_call_id="", run_id=None, time=0.0, replayed=False, status="completed")
_GONE: Final[dict[rows.MessageKind, rows.Message]] = {kind: _gone(kind) for kind in ("user", "assistant", "thought")}
