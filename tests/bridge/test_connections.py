"""Connections of clients that have shown no token: they are few, they are short, and they keep nobody out."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, cast

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from attempts import Attempts
from bridge.stub_server import StubServer, stub_server
from dragoman.bridge import connections
from dragoman.bridge.connections import (
    ACCEPT_PAUSE_S,
    HANDSHAKE_TIMEOUT_S,
    HEADER_TIMEOUT_S,
    REQUEST_TIMEOUT_S,
    Acceptor,
    max_connections,
)
from dragoman.bridge.tls import generated_certificate, server_context
from dragoman.testing.clock import ManualClock

TIMEOUT_S = 20.0
CONNECTIONS = int(os.environ.get("DRAGOMAN_CONNECTIONS", "40"))
"""Connections that say nothing, at once; `make torture` has more."""

Client = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@asynccontextmanager
async def served(tmp_path: Path, **options: Any) -> AsyncIterator[tuple[StubServer, ManualClock]]:
    clock = ManualClock()
    async with asyncio.timeout(TIMEOUT_S), stub_server(tmp_path / "home", clock=clock, **options) as server:
        yield server, clock


async def opened(server: StubServer, text: str = "") -> Client:
    """A connection on which this was sent."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(text.encode())
    await writer.drain()
    return reader, writer


async def is_closed(client: Client) -> bool:
    """Wait until the server has closed the connection."""
    try:
        while await client[0].read(1000):
            pass
    except ConnectionResetError:
        pass
    client[1].transport.abort()
    return True


async def turns_until(condition: Callable[[], bool]) -> None:
    """Let the event loop turn until the condition holds."""
    while True:
        if condition():
            return
        await asyncio.sleep(0)


@pytest.mark.attempts("slow connections")
async def test_a_request_whose_headers_never_end_is_given_up(tmp_path: Path) -> None:
    async with served(tmp_path) as (server, clock):
        silent = await opened(server)
        half = await opened(server, "GET /v1/health HTTP/1.1\r\nHost: localhost\r\nX-")
        await clock.wait_for_timers(2)
        clock.advance(HEADER_TIMEOUT_S + HANDSHAKE_TIMEOUT_S)
        assert await is_closed(silent)
        assert await is_closed(half)


@pytest.mark.attempts("slow connections")
async def test_a_connection_without_a_token_is_given_up_in_the_middle_of_a_request(tmp_path: Path) -> None:
    async with served(tmp_path) as (server, clock):
        pairing = await opened(server, "POST /v1/pair HTTP/1.1\r\nHost: localhost\r\nContent-Length: 20\r\n\r\n{")
        await turns_until(lambda: clock.delays == [REQUEST_TIMEOUT_S])  # the headers have come
        clock.advance(REQUEST_TIMEOUT_S)
        assert await is_closed(pairing)


async def test_a_connection_with_a_token_has_no_such_limit(tmp_path: Path) -> None:
    async with served(tmp_path) as (server, clock):
        reader, writer = await opened(
            server,
            f"GET /v1/sessions/s1/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {server.token()}\r\n\r\n",
        )
        await reader.readuntil(b"event: snapshot")
        assert clock.delays == []
        server.bridge.run("running")
        await reader.readuntil(b"event: update")
        writer.close()


@pytest.mark.attempts("slow connections")
async def test_the_connection_that_waits_longest_gives_way_to_a_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, attempts: Attempts
) -> None:
    monkeypatch.setattr(connections, "MAX_WAITING_PER_ADDRESS", 4)
    async with served(tmp_path) as (server, _), server.program() as program:
        waiting = [await opened(server, "GET /v1/health HTTP/1.1\r\n") for _ in range(CONNECTIONS)]
        attempts.add(CONNECTIONS)
        assert (await program.get("/v1/sessions")).status_code == 200
        for client in waiting[:-4]:
            assert await is_closed(client)
        async with server.stranger() as stranger:
            assert (await stranger.get("/v1/health")).status_code == 200
        for _, writer in waiting:
            writer.close()


@pytest.mark.attempts("slow connections")
async def test_connections_with_a_token_are_never_closed_for_others(tmp_path: Path) -> None:
    async with served(tmp_path, max_connections=3) as (server, _):
        stream = (
            f"GET /v1/sessions/s1/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {server.token()}\r\n\r\n"
        )
        first: list[Client] = []
        for _ in range(3):
            first.append(await opened(server, stream))
            await first[-1][0].readuntil(b"event: snapshot")
        assert await is_closed(await opened(server, stream))
        for _, writer in first:
            writer.close()


@pytest.mark.attempts("slow connections")
async def test_a_silent_connection_is_given_up_with_tls_as_well(tmp_path: Path) -> None:
    tls = server_context(generated_certificate(tmp_path, ("localhost",)), None)
    async with served(tmp_path, tls=tls) as (server, clock):
        before_handshake = await opened(server)
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        plain = socket.create_connection(("127.0.0.1", server.port), timeout=TIMEOUT_S)
        with await asyncio.to_thread(context.wrap_socket, plain) as after_handshake:
            await turns_until(lambda: clock.delays == [HEADER_TIMEOUT_S, HEADER_TIMEOUT_S + HANDSHAKE_TIMEOUT_S])
            clock.advance(HEADER_TIMEOUT_S + HANDSHAKE_TIMEOUT_S)
            with suppress(ConnectionResetError):
                assert await asyncio.to_thread(after_handshake.recv, 1) == b""
        assert await is_closed(before_handshake)


@pytest.mark.attempts("slow connections")
async def test_without_descriptors_the_server_pauses_and_says_so_once(caplog: pytest.LogCaptureFixture) -> None:
    class Exhausted:
        """A listening socket with a connection that cannot be accepted."""

        def __init__(self) -> None:
            self.reader, self.writer = os.pipe()
            os.write(self.writer, b"x")  # it stays readable
            self.attempts = 0

        def fileno(self) -> int:
            return self.reader

        def accept(self) -> object:
            self.attempts += 1
            raise OSError(errno.EMFILE, "Too many open files")

    listener, clock = Exhausted(), ManualClock()
    acceptor = Acceptor(cast(socket.socket, listener), None, lambda _: asyncio.Protocol(), clock=clock)
    with caplog.at_level(logging.WARNING):
        acceptor.start()
        for attempts in (1, 2):
            await turns_until(lambda attempts=attempts: listener.attempts == attempts)  # type: ignore[misc]
            for _ in range(10):
                await asyncio.sleep(0)
            assert listener.attempts == attempts
            assert clock.delays == [ACCEPT_PAUSE_S]
            clock.advance(ACCEPT_PAUSE_S)
    warnings = [record.getMessage() for record in caplog.records]
    assert warnings == ["no connection can be accepted: Too many open files"] * 2
    acceptor.close()
    assert clock.delays == []
    os.close(listener.reader)
    os.close(listener.writer)


def test_the_limit_of_open_files_is_raised_and_connections_stay_below_it() -> None:
    program = (
        "import resource\n"
        "from dragoman.bridge.connections import max_connections, raise_descriptor_limit\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (256, 700))\n"
        "limit = raise_descriptor_limit()\n"
        "print(limit, resource.getrlimit(resource.RLIMIT_NOFILE)[0], max_connections(limit))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=30)
    assert done.stdout.split() == ["700", "700", "350"]
    assert max_connections(100_000) == connections.MAX_CONNECTIONS


async def test_a_socket_that_is_refused_is_no_error_of_the_server(
    server: StubServer, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        with pytest.raises(InvalidStatus) as refused:
            await connect(f"{server.url.replace('http', 'ws')}/v1/socket", proxy=None)
        assert refused.value.response.status_code == 401
        async with server.program() as program:  # the log of the socket was written before this is answered
            await program.get("/v1/sessions")
    assert caplog.records == []
