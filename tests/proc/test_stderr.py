from __future__ import annotations

import itertools
import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.proc.link import TRUNCATION_MARK, StderrTail


def fed(*pieces: bytes, **limits: int) -> StderrTail:
    tail = StderrTail(**limits)  # type: ignore[arg-type]  # the keyword-only limits
    for piece in pieces:
        tail.feed(piece)
    return tail


def test_lines_are_joined_across_pieces_and_an_unfinished_one_is_shown() -> None:
    assert fed(b"one\ntw", b"o\nthr", b"ee").text() == "one\ntwo\nthree"


@pytest.mark.attempts("secrets")
def test_values_that_are_to_be_hidden_are_shown_by_their_names() -> None:
    lines: list[str] = []
    tail = StderrTail(lines.append)
    tail.hide({"KEY": "s3cret", "LONGER": "s3cret-and-more", "PIN": "1234"})
    tail.feed(b"use s3cret-and-more or s3cret, 1234\nand s3cret")
    assert tail.text() == "use [secret:LONGER] or [secret:KEY], 1234\nand [secret:KEY]"
    assert lines == ["use [secret:LONGER] or [secret:KEY], 1234"]


def test_only_the_last_lines_are_stored() -> None:
    tail = fed(b"".join(b"%d\n" % number for number in range(1000)), max_lines=3)
    assert tail.text() == "997\n998\n999"
    assert tail.text(lines=1) == "999"
    assert tail.text(lines=0) == ""
    assert tail.total_bytes == 3890


def test_long_lines_do_not_keep_more_than_the_limit() -> None:
    tail = fed(*[b"x" * 1000 + b"\n"] * 100, max_characters=5000)
    assert len(tail.text(lines=10**6)) <= 5000 + 100


def test_an_overlong_line_is_truncated_and_says_so() -> None:
    tail = fed(b"ab", b"cdef", b"ghi", b"jkl\nnext\n", max_line=4)
    assert tail.text() == f"abcd{TRUNCATION_MARK}\nnext"


def test_a_megabyte_without_a_newline_costs_one_line() -> None:
    tail = fed(*[b"x" * 65536] * 16)
    assert len(tail.text()) < 5000
    tail.feed(b"\nafter\n")
    assert tail.text().endswith(f"{TRUNCATION_MARK}\nafter")


def test_a_progress_line_shows_its_last_state() -> None:
    assert fed(b"10%\r50%\r100%\r\ndone\r\n").text() == "100%\ndone"
    many = [b"\r%d of many" % number for number in range(5000)]
    assert fed(*many).text() == "4999 of many"
    assert fed(b"".join(many)).text() == "4999 of many"


def test_terminal_controls_and_broken_utf8_do_not_reach_the_reader() -> None:
    tail = fed(b"\x1b[31mred\x1b[0m \x1b]0;title\x07\x1b]8;;http://x\x1b\\link \x1b(Bplain\x00\x08 \xff\xc3\xa9\ttab\n")
    assert tail.text() == "red link plain \ufffdé\ttab"


def test_listeners_get_each_line_as_it_is_finished_and_the_last_one_at_the_end() -> None:
    reported_lines: list[str] = []
    tail = StderrTail(reported_lines.append)
    tail.feed(b"one\ntwo\nthr")
    assert reported_lines == ["one", "two"]
    tail.end()
    tail.end()
    assert reported_lines == ["one", "two", "thr"]
    assert tail.text() == "one\ntwo\nthr"


def test_a_listener_that_fails_does_not_stop_the_draining(caplog: pytest.LogCaptureFixture) -> None:
    def fail(line: str) -> None:
        raise RuntimeError(line)

    tail = StderrTail(fail)
    with caplog.at_level(logging.ERROR):
        tail.feed(b"one\ntwo\n")
    assert tail.text() == "one\ntwo"
    assert "listener" in caplog.text


@given(st.binary(max_size=200), st.lists(st.integers(0, 200), max_size=5), st.integers(1, 20))
def test_any_split_of_the_bytes_gives_the_same_text(data: bytes, cuts: list[int], max_line: int) -> None:
    points = [0, *sorted(cuts), len(data)]
    pieces = [data[a:b] for a, b in itertools.pairwise(points)]
    whole, split = ([*lines_of([data], max_line)], [*lines_of(pieces, max_line)])
    assert len(whole) == len(split)
    # What a carriage return wipes out may make a line be cut, or not; all other lines are the same.
    if b"\r" not in data:
        assert whole == split


def lines_of(pieces: list[bytes], max_line: int) -> list[str]:
    reported_lines: list[str] = []
    tail = StderrTail(reported_lines.append, max_line=max_line)
    for piece in pieces:
        tail.feed(piece)
    tail.end()
    return reported_lines
