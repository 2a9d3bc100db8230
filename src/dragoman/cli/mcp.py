"""`dragoman mcp`: serves Python functions as MCP tools.

Over stdio, stdout belongs to the client, so what functions print goes to stderr. Over HTTP, stdout gets one line, the
address.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import os
import signal
import sys
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from dragoman.cli.exits import BAD_INPUT, DONE
from dragoman.errors import InputError
from dragoman.evaluation.tool import load_tools

if TYPE_CHECKING:
    from dragoman.evaluation.server import ToolServer


TOKEN: Final = "DRAGOMAN_MCP_TOKEN"  # noqa: S105 - the name of the variable

EPILOG = """\b
Examples:
  dragoman mcp shop:tools                  shop.py has: tools = [lookup, order]
  dragoman mcp shop:lookup shop:order --state shop:stock
  dragoman mcp shop --http 8765            all that is marked @dragoman.tool

\b
As a server of an agent that takes MCP servers from a file:
  {"mcpServers": {"shop": {"command": "dragoman", "args": ["mcp", "shop:tools"]}}}

docs/tools.md tells more."""


@click.command("mcp", epilog=EPILOG)
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
    try:
        from dragoman.evaluation.server import ToolServer

        with contextlib.redirect_stdout(sys.stderr):  # what a module prints when it is loaded is no message, either
            functions = [tool for each in tools for tool in load_tools(each, folder=Path.cwd())]
            shared = None if state is None else _named(state)
        token = os.environ.get(TOKEN, "").strip() or None
        server = ToolServer(functions, state=shared, name=name, port=port or 0, token=token)
        return asyncio.run(_over_stdio(server) if port is None else _over_http(server, port, show_token=token is None))
    except InputError as problem:
        click.echo(f"dragoman mcp: {problem}", err=True)
        if problem.guidance:
            click.echo(problem.guidance, err=True)
        return BAD_INPUT


async def _over_stdio(server: ToolServer) -> int:
    # The thread that reads stdin can be ended by nobody else; and what is under way has nobody left to answer to.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if sys.stdin.isatty():
        click.echo(
            "It waits for a program that speaks MCP to it; Ctrl-C ends it. --http PORT serves by HTTP.", err=True
        )
    await server.run_stdio()
    return DONE


async def _over_http(server: ToolServer, port: int, *, show_token: bool) -> int:
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ended.set)
    async with contextlib.AsyncExitStack() as stack:
        try:
            await stack.enter_async_context(server)
        except OSError as problem:
            raise InputError(
                f"port {port} cannot be opened: {problem.strerror}", guidance="Name another one, or 0 for any."
            ) from problem
        click.echo(server.url)
        if show_token:
            click.echo(f"Authorization: Bearer {server.token}", err=True)
        sys.stdout.flush()
        await ended.wait()
    return DONE


def _named(text: str) -> Any:
    """An object of a module that the tools came from, or of another one."""
    where, _, name = text.rpartition(":")
    if not where:
        raise InputError(f"{text!r} names no object", guidance=f"Write {text}:NAME")
    module = Path(where).stem if where.endswith(".py") else where
    try:
        return attrgetter(name)(sys.modules.get(module) or importlib.import_module(module))
    except AttributeError:
        raise InputError(f"{where} has no {name!r}") from None
    except Exception as problem:
        raise InputError(f"{where} cannot be loaded: {type(problem).__name__}: {problem}") from problem
