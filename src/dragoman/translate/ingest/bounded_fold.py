"""`BoundedFold`: the fold of a session whose memory does not grow with the transcript.

`release` drops what the journal has by then: of a message that has ended only its kind stays in memory, of a run that
has ended its tokens. A tool call that has ended moves to the scratch database, because an update may come late, and its
row is then written again as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from dragoman.record import rows
from dragoman.record.facts import Fact
from dragoman.record.fold import SessionFold
from dragoman.record.runs import Runs
from dragoman.record.text import GrowingText
from dragoman.record.tool_calls import ToolCalls
from dragoman.translate.ingest.report import Amounts
from dragoman.translate.scratch import Scratch, SpillingMap
from dragoman.wire import vocabulary as acp
from dragoman.wire.dialect import RunEnd

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(tuple[int, rows.ToolCall]).decode

_EARLIER_TURN: Final = -1


class BoundedFold(SessionFold):
    """Can be stored in an `ObjectStore` of the same scratch space. Several folds may share one."""

    def __init__(self, scratch: Scratch) -> None:
        super().__init__()
        self.tool_calls = self._bounded_calls = BoundedToolCalls(scratch)
        self.runs = self._bounded_runs = BoundedRuns()
        self._released_messages = 0

    @property
    def spent(self) -> Tokens:
        """The tokens of all runs."""
        return self._bounded_runs.spent

    def release(self) -> None:
        """Drop what has ended. Call it only after the changed rows were taken."""
        messages = self.messages
        while self._released_messages < len(messages) and messages[self._released_messages].ended:
            messages[self._released_messages] = _RELEASED[messages[self._released_messages].kind]
            self._released_messages += 1
        self._bounded_runs.release()
        self._bounded_calls.release()


def count_amounts(fold: BoundedFold) -> Amounts:
    spent = fold.spent
    return Amounts(
        messages=sum(message.kind != "thought" for message in fold.messages),
        tool_calls=len(fold.tool_calls),
        runs=len(fold.runs),
        input_tokens=spent.input,
        cached_tokens=spent.cached,
        output_tokens=spent.output,
    )


def count_tokens(ends: Iterable[RunEnd]) -> Amounts:
    """Count the tokens of runs that are not folded."""
    amounts = Amounts()
    for end in ends:
        if (usage := end.usage) is not None:
            amounts += Amounts(
                input_tokens=usage.input_tokens,
                cached_tokens=usage.cached_read_tokens or 0,
                output_tokens=usage.output_tokens,
            )
    return amounts


class Tokens(msgspec.Struct, frozen=True, gc=False):
    input: int = 0
    cached: int = 0
    output: int = 0

    def plus(self, usage: rows.Usage | None) -> Tokens:
        if usage is None:
            return self
        return Tokens(
            self.input + (usage.input_tokens or 0),
            self.cached + (usage.cached_tokens or 0),
            self.output + (usage.output_tokens or 0),
        )


class BoundedRuns(Runs):
    """Running runs and the last one; of the others only their number and their tokens."""

    def __init__(self) -> None:
        super().__init__()
        self._released = 0
        self._released_tokens = Tokens()

    def __len__(self) -> int:
        return super().__len__() + self._released

    @property
    def spent(self) -> Tokens:
        spent = self._released_tokens
        for run in self.values():
            spent = spent.plus(run.usage)
        return spent

    def release(self) -> None:
        for run_id in [*self][:-1]:
            run = self[run_id]
            if run.status != "running":
                del self[run_id]
                self._released += 1
                self._released_tokens = self._released_tokens.plus(run.usage)


class BoundedToolCalls(ToolCalls):
    """Tool calls that have not ended; the others are in the scratch database until an update names them."""

    def __init__(self, scratch: Scratch) -> None:
        super().__init__()
        # By the agent's id: the turn of the last call with this id that was released, and its row, as JSON.
        self._released: SpillingMap[bytes] = SpillingMap(scratch, max_entries=0)
        self._turn = 0
        self._released_count = 0

    def __len__(self) -> int:
        return super().__len__() + self._released_count

    def release(self) -> None:
        for turn, calls in ((_EARLIER_TURN, self._earlier_ids), (self._turn, self._current_ids)):
            for agent_id, row_id in [*calls.items()]:
                if self._rows[row_id].finished:
                    del calls[agent_id]
                    # From now on the id means this call, not an earlier one.
                    self._earlier_ids.pop(agent_id, None)
                    self._released.put(agent_id, _encode((turn, self._rows.pop(row_id))))
                    self._released_count += 1

    def _restore(self, agent_id: str) -> None:
        if agent_id in self._current_ids or (stored := self._released.get(agent_id)) is None:
            return
        turn, row = _decode(stored)
        calls = self._current_ids if turn == self._turn else self._earlier_ids
        if agent_id not in calls:
            self._rows[row.id] = row
            calls[agent_id] = row.id
            self._released_count -= 1

    def begin_run(self) -> None:
        super().begin_run()
        self._turn += 1

    def is_known(self, agent_id: str) -> bool:
        self._restore(agent_id)
        return super().is_known(agent_id)

    def by_agent_id(self, agent_id: str) -> rows.ToolCall | None:
        self._restore(agent_id)
        return super().by_agent_id(agent_id)

    def add_call(self, blank: rows.ToolCall, call: acp.ToolCall) -> Sequence[Fact]:
        self._restore(call.tool_call_id)
        return super().add_call(blank, call)

    def add_permission_request(
        self, blank: rows.ToolCall, call: acp.ToolCallUpdate
    ) -> tuple[rows.ToolCall, Sequence[Fact]]:
        self._restore(call.tool_call_id)
        return super().add_permission_request(blank, call)


def _released_message(kind: rows.MessageKind) -> rows.Message:
    return rows.Message(
        id="", kind=kind, run_id=None, message_id=None, time=0.0, replayed=False, body=GrowingText(), ended=True
    )


# One object stands for all released messages of a kind: a few bytes each, however many there are.
_RELEASED: Final[dict[rows.MessageKind, rows.Message]] = {
    kind: _released_message(kind) for kind in ("user", "assistant", "thought")
}
