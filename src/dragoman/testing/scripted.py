"""`ScriptedAgent`: an agent whose behaviour is one async function, called for each prompt.

    async def script(turn):
        await turn.say("Working on it.")
        if await turn.ask_permission("Write notes.txt") == "allow":
            await turn.say("Done.")
        return "end_turn"                  # None is the same

    ScriptedAgent(script).main             # for `in_memory` or `memory_runtime`
    command_of("agents.py:script")         # the same as a process: the command that runs it

It answers `initialize` and `session/new` by itself. Anything else is answered by `answers`, method by method: with a
value, or with an async function of the request. `heard` has all requests and notifications of the client;
`overlapped` is True if prompts of one session ever overlapped.

`AgentSide` is the agent's side of a link: the bytes, a stderr, and the way to exit (`AgentExit`).
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

import msgspec

from dragoman.errors import METHOD_NOT_FOUND, DragomanError
from dragoman.wire.connection import RpcConnection, RpcRefusal
from dragoman.wire.messages import Message, Notification, OutgoingMessage, Request, RequestId
from dragoman.wire.transport import Transport


class AgentExit(Exception):
    """Raised by an agent to end as a process would, with this exit code."""

    def __init__(self, code: int) -> None:
        super().__init__(f"exit code {code}")
        self.code = code


class AgentSide:
    """A transport, seen from the agent, with a stderr beside it."""

    def __init__(self, transport: Transport, complain: Callable[[str], None]) -> None:
        self._transport = transport
        self.complain = complain  # one line to stderr
        self.read = transport.read
        self.write = transport.write
        self.drain = transport.drain
        self.close = transport.close


# An agent as a function: lives until it returns its exit code (None is 0), raises AgentExit, or fails (1).
AgentMain: TypeAlias = Callable[[AgentSide], Awaitable[int | None]]


Params: TypeAlias = Mapping[str, Any]  # JSON as on the wire
Answer: TypeAlias = object | Callable[["ReceivedRequest"], Awaitable[object]]
Script: TypeAlias = Callable[["Turn"], Awaitable[object]]

OPTIONS: tuple[Params, ...] = (
    {"optionId": "allow", "name": "Allow", "kind": "allow_once"},
    {"optionId": "reject", "name": "Reject", "kind": "reject_once"},
)


class ReceivedRequest(msgspec.Struct, frozen=True):
    """A request or notification that the agent heard."""

    agent: ScriptedAgent
    method: str
    params: Params
    id: RequestId | None = None  # None for a notification

    @property
    def session_id(self) -> str:
        return str(self.params.get("sessionId", ""))


class Turn:
    """One prompt, and the means of the agent to answer it."""

    def __init__(self, agent: ScriptedAgent, params: Params) -> None:
        self.agent = agent
        self.session_id: str = params["sessionId"]
        self.prompt: Sequence[Params] = params["prompt"]
        self.cancelled = asyncio.Event()

    @property
    def text(self) -> str:
        return "".join(block["text"] for block in self.prompt if block["type"] == "text")

    async def say(self, text: str, **fields: object) -> None:
        await self.update("agent_message_chunk", content={"type": "text", "text": text}, **fields)

    async def think(self, text: str, **fields: object) -> None:
        await self.update("agent_thought_chunk", content={"type": "text", "text": text}, **fields)

    async def tool(self, tool_call_id: str, **fields: object) -> None:
        await self.update("tool_call", **{"toolCallId": tool_call_id, "title": tool_call_id, **fields})

    async def tool_update(self, tool_call_id: str, **fields: object) -> None:
        await self.update("tool_call_update", **{"toolCallId": tool_call_id, **fields})

    async def update(self, kind: str, /, **fields: object) -> None:
        """Send any update, and wait while the client is behind."""
        self.agent.update(self.session_id, kind, **fields)
        await self.agent.connection.drain()

    async def ask_permission(
        self, title: str = "do it", *, options: Sequence[Params] = OPTIONS, **tool_call: object
    ) -> str | None:
        """Return the id of the chosen option; None if the request was cancelled."""
        call = {"toolCallId": "received", "title": title, **tool_call}
        params = {"sessionId": self.session_id, "toolCall": call, "options": options}
        answer = await self.agent.request("session/request_permission", params)
        chosen: str | None = answer["outcome"].get("optionId")
        return chosen

    async def wait_cancelled(self) -> str:
        """Wait until the client has cancelled; return that stop reason."""
        await self.cancelled.wait()
        return "cancelled"

    async def never(self) -> NoReturn:
        """Never answer."""
        await asyncio.Event().wait()
        raise AssertionError("an event that nobody sets was set")

    def crash(self, code: int = 1) -> NoReturn:
        raise AgentExit(code)

    def refuse(self, code: int, message: str, data: object = None) -> NoReturn:
        """Answer the prompt with an error."""
        raise RpcRefusal(code, message, data)


async def _say_hello(turn: Turn) -> None:
    await turn.say("Hello.")


class ScriptedAgent:
    """A connection's handler, and the agent's life: `main` is an `AgentMain`."""

    def __init__(
        self,
        script: Script = _say_hello,
        *,
        capabilities: Params | None = None,
        initialize: Params | None = None,
        session: Params | None = None,
        answers: Mapping[str, Answer] | None = None,
    ) -> None:
        """Create the agent. `capabilities` are as on the wire; `initialize` and `session` extend those answers."""
        self.heard: list[ReceivedRequest] = []
        self.overlapped = False
        self.connection: RpcConnection
        self.side: AgentSide
        self._script = script
        self._session = session or {}
        self._answers: dict[str, Answer] = {
            "initialize": {"protocolVersion": 1, "agentCapabilities": capabilities or {}, **(initialize or {})},
            "session/new": self._new_session,
            "session/prompt": self._prompted,
            **(answers or {}),
        }
        self._sessions_made = 0
        self._turns: dict[RequestId | None, Turn] = {}  # from the moment the prompt is heard
        self._running: list[str] = []  # the sessions of the turns that have begun
        self._exit: asyncio.Future[int]
        self._waiting: list[tuple[str, int, asyncio.Future[ReceivedRequest]]] = []

    async def main(self, side: AgentSide) -> int:
        """Serve until the client closes the connection or a script ends the agent; return the exit code."""
        loop = asyncio.get_running_loop()
        self.side = side
        self._exit = loop.create_future()
        self.connection = RpcConnection(side, self)
        ended = loop.create_task(self.connection.wait_ended())
        either: set[asyncio.Future[Any]] = {ended, self._exit}
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        finally:
            side.close()  # at once, as in a crash: nothing more is sent
            await self.connection.close()
            await ended
        return self._exit.result() if self._exit.done() else 0

    # -- for tests

    def all_heard(self, method: str) -> list[ReceivedRequest]:
        return [received for received in self.heard if received.method == method]

    async def hears(self, method: str, count: int = 1) -> ReceivedRequest:
        """Wait until this many requests of the method have come; return the last of them. (In memory only.)"""
        if len(found := self.all_heard(method)) >= count:
            return found[count - 1]
        heard: asyncio.Future[ReceivedRequest] = asyncio.get_running_loop().create_future()
        self._waiting.append((method, count, heard))
        return await heard

    def update(self, session_id: str, kind: str, /, **fields: object) -> None:
        """Send any update, for any session, at any time."""
        self.notify("session/update", {"sessionId": session_id, "update": {"sessionUpdate": kind, **fields}})

    def notify(self, method: str, params: Params) -> None:
        self.connection.notify(method, params)

    async def request(self, method: str, params: Params) -> Any:
        """Send a request to the client; raise `RequestFailed` when it refuses."""
        return msgspec.json.decode(await self.connection.request(method, params))

    def raw(self, data: bytes) -> None:
        """Write any bytes to stdout."""
        self.side.write(data)

    def complain(self, line: str) -> None:
        """Write a line to stderr."""
        self.side.complain(line)

    def exit(self, code: int) -> None:
        if not self._exit.done():
            self._exit.set_result(code)

    # -- calls of the connection (wire.connection.Handler)

    def on_received(self, messages: Sequence[Message], at: float) -> None:
        for message in messages:
            if isinstance(message, Request):
                self._hear(self._received_request(message))
            elif isinstance(message, Notification):
                self._hear(ReceivedRequest(self, message.method, msgspec.json.decode(message.params) or {}))

    def _received_request(self, request: Request) -> ReceivedRequest:
        return ReceivedRequest(self, request.method, msgspec.json.decode(request.params) or {}, request.id)

    def _hear(self, received: ReceivedRequest) -> None:
        self.heard.append(received)
        count = len(self.all_heard(received.method))
        for method, wanted, waiter in self._waiting:
            if method == received.method and count >= wanted and not waiter.done():
                waiter.set_result(received)
        self._waiting = [entry for entry in self._waiting if not entry[2].done()]
        if received.method == "session/prompt":
            self._turns[received.id] = Turn(self, received.params)
        elif received.method == "session/cancel":
            for turn in self._turns.values():
                if turn.session_id == received.session_id:
                    turn.cancelled.set()

    def on_sending(self, message: OutgoingMessage, at: float) -> None:
        pass

    async def wait_until_ready(self) -> None:
        pass

    async def on_ended(self) -> DragomanError:
        return DragomanError("the client has closed the connection")

    async def serve(self, request: Request) -> object:
        if request.method not in self._answers:
            raise RpcRefusal(METHOD_NOT_FOUND, f"the script has no answer to {request.method}")
        answer = self._answers[request.method]
        if not callable(answer):
            return answer
        try:
            return await answer(self._received_request(request))
        except AgentExit as left:
            self.exit(left.code)
            await asyncio.Event().wait()  # until the connection ends: an agent that has exited answers nothing
            raise

    async def _new_session(self, received: ReceivedRequest) -> object:
        self._sessions_made += 1
        return {"sessionId": f"session-{self._sessions_made}", **self._session}

    async def _prompted(self, received: ReceivedRequest) -> object:
        turn = self._turns[received.id]
        self.overlapped = self.overlapped or turn.session_id in self._running
        self._running.append(turn.session_id)
        try:
            ended = await self._script(turn)
        finally:
            self._running.remove(turn.session_id)
            del self._turns[received.id]
        return ended if isinstance(ended, Mapping) else {"stopReason": ended or "end_turn"}


def command_of(script: str | Path) -> list[str]:
    """Return the command of a process that serves `FILE.py:NAME`: a script, or a `ScriptedAgent`."""
    return [sys.executable, "-m", "dragoman.testing", str(script)]
