"""An agent built on the official Python SDK. Runs in the environment of the SDK, not in ours.

    python python_agent.py            on stdin and stdout
    python python_agent.py serve      on a free port of the loopback interface, over WebSocket and HTTP; the first line
                                      on stdout is the port. With $TOKEN set, requests must carry it.

It does what the prompt says: `updates` (one of every kind that the SDK knows), `permission`, `files`, `terminals`,
`wait` (until cancelled), `flood N`; `report` tells, as JSON, what it has heard and what the SDK's models lost of it.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import socket
import sys
from typing import Any

import strictness  # type: ignore[import-not-found]  # it lies beside this script, and is found when that runs
from acp import schema, update_agent_message_text
from acp.connection import StreamDirection, StreamEvent
from acp.core import run_agent
from acp.exceptions import RequestError

MODES = schema.SessionModeState(
    current_mode_id="careful",
    available_modes=[
        schema.SessionMode(id="careful", name="Careful"),
        schema.SessionMode(id="quick", name="Quick", description="Asks less"),
    ],
)


class Recorder:
    """The client's methods and answers, and the parts of them that the SDK's models drop."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.lost: list[str] = []
        self._sent_methods: dict[Any, str] = {}

    def __call__(self, event: StreamEvent) -> None:
        message = event.message
        method = message.get("method")
        if event.direction is StreamDirection.OUTGOING:
            if method is not None and "id" in message:
                self._sent_methods[message["id"]] = method
        elif method is not None:
            self._note(method, message["params"], strictness.params_model(method, message["params"]))
        elif "result" in message and (text := self._sent_methods.pop(message["id"], None)) is not None:
            self._note(f"answer to {text}", message["result"], strictness.result_model(text))

    def _note(self, name: str, content: Any, model: Any) -> None:
        self.heard.append(name)
        self.lost.extend(f"{name}: {loss}" for loss in strictness.lost_in(content, model))


class InteropAgent:
    def __init__(self) -> None:
        self.recorder = Recorder()
        self.sessions: dict[str, list[str]] = {}  # what was asked in each
        self.cancelled: dict[str, asyncio.Event] = {}
        self.model, self.loud = "small", False

    def on_connect(self, client: Any) -> None:
        self.client = client
        connection = client._conn
        connection.add_observer(self.recorder)
        # Stable in the protocol, but the SDK's router has the first two not at all and calls the others unstable.
        routes = connection._handler
        routes.route_request("logout", schema.LogoutRequest, self, "logout")
        routes.route_request("session/delete", schema.DeleteSessionRequest, self, "delete_session")
        routes.route_request("session/close", schema.CloseSessionRequest, self, "close_session")
        routes.route_request("session/resume", schema.ResumeSessionRequest, self, "resume_session")

    # -- the methods of an agent

    async def initialize(self, protocol_version: int, **_: Any) -> schema.InitializeResponse:
        return schema.InitializeResponse(
            protocol_version=1,
            agent_capabilities=schema.AgentCapabilities(
                load_session=True,
                prompt_capabilities=schema.PromptCapabilities(image=True, audio=True, embedded_context=True),
                mcp_capabilities=schema.McpCapabilities(http=True, sse=True),
                session_capabilities=schema.SessionCapabilities(
                    list=schema.SessionListCapabilities(),
                    delete=schema.SessionDeleteCapabilities(),
                    additional_directories=schema.SessionAdditionalDirectoriesCapabilities(),
                    resume=schema.SessionResumeCapabilities(),
                    close=schema.SessionCloseCapabilities(),
                ),
                auth=schema.AgentAuthCapabilities(logout=schema.LogoutCapabilities()),
            ),
            auth_methods=[schema.AuthMethodAgent(id="key", name="A key", description="Any will do")],
            agent_info=schema.Implementation(name="python-sdk-agent", version="1"),
        )

    async def authenticate(self, method_id: str, **_: Any) -> schema.AuthenticateResponse:
        if method_id != "key":
            raise RequestError.invalid_params({"details": f"no method {method_id}"})
        return schema.AuthenticateResponse()

    async def logout(self, **_: Any) -> schema.LogoutResponse:
        return schema.LogoutResponse()

    async def new_session(self, cwd: str, **_: Any) -> schema.NewSessionResponse:
        session_id = f"session-{len(self.sessions) + 1}"
        self._opened(session_id)
        return schema.NewSessionResponse(session_id=session_id, modes=MODES, config_options=self._options())

    async def load_session(self, cwd: str, session_id: str, **_: Any) -> Any:
        self._opened(session_id)
        for text in self.sessions[session_id] or ["something, long ago"]:
            content = schema.TextContentBlock(type="text", text=text)
            update = schema.UserMessageChunk(session_update="user_message_chunk", content=content)
            await self.client.session_update(session_id=session_id, update=update)
            await self._say(session_id, f"answered: {text}")
        if session_id == "told":  # as the server expects of agents that are loaded over HTTP
            return {"sessionId": session_id}
        return schema.LoadSessionResponse(modes=MODES, config_options=self._options())

    async def resume_session(self, session_id: str, cwd: str, **_: Any) -> schema.ResumeSessionResponse:
        self._opened(session_id)
        return schema.ResumeSessionResponse(modes=MODES, config_options=self._options())

    async def list_sessions(self, cursor: str | None = None, **_: Any) -> schema.ListSessionsResponse:
        """A page a session."""
        names = sorted(self.sessions)
        at = int(cursor or 0)
        found = [schema.SessionInfo(session_id=name, cwd="/", title=f"About {name}") for name in names[at : at + 1]]
        return schema.ListSessionsResponse(sessions=found, next_cursor=str(at + 1) if at + 1 < len(names) else None)

    async def delete_session(self, session_id: str, **_: Any) -> schema.DeleteSessionResponse:
        self.sessions.pop(session_id, None)
        return schema.DeleteSessionResponse()

    async def close_session(self, session_id: str, **_: Any) -> schema.CloseSessionResponse:
        self.cancelled.pop(session_id).set()
        return schema.CloseSessionResponse()

    async def set_session_mode(self, session_id: str, mode_id: str, **_: Any) -> schema.SetSessionModeResponse:
        update = schema.CurrentModeUpdate(session_update="current_mode_update", current_mode_id=mode_id)
        await self.client.session_update(session_id=session_id, update=update)
        return schema.SetSessionModeResponse()

    async def set_config_option(self, config_id: str, session_id: str, value: str | bool, **_: Any) -> Any:
        if config_id == "model":
            self.model = str(value)
        else:
            self.loud = bool(value)
        return schema.SetSessionConfigOptionResponse(config_options=self._options())

    async def cancel(self, session_id: str, **_: Any) -> None:
        self.cancelled[session_id].set()

    async def prompt(self, session_id: str, prompt: list[Any], **_: Any) -> schema.PromptResponse:
        text, _space, rest = " ".join(getattr(block, "text", block.type) for block in prompt).partition(" ")
        self.sessions[session_id].append(text)
        self.cancelled[session_id].clear()
        match text:
            case "updates":
                await self._updates(session_id)
            case "permission":
                await self._permission(session_id)
            case "files":
                await self._files(session_id, rest)
            case "terminals":
                await self._terminals(session_id)
            case "wait":
                await self._say(session_id, "waiting")
                await self.cancelled[session_id].wait()
                return schema.PromptResponse(stop_reason="cancelled")
            case "flood":
                for number in range(int(rest)):
                    await self._say(session_id, f"{number}\n")
            case "report":
                await self._say(session_id, json.dumps({"heard": self.recorder.heard, "lost": self.recorder.lost}))
            case _:
                await self._say(session_id, f"echo: {text}")
        return schema.PromptResponse(stop_reason="end_turn")

    # -- what it does

    def _opened(self, session_id: str) -> None:
        self.sessions.setdefault(session_id, [])
        self.cancelled[session_id] = asyncio.Event()

    def _options(self) -> list[Any]:
        values = [schema.SessionConfigSelectOption(value=name, name=name.title()) for name in ("small", "large")]
        return [
            schema.SessionConfigOptionSelect(
                type="select", id="model", name="Model", category="model", current_value=self.model, options=values
            ),
            schema.SessionConfigOptionBoolean(type="boolean", id="loud", name="Loud", current_value=self.loud),
        ]

    async def _say(self, session_id: str, text: str) -> None:
        await self.client.session_update(session_id=session_id, update=update_agent_message_text(text))

    async def _updates(self, session_id: str) -> None:
        text = schema.TextContentBlock(type="text", text="said")
        blocks = [
            text,
            schema.ImageContentBlock(type="image", data="aGk=", mime_type="image/png"),
            schema.AudioContentBlock(type="audio", data="aGk=", mime_type="audio/wav"),
            schema.ResourceContentBlock(type="resource_link", name="a file", uri="file:///a"),
            schema.EmbeddedResourceContentBlock(
                type="resource", resource=schema.TextResourceContents(uri="file:///b", text="b")
            ),
            schema.EmbeddedResourceContentBlock(
                type="resource", resource=schema.BlobResourceContents(uri="file:///c", blob="Yw==")
            ),
        ]
        updates = [
            schema.UserMessageChunk(session_update="user_message_chunk", content=text),
            schema.AgentThoughtChunk(session_update="agent_thought_chunk", content=text),
            *(schema.AgentMessageChunk(session_update="agent_message_chunk", content=block) for block in blocks),
            schema.ToolCallStart(
                session_update="tool_call",
                tool_call_id="call-1",
                title="Edit a file",
                kind="edit",
                status="pending",
                content=[schema.FileEditToolCallContent(type="diff", path="/a", old_text="1", new_text="2")],
                locations=[schema.ToolCallLocation(path="/a", line=1)],
                raw_input={"path": "/a"},
            ),
            schema.ToolCallProgress(
                session_update="tool_call_update",
                tool_call_id="call-1",
                status="completed",
                content=[schema.ContentToolCallContent(type="content", content=text)],
                raw_output={"ok": True},
            ),
            schema.AgentPlanUpdate(
                session_update="plan",
                entries=[schema.PlanEntry(content="Do it", priority="high", status="in_progress")],
            ),
            schema.AvailableCommandsUpdate(
                session_update="available_commands_update",
                available_commands=[schema.AvailableCommand(name="go", description="Goes")],
            ),
            schema.CurrentModeUpdate(session_update="current_mode_update", current_mode_id="quick"),
            schema.ConfigOptionUpdate(session_update="config_option_update", config_options=self._options()),
            schema.SessionInfoUpdate(session_update="session_info_update", title="A title"),
            schema.UsageUpdate(
                session_update="usage_update", used=10, size=100, cost=schema.Cost(amount=0.5, currency="USD")
            ),
        ]
        for update in updates:
            await self.client.session_update(session_id=session_id, update=update)

    async def _permission(self, session_id: str) -> None:
        call = schema.ToolCallUpdate(
            tool_call_id="call-2", title="Be bold", kind="execute", raw_input={"command": "ls"}
        )
        options = [
            schema.PermissionOption(option_id="yes", name="Yes", kind="allow_once"),
            schema.PermissionOption(option_id="no", name="No", kind="reject_once"),
        ]
        answer = await self.client.request_permission(session_id=session_id, tool_call=call, options=options)
        await self._say(session_id, answer.outcome.model_dump_json(by_alias=True, exclude_none=True))

    async def _files(self, session_id: str, folder: str) -> None:
        path = os.path.join(folder, "new", "notes.txt")
        await self.client.write_text_file(session_id=session_id, path=path, content="one\ntwo\nthree\n")
        answer = await self.client.read_text_file(session_id=session_id, path=path, line=2, limit=1)
        await self._say(session_id, answer.content)

    async def _terminals(self, session_id: str) -> None:
        same: dict[str, Any] = {"session_id": session_id}
        made = await self.client.create_terminal(
            **same,
            command="sh",
            args=["-c", 'printf "%s" "$WORD"; exit 3'],
            env=[schema.EnvVariable(name="WORD", value="hello")],
            output_byte_limit=1000,
        )
        same["terminal_id"] = made.terminal_id
        ended = await self.client.wait_for_terminal_exit(**same)
        shown = await self.client.terminal_output(**same)
        await self.client.release_terminal(**same)
        made = await self.client.create_terminal(session_id=session_id, command="sleep", args=["600"])
        same["terminal_id"] = made.terminal_id
        await self.client.kill_terminal(**same)
        killed = await self.client.wait_for_terminal_exit(**same)
        await self.client.release_terminal(**same)
        result = {
            "exit": ended.exit_code,
            "output": shown.output,
            "truncated": shown.truncated,
            "signal": killed.signal,
        }
        await self._say(session_id, json.dumps(result))


def serve() -> None:
    uvicorn: Any = importlib.import_module("uvicorn")  # not a part of our own environment
    from acp.http.asgi import create_asgi_app

    app = create_asgi_app(lambda _: InteropAgent())
    token = os.environ.get("TOKEN")

    async def guarded(scope: Any, receive: Any, send: Any) -> None:
        headers = dict(scope.get("headers", ()))
        if scope["type"] == "lifespan" or token is None or headers.get(b"authorization") == f"Bearer {token}".encode():
            await app(scope, receive, send)
        elif scope["type"] == "http":
            await send({"type": "http.response.start", "status": 401, "headers": []})
            await send({"type": "http.response.body", "body": b"who are you?"})
        else:
            await receive()
            await send({"type": "websocket.http.response.start", "status": 401, "headers": []})
            await send({"type": "websocket.http.response.body", "body": b"who are you?"})

    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    listening.listen()  # before anyone is told of it
    print(listening.getsockname()[1], flush=True)
    uvicorn.Server(uvicorn.Config(guarded, log_level="warning")).run([listening])


if __name__ == "__main__":
    if sys.argv[1:] == ["serve"]:
        serve()
    else:
        asyncio.run(run_agent(InteropAgent()))
