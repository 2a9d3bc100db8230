"""A real bridge on a real port, and a client that speaks the socket's own words to it."""

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
from starlette.websockets import WebSocket
from websockets.asyncio.client import ClientConnection, connect

from dragoman.bridge import socket as bridge_socket
from dragoman.bridge.app import application
from dragoman.bridge.bridge import Bridge
from dragoman.bridge.caller import Caller
from dragoman.bridge.messages import Scope
from dragoman.bridge.metrics import Metrics
from dragoman.bridge.origin import names_of
from dragoman.bridge.server import open_port, serving
from dragoman.bridge.tokens import Tokens
from dragoman.config import load, make_home

Said = dict[str, Any]

# Seconds for anything that a test waits for.
LIMIT = 40.0


class Served:
    def __init__(self, bridge: Bridge, port: int) -> None:
        self.bridge = bridge
        self.port = port
        self._tokens: dict[Scope, str] = {}

    def token(self, scope: Scope = "admin") -> str:
        """One for each scope: there is an end to how many a home may have."""
        if scope not in self._tokens:
            self._tokens[scope] = self.bridge.tokens.create(f"a {scope}", scope)[0]
        return self._tokens[scope]

    @asynccontextmanager
    async def client(self, scope: Scope = "admin", token: str | None = None) -> AsyncIterator[Talk]:
        talk = await Talk.connected(f"http://127.0.0.1:{self.port}", token or self.token(scope))
        async with talk.connection:
            yield talk


@asynccontextmanager
async def served(home: Path, port: int = 0) -> AsyncIterator[Served]:
    """`port` of one that was served before: it comes back where it was."""
    os.environ.pop("DRAGOMAN_HOME", None)
    config = load(make_home(home), {"HOME": str(home.parent)})
    tokens, metrics, ending = Tokens(home), Metrics(), asyncio.Event()
    listening = open_port("127.0.0.1", port)
    bridge = await Bridge(config, tokens, metrics).start()

    async def handle(websocket: WebSocket, caller: Caller) -> None:
        await bridge_socket.serve(websocket, bridge, caller)

    try:
        number = listening.getsockname()[1]
        app = application(
            bridge,
            handle,
            tokens=tokens,
            names=names_of([], any_address=False),
            metrics=metrics,
            ending=ending,
            port=number,
            page=home / "no page",
        )
        async with serving(app, listening):
            yield Served(bridge, number)
            ending.set()
    finally:
        listening.close()
        await bridge.close()


class Talk:
    """What the server says reaches the views that follow it, whoever waits for what."""

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection
        self.heard: list[Said] = []
        self.views: list[View] = []
        self._ids = itertools.count(1)

    @classmethod
    async def connected(cls, url: str, token: str, **options: Any) -> Talk:
        """`options`: of the WebSocket. A `sock` is connected here."""
        headers = {"Authorization": f"Bearer {token}"}
        if (port := options.get("sock")) is not None:
            address = urlsplit(url)
            port.connect((address.hostname, address.port))
            port.setblocking(False)
        socket = f"{url.replace('http', 'ws', 1)}/v1/socket"
        return cls(await connect(socket, additional_headers=headers, max_size=None, proxy=None, **options))

    async def say(self, **message: Any) -> None:
        await self.connection.send(msgspec.json.encode(message).decode())

    async def hear(self) -> Said:
        async with asyncio.timeout(LIMIT):
            said: Said = msgspec.json.decode(await self.connection.recv())
        self.heard.append(said)
        for view in self.views:
            view.hear(said)
        return said

    async def until(self, wanted: Callable[[Said], bool]) -> Said:
        """The first message that is so, of those not waited for yet."""
        while True:
            said = await self.hear()
            if wanted(said):
                return said

    async def ask(self, type_: str, **fields: Any) -> Said:
        """A control, and its answer: `result` or `error`. What comes between is heard, and kept."""
        id_ = f"a{next(self._ids)}"
        await self.say(type=type_, id=id_, **fields)
        return await self.until(lambda said: said.get("id") == id_ and said["type"] in ("result", "error"))

    async def done(self, type_: str, **fields: Any) -> Said:
        """The result of a control that is to go well."""
        answer = await self.ask(type_, **fields)
        assert answer["type"] == "result", answer
        result: Said = answer["result"]
        return result

    async def refused(self, type_: str, **fields: Any) -> Said:
        answer = await self.ask(type_, **fields)
        assert answer["type"] == "error", answer
        error: Said = answer["error"]
        return error

    async def follow(self, session_id: str, after: str | None = None, **fields: Any) -> View:
        """A new view of the session, that has its snapshot."""
        view = View(session_id)
        await self.say(type="subscribe", stream="session", id=session_id, after=after, **fields)
        self.views.append(view)
        await self.until(lambda said: said["type"] in ("snapshot", "ended") and said.get("id") == session_id)
        return view

    async def go_on(self, view: View) -> None:
        """The view of another socket, from where it was left."""
        self.views.append(view)
        await self.say(type="subscribe", stream="session", id=view.session_id, after=view.cursor)

    async def see(self, view: View, is_so: Callable[[View], bool]) -> View:
        """Hears until it is so with the session."""
        while not is_so(view):
            await self.hear()
        return view


class View:
    """A session as a client holds it: rows by table and id, kept by the rules of the socket and nothing else."""

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        self.cursor: str | None = None
        self.tables: dict[str, dict[str, Said]] = {}
        self.state: Said = {}
        self.live: Said = {}
        self.session: Said = {}
        self.resumed = 0
        self.snapshots = 0
        self.ended = False

    def hear(self, said: Said) -> None:
        if said.get("stream") != "session" or said.get("id") != self.session_id:
            return
        match said["type"]:
            case "snapshot":
                self.cursor, self.live, self.session = said["cursor"], said["live"], said["session"]
                if said["resumed"]:
                    self.resumed += 1
                    return
                self.snapshots += 1
                self.state = said["state"]
                self.tables = {
                    table: {row["id"]: row for row in rows} for table, rows in said["rows"].items() if table != "type"
                }
            case "update":
                self.cursor = said["cursor"]
                for change in said["changes"]:
                    self._apply(change)
            case _:
                self.ended = True

    def _apply(self, change: Said) -> None:
        match change["op"]:
            case "put":
                row = change["row"]
                self.tables.setdefault(row["table"], {})[row["id"]] = row
            case "remove":
                self.tables[change["table"]].pop(change["id"], None)
            case "append":
                message = self.tables["messages"][change["message_id"]]
                message["text"] += change["text"]
                message["blocks"] = [*message["blocks"], *change["blocks"]]
            case "state":
                self.state = change["state"]
            case "live":
                self.live = change["live"]
            case _:
                self.session = change["session"]

    def rows(self, table: str) -> list[Said]:
        return list(self.tables.get(table, {}).values())

    @property
    def settled(self) -> bool:
        """All its runs have ended."""
        return bool(self.rows("runs")) and all(run["status"] != "running" for run in self.rows("runs"))

    def texts(self, kind: str = "assistant") -> list[str]:
        return [row["text"] for row in self.rows("messages") if row["kind"] == kind]
