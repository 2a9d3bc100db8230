from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.agents.demo.requests import (
    MAX_CHUNKS,
    REQUESTS,
    REQUESTS_BY_NAME,
    DemoRequest,
    Intent,
    help_text,
    parse_prompt,
)


@pytest.mark.parametrize(
    ("prompt", "intent"),
    [
        ("plan", Intent("plan")),
        ("Plan!", Intent("plan", "!")),
        ("/plan", Intent("plan")),
        ("please make a plan", Intent("plan")),
        ("Could you please show me the plan", Intent("plan")),
        ("what can you do?", Intent("help", "?")),
        ("everything", Intent("tour")),
        ("take a tour", Intent("tour")),
        ("edit README", Intent("edit", "README")),
        ("please edit the README.", Intent("edit", "README")),
        ("edit the file docs/a.md please", Intent("edit", "docs/a.md")),
        (
            'edit "my notes.txt": buy milk',
            Intent("edit", "my notes.txt", line="buy milk"),
        ),
        ("edit notes.txt: buy milk", Intent("edit", "notes.txt", line="buy milk")),
        ("edit", Intent("edit", "README")),
        ("edit ..", Intent("edit", "..")),
        ("edit the", Intent("edit", "the")),
        ("read src/main.py", Intent("read", "src/main.py")),
        ("delete old.txt", Intent("delete", "old.txt")),
        ("run ls -la", Intent("run", "ls -la")),
        ("RUN `ls -la`", Intent("run", "ls -la")),
        ("run: make test", Intent("run", "make test")),
        ("run", Intent("run", "ls")),
        ("stream 5000", Intent("stream", number=5000)),
        ("stream 5,000 chunks", Intent("stream", number=5000)),
        ("stream 5k", Intent("stream", number=5000)),
        ("stream", Intent("stream", number=200)),
        ("stream 99999999999999999999", Intent("stream", number=MAX_CHUNKS)),
        ("flood", Intent("flood", number=100_000)),
        ("flood 2m", Intent("flood", number=2_000_000)),
        ("sleep 0.5", Intent("sleep", number=0.5)),
        ("sleep for 3 seconds", Intent("sleep", number=3)),
        ("slow 20", Intent("slow", number=20)),
        ("stderr 7", Intent("stderr", number=7)),
        ("ask me", Intent("ask")),
        ("ask me a question", Intent("ask", "a question")),
        ("ask permission", Intent("permission")),
        ("max tokens", Intent("max tokens")),
        ("crash", Intent("crash")),
        ("Crash, please!", Intent("crash")),
        ("hang", Intent("hang")),
        ("title My Title", Intent("title", "My Title")),
        ("mode plan", Intent("mode", "plan")),
        ("mode", Intent("mode")),
        ("hello", Intent("hello", "hello")),
        ("Hi there!", Intent("hello", "Hi there!")),
        ("/nonsense now", Intent("unknown", "/nonsense")),
        ("", Intent("chat")),
    ],
)
def test_a_plain_request_is_understood(prompt: str, intent: Intent) -> None:
    assert parse_prompt(prompt) == intent


@pytest.mark.parametrize(
    "prompt",
    [
        "Fix the failing test",
        "crash reports are missing",
        "error handling is broken",
        "login does not work",
        "planning is everything",
        "run the tests",
        "delete",
        "title",
        "streaming is slow",
    ],
)
def test_what_only_looks_like_a_request_is_talk(prompt: str) -> None:
    assert parse_prompt(prompt) == Intent("chat", prompt)


@given(st.text(max_size=80))
def test_no_prompt_makes_the_parser_fail(prompt: str) -> None:
    assert parse_prompt(prompt).name in {*REQUESTS_BY_NAME, "chat", "hello", "unknown"}


@given(st.sampled_from(REQUESTS), st.text(max_size=30))
def test_no_argument_makes_the_parser_fail(asked_request: DemoRequest, rest: str) -> None:
    assert parse_prompt(f"{asked_request.words[0]} {rest}").name in {*REQUESTS_BY_NAME, "chat"}


def test_every_request_is_in_the_help_and_can_be_said_as_it_stands_there() -> None:
    text = help_text()
    for request in REQUESTS:
        assert f"`{request.words[0]}" in text
        assert parse_prompt(f"{request.words[0]} {request.hint and '1'}").name == request.name
