"""Tools for agents: an MCP server in this process, over HTTP on loopback or joined by a shim over stdio.

This is the only module that imports the `mcp` package; it is loaded when the first server is made. The toolbox calls
the tools and records the calls; `tool_ports` checks who connects.

Promised: when the block is left, no port, task or connection remains; calls that still run are cancelled, and get a
short time to end. The token that agents get is valid for this server only, while it lives.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Self, TypeAlias

from dragoman._version import __version__
from dragoman.errors import InputError
from dragoman.evaluation.content import MAX_RESULT_BYTES, Content, Picture, Text
from dragoman.evaluation.tool import Tool
from dragoman.evaluation.tool_ports import PATH, TokenCheck, serve_shims, shim_entry
from dragoman.evaluation.toolbox import Call, OnCall, Toolbox
from dragoman.wire.vocabulary import HttpHeader, McpServer, McpServerHttp

Send: TypeAlias = Callable[[float, float | None, str | None], Awaitable[None]]

# The result of a call waits for its last progress message, but not for an agent that reads nothing.
LAST_PROGRESS_TIMEOUT_S: Final = 1.0


class Progress:
    """Sends a call's progress to the agent while its block lasts; the last report is sent before the block is left."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._loop = asyncio.get_running_loop()
        self._newest: tuple[float, float | None, str | None] | None = None
        self._sending: asyncio.Task[None] | None = None

    def report(self, done: float, total: float | None = None, message: str | None = None) -> None:
        try:
            self._loop.call_soon_threadsafe(self._note, done, total, message)
        except RuntimeError:
            pass  # the loop is closed: the function outlived its call

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._sending is not None:
            await asyncio.wait({self._sending}, timeout=LAST_PROGRESS_TIMEOUT_S)
            self._sending.cancel()

    def _note(self, done: float, total: float | None, message: str | None) -> None:
        self._newest = (done, total, message)
        if self._sending is None or self._sending.done():
            self._sending = self._loop.create_task(self._send_newest())

    async def _send_newest(self) -> None:
        while self._newest is not None:
            newest, self._newest = self._newest, None
            try:
                await self._send(*newest)
            except Exception:
                return  # the agent has left; the call itself fails then


try:
    import anyio
    import mcp_types as mcp
    from mcp.server import Server, ServerRequestContext
    from mcp.server.stdio import stdio_server
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
    from mcp.shared.message import SessionMessage

    from dragoman.evaluation.tool_ports import HOST, open_port, serve_http  # uvicorn comes with it
except ImportError as missing:
    raise InputError(
        "to serve tools to agents the package `mcp` is needed, and it is not installed",
        guidance="Install it: pip install 'dragoman[mcp]'",
    ) from missing


class ToolServer:
    """Serves tools while its block lasts:

        async with ToolServer([lookup]) as server:
            SessionConfig(..., mcp_servers=(server.for_agent(http=capabilities.mcp_http),))

    `calls` are the calls so far, in the order in which they began; `on_call` gets each when it begins and when it ends.
    A failing call leaves `state` as it was; with a state, calls run one after another.
    """

    def __init__(
        self,
        tools: Sequence[Tool | Callable[..., Any]],
        *,
        state: object | None = None,
        on_call: OnCall | None = None,
        name: str = "dragoman",
        port: int = 0,
        token: str | None = None,
        max_bytes: int = MAX_RESULT_BYTES,
    ) -> None:
        self.name = name
        self.token = token or secrets.token_urlsafe(32)
        self.was_contacted = False  # a client with the token has sent something
        self._toolbox = Toolbox(tools, state=state, on_call=on_call, max_bytes=max_bytes)
        self._is_listing = False  # a client has asked for the tools, and its answer may be on its way
        self._listed = asyncio.Event()
        self._mcp = _mcp_server(name, self._toolbox, self._on_list)
        self._requested_port = port
        self._ports: tuple[int, int] | None = None  # over HTTP, for shims
        self._closing = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def calls(self) -> list[Call]:
        return self._toolbox.calls

    def _on_list(self) -> None:
        self._is_listing = True

    def _on_sent(self) -> None:
        if self._is_listing:
            self._listed.set()

    @property
    def is_listed(self) -> bool:
        """True once a client has asked for the tools, and got them."""
        return self._listed.is_set()

    async def wait_until_listed(self) -> None:
        """Wait until a client has the tools: a prompt that is sent earlier may find the model without them."""
        await self._listed.wait()

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self._open_ports()[0]}{PATH}"

    def for_agent(self, *, http: bool) -> McpServer:
        """Return the entry for `SessionConfig.mcp_servers`: HTTP if the agent takes it, otherwise the stdio shim."""
        if not http:
            return shim_entry(self.name, self._open_ports()[1], self.token)
        token = HttpHeader(name="Authorization", value=f"Bearer {self.token}")
        return McpServerHttp(name=self.name, url=self.url, headers=(token,))

    async def __aenter__(self) -> Self:
        if self._task is not None:
            raise InputError("this tool server was opened before; make another")
        is_open: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # A task of its own: the package's scopes must be left by the task that entered them, and the server may be
        # closed by another task than the one that opened it.
        self._task = asyncio.create_task(self._serve(is_open), name=f"tool server {self.name}")
        try:
            await asyncio.wait({self._task, is_open}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            await self.close()
            raise
        if not is_open.done():
            await self._task  # it failed, and says why
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Cancel the calls and close both ports. Closing twice is fine."""
        self._closing.set()
        if self._task is not None:
            await asyncio.wait({self._task})
            if not self._task.cancelled() and (error := self._task.exception()) is not None:
                raise error

    async def run_stdio(self) -> None:
        """Serve the program that started this process, on stdin and stdout, until it ends; used instead of a block."""
        async with stdio_server() as (reading, writing):
            await self._mcp.run(reading, writing, self._mcp.create_initialization_options())
        await self._toolbox.close()

    async def _serve(self, is_open: asyncio.Future[None]) -> None:
        http = open_port(self._requested_port)
        try:
            shims = open_port()
        except BaseException:
            http.close()
            raise
        port = http.getsockname()[1]
        manager = StreamableHTTPSessionManager(self._mcp, session_idle_timeout=None)

        async def handle(scope: Any, receive: Any, send: Any) -> None:
            self.was_contacted = True
            await manager.handle_request(scope, receive, send)
            self._on_sent()

        application = TokenCheck(handle, token=self.token, port=port)
        try:
            async with (
                serve_shims(self._serve_shim, shims, self.token),
                serve_http(application, http) as stop,
                manager.run(),
            ):
                self._ports = (port, shims.getsockname()[1])
                if not is_open.done():
                    is_open.set_result(None)
                await self._closing.wait()
                stop()
                await self._toolbox.close()  # while the agents can still be answered
        finally:
            self._ports = None
            http.close()
            shims.close()

    async def _serve_shim(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one agent's shim: one message per line."""
        self.was_contacted = True
        to_us, reading = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        writing, to_agent = anyio.create_memory_object_stream[SessionMessage](0)

        async def read() -> None:
            with contextlib.suppress(
                OSError, ValueError, anyio.BrokenResourceError
            ):  # ValueError: a line over the limit
                async with to_us:
                    while line := await reader.readline():
                        await to_us.send(_message(line))

        async def write() -> None:
            with contextlib.suppress(OSError):
                async with to_agent:
                    async for message in to_agent:
                        frame = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                        writer.write(frame.encode() + b"\n")
                        await writer.drain()
                        self._on_sent()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read)
            tasks.start_soon(write)
            await self._mcp.run(reading, writing, self._mcp.create_initialization_options())
            tasks.cancel_scope.cancel()

    @property
    def ports(self) -> tuple[int, int]:
        """The ports of loopback on which it listens: for HTTP, and for shims."""
        return self._open_ports()

    def _open_ports(self) -> tuple[int, int]:
        if self._ports is None:
            raise InputError("the tool server is not open", guidance="Use it in a block: async with ToolServer(…) as …")
        return self._ports


def _message(line: bytes) -> SessionMessage | Exception:
    try:
        return SessionMessage(mcp.jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError as error:
        return error


def _mcp_server(name: str, toolbox: Toolbox, on_list: Callable[[], None]) -> Server[Any]:
    described = [_described(tool) for tool in toolbox.tools.values()]

    async def list_tools(_: ServerRequestContext[Any], __: mcp.PaginatedRequestParams | None) -> mcp.ListToolsResult:
        on_list()
        return mcp.ListToolsResult(tools=described)

    async def call_tool(
        context: ServerRequestContext[Any], params: mcp.CallToolRequestParams
    ) -> mcp.CallToolResult | mcp.InputRequiredResult:
        async with Progress(context.session.report_progress) as progress:
            return _result(await toolbox.call(params.name, params.arguments or {}, progress.report))

    return Server(name, version=__version__, on_list_tools=list_tools, on_call_tool=call_tool)


def _described(tool: Tool) -> mcp.Tool:
    return mcp.Tool(
        name=tool.name,
        description=tool.description or None,
        input_schema=tool.input_schema,
        output_schema=tool.output_schema,
        annotations=mcp.ToolAnnotations(read_only_hint=tool.read_only),
    )


def _result(content: Content) -> mcp.CallToolResult:
    return mcp.CallToolResult(
        content=[_block(block) for block in content.blocks],
        structured_content=content.structured,
        is_error=content.is_error,
    )


def _block(block: Text | Picture) -> mcp.ContentBlock:
    match block:
        case Text(text):
            return mcp.TextContent(text=text)
        case Picture(data, mime_type):
            return mcp.ImageContent(data=data, mime_type=mime_type)
