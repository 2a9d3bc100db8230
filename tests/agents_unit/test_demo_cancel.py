"""A cancel is heard in every state, the prompt is answered `cancelled`, and nothing is left behind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from dragoman.errors import Cancelled, RequestFailed
from dragoman.wire.vocabulary import (
    AgentMessageChunk,
    ClientCapabilities,
    ElicitationCapabilities,
    ElicitationFormCapabilities,
)

from .demo_client import FILES, NOTHING, SIGN, TERMINAL, TIMEOUT_S, Client, demo, lifeline

FORMS = ClientCapabilities(elicitation=ElicitationCapabilities(form=ElicitationFormCapabilities()))


def has_requested(method: str) -> Callable[[Client], bool]:
    return lambda client: method in client.requested_methods()


@pytest.mark.parametrize(
    ("capabilities", "prompt", "hold", "when"),
    [
        (NOTHING, "sleep 1000", "", lambda client: "1000 s." in client.text),
        (NOTHING, "slow 1000", "", lambda client: "word 1\n" in client.text),
        (NOTHING, "flood 10m", "", lambda client: len(client.updates) > 2000),
        (NOTHING, "edit a.txt", "session/request_permission", has_requested("session/request_permission")),
        (FILES, "read a.txt", "fs/read_text_file", has_requested("fs/read_text_file")),
        (FILES, "edit a.txt", "fs/write_text_file", has_requested("fs/write_text_file")),
        (TERMINAL, "run ls", "terminal/create", has_requested("terminal/create")),
        (TERMINAL, "run ls", "terminal/wait_for_exit", has_requested("terminal/wait_for_exit")),
        (TERMINAL, "run ls", "terminal/output", has_requested("terminal/output")),
        (FORMS, "ask me", "elicitation/create", has_requested("elicitation/create")),
        (NOTHING, "tour", "session/request_permission", has_requested("session/request_permission")),
    ],
    ids=[
        *("asleep", "slow", "flooding", "at-permission", "reading", "writing"),
        *("creating-terminal", "in-terminal", "after-terminal", "at-question", "on-tour"),
    ],
)
async def test_cancel_is_heard(
    tmp_path: Path, capabilities: ClientCapabilities, prompt: str, hold: str, when: Callable[[Client], bool]
) -> None:
    async with demo(tmp_path, capabilities) as client:
        client.blocked_methods = {hold}
        await client.new(tmp_path)
        call = client.start(prompt)
        await client.until(lambda: when(client))
        client.cancel()
        client.cancel()  # an impatient client does no harm
        assert (await client.finish(call)).stop_reason == "cancelled"
        # A tool call that was open is told to have ended.
        if client.statuses():
            assert client.statuses()[-1] == "failed"
        client.blocked_methods = set()
        assert (await client.prompt("hello")).stop_reason == "end_turn"


async def test_a_cancel_that_comes_with_its_prompt_is_heard(tmp_path: Path) -> None:
    async with demo(tmp_path) as client:
        await client.new(tmp_path)
        call = client.start("sleep 1000")
        client.cancel()
        assert (await client.finish(call)).stop_reason == "cancelled"
        assert (await client.prompt("hello")).stop_reason == "end_turn"


async def test_a_cancel_before_a_prompt_does_not_reach_it(tmp_path: Path) -> None:
    async with demo(tmp_path) as client:
        await client.new(tmp_path)
        client.cancel()
        assert (await client.prompt("hello")).stop_reason == "end_turn"


async def test_a_cancel_ends_only_its_own_session(tmp_path: Path) -> None:
    async with demo(tmp_path) as client:
        await client.new(tmp_path)
        first = client.start("sleep 1000")
        await client.new(tmp_path)
        second = client.start("sleep 1000")
        client.cancel()
        assert (await client.finish(second)).stop_reason == "cancelled"
        assert not first.answer.done()
        client.connection.notify("session/cancel", {"sessionId": "demo-0000000000000000"})
        client.connection.notify("session/cancel", {"nonsense": 1})
        client.connection.notify("session/cancel", {"sessionId": client.updates[0][0]})
        assert (await client.finish(first)).stop_reason == "cancelled"


async def test_cancel_kills_the_command_that_it_runs_itself_with_all_its_children(tmp_path: Path) -> None:
    async with demo(tmp_path / "home") as client, lifeline(tmp_path / "pipe") as line:
        await client.new(tmp_path)
        call = client.start(f"run exec 3>pipe; {SIGN}; sleep 1000 & sleep 1000")
        await line.wait_open()
        client.cancel()
        assert (await client.finish(call)).stop_reason == "cancelled"
        await line.released()
        assert client.statuses()[-1] == "failed"


async def test_cancel_releases_the_terminal_that_the_command_runs_in(tmp_path: Path) -> None:
    async with demo(tmp_path / "home", TERMINAL) as client, lifeline(tmp_path / "pipe") as line:
        await client.new(tmp_path)
        call = client.start(f"run exec 3>pipe; {SIGN}; sleep 1000")
        await line.wait_open()
        await client.until(lambda: "terminal/wait_for_exit" in client.requested_methods())
        client.cancel()
        assert (await client.finish(call)).stop_reason == "cancelled"
        await client.until(lambda: "terminal/release" in client.requested_methods())
        assert client.requested_methods()[-2:] == ["terminal/kill", "terminal/release"]
        await line.released()


async def test_a_terminal_that_is_made_while_the_turn_is_cancelled_is_released(tmp_path: Path) -> None:
    async with demo(tmp_path, TERMINAL) as client:
        client.blocked_methods = {"terminal/create"}
        await client.new(tmp_path)
        call = client.start("run sleep 1000")
        await client.until(lambda: "terminal/create" in client.requested_methods())
        client.cancel()
        assert (await client.finish(call)).stop_reason == "cancelled"
        client.gate.set()
        await client.until(lambda: "terminal/release" in client.requested_methods())


async def test_cancel_request_ends_a_prompt_with_its_own_error(tmp_path: Path) -> None:
    async with demo(tmp_path / "home") as client, lifeline(tmp_path / "pipe") as line:
        await client.new(tmp_path)
        call = client.start(f"run exec 3>pipe; {SIGN}; sleep 1000")
        await line.wait_open()
        client.connection.notify("$/cancel_request", {"requestId": call.id})
        with pytest.raises(Cancelled):
            await client.finish(call)
        await line.released()
        assert client.statuses()[-1] == "failed"
        assert (await client.prompt("hello")).stop_reason == "end_turn"


async def test_cancel_withdraws_the_question_that_waits(tmp_path: Path) -> None:
    async with demo(tmp_path) as client:
        client.blocked_methods = {"session/request_permission"}
        await client.new(tmp_path)
        call = client.start("edit a.txt")
        await client.until(lambda: client.requests)
        client.cancel()
        await client.finish(call)
        assert [notification.method for notification in client.notifications] == ["$/cancel_request"]


async def test_a_hanging_prompt_hears_neither_cancel_and_other_sessions_do_not_mind(tmp_path: Path) -> None:
    async with demo(tmp_path) as client:
        await client.new(tmp_path)
        call = client.start("hang")
        await client.until(lambda: client.text.endswith("helps."))
        client.cancel()
        client.connection.notify("$/cancel_request", {"requestId": call.id})
        with pytest.raises(RequestFailed, match="busy"):
            await client.prompt("hello")
        await client.new(tmp_path)
        assert (await client.prompt("hello")).stop_reason == "end_turn"
        assert not call.answer.done()


async def test_what_was_said_before_the_cancel_comes_before_its_answer(tmp_path: Path) -> None:
    async with demo(tmp_path) as client:
        await client.new(tmp_path)
        call = client.start("flood 10m")
        await client.until(lambda: len(client.of(AgentMessageChunk)) > 500)
        client.cancel()
        async with asyncio.timeout(TIMEOUT_S):
            await client.connection.result(call)
        count = len(client.of(AgentMessageChunk))
        assert client.text == "".join(f"drop {number}\n" for number in range(1, count + 1))
        assert client.kinds()[-1] == "usage_update"
