"""The JSON that counts in a text: the last one, or none."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.evaluation.output import NoJson, Output, ParsedJson, follow_up, instructions, last_json
from dragoman.evaluation.types import shape_of

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
objects = st.dictionaries(st.text(max_size=3), values, max_size=3)


@settings(deadline=None)  # the machine may be busy
@given(value=values)
def test_json_alone_is_found(value: Any) -> None:
    found = last_json(f"\n {json.dumps(value)} \n")
    assert isinstance(found, ParsedJson)
    assert found.value == value


@settings(deadline=None)  # the machine may be busy
@given(first=objects, last=objects, indent=st.sampled_from([None, 2]))
def test_of_several_the_last_one_counts(first: Any, last: Any, indent: int | None) -> None:
    text = f"At first {json.dumps(first)}, but then:\n\n{json.dumps(last, indent=indent)}\n\nThat is all."
    found = last_json(text)
    assert isinstance(found, ParsedJson)
    assert found.value == last


@settings(deadline=None)  # the machine may be busy
@given(value=values)
def test_a_fenced_block_is_found_whatever_is_in_it(value: Any) -> None:
    found = last_json(f"See {{}} here:\n```json\n{json.dumps(value)}\n```\nDone.")
    assert isinstance(found, ParsedJson)
    assert found.value == value


@settings(deadline=None)  # the machine may be busy
@given(text=st.text(alphabet=st.characters(blacklist_characters="{}[]")))
def test_a_text_without_json_has_none_unless_it_is_json_itself(text: str) -> None:
    try:
        json.loads(text)
    except ValueError:
        assert isinstance(last_json(text), NoJson)


@pytest.mark.parametrize(
    "text", ["[" * 100_000, '{"a":' * 50_000, "[NaN]", "{'a': 1}", "", "```json\n{\n```", "nothing [yet"]
)
def test_text_that_only_looks_like_json_is_no_value(text: str) -> None:
    assert isinstance(last_json(text), NoJson)


@pytest.mark.parametrize(
    "text",
    [
        '{"items": [1, 2],}',
        'At first [3], then {"items": [1, 2], "more": ',
        "```json\n[1, 2]\n```\nNo:\n```json\n[1, 2, 3,]\n```",
        "[1] " * 10_001,
        '["\\ud800"]',
        "So: [1e999]",
    ],
)
def test_neither_a_piece_of_broken_json_nor_what_was_before_it_passes_for_the_answer(text: str) -> None:
    found = last_json(text)
    assert isinstance(found, NoJson) or found.value == [3]  # which is whole, and the last that is


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("I will not.", "there is no JSON in the answer"),
        ("See {x}, or [this](that).", "there is no JSON in the answer"),
        (
            "```json\n[1]\n```\n```json\n{\n  a: 1\n}\n```",
            r"cannot be read: Expecting property name .* \(its line 2, co",
        ),
        ('{"a": [1, 2', r"cannot be read: Expecting ',' delimiter \(its line 1, column 12\)"),
        ('So:\n```json\n{"a": "cut off', r"cannot be read: Unterminated string .* \(its line 1, column 7\)"),
        ("```json\n[NaN]\n```", "cannot be read: JSON is malformed: invalid character"),
        ('["\\ud800"]', "cannot be read: "),
        ("[" * 100_000, "looks like JSON and is not"),
        ("[x " * 10_001, "looks like JSON and is not"),
        ("x" * 2_000_000 + "[1]", "is too long"),
    ],
)
def test_the_error_names_the_fault_of_the_last_json(text: str, why: str) -> None:
    output = Output(shape_of(dict[str, int]))
    output.read(text)
    (problem,) = output.problems
    assert re.fullmatch(f"structured_output was not called, and .*{why}.*", problem, re.DOTALL)


@pytest.mark.timeout(20)
@pytest.mark.parametrize("part", ["```a\n", "[" + "1," * 50, '{"a":[1,', "[x ", "~~~\n```\n"])
def test_a_text_that_is_made_to_be_slow_is_read_in_no_time(part: str) -> None:
    assert isinstance(last_json(part * (800_000 // len(part))), NoJson)


def test_half_of_a_character_is_no_answer_and_no_crash() -> None:
    for type_ in (str, list[int]):
        output = Output(shape_of(type_))
        output.read('"\\ud800"')
        assert not output.accepted
        assert output.problems


def test_a_block_in_a_list_or_of_another_program_is_read_as_well() -> None:
    for text in ("1. So:\n   ```json\n   7\n   ```", "~~~~\n7\n~~~~~\n", "```\n7\n```\n```py\nprint(x)\n```\nDone."):
        found = last_json(text)
        assert isinstance(found, ParsedJson)
        assert found.value == 7


def test_json_after_the_block_is_the_last() -> None:
    found = last_json('```json\n{"a": 1}\n```\nor rather {"a": 2}')
    assert isinstance(found, ParsedJson)
    assert found.value == {"a": 2}


def test_a_wrapped_value_is_taken_from_a_text_bare_or_wrapped() -> None:
    for text in ("[1, 2]", '{"value": [1, 2]}', 'It is:\n```json\n{"value": [1, 2]}\n```'):
        output = Output(shape_of(list[int]))
        output.read(text)
        assert (output.accepted, output.value) == (True, [1, 2])


def test_a_value_of_an_earlier_round_does_not_count() -> None:
    output = Output(shape_of(int))
    output.read("7")
    assert output.accepted
    output.begin_round()
    output.read("nothing")
    assert output.problems == ("structured_output was not called, and there is no JSON in the answer",)


def test_the_agent_gets_the_schema_and_then_the_missing_fields() -> None:
    shape = shape_of(dict[str, int])
    assert "structured_output" in instructions(shape, has_tool=True)
    assert "structured_output" not in instructions(shape, has_tool=False)
    assert '"additionalProperties"' in instructions(shape, has_tool=False)
    assert "a: expected integer" in follow_up(("a: expected integer",), has_tool=True)
