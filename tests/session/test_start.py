"""Starting an agent, and all the ways in which that fails; real processes."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from dragoman.errors import (
    CommandNotExecutable,
    CommandNotFound,
    DragomanError,
    ExitedAtStart,
    InputError,
    InvalidFrame,
    SessionClosed,
    StartTimeout,
    UnsupportedVersion,
)
from dragoman.session.runtime import AgentRuntime
from dragoman.session.spec import AgentSpec, Limits
from dragoman.testing.clock import ManualClock
from dragoman.testing.memory import TIMEOUT_S, runtime_of
from dragoman.testing.scripted import ReceivedRequest, ScriptedAgent

PYTHON = [sys.executable, "-I", "-S", "-c"]


async def failure(command: list[str], env: dict[str, str | None] | None = None, **options: Any) -> DragomanError:
    runtime = AgentRuntime(AgentSpec(command=command, install="get it there", env=env or {}), **options)
    async with asyncio.timeout(TIMEOUT_S):
        with pytest.raises(DragomanError) as failed:
            await runtime.start()
    await runtime.close()
    return failed.value


@pytest.mark.parametrize(
    ("ending", "kind", "code"),
    [
        ("sys.exit(0)", ExitedAtStart, 0),
        ("sys.exit(1)", ExitedAtStart, 1),
        ("sys.exit(126)", CommandNotExecutable, 126),
        ("sys.exit(127)", CommandNotFound, 127),
        ("os.kill(os.getpid(), 9)", ExitedAtStart, -9),
    ],
)
async def test_an_agent_that_ends_at_start_is_reported_with_its_last_lines(
    ending: str, kind: type[Exception], code: int
) -> None:
    problem = await failure([*PYTHON, f"import os, sys; print('no key', file=sys.stderr, flush=True); {ending}"])
    assert type(problem) is kind
    assert isinstance(problem, ExitedAtStart | CommandNotFound | CommandNotExecutable)
    assert problem.exit_code == code
    assert "no key" in problem.stderr
    assert "no key" in str(problem)


async def test_keys_in_the_last_lines_of_an_agent_are_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "inherited-key")
    print_keys = "print(os.environ['OWN_KEY'], os.environ['SOME_API_KEY'], file=sys.stderr, flush=True)"
    program = f"import os, sys; {print_keys}; sys.exit(1)"
    problem = await failure([*PYTHON, program], {"OWN_KEY": "own-key-of-the-agent"})
    assert isinstance(problem, ExitedAtStart)
    for text in (problem.stderr, str(problem)):
        assert "own-key-of-the-agent" not in text
        assert "inherited-key" not in text
        assert "[secret:OWN_KEY] [secret:SOME_API_KEY]" in text


async def test_a_command_that_is_not_there_says_how_to_get_it() -> None:
    problem = await failure(["no-such-agent-anywhere"])
    assert isinstance(problem, CommandNotFound)
    assert "no-such-agent-anywhere" in str(problem)
    assert "get it there" in problem.guidance


async def test_the_next_command_is_tried_when_the_first_is_not_there(tmp_path: Path) -> None:
    script = tmp_path / "agent.py"
    script.write_text("async def answer(turn):\n    await turn.say('hi')\n")
    spec = AgentSpec(
        command=["no-such-agent-anywhere"],
        alternatives=((sys.executable, "-m", "dragoman.testing", f"{script}:answer"),),
    )
    async with asyncio.timeout(TIMEOUT_S), AgentRuntime(spec) as runtime:
        assert runtime.capabilities().protocol_version == 1


async def test_a_file_that_may_not_be_run_says_so(tmp_path: Path) -> None:
    agent = tmp_path / "agent"
    agent.write_text("#!/bin/sh\n")
    assert isinstance(await failure([str(agent)]), CommandNotExecutable)


async def test_an_agent_that_says_nothing_is_given_up_and_its_stderr_shown() -> None:
    body = "import sys, time; print('downloading…', file=sys.stderr, flush=True); time.sleep(600)"
    clock = ManualClock()
    problem = await failure(
        [*PYTHON, body],
        limits=Limits(start_timeout=60.0, close_timeout=0.05),
        clock=clock,
        on_diagnostic=lambda entry: clock.advance(60.0),  # its stderr has come: now the limit passes
    )
    assert isinstance(problem, StartTimeout)
    assert problem.stderr == "downloading…"
    assert "downloading…" in str(problem)
    assert problem.category == "transient"


async def test_stderr_is_reported_while_the_agent_starts() -> None:
    lines: list[str] = []
    body = "import sys; print('one', file=sys.stderr); print('two', file=sys.stderr); sys.exit(3)"
    await failure([*PYTHON, body], on_diagnostic=lambda entry: lines.append(f"{entry.kind}: {entry.text}"))
    assert lines == ["stderr: one", "stderr: two"]


async def test_an_agent_that_only_closes_its_stdout_is_ended() -> None:
    body = "import os, time; os.close(1); time.sleep(600)"
    problem = await failure([*PYTHON, body], limits=Limits(start_timeout=20, close_timeout=0.05))
    assert isinstance(problem, ExitedAtStart)
    assert problem.exit_code is not None
    assert problem.exit_code < 0


@pytest.mark.parametrize("version", [0, 2, 99])
async def test_a_protocol_version_that_we_do_not_speak_is_named(version: int) -> None:
    agent = ScriptedAgent(initialize={"protocolVersion": version})
    with pytest.raises(UnsupportedVersion, match=f"version {version}"):
        async with runtime_of(agent):
            pass


@pytest.mark.parametrize("answer", ["garbage", None, [], {}, {"protocolVersion": "2025-03-26"}, 7])
async def test_an_answer_to_initialize_that_cannot_be_read_is_named(answer: object) -> None:
    with pytest.raises(InvalidFrame, match="initialize"):
        async with runtime_of(ScriptedAgent(answers={"initialize": answer})):
            pass


async def test_noise_before_the_answer_is_recorded_and_does_no_harm() -> None:
    async def initialize(request: ReceivedRequest) -> object:
        request.agent.raw(b"Welcome to the agent!\nnull\n[1]\n\xff\xfe\n")
        return {"protocolVersion": 1}

    async with runtime_of(ScriptedAgent(answers={"initialize": initialize})) as runtime:
        noise = [entry.text for entry in runtime.diagnostics.recent if entry.kind == "noise"]
        assert len(noise) == 4
        assert "Welcome to the agent!" in noise[0]


async def test_a_started_runtime_cannot_be_started_again() -> None:
    async with runtime_of(ScriptedAgent()) as runtime:
        with pytest.raises(InputError, match="started before"):
            await runtime.start()


async def test_a_runtime_that_was_not_started_says_so() -> None:
    runtime = AgentRuntime(AgentSpec(command=["x"]))
    with pytest.raises(SessionClosed, match="not started"):
        runtime.capabilities()
    await runtime.close()


@pytest.mark.parametrize("command", ["a string", [], [1]])
def test_a_command_that_is_no_list_of_strings_is_refused(command: Any) -> None:
    with pytest.raises(InputError, match="list of strings"):
        AgentSpec(command=command)


async def test_our_capabilities_are_what_we_offer_and_no_more() -> None:
    agent = ScriptedAgent()
    spec = AgentSpec(command=["memory"], write_files=False, terminals=False, meta={"vendor": {"x": 1}})
    async with runtime_of(agent, spec=spec):
        [request] = agent.all_heard("initialize")
        offered = request.params["clientCapabilities"]
        assert offered["fs"]["readTextFile"] is True
        assert not offered["fs"].get("writeTextFile")
        assert not offered.get("terminal")
        assert "elicitation" not in offered
    agent = ScriptedAgent()
    async with runtime_of(agent, on_question=lambda question: question.decline()):
        [request] = agent.all_heard("initialize")
        assert request.params["clientCapabilities"]["elicitation"] == {"form": {}, "url": {}}


async def test_extensions_for_an_adapter_are_announced_with_our_capabilities() -> None:
    agent = ScriptedAgent()
    async with runtime_of(agent, spec=AgentSpec(command=["memory"], meta={"vendor": {"x": 1}})):
        [request] = agent.all_heard("initialize")
        offered = request.params["clientCapabilities"]
        assert offered["_meta"] == {"vendor": {"x": 1}}
        assert request.params["protocolVersion"] == 1
        assert request.params["clientInfo"]["name"] == "dragoman"


async def test_a_login_method_of_the_spec_is_used_before_any_session() -> None:
    agent = ScriptedAgent(answers={"authenticate": {}})
    async with runtime_of(agent, spec=AgentSpec(command=["memory"], auth_method="key")):
        assert [request.method for request in agent.heard] == ["initialize", "authenticate"]
        assert agent.heard[1].params == {"methodId": "key"}
