"""Connecting to a server: addresses, tokens, certificates, and sessions that a client opens."""

from __future__ import annotations

import asyncio
import socket as sockets
from pathlib import Path
from typing import Any

import pytest

from dragoman import events
from dragoman.bridge.tls import fingerprint, generated_certificate, server_context
from dragoman.errors import DragomanError, InputError, ServerRefused, ServerUnreachable, SessionClosed
from dragoman.protocol import requests
from dragoman.remote.client import Client
from dragoman.session import ports
from remote.real_server import RealServer, real_server

TIMEOUT_S = 30.0


async def test_a_wrong_token_is_a_clear_error(server: RealServer) -> None:
    client = Client(server.url, "dgm_not_a_token")
    with pytest.raises(ServerRefused, match="does not know this token") as refused:
        await client.start()
    assert refused.value.kind == "unauthorized"
    await client.close()


async def test_a_token_that_may_only_look_cannot_drive(server: RealServer, folder: Path) -> None:
    async with asyncio.timeout(TIMEOUT_S), server.client("view") as client:
        with pytest.raises(ServerRefused, match="scope prompt"):
            await client.open_session("demo", cwd=folder)


@pytest.mark.parametrize("url", ["127.0.0.1:8377", "ftp://127.0.0.1", "http://user:secret@127.0.0.1:1", "", "http://"])
def test_an_invalid_address_is_a_clear_error(url: str) -> None:
    with pytest.raises(InputError, match=r"URL|address") as problem:
        Client(url, "dgm_token")
    assert "secret" not in str(problem.value)


@pytest.mark.parametrize("token", ["", "  ", "two\nlines"])
def test_a_token_that_cannot_be_one_is_a_clear_error(token: str) -> None:
    with pytest.raises(InputError):
        Client("http://127.0.0.1:1", token)


async def test_a_server_that_is_not_there_is_a_clear_error() -> None:
    with sockets.socket() as free:
        free.bind(("127.0.0.1", 0))
        client = Client(f"http://127.0.0.1:{free.getsockname()[1]}", "dgm_token")
        with pytest.raises(ServerUnreachable, match="cannot connect"):
            await client.sessions()
    await client.close()


async def test_a_server_that_is_not_dragoman_is_a_clear_error() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 404 Not Found\r\ncontent-length: 2\r\n\r\nno")
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as other:
        client = Client(f"http://127.0.0.1:{other.sockets[0].getsockname()[1]}", "dgm_token")
        with pytest.raises(ServerUnreachable, match="HTTP 404"):
            await client.start()
        await client.close()


async def test_an_option_that_does_not_work_remotely_is_an_error(client: Client, folder: Path) -> None:
    given: dict[str, Any] = {"env": {"A": "b"}, "mcp_servers": ["one"], "rules": ["one"], "limits": 1}
    for name, value in given.items():
        with pytest.raises(InputError, match=f"{name} is not available for a session on a server"):
            client.open_session("demo", cwd=folder, **{name: value})
    with pytest.raises(InputError, match="have names"):
        client.open_session(["my-agent", "--acp"], cwd=folder)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="no_such_thing"):
        client.open_session("demo", cwd=folder, no_such_thing=1)  # type: ignore[call-arg]


async def test_a_folder_that_the_server_has_not_is_a_clear_error(client: Client, folder: Path) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        with pytest.raises(InputError, match="not a folder on this machine"):
            await client.open_session("demo", cwd=folder / "not there")


async def test_an_agent_that_the_server_has_not_is_a_clear_error(client: Client, folder: Path) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        with pytest.raises(DragomanError, match="no-such-agent"):
            await client.open_session("no-such-agent", cwd=folder)


async def test_a_session_that_is_not_there_is_a_clear_error(client: Client) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        with pytest.raises(ServerRefused, match="there is no session") as refused:
            await client.session("0123456789ab")
        assert refused.value.kind == "not_found"
        with pytest.raises(ServerRefused, match="there is no session"):
            await client.resume("0123456789ab")


async def test_a_session_that_someone_deletes_is_over(server: RealServer, client: Client, folder: Path) -> None:
    async with asyncio.timeout(TIMEOUT_S), server.client("admin") as other:
        session = await client.open_session("demo", cwd=folder)
        run = session.run("slow 1000")
        async for event in run:
            if isinstance(event, events.AssistantDelta):
                break
        await other._connection.call(requests.SessionDelete(session_id=session.id))
        assert (await run).status == "cancelled"
        with pytest.raises((ServerRefused, SessionClosed)):
            await session.run("hello")


async def test_closing_twice_and_late_is_fine(server: RealServer, folder: Path) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        client = server.client()
        session = await client.open_session("demo", cwd=folder)
        await client.close()
        await client.close()
        await session.close()
        with pytest.raises(SessionClosed):
            session.run("hello")
        with pytest.raises(SessionClosed):
            await client.sessions()


async def test_a_client_has_a_session_only_once(client: Client, folder: Path) -> None:
    agents: ports.AgentClient = client  # a type checker looks at this
    async with asyncio.timeout(TIMEOUT_S), client.open_session("demo", cwd=folder) as session:
        with pytest.raises(InputError, match=r"already has session \w+"):
            await client.session(session.id)
        with pytest.raises(InputError, match=r"already has session \w+"):
            await agents.resume(session.snapshot())
        assert (await session.run("hello")).status == "success"


async def test_a_certificate_of_the_servers_own_is_trusted_by_its_fingerprint(home: Path, folder: Path) -> None:
    certificate = generated_certificate(home, ["desk.local"])
    async with asyncio.timeout(TIMEOUT_S), real_server(home, server_context(certificate, None)) as server:
        async with server.client(fingerprint=fingerprint(certificate)) as client:
            assert not await client.sessions()
        stranger = server.client()
        with pytest.raises(InputError, match="is not trusted"):
            await stranger.start()
        await stranger.close()
        misled = server.client(fingerprint=":".join(["AB"] * 32))
        with pytest.raises(InputError, match="does not have the given fingerprint"):
            await misled.start()
        await misled.close()


@pytest.mark.parametrize(("url", "given"), [("http://127.0.0.1:1", "AB:" * 31 + "AB"), ("https://127.0.0.1:1", "AB")])
def test_an_invalid_fingerprint_is_a_clear_error(url: str, given: str) -> None:
    with pytest.raises(InputError, match="fingerprint is"):
        Client(url, "dgm_token", fingerprint=given)
