"""The tool calls of a session, told apart by the agent's ids, which may repeat, be empty or come late."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from dragoman.record import rows
from dragoman.record.facts import Fact, ToolCallChanged, ToolCallEnded, ToolCallSeen
from dragoman.wire import vocabulary as acp

# Characters that are kept of what a command of the agent's own wrote, as of one that it ran through us.
OUTPUT_TEXT: Final = 16 * 1024


class ToolCalls:
    """Rows by id, in the order of their first sight; looked up by the agent's id within the turn."""

    def __init__(self) -> None:
        self._rows: dict[str, rows.ToolCall] = {}
        self._now: dict[str, str] = {}  # the agent's id to the row's, of this turn
        self._refused: set[str] = set()
        self._before: dict[str, str] = {}  # of earlier turns: an update may come late

    def __iter__(self) -> Iterator[rows.ToolCall]:
        return iter(self._rows.values())

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, row_id: str) -> rows.ToolCall:
        return self._rows[row_id]

    def next_turn(self) -> None:
        """From here on a `tool_call` with an id seen before is another tool call."""
        self._before |= self._now
        self._now = {}

    def knows(self, agent_id: str) -> bool:
        """Whether it was seen in this turn."""
        return agent_id in self._now

    @property
    def any_unfinished(self) -> bool:
        """One of this turn's is under way. One that was refused is not, though some agents never say so."""
        return any(not self._rows[row_id].finished for row_id in self._now.values() if row_id not in self._refused)

    def refused(self, row_id: str) -> None:
        """It may not do what it asked for."""
        self._refused.add(row_id)

    def by_agent_id(self, agent_id: str) -> rows.ToolCall | None:
        """The tool call that the agent means by this id now."""
        return self._rows.get(self._now.get(agent_id) or self._before.get(agent_id) or "")

    def started(self, origin: rows.ToolCall, call: acp.ToolCall) -> Sequence[Fact]:
        """`tool_call`: the first sight of an id in this turn, or, from older adapters, an update of it."""
        known = self._rows.get(self._now.get(call.tool_call_id, ""))
        if known is not None and not (call.tool_call_id == "" and known.finished):
            return self._store(known, _merged(known, call, origin.time), "tool_call")
        return self._store(None, _merged(_first_seen(origin, call), call, origin.time))

    def changed(self, origin: rows.ToolCall, call: acp.ToolCallUpdate) -> Sequence[Fact]:
        """`tool_call_update`, which may be the first that is heard of it."""
        known = self.by_agent_id(call.tool_call_id)
        if known is not None and not self._used_again(known, call):
            return self._store(known, _merged(known, call, origin.time))
        return self._store(None, _merged(_first_seen(origin, call), call, origin.time))

    def asked_for(self, origin: rows.ToolCall, call: acp.ToolCallUpdate) -> tuple[rows.ToolCall, Sequence[Fact]]:
        """Permission was requested for it: always something of this turn, and maybe the first that is heard of it."""
        known = self._rows.get(self._now.get(call.tool_call_id, ""))
        row = _merged(known or _first_seen(origin, call), call, origin.time)
        return row, self._store(known, row, "session/request_permission")

    def _used_again(self, known: rows.ToolCall, call: acp.ToolCallUpdate) -> bool:
        """An id of an earlier turn that begins anew; any other update of that one is merely late."""
        return known.finished and call.status in ("pending", "in_progress") and not self.knows(call.tool_call_id)

    def _store(
        self, before: rows.ToolCall | None, after: rows.ToolCall, kind: str = "tool_call_update"
    ) -> Sequence[Fact]:
        self._rows[after.id] = after
        facts: list[Fact] = []
        if before is None:
            self._now[after.tool_call_id] = after.id
            facts.append(ToolCallSeen(after))
        elif not after.finished or before.finished:
            facts.append(ToolCallChanged(after, kind))
        if after.finished and (before is None or not before.finished):
            facts.append(ToolCallEnded(after))
        return facts


def _first_seen(origin: rows.ToolCall, call: acp.ToolCall | acp.ToolCallUpdate) -> rows.ToolCall:
    return msgspec.structs.replace(origin, tool_call_id=call.tool_call_id, parent_id=_parent_of(call.meta))


def _merged(row: rows.ToolCall, call: acp.ToolCall | acp.ToolCallUpdate, time: float) -> rows.ToolCall:
    """The row with what the frame says; what it leaves out stays."""
    said: dict[str, Any] = {}
    for field in ("title", "name", "kind", "status", "raw_input", "raw_output"):
        value = getattr(call, field)
        if value is not None:
            said[field] = value
    if said.get("title") == "" and row.title:
        del said["title"]  # OpenCode empties titles that it had set before
    if call.content is not None and (call.content or isinstance(call, acp.ToolCallUpdate)):
        said["content"] = tuple(call.content)
    if call.locations is not None and (call.locations or isinstance(call, acp.ToolCallUpdate)):
        said["locations"] = tuple(call.locations)
    if said.get("status") in ("completed", "failed") and row.ended_time is None:
        said["ended_time"] = time
    if isinstance(call.meta, dict):
        said |= _command_told(row, call.meta)
    return msgspec.structs.replace(row, **said)


def _command_told(row: rows.ToolCall, meta: dict[str, Any]) -> dict[str, Any]:
    """What agents tell of a command that they run by themselves: more of its output, and how it ended.

    No part of the protocol, but told alike by the adapters of several agents. Under either name it is what came since.
    """
    said: dict[str, Any] = {}
    for name in ("terminal_output", "terminal_output_delta"):
        more = _corner(meta, name).get("data")
        if isinstance(more, str):
            output = (row.output or "") + more
            said |= {"output": output[-OUTPUT_TEXT:], "truncated": row.truncated or len(output) > OUTPUT_TEXT}
            break
    ended = _corner(meta, "terminal_exit")
    if type(code := ended.get("exit_code")) is int:
        said["exit_code"] = code
    if isinstance(signal := ended.get("signal"), str):
        said["signal"] = signal
    return said


def _corner(meta: dict[str, Any], name: str) -> dict[str, Any]:
    corner = meta.get(name)
    return corner if isinstance(corner, dict) else {}


def _parent_of(meta: Any) -> str | None:
    """Adapters name the tool call whose sub-agent speaks, each in its own corner of `_meta`."""
    if not isinstance(meta, dict):
        return None
    corners = (corner.get("parentToolUseId") for corner in meta.values() if isinstance(corner, dict))
    return next((parent for parent in corners if isinstance(parent, str) and parent), None)
