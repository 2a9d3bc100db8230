"""`LeanFold`: a session's fold that lets go of what was taken from it, so that a transcript of any size fits in memory.

Of a message that has ended only its kind stays, of a run that has ended its tokens. A tool call that has ended is put
aside, in a file without a name: an update may come late, and the row is then written again as a whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from dragoman.record import rows
from dragoman.record.facts import Fact
from dragoman.record.fold import SessionFold
from dragoman.record.runs import Runs
from dragoman.record.text import GrowingText
from dragoman.record.tool_calls import ToolCalls
from dragoman.translate.aside import Aside
from dragoman.translate.hashed import HashMap
from dragoman.wire import vocabulary as acp

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(rows.ToolCall).decode


class LeanFold(SessionFold):
    """It can be pickled, but for what it has put aside. `aside`: where that is; several folds may share one."""

    def __init__(self, aside: Aside | None = None) -> None:
        super().__init__()
        self.tool_calls = self._calls = LeanCalls(aside or Aside())
        self.runs = self._lean_runs = LeanRuns()
        self._let_go = 0  # messages

    @property
    def spent(self) -> Tokens:
        """By all runs."""
        return self._lean_runs.spent

    def let_go(self) -> None:
        """To be called when what changed was taken: nobody will ask for it again."""
        messages = self.messages
        while self._let_go < len(messages) and messages[self._let_go].ended:
            messages[self._let_go] = _GONE[messages[self._let_go].kind]
            self._let_go += 1
        self._lean_runs.let_go()
        self._calls.put_aside()


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


class LeanRuns(Runs):
    """Runs that go on and the last one are at hand; of the others their number, and their tokens."""

    def __init__(self) -> None:
        super().__init__()
        self._gone = 0
        self._gone_spent = Tokens()

    def __len__(self) -> int:
        return super().__len__() + self._gone

    @property
    def spent(self) -> Tokens:
        spent = self._gone_spent
        for run in self.values():
            spent = spent.plus(run.usage)
        return spent

    def let_go(self) -> None:
        for run_id in [*self][:-1]:
            run = self[run_id]
            if run.status != "running":
                del self[run_id]
                self._gone += 1
                self._gone_spent = self._gone_spent.plus(run.usage)


class LeanCalls(ToolCalls):
    """Of a call that has ended and was put aside, its place in the file is all that is at hand, until there is news of
    it: a few bytes for each that there ever was."""

    def __init__(self, aside: Aside) -> None:
        super().__init__()
        self._aside = aside
        self._places = HashMap()  # by the agent's id, of the last call with it that is in the file
        self._turn = 0  # where in the file what is put aside of this turn begins
        self._away = 0  # calls that are not at hand

    def __len__(self) -> int:
        return super().__len__() + self._away

    def put_aside(self) -> None:
        for of_now, calls in ((False, self._before), (True, self._now)):
            for agent_id, row_id in [*calls.items()]:
                if self._rows[row_id].finished:
                    del calls[agent_id]
                    self._before.pop(agent_id, None)  # one of an earlier turn: from now on the id means this one
                    self._places.put(agent_id, self._aside.put(_encode(self._rows.pop(row_id))) * 2 + of_now)
                    self._away += 1

    def _bring_back(self, agent_id: str) -> None:
        if agent_id in self._now or (found := self._places.get(agent_id)) is None:
            return
        place, of_now = divmod(found, 2)
        calls = self._now if of_now and place >= self._turn else self._before
        if agent_id in calls:
            return
        row = _decode(self._aside.get(place))
        if row.tool_call_id == agent_id:  # else another one with the same hash
            self._rows[row.id] = row
            calls[agent_id] = row.id
            self._away -= 1

    def next_turn(self) -> None:
        super().next_turn()
        self._turn = self._aside.end

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


def _gone(kind: rows.MessageKind) -> rows.Message:
    return rows.Message(
        id="", kind=kind, run_id=None, message_id=None, time=0.0, replayed=False, body=GrowingText(), ended=True
    )


# One object stands for all that nobody asks for: a few bytes each, however many there are.
_GONE: Final[dict[rows.MessageKind, rows.Message]] = {kind: _gone(kind) for kind in ("user", "assistant", "thought")}
