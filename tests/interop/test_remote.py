"""Our client and agents behind the servers of both official SDKs, over WebSocket and HTTP."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from dragoman import events
from dragoman.errors import AgentCrashed, AuthenticationRequired, RequestFailed
from dragoman.session.handle import SessionHandle
from dragoman.session.options import SessionConfig
from dragoman.session.runtime import AgentRuntime
from dragoman.session.spec import AgentSpec
from dragoman.workspace import Workspace
from interop import tour
from interop.conftest import Serve

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]  # the SDKs are installed first

both_ways = pytest.mark.parametrize("scheme", ["ws", "http"])


def runtime_at(scheme: str, port: int, **headers: str) -> AgentRuntime:
    url = f"{scheme}://127.0.0.1:{port}/acp"
    spec = AgentSpec(url=url, headers=headers, name="remote agent", read_files=True, write_files=True, terminals=True)
    return AgentRuntime(spec)


@both_ways
async def test_every_method_is_understood_by_an_agent_behind_the_python_server(
    scheme: str, python_agent: list[str], serve: Serve, tmp_path: Path
) -> None:
    async with serve([*python_agent, "serve"]) as port, runtime_at(scheme, port) as runtime:
        report = await tour.take(runtime, tmp_path)
    assert set(report["heard"]) == tour.EVERYTHING


@both_ways
async def test_every_method_is_understood_by_an_agent_behind_the_typescript_server(
    scheme: str, node_agent: list[str], serve: Serve, tmp_path: Path
) -> None:
    async with serve([*node_agent, "serve"]) as port, runtime_at(scheme, port) as runtime:
        late = scheme == "http"
        report = await tour.take(runtime, tmp_path, more_updates=tour.NEWER_UPDATES, late_history=late)
    assert set(report["heard"]) == tour.EVERYTHING


@both_ways
async def test_every_chunk_of_a_flood_arrives_in_order(
    scheme: str, python_agent: list[str], serve: Serve, tmp_path: Path
) -> None:
    async with asyncio.timeout(60), serve([*python_agent, "serve"]) as port, runtime_at(scheme, port) as runtime:
        session = await runtime.open_session(SessionConfig(workspace=Workspace(tmp_path)))
        result = await session.run("flood 5000")
    assert [int(word) for word in result.text.split()] == list(range(5000))


@both_ways
async def test_a_server_that_requires_a_token_gets_it_in_a_header(
    scheme: str, python_agent: list[str], serve: Serve, tmp_path: Path
) -> None:
    async with serve([*python_agent, "serve"], TOKEN="abracadabra") as port:
        with pytest.raises(AuthenticationRequired, match="HTTP 401"):
            await runtime_at(scheme, port, Authorization="Bearer something else").start()
        async with runtime_at(scheme, port, Authorization="Bearer abracadabra") as runtime:
            session = await runtime.open_session(SessionConfig(workspace=Workspace(tmp_path)))
            assert (await session.run("hello")).text == "echo: hello"


@both_ways
@pytest.mark.parametrize("language", ["python", "node"])
async def test_a_server_that_dies_ends_the_run_and_is_not_called_again(
    scheme: str, language: str, request: pytest.FixtureRequest, serve: Serve, tmp_path: Path
) -> None:
    command = [*request.getfixturevalue(f"{language}_agent"), "serve"]
    async with asyncio.timeout(30), AsyncExitStack() as stack:
        port = await stack.enter_async_context(serve(command))
        runtime = await runtime_at(scheme, port).start()
        session = await runtime.open_session(SessionConfig(workspace=Workspace(tmp_path)))
        run = session.run("wait")
        async for event in run:
            if isinstance(event, events.AssistantDelta):
                await stack.aclose()  # kills the server
        with pytest.raises(AgentCrashed, match=r"lost|ended the event stream"):
            await run
        with pytest.raises(AgentCrashed):
            await runtime.open_session(SessionConfig(workspace=Workspace(tmp_path)))
        await runtime.close()


def known(agent_session_id: str, folder: Path) -> SessionHandle:
    return SessionHandle(
        session_id="ours", agent_session_id=agent_session_id, command=("remote",), cwd=str(folder), access="ask"
    )


async def test_a_session_of_an_earlier_connection_is_loaded_and_continued_over_http(
    node_agent: list[str], serve: Serve, tmp_path: Path
) -> None:
    async with serve([*node_agent, "serve"]) as port, runtime_at("http", port) as runtime:
        session = await runtime.load_session(known("session-of-old", tmp_path))
        assert (await session.run("hello")).text == "echo: hello"


async def test_the_python_server_continues_such_a_session_only_if_the_agent_repeats_its_id(
    python_agent: list[str], serve: Serve, tmp_path: Path
) -> None:
    """Python SDK 0.12.1: its HTTP server learns of a session by the `sessionId` of an answer alone, and the answer to
    `session/load` has none in the protocol. Prompts for the session are then refused, which must be an error."""
    async with serve([*python_agent, "serve"]) as port, runtime_at("http", port) as runtime:
        silent = await runtime.load_session(known("untold", tmp_path))
        assert [message.text for message in silent.fold.messages] == [
            "something, long ago",
            "answered: something, long ago",
        ]
        with pytest.raises(RequestFailed, match="HTTP 404, Unknown session id"):
            await silent.run("hello")
        session = await runtime.load_session(known("told", tmp_path))
        assert (await session.run("hello")).text == "echo: hello"
