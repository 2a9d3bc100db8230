"""The form of a file (line ends, byte order mark), which a write keeps."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.host.files import comparable_text, preserve_form

texts = st.text(st.sampled_from("ab\n\r\ufeff"), max_size=12)


@pytest.mark.parametrize(
    ("old", "new", "written"),
    [
        ("a\r\nb\r\n", "a\nc\n", "a\r\nc\r\n"),
        ("a\r\nb\r\n", "a\nc", "a\r\nc"),
        ("a\r\nb", "c\n", "c\r\n"),
        ("a\r\nb\n", "a\nc\n", "a\nc\n"),  # mixed: nothing to keep
        ("a\nb\n", "a\r\nc\r\n", "a\r\nc\r\n"),  # the author knows of them
        ("a\r\nb\r\n", "a\r\nc\n", "a\r\nc\n"),
        ("a", "b\n", "b\n"),
        ("", "b\n", "b\n"),
        ("\ufeffa\n", "b\n", "\ufeffb\n"),
        ("\ufeffa\n", "\ufeffb\n", "\ufeffb\n"),
        ("\ufeffa\r\n", "b\n", "\ufeffb\r\n"),
        ("\ufeffa\n", "", ""),
        ("a\r\n", "", ""),
    ],
)
def test_line_ends_and_the_byte_order_mark_are_preserved(old: str, new: str, written: str) -> None:
    assert preserve_form(old, new) == written


@pytest.mark.parametrize(
    ("old", "new", "shown"),
    [
        ("a\r\nb\r\n", "a\nc\n", "a\nb\n"),
        ("a\r\nb\r\n", "a\r\nc\n", "a\r\nb\r\n"),
        ("\ufeffa\r\n", "b\n", "a\n"),
        ("\ufeffa\n", "\ufeffb\n", "\ufeffa\n"),
        ("\ufeffa\n", "", "\ufeffa\n"),
    ],
)
def test_a_preserved_form_is_not_shown_as_a_difference(old: str, new: str, shown: str) -> None:
    assert comparable_text(old, new) == shown


@given(texts, texts)
def test_writing_what_is_shown_changes_nothing(old: str, new: str) -> None:
    shown = comparable_text(old, new)
    # What the agent would send to leave the file alone, in the form it writes in.
    if shown and comparable_text(old, shown) == shown:
        assert preserve_form(old, shown) == old


@given(texts, texts)
def test_only_line_ends_and_the_mark_differ_from_what_was_sent(old: str, new: str) -> None:
    def bare(text: str) -> str:
        return text.replace("\r\n", "\n").removeprefix("\ufeff")

    assert bare(preserve_form(old, new)) == bare(new)
