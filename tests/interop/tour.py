"""A tour of every method of the stable protocol: requests of our client to an agent, and answers to the agent.

The agents (python_agent.py, agent.mjs) do what the prompt says, and report what they have heard.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from dragoman import events
from dragoman.host.permission import PermissionRequest
from dragoman.session.handle import SessionHandle
from dragoman.session.options import SessionConfig
from dragoman.session.prompt import AudioAttachment, ImageAttachment, LinkAttachment, TextAttachment
from dragoman.session.runtime import AgentRuntime
from dragoman.session.session import Session
from dragoman.wire.vocabulary import (
    METHODS,
    EnvVariable,
    HttpHeader,
    McpServerHttp,
    McpServerSse,
    McpServerStdio,
)
from dragoman.workspace import Workspace

# Seconds until a step gives up waiting: far more than any of them takes.
LIMIT = 40.0

# All that an agent of the stable protocol hears: the methods that it serves, and our answers to those that it calls.
# Elicitation is not offered by our host, and requests are not cancelled one by one here.
EVERYTHING = {method.name for method in METHODS.values() if method.stable and method.side == "agent"} | {
    f"answer to {method.name}"
    for method in METHODS.values()
    if method.stable and method.side == "client" and method.kind == "request" and method.name != "elicitation/create"
}

# One of each kind that the protocol has for everyone. Nobody connects to them.
SERVERS = (
    McpServerStdio(name="a", command="run", args=(), env=(EnvVariable(name="KEY", value="value"),)),
    McpServerHttp(name="b", url="http://127.0.0.1:9/", headers=(HttpHeader(name="X-Key", value="value"),)),
    McpServerSse(name="c", url="http://127.0.0.1:9/", headers=()),
)

# What both agents tell of a turn with all kinds of update that both SDKs know.
KNOWN_UPDATES = [
    "run.started",
    "provider.event user_message_chunk",
    "assistant.reasoning.delta",
    "assistant.reasoning.message",
    "assistant.delta",
    "provider.event agent_message_chunk",  # an image
    "provider.event agent_message_chunk",  # a sound
    "provider.event agent_message_chunk",  # a link
    "provider.event agent_message_chunk",  # a text file
    "provider.event agent_message_chunk",  # another file
    "assistant.message",
    "tool.call",
    "tool.result",
    "plan.updated",
    "provider.event available_commands_update",
    "provider.event current_mode_update",
    "provider.event config_option_update",
    "provider.event session_info_update",
    "usage.updated",
]

# And of those that only the TypeScript SDK knows.
NEWER_UPDATES = (
    "provider.event notice",
    "provider.event compaction_update",
    "provider.event compaction_summary_chunk",
    "provider.event compaction_update",
)


async def take(
    runtime: AgentRuntime, folder: Path, *, more_updates: tuple[str, ...] = (), late_history: bool = False
) -> Mapping[str, Any]:
    """The whole tour; returns the agent's own report.

    `late_history` is for servers that answer `session/load` on another stream than the one with the history.
    """
    async with asyncio.timeout(LIMIT):
        await log_in_and_out(runtime)
        session = await open_session(runtime, folder)
        await settings(session)
        await attachments(session)
        await updates(session, more_updates)
        await requests(session, folder)
        await cancel(session)
        handle = await list_and_delete(runtime, session, folder)
        await load(runtime, handle, late_history)
        again = SessionConfig(workspace=Workspace(folder), mcp_servers=SERVERS)
        async with await runtime.resume_session(handle, again) as resumed:
            return dict(msgspec.json.decode((await resumed.run("report")).text))


async def log_in_and_out(runtime: AgentRuntime) -> None:
    capabilities = runtime.capabilities()
    assert capabilities.load
    assert capabilities.resume
    assert capabilities.list
    assert capabilities.delete
    assert capabilities.close
    assert [method.id for method in capabilities.auth_methods] == ["key"]
    await runtime.authenticate("key")
    await runtime.logout()


async def open_session(runtime: AgentRuntime, folder: Path) -> Session:
    def answer(request: PermissionRequest) -> bool:
        return request.title == "Be bold" or request.origin != "agent"

    more = folder / "more"
    more.mkdir()
    workspace = Workspace(folder, [more])
    return await runtime.open_session(SessionConfig(workspace=workspace, mcp_servers=SERVERS, on_permission=answer))


async def settings(session: Session) -> None:
    await session.set_mode("quick")
    await session.set_model("large")
    await session.set_option("loud", True)
    now = {setting.id: setting.current for setting in session.fold.settings.values()}
    assert now == {"model": "large", "loud": True, "mode": "quick"}


async def attachments(session: Session) -> None:
    sound, picture = AudioAttachment(b"beep", "audio/wav"), ImageAttachment(b"dots", "image/png")
    result = await session.run(
        ["attachments", picture, sound, LinkAttachment("file:///a", "a"), TextAttachment("notes", "some text")]
    )
    assert result.text == "echo: attachments"


async def updates(session: Session, more: tuple[str, ...]) -> None:
    run = session.run("updates")
    emitted = [event async for event in run]
    assert isinstance(emitted[-1], events.RunCompleted)
    assert [_name(event) for event in emitted[:-1]] == [*KNOWN_UPDATES, *more]
    assert (await run).usage.context_used == 10


def _name(event: events.Event) -> str:
    return f"{event.type} {event.kind}" if isinstance(event, events.ProviderEvent) else event.type


async def requests(session: Session, folder: Path) -> None:
    allowed = await session.run("permission")
    assert json.loads(allowed.text) == {"outcome": "selected", "optionId": "yes"}
    assert (await session.run(f"files {folder}")).text.strip() == "two"
    assert (folder / "new" / "notes.txt").read_text() == "one\ntwo\nthree\n"
    terminals = json.loads((await session.run("terminals")).text)
    assert terminals == {"exit": 3, "output": "hello", "truncated": False, "signal": "SIGTERM"}


async def cancel(session: Session) -> None:
    async with session.run("wait") as run:
        async for event in run:
            if isinstance(event, events.AssistantDelta):
                await run.cancel()
        assert (await run).status == "cancelled"


async def list_and_delete(runtime: AgentRuntime, session: Session, folder: Path) -> SessionHandle:
    handle = session.snapshot()
    other = await runtime.open_session(SessionConfig(workspace=Workspace(folder)))
    listed = [info.session_id async for info in runtime.list_sessions()]
    assert listed == sorted([session.agent_session_id, other.agent_session_id])
    await other.close()
    await runtime.delete_session(other.agent_session_id)
    await session.close()
    return handle


async def load(runtime: AgentRuntime, handle: SessionHandle, late_history: bool) -> None:
    is_replayed = asyncio.Event()

    def listen(event: events.Event) -> None:
        if isinstance(event, events.AssistantDelta) and event.text == "answered: wait":
            is_replayed.set()  # the last of it

    workspace = Workspace(handle.cwd, handle.additional)
    loaded = await runtime.load_session(
        handle, SessionConfig(workspace=workspace, mcp_servers=SERVERS, on_event=listen)
    )
    if late_history:
        await is_replayed.wait()
    assert is_replayed.is_set(), "the whole history comes before load returns"
    prompts = [message.text for message in loaded.fold.messages if message.kind == "user"]
    assert prompts == ["attachments", "updates", "permission", "files", "terminals", "wait"]
    await loaded.close()
