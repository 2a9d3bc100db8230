"""Frames of the agent as unified messages: one test for each row of the table, and that nothing is lost."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.backend.messages import UnifiedMessage, read_message
from dragoman.backend.view import MessageView, error_metadata, permission_metadata, result_metadata, with_metadata
from dragoman.errors import AgentCrashed, InputError
from dragoman.host.permission import Option, PermissionRequest
from dragoman.record.routing import ConnectionReader
from dragoman.wire.messages import Noise, Oversized
from dragoman.wire.vocabulary import Diff

SESSION = "session-1"
TEXT = {"type": "text", "text": "hi"}


class Wire:
    """Frames in both directions, and the messages that they become."""

    def __init__(self) -> None:
        self.view = MessageView()
        self._reader = ConnectionReader()
        self._ids = 0

    def frame(self, direction: Literal["in", "out"], frame: Any) -> list[UnifiedMessage]:
        line = frame if isinstance(frame, bytes) else msgspec.json.encode({"jsonrpc": "2.0", **frame})
        messages: list[UnifiedMessage] = []
        for routed in self._reader.read(direction, line):
            if direction == "out":
                self.view.on_sent(routed.message)
            else:
                messages.extend(self.view.on_received(routed.message, 7.0))
        return messages

    def answered(self, method: str, params: Any, answer: Any) -> UnifiedMessage:
        """Return the message of the agent's answer to a request of ours."""
        self._ids += 1
        self.frame("out", {"id": self._ids, "method": method, "params": params})
        [message] = self.frame("in", {"id": self._ids, **answer})
        return message

    def opened(self) -> Wire:
        self.answered("session/new", {"cwd": "/"}, {"result": {"sessionId": SESSION}})
        return self

    def updates(self, kind: str, /, **fields: Any) -> list[UnifiedMessage]:
        update = {"sessionUpdate": kind, **fields}
        return self.frame("in", {"method": "session/update", "params": {"sessionId": SESSION, "update": update}})

    def update(self, kind: str, /, **fields: Any) -> UnifiedMessage:
        [message] = self.updates(kind, **fields)
        return message


@pytest.fixture
def wire() -> Wire:
    return Wire().opened()


def kind(message: UnifiedMessage) -> tuple[str, str]:
    return message.type, message.role


# -- the table, row by row


def test_the_answer_to_initialize_begins_the_session_with_the_agents_capabilities() -> None:
    result = {"protocolVersion": 1, "agentCapabilities": {"loadSession": True}, "agentInfo": {"name": "a"}}
    message = Wire().answered("initialize", {"protocolVersion": 1}, {"result": result})
    assert kind(message) == ("session_init", "system")
    assert message.metadata == result
    assert message.timestamp == 7.0


def test_the_answer_to_session_new_begins_the_session_with_its_id() -> None:
    result = {"sessionId": SESSION, "modes": {"currentModeId": "code", "availableModes": []}}
    message = Wire().answered("session/new", {"cwd": "/"}, {"result": result})
    assert kind(message) == ("session_init", "system")
    assert message.metadata == result


@pytest.mark.parametrize("method", ["session/load", "session/resume"])
@pytest.mark.parametrize(("result", "session"), [(None, "old"), ({}, "old"), ({"sessionId": "new"}, "new")])
def test_the_answer_to_a_resumed_session_begins_the_session_too(method: str, result: object, session: str) -> None:
    message = Wire().answered(method, {"sessionId": "old", "cwd": "/"}, {"result": result})
    assert kind(message) == ("session_init", "system")
    assert message.metadata["sessionId"] == session


def test_a_message_chunk_is_streamed(wire: Wire) -> None:
    message = wire.update("agent_message_chunk", content=TEXT, messageId="m")
    assert kind(message) == ("stream_event", "assistant")
    assert message.content == (TEXT,)
    assert message.metadata == {"sessionUpdate": "agent_message_chunk", "messageId": "m"}


def test_a_thought_chunk_is_streamed_as_a_thought(wire: Wire) -> None:
    message = wire.update("agent_thought_chunk", content=TEXT)
    assert kind(message) == ("stream_event", "assistant")
    assert message.content == (TEXT,)
    assert message.metadata["thought"] is True


def test_a_tool_call_is_progress(wire: Wire) -> None:
    message = wire.update("tool_call", toolCallId="t", title="Read x", kind="read", status="pending", rawInput={"p": 1})
    assert kind(message) == ("tool_progress", "tool")
    assert message.metadata == {
        "sessionUpdate": "tool_call",
        "toolCallId": "t",
        "title": "Read x",
        "kind": "read",
        "status": "pending",
        "rawInput": {"p": 1},
    }


def test_a_tool_call_without_kind_and_status_has_the_protocols_defaults(wire: Wire) -> None:
    message = wire.update("tool_call", toolCallId="t", title="x")
    assert (message.metadata["kind"], message.metadata["status"]) == ("other", "pending")


@pytest.mark.parametrize("status", ["pending", "in_progress", None])
def test_an_update_of_a_tool_call_that_is_not_finished_is_progress(wire: Wire, status: str | None) -> None:
    wire.update("tool_call", toolCallId="t", title="x")
    content = [{"type": "content", "content": TEXT}]
    message = wire.update("tool_call_update", toolCallId="t", status=status, content=content)
    assert kind(message) == ("tool_progress", "tool")
    assert (message.metadata["status"], message.metadata["content"]) == (status, content)


def test_a_completed_tool_call_has_a_summary_with_its_result(wire: Wire) -> None:
    wire.update("tool_call", toolCallId="t", title="Run it", kind="execute")
    diff = {"type": "diff", "path": "/a", "newText": "b"}
    content = [{"type": "content", "content": TEXT}, diff]
    message = wire.update("tool_call_update", toolCallId="t", status="completed", content=content, rawOutput=3)
    assert kind(message) == ("tool_use_summary", "tool")
    assert message.content == (TEXT, diff)
    assert message.metadata == {
        "sessionUpdate": "tool_call_update",
        "toolCallId": "t",
        "status": "completed",
        "rawOutput": 3,
        "title": "Run it",
        "kind": "execute",
    }


def test_a_failed_tool_call_has_a_summary_with_its_error(wire: Wire) -> None:
    content = [{"type": "content", "content": TEXT}]
    message = wire.update("tool_call_update", toolCallId="t", status="failed", content=content)
    assert kind(message) == ("tool_use_summary", "tool")
    assert message.content == (TEXT,)
    assert message.metadata["is_error"] is True


def test_a_plan_is_a_change_of_status(wire: Wire) -> None:
    entries = [{"content": "think", "priority": "high", "status": "pending"}]
    message = wire.update("plan", entries=entries)
    assert kind(message) == ("status_change", "system")
    assert message.metadata["entries"] == entries


def test_commands_are_passed_on_whole(wire: Wire) -> None:
    commands = [{"name": "web", "description": "Search", "input": {"hint": "query"}}]
    message = wire.update("available_commands_update", availableCommands=commands)
    assert kind(message) == ("unknown", "system")
    assert message.metadata == {"sessionUpdate": "available_commands_update", "availableCommands": commands}


def test_a_change_of_mode_is_a_configuration_change(wire: Wire) -> None:
    message = wire.update("current_mode_update", currentModeId="plan")
    assert kind(message) == ("configuration_change", "system")
    assert message.metadata["modeId"] == "plan"


def test_a_permission_request_can_be_answered_by_its_request_id(wire: Wire) -> None:
    options = [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]
    params = {"sessionId": SESSION, "toolCall": {"toolCallId": "t"}, "options": options, "_meta": {"a": 1}}
    [message] = wire.frame("in", {"id": 0, "method": "session/request_permission", "params": params})
    assert kind(message) == ("permission_request", "system")
    assert message.metadata == {**params, "request_id": message.id, "origin": "agent"}


def test_two_permission_requests_of_the_same_id_have_different_request_ids(wire: Wire) -> None:
    """An agent may use an id again once it was answered; a late answer must not reach the second."""
    params = {"sessionId": SESSION, "toolCall": {"toolCallId": "t"}, "options": []}
    request = {"id": 0, "method": "session/request_permission", "params": params}
    [first] = wire.frame("in", request)
    wire.frame("out", {"id": 0, "result": {"outcome": {"outcome": "cancelled"}}})
    [second] = wire.frame("in", request)
    assert first.metadata["request_id"] != second.metadata["request_id"]


def test_the_answer_to_a_prompt_is_its_result(wire: Wire) -> None:
    result = {"stopReason": "max_tokens", "usage": {"totalTokens": 3}}
    message = wire.answered("session/prompt", {"sessionId": SESSION, "prompt": []}, {"result": result})
    assert kind(message) == ("result", "system")
    assert message.metadata == result


def test_a_prompt_that_is_answered_with_an_error_has_a_result_that_says_so(wire: Wire) -> None:
    error = {"code": -32000, "message": "log in", "data": {"a": 1}}
    message = wire.answered("session/prompt", {"sessionId": SESSION, "prompt": []}, {"error": error})
    assert kind(message) == ("result", "system")
    assert message.metadata == {"stopReason": None, "is_error": True, "error": error}


@pytest.mark.parametrize("result", [None, {}, {"stopReason": 5}, "done"])
def test_a_prompt_that_is_answered_without_a_stop_reason_failed(wire: Wire, result: object) -> None:
    message = wire.answered("session/prompt", {"sessionId": SESSION, "prompt": []}, {"result": result})
    assert kind(message) == ("result", "system")
    assert message.metadata["is_error"] is True


EVERYTHING_ELSE: list[dict[str, Any]] = [
    {"sessionUpdate": "user_message_chunk", "content": TEXT},
    {"sessionUpdate": "usage_update", "used": 1, "size": 2},
    {"sessionUpdate": "config_option_update", "configOptions": []},
    {"sessionUpdate": "session_info_update", "title": "x"},
    {"sessionUpdate": "notice", "message": "x"},
    {"sessionUpdate": "plan_update", "plan": {"type": "file", "planId": "p", "uri": "file:///p"}},
    {"sessionUpdate": "tomorrow", "x": [1, {"y": None}], "_meta": {"z": 1}},
    {"sessionUpdate": "agent_message_chunk", "content": "not a block"},
    {"sessionUpdate": "tool_call", "title": "without an id"},
    {},
]


@pytest.mark.parametrize("update", EVERYTHING_ELSE, ids=lambda update: str(update.get("sessionUpdate")))
def test_every_other_update_is_passed_on_whole(wire: Wire, update: dict[str, Any]) -> None:
    [message] = wire.frame("in", {"method": "session/update", "params": {"sessionId": SESSION, "update": update}})
    assert kind(message) == ("unknown", "system")
    assert message.metadata == update


def test_every_other_request_is_passed_on_whole(wire: Wire) -> None:
    request = {"id": "a", "method": "fs/read_text_file", "params": {"sessionId": SESSION, "path": "/x"}}
    [message] = wire.frame("in", request)
    assert (kind(message), message.metadata) == (("unknown", "system"), request)


def test_every_other_notification_is_passed_on_whole(wire: Wire) -> None:
    frame = {"method": "_vendor/status", "params": {"ok": True}}
    [message] = wire.frame("in", frame)
    assert (kind(message), message.metadata) == (("unknown", "system"), frame)


@pytest.mark.parametrize("answer", [{"result": {"configOptions": []}}, {"error": {"code": -32602, "message": "no"}}])
def test_every_other_answer_is_passed_on_whole_with_its_method(wire: Wire, answer: dict[str, Any]) -> None:
    message = wire.answered("session/set_config_option", {"sessionId": SESSION}, answer)
    assert kind(message) == ("unknown", "system")
    assert message.metadata == {"id": message.metadata["id"], "method": "session/set_config_option", **answer}


# -- what the table leaves open


def test_a_tool_call_that_is_finished_when_it_appears_is_progress_and_summary(wire: Wire) -> None:
    content = [{"type": "content", "content": TEXT}]
    progress, summary = wire.updates("tool_call", toolCallId="t", title="x", status="failed", content=content)
    assert (kind(progress), progress.metadata["content"]) == (("tool_progress", "tool"), content)
    assert (kind(summary), summary.content) == (("tool_use_summary", "tool"), (TEXT,))
    assert summary.metadata["is_error"] is True
    assert progress.id != summary.id


def test_a_summary_has_the_result_that_was_reported_before_the_end(wire: Wire) -> None:
    wire.update("tool_call", toolCallId="t", title="x", content=[{"type": "terminal", "terminalId": "1"}])
    message = wire.update("tool_call_update", toolCallId="t", status="completed", title="")
    assert message.content == ({"type": "terminal", "terminalId": "1"},)
    assert message.metadata["title"] == "x"


def test_a_result_that_was_withdrawn_is_not_shown(wire: Wire) -> None:
    wire.update("tool_call", toolCallId="t", title="x", content=[{"type": "content", "content": TEXT}])
    message = wire.update("tool_call_update", toolCallId="t", status="completed", content=[])
    assert message.content == ()


def test_a_tool_calls_id_may_be_used_again(wire: Wire) -> None:
    wire.update("tool_call", toolCallId="", title="first", content=[{"type": "content", "content": TEXT}])
    wire.update("tool_call_update", toolCallId="", status="completed")
    wire.update("tool_call", toolCallId="", title="second")
    message = wire.update("tool_call_update", toolCallId="", status="completed")
    assert (message.metadata["title"], message.content) == ("second", ())


def test_a_tool_call_that_a_run_left_unfinished_does_not_belong_to_the_next_run(wire: Wire) -> None:
    wire.update("tool_call", toolCallId="t", title="of the first turn")
    prompt = {"sessionId": SESSION, "prompt": []}
    wire.answered("session/prompt", prompt, {"result": {"stopReason": "cancelled"}})
    assert "title" not in wire.update("tool_call_update", toolCallId="t", status="completed").metadata


def test_fields_around_a_content_block_are_preserved(wire: Wire) -> None:
    item = {"type": "content", "content": TEXT, "_meta": {"a": 1}}
    message = wire.update("tool_call_update", toolCallId="t", status="completed", content=[item])
    assert message.content == (item,)


def test_updates_before_the_sessions_id_belong_to_the_session() -> None:
    assert kind(Wire().update("agent_message_chunk", content=TEXT)) == ("stream_event", "assistant")


def test_updates_of_another_session_do_not_belong_to_this_one(wire: Wire) -> None:
    params = {"sessionId": "another", "update": {"sessionUpdate": "agent_message_chunk", "content": TEXT}}
    [message] = wire.frame("in", {"method": "session/update", "params": params})
    assert (kind(message), message.metadata["params"]) == (("unknown", "system"), params)
    request = {"sessionId": "another", "toolCall": {"toolCallId": "t"}, "options": []}
    [message] = wire.frame("in", {"id": 1, "method": "session/request_permission", "params": request})
    assert kind(message) == ("unknown", "system")


def test_fields_beside_the_update_are_preserved(wire: Wire) -> None:
    update = {"sessionUpdate": "plan", "entries": []}
    params = {"sessionId": SESSION, "update": update, "_meta": {"traceparent": "00"}}
    [message] = wire.frame("in", {"method": "session/update", "params": params})
    assert message.metadata["params"] == {"_meta": {"traceparent": "00"}}


@pytest.mark.parametrize("line", [b"not JSON", b"null", b"\xff\xfe", b'{"id": 99, "result": {}}'])
def test_a_line_that_is_no_message_is_passed_on_as_text(wire: Wire, line: bytes) -> None:
    [message] = wire.frame("in", line)
    assert kind(message) == ("unknown", "system")
    assert message.metadata["line"] == line.decode("utf-8", "backslashreplace")
    assert message.metadata["noise"]


def test_the_beginning_of_an_overlong_line_is_passed_on() -> None:
    [message] = MessageView().on_received(Oversized(length=100, sha256="ab", head=b'{"id"'), 1.0)
    assert message.metadata == {"oversized": 100, "sha256": "ab", "head": '{"id"'}


def test_a_broken_character_does_not_cost_the_text_around_it(wire: Wire) -> None:
    line = msgspec.json.encode(
        {
            "method": "session/update",
            "params": {"sessionId": SESSION, "update": {"sessionUpdate": "agent_message_chunk"}},
        }
    )
    line = line.replace(b'chunk"', b'chunk","content":{"type":"text","text":"a\xffb"}')
    [message] = wire.frame("in", line)
    assert kind(message) == ("stream_event", "assistant")
    assert message.content[0]["text"] == "a\ufffdb"


def test_ids_count_the_messages(wire: Wire) -> None:
    messages = [wire.update("plan", entries=[]).id for _ in range(3)]
    assert messages == ["message-2", "message-3", "message-4"]


def test_facts_without_a_frame_have_the_same_form() -> None:
    view = MessageView()
    crash = view.message("error", 1.0, error_metadata(AgentCrashed("it ended", exit_code=3, stderr="why")))
    assert kind(crash) == ("error", "system")
    assert crash.metadata["kind"] == "AgentCrashed"
    assert (crash.metadata["exit_code"], crash.metadata["stderr"]) == (3, "why")
    assert with_metadata(crash, in_reply_to="x").metadata == {**crash.metadata, "in_reply_to": "x"}
    assert "is_error" not in result_metadata("cancelled", "by us")
    assert result_metadata("interrupted", "it died") == {
        "stopReason": None,
        "status": "interrupted",
        "reason": "it died",
        "is_error": True,
    }


def test_a_permission_request_of_dragoman_looks_like_the_agents() -> None:
    request = PermissionRequest(
        session_id="s",
        tool_call_id=None,
        origin="files",
        title="Write a",
        kind="edit",
        paths=("/a",),
        diffs=(Diff(path="/a", old_text=None, new_text="b"),),
        options=(Option("allow", "Allow", "allow_once"),),
    )
    metadata = permission_metadata(request)
    assert metadata["origin"] == "files"
    assert metadata["toolCall"]["content"] == [{"type": "diff", "path": "/a", "newText": "b"}]
    assert metadata["options"] == [{"optionId": "allow", "name": "Allow", "kind": "allow_once"}]
    msgspec.json.encode(metadata)


def test_a_message_can_be_read_from_another_process(wire: Wire) -> None:
    message = wire.update("agent_message_chunk", content=TEXT)
    assert read_message(msgspec.json.encode(message)) == message
    with pytest.raises(InputError, match=r"\$\.type"):
        read_message(b'{"id": "1", "timestamp": 0, "type": "sing", "role": "user"}')
    with pytest.raises(InputError, match="no message"):
        read_message(b"\xff")


# -- properties

KINDS = ["agent_message_chunk", "agent_thought_chunk", "tool_call", "tool_call_update", "plan", "current_mode_update"]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
FIELDS = st.dictionaries(
    st.sampled_from(["content", "toolCallId", "title", "kind", "status", "entries", "currentModeId", "x", "_meta"]),
    JSON | st.sampled_from(["completed", "failed", "t", TEXT, [{"type": "content", "content": TEXT}]]),
)


@given(st.lists(st.tuples(st.sampled_from([*KINDS, "other"]), FIELDS), max_size=8))
def test_every_field_of_an_update_is_in_its_message(updates: list[tuple[str, dict[str, Any]]]) -> None:
    wire = Wire().opened()
    for tag, fields in updates:
        for messages in wire.updates(tag, **fields):
            assert messages.metadata["sessionUpdate"] == tag
            for name, value in fields.items():
                if name == "content" and name not in messages.metadata:
                    unwrapped = [value] if isinstance(value, dict) else value or []
                    assert value is None or len(messages.content) == len(unwrapped)
                elif messages.type == "tool_progress" and name in ("kind", "status") and tag == "tool_call":
                    assert messages.metadata[name]
                elif name not in ("title", "kind"):
                    assert messages.metadata[name] == value
            msgspec.json.encode(messages)


@given(st.binary(max_size=60) | JSON.map(msgspec.json.encode))
def test_no_line_is_too_odd_for_a_message(line: bytes) -> None:
    wire = Wire().opened()
    lines = [piece for piece in line.split(b"\n") if piece.strip()]
    for piece in lines:
        assert wire.frame("in", piece)


FOLDER = Path(os.environ.get("DRAGOMAN_RECORDINGS") or Path(__file__).resolve().parents[3] / "shared" / "recordings")
CASES = sorted(str(path.relative_to(FOLDER)) for path in FOLDER.glob("*/*.jsonl"))
ABSENT = pytest.mark.skip(reason=f"no recordings in {FOLDER}")


def recorded(case: str) -> Iterator[tuple[Literal["in", "out"], Any]]:
    for line in (FOLDER / case).read_bytes().splitlines():
        entry = msgspec.json.decode(line)
        if entry["dir"] in ("in", "out"):
            yield entry["dir"], entry["frame"]


@pytest.mark.parametrize("case", CASES or [pytest.param("none", marks=ABSENT)])
def test_every_frame_of_a_real_agent_is_a_message_in_order(case: str) -> None:
    wire, prompts, results, ids, session = Wire(), 0, 0, [], None
    for direction, frame in recorded(case):
        messages = wire.frame(direction, frame)
        session = next((each.metadata.get("sessionId") for each in messages if each.type == "session_init"), session)
        ids += [message.id for message in messages]
        if direction == "out":
            assert messages == []
            prompts += frame.get("method") == "session/prompt"
            continue
        assert 1 <= len(messages) <= 2
        results += sum(message.type == "result" for message in messages)
        params = frame.get("params") or {}
        if params.get("sessionId") == session and params.get("update", {}).get("sessionUpdate") in KINDS:
            assert all(message.type != "unknown" for message in messages)
    assert results <= prompts
    assert ids == [f"message-{number}" for number in range(1, len(ids) + 1)]


def test_noise_is_reported_with_its_reason() -> None:
    [message] = MessageView().on_received(Noise("blank line", b""), 1.0)
    assert message.metadata == {"noise": "blank line", "line": ""}
