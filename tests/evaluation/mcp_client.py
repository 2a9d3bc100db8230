"""The official MCP client, joined to a tool server over HTTP or through the shim."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client

from dragoman.evaluation.server import ToolServer
from dragoman.wire.vocabulary import McpServerHttp, McpServerStdio

WAYS: Final = ("http", "stdio", "http, no handshake", "stdio, no handshake")
"""What agents speak today begins with `initialize`; since its version 2026-07-28 the protocol does without."""


@asynccontextmanager
async def joined(server: ToolServer, way: str) -> AsyncIterator[Client]:
    """An agent's hold on the server."""
    transport, _, newest = way.partition(", ")
    mode = "auto" if newest else "legacy"
    entry = server.for_agent(http=transport == "http")
    match entry:
        case McpServerHttp(url=url, headers=headers):
            async with (
                create_mcp_http_client(headers={header.name: header.value for header in headers}) as http,
                Client(streamable_http_client(url, http_client=http), mode=mode) as client,
            ):
                yield client
        case McpServerStdio(command=command, args=args, env=env):
            variables = {variable.name: variable.value for variable in env}
            parameters = StdioServerParameters(command=command, args=list(args), env=variables)
            async with Client(parameters, mode=mode) as client:
                yield client
        case _:
            raise AssertionError(entry)


def text_of(result: object) -> str:
    """The text that a call of a tool was answered with."""
    return "\n".join(block.text for block in getattr(result, "content", ()) if block.type == "text")
