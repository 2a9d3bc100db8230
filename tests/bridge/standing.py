"""A server with a stand-in for the bridge behind it: what HTTP makes of what the bridge says is tested here."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
from starlette.websockets import WebSocket

from dragoman.bridge import answers, asked
from dragoman.bridge.app import application
from dragoman.bridge.caller import Caller
from dragoman.bridge.messages import (
    Append,
    Change,
    PermissionsSnapshot,
    Put,
    Scope,
    SessionSnapshot,
    SessionUpdate,
)
from dragoman.bridge.metrics import Metrics
from dragoman.bridge.origin import names_of
from dragoman.bridge.payload import Live, Message, Out, Rows, Run, RunStatus, SessionItem, State
from dragoman.bridge.refusal import Refusal
from dragoman.bridge.server import open_port, serving
from dragoman.bridge.tokens import Tokens

SESSION = "s1"


class StandIn:
    """One session, `s1`. What is asked is remembered; a prompt begins the run `r1`, which goes as the test says."""

    def __init__(self) -> None:
        self.asked: list[asked.Control] = []
        self.callers: list[Caller] = []
        self.problem: Exception | None = None
        self.ended: Run | None = None  # the run, where it ended before what a snapshot has
        self.prompted = asyncio.Event()
        self.updates: asyncio.Queue[SessionUpdate] = asyncio.Queue()
        self.cursor = 0
        self.followed_after: str | None = None
        self.following = 0
        self.left = asyncio.Event()  # nobody follows any more

    async def do(self, asked_: asked.Control, caller: Caller) -> Out:
        self.asked.append(asked_)
        self.callers.append(caller)
        if self.problem is not None:
            raise self.problem
        match asked_:
            case asked.SessionList():
                return answers.Listed(sessions=(), more=False)
            case asked.SessionOpen():
                return answers.Opened(session_id=SESSION, live=Live())
            case asked.SessionPrompt(when="queue"):
                return answers.Prompted(queued_id="q1", how="queued")
            case asked.SessionPrompt():
                self.prompted.set()
                return answers.Prompted(run_id="r1")
            case asked.SessionRow():
                if self.ended is None:
                    raise Refusal("not_found", "there is no such row")
                return answers.WholeRow(row=self.ended)
            case asked.SessionExport():
                return answers.Exported(file_name='a "name".md', mime_type="text/markdown", text="# said")
            case asked.TokenCreate():
                caller.require("admin", "token.create")
                raise AssertionError
            case _:
                return answers.Done()

    async def follow(
        self, session_id: str, *, after: str | None, frames: bool, caller: Caller
    ) -> AsyncGenerator[Out, None]:
        if session_id != SESSION:
            raise Refusal("not_found", f"there is no session {session_id!r}")
        self.followed_after = after
        self.following += 1
        try:
            yield snapshot(str(self.cursor), resumed=after is not None)
            while True:
                yield await self.updates.get()
        finally:
            self.following -= 1
            self.left.set()

    async def waiting(self, caller: Caller) -> PermissionsSnapshot:
        return PermissionsSnapshot(cursor="0", waiting=())

    # -- for tests

    def say(self, *changes: Change) -> None:
        self.cursor += 1
        self.updates.put_nowait(SessionUpdate(id=SESSION, cursor=str(self.cursor), changes=changes))

    def run(self, status: RunStatus, **fields: str) -> None:
        self.say(Put(row=Run(id="r1", place=1, time=0, status=status, **fields)))  # type: ignore[arg-type]  # of texts

    def message(self, message_id: str, text: str, *, run_id: str = "r1") -> None:
        row = Message(
            id=message_id,
            place=2,
            kind="assistant",
            run_id=run_id,
            time=0,
            replayed=False,
            text=text,
            blocks=(),
            ended=False,
        )
        self.say(Put(row=row))

    def more(self, message_id: str, text: str) -> None:
        self.say(Append(message_id=message_id, text=text))


def snapshot(cursor: str, *, resumed: bool) -> SessionSnapshot:
    item = SessionItem(
        id=SESSION, agent="demo", title=None, prompt="", cwd="/", created=0, updated=0, runs=0, frames=0,
        run_status=None, connection="connected", status="idle", waiting=0, imported=False,
    )  # fmt: skip
    return SessionSnapshot(
        id=SESSION,
        cursor=cursor,
        resumed=resumed,
        session=item,
        live=Live(),
        state=State(),
        rows=Rows(),
        more=False,
        before=0,
    )


class Standing:
    """The server, and ways to reach it."""

    def __init__(self, bridge: StandIn, tokens: Tokens, port: int, metrics: Metrics, ending: asyncio.Event) -> None:
        self.bridge = bridge
        self.tokens = tokens
        self.port = port
        self.metrics = metrics
        self.ending = ending
        self.url = f"http://127.0.0.1:{port}"

    def token(self, scope: Scope = "admin") -> str:
        return self.tokens.create("a program", scope)[0]

    def browser(self, **headers: str) -> httpx.AsyncClient:
        """A client that sends what a browser would from our own page."""
        own = {"origin": self.url, "sec-fetch-site": "same-origin", **headers}
        return httpx.AsyncClient(base_url=self.url, headers=own, trust_env=False)

    def program(self, scope: Scope = "admin", token: str | None = None) -> httpx.AsyncClient:
        shown = {"authorization": f"Bearer {token or self.token(scope)}"}
        return httpx.AsyncClient(base_url=self.url, headers=shown, trust_env=False, timeout=30)

    def stranger(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(base_url=self.url, trust_env=False)

    async def sign_in(self, client: httpx.AsyncClient, scope: Scope = "admin") -> None:
        answer = await client.post("/v1/pair", json={"code": self.tokens.new_code(scope)})
        assert answer.status_code == 200, answer.text


async def echo(websocket: WebSocket, caller: Caller) -> None:
    await websocket.accept()
    await websocket.send_text(caller.scope)
    await websocket.close()


@asynccontextmanager
async def standing(home: Path, page: Path | None = None) -> AsyncIterator[Standing]:
    tokens, metrics, ending, bridge = Tokens(home), Metrics(), asyncio.Event(), StandIn()
    port = open_port("127.0.0.1", 0)
    number = port.getsockname()[1]
    app = application(
        bridge,
        echo,
        tokens=tokens,
        names=names_of(["dragoman.example"], any_address=False),
        metrics=metrics,
        ending=ending,
        port=number,
        page=page or home / "no page",
    )
    async with serving(app, port):
        yield Standing(bridge, tokens, number, metrics, ending)
        ending.set()
