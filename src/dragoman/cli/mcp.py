"""`dragoman mcp`: the command. What it does is `mcp_serve`'s, which is loaded when there is something to do."""

from __future__ import annotations

import click

EPILOG = """\b
Examples:
  dragoman mcp shop:tools                  shop.py has: tools = [lookup, order]
  dragoman mcp shop:lookup shop:order --state shop:stock
  dragoman mcp shop --http 8765            all that is marked @dragoman.tool

\b
As a server of an agent that takes MCP servers from a file:
  {"mcpServers": {"shop": {"command": "dragoman", "args": ["mcp", "shop:tools"]}}}

docs/tools.md tells more."""


@click.command("mcp", epilog=EPILOG, short_help="Serve Python functions as MCP tools.")
@click.argument("tools", metavar="MODULE[:NAME]...", nargs=-1, required=True)
@click.option("--http", "port", metavar="PORT", type=click.IntRange(0, 65535), help="On loopback, not over stdio.")
@click.option("--state", metavar="MODULE:NAME", help="What a failing call leaves as it was.")
@click.option("--name", default="dragoman", show_default=True, help="What the server calls itself.")
def mcp(tools: tuple[str, ...], port: int | None, state: str | None, name: str) -> int:
    """Serve Python functions as MCP tools, to any program that takes them.

    NAME is a function, or a list of some; without it, all functions of MODULE that are marked as tools. MODULE is
    found as Python finds it, the current folder first. Over HTTP the token is DRAGOMAN_MCP_TOKEN, or else a new one
    that is printed.
    """
    from dragoman.cli.mcp_serve import serve

    return serve(tools, port=port, state=state, name=name)
