"""`dragoman mcp`: functions of a module, served over stdio and HTTP to any MCP client."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest
from mcp import ClientSession, StdioServerParameters, stdio_client

from .conftest import TIMEOUT_S, Cli, On

SHOP = '''
import dragoman

print("printed before the first message")
stock = {"apple": 3}


@dragoman.tool
def count(item: str) -> int:
    """How many there are."""
    print("printed where no message may be")
    return stock[item]


def take(item: str) -> str:
    """Take one."""
    stock[item] -= 1
    raise ValueError("it fell")


tools = [count, take]
'''


@pytest.fixture
def shop(cli: Cli) -> Cli:
    (cli.workspace / "shop.py").write_text(SHOP)
    return cli


def parameters(cli: Cli, *arguments: str) -> StdioServerParameters:
    args = ["-m", "dragoman", "mcp", *arguments]
    return StdioServerParameters(command=sys.executable, args=args, env=cli.env, cwd=cli.workspace)


async def test_the_tools_of_a_module_are_served_over_stdio(shop: Cli) -> None:
    async with (
        asyncio.timeout(TIMEOUT_S),
        stdio_client(parameters(shop, "shop.py:tools", "--state", "shop.py:stock")) as (reading, writing),
        ClientSession(reading, writing) as agent,
    ):
        greeting = await agent.initialize()
        assert greeting.server_info.name == "dragoman"
        assert [tool.name for tool in (await agent.list_tools()).tools] == ["count", "take"]
        assert (await agent.call_tool("take", {"item": "apple"})).is_error
        assert (await agent.call_tool("count", {"item": "apple"})).structured_content == {"value": 3}


async def test_a_module_alone_means_its_marked_functions(shop: Cli) -> None:
    async with (
        asyncio.timeout(TIMEOUT_S),
        stdio_client(parameters(shop, "shop", "--name", "shop")) as (reading, writing),
        ClientSession(reading, writing) as agent,
    ):
        assert (await agent.initialize()).server_info.name == "shop"
        assert [tool.name for tool in (await agent.list_tools()).tools] == ["count"]


def test_it_ends_with_its_stdin(shop: Cli) -> None:
    done = shop("mcp", "shop:count", stdin=b"")
    assert (done.code, done.out) == (0, "")


def test_on_a_terminal_it_says_what_it_waits_for_and_can_be_ended(shop: Cli, on_terminal: On) -> None:
    terminal = on_terminal("mcp", "shop:count")
    terminal.until(b"Waiting for an MCP client on stdin; Ctrl-C ends it.")
    terminal.process.send_signal(signal.SIGINT)
    assert terminal.code() == -signal.SIGINT


@contextmanager
def over_http(cli: Cli, **env: str) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    process = cli.start("mcp", "shop:tools", "--http", "0", env={**cli.env, **env})
    assert process.stdout is not None
    yield process, process.stdout.readline().decode().strip()
    process.send_signal(signal.SIGTERM)
    assert process.wait(TIMEOUT_S) == 0


def ping(url: str, token: str) -> int:
    headers = {"Authorization": f"Bearer {token}", "Accept": "application/json, text/event-stream"}
    body = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    return httpx.post(url, json=body, headers=headers, timeout=TIMEOUT_S, trust_env=False).status_code


def test_over_http_it_prints_its_address_and_a_token_and_ends_on_a_signal(shop: Cli) -> None:
    with over_http(shop) as (process, url):
        assert process.stderr is not None
        assert process.stderr.readline().startswith(b"printed before")
        token = process.stderr.readline().decode().removeprefix("Authorization: Bearer ").strip()
        assert url.startswith("http://127.0.0.1:")
        assert ping(url, token) not in (401, 403)
        assert ping(url, "wrong") == 401


def test_over_http_a_token_from_the_environment_is_not_printed(shop: Cli) -> None:
    with over_http(shop, DRAGOMAN_MCP_TOKEN="given") as (process, url):
        assert ping(url, "given") not in (401, 403)
        assert ping(url, "wrong") == 401
    assert process.stderr is not None
    assert b"given" not in process.stderr.read()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere:tools"], "nowhere cannot be loaded: ModuleNotFoundError"),
        (["shop:missing"], "shop has no 'missing'"),
        (["shop:stock"], "expected a function"),
        (["failing"], "failing cannot be loaded: ZeroDivisionError"),
        (["bare"], "bare defines no tool"),
        (["shop", "shop:count"], "two tools have the name 'count'"),
        (["shop", "--state", "shop:count"], "cannot be restored"),
        (["shop", "--state", "shop"], "'shop' names no object"),
        (["shop", "--state", "shop:missing"], "shop has no 'missing'"),
    ],
)
def test_an_object_that_cannot_be_served_is_reported(shop: Cli, arguments: list[str], message: str) -> None:
    (shop.workspace / "failing.py").write_text("1 / 0\n")
    (shop.workspace / "bare.py").write_text("def lookup() -> None: ...\n")
    done = shop("mcp", *arguments)
    assert done.code == 2
    assert message in done.err
    assert "Traceback" not in done.err
    assert done.out == ""


def test_a_port_that_is_taken_is_reported(shop: Cli) -> None:
    with over_http(shop) as (_, url):
        port = url.rpartition(":")[2].partition("/")[0]
        done = shop("mcp", "shop", "--http", port)
    assert done.code == 2
    assert f"port {port} cannot be opened: Address already in use" in done.err
    assert "Traceback" not in done.err
