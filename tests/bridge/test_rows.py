"""Rows in the words of the socket."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from dragoman.bridge.rows import MAX_ROW_CHARS, newest_rows, row_model
from dragoman.journal.rows import SessionRows
from dragoman.protocol import models
from dragoman.record import rows


def called(raw_input: Any) -> rows.ToolCall:
    return rows.ToolCall(
        id="tool-1", tool_call_id="t", run_id=None, time=0.0, replayed=False, raw_input=raw_input, raw_output={"aB": 1}
    )


def result(raw_input: Any, *, full: bool = False) -> models.ToolCall:
    made = row_model(called(raw_input), full=full)
    assert made is not None
    return msgspec.json.decode(msgspec.json.encode(made), type=models.ToolCall)


def test_raw_values_are_sent_as_the_agent_wrote_them() -> None:
    row = result({"someKey": [1, {"x": None}]})
    assert (row.raw_input, row.raw_output, row.shortened) == ({"someKey": [1, {"x": None}]}, {"aB": 1}, False)


def test_a_long_row_is_shortened_unless_it_is_requested() -> None:
    row = result({"text": "x" * MAX_ROW_CHARS})
    assert (row.raw_input, row.shortened) == (None, True)
    assert result({"text": "x" * MAX_ROW_CHARS}, full=True).raw_input == {"text": "x" * MAX_ROW_CHARS}


@pytest.mark.parametrize("full", [False, True])
def test_values_that_are_nested_too_deeply_are_left_out(full: bool) -> None:
    deep: Any = 1
    for _ in range(5000):
        deep = [deep]
    row = result(deep, full=full)
    assert (row.raw_input, row.shortened) == (None, True)


def test_the_newest_rows_come_with_the_run_that_they_begin_in() -> None:
    """A client that opens a session in the middle of a long run learns that it goes on, and later how it ended."""
    found = SessionRows(
        runs=[rows.Run(id="run-1", time=0.0, position=1), rows.Run(id="run-5", time=0.0, position=5)],
        tool_calls=[msgspec.structs.replace(called(None), id=f"tool-{place}") for place in (2, 6, 7, 8)],
    )
    result, more, before = newest_rows(found, 2)
    assert [row.id for row in result.runs] == ["run-5"]
    assert [row.id for row in result.tool_calls] == ["tool-7", "tool-8"]
    assert (more, before) == (True, 7)
    result, more, before = newest_rows(found, 2, before)
    assert ([row.id for row in result.runs], [row.id for row in result.tool_calls]) == (["run-5"], ["tool-6"])
    assert (more, before) == (True, 5)
    assert newest_rows(found, 100)[1:] == (False, 1)


def question(schema: dict[str, Any] | None, mode: str = "form") -> models.Question:
    row = rows.Question(id="q-7", request_id=1, run_id=None, time=0.0, mode=mode, message="?", schema=schema)
    sent = msgspec.json.decode(msgspec.json.encode(row_model(row)), type=models.Question)
    assert sent.schema == schema
    return sent


def test_a_question_has_its_form_as_the_validator_reads_it() -> None:
    schema = {
        "type": "object",
        "properties": {
            "name": {"type": "string", "title": "Name", "format": "email", "maxLength": 80},
            "count": {"type": "integer", "default": 2},
            "done": {"type": "boolean"},
            "colour": {"type": "string", "enum": ["r", "g"], "enumNames": ["Red", "Green"]},
            "tools": {"type": "array", "items": {"anyOf": [{"const": "x", "title": "Ex"}]}},
            "shape": {"type": "object"},
        },
        "required": ["name"],
    }
    form = question(schema).form
    assert form is not None
    assert [(field.name, field.kind, field.title) for field in form.fields] == [
        ("name", "text", "Name"),
        ("count", "number", "count"),
        ("done", "boolean", "done"),
        ("colour", "choice", "colour"),
        ("tools", "choices", "tools"),
    ]
    name, count, _, colour, tools = form.fields
    assert (name.required, name.format, name.max_length) == (True, "email", 80)
    assert (count.default, count.whole) == (2, True)
    assert [(choice.value, choice.title) for choice in colour.choices] == [("r", "Red"), ("g", "Green")]
    assert [choice.title for choice in tools.choices] == ["Ex"]
    assert (form.left_out, form.error) == (("shape",), None)


def test_a_form_that_needs_a_property_of_an_unknown_kind_says_so() -> None:
    form = question({"properties": {"shape": {"type": "object"}}, "required": ["shape"]}).form
    assert form is not None
    assert form.error is not None
    assert "shape" in form.error


@pytest.mark.parametrize(("schema", "mode"), [({"type": "array"}, "form"), (None, "url")])
def test_a_question_without_a_readable_form_has_none(schema: dict[str, Any] | None, mode: str) -> None:
    assert question(schema, mode).form is None
