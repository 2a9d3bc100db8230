"""The tool server: the official client calls tools over HTTP and through the shim, and nothing is left behind."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import gc
import socket
import threading
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from dragoman import ImageAttachment
from dragoman.errors import InputError
from dragoman.evaluation.server import ToolServer
from dragoman.evaluation.tool import ToolContext, ToolError, tool
from dragoman.evaluation.toolbox import Call
from dragoman.testing.leaks import nothing_left

from .mcp_client import WAYS, joined, text_of

TIMEOUT_S = 30.0

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)

every_way = pytest.mark.parametrize("way", WAYS)


@dataclass
class Item:
    sku: str
    stock: int = 0


@dataclass
class Shelf:
    items: list[Item] = field(default_factory=list)


@pytest.fixture(autouse=True)
async def bounded() -> AsyncIterator[None]:
    async with asyncio.timeout(TIMEOUT_S):
        yield


@tool
def lookup(sku: str) -> Item:
    """Find an item in the catalogue."""
    return Item(sku, 3)


@every_way
async def test_a_function_is_listed_with_its_schemas_and_its_docstring(way: str) -> None:
    async with ToolServer([lookup]) as server, joined(server, way) as agent:
        [listed_tool] = (await agent.list_tools()).tools
    assert (listed_tool.name, listed_tool.description) == ("lookup", "Find an item in the catalogue.")
    assert listed_tool.input_schema["properties"] == {"sku": {"type": "string"}}
    assert listed_tool.input_schema["required"] == ["sku"]
    assert listed_tool.output_schema is not None
    assert set(listed_tool.output_schema["properties"]) == {"sku", "stock"}


@every_way
async def test_a_call_returns_the_value_as_structure_and_as_text_and_is_recorded(way: str) -> None:
    heard: list[Call] = []
    async with ToolServer([lookup], on_call=heard.append) as server, joined(server, way) as agent:
        result = await agent.call_tool("lookup", {"sku": "A-1"})
        assert result.structured_content == {"sku": "A-1", "stock": 3}
        assert text_of(result) == '{"sku":"A-1","stock":3}'
        assert not result.is_error
        [call] = server.calls
    assert (call.name, call.arguments, call.outcome) == ("lookup", {"sku": "A-1"}, "ok")
    assert call.result == {"sku": "A-1", "stock": 3}
    assert call.duration is not None
    assert [(each.id, each.outcome) for each in heard] == [(call.id, "running"), (call.id, "ok")]


@every_way
async def test_an_exception_is_reported_by_its_type_only_and_a_tool_error_with_its_text(way: str) -> None:
    @tool
    def secretive() -> str:
        raise ValueError("the password is hunter2")

    @tool
    async def frank() -> str:
        raise ToolError("there is no shelf 9; there are 1 to 8")

    async with ToolServer([secretive, frank]) as server, joined(server, way) as agent:
        hidden = await agent.call_tool("secretive", {})
        result = await agent.call_tool("frank", {})
    assert hidden.is_error
    assert text_of(hidden) == "secretive failed: ValueError (reference: call-1)"
    assert (result.is_error, text_of(result)) == (True, "there is no shelf 9; there are 1 to 8")
    assert "hunter2" in (server.calls[0].traceback or "")
    assert [call.outcome for call in server.calls] == ["error", "error"]


@pytest.mark.attempts("tool server")
@every_way
async def test_bad_arguments_are_answered_with_all_that_is_wrong_and_run_nothing(way: str) -> None:
    ran: list[Item] = []

    def store(item: Item, times: int) -> str:
        ran.append(item)
        return "stored"

    async with ToolServer([store]) as server, joined(server, way) as agent:
        result = await agent.call_tool("store", {"item": {"sku": 7}, "times": "twice"})
    assert result.is_error
    assert "item.sku: expected string, got 7" in text_of(result)
    assert 'times: expected integer, got "twice"' in text_of(result)
    assert [call.outcome for call in server.calls] == ["refused"]
    assert ran == []


async def test_a_result_that_is_no_number_is_an_error_and_no_null_where_a_number_was_promised() -> None:
    def ratio() -> float:
        return float("nan")

    async with ToolServer([ratio]) as server, joined(server, "http") as agent:
        result = await agent.call_tool("ratio", {})
    assert result.is_error
    assert "the result of ratio cannot be passed on" in text_of(result)


async def test_an_unknown_tool_is_answered_with_those_that_there_are() -> None:
    async with ToolServer([lookup]) as server, joined(server, "http") as agent:
        result = await agent.call_tool("look_up", {})
    assert (result.is_error, text_of(result)) == (True, "there is no tool 'look_up'; there are: lookup")


@every_way
async def test_progress_is_reported_in_order_from_plain_and_async_functions(way: str) -> None:
    received: list[tuple[float, float | None, str | None]] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        received.append((progress, total, message))

    def plain(ctx: ToolContext) -> str:
        ctx.progress(1, 2, "half")
        return "done"

    async def later(ctx: ToolContext) -> str:
        ctx.progress(2, 2, "whole")
        return "done"

    async with ToolServer([plain, later]) as server, joined(server, way) as agent:
        for name in ("plain", "later"):
            assert text_of(await agent.call_tool(name, {}, progress_callback=on_progress)) == "done"
    assert received == [(1, 2, "half"), (2, 2, "whole")]


@every_way
async def test_images_are_shown_as_images(way: str) -> None:
    async def chart() -> list[Any]:
        return ["the chart:", ImageAttachment(PIXEL, "image/png")]

    async with ToolServer([chart]) as server, joined(server, way) as agent:
        result = await agent.call_tool("chart", {})
    words, picture = result.content
    assert words.type == "text"
    assert picture.type == "image"
    assert base64.b64decode(picture.data) == PIXEL
    assert server.calls[0].result == ["the chart:", {"image": "image/png"}]


@pytest.mark.attempts("tool server")
async def test_a_result_over_the_limit_is_an_error_that_says_so() -> None:
    def dump() -> str:
        return "x" * 1001

    async with ToolServer([dump], max_bytes=1000) as server, joined(server, "http") as agent:
        result = await agent.call_tool("dump", {})
    assert result.is_error
    assert text_of(result) == "the result has 1,001 bytes, and 1,000 is the most: ask for less at a time"


@every_way
async def test_calls_without_a_shared_state_run_at_the_same_time(way: str) -> None:
    barrier = threading.Barrier(2, timeout=TIMEOUT_S)
    meeting = asyncio.Barrier(2)

    def plain() -> str:
        barrier.wait()
        return "met"

    async def later() -> str:
        await meeting.wait()
        return "met"

    async with ToolServer([plain, later]) as server, joined(server, way) as agent:
        names = ["plain", "plain", "later", "later"]
        results = await asyncio.gather(*(agent.call_tool(name, {}) for name in names))
    assert [text_of(result) for result in results] == ["met"] * 4


@every_way
async def test_a_failing_call_leaves_the_state_as_it_was_and_calls_take_turns(way: str) -> None:
    shelf = Shelf()
    inside = 0

    async def add(sku: str, ctx: ToolContext) -> int:
        nonlocal inside
        inside += 1
        assert inside == 1, "two calls were in the state at once"
        ctx.state.items.append(Item(sku))
        await asyncio.sleep(0)
        inside -= 1
        if sku == "bad":
            raise ToolError("no such item")
        return len(ctx.state.items)

    async with ToolServer([add], state=shelf) as server, joined(server, way) as agent:
        await asyncio.gather(*(agent.call_tool("add", {"sku": sku}) for sku in ("a", "bad", "b", "bad", "c")))
    assert sorted(item.sku for item in shelf.items) == ["a", "b", "c"]
    assert [call.outcome for call in server.calls].count("error") == 2


@every_way
async def test_a_cancelled_call_is_cancelled_and_undone(way: str) -> None:
    shelf, begun = Shelf(), asyncio.Event()

    async def endless(ctx: ToolContext) -> str:
        ctx.state.items.append(Item("half done"))
        begun.set()
        await asyncio.Event().wait()
        raise AssertionError

    async with ToolServer([endless, lookup], state=shelf) as server, joined(server, way) as agent:
        waiting = asyncio.create_task(agent.call_tool("endless", {}))
        await begun.wait()
        waiting.cancel()  # the client says `notifications/cancelled`
        await asyncio.gather(waiting, return_exceptions=True)
        assert not (await agent.call_tool("lookup", {"sku": "b"})).is_error  # it waits for the turn
        assert shelf.items == []
    assert [call.outcome for call in server.calls] == ["cancelled", "ok"]


class Undone:
    """A state that says when it was put back."""

    def __init__(self) -> None:
        self.items: list[str] = []
        self.back = asyncio.Event()

    def snapshot(self) -> list[str]:
        return list(self.items)

    def restore(self, items: list[str]) -> None:
        self.items = items
        self.back.set()


async def test_closing_ends_calls_that_never_return_and_what_they_did_is_undone_when_they_do() -> None:
    begun, released, state = threading.Event(), threading.Event(), Undone()

    def stuck(ctx: ToolContext) -> str:
        ctx.state.items.append("half done")
        begun.set()
        released.wait(TIMEOUT_S)
        return "too late"

    server = ToolServer([stuck], state=state)
    async with server, joined(server, "stdio") as agent:
        call = asyncio.create_task(agent.call_tool("stuck", {}))
        await asyncio.to_thread(begun.wait, TIMEOUT_S)
        await server.close()
        result = await call
        assert (result.is_error, text_of(result)) == (True, "the call was cancelled")
    assert [call.outcome for call in server.calls] == ["cancelled"]
    assert state.items == ["half done"]
    released.set()
    await state.back.wait()
    assert state.items == []


async def test_closing_waits_for_no_call_that_will_not_be_cancelled() -> None:
    begun, free = asyncio.Event(), asyncio.Event()

    async def stubborn() -> str:
        begun.set()
        while not free.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await free.wait()
        return "too late"

    server = ToolServer([stubborn])
    async with server, joined(server, "http") as agent:
        call = asyncio.create_task(agent.call_tool("stubborn", {}))
        await begun.wait()
        await server.close()
        assert [call.outcome for call in server.calls] == ["cancelled"]
        free.set()
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)


def post(server: ToolServer, **headers: str) -> httpx.Response:
    request_headers = {
        "Authorization": f"Bearer {server.token}",
        "Accept": "application/json, text/event-stream",
        **headers,
    }
    sent = {name: value for name, value in request_headers.items() if value}
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    return httpx.post(server.url, json=ping, headers=sent, timeout=TIMEOUT_S, trust_env=False)


@pytest.mark.attempts("tool server")
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Authorization": ""}, 401),
        ({"Authorization": "Bearer wrong"}, 401),
        ({"Authorization": "Basic {token}"}, 401),
        ({"Authorization": "Bearer {token}x"}, 401),
        ({"Host": "evil.example"}, 403),
        ({"Host": "evil.example:{port}"}, 403),
        ({"Host": "127.0.0.1"}, 403),
        ({"Host": "127.0.0.1:1"}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://127.0.0.1:1"}, 403),
        ({"Origin": "http://evil.example", "Authorization": ""}, 403),
    ],
)
async def test_no_token_a_foreign_host_or_a_foreign_origin_is_refused(headers: dict[str, str], status: int) -> None:
    async with ToolServer([lookup]) as server:
        port = server.url.rpartition(":")[2].partition("/")[0]
        filled = {name: value.format(token=server.token, port=port) for name, value in headers.items()}
        response = await asyncio.to_thread(post, server, **filled)
        assert response.status_code == status
        assert server.token not in response.text
        allowed = await asyncio.to_thread(post, server)
        assert allowed.status_code not in (401, 403)
        assert server.calls == []


@pytest.mark.attempts("tool server")
async def test_a_token_is_good_for_its_own_server_alone() -> None:
    async with ToolServer([lookup]) as one, ToolServer([lookup]) as other:
        assert one.token != other.token
        response = await asyncio.to_thread(post, one, Authorization=f"Bearer {other.token}")
    assert response.status_code == 401


async def test_a_server_that_is_not_open_has_nothing_for_an_agent() -> None:
    server = ToolServer([lookup])
    with pytest.raises(InputError, match="is not open"):
        server.for_agent(http=True)
    async with server:
        port = int(server.url.rpartition(":")[2].partition("/")[0])
    with pytest.raises(InputError, match="is not open"):
        server.for_agent(http=False)
    with socket.socket() as gone:
        assert gone.connect_ex(("127.0.0.1", port)) != 0


async def test_a_port_that_is_in_use_is_reported_and_nothing_stays_open() -> None:
    async with ToolServer([lookup]) as server:
        port = int(server.url.rpartition(":")[2].partition("/")[0])
        async with nothing_left():
            with pytest.raises(OSError, match="in use"):
                async with ToolServer([lookup], port=port):
                    pass


async def test_it_may_be_closed_by_another_task_than_opened_it() -> None:
    async with nothing_left():
        server = ToolServer([lookup])
        assert await asyncio.create_task(server.__aenter__()) is server
        port = int(server.url.rpartition(":")[2].partition("/")[0])
        async with joined(server, "http") as agent:
            assert not (await agent.call_tool("lookup", {"sku": "a"})).is_error
        await asyncio.create_task(server.close())
        with socket.socket() as gone:
            assert gone.connect_ex(("127.0.0.1", port)) != 0
        with pytest.raises(InputError, match="is not open"):
            server.for_agent(http=True)


async def test_a_failing_listener_costs_no_call() -> None:
    def fail(call: Call) -> None:
        raise RuntimeError("of the caller")

    async with ToolServer([lookup], on_call=fail) as server, joined(server, "http") as agent:
        assert not (await agent.call_tool("lookup", {"sku": "a"})).is_error


async def use_both(server: ToolServer) -> None:
    async with joined(server, "http") as one:
        await one.call_tool("lookup", {"sku": "a"})
    async with joined(server, "stdio") as other:
        await other.call_tool("lookup", {"sku": "a"})


async def test_two_hundred_servers_leave_nothing() -> None:
    async with ToolServer([lookup]) as server:  # what is loaded and started once stays
        await use_both(server)
    threads = threading.active_count()
    gc.collect()
    async with nothing_left():
        for number in range(200):
            async with ToolServer([lookup]) as server:
                if number % 20 == 0:
                    await use_both(server)
        gc.collect()
    assert threading.active_count() <= threads


@pytest.mark.attempts("tool server")
async def test_an_agent_that_stays_connected_holds_up_no_end() -> None:
    async with nothing_left():
        server = ToolServer([lookup])
        await server.__aenter__()
        async with joined(server, "http") as one, joined(server, "stdio") as other:
            await one.call_tool("lookup", {"sku": "a"})
            await other.call_tool("lookup", {"sku": "a"})
            async with asyncio.timeout(TIMEOUT_S / 3):
                await server.close()


@pytest.mark.attempts("tool server")
async def test_an_idle_connection_is_closed_with_the_server() -> None:
    server = ToolServer([lookup])
    async with server:
        host = server.url.removeprefix("http://").partition("/")[0]
        reader, writer = await asyncio.open_connection(*host.split(":"))
        writer.write(f"GET /mcp HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        assert b"401" in await reader.readuntil(b"\r\n\r\n")
        await server.close()
        with contextlib.suppress(ConnectionError):
            await reader.read()
        writer.close()


@every_way
async def test_closing_under_a_call_logs_no_traceback(way: str, caplog: pytest.LogCaptureFixture) -> None:
    begun = asyncio.Event()

    async def endless() -> None:
        begun.set()
        await asyncio.Event().wait()

    server = ToolServer([endless])
    async with server, joined(server, way) as agent:
        call = asyncio.create_task(agent.call_tool("endless", {}))
        await begun.wait()
        await server.close()
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
    gc.collect()
    loud = [record for record in caplog.records if record.levelname in ("WARNING", "ERROR", "CRITICAL")]
    assert [record.getMessage() for record in loud if not record.name.startswith(("mcp.client", "client"))] == []
