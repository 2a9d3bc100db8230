"""A small client for the demo agent's tests: strict about every frame, serves files, terminals and questions as told.

Strict: each frame must be to the letter of the vocabulary, with no field that it does not know and no repair. What is
not, is collected in `problems`, and `demo` fails at its end if there is any.
"""

from __future__ import annotations

import asyncio
import io
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import msgspec

from dragoman.agents.demo.__main__ import BatchingTransport
from dragoman.agents.demo.agent import DemoAgent
from dragoman.agents.demo.session import World
from dragoman.agents.demo.store import SessionStore
from dragoman.errors import METHOD_NOT_FOUND, NOT_FOUND, DragomanError
from dragoman.wire.connection import Call, RpcConnection, RpcRefusal
from dragoman.wire.messages import Message, Noise, Notification, OutgoingMessage, Reply, Request, Update
from dragoman.wire.transport import memory_pair
from dragoman.wire.vocabulary import (
    METHODS,
    AgentMessageChunk,
    AgentThoughtChunk,
    CancelledPermissionOutcome,
    ClientCapabilities,
    CreateTerminalRequest,
    CreateTerminalResponse,
    FileSystemCapabilities,
    InitializeResponse,
    LoadSessionResponse,
    McpServer,
    NewSessionResponse,
    PromptResponse,
    ReadTextFileRequest,
    ReadTextFileResponse,
    RequestPermissionRequest,
    RequestPermissionResponse,
    SelectedPermissionOutcome,
    SessionNotification,
    SessionToolCallUpdate,
    SessionUpdate,
    TerminalExitStatus,
    TerminalOutputResponse,
    TextContent,
    ToolCall,
    WaitForTerminalExitResponse,
    WriteTextFileRequest,
)

T = TypeVar("T")

# No wait in these tests takes longer than milliseconds when all is well.
TIMEOUT_S = 20.0

NOTHING = ClientCapabilities()
FILES = ClientCapabilities(fs=FileSystemCapabilities(read_text_file=True, write_text_file=True))
TERMINAL = ClientCapabilities(terminal=True)


class TestTerminal:
    __test__ = False

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.output = asyncio.ensure_future(self._read())
        self.released = asyncio.Event()

    async def _read(self) -> str:
        assert self.process.stdout is not None
        return (await self.process.stdout.read()).decode()

    def kill(self) -> None:
        if self.process.returncode is None:
            with suppress(ProcessLookupError):  # it has been ended, and we have not heard of it yet
                os.killpg(self.process.pid, signal.SIGKILL)

    async def release(self) -> None:
        self.kill()
        await self.process.wait()
        await self.output
        self.released.set()


class Client:
    """The handler on the client's side of a connection to the demo agent."""

    def __init__(self, capabilities: ClientCapabilities) -> None:
        self.capabilities = capabilities
        self.problems: list[str] = []
        self.updates: list[tuple[str, SessionUpdate]] = []
        self.requests: list[tuple[str, Any]] = []  # the agent's requests, decoded
        self.notifications: list[Notification] = []
        self.noise: list[bytes] = []
        self.permissions: list[str] = []  # option ids to answer with, in turn; "cancelled" too. Empty: allow once
        self.answers: dict[str, object] = {}  # answers by method, in place of the usual ones
        self.blocked_methods: set[str] = set()  # methods that are answered only when the gate opens
        self.gate = asyncio.Event()
        self.terminals: dict[str, TestTerminal] = {}
        self.session_id = ""
        self._changed = asyncio.Event()
        self.connection: RpcConnection

    # -- the handler

    def on_received(self, messages: Sequence[Message], at: float) -> None:
        for message in messages:
            self._hear(message)
        self._changed.set()

    def _hear(self, message: Message) -> None:
        match message:
            case Update():
                self._check(_strict(message.line, SessionNotification, "params"), message.line)
                params = msgspec.json.decode(message.line, type=_Params).params
                self.updates.append((params.session_id, params.update))
            case Request():
                method = METHODS.get(message.method)
                problem = "no such method" if method is None else _strict(message.line, method.params, "params")
                self._check(problem, message.line)
                if method is not None and problem is None:
                    self.requests.append((message.method, msgspec.json.decode(message.params, type=method.params)))
            case Notification():
                method = METHODS.get(message.method)
                problem = "no such method" if method is None else _strict(message.line, method.params, "params")
                self._check(problem, message.line)
                self.notifications.append(message)
            case Reply(error=None):
                self._check(_strict(message.line, METHODS[message.method].result, "result"), message.line)
            case Noise():
                self.noise.append(message.line)
            case _:
                pass

    def _check(self, problem: str | None, line: bytes) -> None:
        if problem is not None:
            self.problems.append(f"{problem}: {line.decode()}")

    def on_sending(self, message: OutgoingMessage, at: float) -> None:
        pass

    async def wait_until_ready(self) -> None:
        pass

    async def on_ended(self) -> DragomanError:
        self._changed.set()
        return DragomanError("the agent is gone")

    async def serve(self, request: Request) -> object:
        if request.method in self.blocked_methods:
            await self.gate.wait()
        if request.method in self.answers:
            answer = self.answers[request.method]
            if isinstance(answer, RpcRefusal):
                raise answer
            return answer
        params: Any = msgspec.json.decode(request.params, type=METHODS[request.method].params)
        match params:
            case RequestPermissionRequest():
                return self._permission()
            case ReadTextFileRequest(path=path):
                return ReadTextFileResponse(content=_read(Path(path)))
            case WriteTextFileRequest(path=path, content=content):
                return _write(Path(path), content)
            case CreateTerminalRequest():
                return await self._create_terminal(params)
            case _ if request.method.startswith("terminal/"):
                return await self._terminal(request.method, self.terminals[params.terminal_id])
            case _:
                raise RpcRefusal(METHOD_NOT_FOUND, f"{request.method} is not served here")

    def _permission(self) -> RequestPermissionResponse:
        option = self.permissions.pop(0) if self.permissions else "allow-once"
        if option == "cancelled":
            return RequestPermissionResponse(outcome=CancelledPermissionOutcome())
        return RequestPermissionResponse(outcome=SelectedPermissionOutcome(option_id=option))

    async def _create_terminal(self, params: CreateTerminalRequest) -> CreateTerminalResponse:
        process = await asyncio.create_subprocess_exec(
            params.command,
            *params.args,
            cwd=params.cwd,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
        terminal_id = f"terminal-{len(self.terminals)}"
        self.terminals[terminal_id] = TestTerminal(process)
        self._changed.set()
        return CreateTerminalResponse(terminal_id=terminal_id)

    async def _terminal(self, method: str, terminal: TestTerminal) -> object:
        match method:
            case "terminal/wait_for_exit":
                code = await terminal.process.wait()
                return WaitForTerminalExitResponse(exit_code=code)
            case "terminal/output":
                status = TerminalExitStatus(exit_code=terminal.process.returncode)
                return TerminalOutputResponse(output=await terminal.output, truncated=False, exit_status=status)
            case "terminal/kill":
                terminal.kill()
                return {}
            case "terminal/release":
                await terminal.release()
                return {}
            case _:
                raise RpcRefusal(METHOD_NOT_FOUND, f"{method} is not served here")

    # -- what a test does with it

    async def request(self, method: str, params: object, answer: type[T]) -> T:
        return msgspec.json.decode(await self.connection.request(method, params, timeout=TIMEOUT_S), type=answer)

    async def initialize(self) -> InitializeResponse:
        params = {"protocolVersion": 1, "clientCapabilities": self.capabilities}
        return await self.request("initialize", params, InitializeResponse)

    async def new(self, cwd: Path, *, mcp_servers: Sequence[McpServer] = (), **more: object) -> NewSessionResponse:
        params = {"cwd": str(cwd), "mcpServers": mcp_servers, **more}
        response = await self.request("session/new", params, NewSessionResponse)
        self.session_id = response.session_id
        return response

    async def load(self, session_id: str, cwd: Path) -> LoadSessionResponse:
        params = {"sessionId": session_id, "cwd": str(cwd), "mcpServers": []}
        self.session_id = session_id
        return await self.request("session/load", params, LoadSessionResponse)

    def start(self, *prompt: str | object) -> Call:
        blocks = [TextContent(text=part) if isinstance(part, str) else part for part in prompt]
        return self.connection.call("session/prompt", {"sessionId": self.session_id, "prompt": blocks})

    async def finish(self, call: Call) -> PromptResponse:
        return msgspec.json.decode(await self.connection.result(call, timeout=TIMEOUT_S), type=PromptResponse)

    async def prompt(self, *prompt: str | object) -> PromptResponse:
        return await self.finish(self.start(*prompt))

    def cancel(self) -> None:
        self.connection.notify("session/cancel", {"sessionId": self.session_id})

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait until the condition holds; it is checked after every message."""
        async with asyncio.timeout(TIMEOUT_S):
            while not condition():
                self._changed.clear()
                await self._changed.wait()

    def of(self, kind: type[T]) -> list[T]:
        return [update for _, update in self.updates if isinstance(update, kind)]

    def kinds(self) -> list[str]:
        return [str(type(update).__struct_config__.tag) for _, update in self.updates]

    def requested_methods(self) -> list[str]:
        return [method for method, _ in self.requests]

    @property
    def text(self) -> str:
        return _text(self.of(AgentMessageChunk))

    @property
    def thoughts(self) -> str:
        return _text(self.of(AgentThoughtChunk))

    def statuses(self) -> list[str | None]:
        """Of all tool calls, in the order in which they were told."""
        return [update.status for _, update in self.updates if isinstance(update, ToolCall | SessionToolCallUpdate)]


def _read(path: Path) -> str:
    if not path.exists():
        raise RpcRefusal(NOT_FOUND, f"no file {path}")
    return path.read_text(encoding="utf-8")


def _write(path: Path, content: str) -> object:
    path.write_text(content, encoding="utf-8")
    return {}


def names(folder: Path) -> list[str]:
    """Return the names of the files in a folder."""
    return sorted(path.name for path in folder.iterdir())


def _text(chunks: Sequence[AgentMessageChunk | AgentThoughtChunk]) -> str:
    return "".join(chunk.content.text for chunk in chunks if isinstance(chunk.content, TextContent))


class _Params(msgspec.Struct):
    params: SessionNotification


def _strict(line: bytes, kind: Any, part: str) -> str | None:
    """Return what is wrong with a frame: a field of the wrong type, a missing or an unknown one."""
    frame = msgspec.json.decode(line)
    if frame.get("jsonrpc") != "2.0":
        return "jsonrpc is not 2.0"
    try:
        typed = msgspec.convert(frame[part], kind, strict=True)
    except msgspec.ValidationError as problem:
        return str(problem)
    again = msgspec.json.decode(msgspec.json.encode(typed))
    return None if again == frame[part] else f"unknown fields, or defaults spelt out: {again}"


# -- a command's life


# What a command does first, having opened `pipe` as its descriptor 3: from then on it holds the lifeline.
SIGN = "echo here >&3"


class Lifeline:
    """The reading end of a named pipe: it tells when a command holds it, and when the last process let go."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader

    async def wait_open(self) -> None:
        async with asyncio.timeout(TIMEOUT_S):
            assert await self._reader.readline() == b"here\n"

    async def released(self) -> None:
        async with asyncio.timeout(TIMEOUT_S):
            assert await self._reader.read() == b""


@asynccontextmanager
async def lifeline(path: Path) -> AsyncIterator[Lifeline]:
    os.mkfifo(path)
    reader = asyncio.StreamReader()
    file = os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb")
    pipe, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), file)
    try:
        yield Lifeline(reader)
    finally:
        pipe.close()


# -- the agent in this process


class Exited(Exception):
    """Ends the scene, where the real agent would end its process."""


@asynccontextmanager
async def demo(
    home: Path,
    capabilities: ClientCapabilities = NOTHING,
    *,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    stderr: io.StringIO | None = None,
    initialize: bool = True,
    **options: Any,
) -> AsyncIterator[Client]:
    """Start the demo agent in memory, initialize it, and yield a client."""

    def exit_(code: int) -> NoReturn:
        raise Exited(code)

    near, far = memory_pair()
    outbox = BatchingTransport(far)
    world = World(0.0, sleep, lambda: 1_800_000_000.0, exit_, stderr or io.StringIO(), outbox.write)
    agent = DemoAgent(SessionStore(home), world, **options)
    theirs = RpcConnection(outbox, agent)
    agent.attach(theirs)
    async with _client(near, capabilities, initialize) as client:
        yield client
    async with asyncio.timeout(TIMEOUT_S):
        await theirs.wait_ended()
        await theirs.close()


@asynccontextmanager
async def _client(transport: Any, capabilities: ClientCapabilities, initialize: bool) -> AsyncIterator[Client]:
    client = Client(capabilities)
    client.connection = RpcConnection(transport, client)
    try:
        if initialize:
            await client.initialize()
        yield client
    finally:
        await client.connection.close()
        for terminal in client.terminals.values():
            await terminal.release()
    assert client.problems == []


# -- the agent in a process of its own


class Pipes:
    """A process's pipes as a transport, and nothing more."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._in = process.stdin
        self._out = process.stdout

    async def read(self) -> bytes:
        return await self._out.read(65536)

    def write(self, data: bytes) -> None:
        if not self._in.is_closing():
            self._in.write(data)

    async def drain(self) -> None:
        try:
            await self._in.drain()
        except ConnectionError:
            pass  # the end shows in `read`

    def close(self) -> None:
        self._in.close()


class DemoProcess(Client):
    process: asyncio.subprocess.Process
    stderr: asyncio.Task[bytes]


@asynccontextmanager
async def demo_process(
    home: Path, capabilities: ClientCapabilities = NOTHING, **environ: str
) -> AsyncIterator[DemoProcess]:
    """Start the demo agent as a process; at the end close its stdin and wait for its exit."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "dragoman.agents.demo",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "DRAGOMAN_DEMO_HOME": str(home), "DRAGOMAN_DEMO_PACE": "0", **environ},
    )
    assert process.stderr is not None
    client = DemoProcess(capabilities)
    client.process = process
    client.stderr = asyncio.ensure_future(process.stderr.read())
    client.connection = RpcConnection(Pipes(process), client)
    try:
        await client.initialize()
        yield client
        assert process.stdin is not None
        process.stdin.close()
        async with asyncio.timeout(TIMEOUT_S):
            await client.connection.wait_ended()
            await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        await client.stderr
        await client.connection.close()
    assert client.problems == []
