"""The demo agent as a process of its own, on real pipes."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from dragoman.errors import AuthenticationRequired, DragomanError
from dragoman.wire.vocabulary import AgentMessageChunk, UserMessageChunk

from .demo_client import FILES, SIGN, TERMINAL, TIMEOUT_S, demo_process, lifeline


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


async def test_it_answers_and_ends_quietly_when_its_stdin_ends(home: Path, work: Path) -> None:
    async with demo_process(home) as agent:
        await agent.new(work)
        assert (await agent.prompt("hello")).stop_reason == "end_turn"
        assert agent.text.startswith("Hello!")
    assert agent.process.returncode == 0
    assert await agent.stderr == b""


async def test_it_edits_and_runs_through_the_client(home: Path, work: Path) -> None:
    async with demo_process(home, FILES) as agent:
        await agent.new(work)
        await agent.prompt("edit notes.txt: hello")
        assert (work / "notes.txt").read_text() == "hello\n"
    async with demo_process(home, TERMINAL) as agent:
        await agent.new(work)
        await agent.prompt("run ls")
        assert "notes.txt" in agent.text


async def test_another_process_loads_what_the_first_has_said(home: Path, work: Path) -> None:
    async with demo_process(home) as agent:
        session_id = (await agent.new(work)).session_id
        await agent.prompt("hello")
        text = agent.text
    async with demo_process(home) as agent:
        await agent.load(session_id, work)
        assert agent.text == text
        assert len(agent.of(UserMessageChunk)) == 1


async def test_a_flood_comes_whole(home: Path, work: Path) -> None:
    async with demo_process(home) as agent:
        await agent.new(work)
        await agent.prompt("flood 20k")
        assert len(agent.of(AgentMessageChunk)) == 20_000


async def test_a_crash_comes_in_the_middle_of_a_sentence_with_its_exit_code_and_a_word_on_stderr(
    home: Path, work: Path
) -> None:
    async with demo_process(home) as agent:
        await agent.new(work)
        call = agent.start("crash")
        with pytest.raises(DragomanError, match="gone"):
            await agent.finish(call)
        assert agent.text == "My process ends in the middle of this"
    assert agent.process.returncode == 3
    assert await agent.stderr == b"demo agent: crashing as asked, exit code 3\n"


async def test_stderr_may_be_long(home: Path, work: Path) -> None:
    async with demo_process(home) as agent:
        await agent.new(work)
        await agent.prompt("stderr 50k")
    assert len((await agent.stderr).splitlines()) == 50_000


async def test_noise_does_not_break_the_lines_around_it(home: Path, work: Path) -> None:
    async with demo_process(home) as agent:
        await agent.new(work)
        assert (await agent.prompt("noise")).stop_reason == "end_turn"
        assert b"this line is not JSON" in agent.noise


async def test_login_is_required_where_the_environment_says_so(home: Path, work: Path) -> None:
    async with demo_process(home, DRAGOMAN_DEMO_AUTH="required") as agent:
        with pytest.raises(AuthenticationRequired):
            await agent.new(work)
        await agent.connection.request("authenticate", {"methodId": "demo-login"}, timeout=TIMEOUT_S)
        await agent.new(work)


async def test_a_pace_that_is_no_number_is_said_and_the_usual_one_taken(home: Path) -> None:
    async with demo_process(home, DRAGOMAN_DEMO_PACE="fast") as agent:
        pass
    assert b"DRAGOMAN_DEMO_PACE='fast' is not a number of seconds" in await agent.stderr


async def test_the_end_of_stdin_stops_a_command_and_a_hanging_turn(home: Path, work: Path) -> None:
    async with lifeline(work / "pipe") as line:
        async with demo_process(home) as agent:
            await agent.new(work)
            agent.start(f"run exec 3>pipe; {SIGN}; sleep 1000")
            await line.wait_open()
            await agent.new(work)
            agent.start("hang")
            await agent.until(lambda: agent.text.endswith("helps."))
        await line.released()
    assert agent.process.returncode == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_stops_a_command_too(home: Path, work: Path, number: signal.Signals) -> None:
    async with lifeline(work / "pipe") as line:
        async with demo_process(home) as agent:
            await agent.new(work)
            agent.start(f"run exec 3>pipe; {SIGN}; sleep 1000")
            await line.wait_open()
            agent.process.send_signal(number)
            async with asyncio.timeout(TIMEOUT_S):
                await agent.process.wait()
        await line.released()
    assert agent.process.returncode == 128 + number


async def test_requests_that_were_sent_before_the_end_of_stdin_are_still_answered(home: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "dragoman.agents.demo"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "DRAGOMAN_DEMO_HOME": str(home)},
    )
    async with asyncio.timeout(TIMEOUT_S):
        line = b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}\n'
        out, _ = await process.communicate(line)
    assert out.startswith(b'{"id":1,"result":{"protocolVersion":1')
    assert out.count(b"\n") == 1


def test_started_without_a_client_it_says_how_to_talk_to_it() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "dragoman.agents.demo"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 2
    assert b"dragoman run --agent demo hello" in done.stderr
