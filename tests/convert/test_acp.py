"""Our values become models of the official SDK and come back the same, as far as the SDK has words for them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import acp as sdk
import msgspec
import pytest
from acp import schema

from dragoman.convert import acp
from dragoman.errors import InputError
from dragoman.wire import lenient, vocabulary
from dragoman.wire.vocabulary import METHODS, WireStruct

FOLDER = Path(os.environ.get("DRAGOMAN_RECORDINGS") or Path(__file__).resolve().parents[3] / "shared" / "recordings")
RECORDINGS = sorted(FOLDER.glob("*/*.jsonl"))


# -- what real agents and clients say


def values_of(path: Path) -> Iterator[WireStruct]:
    """Every params, result and error of a recording that we have a type for."""
    methods: dict[Any, str] = {}
    for line in path.read_bytes().splitlines():
        recorded = msgspec.json.decode(line)
        frame, direction = recorded.get("frame"), recorded["dir"]
        if direction not in ("in", "out") or not isinstance(frame, dict):
            continue
        if "method" in frame:
            methods[direction, frame.get("id")] = frame["method"]
            part, method = "params", METHODS.get(frame["method"])
            kind: Any = method.params if method else None
        else:
            part = "error" if "error" in frame else "result"
            other = "in" if direction == "out" else "out"
            method = METHODS.get(methods.get((other, frame["id"]), ""))
            kind = vocabulary.Error if part == "error" else method.result if method else None
        if kind is not None:
            try:
                yield lenient.decode(msgspec.json.encode(frame.get(part)), kind)
            except msgspec.ValidationError:
                # The recordings also try what an agent does with a prompt that is none.
                assert frame["method"] == "session/prompt"
                assert "prompt" not in frame["params"]


@pytest.mark.slow
@pytest.mark.skipif(not RECORDINGS, reason=f"no recordings in {FOLDER}: set DRAGOMAN_RECORDINGS to their folder")
def test_recorded_values_come_back_except_kinds_that_the_sdk_lacks() -> None:
    dropped: set[str] = set()
    unknown: set[str] = set()
    count = 0
    for path in RECORDINGS:
        for value in values_of(path):
            count += 1
            try:
                same = acp.from_sdk(acp.to_sdk(value)) == value
            except acp.UnknownToSdk:
                unknown.add(type(value).__name__)
                continue
            lost = acp.losses(value)
            assert same == (not lost), value
            dropped.update(f"{type(value).__name__}.{path}" for path in lost)
    assert count > 1000
    assert unknown == {"SetSessionModelRequest", "SetSessionModelResponse"}
    assert dropped == {
        "InitializeResponse.agentCapabilities.sessionCapabilities.systemPrompt",
        "InitializeResponse.agentCapabilities.sessionCapabilities.title",
        "LoadSessionResponse.models",
        "NewSessionResponse.models",
        "NewSessionResponse.configOptions[].category",  # where it is a word of the agent's own
        "SessionNotification.update.configOptions[].category",
        "SetSessionConfigOptionResponse.configOptions[].category",
        "RequestPermissionRequest.toolCall.name",
        "SessionNotification.update.name",
    }


# -- which types there are


def test_the_types_that_the_sdk_lacks_are_listed() -> None:
    own = [
        name
        for name, value in vars(vocabulary).items()
        if isinstance(value, type) and issubclass(value, WireStruct) and value.__name__ == name
    ]
    known = {name for name in own if hasattr(schema, name)} | set(acp._OTHER_NAMES)
    assert all(hasattr(schema, other) for others in acp._OTHER_NAMES.values() for other in others)
    assert set(own) - known == {
        "ArchiveSessionRequest",
        "ArchiveSessionResponse",
        "AuthAccount",
        "AuthStatusCapabilities",
        "AuthStatusRequest",
        "AuthStatusResponse",
        "AuthStatusUpdateNotification",
        "CompactionCapabilities",
        "CompactionSummaryChunk",
        "CompactionUpdate",
        "IdleStateUpdate",
        "McpError",
        "MessageMcpResponse",
        "ModelInfo",
        "Notice",
        "NoticeCapabilities",
        "OtherCreateElicitationRequest",  # kinds that we do not know ourselves
        "OtherCreateElicitationResponse",
        "OtherElicitationPropertySchema",
        "OtherStateUpdate",
        "ProxySuccessorNotification",
        "ProxySuccessorRequest",
        "RequiresActionStateUpdate",
        "RunningStateUpdate",
        "SessionArchiveCapabilities",
        "SessionCancelCapabilities",
        "SessionMessage",
        "SessionMessageChunk",
        "SessionModelState",
        "SessionStatusCapabilities",
        "SessionStatusRequest",
        "SessionStatusResponse",
        "SessionSystemPromptCapabilities",
        "SessionSystemPromptModeCapabilities",
        "SessionSystemPromptOverrideCapabilities",
        "SessionTitleCapabilities",
        "SetSessionModelRequest",
        "SetSessionModelResponse",
        "SetSessionTitleRequest",
        "SetSessionTitleResponse",
        "SubagentCapabilities",
        "SubagentSessionCapabilities",
        "SubagentUpdate",
        "SystemPrompt",
        "UnarchiveSessionRequest",
        "UnarchiveSessionResponse",
        "UnknownStateUpdate",
        "WireStruct",
    }


TEXT = vocabulary.TextContent(text="hi", annotations=vocabulary.Annotations(audience=("user",), priority=0.5))
FORM = vocabulary.ElicitationSchema(
    properties={
        "a": vocabulary.StringPropertySchema(one_of=(vocabulary.EnumOption(const="x", title="X"),)),
        "b": vocabulary.IntegerPropertySchema(minimum=0, default=1),
        "c": vocabulary.NumberPropertySchema(maximum=1.5),
        "d": vocabulary.BooleanPropertySchema(default=True),
        "e": vocabulary.MultiSelectPropertySchema(items=vocabulary.MultiSelectItems(type="string", enum=("x", "y"))),
        "f": vocabulary.MultiSelectPropertySchema(
            items=vocabulary.MultiSelectItems(any_of=(vocabulary.EnumOption(const="x", title="X"),))
        ),
    },
    required=("a",),
)

EXAMPLES: list[tuple[WireStruct, type]] = [
    (TEXT, schema.TextContentBlock),
    (vocabulary.ImageContent(data="aGk=", mime_type="image/png", uri="file:///a"), schema.ImageContentBlock),
    (vocabulary.AudioContent(data="aGk=", mime_type="audio/wav"), schema.AudioContentBlock),
    (vocabulary.ResourceLink(name="a", uri="file:///a", size=3), schema.ResourceContentBlock),
    (
        vocabulary.EmbeddedResource(resource=vocabulary.EmbeddedResourceResource(uri="file:///a", blob="aGk=")),
        schema.EmbeddedResourceContentBlock,
    ),
    (vocabulary.EmbeddedResourceResource(uri="file:///a", text="a"), schema.TextResourceContents),
    (vocabulary.UserMessageChunk(content=TEXT, message_id="m"), schema.UserMessageChunk),
    (vocabulary.AgentMessageChunk(content=TEXT, meta={"a": {"b": None}}), schema.AgentMessageChunk),
    (vocabulary.AgentThoughtChunk(content=TEXT), schema.AgentThoughtChunk),
    (
        vocabulary.ToolCall(
            tool_call_id="1",
            title="Edit",
            kind="edit",
            status="pending",
            content=(
                vocabulary.Diff(path="/a", new_text="b"),
                vocabulary.Content(content=TEXT),
                vocabulary.Terminal(terminal_id="t"),
            ),
            locations=(vocabulary.ToolCallLocation(path="/a", line=1),),
            raw_input={"deep": [1, {"er": None}]},
        ),
        schema.ToolCallStart,
    ),
    (vocabulary.SessionToolCallUpdate(tool_call_id="1", status="failed"), schema.ToolCallProgress),
    (vocabulary.ToolCallUpdate(tool_call_id="1", title="Edit"), schema.ToolCallUpdate),
    (
        vocabulary.Plan(entries=(vocabulary.PlanEntry(content="a", priority="low", status="pending"),)),
        schema.AgentPlanUpdate,
    ),
    (
        vocabulary.PlanUpdate(plan=vocabulary.PlanMarkdown(plan_id="p", content="# a")),
        schema.AgentPlanContentUpdate,
    ),
    (vocabulary.PlanRemoved(plan_id="p"), schema.AgentPlanRemovedUpdate),
    (vocabulary.CurrentModeUpdate(current_mode_id="m"), schema.CurrentModeUpdate),
    (vocabulary.SessionInfoUpdate(title=None), schema.SessionInfoUpdate),
    (
        vocabulary.UsageUpdate(used=1, size=2, cost=vocabulary.Cost(amount=0.5, currency="EUR")),
        schema.UsageUpdate,
    ),
    (
        vocabulary.ConfigOptionUpdate(
            config_options=(
                vocabulary.SessionConfigSelect(
                    id="m",
                    name="M",
                    current_value="a",
                    options=(vocabulary.SessionConfigSelectItem(name="A", value="a"),),
                ),
                vocabulary.SessionConfigBoolean(id="b", name="B", current_value=True),
            )
        ),
        schema.ConfigOptionUpdate,
    ),
    (vocabulary.SelectedPermissionOutcome(option_id="yes"), schema.AllowedOutcome),
    (vocabulary.CancelledPermissionOutcome(), schema.DeniedOutcome),
    (vocabulary.McpServerStdio(name="s", command="run", args=(), env=()), schema.McpServerStdio),
    (vocabulary.McpServerHttp(name="s", url="http://a", headers=()), schema.HttpMcpServer),
    (vocabulary.McpServerSse(name="s", url="http://a", headers=()), schema.SseMcpServer),
    (
        vocabulary.SetSessionConfigOptionRequest(session_id="s", config_id="c", value=True, type="boolean"),
        schema.SetSessionConfigOptionBooleanRequest,
    ),
    (
        vocabulary.SetSessionConfigOptionRequest(session_id="s", config_id="c", value="v"),
        schema.SetSessionConfigOptionSelectRequest,
    ),
    (
        vocabulary.ElicitationFormMode(message="?", requested_schema=FORM, session_id="s"),
        schema.CreateFormSessionElicitationRequest,
    ),
    (
        vocabulary.ElicitationFormMode(message="?", requested_schema=FORM, request_id=3),
        schema.CreateFormRequestElicitationRequest,
    ),
    (
        vocabulary.ElicitationUrlMode(message="?", elicitation_id="e", url="https://a.example/", session_id="s"),
        schema.CreateUrlSessionElicitationRequest,
    ),
    (vocabulary.ElicitationAcceptAction(content={"a": "b", "n": 1}), schema.AcceptElicitationResponse),
    (vocabulary.ElicitationDeclineAction(), schema.DeclineElicitationResponse),
    (vocabulary.ElicitationCancelAction(), schema.CancelElicitationResponse),
]


@pytest.mark.parametrize(("value", "model"), EXAMPLES, ids=lambda one: getattr(one, "__name__", type(one).__name__))
def test_a_value_becomes_the_sdk_s_own_type_and_comes_back_the_same(value: WireStruct, model: type) -> None:
    converted = acp.to_sdk(value)
    assert type(converted) is model
    back = acp.from_sdk(converted)
    assert lenient.encode(back) == lenient.encode(value)
    assert acp.losses(value) == ()


def test_empty_lists_that_the_sdk_requires_are_written() -> None:
    server = acp.to_sdk(vocabulary.McpServer(name="s", command="run"))
    assert server == schema.McpServerStdio(name="s", command="run", args=[], env=[])


def test_null_that_clears_differs_from_absence() -> None:
    clears = vocabulary.SessionInfoUpdate(title=None)
    silent = vocabulary.SessionInfoUpdate()
    assert acp.from_sdk(acp.to_sdk(clears)) == clears
    assert acp.from_sdk(acp.to_sdk(silent)) == silent
    assert clears != silent


def test_values_made_by_the_sdk_are_converted() -> None:
    chunk = acp.from_sdk(sdk.update_agent_message_text("hi"))
    assert chunk == vocabulary.AgentMessageChunk(content=vocabulary.TextContent(text="hi"))
    plain = acp.from_sdk(schema.ToolCall(tool_call_id="1", title="Edit"))
    assert plain == vocabulary.ToolCall(tool_call_id="1", title="Edit")


def test_a_subclass_of_a_model_is_read_as_that_model() -> None:
    class Mine(schema.Implementation):  # type: ignore[misc]  # the SDK's types are not looked at
        pass

    assert acp.from_sdk(Mine(name="a", version="1")) == vocabulary.Implementation(name="a", version="1")


# -- what cannot be converted


def test_a_kind_that_the_sdk_lacks_is_refused_by_name() -> None:
    with pytest.raises(acp.UnknownToSdk, match="no type for Notice"):
        acp.to_sdk(vocabulary.Notice(severity="info", title="hi"))


def test_a_value_that_contains_such_a_kind_is_refused_with_its_path() -> None:
    update = vocabulary.Notice(severity="info", title="hi")
    with pytest.raises(acp.UnknownToSdk, match="update"):
        acp.to_sdk(vocabulary.SessionNotification(session_id="s", update=update))


def test_the_error_repeats_no_value() -> None:
    broken = vocabulary.McpServer(name="s", env=(vocabulary.EnvVariable(name="KEY", value="abracadabra"),))
    with pytest.raises(acp.UnknownToSdk) as refused:
        acp.to_sdk(broken)
    assert "abracadabra" not in str(refused.value)


def test_a_model_of_something_else_is_refused() -> None:
    with pytest.raises(InputError, match="no counterpart"):
        acp.from_sdk(schema.Position(line=1, character=1))


def test_a_missing_package_is_named_with_its_install_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "acp.schema", None)
    acp._schema.cache_clear()
    acp._adapter.cache_clear()
    try:
        with pytest.raises(InputError) as refused:
            acp.to_sdk(TEXT)
        assert "pip install 'dragoman[acp]'" in refused.value.guidance
    finally:
        acp._schema.cache_clear()


def test_the_sdk_is_loaded_only_when_something_is_converted() -> None:
    code = "import sys, dragoman.convert.acp; print([m for m in ('acp', 'pydantic') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
