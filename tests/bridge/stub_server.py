"""A server with a stub in place of the bridge: for tests of what HTTP makes of requests, results and streams."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import httpx
import msgspec
from starlette.websockets import WebSocket

from dragoman.bridge.auth import Caller
from dragoman.bridge.bridge import Bridge
from dragoman.bridge.broadcast import StreamMessage
from dragoman.bridge.refusal import Refusal
from dragoman.bridge.security import host_names
from dragoman.bridge.server import application, open_port, serving
from dragoman.bridge.telemetry import Metrics
from dragoman.bridge.tokens import Tokens
from dragoman.protocol import requests, results
from dragoman.protocol.messages import (
    Append,
    Change,
    PermissionsSnapshot,
    Put,
    Scope,
    SessionSnapshot,
    SessionUpdate,
)
from dragoman.protocol.models import Message, Model, Rows, Run, SessionDetails, SessionItem, SessionState
from dragoman.record import rows
from dragoman.record.rows import RunStatus

SESSION = "s1"


class StubBridge:
    """One session, `s1`. It remembers requests; a prompt begins the run `r1`, which goes as the test says."""

    def __init__(self, tokens: Tokens, metrics: Metrics) -> None:
        self.tokens = tokens
        self.metrics = metrics
        self.requests: list[requests.Request[Any]] = []
        self.callers: list[Caller] = []
        self.error: Exception | None = None
        self.run_row: rows.Run | None = None
        self.texts: dict[str, str] = {}  # of the run's messages
        self.prompted = asyncio.Event()
        self.updates: asyncio.Queue[StreamMessage] = asyncio.Queue()
        self.cursor = 0
        self.followed_after: str | None = None
        self.followers = 0
        self.unfollowed = asyncio.Event()

    async def execute(self, request: requests.Request[Any], caller: Caller) -> Model:
        self.requests.append(request)
        self.callers.append(caller)
        if self.error is not None:
            raise self.error
        match request:
            case requests.SessionList():
                return results.SessionPage(sessions=(), more=False)
            case requests.SessionOpen():
                return results.SessionOpened(session_id=SESSION, state=SessionState())
            case requests.SessionPrompt(when="queue"):
                return results.PromptAccepted(queued_id="q1", how="queued")
            case requests.SessionPrompt():
                self.prompted.set()
                return results.PromptAccepted(run_id="r1")
            case requests.SessionExport():
                return results.ExportedSession(file_name='a "name".md', mime_type="text/markdown", text="# hello")
            case requests.TokenCreate():
                caller.require("admin", "token.create")
                raise AssertionError
            case _:
                return results.Done()

    async def follow(
        self, session_id: str, *, after: str | None, frames: bool, caller: Caller
    ) -> AsyncGenerator[StreamMessage, None]:
        if session_id != SESSION:
            raise Refusal("not_found", f"there is no session {session_id!r}")
        self.followed_after = after
        self.followers += 1
        try:
            cursor = str(self.cursor)
            yield StreamMessage("snapshot", cursor, msgspec.json.encode(snapshot(cursor, resumed=after is not None)))
            while True:
                yield await self.updates.get()
        finally:
            self.followers -= 1
            self.unfollowed.set()

    def pending(self) -> PermissionsSnapshot:
        return PermissionsSnapshot(cursor="0", pending=())

    async def recorded_run(self, session_id: str, run_id: str) -> rows.Run | None:
        return self.run_row

    async def run_text(self, session_id: str, run_id: str) -> tuple[rows.Run | None, str]:
        return self.run_row, "\n\n".join(self.texts.values())

    # -- for tests

    def send(self, *changes: Change, ended_runs: tuple[str, ...] = ()) -> None:
        self.cursor += 1
        update = SessionUpdate(id=SESSION, cursor=str(self.cursor), changes=changes)
        self.updates.put_nowait(StreamMessage("update", update.cursor, msgspec.json.encode(update), ended_runs))

    def run(self, status: RunStatus, **fields: str) -> None:
        row = rows.Run(id="r1", time=0, status=status, **fields)  # type: ignore[arg-type]  # fields are strings
        self.run_row = row
        model = Run(id="r1", position=1, time=0, status=status, **fields)  # type: ignore[arg-type]
        self.send(Put(row=model), ended_runs=("r1",) if status != "running" else ())

    def message(self, message_id: str, text: str, *, run_id: str = "r1") -> None:
        if run_id == "r1":
            self.texts[message_id] = text
        row = Message(
            id=message_id,
            position=2,
            kind="assistant",
            run_id=run_id,
            time=0,
            replayed=False,
            text=text,
            blocks=(),
            ended=False,
        )
        self.send(Put(row=row))

    def append(self, message_id: str, text: str) -> None:
        self.texts[message_id] += text
        self.send(Append(message_id=message_id, text=text))


def snapshot(cursor: str, *, resumed: bool) -> SessionSnapshot:
    item = SessionItem(
        id=SESSION, agent="demo", title=None, prompt="", cwd="/", created=0, updated=0, runs=0, frames=0,
        run_status=None, connection="connected", status="idle", pending=0, imported=False,
    )  # fmt: skip
    return SessionSnapshot(
        id=SESSION,
        cursor=cursor,
        resumed=resumed,
        session=item,
        state=SessionState(),
        details=SessionDetails(),
        rows=Rows(),
        more=False,
        before=0,
    )


class StubServer:
    """The server, and ways to reach it."""

    def __init__(self, bridge: StubBridge, port: int, stopping: asyncio.Event) -> None:
        self.bridge = bridge
        self.tokens = bridge.tokens
        self.metrics = bridge.metrics
        self.port = port
        self.stopping = stopping
        self.url = f"http://127.0.0.1:{port}"

    def token(self, scope: Scope = "admin") -> str:
        return self.tokens.create("a program", scope)[0]

    def browser(self, **headers: str) -> httpx.AsyncClient:
        """A client that sends what a browser would send from our own page."""
        own = {"origin": self.url, "sec-fetch-site": "same-origin", **headers}
        return httpx.AsyncClient(base_url=self.url, headers=own, trust_env=False)

    def program(self, scope: Scope = "admin", token: str | None = None) -> httpx.AsyncClient:
        headers = {"authorization": f"Bearer {token or self.token(scope)}"}
        return httpx.AsyncClient(base_url=self.url, headers=headers, trust_env=False, timeout=30)

    def stranger(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(base_url=self.url, trust_env=False)

    async def sign_in(self, client: httpx.AsyncClient, scope: Scope = "admin") -> None:
        answer = await client.post("/v1/pair", json={"code": self.tokens.new_code(scope)})
        assert answer.status_code == 200, answer.text


async def echo(websocket: WebSocket, bridge: Bridge, caller: Caller) -> None:
    await websocket.accept()
    await websocket.send_text(caller.scope)
    await websocket.close()


@asynccontextmanager
async def stub_server(home: Path, page: Path | None = None, **options: Any) -> AsyncIterator[StubServer]:
    """Serve a stub. `options` are those of `serving`."""
    stopping, bridge = asyncio.Event(), StubBridge(Tokens(home), Metrics())
    listener = open_port("127.0.0.1", 0)
    port = listener.getsockname()[1]
    app = application(
        cast(Bridge, bridge),
        host_names=host_names(["dragoman.example"], any_address=False),
        stopping=stopping,
        port=port,
        page=page or home / "no page",
        handle_socket=echo,
    )
    async with serving(app, listener, **options):
        yield StubServer(bridge, port, stopping)
        stopping.set()
