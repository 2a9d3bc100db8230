"""Scenes that provoke the quirks of real agents."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from dragoman import PermissionRequest, events
from dragoman.errors import DragomanError
from dragoman.host.permission import PermissionAnswer
from dragoman.wire import vocabulary as acp

from . import notes_server
from .acts import Tool, allow, refuse
from .conftest import Stage
from .recording import Recording

Scene: TypeAlias = Callable[[Stage], Awaitable[None]]


async def speaks(stage: Stage) -> None:
    async with stage.session() as session:
        await session.run("[[say:One. Two. Three.]]")


def speaks_until(kind: str) -> Scene:
    """Make a scene that waits for an update of this kind after the prompt has been answered."""

    async def scene(stage: Stage) -> None:
        heard = asyncio.Event()
        async with stage.session(on_event=lambda event: heard.set()) as session:
            await session.run("[[say:Hello.]]")
            while not Recording(stage.lines).updates_after_prompt(kind):
                heard.clear()
                await heard.wait()

    return scene


async def is_refused(stage: Stage) -> None:
    async with stage.session(refuse) as session:
        await session.run(f"{stage.agent.run('echo made > made.txt')}[[say:It went on.]]")


async def always_for_two_files(stage: Stage) -> None:
    async with stage.session(_always) as session:
        for name in ("one", "two"):
            writing = stage.agent.write(stage.folder / f"{name}.txt").replace("written.txt", f"{name}.txt")
            await session.run(f"{writing}[[say:It is done.]]")


async def always_in_two_processes(stage: Stage) -> None:
    for _ in range(2):
        async with stage.session(_always) as session:
            await session.run(f"{stage.agent.run('touch made.txt')}[[say:It is done.]]")


async def _always(request: PermissionRequest) -> PermissionAnswer:
    return request.allow(always=True)


async def is_cancelled_while_it_asks(stage: Stage) -> None:
    permission_requested = asyncio.Event()

    async def think_for_ever(request: PermissionRequest) -> bool:
        permission_requested.set()
        await asyncio.Event().wait()
        return True

    async with stage.runtime() as runtime:
        session = await runtime.open_session(stage.config(think_for_ever))
        run = session.run(stage.agent.run("echo made > made.txt"))
        task = asyncio.create_task(run.result())
        await permission_requested.wait()
        # Not by `run.cancel`, which would answer the question before the agent can take it back.
        runtime.notify("session/cancel", acp.CancelNotification(session_id=session.agent_session_id))
        await task


async def goes_on_after_a_cancelled_question(stage: Stage) -> None:
    permission_requested = asyncio.Event()

    async def think_for_ever(request: PermissionRequest) -> bool:
        permission_requested.set()
        await asyncio.Event().wait()
        return True

    async with stage.session(think_for_ever) as session:
        run = session.run(stage.agent.run("echo made > made.txt"))
        await permission_requested.wait()
        await run.cancel()
        try:
            await session.run("[[begin]][[say:After the cancel.]]")
        except DragomanError:
            pass


async def is_cancelled_while_it_speaks(stage: Stage) -> None:
    async with stage.session() as session:
        run = session.run("[[slow:200:0.05]]")
        async for event in run:
            if isinstance(event, events.AssistantDelta):
                break
        await run.cancel()


async def is_cancelled_while_its_terminal_runs(stage: Stage) -> None:
    stage.offers = {"terminals": True}
    async with stage.session(allow) as session:
        tool = Tool(stage.folder / "begun")
        run = session.run(stage.agent.run(tool.command))
        task = asyncio.create_task(run.result())
        await tool.begun()
        await run.cancel()
        await task


async def model_fails(stage: Stage) -> None:
    async with stage.session() as session:
        try:
            await session.run("[[http:400]]")
        except DragomanError:
            pass


async def gets_a_server(stage: Stage) -> None:
    stage.more_env = {"ENABLE_TOOL_SEARCH": "true"} if stage.agent.id == "claude" else {}
    server = acp.McpServerStdio(name="notes", command=sys.executable, args=(notes_server.__file__,), env=())
    async with stage.session(mcp_servers=(server,)) as session:
        await session.run("[[tools]]")


async def gets_two_prompts(stage: Stage) -> None:
    """Not by a session's `run`, which would queue the second."""
    spoke = asyncio.Event()

    def hear(event: events.Event) -> None:
        if isinstance(event, events.AssistantDelta):
            spoke.set()

    async with stage.runtime() as runtime:
        session = await runtime.open_session(stage.config(on_event=hear))

        async def prompt(text: str) -> None:
            block = acp.TextContent(text=text)
            request = acp.PromptRequest(session_id=session.agent_session_id, prompt=(block,))
            try:
                await runtime.request("session/prompt", request)
            except DragomanError:
                pass

        first = asyncio.create_task(prompt("[[slow:20:0.05]]"))
        await spoke.wait()
        await asyncio.gather(first, prompt("[[begin]][[say:The second.]]"))


async def creates_where_reading_is_offered(stage: Stage) -> None:
    stage.offers = {"read_files": True, "write_files": True}
    await writes(stage)


async def writes(stage: Stage) -> None:
    async with stage.session(allow) as session:
        await session.run(f"{stage.agent.write(stage.folder / 'written.txt')}[[say:It is done.]]")


async def writes_and_runs(stage: Stage) -> None:
    async with stage.session(allow) as session:
        await session.run(f"{stage.agent.write(stage.folder / 'written.txt')}[[say:It is done.]]")
        await session.run(f"{stage.agent.run('echo made > made.txt')}[[say:It is done.]]")


async def is_allowed(stage: Stage) -> None:
    async with stage.session(allow) as session:
        await session.run(f"{stage.agent.run('echo made > made.txt')}[[say:It is done.]]")


async def is_loaded_at_once(stage: Stage) -> None:
    async with stage.session() as session:
        await session.run("[[say:The word is azure.]]")
    async with stage.runtime() as runtime:
        try:
            await runtime.load_session(session.snapshot())
        except DragomanError:
            pass


async def is_loaded_in_the_next_minute(stage: Stage) -> None:
    async with stage.session() as session:
        await session.run("[[say:The word is azure.]]")
    await asyncio.sleep(60.5 - time.time() % 60)
    async with stage.runtime() as runtime:
        await runtime.load_session(session.snapshot())


async def is_loaded_twice(stage: Stage) -> None:
    async with stage.session() as session:
        await session.run("[[say:The word is azure.]]")
    await asyncio.sleep(60.5 - time.time() % 60)  # in the minute in which it began, not even one load works
    for _ in range(2):
        async with stage.runtime() as runtime:
            try:
                loaded = await runtime.load_session(session.snapshot())
                await loaded.run("[[say:Fresh.]]")
            except DragomanError:
                pass


async def is_told_a_model(stage: Stage) -> None:
    async with stage.runtime() as runtime:
        session = await runtime.open_session(stage.config())
        setting = session.fold.setting("model")
        assert setting is not None
        request = acp.SetSessionModelRequest(session_id=session.agent_session_id, model_id=str(setting.current))
        try:
            await runtime.request("session/set_model", request)
        except DragomanError:
            pass


async def is_started_elsewhere(stage: Stage) -> None:
    folder = stage.folder / "elsewhere"
    folder.mkdir()
    async with stage.session(allow, folder=folder) as session:
        await session.run(f"{stage.agent.run('pwd')}[[result]]")
