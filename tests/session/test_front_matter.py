"""Front matter: what is read, what is refused with its line, and that no input does anything else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.session.front_matter import MAX_FRONT_MATTER_CHARS, MAX_KEYS, FrontMatterError, read_markdown

SKILL = """---
name: pdf-processing
description: >-
  Extract text: use when
  a PDF is named.

  Not for scans.
license: "Apache-2.0"
metadata:
  author: 'Ada''s team'   # a comment
  version: "1.0"
allowed-tools: [Read, 'Grep']
tags:
  - one
  - two  # the second
wrapped: first
  second
always: true # with every prompt
literal: |
  one
    two
empty:
---
# PDF
"""


def test_the_values_of_a_skill_are_read_as_texts_lists_and_one_level_of_keys() -> None:
    markdown = read_markdown(SKILL)
    assert markdown.values == {
        "name": "pdf-processing",
        "description": "Extract text: use when a PDF is named.\n\nNot for scans.",
        "license": "Apache-2.0",
        "metadata": {"author": "Ada's team", "version": "1.0"},
        "allowed-tools": ("Read", "Grep"),
        "tags": ("one", "two"),
        "wrapped": "first second",
        "always": "true",
        "literal": "one\n  two",
        "empty": "",
    }
    assert markdown.body == "# PDF\n"
    assert (markdown.text("tags"), markdown.text("metadata"), markdown.is_true("always")) == ("one, two", "", True)


@pytest.mark.parametrize("text", ["", "# Title\n", "----\na: b\n---\n", "text\n---\na: b\n---\n"])
def test_a_file_without_front_matter_is_all_body(text: str) -> None:
    assert (read_markdown(text).values, read_markdown(text).body) == ({}, text)


def test_windows_line_ends_a_byte_order_mark_and_a_colon_in_a_text_are_read() -> None:
    markdown = read_markdown("\ufeff---\r\ndescription: Use when: asked # now\r\n---\r\nbody\r\n")
    assert (markdown.text("description"), markdown.body) == ("Use when: asked", "body\n")


def test_escapes_are_read_in_double_quotes_only() -> None:
    assert read_markdown('---\na: "tab\\t\\u0041\\ud800 \\"x\\""\nb: \'\\t\'\n---\n').values == {
        "a": 'tab\tA\ufffd "x"',
        "b": "\\t",
    }


@pytest.mark.parametrize(
    ("lines", "line", "message"),
    [
        ("a: &x 1", 2, "an anchor"),
        ("a: *x", 2, "an alias"),
        ("a: !!python/object/apply:os.system [id]", 2, "a tag"),
        ("a: {b: c}", 2, "a mapping in braces"),
        ("x: 1\nb", 3, "expected `key: value`"),
        ("a: 1\na: 2", 3, "a is there twice"),
        ("a:\n\tb: 1", 3, "a tab cannot indent"),
        (" a: 1", 2, "belongs to no key"),
        ('a: "open', 2, "must end on its line"),
        ("a: 'x' y", 2, "must end on its line"),
        ('a: "\\x41"', 2, "is no escape"),
        ("a: [1,", 2, "must end on its line"),
        ("a:\n  b:\n    c: d", 3, "only texts"),
        ("a:\n  b: c\n d: e", 4, "only one level"),
        ("a:\n  -", 3, "is empty"),
        ("a: |\n   x\n  y", 4, "indented less"),
        ("\n".join(f"k{number}: x" for number in range(MAX_KEYS + 1)), MAX_KEYS + 2, "more than"),
    ],
)
def test_what_is_not_read_is_refused_with_its_line(lines: str, line: int, message: str) -> None:
    with pytest.raises(FrontMatterError, match=message) as caught:
        read_markdown(f"---\n{lines}\n---\n")
    assert caught.value.line == line


@pytest.mark.parametrize("text", ["---", "---\n", "---\na: b\n", f"---\na: {'x' * MAX_FRONT_MATTER_CHARS}\n---\n"])
def test_front_matter_without_an_end_is_refused(text: str) -> None:
    with pytest.raises(FrontMatterError):
        read_markdown(text)


PIECES = st.sampled_from(
    [
        "---",
        "\n",
        "\r\n",
        "a",
        "key",
        ":",
        " ",
        "  ",
        "\t",
        "- ",
        "|",
        ">",
        "[",
        "]",
        ",",
        "'",
        '"',
        "\\",
        "#",
        "&",
        "\0",
    ]
)


@given(st.lists(PIECES, max_size=60).map("".join))
def test_no_input_raises_anything_else(text: str) -> None:
    try:
        markdown = read_markdown(f"---\n{text}\n---\nbody")
    except FrontMatterError:
        return
    assert all(isinstance(value, str | tuple | dict) for value in markdown.values.values())


@pytest.mark.parametrize("unit", [" ", " #", "\\", "'", '"', "a ", "- ", "[", "\n", " \n", "  x\n", ": "])
def test_a_hostile_text_is_read_in_steps_that_grow_with_its_length_only(unit: str) -> None:
    # A quadratic reader would take minutes for these, and the suite's own limit would end the test.
    for begin in ("a: ", "a: '", 'a: "', "a:\n  ", "a: >\n  ", "a: ["):
        for end in ("", "x", "'", '"', "]"):
            text = f"---\n{begin}{unit * (16_000 // len(unit))}{end}\n---\n"
            try:
                read_markdown(text)
            except FrontMatterError:
                pass
