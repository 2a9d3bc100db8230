"""A real bridge on a real port, and a client that sends and receives plain JSON on its socket."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
from websockets.asyncio.client import ClientConnection, connect

from dragoman.bridge.bridge import Bridge
from dragoman.bridge.security import host_names
from dragoman.bridge.server import application, open_port, serving
from dragoman.bridge.tokens import Tokens
from dragoman.config import load, make_home
from dragoman.protocol.messages import Scope

JsonObject = dict[str, Any]

# Time limit of everything that a test waits for.
TIMEOUT_S = 40.0


class RealServer:
    """A server and its bridge."""

    def __init__(self, bridge: Bridge, port: int) -> None:
        self.bridge = bridge
        self.port = port
        self._tokens: dict[Scope, str] = {}

    def token(self, scope: Scope = "admin") -> str:
        """A token with this scope. Each is created once: a home folder has a limited number of tokens."""
        if scope not in self._tokens:
            self._tokens[scope] = self.bridge.tokens.create(f"a {scope}", scope)[0]
        return self._tokens[scope]

    @asynccontextmanager
    async def client(self, scope: Scope = "admin", token: str | None = None) -> AsyncIterator[SocketClient]:
        client = await SocketClient.connected(f"http://127.0.0.1:{self.port}", token or self.token(scope))
        async with client.connection:
            yield client


@asynccontextmanager
async def real_server(home: Path, port: int = 0) -> AsyncIterator[RealServer]:
    """Serve a home folder. `port`: that of an earlier server, to come back at the same address."""
    os.environ.pop("DRAGOMAN_HOME", None)
    config = load(make_home(home), {"HOME": str(home.parent)})
    stopping = asyncio.Event()
    listener = open_port("127.0.0.1", port)
    bridge = await Bridge(config, Tokens(home)).start()
    try:
        port = listener.getsockname()[1]
        names = host_names([], any_address=False)
        app = application(bridge, host_names=names, stopping=stopping, port=port, page=home / "no page")
        async with serving(app, listener):
            yield RealServer(bridge, port)
            stopping.set()
    finally:
        listener.close()
        await bridge.close()


class SocketClient:
    """A client. Every message that it receives is applied to its views, whatever the test waits for."""

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection
        self.received: list[JsonObject] = []
        self.views: list[View] = []
        self._ids = itertools.count(1)

    @classmethod
    async def connected(cls, url: str, token: str, **options: Any) -> SocketClient:
        """Connect. `options` are those of the WebSocket; a `sock` is connected here."""
        headers = {"Authorization": f"Bearer {token}"}
        if (port := options.get("sock")) is not None:
            address = urlsplit(url)
            port.connect((address.hostname, address.port))
            port.setblocking(False)
        socket = f"{url.replace('http', 'ws', 1)}/v1/socket"
        return cls(await connect(socket, additional_headers=headers, max_size=None, proxy=None, **options))

    async def send(self, **message: Any) -> None:
        await self.connection.send(msgspec.json.encode(message).decode())

    async def receive(self) -> JsonObject:
        async with asyncio.timeout(TIMEOUT_S):
            message: JsonObject = msgspec.json.decode(await self.connection.recv())
        self.received.append(message)
        for view in self.views:
            view.apply_message(message)
        return message

    async def until(self, matches: Callable[[JsonObject], bool]) -> JsonObject:
        """Receive messages up to the first that matches, and return it."""
        while True:
            message = await self.receive()
            if matches(message):
                return message

    async def request(self, type_: str, **fields: Any) -> JsonObject:
        """Send a request and return its answer: `result` or `error`."""
        id_ = f"a{next(self._ids)}"
        await self.send(type=type_, id=id_, **fields)
        return await self.until(lambda message: message.get("id") == id_ and message["type"] in ("result", "error"))

    async def call(self, type_: str, **fields: Any) -> JsonObject:
        """Send a request that is to succeed and return its result."""
        answer = await self.request(type_, **fields)
        assert answer["type"] == "result", answer
        result: JsonObject = answer["result"]
        return result

    async def call_refused(self, type_: str, **fields: Any) -> JsonObject:
        answer = await self.request(type_, **fields)
        assert answer["type"] == "error", answer
        error: JsonObject = answer["error"]
        return error

    async def follow(self, session_id: str, after: str | None = None, **fields: Any) -> View:
        """A new view of the session, with its snapshot."""
        view = View(session_id)
        await self.send(type="subscribe", stream="session", id=session_id, after=after, **fields)
        self.views.append(view)
        await self.until(lambda message: message["type"] in ("snapshot", "ended") and message.get("id") == session_id)
        return view

    async def resume(self, view: View) -> None:
        """Continue the view of another socket from its cursor."""
        self.views.append(view)
        await self.send(type="subscribe", stream="session", id=view.session_id, after=view.cursor)

    async def wait_for(self, view: View, condition: Callable[[View], bool]) -> View:
        """Receive messages until the condition holds for the view."""
        while not condition(view):
            await self.receive()
        return view


class View:
    """A session as a client has it: rows by table and id, built from snapshots and updates alone."""

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        self.cursor: str | None = None
        self.tables: dict[str, dict[str, JsonObject]] = {}
        self.state: JsonObject = {}
        self.details: JsonObject = {}
        self.session: JsonObject = {}
        self.resumed = 0
        self.snapshots = 0
        self.ended = False

    def apply_message(self, message: JsonObject) -> None:
        if message.get("stream") != "session" or message.get("id") != self.session_id:
            return
        match message["type"]:
            case "snapshot":
                self.cursor, self.state, self.session = message["cursor"], message["state"], message["session"]
                if message["resumed"]:
                    self.resumed += 1
                    return
                self.snapshots += 1
                self.details = message["details"]
                self.tables = {
                    table: {row["id"]: row for row in rows}
                    for table, rows in message["rows"].items()
                    if table != "type"
                }
            case "update":
                self.cursor = message["cursor"]
                for change in message["changes"]:
                    self._apply(change)
            case _:
                self.ended = True

    def _apply(self, change: JsonObject) -> None:
        match change["op"]:
            case "put":
                row = change["row"]
                self.tables.setdefault(row["table"], {})[row["id"]] = row
            case "remove":
                self.tables[change["table"]].pop(change["id"], None)
            case "append":
                message = self.tables["messages"][change["message_id"]]
                if not message["shortened"]:
                    message["text"] += change["text"]
                    message["blocks"] = [*message["blocks"], *change["blocks"]]
                    message["shortened"] = change["shortened"]
            case "state":
                self.state = change["state"]
            case "details":
                self.details = change["details"]
            case _:
                self.session = change["session"]

    def rows(self, table: str) -> list[JsonObject]:
        return list(self.tables.get(table, {}).values())

    @property
    def settled(self) -> bool:
        """The session has runs, and all of them have ended."""
        return bool(self.rows("runs")) and all(run["status"] != "running" for run in self.rows("runs"))

    def texts(self, kind: str = "assistant") -> list[str]:
        return [row["text"] for row in self.rows("messages") if row["kind"] == kind]
