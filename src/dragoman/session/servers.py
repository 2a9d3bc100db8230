"""MCP servers as the protocol wants them said: each kind with all of its fields."""

from __future__ import annotations

from dragoman.errors import InputError
from dragoman.wire import vocabulary as acp


def exact(server: acp.McpServer) -> acp.McpServer:
    """The server as one of its kind: what is required of that kind is then sent, also where it is empty."""
    if not isinstance(server, acp.McpServer):
        raise InputError(f"an MCP server is an McpServerStdio, McpServerHttp or McpServerSse, not {server!r}")
    if type(server) is not acp.McpServer:
        return server
    name, meta = server.name, server.meta
    match server.type, server.command, server.url:
        case "http", _, str(url):
            return acp.McpServerHttp(name=name, url=url, headers=server.headers, meta=meta)
        case "sse", _, str(url):
            return acp.McpServerSse(name=name, url=url, headers=server.headers, meta=meta)
        case None, str(command), _:
            return acp.McpServerStdio(name=name, command=command, args=server.args, env=server.env, meta=meta)
        case kind, _, _:
            raise InputError(
                f"the MCP server {name!r} (type {kind!r}) has neither a command, nor a type and a url",
                guidance="Give a command for stdio; or the type 'http' or 'sse', and a url.",
            )
