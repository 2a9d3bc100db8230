"""Reading what peers say: good input as it is, bad fields mended, the unknown kept."""

from __future__ import annotations

import json
import os
import types
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_origin

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dragoman.wire import lenient
from dragoman.wire import vocabulary as acp
from dragoman.wire.messages import Unknown

ROOT = Path(__file__).resolve().parents[2]
RECORDINGS = Path(os.environ.get("DRAGOMAN_RECORDINGS", ROOT.parent / "shared/recordings"))

UPDATES: tuple[type[msgspec.Struct], ...] = get_args(acp.SessionUpdate)
EXCHANGED = sorted(
    {
        (f"{method.name} {part}", type_)
        for method in [*acp.METHODS.values(), *acp.NOTIFICATIONS.values()]
        for part, type_ in (("params", method.params), ("result", method.result))
        if type_ not in (None, msgspec.Raw)
    },
    key=lambda item: (item[0], str(item[1])),
)

# Many types, few examples each; no deadline, because a busy machine is no defect.
few = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])

scalars = (
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False)
)
json_values: st.SearchStrategy[Any] = st.recursive(
    scalars | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


def values(type_: Any) -> st.SearchStrategy[Any]:
    """Valid values of a type of the vocabulary."""
    if type_ is Any:
        return json_values
    if get_origin(type_) in (typing.Union, types.UnionType):
        return st.one_of([values(member) for member in get_args(type_) if not is_other(member)])
    if get_origin(type_) is typing.Literal:
        return st.sampled_from(get_args(type_))
    if get_origin(type_) is tuple:
        return st.lists(values(get_args(type_)[0]), max_size=2).map(tuple)
    if get_origin(type_) is dict:
        return st.dictionaries(st.text(max_size=8), values(get_args(type_)[1]), max_size=2)
    if isinstance(type_, type) and issubclass(type_, msgspec.Struct):
        return st.deferred(lambda: structs(type_))
    plain: dict[Any, st.SearchStrategy[Any]] = {
        str: st.text(max_size=12),
        int: st.integers(-(2**63), 2**63 - 1),
        float: st.floats(allow_nan=False, allow_infinity=False),
        bool: st.booleans(),
        type(None): st.none(),
        msgspec.UnsetType: st.just(msgspec.UNSET),
    }
    return plain[type_]


def structs(type_: type[msgspec.Struct]) -> st.SearchStrategy[Any]:
    fields = msgspec.structs.fields(type_)
    needed = {field.name: values(field.type) for field in fields if field.required}
    optional = {field.name: values(field.type) for field in fields if not field.required}
    return st.fixed_dictionaries(needed, optional=optional).map(lambda decoded: type_(**decoded))


def is_other(member: Any) -> bool:
    """Made only by reading: what no agent of today says cannot be built."""
    return isinstance(member, type) and issubclass(member, msgspec.Struct) and member.__struct_config__.tag == ""


def marks_of(struct: type[msgspec.Struct]) -> dict[str, str]:
    return {"_meta": "e"} | {
        wire: marks for base in struct.__mro__ for wire, marks in acp.REPAIRS.get(base.__name__, {}).items()
    }


def dumps(value: Any) -> bytes:
    return json.dumps(value).encode()


# A bad field never costs the frame ------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", UPDATES, ids=lambda variant: str(variant.__name__))
@few
@given(data=st.data())
def test_a_bad_field_never_costs_the_frame(variant: type[msgspec.Struct], data: st.DataObject) -> None:
    update = data.draw(values(variant))
    fields = {field.encode_name: field.name for field in msgspec.structs.fields(variant)}
    marked = [wire for wire, marks in marks_of(variant).items() if "e" in marks and wire in fields]
    bad = data.draw(st.sets(st.sampled_from(marked), min_size=1))
    wire = json.loads(lenient.encode(update)) | {name: data.draw(json_values) for name in bad}
    read = lenient.decode_update(dumps(wire))
    assert type(read) is variant
    for name in fields.keys() - bad:
        assert getattr(read, fields[name]) == getattr(update, fields[name])


@pytest.mark.parametrize("variant", UPDATES, ids=lambda variant: str(variant.__name__))
@few
@given(data=st.data())
def test_a_good_update_is_read_unchanged(variant: type[msgspec.Struct], data: st.DataObject) -> None:
    update = data.draw(values(variant))
    assert lenient.decode_update(lenient.encode(update)) == update


@few
@given(
    update=values(acp.SessionUpdate),
    fields=st.dictionaries(st.text(max_size=8).map(lambda key: f"x{key}"), json_values),
)
def test_unknown_fields_do_no_harm(update: acp.SessionUpdate, fields: dict[str, Any]) -> None:
    assert lenient.decode_update(dumps(json.loads(lenient.encode(update)) | fields)) == update


@few
@given(
    st.dictionaries(
        st.sampled_from(["sessionUpdate", *acp.WIRE_NAMES.values(), "title", "content", "plan", "entries", "type"]),
        json_values | st.sampled_from([variant.__struct_config__.tag for variant in UPDATES]),
    )
)
def test_no_json_object_is_too_odd_to_be_an_update(value: dict[str, Any]) -> None:
    raw = dumps(value)
    read = lenient.decode_update(raw)
    if isinstance(read, Unknown):
        tag = value.get("sessionUpdate")
        assert read.kind == (tag if isinstance(tag, str) else "")
        assert bytes(read.raw) == raw
    else:
        assert read.__struct_config__.tag == value["sessionUpdate"]


@few
@given(json_values, st.text(max_size=12))
def test_an_unknown_kind_survives_as_its_own_bytes(value: Any, kind: str) -> None:
    raw = b'{"sessionUpdate": ' + dumps(f"_{kind}") + b',  "odd" :' + dumps(value) + b"}"
    for given_as in (raw, msgspec.Raw(raw)):
        read = lenient.decode_update(given_as)
        assert isinstance(read, Unknown)
        assert (read.kind, bytes(read.raw)) == (f"_{kind}", raw)


@pytest.mark.parametrize(
    "raw", [b"[]", b"null", b"7", b'"x"', b"", b"{", b'{"sessionUpdate":3}', b'{"a":' + b"[" * 99999]
)
def test_a_value_that_is_no_update_is_preserved(raw: bytes) -> None:
    read = lenient.decode_update(raw)
    assert isinstance(read, Unknown)
    assert (read.kind, bytes(read.raw)) == ("", raw)


def test_bad_fields_are_mended_where_they_are_however_deep() -> None:
    read = lenient.decode_update(
        dumps(
            {
                "sessionUpdate": "tool_call",
                "toolCallId": "1",
                "title": "Read",
                "kind": "teleport",
                "status": "completed",
                "locations": [{"path": "/a", "line": "seven"}, {"line": 7}, 5],
                "content": [
                    {"type": "content", "content": {"type": "text", "text": "a", "annotations": {"priority": "x"}}},
                    {"type": "content", "content": {"type": "hologram"}},
                    {"type": "smell"},
                    {"type": "diff", "path": "/a", "oldText": 0, "newText": "b"},
                ],
            }
        )
    )
    assert read == acp.ToolCall(
        tool_call_id="1",
        title="Read",
        status="completed",
        locations=(acp.ToolCallLocation(path="/a"),),
        content=(
            acp.Content(content=acp.TextContent(text="a", annotations=acp.Annotations())),
            acp.Diff(path="/a", new_text="b"),
        ),
    )


def test_a_chunk_of_an_unknown_kind_of_content_is_preserved_completely() -> None:
    raw = b'{"sessionUpdate":"agent_message_chunk","content":{"type":"hologram","data":"x"}}'
    read = lenient.decode_update(raw)
    assert isinstance(read, Unknown)
    assert (read.kind, bytes(read.raw)) == ("agent_message_chunk", raw)


def test_a_bad_patch_leaves_the_value_alone_instead_of_clearing_it() -> None:
    read = lenient.decode_update(b'{"sessionUpdate":"session_info_update","title":5,"updatedAt":null}')
    assert read == acp.SessionInfoUpdate(title=msgspec.UNSET, updated_at=None)


def test_a_plan_without_entries_is_not_taken_for_an_empty_one() -> None:
    assert isinstance(lenient.decode_update(b'{"sessionUpdate":"plan"}'), Unknown)
    assert lenient.decode_update(b'{"sessionUpdate":"plan","entries":"?"}') == acp.Plan(entries=())


# Text that is slightly broken -----------------------------------------------------------------------------------


@pytest.mark.parametrize("cut", [rb"\ud83d", rb"\uDE00", b"\xf0\x9f", rb"\ud83d\u0041", rb"\\\ud83d"])
def test_a_character_cut_in_two_does_not_cost_the_chunk(cut: bytes) -> None:
    raw = b'{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"a' + cut + b'b"}}'
    read = lenient.decode_update(raw)
    assert isinstance(read, acp.AgentMessageChunk)
    assert isinstance(read.content, acp.TextContent)
    text = read.content.text
    assert (text[0], text[-1], "�" in text) == ("a", "b", True)
    assert text.encode()


@few
@given(st.text())
def test_text_that_is_whole_stays_as_it_is(text: str) -> None:
    assert json.loads(lenient.encode_repaired(text)) == text


def test_numbers_beyond_reach_do_not_cost_the_frame() -> None:
    raw = b'{"sessionUpdate":"tool_call","toolCallId":"1","title":"t","rawInput":{"far":1e999,"not":NaN}}'
    read = lenient.decode_update(raw)
    assert isinstance(read, acp.ToolCall)
    assert read.raw_input == {"far": float("inf"), "not": None}


# Any type -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "type_"), EXCHANGED, ids=[name for name, _ in EXCHANGED])
@few
@given(data=st.data())
def test_every_message_is_read_as_it_was_written(name: str, type_: Any, data: st.DataObject) -> None:
    value = data.draw(values(type_))
    assert lenient.decode(lenient.encode(value), type_) == value
    assert lenient.decode(msgspec.Raw(lenient.encode(value)), type_) == value


def test_null_is_an_empty_answer_where_all_of_it_is_optional() -> None:
    assert lenient.decode(b"null", acp.LoadSessionResponse) == acp.LoadSessionResponse()
    with pytest.raises(msgspec.ValidationError, match="sessionId"):
        lenient.decode(b"null", acp.NewSessionResponse)


def test_null_counts_as_an_empty_list_where_the_schema_says_so() -> None:
    terminal = lenient.decode(b'{"sessionId":"s","command":"ls","args":null,"env":null}', acp.CreateTerminalRequest)
    assert (terminal.args, terminal.env) == ((), ())
    session = lenient.decode(b'{"cwd":"/","mcpServers":null}', acp.NewSessionRequest)
    assert session == acp.NewSessionRequest(cwd="/", mcp_servers=())


def test_capabilities_are_read_one_by_one() -> None:
    raw = b'{"protocolVersion":1,"agentCapabilities":{"loadSession":"y","promptCapabilities":{"image":1,"audio":true}}}'
    assert lenient.decode(raw, acp.InitializeResponse).agent_capabilities == acp.AgentCapabilities(
        prompt_capabilities=acp.PromptCapabilities(audio=True)
    )


@pytest.mark.parametrize(
    ("raw", "type_", "named"),
    [
        (b'{"sessionId":5,"modes":7}', acp.NewSessionResponse, r"\$\.sessionId"),
        (b'{"modes":7}', acp.NewSessionResponse, "sessionId"),
        (
            b'{"sessionId":"s","toolCall":{"toolCallId":"1"},"options":[{"optionId":"a","name":"A","kind":"maybe"}]}',
            acp.RequestPermissionRequest,
            r"\$\.options\[0\]\.kind",
        ),
        (b'{"message":"m"}', acp.CreateElicitationRequest, "mode"),
        (b"[]", acp.PromptResponse, "object"),
        (b"{", acp.PromptResponse, "JSON"),
        (b"[" * 99999, acp.PromptResponse, "JSON"),
    ],
)
def test_a_value_that_cannot_be_repaired_is_refused_with_the_name_of_the_field(
    raw: bytes, type_: Any, named: str
) -> None:
    with pytest.raises(msgspec.ValidationError, match=named):
        lenient.decode(raw, type_)


def test_an_unknown_kind_in_an_open_union_keeps_its_kind_and_its_bytes() -> None:
    raw = b'{"mode":"voice","message":"Say it","pitch":440}'
    request = lenient.decode(raw, acp.CreateElicitationRequest)
    assert request == acp.OtherCreateElicitationRequest(kind="voice", raw=acp.Verbatim(raw))
    form = lenient.decode(
        b'{"mode":"form","message":"m","sessionId":"s","requestedSchema":{"properties":'
        b'{"name":{"type":"string"},"hue":{"type":"color","alpha":1}}}}',
        acp.CreateElicitationRequest,
    )
    assert isinstance(form, acp.ElicitationFormMode)
    assert form.requested_schema.properties == {
        "name": acp.StringPropertySchema(),
        "hue": acp.OtherElicitationPropertySchema(kind="color", raw=acp.Verbatim(b'{"type":"color","alpha":1}')),
    }
    child = lenient.decode_update(b'{"sessionUpdate":"subagent_update","sessionId":"c","state":{"state":"dreaming"}}')
    assert isinstance(child, acp.SubagentUpdate)
    assert isinstance(child.state, acp.OtherStateUpdate)
    assert child.state.kind == "dreaming"


def test_a_value_of_an_unknown_kind_is_not_written_as_something_else() -> None:
    with pytest.raises(TypeError, match="Verbatim"):
        lenient.encode(acp.OtherStateUpdate(kind="dreaming", raw=acp.Verbatim(b"{}")))


def test_marks_of_the_vocabulary_say_nothing_about_structs_of_the_same_name_elsewhere() -> None:
    class ToolCall(msgspec.Struct):
        kind: int = 0

    with pytest.raises(msgspec.ValidationError, match="kind"):
        lenient.decode(b'{"kind":"x"}', ToolCall)


# Real agents ----------------------------------------------------------------------------------------------------


def recordings() -> Iterator[Any]:
    decoded = sorted(RECORDINGS.glob("*/*.jsonl"))
    for path in decoded:
        yield pytest.param(path, id="/".join(path.parts[-2:]))
    if not decoded:
        reason = "no recordings of real agents here: set DRAGOMAN_RECORDINGS to their folder"
        yield pytest.param(None, id="none", marks=pytest.mark.skip(reason=reason))


@pytest.mark.parametrize("path", list(recordings()))
def test_every_recorded_frame_of_a_real_agent_is_read(path: Path) -> None:
    entries = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    frames = [(entry["dir"], entry["frame"]) for entry in entries if entry["dir"] in ("in", "out")]
    replies = {("out" if side == "in" else "in", frame["id"]): frame for side, frame in frames if "method" not in frame}
    for side, frame in frames:
        method = acp.METHODS.get(frame.get("method"))
        if method is None:
            continue
        reply = replies.get((side, frame.get("id")), {}) if "id" in frame else {}
        if side == "in" or "error" not in reply:  # some of what was sent is bad on purpose, and was refused
            lenient.decode(dumps(frame.get("params")), typing.cast(Any, method.params))
        if "result" in reply:
            lenient.decode(dumps(reply["result"]), typing.cast(Any, method.result))
        if method.name == "session/update":
            assert not isinstance(lenient.decode_update(dumps(frame["params"]["update"])), Unknown)
