"""Which of the agent's tool calls each call of ours was."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dragoman.evaluation.toolbox import Call, link

FOLDER = Path(os.environ.get("DRAGOMAN_RECORDINGS") or Path(__file__).resolve().parents[3] / "shared" / "recordings")
RECORDINGS = sorted(FOLDER.glob("*/mcp.jsonl"))


class Row(msgspec.Struct, frozen=True):
    tool_call_id: str
    title: str = ""
    name: str | None = None
    raw_input: Any = None


def call(name: str = "look_up", **arguments: Any) -> Call:
    return Call(id=f"call of {arguments}", name=name, arguments=arguments, outcome="ok", started=0.0)


def ids(calls: list[Call], rows: list[Row]) -> list[str | None]:
    return [each.tool_call_id for each in link(calls, rows)]


@pytest.mark.parametrize(
    "row",
    [
        Row("t1", "mcp__dragoman__look_up", "mcp__dragoman__look_up", {"sku": "a"}),
        Row("t1", "dragoman_look_up", None, {"sku": "a"}),
        Row("t1", "dragoman.look_up", None, {"sku": "a"}),
        Row("t1", "dragoman: look up", None, {"sku": "a"}),
        Row("t1", "look_up (dragoman MCP Server)", None, None),
        Row("mcp_dragoman_look_up__t1", "a", None, None),
        Row("t1", "mcp.dragoman.look_up", None, {"server": "dragoman", "tool": "look_up", "arguments": {"sku": "a"}}),
        Row("t1", "Finding the item", None, {"sku": "a"}),
    ],
    ids=lambda row: row.title,
)
def test_every_way_that_agents_name_a_tool_is_understood(row: Row) -> None:
    other = Row("t0", "Read file", "read", {"path": "look_up.py"})
    assert ids([call(sku="a")], [other, row]) == [row.tool_call_id]


def test_equal_calls_are_taken_in_order_and_each_once() -> None:
    rows = [Row(f"t{number}", "dragoman_look_up", None, {"sku": "a"}) for number in range(3)]
    assert ids([call(sku="a")] * 2, rows) == ["t0", "t1"]
    assert ids([call(sku="a")] * 4, rows) == ["t0", "t1", "t2", None]


def test_arguments_tell_calls_of_one_tool_apart() -> None:
    rows = [Row("t1", "dragoman_look_up", None, {"sku": "b"}), Row("t2", "dragoman_look_up", None, {"sku": "a"})]
    assert ids([call(sku="a"), call(sku="b")], rows) == ["t2", "t1"]


def test_a_call_that_nothing_speaks_for_stays_without() -> None:
    rows = [
        Row("t1", "dragoman_look_up_all", None, {"sku": "b"}),
        Row("t2", "Bash", "Bash", {"command": "look_up a"}),
        Row("t3", "mcp__dragoman__store", "mcp__dragoman__store", {"sku": "a"}),
    ]
    assert ids([call(sku="a")], rows) == [None]
    assert ids([call()], [Row("t5", "look_up_all (dragoman MCP Server)")]) == [None]
    assert ids([call()], [Row("t4", "Thinking", None, {})]) == [None]


def test_a_call_that_was_linked_before_stays_so() -> None:
    [once] = link([call(sku="a")], [Row("t1", "dragoman_look_up", None, {"sku": "a"})])
    assert ids([once], [Row("t9", "dragoman_look_up", None, {"sku": "a"})]) == ["t1"]


@pytest.mark.skipif(not RECORDINGS, reason=f"no recordings in {FOLDER}: set DRAGOMAN_RECORDINGS to their folder")
@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda path: path.parent.name)
def test_the_call_is_found_in_what_real_agents_reported(recording: Path) -> None:
    rows = reported(recording)
    if not rows:
        pytest.skip("this agent was not shown the tool in that recording")
    made = call("echo_note", text="ping")
    [linked] = link([made], rows)
    assert linked.tool_call_id == rows[-1].tool_call_id


def reported(recording: Path) -> list[Row]:
    """Return the agent's tool calls, each as it was reported last."""
    rows: dict[str, Row] = {}
    for line in recording.read_bytes().splitlines():
        params = msgspec.json.decode(line)["frame"].get("params") or {}
        call = params.get("toolCall") or params.get("update") or {}
        if "toolCallId" in call:
            known = rows.get(call["toolCallId"], Row(call["toolCallId"]))
            fields = {"title": "title", "name": "name", "rawInput": "raw_input"}
            given = {field: call[key] for key, field in fields.items() if call.get(key)}
            rows[known.tool_call_id] = msgspec.structs.replace(known, **given)
    return list(rows.values())
