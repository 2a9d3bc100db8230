"""Patterns of agents: searched in linear time, or not at all."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.host.question.form import InvalidValue, TextField, match_pattern


@pytest.mark.parametrize(
    ("pattern", "text", "verdict"),
    [
        ("^[a-z]+$", "abc", "matches"),
        ("^[a-z]+$", "ABC", "differs"),
        ("b", "abc", "matches"),  # found anywhere, as JSON Schema has it
        (r"^\d$", "٣", "differs"),  # a digit, but not of those that \d means there
        (r"(?<year>\d{4})", "2026", "matches"),
        ("ä", "ä", "matches"),
        ("^.$", "ä", "matches"),  # characters, not bytes
        (r"^\p{L}+$", "äbc", "matches"),
        (r"^\p{L}+$", "a1", "differs"),
        ("^a$", "a\n", "differs"),  # the end of the text, not of a line
        ("a\0b", "b", "differs"),
        ("a\0b", "a\0b", "matches"),
        ("(", "(", "unreadable"),
        ("\ud800", "a", "unreadable"),
        (r"^(?=.*\d)", "1", "unreadable"),  # RE2 has no lookarounds
        (r"(a)\1", "aa", "unreadable"),
    ],
)
def test_a_pattern_is_found_or_not(pattern: str, text: str, verdict: str) -> None:
    assert match_pattern(pattern, text) == verdict


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("^(a+)+$", "a" * 60 + "!"),
        ("(x+x+)+y", "x" * 500),
        (r"^(\w+\s?)*$", "word " * 100 + "!"),
        ("(a|a)*b", "a" * 999),
    ],
)
def test_backtracking_patterns_are_answered(pattern: str, text: str) -> None:
    assert match_pattern(pattern, text) == "differs"


def test_a_pattern_that_could_take_long_is_not_tried() -> None:
    large = r"^(?:.(?:[ab]|\w)*){300}c$"
    assert match_pattern(large, "ab") == "differs"
    assert match_pattern(large, "ab" * 50_000) == "unknown"
    with pytest.raises(InvalidValue, match="takes too long"):
        TextField(name="x", pattern=large).validate("ab" * 50_000)


@pytest.mark.parametrize(
    "pattern", ["a|" * 20_000 + "b", r"(?:\p{L}?){900}", "(?:a{900}){900}", "(" * 5000, "x" * 5000]
)
def test_a_pattern_that_is_too_large_is_unreadable(pattern: str) -> None:
    assert match_pattern(pattern, "a") == "unreadable"


@given(
    st.from_regex(r"\A[\^]?(?:[abc.]|\[[ab]{1,3}\]|\(a\|b\))(?:[*+?]|\{1,3\})?[abc]{0,3}\$?\Z"),
    st.text("abcd", max_size=12),
)
def test_simple_patterns_mean_what_python_takes_them_for(pattern: str, text: str) -> None:
    assert match_pattern(pattern, text) == ("matches" if re.search(pattern, text) else "differs")


@given(st.text(max_size=60), st.text(max_size=60))
def test_no_pattern_and_no_text_raises(pattern: str, text: str) -> None:
    assert match_pattern(pattern, text) in ("matches", "differs", "unreadable", "unknown")
