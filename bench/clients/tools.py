"""Seconds for two hundred calls of a tool: `tools TRANSPORT WHAT`; TRANSPORT is `http` or `stdio`, WHAT is `bare`,
`async`, `plain` or `state`. `serve TRANSPORT` is the bare server itself.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import mcp_types
from mcp import ClientSession, StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.server import Server
from mcp.server.stdio import stdio_server
from mcp.shared._httpx_utils import create_mcp_http_client

# A second or so: enough that one slow answer does not count.
CALLS = 200

# As large as a small program's data.
STATE = {f"item {number}": {"stock": number, "tags": ["a", "b"]} for number in range(100)}


async def find(sku: str) -> dict[str, int]:
    """Find an item."""
    return {"stock": len(sku)}


def find_plainly(sku: str) -> dict[str, int]:
    """Find an item."""
    return {"stock": len(sku)}


async def measure(transport: str, what: str) -> None:
    async with _served(transport, what) as session:
        await session.initialize()
        name = (await session.list_tools()).tools[0].name
        for _ in range(CALLS // 10):
            await session.call_tool(name, {"sku": "A-1"})
        started = time.perf_counter()
        results = [await session.call_tool(name, {"sku": "A-1"}) for _ in range(CALLS)]
        seconds = time.perf_counter() - started
        assert all(result.structured_content == {"stock": 3} for result in results)
    print(json.dumps({"seconds": seconds}))


@asynccontextmanager
async def _served(transport: str, what: str) -> AsyncIterator[ClientSession]:
    if what == "bare":
        async with _bare(transport) as session:
            yield session
        return
    command = [sys.executable, __file__, "ours", transport, what]
    # Nothing else runs in this loop yet.
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:  # noqa: ASYNC220
        assert process.stdin is not None
        assert process.stdout is not None
        connection = json.loads(process.stdout.readline())
        try:
            joining = (
                _over_http(connection["url"], connection["headers"])
                if transport == "http"
                else _over_stdio(**connection)
            )
            async with joining as session:
                yield session
        finally:
            process.stdin.close()


@asynccontextmanager
async def _bare(transport: str) -> AsyncIterator[ClientSession]:
    if transport == "stdio":
        async with _over_stdio(sys.executable, [__file__, "serve", "stdio"], {}) as session:
            yield session
        return
    command = [sys.executable, __file__, "serve", "http"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:  # noqa: ASYNC220
        assert process.stdout is not None
        try:
            async with _over_http(process.stdout.readline().decode().strip(), {}) as session:
                yield session
        finally:
            process.terminate()


@asynccontextmanager
async def _over_http(url: str, headers: dict[str, str]) -> AsyncIterator[ClientSession]:
    async with (
        create_mcp_http_client(headers=headers) as client,
        streamable_http_client(url, http_client=client) as (reading, writing, *_),
        ClientSession(reading, writing) as session,
    ):
        yield session


@asynccontextmanager
async def _over_stdio(command: str, args: list[str], env: dict[str, str]) -> AsyncIterator[ClientSession]:
    parameters = StdioServerParameters(command=command, args=args, env={**os.environ, **env})
    async with stdio_client(parameters) as (reading, writing), ClientSession(reading, writing) as session:
        yield session


async def ours(transport: str, what: str) -> None:
    """Run our server until stdin ends, in a process of its own like the bare one."""
    from dragoman.evaluation.server import ToolServer
    from dragoman.wire.vocabulary import McpServerHttp, McpServerStdio

    function = find_plainly if what == "plain" else find
    async with ToolServer([function], state=STATE if what == "state" else None) as server:
        match server.for_agent(http=transport == "http"):
            case McpServerHttp(url=url, headers=headers):
                connection: dict[str, Any] = {"url": url, "headers": {each.name: each.value for each in headers}}
            case McpServerStdio(command=command, args=args, env=env):
                connection = {"command": command, "args": args, "env": {each.name: each.value for each in env}}
            case other:
                raise AssertionError(other)
        print(json.dumps(connection), flush=True)
        await asyncio.to_thread(sys.stdin.read)


async def serve(transport: str) -> None:
    """Run the bare server."""
    tool = mcp_types.Tool(name="find", input_schema={"type": "object", "properties": {"sku": {"type": "string"}}})

    async def list_tools(_: Any, __: Any) -> mcp_types.ListToolsResult:
        return mcp_types.ListToolsResult(tools=[tool])

    async def call_tool(_: Any, __: Any) -> mcp_types.CallToolResult:
        text = mcp_types.TextContent(text='{"stock":3}')
        return mcp_types.CallToolResult(content=[text], structured_content={"stock": 3})

    server: Server[Any] = Server("bare", on_list_tools=list_tools, on_call_tool=call_tool)
    if transport == "stdio":
        async with stdio_server() as (reading, writing):
            await server.run(reading, writing, server.create_initialization_options())
        return
    import uvicorn

    # Its own socket, as its own server would open it; only so is the port known before it answers.
    config = uvicorn.Config(server.streamable_http_app(), host="127.0.0.1", port=0, log_level="error")
    sock = config.bind_socket()
    print(f"http://127.0.0.1:{sock.getsockname()[1]}/mcp", flush=True)
    await uvicorn.Server(config).serve(sockets=[sock])


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["serve", transport]:
            asyncio.run(serve(transport))
        case ["ours", transport, what]:
            asyncio.run(ours(transport, what))
        case [transport, what]:
            asyncio.run(measure(transport, what))
        case _:
            sys.exit(__doc__)
