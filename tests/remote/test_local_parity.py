"""The same program on a session here and on a session on a server is told the same."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

import dragoman
from dragoman import PermissionRequest, Question, events
from dragoman.errors import AgentCrashed, DragomanError
from dragoman.host.permission import OnPermission
from dragoman.record.events import Event
from dragoman.record.rows import PromptContext
from dragoman.remote.client import Client
from dragoman.session import ports
from dragoman.session.handle import SessionHandle
from dragoman.session.options import StoredSettings
from remote.real_server import RealServer

TIMEOUT_S = 30.0

Program = Callable[[ports.SessionPort], Awaitable[list[Event]]]


@asynccontextmanager
async def local(folder: Path, on_permission: OnPermission | None) -> AsyncIterator[ports.SessionPort]:
    async with dragoman.open_session("demo", cwd=folder, on_permission=on_permission, on_question=decline) as session:
        yield session


@asynccontextmanager
async def remote(client: Client, folder: Path, on_permission: OnPermission | None) -> AsyncIterator[ports.SessionPort]:
    async with client.open_session("demo", cwd=folder, on_permission=on_permission, on_question=decline) as session:
        yield session


# What is new each time: places in a record, times, and ids that the agent makes up anew.
NEW_EACH_TIME = {
    "time", "session_id", "run_id", "line", "message_id", "permission_id", "file_call_id", "terminal_id", "duration",
    "question_id", "tool_call_id", "usage", "file_id",
}  # fmt: skip


# The end of a command may be told by the agent's own look at it, before its output is noted.
OTHERWISE = {"terminal.exited": {"output", "output_bytes", "truncated"}}

_TERMINAL = re.compile(r"term_[0-9a-f]+")


def plain(received: list[Event], folder: Path) -> list[tuple[str, dict[str, str]]]:
    """Events by their types, with all that is the same each time."""
    return [
        (
            event.type,
            {
                name: _TERMINAL.sub("term_", repr(getattr(event, name)).replace(str(folder), "FOLDER"))
                for name in event.__struct_fields__
                if name not in NEW_EACH_TIME | OTHERWISE.get(event.type, set())
            },
        )
        for event in received
        # What an agent tells once it was opened may come before the first prompt, or with it.
        if not (isinstance(event, events.ProviderEvent) and event.kind == "available_commands_update")
    ]


async def decline(question: Question) -> bool:
    return False


async def allow(request: PermissionRequest) -> bool:
    return True


async def refuse(request: PermissionRequest) -> bool:
    return False


def says(*prompts: str) -> Program:
    async def program(session: ports.SessionPort) -> list[Event]:
        return [event for prompt in prompts for event in [event async for event in session.run(prompt)]]

    return program


async def cancels(session: ports.SessionPort) -> list[Event]:
    received: list[Event] = []
    run = session.run("slow 1000")
    async for event in run:
        received.append(event)
        if isinstance(event, events.AssistantDelta):
            await run.cancel()
    completed = received[-1]
    assert isinstance(completed, events.RunCompleted)
    return [received[0], msgspec.structs.replace(completed, text="")]  # how far it came is another each time


async def crashes(session: ports.SessionPort) -> list[Event]:
    received = [event async for event in session.run("crash")]
    assert session.status() == "error"
    with pytest.raises(DragomanError):
        session.run("hello")
    return received


PROGRAMS: dict[str, tuple[Program, OnPermission | None]] = {
    "hello": (says("hello", "hello"), None),
    "tour": (says("tour"), allow),
    "plan": (says("plan"), None),
    "edit": (says("edit notes.txt"), allow),
    "edit refused": (says("edit notes.txt"), refuse),
    "run": (says("run echo hi"), allow),
    "cancel": (cancels, None),
    "crash": (crashes, None),
    "error": (says("error", "refuse"), None),
}


@pytest.mark.parametrize("name", PROGRAMS)
async def test_a_program_gets_the_same_events_here_and_on_a_server(name: str, client: Client, tmp_path: Path) -> None:
    program, on_permission = PROGRAMS[name]
    here, there = tmp_path / "here" / "work", tmp_path / "there" / "work"
    for folder in (here, there):
        folder.mkdir(parents=True)
        (folder / "notes.txt").write_text("one\ntwo\n")
    async with asyncio.timeout(TIMEOUT_S):
        async with local(here, on_permission) as session:
            expected = plain(await program(session), here)
        async with remote(client, there, on_permission) as session:
            found = plain(await program(session), there)
    if name in ("run", "tour"):  # what a command does, and what is said of it, come in either order
        found, expected = sorted(found, key=repr), sorted(expected, key=repr)
    assert [type_ for type_, _ in found] == [type_ for type_, _ in expected]
    assert found == expected


# It takes no notice of being asked to end, and names its process to whoever reads the pipe.
STUBBORN = "trap '' TERM\necho $$ > started\nwhile :; do sleep 0.1; done\n"


def is_alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


@pytest.mark.parametrize("place", ["here", "on a server"])
async def test_a_cancelled_run_is_over_when_its_command_is(place: str, client: Client, folder: Path) -> None:
    os.mkfifo(folder / "started")
    (folder / "stubborn.sh").write_text(STUBBORN)
    opening = local(folder, allow) if place == "here" else remote(client, folder, allow)
    async with asyncio.timeout(TIMEOUT_S), opening as session:
        run = session.run("run sh stubborn.sh")
        types: list[str] = []
        async for event in run:
            types.append(event.type)
            if isinstance(event, events.TerminalStarted):
                pid = int(await asyncio.to_thread((folder / "started").read_text))
                await run.cancel()
                assert not is_alive(pid)
        assert session.status() == "idle"
    assert types.index("terminal.exited") < types.index("run.completed")


async def test_results_have_the_same_in_them(client: Client, folder: Path) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        async with local(folder, None) as session:
            here = await session.run("tools")
        async with remote(client, folder, None) as session:
            there = await session.run("tools")
    assert (there.status, there.text, there.stop_reason) == (here.status, here.text, here.stop_reason)
    assert [call.title for call in there.tool_calls] == [call.title for call in here.tool_calls]


async def test_a_snapshot_has_the_same_settings_here_and_on_a_server(client: Client, folder: Path) -> None:
    chosen = {"system_prompt": "Be brief.", "access": "read-only", "network": False}
    handles: list[SessionHandle] = []
    async with asyncio.timeout(TIMEOUT_S):
        for opening in (
            dragoman.open_session("demo", cwd=folder, **chosen),  # type: ignore[arg-type]
            client.open_session("demo", cwd=folder, **chosen),  # type: ignore[arg-type]
        ):
            async with opening as session:
                await session.set_mode("plan")
                await session.set_reasoning_effort("high")
                handles.append(session.snapshot())
    here, there = ({name: getattr(handle, name) for name in StoredSettings.__struct_fields__} for handle in handles)
    assert there == here
    assert (here["mode"], here["reasoning_effort"], here["network"]) == ("plan", "high", False)


async def test_skills_and_templates_go_with_prompts_here_and_on_a_server(
    client: Client, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("one", "two"):
        (folder / "skills" / name).mkdir(parents=True)
        (folder / "skills" / name / "SKILL.md").write_text(f"---\nname: {name}\ndescription: does it\n---\n")
    (folder / "prompts").mkdir()
    (folder / "prompts/greet.md").write_text("Say hello to $1.")
    chosen: dict[str, Any] = {"skills": ["one"], "custom_instructions": "Be brief."}
    contexts: list[PromptContext | None] = []
    async with asyncio.timeout(TIMEOUT_S):
        for opening in (
            dragoman.open_session("demo", cwd=folder, **chosen),
            client.open_session("demo", cwd=folder, **chosen),
        ):
            async with opening as session:
                received = [event async for event in session.run("/greet Ada", skills=["two"])]
                contexts += [event.context for event in received if isinstance(event, events.RunStarted)]
                assert [row.text for row in session.fold.messages if row.kind == "user"] == ["/greet Ada"]
                with pytest.raises(dragoman.errors.InputError, match="there is no skill 'three'"):
                    await session.run("hello", skills=["three"])
    here, there = contexts
    assert here is not None
    assert here == there
    assert ([skill.name for skill in here.skills], here.listed) == (["two", "one"], 2)
    assert (here.template, here.has_custom_instructions) == (str(folder / "prompts/greet.md"), True)


async def test_a_crash_is_reported_with_the_agents_last_lines(client: Client, folder: Path) -> None:
    async with asyncio.timeout(TIMEOUT_S), client.open_session("demo", cwd=folder) as session:
        with pytest.raises(AgentCrashed, match="exit code 3") as failure:
            await session.run("crash")
        assert "crashing as asked" in failure.value.stderr
        assert session.state.failure is not None
        await session.restart()
        assert (await session.run("hello")).status == "success"


async def test_attachments_of_a_prompt_reach_the_server(client: Client, folder: Path) -> None:
    (folder / "note.txt").write_text("The code word is heliotrope.")
    async with asyncio.timeout(TIMEOUT_S), client.open_session("demo", cwd=folder) as session:
        result = await session.run(
            [
                "hello",
                dragoman.TextAttachment("page", "some text"),
                dragoman.ImageAttachment(b"\x89PNG", "image/png"),
                dragoman.FileAttachment(folder / "note.txt"),
            ]
        )
        assert "You attached" in result.text
        assert "image/png" in result.text
        with pytest.raises(dragoman.errors.InputError, match="Link"):
            session.run(["look", dragoman.LinkAttachment("https://example.org/")])


def test_a_program_that_is_a_client_loads_nothing_of_the_server() -> None:
    heavy = ("starlette", "uvicorn", "mcp", "sqlite3", "websockets")
    code = f"import sys, dragoman; dragoman.Client; print([name for name in {heavy} if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert found.stdout.strip() == "[]"


async def test_a_server_lists_searches_and_counts(server: RealServer, client: Client, folder: Path) -> None:
    async with asyncio.timeout(TIMEOUT_S), client.open_session("demo", cwd=folder) as session:
        await session.run("hello heliotrope")
        assert [item.id for item in await client.sessions()] == [session.id]
        assert {hit.session.id for hit in await client.search("heliotrope")} == {session.id}
        assert (await client.usage("agent")).total.runs == 1
        assert "demo" in {agent.id for agent in await client.agents()}
