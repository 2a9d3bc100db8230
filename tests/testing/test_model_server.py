"""The scripted model on a socket."""

from __future__ import annotations

import asyncio
import gzip
import signal
import sys
import zlib
from collections.abc import AsyncIterator

import msgspec
import pytest

from dragoman.errors import InputError
from dragoman.testing.model import SeenRequest, Server, serve

TIMEOUT_S = 20.0


def body(prompt: str, *, stream: bool = True) -> bytes:
    message = {"role": "user", "content": prompt}
    tools = [{"type": "function", "function": {"name": "look"}}]
    return msgspec.json.encode({"model": "m", "messages": [message], "tools": tools, "stream": stream})


def post(content: bytes, *headers: str, path: str = "/v1/chat/completions") -> bytes:
    lines = [f"POST {path} HTTP/1.1", "Host: x", f"Content-Length: {len(content)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + content


class Client:
    """One connection; requests are written by hand, so that their bytes are known."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def head(self) -> tuple[int, dict[str, str]]:
        first, *lines = (await self.reader.readuntil(b"\r\n\r\n")).decode().strip().split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in lines)
        return int(first.split()[1]), headers

    async def chunk(self) -> bytes:
        size = int(await self.reader.readline(), 16)
        return (await self.reader.readexactly(size + 2))[:-2]

    async def answer(self) -> tuple[int, bytes]:
        status, headers = await self.head()
        if "content-length" in headers:
            return status, await self.reader.readexactly(int(headers["content-length"]))
        whole = b""
        while part := await self.chunk():
            whole += part
        return status, whole

    async def close(self) -> None:
        self.writer.close()
        await self.writer.wait_closed()


class Watched:
    """A server, its connections, and what it saw."""

    def __init__(self) -> None:
        self.seen: list[SeenRequest] = []
        self.server: Server
        self._clients: list[Client] = []

    async def client(self) -> Client:
        client = Client(*await asyncio.open_connection(self.server.host, self.server.port))
        self._clients.append(client)
        return client

    async def close(self) -> None:
        for client in self._clients:
            await client.close()


@pytest.fixture
async def model() -> AsyncIterator[Watched]:
    watched = Watched()
    async with asyncio.timeout(TIMEOUT_S), await serve(on_request=watched.seen.append) as watched.server:
        yield watched
        await watched.close()


async def test_one_connection_serves_many_requests(model: Watched) -> None:
    client = await model.client()
    for number in range(3):
        await client.send(post(body(f"[[say:Number {number}.]]", stream=number % 2 == 0)))
        status, answer = await client.answer()
        assert status == 200
        assert b"Number" in answer


async def test_requests_sent_without_waiting_are_answered_in_order(model: Watched) -> None:
    client = await model.client()
    await client.send(post(body("[[say:First.]]")) + post(body("[[say:Second.]]")))
    assert b"First." in (await client.answer())[1]
    assert b"Second." in (await client.answer())[1]


async def test_a_connection_is_closed_where_the_client_asks_for_it(model: Watched) -> None:
    client = await model.client()
    await client.send(post(body("[[say:Bye.]]"), "Connection: close"))
    assert b"Bye." in (await client.answer())[1]
    assert await client.reader.read() == b""


async def test_a_body_may_come_in_chunks(model: Watched) -> None:
    content = body("[[say:In chunks.]]")
    head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    chunks = b"".join(b"%x;ext=1\r\n%b\r\n" % (len(part), part) for part in (content[:10], content[10:]))
    client = await model.client()
    await client.send(head + chunks + b"0\r\nTrailer: x\r\n\r\n")
    assert b"In chunks" in (await client.answer())[1]


@pytest.mark.parametrize(("coding", "pack"), [("gzip", gzip.compress), ("deflate", zlib.compress)])
async def test_a_body_may_be_compressed(model: Watched, coding: str, pack: type[bytes]) -> None:
    client = await model.client()
    await client.send(post(pack(body("[[say:Packed.]]")), f"Content-Encoding: {coding}"))
    assert b"Packed." in (await client.answer())[1]


async def test_a_client_that_waits_to_be_told_to_go_on_is_told(model: Watched) -> None:
    content = body("[[say:Going on.]]")
    client = await model.client()
    await client.send(post(content, "Expect: 100-continue").removesuffix(content))
    assert (await client.head())[0] == 100
    await client.send(content)
    assert b"Going on." in (await client.answer())[1]


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"hello\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: x\r\nno colon\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: many\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n", 413),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Encoding: br\r\n\r\nx", 415),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Encoding: gzip\r\n\r\nx", 400),
        (b"GET / HTTP/1.1\r\nX: " + b"x" * 100_000, 400),
    ],
)
async def test_what_is_no_http_is_answered_and_ends_the_connection(
    model: Watched, request_: bytes, status: int
) -> None:
    client = await model.client()
    await client.send(request_)
    assert (await client.head())[0] == status
    assert await client.reader.read(), "the body says what is wrong; then the connection ends"


async def test_a_slow_answer_comes_piece_by_piece(model: Watched) -> None:
    client = await model.client()
    await client.send(post(body("[[say:Now.]][[hang:3600]][[say:Never.]]")))
    assert (await client.head())[0] == 200
    while b"Now." not in await client.chunk():
        pass


async def test_a_client_that_leaves_ends_its_answer(model: Watched) -> None:
    """Without that, the answer would go on for an hour; closing the server would end it, so the task is awaited."""
    client = await model.client()
    await client.send(post(body("[[say:Now.]][[hang:3600]]")))
    await client.head()
    (answer,) = model.server.answers
    await client.close()
    await asyncio.wait([answer])


async def test_closing_the_server_ends_answers_under_way() -> None:
    async with asyncio.timeout(TIMEOUT_S):
        async with await serve() as server:
            client = Client(*await asyncio.open_connection(server.host, server.port))
            await client.send(post(body("[[say:Now.]][[hang:3600]]")))
            await client.head()
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await client.reader.readuntil(b"[DONE]")
        client.writer.close()


async def test_a_dropped_answer_ends_without_its_last_chunk(model: Watched) -> None:
    client = await model.client()
    await client.send(post(body("[[say:Half of.]][[drop]][[say:it]]")))
    await client.head()
    rest = await client.reader.read()
    assert b"Half of." in rest
    assert b"[DONE]" not in rest
    assert not rest.endswith(b"0\r\n\r\n")


async def test_parallel_conversations_do_not_meet(model: Watched) -> None:
    clients = [await model.client() for _ in range(20)]
    for number, client in enumerate(clients):
        await client.send(post(body(f"[[say:Number{number}.]][[slow:3:0.01]]")))
    answers = await asyncio.gather(*(client.answer() for client in clients))
    for number, (_, text) in enumerate(answers):
        assert f"Number{number}.".encode() in text
        assert text.count(b"Number") == 1


async def test_every_request_can_be_watched(model: Watched) -> None:
    client = await model.client()
    sent = body("[[say:Seen.]][[tool:look]]")
    await client.send(post(sent))
    await client.answer()
    assert model.seen == [SeenRequest("POST", "/v1/chat/completions", 200, "m, 1 tool: says 'Seen.', calls look", sent)]


async def test_a_head_request_gets_no_body(model: Watched) -> None:
    client = await model.client()
    await client.send(b"HEAD / HTTP/1.1\r\nHost: x\r\n\r\nGET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n")
    assert (await client.head())[0] == 200
    assert (await client.answer())[0] == 200


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "example.com"])
async def test_it_listens_on_loopback_only(host: str) -> None:
    with pytest.raises(InputError, match="loopback"):
        await serve(host)


async def test_the_program_prints_its_url_and_ends_when_interrupted() -> None:
    async with asyncio.timeout(TIMEOUT_S):
        program = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "dragoman", "model-server", stdout=-1, stderr=-1
        )
        assert program.stdout is not None
        url = (await program.stdout.readline()).decode().strip()
        host, _, port = url.removeprefix("http://").partition(":")
        client = Client(*await asyncio.open_connection(host, int(port)))
        await client.send(post(body("[[say:Hello.]]")))
        assert b"Hello." in (await client.answer())[1]
        await client.close()
        program.send_signal(signal.SIGINT)
        _, stderr = await program.communicate()
        assert program.returncode == 0
        assert b"says 'Hello.'" in stderr


async def test_the_program_refuses_other_addresses() -> None:
    async with asyncio.timeout(TIMEOUT_S):
        program = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "dragoman", "model-server", "--host", "0.0.0.0", stdout=-1, stderr=-1
        )
        _, stderr = await program.communicate()
        assert program.returncode == 2
        assert b"loopback" in stderr
