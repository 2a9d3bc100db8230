"""Rows in the words of the socket."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from dragoman.bridge import rows as bridge_rows
from dragoman.bridge.rows import (
    MAX_FULL_ROW_CHARS,
    MAX_PART_CHARS,
    MAX_ROW_CHARS,
    changes_of,
    full_row_model,
    newest_rows,
    row_model,
)
from dragoman.journal.rows import MessagePart, RowChanges, SessionRows, StoredMessage
from dragoman.protocol import messages, models
from dragoman.record import rows
from dragoman.wire import vocabulary as acp


def called(raw_input: Any) -> rows.ToolCall:
    return rows.ToolCall(
        id="tool-1", tool_call_id="t", run_id=None, time=0.0, replayed=False, raw_input=raw_input, raw_output={"aB": 1}
    )


def result(raw_input: Any, *, full: bool = False) -> models.ToolCall:
    made = full_row_model(called(raw_input)) if full else row_model(called(raw_input))
    assert made is not None
    return msgspec.json.decode(msgspec.json.encode(made), type=models.ToolCall)


def test_raw_values_are_sent_as_the_agent_wrote_them() -> None:
    row = result({"someKey": [1, {"x": None}]})
    assert (row.raw_input, row.raw_output, row.shortened) == ({"someKey": [1, {"x": None}]}, {"aB": 1}, False)


def test_a_long_row_is_shortened_unless_it_is_requested() -> None:
    row = result({"text": "x" * MAX_ROW_CHARS})
    assert (row.raw_input, row.shortened) == (None, True)
    assert result({"text": "x" * MAX_ROW_CHARS}, full=True).raw_input == {"text": "x" * MAX_ROW_CHARS}


class Untouched(list[Any]):
    """A list whose items nobody may look at."""

    def __iter__(self) -> Any:
        raise AssertionError("it was looked into")


@pytest.mark.parametrize("full", [False, True])
def test_a_value_that_is_too_long_is_not_encoded_to_find_that_out(full: bool) -> None:
    limit = MAX_FULL_ROW_CHARS if full else MAX_ROW_CHARS
    unencodable = object()
    for value in (
        {"text": "x" * (limit + 1), "more": unencodable},
        [["x" * 1000, unencodable]] * (limit // 1000 + 1),
        Untouched([0] * limit),
        {"deep": [[[Untouched([None] * limit)]]]},
    ):
        row = full_row_model(called(value)) if full else row_model(called(value))
        assert isinstance(row, models.ToolCall)
        assert (row.raw_input, row.shortened) == (None, True)


@pytest.mark.parametrize("full", [False, True])
def test_values_that_are_nested_too_deeply_are_left_out(full: bool) -> None:
    deep: Any = 1
    for _ in range(5000):
        deep = [deep]
    row = result(deep, full=full)
    assert (row.raw_input, row.shortened) == (None, True)


def message(text: str, blocks: tuple[Any, ...] = (), place: int = 1) -> StoredMessage:
    return StoredMessage(
        id=f"message-{place}", kind="assistant", run_id=None, message_id=None, time=0.0, replayed=False, text=text,
        blocks=blocks, ended=True,
    )  # fmt: skip


def sent(row: models.Row | None) -> models.Message:
    assert isinstance(row, models.Message)
    return row


def test_a_long_message_is_shortened_and_read_in_parts() -> None:
    text = "".join(chr(ord("a") + number % 26) for number in range(MAX_PART_CHARS + 10))
    unasked = sent(row_model(message(text)))
    assert (unasked.text, unasked.shortened) == (text[:MAX_ROW_CHARS], True)
    first = sent(full_row_model(message(text), len(unasked.text)))
    assert first.shortened is False
    assert unasked.text + first.text == text
    begin = sent(full_row_model(message(text)))
    assert (len(begin.text), begin.shortened) == (MAX_PART_CHARS, True)
    rest = sent(full_row_model(message(text), len(begin.text)))
    assert (begin.text + rest.text, rest.shortened) == (text, False)
    short = sent(row_model(message(text[:MAX_ROW_CHARS])))
    assert (len(short.text), short.shortened) == (MAX_ROW_CHARS, False)


def test_a_part_of_a_message_that_is_too_long_is_shortened_and_says_so() -> None:
    changes = RowChanges(
        session_id="s", position=2, parts=[MessagePart("message-1", "x" * MAX_ROW_CHARS * 2), MessagePart("m", "y")]
    )
    first, second = changes_of(changes)
    assert isinstance(first, messages.Append)
    assert isinstance(second, messages.Append)
    assert (len(first.text), first.shortened) == (MAX_ROW_CHARS, True)
    assert (second.text, second.shortened) == ("y", False)


def test_large_attachments_are_left_out_until_they_are_requested() -> None:
    data = "x" * (bridge_rows.MAX_ATTACHMENT_CHARS + 1)
    resource = acp.TextResourceContents(uri="file:///a", text=data)
    row = message("see", (acp.ImageContent(mime_type="image/png", data=data), acp.EmbeddedResource(resource=resource)))
    unasked = sent(row_model(row))
    assert unasked.shortened
    assert [type(block) for block in unasked.blocks] == [models.UnknownBlock, models.UnknownBlock]
    full = sent(full_row_model(row))
    assert not full.shortened
    assert [type(block) for block in full.blocks] == [models.ImageBlock, models.ResourceBlock]
    small = sent(row_model(message("see", (acp.ImageContent(mime_type="image/png", data="AAAA"),))))
    assert isinstance(small.blocks[0], models.ImageBlock)


def test_a_snapshot_has_fewer_rows_when_they_are_long() -> None:
    each = "x" * MAX_ROW_CHARS
    count = 3 * bridge_rows.MAX_SNAPSHOT_CHARS // MAX_ROW_CHARS
    found = SessionRows(messages=[message(each, place=place) for place in range(1, count + 1)])
    newest, more, before = newest_rows(found, count)
    assert more
    assert len(msgspec.json.encode(newest)) < 1.1 * bridge_rows.MAX_SNAPSHOT_CHARS
    assert newest.messages[-1].id == f"message-{count}"
    assert newest.messages[0].id == f"message-{before}"
    read = list(newest.messages)
    while more:
        older, more, before = newest_rows(found, count, before)
        read = [*older.messages, *read]
    assert [row.id for row in read] == [row.id for row in found.messages]


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
