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

from dragoman.cli.command import sync_command
from dragoman.cli.exits import DONE
from dragoman.cli.options import Number
from dragoman.errors import InputError
from dragoman.evaluation.tool import load_tools

if TYPE_CHECKING:
    from dragoman.evaluation.server import ToolServer


TOKEN_VARIABLE: Final = "DRAGOMAN_MCP_TOKEN"  # noqa: S105 - the name of the variable

EPILOG = """\b
Examples:
  dragoman mcp shop:tools                  shop.py has: tools = [lookup, order]
  dragoman mcp shop:lookup shop:order --state shop:stock
  dragoman mcp shop --http 8765            all functions marked @dragoman.tool

\b
As a server of an agent that takes MCP servers from a file:
  {"mcpServers": {"shop": {"command": "dragoman", "args": ["mcp", "shop:tools"]}}}

See docs/tools.md."""


@click.command("mcp", epilog=EPILOG)
@click.argument("tools", metavar="MODULE[:NAME]...", nargs=-1, required=True)
@click.option(
    "--http",
    "port",
    metavar="PORT",
    type=Number(0, 65535),
    help="Serve over HTTP on loopback instead of stdio.",
)
@click.option("--state", metavar="MODULE:NAME", help="State that is restored when a call fails.")
@click.option("--name", metavar="NAME", default="dragoman", show_default=True, help="The server's name.")
@sync_command
def mcp(tools: tuple[str, ...], port: int | None, state: str | None, name: str) -> int:
    """Serve Python functions as MCP tools.

    NAME is a function or a list of functions; without it, all functions of MODULE that are marked as tools are served.
    MODULE is imported from the current folder first. Over HTTP the token is DRAGOMAN_MCP_TOKEN, or a new one that is
    printed.
    """
    from dragoman.evaluation.server import ToolServer

    with contextlib.redirect_stdout(sys.stderr):  # a module may print when it is loaded
        functions = [tool for each in tools for tool in load_tools(each, folder=Path.cwd())]
        state_object = None if state is None else _load_object(state)
    token = os.environ.get(TOKEN_VARIABLE, "").strip() or None
    server = ToolServer(functions, state=state_object, name=name, port=port or 0, token=token)
    return asyncio.run(_over_stdio(server) if port is None else _over_http(server, port, show_token=token is None))


async def _over_stdio(server: ToolServer) -> int:
    # Only the signal can end the thread that reads stdin; there is no client left to answer.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if sys.stdin.isatty():
        click.echo("Waiting for an MCP client on stdin; Ctrl-C ends it. To serve over HTTP: --http PORT", err=True)
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
        except OSError as error:
            raise InputError(
                f"port {port} cannot be opened: {error.strerror}",
                guidance="Choose another one, or 0 for any free port.",
            ) from error
        click.echo(server.url)
        if show_token:
            click.echo(f"Authorization: Bearer {server.token}", err=True)
        sys.stdout.flush()
        await ended.wait()
    return DONE


def _load_object(text: str) -> Any:
    """Load an object by `MODULE:NAME`."""
    where, _, name = text.rpartition(":")
    if not where:
        raise InputError(f"{text!r} names no object", guidance=f"Write {text}:NAME")
    module = Path(where).stem if where.endswith(".py") else where
    try:
        return attrgetter(name)(sys.modules.get(module) or importlib.import_module(module))
    except AttributeError:
        raise InputError(f"{where} has no {name!r}") from None
    except Exception as error:
        raise InputError(f"{where} cannot be loaded: {type(error).__name__}: {error}") from error
