"""Rows in the words of the socket."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from dragoman.bridge import payload
from dragoman.bridge.rows import MOST, newest, row_of
from dragoman.journal.rows import SessionRows
from dragoman.record import rows


def called(raw_input: Any) -> rows.ToolCall:
    return rows.ToolCall(
        id="tool-1", tool_call_id="t", run_id=None, time=0.0, replayed=False, raw_input=raw_input, raw_output={"aB": 1}
    )


def told(raw_input: Any, *, whole: bool = False) -> payload.ToolCall:
    made = row_of(called(raw_input), whole=whole)
    assert made is not None
    return msgspec.json.decode(msgspec.json.encode(made), type=payload.ToolCall)


def test_what_the_agent_wrote_is_told_as_it_wrote_it() -> None:
    row = told({"someKey": [1, {"x": None}]})
    assert (row.raw_input, row.raw_output, row.cut) == ({"someKey": [1, {"x": None}]}, {"aB": 1}, False)


def test_what_is_too_long_is_told_on_request() -> None:
    row = told({"text": "x" * MOST})
    assert (row.raw_input, row.cut) == (None, True)
    assert told({"text": "x" * MOST}, whole=True).raw_input == {"text": "x" * MOST}


@pytest.mark.parametrize("whole", [False, True])
def test_what_is_too_deep_to_be_written_is_left_out(whole: bool) -> None:
    deep: Any = 1
    for _ in range(5000):
        deep = [deep]
    row = told(deep, whole=whole)
    assert (row.raw_input, row.cut) == (None, True)


def test_the_newest_rows_come_with_the_run_that_they_begin_in() -> None:
    """Who opens a session in the middle of a long run learns that it goes on, and later how it ended."""
    found = SessionRows(
        runs=[rows.Run(id="run-1", time=0.0, position=1), rows.Run(id="run-5", time=0.0, position=5)],
        tool_calls=[msgspec.structs.replace(called(None), id=f"tool-{place}") for place in (2, 6, 7, 8)],
    )
    told, more, before = newest(found, 2)
    assert [row.id for row in told.runs] == ["run-5"]
    assert [row.id for row in told.tool_calls] == ["tool-7", "tool-8"]
    assert (more, before) == (True, 7)
    told, more, before = newest(found, 2, before)
    assert ([row.id for row in told.runs], [row.id for row in told.tool_calls]) == (["run-5"], ["tool-6"])
    assert (more, before) == (True, 5)
    assert newest(found, 100)[1:] == (False, 1)
