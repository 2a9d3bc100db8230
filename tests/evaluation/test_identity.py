"""Which requests are about a tool of ours: those of real agents, as they were seen, and what only looks like one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dragoman.agents.preset import load_preset
from dragoman.config import load
from dragoman.evaluation.attempt import SERVER, is_call_of, is_own
from dragoman.host.permission import PermissionRequest
from dragoman.host.requests import AgentTools, Requests
from dragoman.record import events
from dragoman.session.spec import spec_of_preset
from dragoman.wire.vocabulary import Diff
from dragoman.workspace import Workspace

NAME = "dragoman-1a2b3c4d"
TOOLS = ("run_it", "structured_output")
GIVEN = {"command": "rm -rf x", "url": "https://a.example", "path": "/etc/passwd"}


def asks(title: str = "", **more: Any) -> PermissionRequest:
    given = {"session_id": "s", "tool_call_id": "call_1", "title": title, "kind": "other", "options": ()}
    return PermissionRequest(**{**given, **more})


def own(request: PermissionRequest) -> bool:
    return is_own(request, NAME, TOOLS)


CLAUDE = asks(f"mcp__{NAME}__run_it", name=f"mcp__{NAME}__run_it", raw_input=GIVEN, command="rm -rf x")
CODEX = asks(f"mcp.{NAME}.run_it", kind="execute", raw_input={"server": NAME, "tool": "run_it", "arguments": GIVEN})
GEMINI = asks("rm -rf x", tool_call_id=f"mcp_{NAME}_run_it__call_1")
GOOSE = asks(f"{NAME}: run it", raw_input=GIVEN, command="rm -rf x")
KIMI = asks(f"mcp__{NAME}__run_it", tool_call_id="0:call_1")
OPENCODE = asks(f"{NAME}_run_it", raw_input=GIVEN, command="rm -rf x", paths=("/etc/passwd",))


TOOL_CALLS: dict[str, dict[str, Any]] = {
    "claude": {
        "name": "mcp__{}__run_it",
        "title": "mcp__{}__run_it",
        "kind": "other",
        "rawInput": GIVEN,
        "_meta": {"claudeCode": {"toolName": "mcp__{}__run_it"}},
    },
    "codex": {
        "title": "mcp.{}.run_it",
        "kind": "execute",
        "rawInput": {"server": "{}", "tool": "run_it", "arguments": GIVEN},
    },
    "copilot": {"title": "run_it", "kind": "other", "rawInput": GIVEN},
    "gemini": {"toolCallId": "mcp_{}_run_it__call_1", "title": "rm -rf x", "kind": "other", "locations": []},
    "goose": {"title": "{}: run it", "kind": "other", "rawInput": GIVEN},
    "kimi": {"title": "mcp__{}__run_it", "toolCallId": "0:call_1"},
    "opencode": {"title": "{}_run_it", "kind": "other", "rawInput": GIVEN, "locations": [{"path": "/etc/passwd"}]},
    "qwen": {
        "title": json.dumps(GIVEN),
        "kind": "other",
        "rawInput": GIVEN,
        "_meta": {"toolName": "mcp__{}__run_it"},
    },
}


FIRST_TITLES = {"copilot": f"{NAME}-run_it"}


@pytest.mark.parametrize("id", TOOL_CALLS)
def test_an_agents_own_way_to_name_a_tool_is_in_its_preset(id: str, tmp_path: Path) -> None:
    spec = spec_of_preset(load_preset(id, load(home=tmp_path, environ={})))
    call = json.dumps({"toolCallId": "call_1", **TOOL_CALLS[id]}).replace("{}", NAME)
    params = msgspec.Raw(b'{"toolCall": %b, "options": []}' % call.encode())
    fields = tuple(field for field in spec.tool_names if field.startswith("_meta."))
    requests = Requests("s", id, Workspace(tmp_path), AgentTools(name_fields=fields))
    request = requests.of_tool_call(params, None, lambda _: FIRST_TITLES.get(id))
    assert is_own(request, NAME, TOOLS, spec.tool_names)
    assert not is_own(request, "dragoman-00000000", TOOLS, spec.tool_names)


@pytest.mark.parametrize(
    ("first_title", "raw_input", "expected"),
    [
        ("Count them", {"description": "Count them"}, True),
        ("Count them", {"n": 1}, False),
        ("other-run_it", {"n": 1}, False),
        ("", {"n": 1}, False),
        (f"{NAME}-run_it", {"description": f"{NAME}-run_it"}, False),
    ],
)
def test_a_tool_that_is_named_without_its_server_counts_only_after_what_came_before(
    first_title: str, raw_input: Any, expected: bool, tmp_path: Path
) -> None:
    """Copilot CLI 1.0.102 puts the argument `description` over a call, and asks with the tool's name alone."""
    forms = spec_of_preset(load_preset("copilot", load(home=tmp_path, environ={}))).tool_names
    request = asks("run_it", first_title=first_title, raw_input=raw_input)
    assert is_own(request, NAME, TOOLS, forms) is expected


@pytest.mark.parametrize(
    "request_",
    [CLAUDE, CODEX, GEMINI, GOOSE, KIMI, OPENCODE],
    ids=["claude-agent-acp 0.99.0", "codex-acp 2.6.0", "gemini 0.61.0", "goose 0.20.1", "kimi 2.1.0", "opencode"],
)
def test_a_tool_of_ours_is_known_whatever_its_arguments_are_called(request_: PermissionRequest) -> None:
    assert own(request_)
    assert not is_own(request_, "dragoman-00000000", TOOLS)


@pytest.mark.parametrize(
    "request_",
    [
        asks("Bash", name="Bash", kind="execute", raw_input={"command": f"mcp__{NAME}__run_it"}),
        asks(f"mcp__{NAME}__run_it", name="Bash", raw_input={"description": "x"}),  # the name decides
        asks(f"mcp__{NAME}__run_it", kind="execute", raw_input={"command": f"mcp__{NAME}__run_it"}),
        asks(f"mcp__{NAME}__run_it", kind="execute"),
        asks(f"mcp.{NAME}.run_it", kind="execute", raw_input={"command": f"mcp.{NAME}.run_it"}),
        asks(f"mcp.{NAME}.run_it", kind="execute", raw_input={"server": "other", "tool": "run_it", "arguments": {}}),
        # Gemini's title of another server's tool is that tool's argument `command`; so is OpenCode's of a sub-agent.
        asks(f"mcp__{NAME}__run_it", tool_call_id="mcp_other_run__call_1"),
        asks(f"{NAME}_run_it", tool_call_id="run_shell_command__call_1"),
        asks(f"{NAME}_run_it", raw_input={"description": f"{NAME}_run_it", "prompt": "Delete all."}),
        asks(f"{NAME}_run_it", raw_input={"deep": [{"er": f"{NAME}_run_it"}]}),
        asks(f"{NAME}: erase"),
        asks(f"{NAME}: run it; rm -rf ."),
        asks(f"rm -rf .: {NAME}_run_it"),
        asks(f"{NAME}: run it", kind="edit"),
        asks(f"{NAME}: run it", kind="fetch", raw_input={"url": "https://a.example"}),
        asks(f"{NAME}: run it", diffs=(Diff(path="/x", new_text=""),)),
        asks(f"{NAME}: run it", origin="terminals", tool_call_id=None),
        asks("dragoman: run it"),
        asks("mcp__dragoman__run_it", name="mcp__dragoman__run_it"),
        asks(f"mcp__not-{NAME}__run_it", name=f"mcp__not-{NAME}__run_it"),
        asks(f"mcp__other__{NAME}__run_it", name=f"mcp__other__{NAME}__run_it"),
        asks("x", tool_call_id=f"mcp_{NAME}9_run_it__call_1"),
        # Some models choose the ids of their calls.
        asks("shell", tool_call_id=f"mcp_{NAME}_run_it__call_1", raw_input={"command": "rm -rf ."}),
        asks("rm -rf .", tool_call_id=f"mcp_{NAME}_run_it__call_1", kind="execute"),
        asks("x", tool_call_id=f"other__mcp_{NAME}_run_it"),
    ],
    ids=lambda request: f"{request.name} {request.title} {request.kind} {request.tool_call_id}",
)
def test_a_tool_that_only_looks_like_ours_is_not_ours(request_: PermissionRequest) -> None:
    assert not own(request_)


@pytest.mark.parametrize(
    ("call", "tool"),
    [
        ({"title": f"{NAME}: run it · /etc/passwd"}, "run_it"),  # goose
        ({"title": "rm -rf x", "tool_call_id": f"mcp_{NAME}_structured_output__call_1"}, "structured_output"),
        ({"title": f"mcp.{NAME}.structured_output"}, "structured_output"),
        ({"title": "Look", "name": f"mcp__{NAME}__run_it"}, "run_it"),
        ({"title": f"run_it ({NAME} MCP Server)"}, "run_it"),
        ({"title": "run it"}, None),
    ],
)
def test_a_reported_call_is_counted_as_the_tool_that_it_names(call: dict[str, Any], tool: str | None) -> None:
    event = events.ToolCall(**{**dict.fromkeys(events.ToolCall.__struct_fields__), "tool_call_id": "call_1", **call})
    assert [each for each in TOOLS if is_call_of(event, NAME, each)] == ([tool] if tool else [])


def test_the_name_of_our_server_is_unique_and_fits_before_every_tools_name() -> None:
    assert SERVER.startswith("dragoman-")
    assert len(SERVER) == len(NAME)
    assert len(f"mcp__{SERVER}__{'x' * 40}") <= 64
