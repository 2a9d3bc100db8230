"""Types that a checker sees in programs: `make lint` checks this module, so a lost type is an error there."""

from __future__ import annotations

from typing import Any, assert_type

import pytest

import dragoman
from dragoman.session.ports import ValidatedResult


async def typed_calls(session: dragoman.Session, client: dragoman.Client) -> None:
    """Never called: the assertions are about types."""
    assert_type((await dragoman.evaluate("demo", "How many?", output_type=int)).output, int)
    assert_type((await dragoman.evaluate("demo", "Which?", output_type=list[str])).output, list[str])
    assert_type((await dragoman.evaluate("demo", "Which?", output_type={"type": "string"})).output, Any)
    assert_type((await dragoman.evaluate("demo", "Anything")).output, None)
    assert_type(await session.run("hello"), dragoman.RunResult)
    assert_type(await session.run("How many?", output_type=int), ValidatedResult[int])
    assert_type(await client.open_session("demo"), dragoman.RemoteSession)
    assert_type(await dragoman.open_session("demo", model="x"), dragoman.Session)
    assert_type(await dragoman.run("demo", "hello", deadline=5), dragoman.RunResult)


def typed_blocking_calls() -> None:
    """Never called: the assertions are about types."""
    assert_type(dragoman.evaluate_sync("demo", "How many?", output_type=int).output, int)
    with dragoman.open_session_sync("demo") as session:
        assert_type(session.run("hello").result(), dragoman.RunResult)
        assert_type(session.run("How many?", output_type=int).result().output, int)


async def wrong_calls() -> None:
    """Never called: each line is an error to a type checker, and `mypy` reports an ignore that is not needed."""
    await dragoman.open_session("demo", acces="full")  # type: ignore[call-arg]
    await dragoman.run("demo", "hello", deadline="5s")  # type: ignore[arg-type]
    await dragoman.evaluate("demo", "hello", max_rounds="3")  # type: ignore[call-overload]


@pytest.mark.parametrize("name", ["open_session", "run", "evaluate", "Client", "McpServerStdio", "McpServerHttp"])
def test_public_names_are_there(name: str) -> None:
    assert callable(getattr(dragoman, name))
