"""The machine's clock is set a day forward and back: limits, tokens, sessions and heartbeats go on as before."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from attempts import Attempts
from bridge.socket_client import View, real_server
from dragoman.bridge.tokens import CODE_LIFE_S, Tokens
from dragoman.config import make_home
from dragoman.errors import DeadlineExceeded, IdleLimitExceeded, LimitExceeded
from dragoman.hub.hub import Hub
from dragoman.hub.identity import HEARTBEAT_S, is_alive, with_heartbeat
from dragoman.journal.errors import NotTheOwner
from dragoman.journal.maintenance import verify
from dragoman.journal.protocols import Process
from dragoman.testing.clock import ManualClock
from dragoman.testing.memory import session_of
from dragoman.testing.scripted import ScriptedAgent, Turn

from .stage import config

pytestmark = pytest.mark.attempts("clock")

DAY_S = 86_400.0
LIMIT_S = 600.0

# Times that the clock is set while sessions are open; `make torture` has more.
JUMPS = int(os.environ.get("DRAGOMAN_JUMPS", "2"))

ShiftTime: TypeAlias = Callable[[float], None]


@pytest.fixture
def shift_time(monkeypatch: pytest.MonkeyPatch) -> ShiftTime:
    """Set the time of day of this process by so many seconds; the clock of the time that passes is never set."""
    system_time, offset = time.time, 0.0

    def shift(seconds: float) -> None:
        nonlocal offset
        offset += seconds

    monkeypatch.setattr(time, "time", lambda: system_time() + offset)
    return shift


@pytest.mark.parametrize("jump_s", [DAY_S, -DAY_S])
@pytest.mark.parametrize(
    ("deadline", "idle_limit", "error"),
    [(LIMIT_S, None, DeadlineExceeded), (None, LIMIT_S, IdleLimitExceeded)],
    ids=["deadline", "idle"],
)
async def test_a_limit_of_a_run_counts_the_seconds_that_pass(
    deadline: float | None, idle_limit: float | None, error: type[LimitExceeded], jump_s: float
) -> None:
    async def script(turn: Turn) -> object:
        return await turn.wait_cancelled()

    clock = ManualClock()
    async with session_of(ScriptedAgent(script), runtime={"clock": clock}) as session:
        run = session.run("go", deadline=deadline, idle_limit=idle_limit)
        await clock.wait_for_timers()
        clock.shift_time_of_day(jump_s)
        passed_s = 0.0
        while passed_s < LIMIT_S:
            assert not run.cancelling
            step_s = min(clock.delays[0], LIMIT_S - passed_s)
            clock.advance(step_s)
            passed_s += step_s
            if passed_s < LIMIT_S:
                await clock.wait_for_timers()
        with pytest.raises(error) as failed:
            await run
        assert failed.value.result.duration >= 0


@pytest.mark.parametrize("jump_s", [DAY_S, -DAY_S])
def test_a_pairing_code_is_not_valid_for_longer_than_its_life(jump_s: float, tmp_path: Path) -> None:
    clock = ManualClock()
    tokens = Tokens(tmp_path / "home", clock.time)
    secret, token = tokens.create("a program", "view")
    browser_secret, browser_token = tokens.create("a browser", "view", browser=True)
    code = tokens.new_code()
    clock.shift_time_of_day(jump_s)
    clock.advance(CODE_LIFE_S)
    assert tokens.exchange(code, "a browser") is None
    assert tokens.find(secret) == token
    assert tokens.find(browser_secret) == browser_token
    # One that is made by the new time is valid by the new time.
    assert tokens.exchange(tokens.new_code(), "a browser") is not None


@pytest.mark.parametrize("jump_s", [DAY_S, -DAY_S])
async def test_a_session_has_one_owner(jump_s: float, tmp_path: Path, shift_time: ShiftTime) -> None:
    home = tmp_path / "home"
    async with Hub(home) as owner, Hub(home) as other:
        before = await owner.start_session("demo", config(tmp_path))
        await other.journal.heartbeat(with_heartbeat(other.journal_client.process))
        shift_time(jump_s)
        with pytest.raises(NotTheOwner):
            await other.journal.claim(before.id, other.journal_client.process.id, is_alive=is_alive)
        await owner.journal.heartbeat(with_heartbeat(owner.journal_client.process))
        after = await other.start_session("demo", config(tmp_path))
        for thief, session_id in ((other, before.id), (owner, after.id)):
            with pytest.raises(NotTheOwner):
                await thief.journal_client.claim(session_id)


async def test_a_heartbeat_comes_as_often_as_before(tmp_path: Path, shift_time: ShiftTime) -> None:
    clock = ManualClock()
    async with Hub(tmp_path / "home", clock=clock) as hub:
        journal, beats = hub.journal, asyncio.Queue[Process]()

        async def heartbeat(process: Process) -> None:
            beats.put_nowait(process)

        journal.heartbeat = heartbeat  # type: ignore[method-assign]
        for jump_s in (DAY_S, -2 * DAY_S, DAY_S):
            await clock.wait_for_timers()
            clock.shift_time_of_day(jump_s)
            shift_time(jump_s)
            assert beats.empty()
            clock.advance(HEARTBEAT_S)
            assert abs((await beats.get()).heartbeat - time.time()) < DAY_S / 2


async def test_sessions_and_clients_of_a_server_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shift_time: ShiftTime, attempts: Attempts
) -> None:
    """A run is at work, a permission is asked for and a prompt waits in the queue while the clock is set."""
    monkeypatch.setenv("DRAGOMAN_DEMO_PACE", "0")
    home = make_home(tmp_path / "home")
    limits = ("deadline", "idle_limit", "permission_timeout")
    (home / "config.toml").write_text("".join(f'{name} = "10m"\n' for name in limits))
    async with real_server(home) as server, server.client() as talk:
        session_id = (await talk.call("session.open", agent="demo", cwd=str(tmp_path)))["session_id"]
        view = await talk.follow(session_id)
        for number in range(JUMPS):
            await talk.call("session.prompt", session_id=session_id, text="ask permission")
            await talk.call("session.prompt", session_id=session_id, text="stream 3")
            await talk.wait_for(view, lambda view, count=number + 1: len(view.rows("permissions")) == count)  # type: ignore[misc]
            shift_time(DAY_S if number % 2 == 0 else -DAY_S)
            permission = view.rows("permissions")[-1]["id"]
            async with server.client() as other:  # the token is still valid, and the answer in time
                answered = {"session_id": session_id, "permission_id": permission, "answer": "allow"}
                await other.call("permission.answer", **answered)
            run_count = 2 * (number + 1)
            await talk.wait_for(view, lambda view, count=run_count: _completed_runs(view) == count)  # type: ignore[misc]
            attempts.add()
        assert [row["text"] for row in view.rows("messages") if row["kind"] == "user"] == [
            "ask permission",
            "stream 3",
        ] * JUMPS
        (listed,) = (await talk.call("session.list"))["sessions"]
        assert listed["id"] == session_id
        assert await verify(server.bridge.hub.journal) == []


def _completed_runs(view: View) -> int:
    return sum(row["status"] == "success" for row in view.rows("runs"))
