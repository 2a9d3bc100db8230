"""Patterns of agents: tried, and never for longer than the limit."""

from __future__ import annotations

import pytest

from dragoman.host.question import pattern
from dragoman.host.question.pattern import judge


@pytest.mark.parametrize(
    ("given", "text", "verdict"),
    [
        ("^[a-z]+$", "abc", "matches"),
        ("^[a-z]+$", "ABC", "differs"),
        ("b", "abc", "matches"),  # found anywhere, as JSON Schema has it
        (r"^\d$", "٣", "differs"),  # a digit, but not of those that \d means there
        (r"(?<year>\d{4})", "2026", "matches"),
        ("ä", "ä", "matches"),
        (r"^\p{L}+$", "abc", "unreadable"),
        ("(", "(", "unreadable"),
        ("a\0b", "b", "unreadable"),
    ],
)
def test_a_pattern_is_found_or_not(given: str, text: str, verdict: str) -> None:
    assert judge(given, text) == verdict


def test_a_pattern_that_would_take_for_ever_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pattern, "LIMIT", 0.3)
    assert judge("^(a+)+$", "a" * 60 + "!") == "unknown"
