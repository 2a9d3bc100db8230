"""A client built on the official Python SDK that says again what a recorded client said. Runs in the environment of the
SDK, not in ours.

On stdin it gets a list of plays as JSON, each with the agent's `command`, the `steps` of the client (each is taken
`after` so much was heard), its `answers` to the agent's requests by method, and how much is `heard` in all. On stdout
it reports, of each, the `outcomes` of its requests and what the SDK made of the updates.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

from acp import schema
from acp.connection import StreamDirection, StreamEvent
from acp.core import connect_to_agent
from acp.exceptions import RequestError

LIMIT = 20


class RecordedClient:
    """Answers as recorded, method by method."""

    def __init__(self, answers: dict[str, list[Any]]) -> None:
        self.answers = answers
        self.text: dict[str, str] = {}  # by session
        self.updates = 0
        self.updated = asyncio.Event()

    def on_connect(self, agent: Any) -> None:
        pass

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        self.updates += 1
        if isinstance(update, schema.AgentMessageChunk) and isinstance(update.content, schema.TextContentBlock):
            self.text[session_id] = self.text.get(session_id, "") + update.content.text
        self.updated.set()

    async def _answer(self, method: str, model: Any) -> Any:
        answer = self.answers[method].pop(0)
        if answer is None:  # none was recorded
            await asyncio.Event().wait()
        if "error" in answer:
            raise RequestError(answer["error"]["code"], answer["error"]["message"])
        return model.model_validate(answer["result"])

    async def request_permission(self, **_: Any) -> Any:
        return await self._answer("session/request_permission", schema.RequestPermissionResponse)

    async def read_text_file(self, **_: Any) -> Any:
        return await self._answer("fs/read_text_file", schema.ReadTextFileResponse)

    async def write_text_file(self, **_: Any) -> Any:
        return await self._answer("fs/write_text_file", schema.WriteTextFileResponse)

    async def create_terminal(self, **_: Any) -> Any:
        return await self._answer("terminal/create", schema.CreateTerminalResponse)

    async def wait_for_terminal_exit(self, **_: Any) -> Any:
        return await self._answer("terminal/wait_for_exit", schema.WaitForTerminalExitResponse)

    async def terminal_output(self, **_: Any) -> Any:
        return await self._answer("terminal/output", schema.TerminalOutputResponse)

    async def release_terminal(self, **_: Any) -> Any:
        return await self._answer("terminal/release", schema.ReleaseTerminalResponse)

    async def ext_method(self, method: str, params: Any) -> Any:
        raise RequestError.method_not_found(method)

    async def ext_notification(self, method: str, params: Any) -> None:
        pass


async def ask(agent: Any, method: str, params: Any) -> Any:
    """By the SDK's own calls, as far as it has them."""
    match method:
        case "initialize":
            request = schema.InitializeRequest.model_validate(params)
            return await agent.initialize(
                protocol_version=request.protocol_version,
                client_capabilities=request.client_capabilities,
                client_info=request.client_info,
            )
        case "session/new":
            request = schema.NewSessionRequest.model_validate(params)
            return await agent.new_session(cwd=request.cwd, mcp_servers=request.mcp_servers)
        case "session/load":
            request = schema.LoadSessionRequest.model_validate(params)
            return await agent.load_session(
                cwd=request.cwd, session_id=request.session_id, mcp_servers=request.mcp_servers
            )
        case "session/prompt" if "prompt" in params:
            request = schema.PromptRequest.model_validate(params)
            return await agent.prompt(session_id=request.session_id, prompt=request.prompt)
        case "authenticate":
            return await agent.authenticate(method_id=params["methodId"])
        case "session/set_mode":
            return await agent.set_session_mode(session_id=params["sessionId"], mode_id=params["modeId"])
        case _:
            return await agent._conn.send_request(method, params)


async def outcome(agent: Any, step: Any) -> Any:
    try:
        answer = await ask(agent, step["method"], step["params"])
    except RequestError as refusal:
        return refusal.code
    return answer.stop_reason if isinstance(answer, schema.PromptResponse) else "answered"


async def play(play: Any) -> Any:
    process = await asyncio.create_subprocess_exec(
        *play["command"],
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=50_000_000,
        env=os.environ,
    )
    client = RecordedClient(play["answers"])
    agent = connect_to_agent(client, process.stdin, process.stdout, use_unstable_protocol=True)
    heard, sent, more = 0, 0, asyncio.Event()

    def listen(event: StreamEvent) -> None:
        nonlocal heard, sent
        heard += event.direction is StreamDirection.INCOMING
        sent += event.direction is StreamDirection.OUTGOING and "method" in event.message
        more.set()

    async def until(hear: int, say: int) -> None:
        """So much was heard, and so much of ours is on its way."""
        while heard < hear or sent < say:
            more.clear()
            await more.wait()

    agent._conn.add_observer(listen)
    tasks: list[asyncio.Task[Any]] = []
    problem = None
    try:
        async with asyncio.timeout(LIMIT):
            for number, step in enumerate(play["steps"]):
                await until(step["after"], number)
                if step["asks"]:
                    tasks.append(asyncio.ensure_future(outcome(agent, step)))
                else:
                    await agent._conn.send_notification(step["method"], step["params"])
            await until(play["heard"], len(play["steps"]))
            await asyncio.gather(*tasks)
            while client.updates < play["updates"]:
                client.updated.clear()
                await client.updated.wait()
    except Exception as error:
        problem = f"{type(error).__name__}: {error}; heard {heard} of {play['heard']}"
    finally:
        for task in tasks:
            task.cancel()
        await agent.close()
        if process.stdin is not None:
            process.stdin.close()
        await process.wait()
    outcomes = [task.result() if task.done() and not task.cancelled() else None for task in tasks]
    return {"outcomes": outcomes, "text": client.text, "updates": client.updates, "problem": problem}


async def main() -> None:
    plays = json.load(sys.stdin)
    print(json.dumps([await play(each) for each in plays]))


if __name__ == "__main__":
    asyncio.run(main())
