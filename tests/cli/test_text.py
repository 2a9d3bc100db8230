from __future__ import annotations

import re

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from dragoman.cli.text import columns, exact, inert_json, one_line, plain
from dragoman.record.text import strip_controls


def test_escape_sequences_are_removed_whole_and_text_stays() -> None:
    assert (
        strip_controls("\x1b[1;31mred\x1b[0m \x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\ \x1bcreset") == "red link reset"
    )


def test_a_string_for_the_terminal_that_never_ends_swallows_nothing() -> None:
    assert strip_controls("\x1b]0;title\nand the rest") == "0;title\nand the rest"


def test_line_ends_and_tabs_stay_and_carriage_returns_go() -> None:
    assert strip_controls("a\tb\r\nc\rd") == "a\tb\ncd"


@given(st.lists(st.text()))
def test_no_control_character_passes_however_the_text_is_split(parts: list[str]) -> None:
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", "".join(strip_controls(part) for part in parts))


def test_the_direction_of_writing_cannot_be_turned() -> None:
    assert plain("rm \u202efdp.\u2066x") == "rm fdp.x"
    assert strip_controls("שלום") == "שלום"


def test_text_that_is_used_as_it_is_is_shown_as_it_is() -> None:
    assert exact("a\tb\u3000c\nd é 漢") == "a\tb\u3000c\nd é 漢"
    assert exact("\x1b]x\x07\r\u200b\ud800") == r"\x1b]x\x07\r\u200b\ud800"


@given(st.text())
def test_spelled_out_characters_act_on_nothing(text: str) -> None:
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", exact(text))


@given(st.text())
def test_json_on_a_terminal_has_the_same_value_and_acts_on_nothing(text: str) -> None:
    line = inert_json(msgspec.json.encode(text))
    assert msgspec.json.decode(line) == text
    assert not re.search(r"[\x00-\x1f\x7f-\x9f\u202a-\u202e]", line.decode())


def test_one_line_is_one_line() -> None:
    assert one_line("a\n\tb  c", 80) == "a b c"
    assert one_line("abcdef", 4) == "abc…"
    assert one_line("漢字漢字", 5) == "漢字…"


@given(st.text(), st.integers(min_value=2, max_value=40))
def test_one_line_fits(text: str, width: int) -> None:
    line = one_line(text, width)
    assert columns(line) <= width
    assert "\n" not in line
