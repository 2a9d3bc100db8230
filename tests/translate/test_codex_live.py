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
from agents.conftest import TIMEOUT_S, staged
from dragoman.errors import RequestFailed
from dragoman.host.permission import OnPermission
from dragoman.record.fold import SessionFold
from dragoman.record.routing import fold_recording
from dragoman.wire.vocabulary import Diff
from translate.claude_talk import folds
from translate.codex_talk import translated

# The first test may have to install the agent.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def _tool(name: str, input: Any) -> str:
    return f"[[tool:{name} {json.dumps(input)}]]"


def conversation(fold: SessionFold) -> dict[str, Any]:
    """The visible parts. The adapter gives thoughts a blank beginning, and a question names a patch otherwise."""
    return {
        "messages": [(message.kind, message.text.strip(), message.message_id) for message in fold.messages],
        "tools": [
            {
                "id": call.tool_call_id,
                "title": call.title.replace("Edit files", "Editing files"),
                "kind": call.kind,
                "status": call.status,
                "diffs": [(item.path, item.old_text, item.new_text) for item in call.content if isinstance(item, Diff)],
            }
            for call in fold.tool_calls
        ],
        "runs": [(run.status, run.stop_reason) for run in fold.runs.values()],
        "tokens": [run.usage for run in fold.runs.values()],
        "title": fold.title,
        "settings": {id_: setting.current for id_, setting in fold.settings.items() if id_ != "fast-mode"},
    }


async def _lived_and_imported(
    tmp_path: Path, request: pytest.FixtureRequest, prompts: Sequence[str], on_permission: OnPermission = allow
) -> tuple[SessionFold, SessionFold]:
    [agent] = [agent for agent in AGENTS if agent.id == "codex"]
    async with staged(agent, tmp_path, request.config) as stage, asyncio.timeout(TIMEOUT_S):
        (stage.folder / "old.txt").write_text("one\ntwo\nthree\n")
        (stage.folder / "gone.txt").write_text("gone\n")
        async with stage.session(on_permission) as session:
            for prompt in prompts:
                with suppress(RequestFailed):
                    await session.run(prompt)
            session_id = session.snapshot().agent_session_id
        assert session_id
        [path] = stage.home.glob(f".codex/sessions/**/*{session_id}.jsonl")
        imported = folds(translated(path.read_bytes().splitlines(), path.name))
        return fold_recording(stage.lines)[session_id], imported[session_id]


async def test_messages_and_tool_calls_are_the_same(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    update = "*** Begin Patch\n*** Update File: old.txt\n@@\n-one\n+ONE\n two\n*** End Patch\n"
    several = "*** Begin Patch\n*** Add File: sub/new.txt\n+new\n*** Delete File: gone.txt\n*** End Patch\n"
    prompts = [
        "[[think:Let me see.]][[say:I will look. ]]"
        + _tool("exec_command", {"cmd": "ls"})
        + _tool("exec_command", {"cmd": "cat old.txt"})
        + _tool("exec_command", {"cmd": "grep -n one old.txt"})
        + "[[say:Seen.]]",
        _tool("apply_patch", update) + _tool("apply_patch", several) + "[[say:Changed.]]",
        _tool("exec_command", {"cmd": "echo no; exit 3"}) + "[[say:Failed.]]",
    ]
    lived, imported = await _lived_and_imported(tmp_path, request, prompts)
    assert conversation(imported) == conversation(lived)
    assert [call.status for call in imported.tool_calls] == ["completed"] * 5 + ["failed"]


async def test_a_refusal_is_the_same(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    command = {"cmd": "touch x", "sandbox_permissions": "require_escalated", "justification": "a test"}
    prompt = _tool("exec_command", command) + "[[say:Well.]]"
    lived, imported = await _lived_and_imported(tmp_path, request, [prompt], refuse)
    # The adapter gives no title where the first run was cancelled.
    assert {**conversation(imported), "title": None} == conversation(lived)
    assert [run.status for run in imported.runs.values()] == ["cancelled"]
    assert [call.status for call in imported.tool_calls] == ["failed"]


async def test_an_error_of_the_provider_is_one_in_the_transcript(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    lived, imported = await _lived_and_imported(tmp_path, request, ["[[http:400]]", "[[say:Better.]]"])
    # The adapter sends an error as text of the model, and ends the run as successful.
    assert [run.status for run in imported.runs.values()] == ["error", "success"]
    (failed, _) = imported.runs.values()
    assert failed.error is not None
    assert failed.error.message in lived.messages[1].text
    assert [message.text for message in imported.messages][-1] == "Better."


async def test_calls_that_the_adapter_omits_are_reported(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    lived, imported = await _lived_and_imported(tmp_path, request, [_tool("no_such_tool", {"x": 1}) + "[[say:Oh.]]"])
    assert not list(lived.tool_calls)
    assert [(call.title, call.status) for call in imported.tool_calls] == [("no_such_tool", "failed")]
