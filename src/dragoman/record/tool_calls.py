"""The tool calls of a session, distinguished by the agent's ids, which may repeat, be empty or come late."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from dragoman.record import rows
from dragoman.record.facts import Fact, ToolCallChanged, ToolCallEnded, ToolCallSeen
from dragoman.wire import vocabulary as acp

# Characters of the output of a command that the agent itself ran; the same as for one that the host ran.
MAX_OUTPUT_CHARACTERS: Final = 16 * 1024


class ToolCalls:
    """Rows by id, in the order of their first frame; looked up by the agent's id within the run."""

    def __init__(self) -> None:
        self._rows: dict[str, rows.ToolCall] = {}
        self._current_ids: dict[str, str] = {}  # row ids of this run, by the agent's ids
        self._refused: set[str] = set()
        self._earlier_ids: dict[str, str] = {}  # of earlier runs: an update may come late
        self._first_titles: dict[str, str] = {}  # of this run, by the agent's ids

    def __iter__(self) -> Iterator[rows.ToolCall]:
        return iter(self._rows.values())

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, row_id: str) -> rows.ToolCall:
        return self._rows[row_id]

    def begin_run(self) -> None:
        """Begin a run: from now on a `tool_call` with an id of an earlier run is another tool call."""
        self._earlier_ids |= self._current_ids
        self._current_ids = {}
        self._first_titles = {}

    def is_known(self, agent_id: str) -> bool:
        """Return True if this run has a tool call with this id."""
        return agent_id in self._current_ids

    @property
    def has_unfinished(self) -> bool:
        """True while a tool call of this run is under way. A refused one is not, though some agents never end it."""
        return any(
            not self._rows[row_id].finished for row_id in self._current_ids.values() if row_id not in self._refused
        )

    def mark_refused(self, row_id: str) -> None:
        """Take note that the permission for a tool call was refused."""
        self._refused.add(row_id)

    def by_agent_id(self, agent_id: str) -> rows.ToolCall | None:
        """Return the tool call to which the agent refers by this id now."""
        return self._rows.get(self._current_ids.get(agent_id) or self._earlier_ids.get(agent_id) or "")

    def first_title(self, agent_id: str) -> str | None:
        """Return the title with which the agent first reported a tool call of this run: some ask with another."""
        return self._first_titles.get(agent_id)

    def add_call(self, blank: rows.ToolCall, call: acp.ToolCall) -> Sequence[Fact]:
        """Handle `tool_call`: a new id in this run, or, from older adapters, an update of it."""
        row = self._rows.get(self._current_ids.get(call.tool_call_id, ""))
        if row is not None and not (call.tool_call_id == "" and row.finished):
            return self._store(row, _merged(row, call, blank.time), "tool_call")
        return self._store(None, _merged(_new_row(blank, call), call, blank.time))

    def add_update(self, blank: rows.ToolCall, call: acp.ToolCallUpdate) -> Sequence[Fact]:
        """Handle `tool_call_update`, which may be the first frame of the tool call."""
        row = self.by_agent_id(call.tool_call_id)
        if row is not None and not self._is_reused(row, call):
            return self._store(row, _merged(row, call, blank.time))
        return self._store(None, _merged(_new_row(blank, call), call, blank.time))

    def add_permission_request(
        self, blank: rows.ToolCall, call: acp.ToolCallUpdate
    ) -> tuple[rows.ToolCall, Sequence[Fact]]:
        """Handle a permission request: it belongs to this run, and may be the first frame of the tool call."""
        before = self._rows.get(self._current_ids.get(call.tool_call_id, ""))
        after = _merged(before or _new_row(blank, call), call, blank.time)
        return after, self._store(before, after, "session/request_permission")

    def _is_reused(self, row: rows.ToolCall, call: acp.ToolCallUpdate) -> bool:
        """Return True for an id of an earlier run that starts again; any other update of that call is merely late."""
        return row.finished and call.status in ("pending", "in_progress") and not self.is_known(call.tool_call_id)

    def _store(
        self, before: rows.ToolCall | None, after: rows.ToolCall, kind: str = "tool_call_update"
    ) -> Sequence[Fact]:
        self._rows[after.id] = after
        facts: list[Fact] = []
        if before is None:
            self._current_ids[after.tool_call_id] = after.id
            self._first_titles[after.tool_call_id] = after.title
            facts.append(ToolCallSeen(after))
        elif not after.finished or before.finished:
            facts.append(ToolCallChanged(after, kind))
        if after.finished and (before is None or not before.finished):
            facts.append(ToolCallEnded(after))
        return facts


def _new_row(blank: rows.ToolCall, call: acp.ToolCall | acp.ToolCallUpdate) -> rows.ToolCall:
    return msgspec.structs.replace(blank, tool_call_id=call.tool_call_id, parent_id=_parent_of(call.meta))


def _merged(row: rows.ToolCall, call: acp.ToolCall | acp.ToolCallUpdate, time: float) -> rows.ToolCall:
    """Return the row with the fields that the frame sets; the others stay."""
    changes: dict[str, Any] = {}
    for field in ("title", "name", "kind", "status", "raw_input", "raw_output"):
        value = getattr(call, field)
        if value is not None:
            changes[field] = value
    if changes.get("title") == "" and row.title:
        del changes["title"]  # OpenCode empties titles that it had set before
    if call.content is not None and (call.content or isinstance(call, acp.ToolCallUpdate)):
        changes["content"] = tuple(call.content)
    if call.locations is not None and (call.locations or isinstance(call, acp.ToolCallUpdate)):
        changes["locations"] = tuple(call.locations)
    if changes.get("status") in ("completed", "failed") and row.ended_time is None:
        changes["ended_time"] = time
    if isinstance(call.meta, dict):
        changes |= _command_changes(row, call.meta)
    return msgspec.structs.replace(row, **changes)


def _command_changes(row: rows.ToolCall, meta: dict[str, Any]) -> dict[str, Any]:
    """Return the output and exit status of a command that the agent itself runs, from `_meta`.

    This is no part of the protocol, but the adapters of several agents do it alike. Either field has only new output.
    """
    changes: dict[str, Any] = {}
    for name in ("terminal_output", "terminal_output_delta"):
        more = _section(meta, name).get("data")
        if isinstance(more, str):
            output = (row.output or "") + more
            changes |= {
                "output": output[-MAX_OUTPUT_CHARACTERS:],
                "truncated": row.truncated or len(output) > MAX_OUTPUT_CHARACTERS,
            }
            break
    ended = _section(meta, "terminal_exit")
    if type(code := ended.get("exit_code")) is int:
        changes["exit_code"] = code
    if isinstance(signal := ended.get("signal"), str):
        changes["signal"] = signal
    return changes


def _section(meta: dict[str, Any], name: str) -> dict[str, Any]:
    section = meta.get(name)
    return section if isinstance(section, dict) else {}


def _parent_of(meta: Any) -> str | None:
    """Return the tool call whose sub-agent made this one; each adapter has its own section of `_meta` for it."""
    if not isinstance(meta, dict):
        return None
    sections = (section.get("parentToolUseId") for section in meta.values() if isinstance(section, dict))
    return next((parent for parent in sections if isinstance(parent, str) and parent), None)
