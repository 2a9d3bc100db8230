"""`PieceMerger`: a stored conversation without the pieces that a later piece replaces."""

from __future__ import annotations

from collections.abc import Sequence

from dragoman.cli.screen import Ending, Line, MessageEnd, Piece, Span, Text, Thought
from dragoman.cli.sessions.show import PieceMerger


def settled(*pieces: Piece) -> Sequence[Piece]:
    settling = PieceMerger()
    return [*(done for piece in pieces for done in settling.put(piece)), *settling.end()]


def line(text: str, key: str | None = None) -> Line:
    return Line((Span(text),), key)


def test_a_line_that_is_ended_next_is_left_out() -> None:
    assert settled(line("begun", "a"), Ending("a", (Span("done"),))) == [line("done")]


def test_a_line_that_something_came_after_stays() -> None:
    assert settled(line("begun", "a"), line("other"), Ending("a", (Span("done"),))) == [
        line("begun"),
        line("other"),
        line("done"),
    ]
    assert settled(line("begun", "a"), Text("words", "m"), Ending("a", (Span("done"),))) == [
        line("begun"),
        Text("words", "m"),
        line("done"),
    ]
    assert settled(line("begun", "a"), line("another", "b"), Ending("a", (Span("done"),))) == [
        line("begun"),
        line("another"),
        line("done"),
    ]


def test_a_line_that_never_ended_is_shown_at_the_end() -> None:
    assert settled(line("begun", "a")) == [line("begun")]
    assert settled(Text("half a sen", "m")) == [Text("half a sen", "m")]


def test_the_parts_of_a_message_are_one() -> None:
    parts = (Text("one ", "m"), Text("two", "m"), MessageEnd("m"), Text("three", "n"))
    assert settled(*parts) == [Text("one two", "m"), MessageEnd("m"), Text("three", "n")]


def test_a_thought_is_not_merged_with_the_text_around_it() -> None:
    parts = (Thought("hm", "m"), Thought("!", "m"), Text("so", "m"), Thought("hm", "m"))
    assert settled(*parts) == [Thought("hm!", "m"), Text("so", "m"), Thought("hm", "m")]
