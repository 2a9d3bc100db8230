"""`MarkdownStream`: the layout of blocks, whatever the chunks, and hostile input."""

from __future__ import annotations

import re
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.cli.markdown import MAX_BLOCK_CHARACTERS, MarkdownStream

DOCUMENT = """\
# Title

Some **bold** and *slanted* words, `code` and a [link](http://example.org/a). They wrap at the right edge of a terminal.
Its second line.

- one
- two with `code`, and much more text than fits into a single line of the terminal
  - nested **item**
1. first
10. tenth

    belongs to it

```python
def double(x):
    return 2 * x
```

| name | size |
|------|------|
| a    | 1    |

> quoted
> words

Underlined
----------
"""


def plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def rendered(chunks: Iterable[str], *, width: int = 60, colours: bool = True) -> str:
    stream = MarkdownStream(width, colours=colours)
    lines = ""
    for chunk in chunks:
        lines += stream.feed(chunk)
        lines += stream.draw()[0]
    return lines + stream.end()


def test_blocks_are_laid_out_for_people() -> None:
    assert plain(rendered([DOCUMENT])) == (
        "Title\n"
        "\n"
        "Some bold and slanted words, code and a link\n"
        "(http://example.org/a). They wrap at the right edge of a\n"
        "terminal. Its second line.\n"
        "\n"
        "• one\n"
        "• two with code, and much more text than fits into a single\n"
        "  line of the terminal\n"
        "  • nested item\n"
        "1. first\n"
        "10. tenth\n"
        "    belongs to it\n"
        "\n"
        "  def double(x):\n"
        "      return 2 * x\n"
        "\n"
        " name  size\n"
        " ──────────\n"
        " a     1\n"
        "\n"
        "▌ quoted words\n"
        "\n"
        "Underlined\n"
    )


def test_styles_are_those_of_the_terminal_and_no_colour_means_no_colour() -> None:
    text = "**bold** and `code`\n"
    assert rendered([text]) == "\x1b[1mbold\x1b[0m and \x1b[36mcode\x1b[0m\n"
    assert rendered([text], colours=False) == "\x1b[1mbold\x1b[0m and code\n"


@given(st.lists(st.integers(1, 30), min_size=1, max_size=60))
def test_the_split_of_a_text_does_not_change_its_display(sizes: list[int]) -> None:
    chunks, rest = [], DOCUMENT
    for size in sizes:
        chunks.append(rest[:size])
        rest = rest[size:]
    assert rendered([*chunks, rest]) == rendered([DOCUMENT])


def test_a_long_paragraph_comes_line_by_line() -> None:
    stream = MarkdownStream(20, colours=False)
    assert stream.feed("These are words that") == ""
    assert stream.draw() == ("These are words\n", "that")
    assert stream.feed(" go on, **and") == ""
    assert stream.draw() == ("", "that go on, **and")  # it may still become bold
    assert stream.feed(" on** and on, on.") == ""
    assert stream.draw() == ("that go on, \x1b[1mand on\x1b[0m\n", "and on, on.")
    assert stream.end() == "and on, on.\n"


def test_a_line_that_may_still_become_something_else_is_not_shown() -> None:
    stream = MarkdownStream(40, colours=False)
    for beginning in ("-", "12", "1.", "``", "##", "--", "* *"):
        assert stream.feed(beginning) == ""
        assert stream.draw() == ("", "")
        stream.end()


def test_code_comes_line_by_line_and_is_not_wrapped() -> None:
    stream = MarkdownStream(20, colours=False)
    long = "x = " + "1 + " * 20 + "1"
    assert stream.feed(f"```\n{long}\n**not bold**\n") == f"  {long}\n  **not bold**\n"
    assert stream.feed("half") == ""
    assert stream.draw() == ("", "  half")
    assert stream.feed(" a line\n```\nafter\n\n") == "  half a line\n\nafter\n"


def test_a_code_block_left_open_ends_with_its_message() -> None:
    stream = MarkdownStream(40, colours=False)
    assert stream.feed("```\ncode") + stream.end() == "  code\n"
    stream.restart()
    assert stream.feed("**text**\n\n") == "\x1b[1mtext\x1b[0m\n"


@pytest.mark.parametrize(
    "text", ["&#27;[31mred\n\n", "&#x9b;31mred\n\n", "`&#27;[2J`\n\n", "[a](http://x/&#27;]0;t&#7;)\n\n"]
)
def test_characters_that_markdown_decodes_do_not_act_on_the_terminal(text: str) -> None:
    assert not re.search(r"[\x00-\x08\x0b-\x1a\x1c-\x1f\x7f-\x9f]", rendered([text]))
    assert "\x1b" not in plain(rendered([text]))


def test_links_are_written_out_and_not_hidden_behind_their_words() -> None:
    assert rendered(["[safe](https://evil.example/x)\n"], colours=False).endswith("https://evil.example/x\x1b[0m)\n")


def test_text_without_line_ends_is_rendered_in_parts() -> None:
    stream = MarkdownStream(80, colours=False)
    lines = "".join(stream.feed("word ") for _ in range(MAX_BLOCK_CHARACTERS))
    assert len(lines) > 3 * MAX_BLOCK_CHARACTERS
    assert (lines + stream.end()).split() == ["word"] * MAX_BLOCK_CHARACTERS


def test_a_table_that_is_too_long_goes_on_verbatim() -> None:
    rows = [f"| {number} | {'x' * 40} |" for number in range(600)]
    shown = rendered(["| n | x |\n|---|---|\n", *(f"{row}\n" for row in rows)], colours=False)
    assert plain(shown).splitlines()[-1] == rows[-1]
    assert all(f" {number} " in plain(shown) for number in range(600))
