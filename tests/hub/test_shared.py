"""Agents that are shared: one process for all sessions in a folder, and none left when the last of them ends."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from dragoman.config import make_home
from dragoman.errors import DragomanError, SessionClosed
from dragoman.hub.owned_session import OwnedSession
from dragoman.protocol import requests
from dragoman.session.runtime import AgentRuntime
from dragoman.testing.leaks import nothing_left
from dragoman.testing.memory import TIMEOUT_S
from hub.test_commands import NewHub, config, idle, texts, until


@pytest.fixture(autouse=True)
def shared(home: Path) -> None:
    make_home(home)
    (home / "config.toml").write_text("[agents.demo]\nshared = true\n")


def process_of(owned: OwnedSession) -> int:
    assert owned.session is not None
    assert isinstance(owned.session._runtime, AgentRuntime)
    link = owned.session._runtime._link
    assert link is not None
    pid = link.pid  # type: ignore[attr-defined]
    assert isinstance(pid, int)
    return pid


async def test_sessions_in_one_folder_have_one_process_and_those_in_another_have_another(
    new_hub: NewHub, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    async with asyncio.timeout(TIMEOUT_S), nothing_left(), new_hub() as hub:
        opened = await asyncio.gather(*(hub.start_session("demo", config(tmp_path)) for _ in range(5)))
        apart = await hub.start_session("demo", config(other))
        assert len({process_of(owned) for owned in opened}) == 1
        assert process_of(apart) != process_of(opened[0])
        for number, owned in enumerate(opened):
            await hub.command(requests.SessionPrompt(session_id=owned.id, text=f"stream {number}"))
        for number, owned in enumerate(opened):
            await until(hub, owned, idle)
            assert await texts(hub, owned.id) == [f"stream {number}"]


async def test_one_that_is_closed_leaves_the_others_their_agent(new_hub: NewHub, tmp_path: Path) -> None:
    async with asyncio.timeout(TIMEOUT_S), nothing_left(), new_hub() as hub:
        one, other = await asyncio.gather(*(hub.start_session("demo", config(tmp_path)) for _ in range(2)))
        await hub.command(requests.SessionPrompt(session_id=one.id, text="hello"))
        await until(hub, one, idle)
        await hub.close_session(one.id)
        await hub.command(requests.SessionPrompt(session_id=other.id, text="hello"))
        await until(hub, other, idle)
        again = await hub.continue_session(one.id)
        assert process_of(again) == process_of(other)
        await hub.close_session(one.id)
        await hub.close_session(other.id)


async def test_one_that_is_restarted_gets_a_process_of_its_own(new_hub: NewHub, tmp_path: Path) -> None:
    async with asyncio.timeout(TIMEOUT_S), nothing_left(), new_hub() as hub:
        one, other = await asyncio.gather(*(hub.start_session("demo", config(tmp_path)) for _ in range(2)))
        before = process_of(other)
        again = await hub.continue_session(one.id)
        assert process_of(again) != before
        assert process_of(other) == before
        assert process_of(await hub.start_session("demo", config(tmp_path))) == process_of(
            again
        )  # the newest is shared on


async def test_an_agent_that_dies_is_the_end_of_all_its_sessions_and_not_of_the_next(
    new_hub: NewHub, tmp_path: Path
) -> None:
    async with asyncio.timeout(TIMEOUT_S), nothing_left(), new_hub() as hub:
        one, other = await asyncio.gather(*(hub.start_session("demo", config(tmp_path)) for _ in range(2)))
        os.kill(process_of(one), signal.SIGKILL)
        for owned in (one, other):
            await until(hub, owned, lambda owned: owned.connection != "connected")
        third = await hub.start_session("demo", config(tmp_path))
        assert await hub.command(requests.SessionPrompt(session_id=third.id, text="hello"))
        await until(hub, third, idle)


async def test_a_caller_that_gives_up_opening_does_not_cancel_it_for_others(new_hub: NewHub, tmp_path: Path) -> None:
    async with asyncio.timeout(TIMEOUT_S), nothing_left(), new_hub() as hub:
        one = asyncio.create_task(hub.start_session("demo", config(tmp_path), "one"))
        other = asyncio.create_task(hub.start_session("demo", config(tmp_path), "other"))
        await asyncio.sleep(0)  # both have begun
        await hub.close_session("one")
        with pytest.raises((SessionClosed, DragomanError)):
            await one
        await hub.command(requests.SessionPrompt(session_id=(await other).id, text="hello"))
        await until(hub, await other, idle)


async def test_an_agent_that_no_caller_waits_for_is_not_started(new_hub: NewHub, tmp_path: Path) -> None:
    async with asyncio.timeout(TIMEOUT_S), nothing_left(), new_hub() as hub:
        one = asyncio.create_task(hub.start_session("demo", config(tmp_path), "one"))
        await asyncio.sleep(0)
        await hub.close_session("one")
        with pytest.raises(DragomanError):
            await one
        assert not hub.owned_sessions


async def test_an_agent_is_not_ended_while_a_session_is_about_to_be_opened_on_it(
    new_hub: NewHub, tmp_path: Path
) -> None:
    async with asyncio.timeout(TIMEOUT_S), nothing_left(), new_hub() as hub:
        owned = await hub.start_session("demo", config(tmp_path))
        assert owned.session is not None
        async with hub._runtime_pool.runtime(owned.session.spec, lambda: pytest.fail("there is one")) as runtime:
            await hub.close_session(owned.id)
            assert runtime.living
        assert not runtime.living  # nobody came
