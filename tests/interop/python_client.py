"""A client built on the official Python SDK, which drives an agent. Runs in the environment of the SDK, not in ours.

Its one argument is JSON: the agent's `command`, the `folder` to work in, the `prompts` to send, and those to
`cancel`. On stdout it reports, as JSON, what it heard, and what of that was not to the letter.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import strictness  # type: ignore[import-not-found]  # it lies beside this script, and is found when that runs
from acp import schema, text_block
from acp.connection import StreamDirection, StreamEvent
from acp.core import connect_to_agent
from acp.exceptions import RequestError

LIMIT = 60

CAPABILITIES = schema.ClientCapabilities(
    fs=schema.FileSystemCapabilities(read_text_file=True, write_text_file=True),
    terminal=True,
    session=schema.ClientSessionCapabilities(
        config_options=schema.SessionConfigOptionsCapabilities(boolean=schema.BooleanConfigOptionCapabilities())
    ),
    elicitation=schema.ElicitationCapabilities(
        form=schema.ElicitationFormCapabilities(), url=schema.ElicitationUrlCapabilities()
    ),
)


class Recorder:
    """Every frame that the agent sent, held against the SDK's models."""

    def __init__(self) -> None:
        self.heard: set[str] = set()
        self.problems: list[str] = []
        self._sent_methods: dict[Any, str] = {}

    def __call__(self, event: StreamEvent) -> None:
        message = event.message
        method = message.get("method")
        if event.direction is StreamDirection.OUTGOING:
            if method is not None and "id" in message:
                self._sent_methods[message["id"]] = method
        elif method is not None:
            name = f"{method} {message['params']['update']['sessionUpdate']}" if method == "session/update" else method
            self._note(name, message["params"], strictness.params_model(method, message["params"]))
        elif "error" not in message:
            method = self._sent_methods.pop(message["id"])
            self._note(f"answer to {method}", message["result"], strictness.result_model(method))

    def _note(self, name: str, content: Any, model: Any) -> None:
        self.heard.add(name)
        self.problems.extend(f"{name}: {loss}" for loss in strictness.lost_in(content, model))


class InteropClient:
    def __init__(self) -> None:
        self.texts: list[str] = []
        self.working = asyncio.Event()  # set when the agent is in the middle of something
        self._terminals: dict[str, asyncio.subprocess.Process] = {}
        self._output: dict[str, bytes] = {}

    def on_connect(self, agent: Any) -> None:
        pass

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        if isinstance(update, schema.AgentMessageChunk) and isinstance(update.content, schema.TextContentBlock):
            self.texts.append(update.content.text)
            self.working.set()

    async def request_permission(self, session_id: str, tool_call: Any, options: Any, **_: Any) -> Any:
        option = next(option for option in options if option.kind == "allow_once")
        outcome = schema.AllowedOutcome(outcome="selected", option_id=option.option_id)
        return schema.RequestPermissionResponse(outcome=outcome)

    async def read_text_file(self, session_id: str, path: str, **_: Any) -> Any:
        try:
            return schema.ReadTextFileResponse(content=Path(path).read_text())  # noqa: ASYNC240 (small, and nobody waits)
        except FileNotFoundError:
            raise RequestError.resource_not_found(path) from None

    async def write_text_file(self, session_id: str, path: str, content: str, **_: Any) -> Any:
        Path(path).write_text(content)  # noqa: ASYNC240 (the same)
        return schema.WriteTextFileResponse()

    async def create_terminal(
        self, session_id: str, command: str, args: Any = None, env: Any = None, cwd: Any = None, **_: Any
    ) -> Any:
        process = await asyncio.create_subprocess_exec(
            command, *(args or []), cwd=cwd, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )
        self._terminals[str(process.pid)] = process
        return schema.CreateTerminalResponse(terminal_id=str(process.pid))

    async def wait_for_terminal_exit(self, session_id: str, terminal_id: str, **_: Any) -> Any:
        process = self._terminals[terminal_id]
        self.working.set()
        output, *_unused = await process.communicate()
        self._output[terminal_id] = output
        return schema.WaitForTerminalExitResponse(exit_code=process.returncode)

    async def terminal_output(self, session_id: str, terminal_id: str, **_: Any) -> Any:
        code = self._terminals[terminal_id].returncode
        status = None if code is None else schema.TerminalExitStatus(exit_code=code)
        output = self._output.get(terminal_id, b"").decode()
        return schema.TerminalOutputResponse(output=output, truncated=False, exit_status=status)

    async def kill_terminal(self, session_id: str, terminal_id: str, **_: Any) -> Any:
        self._terminals[terminal_id].kill()
        return schema.KillTerminalResponse()

    async def release_terminal(self, session_id: str, terminal_id: str, **_: Any) -> Any:
        self._terminals.pop(terminal_id, None)
        return schema.ReleaseTerminalResponse()

    async def create_elicitation(self, message: str, mode: Any, **_: Any) -> Any:
        content = {"colour": "red", "files": 3, "happy": True} if hasattr(mode, "requested_schema") else None
        return schema.AcceptElicitationResponse(action="accept", content=content)

    async def complete_elicitation(self, elicitation_id: str, **_: Any) -> None:
        pass


async def drive(agent: Any, client: InteropClient, recorder: Recorder, given: Any) -> dict[str, Any]:
    folder, outcomes = given["folder"], {}

    async def ask(method: str, params: dict[str, Any]) -> Any:
        """Send a request for which the SDK has no method."""
        return await agent._conn.send_request(method, params)

    await agent.initialize(protocol_version=1, client_capabilities=CAPABILITIES)
    await agent.authenticate(method_id="demo-login")
    opened = await agent.new_session(cwd=folder, mcp_servers=[])
    same = {"session_id": opened.session_id}
    await agent.set_session_mode(**same, mode_id="ask")
    await agent.set_session_mode(**same, mode_id="code")
    await agent.set_config_option(**same, config_id="model", value="demo-large")
    await agent.set_config_option(**same, config_id="word_by_word", value=False)
    for prompt in given["prompts"]:
        try:
            answer = await agent.prompt(**same, prompt=[text_block(prompt)])
            outcomes[prompt] = answer.stop_reason
        except RequestError as refusal:
            outcomes[prompt] = refusal.code
    for prompt in given["cancel"]:
        client.working.clear()
        cancelled = asyncio.ensure_future(agent.prompt(**same, prompt=[text_block(prompt)]))
        await client.working.wait()
        await agent.cancel(**same)
        outcomes[prompt] = (await cancelled).stop_reason
    listed = await agent.list_sessions(cwd=folder)
    assert [info.session_id for info in listed.sessions] == [opened.session_id], listed
    await agent.close_session(**same)
    before = len(client.texts)
    await agent.load_session(**same, cwd=folder, mcp_servers=[])
    assert len(client.texts) > before, "nothing was replayed"
    await agent.close_session(**same)
    await agent.resume_session(**same, cwd=folder, mcp_servers=[])
    forked = await agent.fork_session(**same, cwd=folder, mcp_servers=[])
    await ask("session/delete", {"sessionId": forked.session_id})
    await ask("logout", {})
    return outcomes


async def main() -> None:
    given = json.loads(sys.argv[1])
    process = await asyncio.create_subprocess_exec(
        *given["command"],
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=50_000_000,
        env=os.environ,
    )
    client, recorder = InteropClient(), Recorder()
    agent = connect_to_agent(client, process.stdin, process.stdout, use_unstable_protocol=True)
    agent._conn.add_observer(recorder)
    try:
        async with asyncio.timeout(LIMIT):
            outcomes = await drive(agent, client, recorder, given)
        report = {"outcomes": outcomes, "heard": sorted(recorder.heard), "problems": recorder.problems}
    finally:
        await agent.close()
        if process.stdin is not None:
            process.stdin.close()
        await process.wait()
    print(json.dumps(report))


if __name__ == "__main__":
    asyncio.run(main())
