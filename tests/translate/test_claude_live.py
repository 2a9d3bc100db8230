"""A session of the real agent, live through ACP and from its transcript: the same conversation.

docs/transcripts.md lists the differences.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from agents.acts import allow, refuse
from agents.catalog import AGENTS
from agents.conftest import TIMEOUT_S, Stage, staged
from dragoman import Session
from dragoman.errors import RequestFailed
from dragoman.host.permission import OnPermission
from dragoman.record.fold import SessionFold
from dragoman.record.routing import fold_recording
from translate.claude_talk import folds, translated

# The first test may have to install the agent.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def _tool(name: str, **input: Any) -> str:
    return f"[[tool:{name} {json.dumps(input)}]]"


def conversation(fold: SessionFold) -> dict[str, Any]:
    """The visible parts. Permissions are in no transcript, and neither is what was streamed in which piece."""
    return {
        "messages": [(message.kind, message.text, message.message_id) for message in fold.messages],
        "tools": [
            {
                "id": call.tool_call_id, "title": call.title, "name": call.name, "kind": call.kind,
                "status": call.status, "content": call.content, "input": call.raw_input, "output": call.raw_output,
                "locations": call.locations,
            }
            for call in fold.tool_calls
        ],
        "plans": fold.plans,
        "runs": [(run.status, run.stop_reason) for run in fold.runs.values()],
        "tokens": [
            (run.usage.input_tokens, run.usage.output_tokens, run.usage.total_tokens) if run.usage else None
            for run in fold.runs.values()
        ],
        "used": fold.usage.context_used,
    }  # fmt: skip


async def _lived_and_told(
    tmp_path: Path, request: pytest.FixtureRequest, prompts: Sequence[str], on_permission: OnPermission = allow
) -> tuple[SessionFold, SessionFold]:
    [agent] = [agent for agent in AGENTS if agent.id == "claude"]
    async with staged(agent, tmp_path, request.config) as stage, asyncio.timeout(TIMEOUT_S):
        (stage.folder / "old.txt").write_text("one\ntwo\nthree\n")
        for name, text in agent.command_files.items():
            (stage.folder / name).parent.mkdir(parents=True)
            (stage.folder / name).write_text(text)
        async with stage.session(on_permission) as session:
            for prompt in prompts:
                with suppress(RequestFailed):
                    await session.run(prompt.replace("{folder}", str(stage.folder)))
            session_id = _id(session)
        return fold_recording(stage.lines)[session_id], _translate(stage, session_id)


def _id(session: Session) -> str:
    session_id = session.snapshot().agent_session_id
    assert session_id
    return session_id


def _translate(stage: Stage, session_id: str) -> SessionFold:
    [path] = stage.home.glob(f".claude/projects/*/{session_id}.jsonl")
    return folds(translated(path.read_bytes().splitlines(), path.name))[session_id]


async def test_messages_and_tool_calls_are_the_same(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    prompts = [
        "[[think:Let me see.]][[say:I will look. ]]"
        + _tool("Bash", command="echo hello && echo there", description="greet")
        + "[[say:done]]",
        _tool("Write", file_path="{folder}/new.txt", content="fresh\n")
        + _tool("Read", file_path="{folder}/old.txt")
        + _tool("Edit", file_path="{folder}/old.txt", old_string="two", new_string="2")
        + "[[say:written]]",
        _tool("Bash", command="exit 3", description="fail") + _tool("no_such_tool", x=1) + "[[say:failed]]",
    ]
    lived, translated = await _lived_and_told(tmp_path, request, prompts)
    assert conversation(translated) == conversation(lived)


async def test_a_refusal_differs_only_by_the_details_of_the_permission_request(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    prompt = _tool("Bash", command="touch x", description="make it") + "[[say:Well.]]"
    lived, translated = (conversation(fold) for fold in await _lived_and_told(tmp_path, request, [prompt], refuse))
    for seen in (lived, translated):
        for tool in seen["tools"]:
            del tool["locations"]
    assert translated == lived
    assert [tool["status"] for tool in translated["tools"]] == ["failed"]


async def test_an_error_of_the_provider_ends_the_run_alike(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    lived, translated = await _lived_and_told(tmp_path, request, ["[[http:400]]", "[[say:Better.]]"])
    assert [run.status for run in translated.runs.values()] == [run.status for run in lived.runs.values()]
    errors = [[run.error for run in fold.runs.values()] for fold in (lived, translated)]
    assert errors[0] == errors[1]


async def test_a_slash_command_of_the_users_is_the_same(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    lived, translated = await _lived_and_told(tmp_path, request, ["/hello", "[[say:Yes.]]"])
    assert conversation(translated) == conversation(lived)
    assert translated.messages[0].text == "/hello"
