"""`TerminalText`: what was drawn on a terminal, as text."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.host.terminal.output import MAX_LINE_CHARS, MAX_SEQUENCE_CHARS, TerminalText, TextTail


def read(*pieces: bytes, limit: int = 1_000_000, rows: int = 24, ended: bool = True) -> tuple[str, bool]:
    plain = TerminalText(limit, rows)
    for piece in pieces:
        plain.feed(piece)
    return plain.text(ended=ended)


@pytest.mark.parametrize(
    ("drawn", "text"),
    [
        # colours, titles, links, modes, character sets, reports
        (b"\x1b[1;31mred\x1b[0m and \x1b[38:2::1:2:3mmore\x1b[m", "red and more"),
        (b"\x1b]0;a title\x07here", "here"),
        (b"\x1b]8;;http://a.b/\x1b\\link\x1b]8;;\x1b\\!", "link!"),
        (b"\x1bPq#0;2\x1b\\after\x1b_x\x1b\\", "after"),
        (b"\x1b]0;never ended\nnext", "\nnext"),
        (b"\x1b]0;broken off\x1b[1mbold", "bold"),
        (b"\x1b[?25l\x1b[?2004h\x1b(B\x1b=\x1b[>c\x1b[6nx", "x"),
        (b"a\x00b\x07c\x7fd\xc2\x9be", "abcde"),
        # lines
        (b"one\r\ntwo\r\r\nthree\n", "one\ntwo\nthree\n"),
        ("tab\there ü🦊\n".encode(), "tab\there ü🦊\n"),
        # drawn over
        (b" 10 %\r 50 %\r100 %\n", "100 %\n"),
        (b"long line\rshort\x1b[K\n", "short\n"),
        (b"long line\r\x1b[2Kshort", "short"),
        (b"abc\b\bX", "aXc"),
        (b"abc\x1b[2DX\x1b[1CY", "aXcY"),
        (b"abc\x1b[10GX", "abc      X"),
        (b"abcdef\x1b[3G\x1b[1KX", "  Xdef"),
        # several lines at once, as installers and test runners do it
        (b"a: 1\nb: 1\n\x1b[2Aa: 2\nb: 2\n", "a: 2\nb: 2\n"),
        (b"a: 1\nb: 1\x1b[1F\x1b[Ja: done", "a: done"),
        (b"x\n\x1b7\x1b[5;1Hfoot\x1b8y", "x\ny\n\n\nfoot"),
        (b"a\nb\nc\x1b[sX\x1b[HY\x1b[uZ", "Y\nb\ncZ"),
        # a cleared screen was read; the other screen leaves nothing behind
        (b"before\x1b[2J\x1b[Hafter", "before\nafter"),
        (b"before\n\x1b[?1049h\x1b[Hpager\x1b[?1049lafter", "before\nafter"),
        (b"before\n\x1b[?1049h\x1b[Hpager", "before\n\npager"),
    ],
)
def test_what_is_drawn_reads_as_a_person_sees_it(drawn: bytes, text: str) -> None:
    assert read(drawn) == (text, False)


def test_a_thousand_progress_bars_are_one_line() -> None:
    bars = b"".join(b"\x1b[32m%4d / 1000\x1b[0m\r" % number for number in range(1, 1001))
    assert read(bars + b"\n") == ("1000 / 1000\n", False)


def test_what_has_left_the_screen_is_not_drawn_over() -> None:
    assert read(b"1\n2\n3\n\x1b[9Ax", rows=2) == ("1\n2\nx\n", False)


def test_half_a_character_waits_for_its_rest() -> None:
    fox = "🦊".encode()
    assert read(b"a" + fox[:2], ended=False) == ("a", False)
    assert read(b"a" + fox[:2], ended=True) == ("a\ufffd", False)
    assert read(b"a" + fox[:2], fox[2:], ended=False) == ("a🦊", False)


def test_a_sequence_without_end_hides_no_more_than_its_limit() -> None:
    text, _ = read(b"\x1b]" + b"x" * (MAX_SEQUENCE_CHARS + 1))
    assert text.endswith("xxx")


def test_a_line_without_end_is_kept_whole() -> None:
    words = [b"\x1b[1mword " for _ in range(MAX_LINE_CHARS)]
    assert read(*words) == ("word " * MAX_LINE_CHARS, False)


def test_truncated_output_begins_at_a_line() -> None:
    plain = TerminalText(100, 24, truncated=True)
    plain.feed(b"1mrest of a line\nwhole line\n")
    assert plain.text(ended=True) == ("whole line\n", True)


def test_the_beginning_of_the_text_is_dropped() -> None:
    assert read(b"\x1b[1maaaa\x1b[0m" + "🦊🦊".encode(), limit=7) == ("🦊", True)
    assert read(b"a", limit=0) == ("", True)
    assert read(b"", limit=0) == ("", False)


PIECES = (
    "word|\n|\r|\r\n|\b|\t|\x1b|\x1b[|\x1b[2A|\x1b[K|\x1b[2J|\x1b[31m|\x1b]0;t|\x07|\x1b\\|\x1b[5;3H|\x1b[?1049h|\x1b[?1049l|\x1b7|\x1b8|"
    "\x1b[999999999999C|\x1b[99999B|\x1bP|[1m|;|ü🦊|\x00|\x9b|\x18"
)
WORDS = st.lists(st.sampled_from([b"\xff", *(piece.encode() for piece in PIECES.split("|"))]), max_size=40).map(
    b"".join
)


@settings(deadline=None, max_examples=300)
@given(data=WORDS | st.binary(max_size=80), cuts=st.lists(st.integers(0, 200), max_size=6), rows=st.integers(1, 5))
def test_the_pieces_that_it_came_in_make_no_difference(data: bytes, cuts: list[int], rows: int) -> None:
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    assert read(*(data[start:end] for start, end in pairwise(edges)), rows=rows) == read(data, rows=rows)


@settings(deadline=None)
@given(data=WORDS | st.binary(max_size=80), limit=st.integers(0, 40), rows=st.integers(1, 5))
def test_the_text_never_exceeds_the_limit(data: bytes, limit: int, rows: int) -> None:
    text, _ = read(data, limit=limit, rows=rows)
    assert len(text.encode()) <= limit


@settings(deadline=None)
@given(
    text=st.text(st.characters(exclude_categories=["Cc", "Cs"]) | st.sampled_from("\n\t"), max_size=80),
    limit=st.integers(0, 120),
    rows=st.integers(1, 4),
)
def test_text_without_control_characters_comes_through_as_it_is(text: str, limit: int, rows: int) -> None:
    tail = TextTail(limit)
    tail.feed(text.encode())
    assert read(text.encode(), limit=limit, rows=rows) == tail.text(ended=True)
