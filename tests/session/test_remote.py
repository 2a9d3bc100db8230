"""An agent behind an address is the same agent: the promises of the ports hold over the network shells as well."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

import pytest

import dragoman
from dragoman import events
from dragoman.errors import AgentCrashed, AuthenticationRequired, InputError, ProtocolError, RequestFailed, StartError
from dragoman.session import ports
from dragoman.session.link import connect
from dragoman.session.options import SessionConfig
from dragoman.session.runtime import AgentRuntime
from dragoman.session.spec import AgentSpec, Limits
from dragoman.testing import conformance
from dragoman.testing.clock import ManualClock
from dragoman.testing.demo import demo_in_memory
from dragoman.testing.scripted import AgentMain, ScriptedAgent, Turn
from dragoman.workspace import Workspace
from session.servers import HttpServer, websocket_server

Kind = Literal["websocket", "http"]
both_ways = pytest.mark.parametrize("kind", ["websocket", "http"])


@asynccontextmanager
async def address_of(kind: Kind, main: AgentMain) -> AsyncIterator[str]:
    if kind == "websocket":
        async with websocket_server(main) as url:
            yield url
    else:
        async with HttpServer(main).running() as server:
            yield server.url


def runtime_at(url: str, **headers: str) -> AgentRuntime:
    spec = AgentSpec(url=url, headers=headers, name="remote", read_files=True, write_files=True, terminals=True)
    return AgentRuntime(spec, limits=Limits(start_timeout=10, close_timeout=2))


class Remote:
    """A runtime on the demo agent, behind a server of its own."""

    def __init__(self, folder: Path, kind: Kind) -> None:
        self.folder = folder / "work"
        self.folder.mkdir()
        self._home = folder / "home"
        self._kind = kind

    @asynccontextmanager
    async def open(self) -> AsyncIterator[ports.RuntimePort]:
        async with address_of(self._kind, demo_in_memory(self._home)) as url, runtime_at(url) as runtime:
            yield runtime


@both_ways
@pytest.mark.parametrize("check", conformance.CHECKS, ids=lambda check: check.__name__)
async def test_a_remote_runtime_conforms(check: conformance.Check, kind: Kind, tmp_path: Path) -> None:
    await check(Remote(tmp_path, kind))


def config(folder: Path) -> SessionConfig:
    return SessionConfig(workspace=Workspace(folder))


async def echo(turn: Turn) -> None:
    await turn.say(f"You said: {turn.text}")


# -- coming in


@pytest.mark.parametrize("scheme", ["ws", "http"])
async def test_an_address_without_a_listener_is_named_in_the_error(scheme: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"{scheme}://127.0.0.1:{taken.getsockname()[1]}/acp?key=secret"
        with pytest.raises(StartError, match=r"cannot connect to \w+://127\.0\.0\.1:\d+/acp: ") as failed:
            await runtime_at(url).start()
    assert "secret" not in str(failed.value)


@pytest.mark.parametrize("url", ["ftp://127.0.0.1/acp", "agent --acp", "ws://ada:secret@127.0.0.1/acp"])
def test_an_unusable_address_is_refused_before_connecting(url: str) -> None:
    with pytest.raises(InputError):
        connect(url)


@pytest.mark.parametrize(
    ("url", "module", "extra"),
    [
        ("ws://127.0.0.1:9/acp", "websockets.asyncio.client", "pip install websockets"),
        ("http://127.0.0.1:9/acp", "httpx", "pip install 'dragoman[http]'"),
    ],
)
async def test_a_missing_package_is_named_with_the_way_to_get_it(
    url: str, module: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(InputError, match=module.split(".")[0]) as refused:
        await runtime_at(url).start()
    assert extra in refused.value.guidance


def test_the_network_packages_are_loaded_only_when_a_connection_is_made() -> None:
    code = "import sys, dragoman.session.link; print([m for m in ('httpx', 'websockets') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


async def test_headers_go_with_every_request_and_are_not_stored(tmp_path: Path) -> None:
    server = HttpServer(ScriptedAgent(echo).main)
    async with server.running(), runtime_at(server.url, authorization="abracadabra") as runtime:
        session = await runtime.open_session(config(tmp_path))
        await session.run("hi")
        assert "abracadabra" not in session.snapshot().to_json()
    assert {headers.get("authorization") for _, headers in server.seen} == {"abracadabra"}


async def test_headers_go_with_the_handshake_and_a_server_that_misses_them_is_an_authentication_error(
    tmp_path: Path,
) -> None:
    async with websocket_server(ScriptedAgent(echo).main, token="abracadabra") as url:
        with pytest.raises(AuthenticationRequired, match="HTTP 401: who are you") as refused:
            await runtime_at(url, authorization="a guess").start()
        assert "guess" not in str(refused.value)
        async with runtime_at(url, authorization="abracadabra") as runtime:
            session = await runtime.open_session(config(tmp_path))
            assert "abracadabra" not in session.snapshot().to_json()


async def test_a_redirect_is_not_followed_because_our_headers_are_not_for_others() -> None:
    async def send_away(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(f"HTTP/1.1 307 Go\r\nLocation: {elsewhere}\r\nContent-Length: 0\r\n\r\n".encode())
        writer.close()

    other = HttpServer(ScriptedAgent(echo).main)
    server = await asyncio.start_server(send_away, "127.0.0.1", 0)
    host = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server, other.running():
        for scheme in ("ws", "http"):
            elsewhere = other.url.replace("http", scheme)
            with pytest.raises((StartError, ProtocolError), match="HTTP 307"):
                await runtime_at(f"{scheme}://{host}/acp", x_key="abracadabra").start()
    assert other.seen == []


# -- the end of it


@both_ways
async def test_a_run_whose_connection_is_lost_is_cut_and_says_why(kind: Kind, tmp_path: Path) -> None:
    async def leave(turn: Turn) -> None:
        await turn.say("half of a sent")
        turn.crash(3)

    async with address_of(kind, ScriptedAgent(leave).main) as url, runtime_at(url) as runtime:
        session = await runtime.open_session(config(tmp_path))
        run = session.run("go")
        seen_events = [event async for event in run]
        assert isinstance(seen_events[-1], events.RunCompleted)
        assert (seen_events[-1].status, seen_events[-1].text) == ("error", "half of a sent")
        with pytest.raises(AgentCrashed, match=r"the server (closed the connection|ended the event stream)"):
            await run
        assert session.status() == "error"
        with pytest.raises(AgentCrashed):
            session.run("more")


@both_ways
async def test_a_message_over_the_limit_ends_the_connection_and_says_so(kind: Kind, tmp_path: Path) -> None:
    async def shout(turn: Turn) -> None:
        await turn.say("x" * 300_000)

    async with address_of(kind, ScriptedAgent(shout).main) as url:
        spec = AgentSpec(url=url, name="remote")
        async with AgentRuntime(spec, launch=connect(url, message_limit=200_000)) as runtime:
            session = await runtime.open_session(config(tmp_path))
            with pytest.raises(AgentCrashed, match=r"message too big|over the limit of 200000 bytes"):
                await session.run("go")


@both_ways
async def test_the_front_door_takes_an_address_and_a_snapshot_keeps_no_header(kind: Kind, tmp_path: Path) -> None:
    token = {"Authorization": "Bearer planted-secret"}
    async with address_of(kind, demo_in_memory(tmp_path)) as url:
        async with dragoman.open_session(url, cwd=tmp_path, headers=token) as session:
            await session.run("hello")
            handle = session.snapshot()
        assert handle.url == url
        assert "planted-secret" not in handle.to_json()
        with pytest.raises(InputError, match="Authorization"):
            await dragoman.resume_session(handle.to_json())
        async with dragoman.resume_session(handle.to_json(), headers=token) as session:
            assert (await session.run("hello")).status == "success"


def test_an_agent_has_a_command_or_an_address() -> None:
    for wrong in ({}, {"command": ["a"], "url": "ws://127.0.0.1/acp"}, {"url": "ftp://127.0.0.1/"}):
        with pytest.raises(InputError):
            AgentSpec(**wrong)


@both_ways
async def test_sessions_on_one_connection_run_side_by_side(kind: Kind, tmp_path: Path) -> None:
    waiting = asyncio.Event()

    async def script(turn: Turn) -> str | None:
        if turn.text == "wait":
            await turn.say("waiting")
            waiting.set()
            return await turn.wait_cancelled()
        await echo(turn)
        return None

    async with asyncio.timeout(20), address_of(kind, ScriptedAgent(script).main) as url, runtime_at(url) as runtime:
        first, second = [await runtime.open_session(config(tmp_path)) for _ in range(2)]
        waiting_run = first.run("wait")
        await waiting.wait()
        assert (await second.run("hi")).text == "You said: hi"
        await waiting_run.cancel()
        assert (await waiting_run).status == "cancelled"


# -- what HTTP has of its own


@asynccontextmanager
async def http_runtime(agent: ScriptedAgent) -> AsyncIterator[tuple[HttpServer, AgentRuntime]]:
    async with asyncio.timeout(20), HttpServer(agent.main).running() as server, runtime_at(server.url) as runtime:
        yield server, runtime


async def test_a_session_s_stream_is_open_before_any_message_about_it(tmp_path: Path) -> None:
    async with http_runtime(ScriptedAgent(echo)) as (server, runtime):
        session = await runtime.open_session(config(tmp_path))
        await session.run("hi")
    methods = [name for name, _ in server.seen]
    assert methods == ["OPTIONS", "initialize", "GET", "session/new", "GET session", "session/prompt", "DELETE"]
    assert all("acp-session-id" in headers for name, headers in server.seen if name == "session/prompt")


async def test_an_answer_to_the_agent_goes_where_the_question_came_from(tmp_path: Path) -> None:
    async def ask(turn: Turn) -> None:
        await turn.say(str(await turn.ask_permission()))

    async with http_runtime(ScriptedAgent(ask)) as (server, runtime):
        session = await runtime.open_session(SessionConfig(workspace=Workspace(tmp_path), on_permission=lambda _: True))
        assert (await session.run("go")).text == "allow"
    assert [headers["acp-session-id"] for name, headers in server.seen if name == "answer"] == ["session-1"]


async def test_a_refused_request_fails_alone_with_the_server_s_reason(tmp_path: Path) -> None:
    async with http_runtime(ScriptedAgent(echo)) as (server, runtime):
        session = await runtime.open_session(config(tmp_path))
        server.refusals["session/prompt"] = 503
        with pytest.raises(RequestFailed, match="HTTP 503, not today"):
            await session.run("hi")
        server.refusals.clear()
        assert (await session.run("hi")).text == "You said: hi"


async def test_a_refused_notification_is_found_in_the_diagnostics(tmp_path: Path) -> None:
    async def until_cancelled(turn: Turn) -> str:
        await turn.say("waiting")
        return await turn.wait_cancelled()

    agent = ScriptedAgent(until_cancelled)
    async with HttpServer(agent.main).running() as server:
        clock, limits, refused = ManualClock(), Limits(cancel_timeout=60.0, close_timeout=2), asyncio.Event()
        spec = AgentSpec(url=server.url)
        async with AgentRuntime(spec, limits=limits, clock=clock, on_diagnostic=lambda _: refused.set()) as runtime:
            server.refusals["session/cancel"] = 500
            session = await runtime.open_session(config(tmp_path))
            run = session.run("go")
            await agent.hears("session/prompt")
            cancelling = asyncio.ensure_future(run.cancel())
            await refused.wait()
            clock.advance(60.0)
            await cancelling
            assert (await run).status == "cancelled", "by the end of the connection, since it is not heard otherwise"
        complaints = [entry.text for entry in runtime.diagnostics.recent if entry.kind == "stderr"]
        assert any("session/cancel" in text and "HTTP 500, not today" in text for text in complaints), complaints


async def test_a_server_that_wants_a_login_is_an_authentication_error(tmp_path: Path) -> None:
    server = HttpServer(ScriptedAgent(echo).main)
    server.refusals["initialize"] = 401
    async with server.running():
        with pytest.raises(AuthenticationRequired, match=r"HTTP 401.*headers="):
            await runtime_at(server.url).start()


@pytest.mark.parametrize(
    ("refusals", "headers", "says"),
    [
        ({}, {}, "no Acp-Connection-Id header"),
        ({"GET": 406}, None, "refused the event stream: HTTP 406"),
        ({"initialize": 404}, None, "HTTP 404"),
    ],
)
async def test_a_server_that_speaks_something_else_is_distinguished_from_an_agent(
    refusals: dict[str, int], headers: dict[str, str] | None, says: str
) -> None:
    server = HttpServer(ScriptedAgent(echo).main)
    server.refusals, server.answer_to_initialize = refusals, headers
    async with server.running():
        with pytest.raises((StartError, RequestFailed), match=says):
            await runtime_at(server.url).start()


async def test_a_session_that_the_server_does_not_know_yet_is_loaded_without_naming_it_in_the_header(
    tmp_path: Path,
) -> None:
    agent = ScriptedAgent(
        echo, capabilities={"loadSession": True}, answers={"session/load": {"sessionId": "session-1", "modes": None}}
    )
    async with http_runtime(agent) as (server, runtime):
        session = await runtime.open_session(config(tmp_path))
        handle = session.snapshot()
    server = HttpServer(agent.main)
    server.knows_only_its_own = True
    async with server.running(), runtime_at(server.url) as runtime:
        session = await runtime.load_session(handle)
        assert (await session.run("again")).text == "You said: again"
    tried = [headers.get("acp-session-id") for name, headers in server.seen if name == "session/load"]
    assert tried == ["session-1", None]


async def test_a_session_whose_stream_is_lost_is_cut_and_not_left_waiting(tmp_path: Path) -> None:
    agent = ScriptedAgent(lambda turn: turn.never())
    async with http_runtime(agent) as (server, runtime):
        session = await runtime.open_session(config(tmp_path))
        run = session.run("go")
        await agent.hears("session/prompt")
        (connection,) = server.connections.values()
        connection.streams["session-1"].queue.put_nowait(None)
        with pytest.raises(AgentCrashed, match="the server ended the event stream"):
            await run
