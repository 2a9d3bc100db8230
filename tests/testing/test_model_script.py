"""Directives in a prompt become steps, which are split at tool calls."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.testing.model.script import (
    Drop,
    Hang,
    Http,
    Say,
    SayFromRequest,
    ScriptError,
    Slow,
    Think,
    Tools,
    ToolUse,
    Usage,
    has_directives,
    parse,
    split_at_calls,
)


def test_every_directive_becomes_a_step_and_other_text_is_ignored() -> None:
    text = (
        "Please [[think:Hm.]] do [[say:Well: so.]][[slow:3:0.5]] this [[hang:2]] "
        "[[http:503]][[drop]][[usage:10:20]] [[result]][[recall]][[tools]] for me"
    )
    assert parse(text) == (
        Think("Hm."),
        Say("Well: so."),
        Slow(3, 0.5),
        Hang(2.0),
        Http(503),
        Drop(),
        Usage(10, 20),
        SayFromRequest("result"),
        SayFromRequest("recall"),
        SayFromRequest("tools"),
    )


def test_what_stands_before_a_new_beginning_is_forgotten() -> None:
    """goose 1.34.0 sends a cancelled prompt and the next one as one text."""
    assert parse("[[http:500]][[tool:a {\n[[begin]][[say:Anew.]]") == (Say("Anew."),)


def test_double_brackets_of_shells_and_wikis_are_no_directives() -> None:
    text = "if [[ -f x ]]; then see [[Some page]] and [[sayings]]; fi"
    assert not has_directives(text)
    assert parse(text) == ()


def test_the_arguments_of_a_tool_end_where_their_json_ends() -> None:
    text = '[[tool:write {"text": "a ]] b } + [[say:no]]", "list": [[1]]}]][[say:yes]]'
    arguments = '{"text":"a ]] b } + [[say:no]]","list":[[1]]}'
    assert parse(text) == (Tools((ToolUse("write", arguments),)), Say("yes"))


def test_a_tool_needs_no_arguments() -> None:
    assert parse("[[tool:look]]") == (Tools((ToolUse("look", "{}"),)),)


def test_text_can_be_the_argument_of_a_tool() -> None:
    assert parse('[[tool:patch "*** Begin"]]') == (Tools((ToolUse("patch", '"*** Begin"'),)),)


def test_several_tools_can_be_called_at_once() -> None:
    step = Tools((ToolUse("a|b", '{"x":1}'), ToolUse("~c", "{}")))
    assert parse('[[tool:a|b {"x": 1} + ~c]]') == (step,)


def test_each_turn_but_the_last_ends_with_a_call() -> None:
    steps = parse("[[say:1]][[tool:a]][[tool:b]][[say:2]]")
    first, second, third = split_at_calls(steps)
    assert (first, second, third) == (steps[:2], steps[2:3], steps[3:])


def test_a_script_that_ends_with_a_call_has_an_empty_last_turn() -> None:
    assert split_at_calls(parse("[[tool:a]]"))[-1] == ()


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[[say:and no end", "no end"),
        ("[[slow:3]]", "expected N:S"),
        ("[[slow:x:1]]", "no whole number"),
        ("[[hang:-1]]", "not between"),
        ("[[hang:nan]]", "not between"),
        ("[[http:200]]", "400 to 599"),
        ("[[usage:1]]", "expected IN:OUT"),
        ("[[tool:]]", "needs a tool's name"),
        ("[[tool:a {x}]]", "not JSON"),
        ("[[tool:a {} b]]", "expected ]] or +"),
    ],
)
def test_a_wrong_directive_says_what_is_wrong_with_it(text: str, complaint: str) -> None:
    with pytest.raises(ScriptError, match=complaint.replace("+", r"\+")):
        parse(text)


@given(st.text(alphabet='[]:say tol{}"1+~|\\\n', max_size=60))
def test_no_text_breaks_the_parser(text: str) -> None:
    try:
        parse(text)
    except ScriptError:
        pass
