from __future__ import annotations

import io
from collections.abc import Iterable

import pytest

from dragoman.cli.output import STDERR, STDOUT, Outbox
from dragoman.cli.screen import (
    CLEAR_LINE,
    Ending,
    Line,
    MessageEnd,
    Piece,
    Screen,
    Span,
    Text,
    Thought,
    without_colours,
)


class RecordingOutbox(Outbox):
    """An outbox that records its data, in order and by stream."""

    def __init__(self) -> None:
        super().__init__()
        self.all = io.StringIO()
        self.streams = {STDOUT: "", STDERR: ""}

    def put(self, fd: int, data: bytes | str) -> None:
        text = data if isinstance(data, str) else data.decode()
        self.all.write(text)
        self.streams[fd] += text


def drawn(pieces: Iterable[Piece], *, tty: bool = False, shared: bool = False, quiet: bool = False) -> RecordingOutbox:
    outbox = RecordingOutbox()
    screen = Screen(
        outbox,
        text_tty=tty,
        notes_tty=tty,
        shared=shared,
        width=80 if tty else None,
        quiet=quiet,
        paint=without_colours,
    )
    for piece in pieces:
        screen.put(piece)
    screen.end()
    return outbox


def line(text: str, key: str | None = None) -> Line:
    return Line((Span(text),), key)


RUN: list[Piece] = [
    Text("\n\nOne", "a"),
    Text(" two.\n\n", "a"),
    MessageEnd("a"),
    line("● tool", "t"),
    Ending("t", (Span("✓ tool"),)),
    Text("Three\n", "b"),
    Text("\nfour", "b"),
    Text("\n", "b"),
    MessageEnd("b"),
    line("done"),
]


def test_stdout_alone_is_the_text_with_a_blank_line_between_messages() -> None:
    outbox = drawn(RUN)
    assert outbox.streams[STDOUT] == "One two.\n\nThree\n\nfour\n"
    assert outbox.streams[STDERR] == "● tool\n✓ tool\ndone\n"


def test_a_message_ends_its_line_before_the_other_stream_goes_on() -> None:
    assert "One two.\n● tool\n" in drawn(RUN).all.getvalue()


def test_on_one_terminal_blank_lines_separate_text_from_other_lines() -> None:
    assert drawn(RUN, tty=True, shared=True).all.getvalue() == (
        f"One two.\n\n● tool{CLEAR_LINE}✓ tool\n\nThree\n\nfour\n\ndone\n"
    )


def test_a_result_that_comes_later_has_a_line_of_its_own() -> None:
    pieces: list[Piece] = [line("● one", "1"), line("● two", "2"), Ending("1", (Span("✓ one"),))]
    assert drawn(pieces, tty=True).streams[STDERR] == "● one\n● two\n✓ one\n"


def test_a_message_goes_on_after_a_line_in_between() -> None:
    pieces: list[Piece] = [Text("One ", "a"), line("note"), Text("two", "a")]
    assert drawn(pieces).streams[STDOUT] == "One two\n"
    assert drawn(pieces, tty=True, shared=True).all.getvalue() == "One \n\nnote\n\ntwo\n"


def test_blank_lines_separate_thoughts_from_text() -> None:
    pieces: list[Piece] = [
        Thought("Hm.", "a"),
        MessageEnd("a"),
        Thought("So.", "b"),
        MessageEnd("b"),
        Text("Yes.", "c"),
    ]
    assert drawn(pieces, tty=True, shared=True).all.getvalue() == "Hm.\n\nSo.\n\nYes.\n"


def test_messages_without_text_leave_no_trace() -> None:
    assert drawn([Text("\n", "a"), MessageEnd("a"), Text("", "b"), MessageEnd("b")]).all.getvalue() == ""


def test_quiet_leaves_the_text() -> None:
    outbox = drawn(RUN, quiet=True)
    assert outbox.streams == {STDOUT: "One two.\n\nThree\n\nfour\n", STDERR: ""}


def test_a_terminal_gets_clean_text_and_a_file_gets_all_of_it() -> None:
    pieces: list[Piece] = [Text("a\x1b[2Jb", "a")]
    assert drawn(pieces, tty=True).streams[STDOUT] == "ab\n"
    assert drawn(pieces).streams[STDOUT] == "a\x1b[2Jb\n"


async def test_text_that_no_stream_can_carry_is_replaced(capfd: pytest.CaptureFixture[str]) -> None:
    outbox = Outbox()
    outbox.put(STDOUT, "half a pair: \ud800\n")
    await outbox.flush()
    assert capfd.readouterr().out == "half a pair: ?\n"


def test_words_are_wrapped_again_after_a_message_whose_fence_never_closed() -> None:
    long = "word " * 30
    pieces: list[Piece] = [Text(f"```\n{long}", "a"), line("● tool"), Text(long, "b")]
    shown = drawn(pieces, tty=True, shared=True).all.getvalue().splitlines()
    assert len(shown[1]) > 80
    assert max(map(len, shown[2:])) <= 80
