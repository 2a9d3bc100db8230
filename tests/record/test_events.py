"""Each event, and the message of the agent that causes it."""

from __future__ import annotations

import math
from typing import Any, TypeVar

import msgspec
import pytest

from dragoman.host.permission import PermissionRequest
from dragoman.record import events, facts, rows
from dragoman.record.events import Event, event_from_fact, raw_part, to_json
from dragoman.record.text import GrowingText
from dragoman.testing.memory import play, session_of
from dragoman.testing.scripted import ScriptedAgent, Turn

E = TypeVar("E", bound=events.EventBase)

TEXT = {"type": "text", "text": "hi"}


def only(emitted: list[Event], kind: type[E]) -> E:
    [found] = [event for event in emitted if isinstance(event, kind)]
    return found


def types(emitted: list[Event]) -> list[str]:
    return [event.type for event in emitted]


# -- one test an event


async def test_run_started_is_the_first_and_carries_the_prompt_as_it_was_sent() -> None:
    async def script(turn: Turn) -> None:
        await turn.say("hi")

    emitted = await play(script, "do it")
    started = only(emitted, events.RunStarted)
    assert emitted[0] is started
    assert started.type == "run.started"
    assert started.raw["prompt"] == [{"type": "text", "text": "do it"}]
    assert started.run_id is not None
    assert started.time > 0


async def test_assistant_delta_is_a_piece_of_the_text() -> None:
    async def script(turn: Turn) -> None:
        await turn.say("one ")
        await turn.say("two")

    emitted = await play(script)
    deltas = [event for event in emitted if isinstance(event, events.AssistantDelta)]
    assert [delta.text for delta in deltas] == ["one ", "two"]
    assert deltas[0].message_id == deltas[1].message_id
    assert deltas[0].type == "assistant.delta"


async def test_reasoning_delta_is_a_piece_of_the_thoughts() -> None:
    async def script(turn: Turn) -> None:
        await turn.think("hm")
        await turn.say("hi")

    emitted = await play(script)
    delta = only(emitted, events.ReasoningDelta)
    assert (delta.type, delta.text) == ("assistant.reasoning.delta", "hm")
    assert delta.message_id != only(emitted, events.AssistantDelta).message_id


async def test_assistant_message_has_the_whole_text_and_other_content() -> None:
    image = {"type": "image", "data": "aGk=", "mimeType": "image/png"}

    async def script(turn: Turn) -> None:
        await turn.say("a")
        await turn.update("agent_message_chunk", content=image)
        await turn.say("b")

    emitted = await play(script)
    message = only(emitted, events.AssistantMessage)
    assert (message.type, message.text, message.raw) == ("assistant.message", "ab", None)
    assert [type(block).__name__ for block in message.blocks] == ["ImageContent"]
    assert only(emitted, events.ProviderEvent).kind == "agent_message_chunk"


async def test_reasoning_message_has_the_whole_thought() -> None:
    async def script(turn: Turn) -> None:
        await turn.think("a")
        await turn.think("b")
        await turn.say("c")

    emitted = await play(script)
    assert only(emitted, events.ReasoningMessage).text == "ab"
    assert types(emitted)[1:5] == [
        "assistant.reasoning.delta",
        "assistant.reasoning.delta",
        "assistant.reasoning.message",
        "assistant.delta",
    ]


async def test_tool_call_has_all_its_fields() -> None:
    async def script(turn: Turn) -> None:
        await turn.tool(
            "t1",
            title="Edit x",
            kind="edit",
            status="in_progress",
            content=[{"type": "diff", "path": "/x", "oldText": "a", "newText": "b"}],
            locations=[{"path": "/x", "line": 3}],
            rawInput={"file": "/x"},
            _meta={"claudeCode": {"parentToolUseId": "t0"}},
        )

    call = only(await play(script), events.ToolCall)
    assert (call.type, call.tool_call_id, call.title, call.kind) == ("tool.call", "t1", "Edit x", "edit")
    assert (call.status, call.input, call.output, call.parent_id) == ("in_progress", {"file": "/x"}, None, "t0")
    assert [item.path for item in call.locations] == ["/x"]
    assert [getattr(item, "new_text", None) for item in call.content] == ["b"]


async def test_tool_result_comes_once_and_reports_failure() -> None:
    async def script(turn: Turn) -> None:
        await turn.tool("t1")
        await turn.tool_update("t1", status="in_progress")
        await turn.tool_update("t1", status="failed", rawOutput={"error": "no"})
        await turn.tool_update("t1", status="failed", rawOutput={"error": "still no"})

    emitted = await play(script)
    result = only(emitted, events.ToolResult)
    assert (result.type, result.status, result.is_error) == ("tool.result", "failed", True)
    assert result.output == {"error": "no"}
    kinds = [event.kind for event in emitted if isinstance(event, events.ProviderEvent)]
    assert kinds == ["tool_call_update", "tool_call_update"]


async def test_plan_updated_is_the_whole_plan() -> None:
    async def script(turn: Turn) -> None:
        await turn.update("plan", entries=[{"content": "one", "priority": "high", "status": "pending"}])
        await turn.update("plan", entries=[])

    first, second = (event for event in await play(script) if isinstance(event, events.PlanUpdated))
    assert first.entries == (rows.PlanEntry("one", "high", "pending"),)
    assert (second.entries, second.removed, second.type) == ((), False, "plan.updated")


async def test_a_removed_plan_says_so() -> None:
    async def script(turn: Turn) -> None:
        await turn.update("plan_update", plan={"type": "markdown", "planId": "p", "content": "# Plan"})
        await turn.update("plan_removed", planId="p")
        await turn.update("plan_removed", planId="never seen")

    emitted = await play(script)
    plans = [
        (event.plan_id, event.markdown, event.removed) for event in emitted if isinstance(event, events.PlanUpdated)
    ]
    assert plans == [("p", "# Plan", False), ("p", "# Plan", True)]
    assert only(emitted, events.ProviderEvent).kind == "plan_removed"


async def test_usage_updated_has_only_reported_figures() -> None:
    async def script(turn: Turn) -> object:
        await turn.say("hi")
        await turn.update("usage_update", used=10, size=100)
        return {"stopReason": "end_turn", "usage": {"totalTokens": 5, "inputTokens": 3, "outputTokens": 2}}

    first, second = (event for event in await play(script) if isinstance(event, events.UsageUpdated))
    assert (first.type, first.usage) == ("usage.updated", rows.Usage(context_used=10, context_size=100))
    assert second.usage == rows.Usage(
        context_used=10, context_size=100, total_tokens=5, input_tokens=3, output_tokens=2
    )
    assert second.usage.cached_tokens is None


async def test_permission_requested_has_the_question_and_its_options() -> None:
    async def script(turn: Turn) -> None:
        await turn.ask_permission("Delete all", kind="delete", rawInput={"path": "/"})

    request = only(await play(script), events.PermissionRequested)
    assert (request.type, request.title, request.kind, request.input) == (
        "permission.requested",
        "Delete all",
        "delete",
        {"path": "/"},
    )
    assert [(option.option_id, option.kind) for option in request.options] == [
        ("allow", "allow_once"),
        ("reject", "reject_once"),
    ]
    assert request.raw["toolCall"]["title"] == "Delete all"


async def test_permission_resolved_names_who_decided_and_why() -> None:
    async def script(turn: Turn) -> None:
        assert await turn.ask_permission() == "allow"

    async def ask(request: PermissionRequest) -> bool:
        return True

    emitted = await play(script, on_permission=ask)
    resolved = only(emitted, events.PermissionResolved)
    assert (resolved.type, resolved.outcome, resolved.option_id, resolved.option_kind) == (
        "permission.resolved",
        "selected",
        "allow",
        "allow_once",
    )
    assert resolved.decided_by == "callback"
    assert resolved.reason
    assert resolved.permission_id == only(emitted, events.PermissionRequested).permission_id
    assert resolved.raw == {"outcome": {"outcome": "selected", "optionId": "allow"}}


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("available_commands_update", {"availableCommands": [{"name": "web", "description": "search"}]}),
        ("current_mode_update", {"currentModeId": "plan"}),
        ("config_option_update", {"configOptions": []}),
        ("session_info_update", {"title": "A title"}),
        ("user_message_chunk", {"content": TEXT}),
        ("notice", {"message": "careful", "level": "warning"}),
        ("never_heard_of", {"anything": [1, None]}),
    ],
)
async def test_provider_event_carries_updates_without_an_event(kind: str, fields: dict[str, Any]) -> None:
    async def script(turn: Turn) -> None:
        await turn.say("hi")
        await turn.update(kind, **fields)

    event = only(await play(script), events.ProviderEvent)
    assert (event.type, event.kind, event.raw) == ("provider.event", kind, {"sessionUpdate": kind, **fields})


async def test_an_extension_notification_is_a_provider_event() -> None:
    async def script(turn: Turn) -> None:
        await turn.say("hi")
        turn.agent.notify("_vendor/thing", {"sessionId": turn.session_id, "x": 1})

    event = only(await play(script), events.ProviderEvent)
    assert (event.kind, event.raw["x"]) == ("_vendor/thing", 1)


async def test_error_says_what_failed_and_what_to_do() -> None:
    async def script(turn: Turn) -> str:
        await turn.say("half a")
        return "max_tokens"

    emitted = await play(script)
    error = only(emitted, events.Error)
    assert (error.type, error.kind, error.category) == ("error", "StoppedEarly", "agent")
    assert error.message
    assert error.guidance


async def test_run_completed_sums_up() -> None:
    async def script(turn: Turn) -> object:
        await turn.say("one")
        await turn.tool("t")
        await turn.say("two")
        return {"stopReason": "end_turn", "usage": {"totalTokens": 5, "inputTokens": 3, "outputTokens": 2}}

    completed = only(await play(script), events.RunCompleted)
    assert (completed.type, completed.status, completed.stop_reason) == ("run.completed", "success", "end_turn")
    assert completed.text == "one\n\ntwo"
    assert completed.usage is not None
    assert completed.usage.total_tokens == 5
    assert completed.duration is not None
    assert completed.duration >= 0


# -- order


async def test_the_message_comes_before_the_end_and_the_end_is_last() -> None:
    async def script(turn: Turn) -> object:
        await turn.say("hi")
        return {"stopReason": "end_turn", "usage": {"totalTokens": 5, "inputTokens": 3, "outputTokens": 2}}

    assert types(await play(script)) == [
        "run.started",
        "assistant.delta",
        "assistant.message",
        "usage.updated",
        "run.completed",
    ]


@pytest.mark.parametrize("stop_reason", ["max_tokens", "max_turn_requests", "refusal", "a reason of its own"])
async def test_an_early_stop_is_an_error_that_keeps_the_text(stop_reason: str) -> None:
    async def script(turn: Turn) -> str:
        await turn.say("half a")
        return stop_reason

    emitted = await play(script)
    assert types(emitted)[-3:] == ["assistant.message", "error", "run.completed"]
    completed = only(emitted, events.RunCompleted)
    assert (completed.status, completed.stop_reason, completed.text) == ("error", stop_reason, "half a")


async def test_a_tool_first_seen_in_an_update_is_a_tool_call_event() -> None:
    async def script(turn: Turn) -> None:
        await turn.say("before")
        await turn.tool_update("t1", status="completed", title="late to the party")
        await turn.say("after")

    emitted = await play(script)
    assert types(emitted)[1:-1] == [
        "assistant.delta",
        "assistant.message",
        "tool.call",
        "tool.result",
        "assistant.delta",
        "assistant.message",
    ]
    assert only(emitted, events.ToolCall).title == "late to the party"


async def test_a_tool_first_seen_in_a_permission_request_is_a_tool_call_event() -> None:
    async def script(turn: Turn) -> None:
        await turn.ask_permission("Write", toolCallId="t1")
        await turn.tool_update("t1", status="completed")

    emitted = await play(script)
    assert types(emitted)[1:5] == ["tool.call", "permission.requested", "permission.resolved", "tool.result"]


async def test_a_permission_request_for_a_known_tool_causes_one_event() -> None:
    async def script(turn: Turn) -> None:
        await turn.tool("t1", title="Write")
        await turn.ask_permission("Write x", toolCallId="t1")
        await turn.tool_update("t1", status="completed")

    emitted = await play(script)
    assert types(emitted)[1:5] == ["tool.call", "permission.requested", "permission.resolved", "tool.result"]


async def test_a_repeated_tool_call_is_an_update_of_it() -> None:
    async def script(turn: Turn) -> None:
        await turn.tool("t1", status="pending")
        await turn.tool("t1", status="in_progress", title="now with a title")
        await turn.tool("t1", status="completed")

    emitted = await play(script)
    assert types(emitted)[1:-1] == ["tool.call", "provider.event", "tool.result"]
    assert only(emitted, events.ProviderEvent).kind == "tool_call"
    assert only(emitted, events.ToolResult).title == "t1"


async def test_a_mode_update_never_confirms_a_model() -> None:
    options = [
        {
            "type": "select",
            "id": "model",
            "name": "Model",
            "category": "model",
            "currentValue": "small",
            "options": [{"value": "small", "name": "Small"}, {"value": "big", "name": "Big"}],
        }
    ]

    async def script(turn: Turn) -> None:
        await turn.say("hi")
        await turn.update("current_mode_update", currentModeId="big")

    async with session_of(ScriptedAgent(script, session={"configOptions": options})) as session:
        emitted = [event async for event in session.run("go")]
        assert only(emitted, events.ProviderEvent).kind == "current_mode_update"
        setting = session.fold.setting("model")
        assert setting is not None
        assert setting.current == "small"
        assert session.snapshot().model == "small"


# -- raw


async def test_raw_has_every_field_of_the_agents_frame() -> None:
    strange = {"_meta": {"vendor": {"a": [1, {"b": None}]}}, "unknownField": "kept", "x": 1.5}

    async def script(turn: Turn) -> None:
        await turn.say("hi", **strange)
        await turn.tool("t1", status="completed", **strange)

    emitted = await play(script)
    assert only(emitted, events.AssistantDelta).raw == {
        "sessionUpdate": "agent_message_chunk",
        "content": TEXT,
        **strange,
    }
    assert only(emitted, events.ToolCall).raw["unknownField"] == "kept"


async def test_raw_of_a_repaired_update_is_the_original() -> None:
    async def script(turn: Turn) -> None:
        await turn.say("hi")
        await turn.tool("t1", kind="no such kind", locations="not a list", status="completed")

    call = only(await play(script), events.ToolCall)
    assert call.locations == ()
    assert (call.raw["kind"], call.raw["locations"]) == ("no such kind", "not a list")


def test_raw_of_a_line_that_is_no_json_is_its_text() -> None:
    raw = raw_part(b'{"half": \xff')
    assert raw is not None
    assert msgspec.json.decode(raw) == '{"half": \ufffd'
    assert raw_part(None) is None


async def test_events_become_json_and_back() -> None:
    async def script(turn: Turn) -> object:
        await turn.think("hm")
        await turn.say("hi", odd="kept")
        await turn.tool("t1", status="completed", rawInput={"a": 1})
        await turn.update("plan", entries=[{"content": "one", "priority": "high", "status": "pending"}])
        await turn.update("usage_update", used=1, size=2)
        await turn.ask_permission()
        await turn.update("current_mode_update", currentModeId="x")
        return "refusal"

    emitted = await play(script)
    assert len(set(types(emitted))) == 14
    for event in emitted:
        line = to_json(event)
        assert b"\n" not in line
        plain = msgspec.json.decode(line)
        assert plain["type"] == event.type
        assert plain["raw"] == event.raw
        assert (plain["time"], plain["session_id"], plain["run_id"]) == (event.time, event.session_id, event.run_id)
        for name in event.__struct_fields__:
            if name != "line":
                assert plain[name] == msgspec.json.decode(msgspec.json.encode(getattr(event, name)))
        assert "line" not in plain


def test_the_end_of_a_run_is_reported_by_the_run() -> None:
    assert event_from_fact(facts.RunEnded(rows.Run(id="r", time=0.0)), 0.0, "s", "r", None) is None


def test_the_end_of_a_user_message_is_no_event() -> None:
    message = rows.Message(
        id="m", kind="user", run_id=None, message_id=None, time=0.0, replayed=True, body=GrowingText()
    )
    assert event_from_fact(facts.MessageEnded(message), 0.0, "s", None, None) is None


def test_the_end_of_a_message_has_the_run_of_the_message() -> None:
    message = rows.Message(
        id="m", kind="assistant", run_id=None, message_id=None, time=0.0, replayed=True, body=GrowingText()
    )
    ended = event_from_fact(facts.MessageEnded(message), 0.0, "s", "the next run", None)
    assert isinstance(ended, events.AssistantMessage)
    assert ended.run_id is None


async def test_an_update_in_broken_text_is_raw_as_far_as_it_can_be_read() -> None:
    async def script(turn: Turn) -> None:
        content = b'{"type":"text","text":"half \xe2\x82"}'
        update = b'{"sessionUpdate":"agent_message_chunk","content":%b}' % content
        turn.agent.raw(b'{"method":"session/update","params":{"sessionId":"session-1","update":%b}}\n' % update)

    delta = only(await play(script), events.AssistantDelta)
    assert delta.text == "half \ufffd"
    assert "half \ufffd" in delta.raw
    assert msgspec.json.decode(to_json(delta))["raw"] == delta.raw


async def test_raw_with_a_number_out_of_range_can_be_read() -> None:
    async def script(turn: Turn) -> None:
        update = b'{"sessionUpdate":"figures","most":1e400}'
        turn.agent.raw(b'{"method":"session/update","params":{"sessionId":"session-1","update":%b}}\n' % update)
        await turn.say("hi")

    emitted = only(await play(script), events.ProviderEvent)
    assert emitted.raw == {"sessionUpdate": "figures", "most": math.inf}
