"""A caller's own files and terminals in the place of ours: the work is theirs, the rules stay."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from dragoman.errors import INTERNAL_ERROR, INVALID_PARAMS, NOT_FOUND, REQUEST_CANCELLED
from dragoman.host.handlers import HandledTerminals
from dragoman.host.permission import PermissionRequest
from dragoman.host.refusals import DENIED
from dragoman.wire import vocabulary as acp
from dragoman.wire.connection import RpcRefusal
from dragoman.workspace import Workspace

from .conftest import NO, ONCE, TIMEOUT_S, Agent, Build


class Buffers:
    """Files in memory, as an editor has them before they are saved."""

    def __init__(self, **texts: str) -> None:
        self.texts = texts
        self.written: list[str] = []

    async def read_text_file(self, request: acp.ReadTextFileRequest) -> acp.ReadTextFileResponse:
        name = request.path.rsplit("/", 1)[1]
        if name not in self.texts:
            raise FileNotFoundError(2, "No such file", request.path)
        lines = self.texts[name].splitlines(keepends=True)[(request.line or 1) - 1 :][: request.limit]
        return acp.ReadTextFileResponse(content="".join(lines))

    async def write_text_file(self, request: acp.WriteTextFileRequest) -> acp.WriteTextFileResponse:
        self.written.append(request.path)
        self.texts[request.path.rsplit("/", 1)[1]] = request.content
        return acp.WriteTextFileResponse()


class Screens:
    """Terminals that only pretend."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.made = 0
        self.begun = asyncio.Event()  # a terminal is being made, or was
        self.making: asyncio.Event | None = None  # where set, a terminal is being made until then

    async def create(self, request: acp.CreateTerminalRequest) -> acp.CreateTerminalResponse:
        self.made += 1
        terminal_id = f"screen-{self.made}"
        self.calls.append(f"create {request.command}")
        self.begun.set()
        if self.making is not None:
            await self.making.wait()
        if request.command == "nowhere":
            raise FileNotFoundError(2, "No such program", request.command)
        return acp.CreateTerminalResponse(terminal_id=terminal_id)

    async def output(self, request: acp.TerminalOutputRequest) -> acp.TerminalOutputResponse:
        self.calls.append(f"output {request.terminal_id}")
        return acp.TerminalOutputResponse(output="pretended", truncated=False)

    async def wait_for_exit(self, request: acp.WaitForTerminalExitRequest) -> acp.WaitForTerminalExitResponse:
        self.calls.append(f"wait {request.terminal_id}")
        return acp.WaitForTerminalExitResponse(exit_code=7)

    async def kill(self, request: acp.KillTerminalRequest) -> acp.KillTerminalResponse:
        self.calls.append(f"kill {request.terminal_id}")
        return acp.KillTerminalResponse()

    async def release(self, request: acp.ReleaseTerminalRequest) -> acp.ReleaseTerminalResponse:
        self.calls.append(f"release {request.terminal_id}")
        if "fail" in request.session_id:
            raise RuntimeError("it cannot be released")
        return acp.ReleaseTerminalResponse()


# -- files


async def test_files_are_read_by_the_handler(agent_with: Build, workspace: Workspace) -> None:
    agent = agent_with(access="read-only", file_handler=Buffers(a="one\ntwo\nthree\n"))
    path = str(workspace.cwd / "a")
    assert await agent.ask("fs/read_text_file", path=path) == {"content": "one\ntwo\nthree\n"}
    assert await agent.ask("fs/read_text_file", path=path, line=2, limit=1) == {"content": "two\n"}


async def test_files_are_written_by_the_handler_and_not_by_us(agent_with: Build, workspace: Workspace) -> None:
    buffers = Buffers()
    agent = agent_with(access="edit-inside", file_handler=buffers)
    await agent.ask("fs/write_text_file", path=str(workspace.cwd / "a"), content="new")
    assert buffers.texts == {"a": "new"}
    assert not (workspace.cwd / "a").exists()


async def test_a_write_is_asked_for_with_what_the_handler_has(agent_with: Build, workspace: Workspace) -> None:
    received: list[PermissionRequest] = []

    async def refuse(request: PermissionRequest) -> bool:
        received.append(request)
        return False

    buffers = Buffers(a="unsaved")
    agent = agent_with(access="ask", on_permission=refuse, file_handler=buffers)
    error = await agent.refused("fs/write_text_file", path=str(workspace.cwd / "a"), content="new")
    assert error.code == DENIED
    assert buffers.texts == {"a": "unsaved"}
    [diff] = received[0].diffs
    assert (diff.old_text, diff.new_text) == ("unsaved", "new")
    await agent.refused("fs/write_text_file", path=str(workspace.cwd / "b"), content="new")
    assert received[1].diffs[0].old_text is None


async def test_what_access_denies_never_reaches_the_handler(agent_with: Build, workspace: Workspace) -> None:
    buffers = Buffers()
    agent = agent_with(access="read-only", file_handler=buffers)
    error = await agent.refused("fs/write_text_file", path=str(workspace.cwd / "a"), content="new")
    assert (error.code, buffers.written) == (DENIED, [])


@pytest.mark.parametrize("path", ["/etc/passwd", "relative", "{cwd}/../x"])
async def test_what_is_outside_the_workspace_never_reaches_the_handler(
    agent_with: Build, workspace: Workspace, path: str
) -> None:
    buffers = Buffers(passwd="secret", x="y", relative="z")
    agent = agent_with(access="full", file_handler=buffers)
    path = path.format(cwd=workspace.cwd)
    assert (await agent.refused("fs/read_text_file", path=path)).code == INVALID_PARAMS
    assert (await agent.refused("fs/write_text_file", path=path, content="")).code == INVALID_PARAMS
    assert buffers.written == []


async def test_a_path_that_leads_elsewhere_once_it_is_allowed_is_not_written(
    agent_with: Build, workspace: Workspace
) -> None:
    link = workspace.cwd / "link"
    link.symlink_to(workspace.cwd / "a")

    async def turn_the_link(request: PermissionRequest) -> bool:
        link.unlink()
        link.symlink_to(workspace.cwd / "b")
        return True

    buffers = Buffers()
    agent = agent_with(access="ask", on_permission=turn_the_link, file_handler=buffers)
    error = await agent.refused("fs/write_text_file", path=str(link), content="new")
    assert "leads to another file" in error.message
    assert buffers.written == []


async def test_an_exception_of_a_handler_becomes_an_error_of_the_protocol(
    agent_with: Build, workspace: Workspace
) -> None:
    class Broken(Buffers):
        async def write_text_file(self, request: acp.WriteTextFileRequest) -> acp.WriteTextFileResponse:
            raise OSError(28, "No space left on device")

    agent = agent_with(access="full", file_handler=Broken())
    path = str(workspace.cwd / "a")
    missing = await agent.refused("fs/read_text_file", path=path)
    assert (missing.code, missing.data) == (NOT_FOUND, {"uri": path})
    full = await agent.refused("fs/write_text_file", path=path, content="")
    assert (full.code, "No space left" in full.message) == (INTERNAL_ERROR, True)


async def test_a_handler_is_not_asked_for_what_is_not_offered(agent_with: Build, workspace: Workspace) -> None:
    agent = agent_with(access="full", file_handler=Buffers(a="x"), read_files=False)
    assert "not offered" in (await agent.refused("fs/read_text_file", path=str(workspace.cwd / "a"))).message


async def test_what_the_agent_was_allowed_is_not_asked_again(agent_with: Build, workspace: Workspace) -> None:
    received = 0

    async def allow(request: PermissionRequest) -> bool:
        nonlocal received
        received += 1
        return True

    buffers = Buffers()
    agent = agent_with(access="ask", on_permission=allow, file_handler=buffers)
    path = str(workspace.cwd / "a")
    await agent.permission(ONCE, NO, kind="edit", content=[{"type": "diff", "path": path, "newText": "new"}])
    await agent.ask("fs/write_text_file", path=path, content="new")
    assert (received, buffers.texts) == (1, {"a": "new"})


# -- terminals


async def test_terminals_are_the_handlers(agent_with: Build) -> None:
    screens = Screens()
    agent = agent_with(access="full", terminal_handler=screens)
    made = await agent.ask("terminal/create", command="a program of theirs", args=["-v"])
    terminal = made["terminalId"]
    assert terminal == "screen-1"
    assert (await agent.ask("terminal/output", terminalId=terminal))["output"] == "pretended"
    assert (await agent.ask("terminal/wait_for_exit", terminalId=terminal))["exitCode"] == 7
    await agent.ask("terminal/kill", terminalId=terminal)
    await agent.ask("terminal/release", terminalId=terminal)
    assert screens.calls == [
        "create a program of theirs",
        "output screen-1",
        "wait screen-1",
        "kill screen-1",
        "release screen-1",
    ]


async def test_a_command_is_asked_for_before_the_handler_runs_it(agent_with: Build) -> None:
    screens = Screens()
    agent = agent_with(
        access="ask", on_permission=lambda request: request.command != "rm -rf x", terminal_handler=screens
    )
    assert (await agent.refused("terminal/create", command="rm", args=["-rf", "x"])).code == DENIED
    assert screens.calls == []
    await agent.ask("terminal/create", command="ls")
    assert screens.calls == ["create ls"]


async def test_a_commands_folder_must_be_inside_also_for_a_handler(agent_with: Build) -> None:
    screens = Screens()
    agent = agent_with(access="full", terminal_handler=screens)
    assert (await agent.refused("terminal/create", command="ls", cwd="/")).code == INVALID_PARAMS
    assert screens.calls == []


@pytest.mark.parametrize("method", ["output", "wait_for_exit", "kill", "release"])
async def test_only_a_sessions_own_terminals_reach_the_handler(agent_with: Build, method: str) -> None:
    screens = Screens()
    one, two = (agent_with(access="full", terminal_handler=screens) for _ in range(2))
    terminal = (await one.ask("terminal/create", command="ls"))["terminalId"]
    assert (await two.refused(f"terminal/{method}", terminalId=terminal)).code == NOT_FOUND
    await one.ask("terminal/release", terminalId=terminal)
    assert (await one.refused(f"terminal/{method}", terminalId=terminal)).code == NOT_FOUND


async def test_a_program_that_the_handler_does_not_find_is_not_found(agent_with: Build) -> None:
    agent = agent_with(access="full", terminal_handler=Screens())
    assert (await agent.refused("terminal/create", command="nowhere")).code == NOT_FOUND


async def test_what_is_left_is_released_when_the_session_ends(
    agent_with: Build, caplog: pytest.LogCaptureFixture
) -> None:
    screens = Screens()
    agent = agent_with(access="full", terminal_handler=screens)
    for _ in range(2):
        await agent.ask("terminal/create", command="ls", sessionId="fails")
    await agent.host.close()
    assert screens.calls[2:] == ["release screen-2", "release screen-1"]
    assert "could not be released" in caplog.text


async def test_a_terminal_that_is_made_while_the_session_ends_is_released_too() -> None:
    screens = Screens()
    screens.making = asyncio.Event()
    terminals = HandledTerminals(screens)
    request: Any = acp.CreateTerminalRequest(session_id="s", command="ls")
    making = asyncio.ensure_future(terminals.create(request, {}, Path("/")))
    await asyncio.sleep(0)
    await terminals.close()
    screens.making.set()
    async with asyncio.timeout(TIMEOUT_S):
        with pytest.raises(RpcRefusal):
            await making
    assert screens.calls == ["create ls", "release screen-1"]


async def test_a_question_names_the_request_that_it_is_about(agent_with: Build, workspace: Workspace) -> None:
    received: list[object] = []

    async def note(request: PermissionRequest) -> bool:
        received.append(request.request_id)
        return True

    agent = agent_with(access="ask", on_permission=note)
    await agent.permission()
    await agent.ask("fs/write_text_file", path=str(workspace.cwd / "a"), content="")
    await agent.ask("terminal/create", command="true")
    assert received == [decision[0] for decision in agent.decisions] == [1, 2, 3]


async def test_an_exception_of_a_terminal_handler_becomes_an_error_of_the_protocol(agent_with: Build) -> None:
    class Broken(Screens):
        async def output(self, request: acp.TerminalOutputRequest) -> acp.TerminalOutputResponse:
            raise FileNotFoundError(2, "No such terminal", request.terminal_id)

    agent = agent_with(access="full", terminal_handler=Broken())
    made = await agent.ask("terminal/create", command="ls")
    error = await agent.refused("terminal/output", terminalId=made["terminalId"])
    assert error.code == NOT_FOUND


async def test_nobody_is_asked_once_the_session_is_closed(agent_with: Build, workspace: Workspace) -> None:
    reading = asyncio.Event()
    go_on = asyncio.Event()
    received: list[str] = []

    class Slow(Buffers):
        async def read_text_file(self, request: acp.ReadTextFileRequest) -> acp.ReadTextFileResponse:
            reading.set()
            await go_on.wait()
            return await super().read_text_file(request)

    async def ask(request: PermissionRequest) -> bool:
        received.append(request.title)
        return True

    buffers = Slow(a="old")
    agent = agent_with(access="ask", on_permission=ask, file_handler=buffers)
    path = str(workspace.cwd / "a")
    writing = asyncio.ensure_future(agent.refused("fs/write_text_file", path=path, content="new"))
    async with asyncio.timeout(TIMEOUT_S):
        await reading.wait()
        await agent.host.close()
        go_on.set()
        assert (await writing).code == REQUEST_CANCELLED
    assert received == []
    assert buffers.texts == {"a": "old"}


async def test_terminals_of_a_run_that_was_cancelled_are_killed(agent_with: Build) -> None:
    screens = Screens()
    agent = agent_with(access="full", terminal_handler=screens)
    await agent.ask("terminal/create", command="earlier")
    agent.host.run_ended()
    await agent.ask("terminal/create", command="watch")
    released = await agent.ask("terminal/create", command="ls")
    await agent.ask("terminal/release", terminalId=released["terminalId"])
    await agent.host.end_run_terminals()
    assert [call for call in screens.calls if call.startswith("kill")] == ["kill screen-2"]


@asynccontextmanager
async def terminal_being_made(agent_with: Build) -> AsyncIterator[tuple[Agent, Screens, asyncio.Event]]:
    """Have the agent start a command, which is not started before the event is set; wait for it at the end."""
    screens, may_be_made = Screens(), asyncio.Event()
    screens.making = may_be_made
    agent = agent_with(access="full", terminal_handler=screens)
    making = asyncio.create_task(agent.ask("terminal/create", command="watch"))
    async with asyncio.timeout(TIMEOUT_S):
        await screens.begun.wait()
        yield agent, screens, may_be_made
        await making


async def test_a_terminal_that_is_made_while_its_run_is_cancelled_is_killed(agent_with: Build) -> None:
    async with terminal_being_made(agent_with) as (agent, screens, may_be_made):
        agent.host.run_ended(stopped=True)
        may_be_made.set()
    assert screens.calls == ["create watch", "kill screen-1"]


async def test_the_end_of_a_runs_commands_waits_for_one_that_is_being_started(agent_with: Build) -> None:
    async with terminal_being_made(agent_with) as (agent, screens, may_be_made):
        assert agent.host.has_run_terminals
        ending = asyncio.create_task(agent.host.end_run_terminals())
        for _ in range(20):  # longer than it takes where nothing is being started
            await asyncio.sleep(0)
        assert not ending.done()
        may_be_made.set()
        await ending
        assert screens.calls == ["create watch", "kill screen-1"]


async def test_a_command_that_is_allowed_after_its_run_was_stopped_is_not_started(agent_with: Build) -> None:
    is_asked, go_on = asyncio.Event(), asyncio.Event()

    async def allow_late(request: PermissionRequest) -> bool:
        is_asked.set()
        await go_on.wait()
        return True

    screens = Screens()
    agent = agent_with(access="ask", on_permission=allow_late, terminal_handler=screens)
    starting = asyncio.create_task(agent.refused("terminal/create", command="watch"))
    async with asyncio.timeout(TIMEOUT_S):
        await is_asked.wait()
        agent.host.run_ended(stopped=True)
        go_on.set()
        assert (await starting).code == REQUEST_CANCELLED
    assert screens.calls == []


async def test_a_terminal_that_cannot_be_killed_leaves_no_other_running(agent_with: Build) -> None:
    class Stuck(Screens):
        async def kill(self, request: acp.KillTerminalRequest) -> acp.KillTerminalResponse:
            killed = await super().kill(request)
            if request.terminal_id == "screen-1":
                await asyncio.Event().wait()
            others_are_killed.set()
            return killed

    others_are_killed = asyncio.Event()
    screens = Stuck()
    agent = agent_with(access="full", terminal_handler=screens)
    for command in ("stuck", "watch"):
        await agent.ask("terminal/create", command=command)
    endings = [asyncio.create_task(agent.host.end_run_terminals()) for _ in range(2)]
    async with asyncio.timeout(TIMEOUT_S):
        await others_are_killed.wait()
    for ending in endings:
        ending.cancel()
    assert [call for call in screens.calls if call.startswith("kill")] == ["kill screen-1", "kill screen-2"]
