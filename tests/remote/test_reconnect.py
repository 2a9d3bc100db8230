"""Connections that break, servers that go away: nothing is lost or doubled, and who waits is told."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import socket as sockets
import sys
from pathlib import Path
from typing import Literal

import pytest

from dragoman import PermissionRequest, events
from dragoman.errors import (
    AgentCrashed,
    ServerUnreachable,
    SessionClosed,
)
from dragoman.record.events import Event
from dragoman.remote.client import Client
from remote.proxy import proxy_to
from remote.real_server import RealServer

TIMEOUT_S = 60.0


def words(received: list[Event]) -> str:
    return "".join(event.text for event in received if isinstance(event, events.AssistantDelta))


@pytest.mark.parametrize("seed", range(3))
async def test_a_connection_that_breaks_at_any_point_loses_and_doubles_nothing(
    seed: int, server: RealServer, folder: Path
) -> None:
    chosen = random.Random(seed)
    expected = "".join(f"chunk {number}\n" for number in range(1, 2001))
    async with asyncio.timeout(TIMEOUT_S), proxy_to(server.port) as wire:
        wire.after = lambda: chosen.randrange(1_000, 700_000)
        async with Client(wire.url, server.token()) as client, client.open_session("demo", cwd=folder) as session:
            for _ in range(3):
                received = [event async for event in session.run("stream 2000")]
                assert words(received) == expected
                kinds = [event.type for event in received]
                assert (kinds[0], kinds[-1]) == ("run.started", "run.completed")
                assert kinds.count("run.started") == kinds.count("assistant.message") == 1
            assert len(session.fold.runs) == 3
            wire.cut()
        assert wire.cuts > 3


@pytest.mark.parametrize("way", ["lost", "heard"])
async def test_a_request_under_way_when_the_connection_broke_is_carried_out_once(
    way: Literal["lost", "heard"], server: RealServer, folder: Path
) -> None:
    async with asyncio.timeout(TIMEOUT_S), proxy_to(server.port) as wire, Client(wire.url, server.token()) as client:
        wire.next_said = way
        session = await client.open_session("demo", cwd=folder)
        for number in range(3):
            wire.next_said = way
            assert (await session.run("hello")).status == "success"
            wire.next_said = way
            await session.set_mode("plan" if number % 2 else "code")
        assert len(session.fold.runs) == 3
        assert len(await client.sessions()) == 1
        assert wire.cuts == 7


async def test_a_question_is_asked_once_however_often_the_connection_breaks(server: RealServer, folder: Path) -> None:
    asked_request: list[str] = []

    async def ask(request: PermissionRequest) -> bool:
        asked_request.append(request.title)
        wire.cut()
        return True

    async with asyncio.timeout(TIMEOUT_S), proxy_to(server.port) as wire, Client(wire.url, server.token()) as client:
        session = await client.open_session("demo", cwd=folder, on_permission=ask)
        received = [event async for event in session.run("permission")]
    assert len(asked_request) == 1
    resolved = [event for event in received if isinstance(event, events.PermissionResolved)]
    assert [event.option_kind for event in resolved] == ["allow_once"]


async def test_a_client_that_has_waited_long_enough_says_so(server: RealServer, folder: Path) -> None:
    token = server.token()
    async with (
        asyncio.timeout(TIMEOUT_S),
        proxy_to(server.port) as wire,
        Client(wire.url, token, patience=0.2) as client,
    ):
        session = await client.open_session("demo", cwd=folder)
        run, queued = session.run("slow 1000"), session.run("hello")
        async for event in run:
            if isinstance(event, events.AssistantDelta):
                wire.open = False
                wire.cut()
                break
        for one in (run, queued):
            with pytest.raises(ServerUnreachable, match="could not be restored"):
                await one
        assert session.status() == "error"
        with pytest.raises(ServerUnreachable):
            session.run("hello")
        with pytest.raises(ServerUnreachable):
            await client.sessions()


async def test_a_server_that_ends_and_comes_back_has_ended_what_ran(server: RealServer, folder: Path) -> None:
    async with asyncio.timeout(TIMEOUT_S), server.client() as client:
        session = await client.open_session("demo", cwd=folder)
        await session.run("hello")
        run = session.run("slow 1000")
        async for event in run:
            if isinstance(event, events.AssistantDelta):
                break
        await server.stop()
        await server.start()
        result = await run
        assert result.status == "cancelled"
        assert result.text
        assert session.status() == "error"
        with pytest.raises(SessionClosed, match="not open"):
            session.run("hello")
        await session.restart(reload=True)
        assert session.status() == "idle"
        assert (await session.run("hello")).status == "success"
        assert len(session.fold.runs) == 3


async def test_a_server_that_was_killed_leaves_its_runs_interrupted(home: Path, folder: Path) -> None:
    with sockets.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    token = RealServer(home).token()

    async def serve() -> asyncio.subprocess.Process:
        command = (sys.executable, "-m", "dragoman", "serve", "--no-open", "--port", str(port))
        process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
        assert process.stdout is not None
        while b"Dragoman is running at" not in await process.stdout.readline():
            pass
        return process

    process = await serve()
    try:
        async with asyncio.timeout(TIMEOUT_S), Client(f"http://127.0.0.1:{port}", token) as client:
            session = await client.open_session("demo", cwd=folder)
            run = session.run("slow 1000")
            async for event in run:
                if isinstance(event, events.AssistantDelta):
                    break
            os.kill(process.pid, signal.SIGKILL)
            await process.wait()
            process = await serve()
            with pytest.raises(AgentCrashed, match="ended before it did") as failure:
                await run
            assert failure.value.result.text
            await session.restart(reload=True)
            assert (await session.run("hello")).status == "success"
    finally:
        process.terminate()
        await process.wait()
