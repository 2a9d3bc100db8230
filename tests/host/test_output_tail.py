"""`TextTail`: the end of a stream, in bounded memory, beginning at a character."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.host.terminal.output import TextTail


def fed(limit: int, *pieces: bytes) -> TextTail:
    tail = TextTail(limit)
    for piece in pieces:
        tail.feed(piece)
    return tail


def test_all_is_kept_within_the_limit() -> None:
    assert fed(5, b"ab", b"cde").text(ended=True) == ("abcde", False)


def test_the_beginning_is_dropped() -> None:
    assert fed(5, b"abc", b"defg").text(ended=True) == ("cdefg", True)


@pytest.mark.parametrize(("limit", "text"), [(1, "x"), (2, "x"), (3, "x"), (4, "x"), (5, "🦊x"), (0, "")])
def test_text_is_truncated_at_a_character(limit: int, text: str) -> None:
    assert fed(limit, "aa🦊x".encode()).text(ended=True) == (text, True)


def test_half_a_character_waits_for_its_rest() -> None:
    tail = fed(100, "a🦊".encode()[:3])
    assert tail.text(ended=False) == ("a", False)
    tail.feed("🦊".encode()[2:])
    assert tail.text(ended=False) == ("a🦊", False)
    assert fed(100, "a🦊".encode()[:3]).text(ended=True) == ("a\ufffd", False)


def test_what_is_no_text_is_replaced_within_the_limit() -> None:
    text, truncated = fed(10, b"\xff" * 10).text(ended=True)
    assert (text, truncated) == ("\ufffd" * 3, True)


def test_nothing_is_not_truncated() -> None:
    assert fed(0).text(ended=True) == ("", False)


@settings(deadline=None)
@given(pieces=st.lists(st.binary(max_size=20), max_size=20), limit=st.integers(0, 40), ended=st.booleans())
def test_the_text_never_exceeds_the_limit(pieces: list[bytes], limit: int, ended: bool) -> None:
    text, truncated = fed(limit, *pieces).text(ended=ended)
    assert len(text.encode()) <= limit
    assert truncated or len(b"".join(pieces)) <= limit


@settings(deadline=None)
@given(text=st.text(max_size=60), limit=st.integers(0, 100), cuts=st.lists(st.integers(0, 240), max_size=5))
def test_text_is_truncated_to_the_longest_end_that_fits(text: str, limit: int, cuts: list[int]) -> None:
    data = text.encode()
    edges = [0, *sorted(cuts), len(data)]
    pieces = [data[start:end] for start, end in pairwise(edges)]
    ends = (text[start:] for start in range(len(text) + 1))
    longest = next(end for end in ends if len(end.encode()) <= limit)
    assert fed(limit, *pieces).text(ended=True) == (longest, len(data) > limit)
