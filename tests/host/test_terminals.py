"""`terminal/*`, with real commands."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

from dragoman.host.permission import PermissionRequest
from dragoman.host.terminal.terminals import DEFAULT_OUTPUT_BYTES, MAX_TERMINALS
from dragoman.proc._reaper_main import group_alive
from dragoman.proc.reaper import reaper
from dragoman.workspace import Workspace

from .conftest import TIMEOUT_S, Agent, Build
from .running import Lifeline, create, output, ran, until, wait


@pytest.fixture
def agent(agent_with: Build) -> Agent:
    return agent_with(access="full")


@pytest.fixture
def lifeline(tmp_path: Path) -> Lifeline:
    return Lifeline(tmp_path / "lifeline")


# -- what a command gets and gives


async def test_a_commands_output_and_exit_code_are_reported(agent: Agent) -> None:
    terminal = await create(agent, "sh", "-c", "echo out; echo err >&2; exit 3")
    assert await wait(agent, terminal) == {"exitCode": 3}
    assert await output(agent, terminal) == {
        "output": "out\nerr\n",
        "truncated": False,
        "exitStatus": {"exitCode": 3},
    }


async def test_arguments_are_passed_as_they_are(agent: Agent) -> None:
    words = ["-c", "import sys; print(sys.argv[1:])", "a b", "$HOME", "'", "", "-x"]
    assert (await ran(agent, sys.executable, *words))["output"] == "['a b', '$HOME', \"'\", '', '-x']\n"


async def test_a_line_for_the_shell_in_place_of_a_command_is_run_by_the_shell(
    agent: Agent, workspace: Workspace
) -> None:
    # goose sends its command lines so.
    assert (await ran(agent, "echo made > made.txt && cat made.txt"))["output"] == "made\n"
    assert (workspace.cwd / "made.txt").exists()
    assert (await ran(agent, "echo $((1 + 2))"))["output"] == "3\n"


async def test_a_program_with_a_space_in_its_name_is_a_program(agent: Agent, workspace: Workspace) -> None:
    script = workspace.cwd / "my tool"
    script.write_text("#!/bin/sh\necho tool\n")
    script.chmod(0o755)
    assert (await ran(agent, str(script)))["output"] == "tool\n"
    assert (await ran(agent, "./my tool"))["output"] == "tool\n"


async def test_with_arguments_a_command_is_never_a_line_for_the_shell(agent: Agent) -> None:
    error = await agent.refused("terminal/create", command="echo a; echo", args=["b"])
    assert error.code == -32602
    assert "no program 'echo a; echo' was found" in error.message


@pytest.mark.parametrize("command", ["no-such-program", "./missing", "", " "])
async def test_a_command_that_is_not_there_is_refused_by_name(agent: Agent, command: str) -> None:
    error = await agent.refused("terminal/create", command=command)
    assert error.code == -32602
    assert error.message.startswith(f"command: no program {command!r} was found")
    assert agent.decisions == []


@pytest.mark.parametrize("words", [["a\0b"], ["echo", "a\0b"]])
async def test_a_command_that_cannot_be_is_refused_before_anyone_is_asked(agent: Agent, words: list[str]) -> None:
    error = await agent.refused("terminal/create", command=words[0], args=words[1:])
    assert error.code == -32602
    assert "NUL" in error.message
    assert agent.decisions == []


async def test_a_command_runs_in_the_workspace_or_in_a_folder_of_it(agent: Agent, workspace: Workspace) -> None:
    (workspace.cwd / "sub").mkdir()
    assert (await ran(agent, "pwd"))["output"] == f"{workspace.cwd}\n"
    assert (await ran(agent, "pwd", cwd=str(workspace.cwd / "sub")))["output"] == f"{workspace.cwd}/sub\n"


@pytest.mark.parametrize(
    ("cwd", "reason"),
    [
        ("/", "outside the workspace"),
        ("sub", "not absolute"),
        ("{inside}/..", r"`..`"),
        ("{inside}/link", "outside the workspace"),
        ("{inside}/missing", "does not exist"),
        ("{inside}/file", "is not a folder"),
    ],
)
async def test_no_command_runs_elsewhere(agent: Agent, workspace: Workspace, cwd: str, reason: str) -> None:
    (workspace.cwd / "link").symlink_to("/")
    (workspace.cwd / "file").touch()
    error = await agent.refused("terminal/create", command="pwd", cwd=cwd.format(inside=workspace.cwd))
    assert error.code == -32602
    assert error.message.startswith("cwd: ")
    assert reason in error.message
    assert agent.decisions == []


async def test_the_environment_is_merged(agent_with: Build) -> None:
    agent = agent_with(access="full", environ={"PATH": os.environ["PATH"], "A": "1", "B": "2"})
    text = await ran(agent, 'echo "$A $B $C"', env=[{"name": "B", "value": "x"}, {"name": "C", "value": "ü 'y"}])
    assert text["output"] == "1 x ü 'y\n"


async def test_our_own_settings_are_not_in_the_environment(agent_with: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAGOMAN_TOKEN", "secret")
    agent = agent_with(access="full")
    assert "secret" not in (await ran(agent, "env"))["output"]


@pytest.mark.parametrize(
    "variable", [{"name": "", "value": ""}, {"name": "A=B", "value": ""}, {"name": "A", "value": "\0"}]
)
async def test_a_variable_that_cannot_be_is_refused(agent: Agent, variable: dict[str, str]) -> None:
    error = await agent.refused("terminal/create", command="env", env=[variable])
    assert error.code == -32602
    assert error.message.startswith("env: ")


async def test_there_is_nothing_to_read_for_a_command(agent: Agent) -> None:
    assert await ran(agent, "cat") == {"output": "", "truncated": False, "exitStatus": {"exitCode": 0}}


async def test_output_is_seen_while_the_command_runs(agent: Agent, lifeline: Lifeline) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        terminal = await create(agent, f'echo before; exec 9>"{lifeline.path}"; echo ready >&9; exec sleep 1000')
        reader = await lifeline.listen(1)
        followed = agent.host.terminal(terminal)
        assert followed is not None
        await until(followed, b"before\r\n")
        assert await output(agent, terminal) == {"output": "before\n", "truncated": False}
        await agent.ask("terminal/kill", terminalId=terminal)
        await reader.read()
    lifeline.transport.close()


async def test_output_is_kept_from_the_end_at_a_character(agent: Agent) -> None:
    result = await ran(agent, "printf 'aaaa🦊🦊'", outputByteLimit=7)
    assert (result["output"], result["truncated"]) == ("🦊", True)
    assert (await ran(agent, "echo x", outputByteLimit=0))["output"] == ""


async def test_without_a_limit_of_the_agents_there_is_one_of_ours(agent: Agent) -> None:
    result = await ran(agent, "head -c 3000000 /dev/zero | tr '\\0' x; echo end")
    assert len(result["output"]) == DEFAULT_OUTPUT_BYTES
    assert result["output"].endswith("xend\n")
    assert result["truncated"]


async def test_an_absurd_limit_is_taken_as_the_most_there_is_and_a_negative_one_refused(agent: Agent) -> None:
    assert (await ran(agent, "echo x", outputByteLimit=2**63))["output"] == "x\n"
    error = await agent.refused("terminal/create", command="ls", outputByteLimit=-1)
    assert error.message.startswith("outputByteLimit: ")


async def test_all_output_is_there_when_the_exit_is_reported(agent: Agent) -> None:
    for _ in range(10):
        assert (await ran(agent, "head -c 100000 /dev/zero | tr '\\0' x"))["output"] == "x" * 100_000


# -- its end


async def test_a_signal_is_reported_by_name(agent: Agent) -> None:
    terminal = await create(agent, "kill -9 $$")
    assert await wait(agent, terminal) == {"signal": "SIGKILL"}


async def test_kill_ends_the_command_and_keeps_the_output(agent: Agent, lifeline: Lifeline) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        terminal = await create(agent, f'exec 9>"{lifeline.path}"; echo said; echo ready >&9; sleep 1000')
        reader = await lifeline.listen(1)
        await agent.ask("terminal/kill", terminalId=terminal)
        await reader.read()  # and the children of the shell
        assert await output(agent, terminal) == {
            "output": "said\n",
            "truncated": False,
            "exitStatus": {"signal": "SIGTERM"},
        }
        assert await wait(agent, terminal) == {"signal": "SIGTERM"}
        await agent.ask("terminal/kill", terminalId=terminal)  # once more does no harm
    lifeline.transport.close()


async def test_a_command_that_ignores_the_polite_signal_is_killed(agent: Agent, lifeline: Lifeline) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        terminal = await create(
            agent, f"trap '' TERM; exec 9>'{lifeline.path}'; echo ready >&9; while :; do sleep 1000; done"
        )
        reader = await lifeline.listen(1)
        await agent.ask("terminal/kill", terminalId=terminal)
        await reader.read()
        assert await wait(agent, terminal) == {"signal": "SIGKILL"}
    lifeline.transport.close()


async def test_waiting_is_answered_when_the_command_is_killed(agent: Agent) -> None:
    terminal = await create(agent, "exec sleep 1000")
    waiting = asyncio.create_task(wait(agent, terminal))
    await agent.ask("terminal/kill", terminalId=terminal)
    assert await waiting == {"signal": "SIGTERM"}


async def test_a_withdrawn_wait_leaves_the_command_alone(agent: Agent) -> None:
    terminal = await create(agent, "exec sleep 1000")
    waiting = asyncio.create_task(wait(agent, terminal))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert "exitStatus" not in await output(agent, terminal)


async def test_release_ends_the_command_with_its_children_and_forgets_it(agent: Agent, lifeline: Lifeline) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        terminal = await create(
            agent, f'exec 9>"{lifeline.path}"; (echo child >&9; sleep 1000) & echo ready >&9; sleep 1000'
        )
        reader = await lifeline.listen(2)
        assert await agent.ask("terminal/release", terminalId=terminal) == {}
        await reader.read()
    lifeline.transport.close()
    for method in ("output", "wait_for_exit", "kill", "release"):
        error = await agent.refused(f"terminal/{method}", terminalId=terminal)
        assert error.code == -32002
        assert terminal in error.message


async def test_release_ends_children_that_outlived_the_command(agent: Agent, lifeline: Lifeline) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        script = f'exec 9>"{lifeline.path}"; (echo child >&9; exec sleep 1000) >/dev/null 2>&1 & exit 0'
        terminal = await create(agent, script)
        reader = await lifeline.listen(1)
        assert await wait(agent, terminal) == {"exitCode": 0}
        await agent.ask("terminal/release", terminalId=terminal)
        await reader.read()
    lifeline.transport.close()


async def test_everything_ends_with_the_session(agent: Agent, lifeline: Lifeline) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        for _ in range(3):
            await create(agent, f'exec 9>"{lifeline.path}"; echo ready >&9; sleep 1000')
        waiting = asyncio.create_task(wait(agent, await create(agent, "exec sleep 1000")))
        reader = await lifeline.listen(3)
        await agent.host.close()
        await reader.read()
        assert await waiting == {"signal": "SIGTERM"}
    lifeline.transport.close()
    assert "closed" in (await agent.refused("terminal/create", command="ls")).message


async def test_a_withdrawn_release_still_ends_the_command_and_close_waits_for_it(
    agent: Agent, lifeline: Lifeline
) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        terminal = await create(
            agent, f"trap '' TERM; exec 9>'{lifeline.path}'; echo $$ >&9; while :; do sleep 1000; done"
        )
        await lifeline.listen(1)
        releasing = asyncio.create_task(agent.ask("terminal/release", terminalId=terminal))
        await asyncio.sleep(0)
        releasing.cancel()
        await agent.host.close()
        assert not group_alive(int(lifeline.lines_read[0]))
    lifeline.transport.close()


async def test_no_command_is_left_when_we_are_killed(workspace: Workspace, lifeline: Lifeline) -> None:
    program = """
import asyncio, sys
from dragoman.host.host import Host
from dragoman.host.policy.rulebook import Rulebook
from dragoman.host.policy.rulebook import RuleSources
from dragoman.wire.messages import Request
from dragoman.workspace import Workspace
import msgspec

async def main(cwd, command):
    rules = Rulebook(Workspace(cwd), "full", RuleSources())
    host = Host(workspace=Workspace(cwd), rules=rules, session_id="s", note=lambda _: None,
                read_files=False, write_files=False, terminals=True)
    params = msgspec.Raw(msgspec.json.encode({"sessionId": "a", "command": command}))
    await host.serve(Request(1, "terminal/create", params, b""))
    await asyncio.Event().wait()

asyncio.run(main(*sys.argv[1:]))
"""
    # A child in a session of its own, too: it is found by its marker.
    apart = f"{sys.executable} -c 'import os, time; os.setsid(); os.write(9, b\"apart\\n\"); time.sleep(1000)'"
    command = f'exec 9>"{lifeline.path}"; {apart} & echo ready >&9; sleep 1000'
    async with asyncio.timeout(TIMEOUT_S):
        ours = await asyncio.create_subprocess_exec(sys.executable, "-c", program, str(workspace.cwd), command)
        try:
            reader = await lifeline.listen(2)
        finally:
            ours.kill()
            await ours.wait()
        await reader.read()
    lifeline.transport.close()


async def test_a_flooding_command_delays_no_other(agent: Agent) -> None:
    flood = await create(agent, "yes", outputByteLimit=1000)
    for _ in range(5):
        assert (await ran(agent, "echo here"))["output"] == "here\n"
    async with asyncio.timeout(TIMEOUT_S):
        await agent.ask("terminal/kill", terminalId=flood)
    result = await output(agent, flood)
    assert len(result["output"]) == 1000
    assert result["truncated"]


async def test_the_reaper_knows_every_command_until_it_is_released(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    known: set[int] = set()
    ours = reaper()
    monkeypatch.setattr(ours, "add", known.add)
    monkeypatch.setattr(ours, "remove", known.discard)
    terminal = await create(agent, "ps -o pgid= -p $$ || cut -d' ' -f5 /proc/$$/stat")
    await wait(agent, terminal)
    group = int((await output(agent, terminal))["output"])
    assert known == {group}
    assert group != os.getpgrp()
    await agent.ask("terminal/release", terminalId=terminal)
    assert known == set()


async def test_terminals_without_end_are_refused(agent: Agent) -> None:
    terminals = [await create(agent, "true") for _ in range(MAX_TERMINALS)]
    error = await agent.refused("terminal/create", command="true")
    assert "release" in error.message
    await agent.ask("terminal/release", terminalId=terminals[0])
    assert (await create(agent, "true")) not in terminals


# -- by which rules


async def test_what_is_off_is_not_offered(agent_with: Build) -> None:
    agent = agent_with(access="full", terminals=False)
    for method in ("create", "output", "wait_for_exit", "kill", "release"):
        error = await agent.refused(f"terminal/{method}", command="ls", terminalId="x")
        assert error.code == -32601
        assert f"terminal/{method}" in error.message


async def test_read_only_runs_nothing(agent_with: Build, workspace: Workspace) -> None:
    agent = agent_with(access="read-only", on_permission=lambda _: True)
    error = await agent.refused("terminal/create", command="touch made")
    assert error.code == -32001
    assert "access is read-only: it runs a command" in error.message
    assert not (workspace.cwd / "made").exists()


@pytest.mark.parametrize("access", ["ask", "edit-inside"])
async def test_commands_are_asked_with_all_that_they_are(agent_with: Build, workspace: Workspace, access: str) -> None:
    seen: list[PermissionRequest] = []

    def refuse(request: PermissionRequest) -> bool:
        seen.append(request)
        return False

    agent = agent_with(access=access, on_permission=refuse)
    error = await agent.refused(
        "terminal/create", command="touch", args=["a b"], env=[{"name": "LD_PRELOAD", "value": "x.so"}]
    )
    assert error.code == -32001
    [request] = seen
    assert (request.origin, request.kind, request.command) == ("terminals", "execute", "touch 'a b'")
    assert request.raw_input == {
        "command": "touch",
        "args": ["a b"],
        "env": {"LD_PRELOAD": "x.so"},
        "cwd": str(workspace.cwd),
    }
    assert not (workspace.cwd / "a b").exists()
    assert agent.decisions == [(1, "callback", "on_permission refused it")]


async def test_an_allowed_command_runs(agent_with: Build) -> None:
    agent = agent_with(on_permission=lambda _: True)
    assert (await ran(agent, "echo allowed"))["output"] == "allowed\n"


async def test_a_command_that_waits_for_an_answer_is_refused_when_the_session_closes(agent_with: Build) -> None:
    was_asked = asyncio.Event()

    async def never(request: PermissionRequest) -> bool:
        was_asked.set()
        await asyncio.Event().wait()
        return True

    agent = agent_with(on_permission=never)
    async with asyncio.timeout(TIMEOUT_S):
        creating = asyncio.create_task(agent.refused("terminal/create", command="ls"))
        await was_asked.wait()
        await agent.host.close()
        assert (await creating).code == -32800


async def test_two_sessions_do_not_see_each_others_terminals(agent_with: Build) -> None:
    one, other = agent_with(access="full"), agent_with(access="full")
    terminal = await create(one, "true")
    assert (await other.refused("terminal/output", terminalId=terminal)).code == -32002
