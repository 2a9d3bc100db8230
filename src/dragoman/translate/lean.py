"""`LeanFold`: a session's fold that lets go of what was taken from it, so that a transcript of any size fits in memory.

Of a message that has ended only its kind stays. A tool call that has ended is put aside, in a file without a name: an
update may come late, and the row is then written again as a whole.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from contextlib import suppress
from tempfile import TemporaryFile, gettempdir
from typing import IO, Final

import msgspec

from dragoman.record import rows
from dragoman.record.facts import Fact
from dragoman.record.fold import SessionFold
from dragoman.record.text import GrowingText
from dragoman.record.tool_calls import ToolCalls
from dragoman.translate.hashed import HashMap
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
    """Of a call that has ended and was put aside, its place in the file is all that is at hand, until there is news of
    it: a few bytes for each that there ever was."""

    def __init__(self) -> None:
        super().__init__()
        self._places = HashMap()  # by the agent's id, of the last call with it that is in the file
        self._file: IO[bytes] | None = None
        self._end = 0
        self._turn = 0  # where in the file what is put aside of this turn begins
        self._aside = 0  # calls that are not at hand

    def __len__(self) -> int:
        return super().__len__() + self._aside

    def put_aside(self) -> None:
        for of_now, calls in ((False, self._before), (True, self._now)):
            for agent_id, row_id in [*calls.items()]:
                if self._rows[row_id].finished:
                    del calls[agent_id]
                    self._before.pop(agent_id, None)  # one of an earlier turn: from now on the id means this one
                    self._write(agent_id, self._rows.pop(row_id), of_now)

    def _write(self, agent_id: str, row: rows.ToolCall, of_now: bool) -> None:
        if self._file is None:
            self._file = TemporaryFile()  # noqa: SIM115 (it goes with us)
            weakref.finalize(self, _close, self._file)
        self._places.put(agent_id, self._end * 2 + of_now)
        try:
            self._file.seek(self._end)
            self._end += self._file.write(_encode(row) + b"\n")
        except OSError as problem:  # of a file without a name: where it is says more
            raise OSError(problem.errno, f"{problem.strerror} in {gettempdir()}") from problem
        self._aside += 1

    def _bring_back(self, agent_id: str) -> None:
        if agent_id in self._now or self._file is None or (found := self._places.get(agent_id)) is None:
            return
        place, of_now = divmod(found, 2)
        calls = self._now if of_now and place >= self._turn else self._before
        if agent_id in calls:
            return
        self._file.seek(place)
        row = _decode(self._file.readline())
        if row.tool_call_id == agent_id:  # else another one with the same hash
            self._rows[row.id] = row
            calls[agent_id] = row.id
            self._aside -= 1

    def next_turn(self) -> None:
        super().next_turn()
        self._turn = self._end

    def knows(self, agent_id: str) -> bool:
        self._bring_back(agent_id)
        return super().knows(agent_id)

    def by_agent_id(self, agent_id: str) -> rows.ToolCall | None:
        self._bring_back(agent_id)
        return super().by_agent_id(agent_id)

    def started(self, origin: rows.ToolCall, call: acp.ToolCall) -> Sequence[Fact]:
        self._bring_back(call.tool_call_id)
        return super().started(origin, call)

    def asked_for(self, origin: rows.ToolCall, call: acp.ToolCallUpdate) -> tuple[rows.ToolCall, Sequence[Fact]]:
        self._bring_back(call.tool_call_id)
        return super().asked_for(origin, call)


def _close(file: IO[bytes]) -> None:
    with suppress(OSError):  # what is not written yet finds no room: nobody will ask for it
        file.close()


def _gone(kind: rows.MessageKind) -> rows.Message:
    return rows.Message(
        id="", kind=kind, run_id=None, message_id=None, time=0.0, replayed=False, body=GrowingText(), ended=True
    )


# One object stands for all that nobody asks for: a few bytes each, however many there are.
_GONE: Final[dict[rows.MessageKind, rows.Message]] = {kind: _gone(kind) for kind in ("user", "assistant", "thought")}
