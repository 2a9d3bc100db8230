"""The generated vocabulary: that it is what the generator writes, and that its shapes say what the wire says."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from dragoman.wire import vocabulary as acp

ROOT = Path(__file__).resolve().parents[2]
GENERATOR = ROOT / "scripts/generate_vocabulary.py"

STRUCTS = [value for value in vars(acp).values() if isinstance(value, type) and issubclass(value, acp.WireStruct)]


def run_generator(*arguments: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    # Below the 60 s that pytest gives a test, so that a hanging network is a skip and no failure.
    return subprocess.run(
        [sys.executable, str(GENERATOR), *arguments], capture_output=True, text=True, timeout=50, check=False, env=env
    )


@pytest.mark.slow
def test_the_committed_vocabulary_is_what_the_generator_writes() -> None:
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed, and the schema comes from an npm package")
    try:
        done = run_generator("--check")
    except subprocess.TimeoutExpired:
        pytest.skip("npm did not fetch the schema's package in time")
    if done.stderr.startswith("cannot fetch"):
        pytest.skip(f"npm could not fetch the schema's package: {done.stderr.strip()}")
    assert (done.returncode, done.stderr) == (0, "")


def test_the_generator_refuses_a_package_that_is_not_the_pinned_one(tmp_path: Path) -> None:
    npm = tmp_path / "npm"
    npm.write_text('#!/bin/sh\necho tampered > "$5/sdk.tgz"\n')
    npm.chmod(0o755)
    done = run_generator("--check", env={"PATH": f"{tmp_path}:/usr/bin:/bin"})
    assert done.returncode == 1
    assert "is not what it was: expected sha512-" in done.stderr


def test_the_generator_says_what_to_do_without_npm(tmp_path: Path) -> None:
    done = run_generator("--check", env={"PATH": os.fspath(tmp_path)})
    assert done.returncode == 1
    assert "Check npm and the network, or use --schema-dir." in done.stderr


@pytest.mark.parametrize("struct", STRUCTS, ids=lambda struct: str(struct.__name__))
def test_every_struct_can_be_decoded_and_is_frozen_and_sparse(struct: type[msgspec.Struct]) -> None:
    msgspec.json.Decoder(struct)
    config = struct.__struct_config__
    assert (config.frozen, config.gc, config.omit_defaults) == (True, False, True)


def test_every_struct_with_meta_has_it_under_its_name_on_the_wire() -> None:
    for struct in STRUCTS:
        for field in msgspec.structs.fields(struct):
            assert (field.name == "meta") == (field.encode_name == "_meta"), struct


def test_every_mark_belongs_to_a_field_that_has_a_default() -> None:
    for name, marks in acp.REPAIRS.items():
        fields = {field.encode_name: field for field in msgspec.structs.fields(getattr(acp, name))}
        for wire, letters in marks.items():
            field = fields[wire]
            assert set(letters) <= set("esn")
            assert not field.required or str(field.type).startswith("tuple["), f"{name}.{wire} has no default"


def test_methods_name_their_handler_and_their_types() -> None:
    prompt = acp.METHODS["session/prompt"]
    assert (prompt.side, prompt.kind, prompt.stable) == ("agent", "request", True)
    assert (prompt.params, prompt.result) == (acp.PromptRequest, acp.PromptResponse)
    update = acp.METHODS["session/update"]
    assert (update.side, update.kind, update.params, update.result) == (
        "client",
        "notification",
        acp.SessionNotification,
        None,
    )
    assert acp.METHODS["$/cancel_request"].side == "both"
    assert not acp.METHODS["session/fork"].stable
    assert all(name == method.name for name, method in acp.METHODS.items())
    assert all((method.kind == "notification") == (method.result is None) for method in acp.METHODS.values())


def test_a_name_that_is_request_and_notification_is_found_as_both() -> None:
    assert acp.METHODS["mcp/message"].params is acp.MessageMcpRequest
    assert acp.NOTIFICATIONS["mcp/message"].params is acp.MessageMcpNotification
    assert acp.NOTIFICATIONS.items() <= (acp.METHODS | acp.NOTIFICATIONS).items()


def test_removed_types_that_agents_still_use_are_there() -> None:
    assert acp.METHODS["session/set_model"].params is acp.SetSessionModelRequest
    answer = b'{"sessionId":"s","models":{"currentModelId":"m","availableModels":[{"modelId":"m","name":"M"}]}}'
    for response in (acp.NewSessionResponse, acp.LoadSessionResponse, acp.ResumeSessionResponse):
        opened: Any = msgspec.json.decode(answer, type=response)
        assert opened.models == acp.SessionModelState(
            current_model_id="m", available_models=(acp.ModelInfo(model_id="m", name="M"),)
        )


def test_updates_of_the_same_shape_are_distinguished_and_share_a_base() -> None:
    text = acp.TextContent(text="hi")
    chunks = [kind(content=text) for kind in (acp.UserMessageChunk, acp.AgentMessageChunk, acp.AgentThoughtChunk)]
    assert len({msgspec.json.encode(chunk) for chunk in chunks}) == 3
    assert all(isinstance(chunk, acp.ContentChunk) for chunk in chunks)
    assert [msgspec.json.decode(msgspec.json.encode(chunk), type=acp.SessionUpdate) for chunk in chunks] == chunks


def test_a_tool_call_update_has_its_tag_as_an_update_and_none_in_a_permission_request() -> None:
    update = acp.SessionToolCallUpdate(tool_call_id="1", status="completed")
    assert b'"sessionUpdate":"tool_call_update"' in msgspec.json.encode(update)
    request = acp.RequestPermissionRequest(session_id="s", tool_call=acp.ToolCallUpdate(tool_call_id="1"), options=())
    assert msgspec.json.encode(request) == b'{"sessionId":"s","toolCall":{"toolCallId":"1"},"options":[]}'


@pytest.mark.parametrize(
    ("server", "wire"),
    [
        (
            acp.McpServerStdio(name="n", command="c", args=(), env=()),
            b'{"name":"n","command":"c","args":[],"env":[]}',
        ),
        (acp.McpServerHttp(name="n", url="u", headers=()), b'{"name":"n","type":"http","url":"u","headers":[]}'),
        (acp.McpServerSse(name="n", url="u", headers=()), b'{"name":"n","type":"sse","url":"u","headers":[]}'),
        (acp.McpServerAcp(name="n", server_id="i"), b'{"name":"n","type":"acp","serverId":"i"}'),
    ],
)
def test_mcp_servers_are_built_apart_and_read_as_one(server: acp.McpServer, wire: bytes) -> None:
    assert msgspec.json.encode(server) == wire
    read = msgspec.json.decode(wire, type=acp.McpServer)
    assert {name: getattr(read, name) for name in read.__struct_fields__} == {
        name: getattr(server, name) for name in server.__struct_fields__
    }


def test_text_and_blob_resources_are_read_as_one() -> None:
    for resource in (acp.TextResourceContents(uri="u", text=""), acp.BlobResourceContents(uri="u", blob="")):
        block = acp.EmbeddedResource(resource=resource)
        read: Any = msgspec.json.decode(msgspec.json.encode(block), type=acp.ContentBlock)
        assert (read.resource.text, read.resource.blob) == (resource.text, resource.blob)


def test_config_options_are_read_flat_or_in_groups() -> None:
    option = acp.SessionConfigSelectOption(value="v", name="V")
    for options in ((option,), (acp.SessionConfigSelectGroup(group="g", name="G", options=(option,)),)):
        select = acp.SessionConfigSelect(id="i", name="I", current_value="v", options=options)
        read: Any = msgspec.json.decode(msgspec.json.encode(select), type=acp.SessionConfigOption)
        first = read.options[0]
        assert (first.options[0].value if first.group is not None else first.value) == "v"


def test_null_differs_from_absence_where_it_clears() -> None:
    clear = msgspec.json.decode(b'{"sessionUpdate":"session_info_update","title":null}', type=acp.SessionUpdate)
    assert isinstance(clear, acp.SessionInfoUpdate)
    assert (clear.title, clear.updated_at) == (None, msgspec.UNSET)
    assert msgspec.json.encode(clear) == b'{"sessionUpdate":"session_info_update","title":null}'


def test_required_fields_are_written_even_when_empty_and_no_others_are() -> None:
    assert msgspec.json.encode(acp.NewSessionRequest(cwd="/w", mcp_servers=())) == b'{"cwd":"/w","mcpServers":[]}'
    assert msgspec.json.encode(acp.InitializeRequest(protocol_version=acp.PROTOCOL_VERSION)) == b'{"protocolVersion":1}'


def test_all_updates_that_the_protocol_names_are_in_the_union() -> None:
    tags = {str(member.__struct_config__.tag) for member in get_args(acp.SessionUpdate)}
    assert tags == {
        "user_message_chunk", "agent_message_chunk", "agent_thought_chunk", "tool_call", "tool_call_update", "plan",
        "available_commands_update", "current_mode_update", "config_option_update", "session_info_update",
        "usage_update", "notice", "compaction_update", "compaction_summary_chunk", "plan_update", "plan_removed",
        "subagent_update", "session_message", "session_message_chunk",
    }  # fmt: skip
