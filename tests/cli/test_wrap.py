from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.cli import text
from dragoman.cli.text import Wrapper

WIDTH = 20


def on_terminal(written: str) -> list[str]:
    """Return the lines that a terminal shows; it knows the control sequences of the wrapper."""
    lines, column = [""], 0
    for part in re.findall(r"\x1b\[\d*[DK]|.|\n", written):
        if part == "\n":
            lines.append("")
            column = 0
        elif part.endswith("D") and part.startswith("\x1b"):
            column -= int(part[2:-1])
        elif part == "\x1b[K":
            lines[-1] = lines[-1][:column]
        else:
            lines[-1] = lines[-1][:column] + part
            column += 1
    return [line.rstrip() for line in lines]


def fed(*parts: str) -> list[str]:
    wrapper = Wrapper(WIDTH)
    return on_terminal("".join(wrapper.feed(part) for part in parts))


def test_words_are_kept_whole() -> None:
    assert fed("The quick brown fox jumps over") == ["The quick brown fox", "jumps over"]


def test_a_word_that_grows_past_the_edge_moves_to_the_next_line() -> None:
    assert fed("The quick brown fo", "xes", " jump") == ["The quick brown", "foxes jump"]


def test_every_part_is_written_at_once() -> None:
    assert Wrapper(WIDTH).feed("half a wor") == "half a wor"


def test_a_word_longer_than_the_line_is_left_to_the_terminal() -> None:
    assert fed("see " + "x" * 50) == ["see", "x" * 50]


def test_code_and_tables_stay_as_they_are() -> None:
    long = "def f(a, b): return a + b + 1"
    assert fed("``", f"`python\n{long}\n```\n{long}") == ["```python", long, "```", "def f(a, b): return", "a + b + 1"]
    assert fed(f"| {long} |") == [f"| {long} |"]


def test_a_fence_left_open_ends_with_its_message() -> None:
    wrapper = Wrapper(WIDTH)
    wrapper.feed("```\ncode")
    wrapper.begin_message()
    assert on_terminal(wrapper.feed("The quick brown fox jumps")) == ["The quick brown fox", "jumps"]


@given(st.lists(st.text(alphabet="ab \n", max_size=12), max_size=12))
def test_the_text_is_the_same_however_it_is_split(parts: list[str]) -> None:
    lines = fed(*parts)
    assert " ".join(lines).split() == "".join(parts).split()
    assert lines == fed("".join(parts))
    assert all(len(line) < WIDTH or " " not in line for line in lines)


def test_a_very_long_word_is_measured_once(monkeypatch: pytest.MonkeyPatch) -> None:
    measured = 0

    def count(text: str) -> int:
        nonlocal measured
        measured += len(text)
        return 2 * len(text)

    monkeypatch.setattr(text, "columns", count)
    wrapper = Wrapper(WIDTH)
    assert "".join(wrapper.feed(character) for character in "漢" * 1000) == "漢" * 1000
    assert measured == 1000
