"""Real agents' requests under a policy. The recordings are not part of the repository: `DRAGOMAN_RECORDINGS` names
their folder."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dragoman.host.permission import PermissionRequest
from dragoman.host.policy.policy import build_policy
from dragoman.host.policy.remembered import derive
from dragoman.host.policy.rules import PolicyRule
from dragoman.host.requests import Requests
from dragoman.workspace import Workspace

FOLDER = Path(os.environ.get("DRAGOMAN_RECORDINGS") or Path(__file__).resolve().parents[3] / "shared" / "recordings")
AGENTS = sorted(path.name for path in FOLDER.glob("*") if path.is_dir())

pytestmark = pytest.mark.skipif(
    not AGENTS, reason=f"no recordings in {FOLDER}: set DRAGOMAN_RECORDINGS to their folder"
)


def recorded(agent: str, workspace: Workspace) -> Iterator[PermissionRequest]:
    """Yield each recorded permission request as the host would see it, in this workspace."""
    for path in sorted((FOLDER / agent).glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            frame: Any = json.loads(line)["frame"]
            if not isinstance(frame, dict) or frame.get("method") != "session/request_permission":
                continue
            text = json.dumps(frame["params"]).replace(f"/home/ada/ws/{agent}/{path.stem}", str(workspace.cwd))
            yield Requests("s", agent, workspace).of_tool_call(msgspec.Raw(text.encode()), None)


@pytest.mark.parametrize("agent", AGENTS)
def test_what_real_agents_ask_is_asked_until_a_rule_answers_it(agent: str, workspace: Workspace) -> None:
    requests = list(recorded(agent, workspace))
    assert requests
    for request in requests:
        assert build_policy("ask").judge(request, workspace).decision == "ask"
        assert build_policy("ask", user=[PolicyRule("deny", agent=agent)]).judge(request, workspace).decision == "deny"
        if request.kind == "edit":
            assert build_policy("edit-inside").judge(request, workspace).decision == "allow"
            assert (
                build_policy("read-only", remembered=[PolicyRule("allow")]).judge(request, workspace).decision == "deny"
            )
        if request.command:
            rules = [PolicyRule("allow", command=["echo *", "cat *"])]
            assert build_policy("edit-inside", user=rules).judge(request, workspace).decision == "allow"
            assert (
                build_policy("full", user=[PolicyRule("deny", command="echo *")]).judge(request, workspace).decision
                == "deny"
            )


@pytest.mark.parametrize("agent", AGENTS)
def test_an_always_to_a_real_request_answers_it_the_next_time(agent: str, workspace: Workspace) -> None:
    for request in recorded(agent, workspace):
        derived = derive(request, workspace, "allow")
        if derived.rules:
            assert build_policy("ask", remembered=derived.rules).judge(request, workspace).decision == "allow"
        else:  # gemini, kimi and goose leave out what would name it
            assert derived.error
            assert request.command is None
            assert request.name is None


@pytest.mark.parametrize("agent", ["claude", "gemini", "goose", "kimi"])
def test_a_deny_of_an_mcp_server_holds_however_the_agent_names_its_tools(agent: str, workspace: Workspace) -> None:
    if agent not in AGENTS:
        pytest.skip(f"no recordings of {agent}")
    policy = build_policy("full", user=[PolicyRule("deny", mcp="note/*")])
    denied = [request for request in recorded(agent, workspace) if policy.judge(request, workspace).decision == "deny"]
    assert denied
    assert all("note" in request.title for request in denied)
