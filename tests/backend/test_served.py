"""What a front end hears of what we do for the agent."""

from __future__ import annotations

from pathlib import Path

from dragoman import AgentSpec, SessionConfig, Workspace
from dragoman.backend import BackendAdapter, permission_response, user_message
from dragoman.testing.memory import in_memory
from dragoman.testing.scripted import ScriptedAgent, Turn

from .conftest import talking, until


async def writes(turn: Turn) -> None:
    path = f"{turn.agent.all_heard('session/new')[0].params['cwd']}/new.txt"
    await turn.agent.request("fs/write_text_file", {"sessionId": turn.session_id, "path": path, "content": "written"})


async def test_a_file_that_we_wrote_is_told_after_the_agent_asked_for_it(folder: Path) -> None:
    spec = AgentSpec(command=["memory"], write_files=True)
    adapter = BackendAdapter(spec, launch=in_memory(ScriptedAgent(writes).main))
    async with talking(adapter, SessionConfig(workspace=Workspace(folder))) as session:
        await session.send(user_message("go"))
        asked = (await until(session, "permission_request"))[-1]
        await session.send(permission_response(asked, "allow"))
        [wrote] = [message for message in await until(session, "result") if message.type == "tool_use_summary"]
        assert (wrote.role, wrote.metadata["origin"], wrote.metadata["status"]) == ("tool", "files", "completed")
        assert wrote.metadata["title"] == "Write new.txt"
