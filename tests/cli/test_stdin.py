from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from dragoman.cli.plan import prompt_parts
from dragoman.errors import InputError
from dragoman.session.prompt import FileAttachment, ImageAttachment, TextAttachment


@pytest.fixture
def nothing() -> Iterator[int]:
    fd = os.open(os.devnull, os.O_RDONLY)
    yield fd
    os.close(fd)


@pytest.fixture
def piped(tmp_path: Path) -> Iterator[int]:
    path = tmp_path / "stdin"
    path.write_text("notes\n")
    fd = os.open(path, os.O_RDONLY)
    yield fd
    os.close(fd)


def test_words_are_joined(nothing: int) -> None:
    assert prompt_parts(["fix", "the", "test"], fd=nothing) == ("fix the test",)


def test_piped_input_is_attached_to_the_words(piped: int) -> None:
    assert prompt_parts(["look"], fd=piped) == ("look", TextAttachment("stdin", "notes\n"))


@pytest.mark.parametrize("words", [[], ["-"], [""]])
def test_piped_input_is_the_prompt_without_words(piped: int, words: list[str]) -> None:
    assert prompt_parts(words, fd=piped) == ("notes\n",)


def test_files_and_images_come_after(nothing: int) -> None:
    parts = prompt_parts(["look"], files=[Path("a")], images=[Path("b")], fd=nothing)
    assert parts == ("look", FileAttachment(Path("a")), ImageAttachment(Path("b")))


def test_a_missing_prompt_is_answered_with_an_example(nothing: int) -> None:
    with pytest.raises(InputError, match="empty") as raised:
        prompt_parts([], fd=nothing)
    assert "For example" in raised.value.guidance


def test_a_closed_stdin_is_reported() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    os.close(writing)
    with pytest.raises(InputError, match="standard input cannot be read"):
        prompt_parts([], fd=reading)
    assert prompt_parts(["hello"], fd=reading) == ("hello",)
