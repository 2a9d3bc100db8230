"""Which requests are about a tool of ours: those of real agents, as they were seen, and what only looks like one."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.evaluation.attempt import SERVER, is_call_of, is_own
from dragoman.host.permission import PermissionRequest
from dragoman.record import events
from dragoman.wire.vocabulary import Diff

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
