"""The shim: a program that joins an agent's stdio to the server, and ends with either of them."""

from __future__ import annotations

import ast
import asyncio
import gc
import json
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from dragoman.evaluation._shim_main import GREETING, TOKEN
from dragoman.evaluation.server import ToolServer
from dragoman.evaluation.tool_ports import MAX_LINE_BYTES, PROGRAM
from dragoman.evaluation.toolbox import Call
from dragoman.testing.leaks import nothing_left
from dragoman.wire.vocabulary import McpServerStdio

TIMEOUT_S = 30.0

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "an agent", "version": "1"},
    },
}
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}
LIST = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}


@pytest.fixture(autouse=True)
async def bounded() -> AsyncIterator[None]:
    async with asyncio.timeout(TIMEOUT_S):
        yield


def lookup(sku: str) -> str:
    return sku


def shim_entry(server: ToolServer) -> McpServerStdio:
    entry = server.for_agent(http=False)
    assert isinstance(entry, McpServerStdio)
    return entry


async def start(entry: McpServerStdio, **env: str) -> asyncio.subprocess.Process:
    pipe = asyncio.subprocess.PIPE
    given = {variable.name: variable.value for variable in entry.env} | env
    return await asyncio.create_subprocess_exec(
        entry.command, *entry.args, env=given, stdin=pipe, stdout=pipe, stderr=pipe
    )


@asynccontextmanager
async def shim(server: ToolServer, **env: str) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await start(shim_entry(server), **env)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def say(process: asyncio.subprocess.Process, *messages: object) -> None:
    assert process.stdin is not None
    process.stdin.write(b"".join(json.dumps(message).encode() + b"\n" for message in messages))
    await process.stdin.drain()


async def hear(process: asyncio.subprocess.Process) -> dict[str, object]:
    assert process.stdout is not None
    heard: dict[str, object] = json.loads(await process.stdout.readline())
    return heard


async def test_messages_of_an_agent_over_stdio_reach_the_server_in_this_process() -> None:
    async with nothing_left(), ToolServer([lookup]) as server, shim(server) as process:
        await say(process, INITIALIZE)
        assert (await hear(process))["id"] == 1
        await say(process, INITIALIZED)
        await say(process, {**LIST, "method": "tools/call", "params": {"name": "lookup", "arguments": {"sku": "ä"}}})
        assert (await hear(process))["id"] == 2
        assert [call.arguments for call in server.calls] == [{"sku": "ä"}]


@pytest.mark.attempts("tool server")
async def test_the_token_is_in_the_environment_and_nowhere_in_the_arguments() -> None:
    async with ToolServer([lookup]) as server:
        entry = shim_entry(server)
        assert [(variable.name, variable.value) for variable in entry.env] == [(TOKEN, server.token)]
        assert not any(server.token in word for word in (entry.command, *entry.args))


async def test_it_ends_when_the_agent_closes_its_stdin() -> None:
    async with ToolServer([lookup]) as server, shim(server) as process:
        await say(process, INITIALIZE)
        await hear(process)
        assert process.stdin is not None
        process.stdin.close()
        assert await process.wait() == 0


async def test_answers_under_way_reach_an_agent_that_says_no_more() -> None:
    async with ToolServer([lookup]) as server, shim(server) as process:
        out, _ = await process.communicate(json.dumps(INITIALIZE).encode() + b"\n")
        assert json.loads(out)["id"] == 1


async def test_it_ends_with_an_agent_that_is_killed() -> None:
    async with ToolServer([lookup]) as server:
        entry, first = shim_entry(server), json.dumps(INITIALIZE).encode() + b"\n"
        # An agent that starts it as agents do, and says when it is joined.
        agent = (
            "import subprocess, sys\n"
            "shim = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)\n"
            f"shim.stdin.write({first!r})\n"
            "shim.stdin.flush()\n"
            "shim.stdout.readline()\n"
            "print(shim.pid, flush=True)\n"
            "shim.wait()\n"
        )
        reading, writing = os.pipe()
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            agent,
            entry.command,
            *entry.args,
            env={variable.name: variable.value for variable in entry.env},
            stdout=asyncio.subprocess.PIPE,
            stderr=writing,  # held open by the agent and its shim, and by nobody else
        )
        os.close(writing)
        assert process.stdout is not None
        assert int(await process.stdout.readline())
        process.send_signal(signal.SIGKILL)
        await process.wait()
        with os.fdopen(reading, "rb") as pipe:
            assert await asyncio.to_thread(pipe.read) == b""


async def test_it_ends_when_the_server_is_closed() -> None:
    server = ToolServer([lookup])
    async with server, shim(server) as process:
        await say(process, INITIALIZE)
        await hear(process)
        await server.close()
        assert await process.wait() == 0


@pytest.mark.attempts("tool server")
async def test_a_shim_with_a_wrong_token_is_disconnected_unread() -> None:
    async with ToolServer([lookup]) as server, shim(server, **{TOKEN: "wrong"}) as process:
        out, _ = await process.communicate(json.dumps(INITIALIZE).encode() + b"\n")
        assert out == b""
        assert process.returncode == 0


async def test_a_shim_whose_server_is_gone_says_so() -> None:
    async with ToolServer([lookup]) as server:
        entry = shim_entry(server)
    process = await start(entry)
    _, err = await process.communicate()
    assert process.returncode == 1
    assert b"tool server of Dragoman cannot be reached" in err
    assert b"Traceback" not in err


@pytest.mark.attempts("tool server")
@pytest.mark.parametrize(
    "greeting",
    [
        b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"\n",
        GREETING + b"\n",
        GREETING + b"wrong\n" + json.dumps(LIST).encode() + b"\n",
        b"x" * 70_000,
    ],
)
async def test_a_connection_that_does_not_begin_with_the_token_gets_nothing(greeting: bytes) -> None:
    async with ToolServer([lookup]) as server:
        port = int(shim_entry(server).args[-1])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(greeting)
        writer.write_eof()
        try:
            assert await reader.read() == b""
        except ConnectionError:
            pass  # it was closed with our words unread
        writer.close()


@pytest.mark.attempts("tool server")
async def test_a_line_over_the_limit_ends_that_shim_and_no_other(caplog: pytest.LogCaptureFixture) -> None:
    async with ToolServer([lookup]) as server, shim(server) as flooding, shim(server) as good:
        assert flooding.stdin is not None
        flooding.stdin.write(b"x" * (MAX_LINE_BYTES + 2))
        assert await flooding.wait() == 0
        await say(good, INITIALIZE)
        assert (await hear(good))["id"] == 1
    gc.collect()  # an exception that nobody took would be logged
    assert [record for record in caplog.records if record.levelname in ("ERROR", "CRITICAL")] == []


@pytest.mark.attempts("tool server")
async def test_a_shim_that_reads_nothing_holds_up_no_end() -> None:
    called = asyncio.Event()

    def hear(call: Call) -> None:
        if call.finished:
            called.set()

    def large() -> str:
        return "x" * 4_000_000  # more than the system takes for a program that does not read

    call = {**LIST, "method": "tools/call", "params": {"name": "large", "arguments": {}}}
    first = b"".join(json.dumps(message).encode() + b"\n" for message in (INITIALIZE, INITIALIZED, call))
    loop = asyncio.get_running_loop()
    with socket.socket() as deaf:
        deaf.setblocking(False)
        async with nothing_left(), ToolServer([large], on_call=hear) as server:
            await loop.sock_connect(deaf, ("127.0.0.1", int(shim_entry(server).args[-1])))
            await loop.sock_sendall(deaf, GREETING + server.token.encode() + b"\n" + first)
            await called.wait()


@pytest.mark.attempts("tool server")
async def test_noise_is_answered_and_ends_nothing() -> None:
    async with ToolServer([lookup]) as server, shim(server) as process:
        assert process.stdin is not None
        process.stdin.write(b"not json\n[]\n")
        await say(process, INITIALIZE)
        while (await hear(process)).get("id") != 1:
            pass


@pytest.mark.attempts("tool server")
async def test_it_listens_on_loopback_alone() -> None:
    async with ToolServer([lookup]) as server:
        ports = [int(shim_entry(server).args[-1]), int(server.url.rpartition(":")[2].partition("/")[0])]
        for port in ports:
            with socket.socket() as other:
                assert other.connect_ex(("127.0.0.2", port)) != 0


def test_its_program_needs_nothing_but_the_standard_library() -> None:
    tree = ast.parse(Path(PROGRAM).read_text())
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add((node.module or ".").partition(".")[0])
    assert names <= sys.stdlib_module_names
