"""The HTTP shell on its own: many streams are one, backpressure holds, the end comes and has a reason."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec

from dragoman.testing.scripted import ScriptedAgent, Turn
from dragoman.wire.http import HttpTransport, connect_http
from session.servers import Connected, HttpServer, settled

TIMEOUT_S = 20.0


class Client:
    """A transport with an open session on it, and no more of a client than it takes to see what it does."""

    def __init__(self, server: HttpServer, transport: HttpTransport) -> None:
        self.server = server
        self.transport = transport
        self._unread = b""

    @property
    def connection(self) -> Connected:
        (connection,) = self.server.connections.values()
        return connection

    def say(self, number: int, method: str, **params: object) -> None:
        line = msgspec.json.encode({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        self.transport.write(line + b"\n")

    async def hear(self) -> dict[str, object] | None:
        """The next message; None at the end."""
        while b"\n" not in self._unread:
            data = await self.transport.read()
            if not data:
                return None
            self._unread += data
        line, _, self._unread = self._unread.partition(b"\n")
        return dict(msgspec.json.decode(line))


@asynccontextmanager
async def client_of(agent: ScriptedAgent) -> AsyncIterator[Client]:
    complaints: list[str] = []
    async with asyncio.timeout(TIMEOUT_S), HttpServer(agent.main).running() as server:
        transport = await connect_http(server.url, on_diagnostic=complaints.append)
        client = Client(server, transport)
        try:
            client.say(0, "initialize", protocolVersion=1)
            assert (await client.hear() or {})["id"] == 0
            client.say(1, "session/new", cwd="/", mcpServers=[])
            assert (await client.hear() or {})["id"] == 1
            yield client
        finally:
            await transport.end(0.1)
    assert complaints == []


async def test_a_server_is_not_read_ahead_of_its_reader() -> None:
    text = "x" * 64_000

    async def flood(turn: Turn) -> None:
        for _ in range(1000):
            await turn.say(text)

    async with client_of(ScriptedAgent(flood)) as client:
        client.say(2, "session/prompt", sessionId="session-1", prompt=[])
        sent = await settled(lambda: client.server.events_sent)
        # 64 kB each: the buffers of two sockets and the inbox, not all of what was said.
        assert 0 < sent < 400
        read = 0
        while (message := await client.hear()) is not None and "method" in message:
            read += 1
        assert read == 1000


async def test_updates_of_a_session_are_read_when_the_stream_of_the_connection_ends_first() -> None:
    async with client_of(ScriptedAgent()) as client:
        streams = client.connection.streams
        streams[None].queue.put_nowait(None)
        streams["session-1"].queue.put_nowait(b'{"last": "words"}')
        streams["session-1"].queue.put_nowait(None)
        assert await client.hear() == {"last": "words"}
        assert await client.hear() is None
        assert client.transport.end_reason == "the server ended the event stream"
        client.say(3, "session/prompt", sessionId="session-1", prompt=[])
        await client.transport.drain()


async def test_the_end_does_not_wait_for_a_server_that_keeps_its_streams_open() -> None:
    async with client_of(ScriptedAgent()) as client:
        client.server.refusals["DELETE"] = 500
        await client.transport.end(0.05)
        assert await client.hear() is None


async def test_messages_are_posted_one_after_the_other_in_order() -> None:
    async with client_of(ScriptedAgent()) as client:
        for number in range(100):
            client.say(number + 2, f"x/{number}")
        for number in range(100):
            assert (await client.hear() or {})["id"] == number + 2
        posted = [name for name, _ in client.server.seen if name.startswith("x/")]
        assert posted == [f"x/{number}" for number in range(100)]
