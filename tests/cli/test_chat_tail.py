"""The open line beneath the output: what is printed above it is what a terminal would have shown."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from dragoman.cli.chat.line import Tail
from dragoman.cli.output import Outbox
from dragoman.cli.screen import Ending, Line, MessageEnd, Piece, Screen, Span, Text, Thought
from dragoman.cli.text import columns


def test_only_whole_lines_are_taken() -> None:
    tail = Tail(80)
    tail.feed("one\ntw")
    assert tail.take() == "one\n"
    assert tail.open == "tw"
    tail.feed("o\n")
    assert (tail.take(), tail.open) == ("two\n", "")


def test_a_part_is_taken_back_by_columns() -> None:
    tail = Tail(80)
    tail.feed("a 漢字b")
    tail.feed("\x1b[3D\x1b[K\n漢字bc")
    assert (tail.take(), tail.open) == ("a 漢\n", "漢字bc")


def test_a_wiped_line_leaves_nothing() -> None:
    tail = Tail(80)
    tail.feed("\x1b[36m● \x1b[0mrun it\r\x1b[2K\x1b[32m✓\x1b[0m run it\n")
    assert tail.take() == "\x1b[32m✓\x1b[0m run it\n"


def test_each_line_has_its_own_styles() -> None:
    tail = Tail(80)
    tail.feed("\x1b[2mone\ntwo\x1b[0m three")
    assert tail.take() == "\x1b[2mone\x1b[0m\n"
    assert tail.open == "\x1b[2mtwo\x1b[0m three"


def test_no_line_is_wider_than_the_terminal() -> None:
    tail = Tail(10)
    tail.feed("漢字漢字漢字漢字 0123456789abc\tx\n")
    lines = tail.take().splitlines()
    assert lines == ["漢字漢字漢", "字漢字 012", "3456789abc", "\tx"]
    tail.width = 1
    tail.feed("漢\n")  # too wide, but shown nevertheless
    assert tail.take() == "漢\n"


def test_an_escape_character_alone_acts_on_nothing() -> None:
    tail = Tail(80)
    tail.feed("a\x1bb\rc\x1b[2Jd\n")
    assert "\x1b" not in tail.take()


class Shown(Outbox):
    """An outbox that shows its text on a simulated terminal."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = [""]

    def put(self, fd: int, data: bytes | str) -> None:
        assert isinstance(data, str)
        for token in re.findall(r"\x1b\[[0-9;]*m|\x1b\[\d+D\x1b\[K|\r\x1b\[2K|\n|[^\x1b\r\n]", data):
            if token == "\n":
                self.rows.append("")
            elif token.startswith("\r"):
                self.rows[-1] = ""
            elif token.endswith("K"):
                self.rows[-1] = self.rows[-1][: -int(token[2:].partition("D")[0])]
            elif not token.startswith("\x1b"):
                self.rows[-1] += token


class Tailed(Outbox):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.tail = Tail(width)
        self.taken = ""

    def put(self, fd: int, data: bytes | str) -> None:
        assert isinstance(data, str)
        self.tail.feed(data)
        self.taken += self.tail.take()


WORDS = st.text(alphabet="ab \n", max_size=12)
PIECES: st.SearchStrategy[Piece] = st.one_of(
    st.builds(Text, WORDS, st.sampled_from("12")),
    st.builds(Thought, WORDS, st.sampled_from("34")),
    st.builds(MessageEnd, st.sampled_from("1234")),
    st.builds(Line, st.just((Span("● ", "tool"), Span("tool"))), st.sampled_from(["k", None])),
    st.builds(Ending, st.just("k"), st.just((Span("✓ tool", "good"),))),
)


@given(st.lists(PIECES, max_size=30))
def test_the_printed_lines_are_those_a_terminal_would_show(pieces: list[Piece]) -> None:
    width = 20
    shown, tailed = Shown(), Tailed(width)
    for outbox in (shown, tailed):
        screen = Screen(
            outbox,
            text_tty=True,
            notes_tty=True,
            shared=True,
            width=width,
            paint=lambda spans: "".join(f"\x1b[1m{span.text}\x1b[0m" for span in spans),
        )
        for piece in pieces:
            screen.put(piece)
    written = re.sub(r"\x1b\[[0-9;]*m", "", tailed.taken + tailed.tail.open)
    assert written.split("\n") == shown.rows
    assert all(columns(row) <= width for row in written.split("\n"))
