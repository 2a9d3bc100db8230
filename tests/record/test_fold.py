"""The fold, frame by frame."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import msgspec
import pytest

from dragoman.record import facts, notes, rows
from dragoman.record.fold import SessionFold
from dragoman.record.text import GrowingText
from dragoman.record.tool_calls import MAX_OUTPUT_CHARACTERS
from dragoman.wire.messages import Reply
from dragoman.wire.vocabulary import AgentMessageChunk, ImageContent, TextContent
from support.tape import Tape, rows_of

BROKEN = msgspec.Raw(b'{"stopReason":"odd\xff"}')


def tools(tape: Tape) -> list[tuple[str, str | None, str]]:
    return [(call.tool_call_id, call.run_id, call.status) for call in tape.fold.tool_calls]


def texts(tape: Tape) -> list[tuple[str, str]]:
    return [(message.kind, message.text) for message in tape.fold.messages]


def ids_of(kind: type[Any], changes: Any) -> list[str]:
    return [fact.tool_call.tool_call_id for fact in changes if isinstance(fact, kind)]


# -- messages


def test_chunks_of_a_kind_make_one_message() -> None:
    tape = Tape()
    tape.prompt("do it")
    for text in ("a", "b"):
        tape.think(text)
    for text in ("c", "d"):
        tape.say(text)
    tape.think("e")
    assert texts(tape) == [("user", "do it"), ("thought", "ab"), ("assistant", "cd"), ("thought", "e")]


def test_another_message_id_begins_a_message_and_none_continues_it() -> None:
    tape = Tape()
    tape.say("a", messageId="1")
    tape.say("b")
    tape.say("c", messageId="1")
    tape.say("d", messageId="2")
    assert texts(tape) == [("assistant", "abc"), ("assistant", "d")]


def test_text_after_a_tool_call_is_another_message() -> None:
    tape = Tape()
    tape.say("a")
    tape.tool("t")
    tape.say("b")
    tape.tool_update("t", status="completed")
    tape.say("c")
    assert texts(tape) == [("assistant", "a"), ("assistant", "bc")]


def test_message_ids_decide_where_a_message_ends() -> None:
    tape = Tape()
    tape.say("a", messageId="1")
    tape.tool("t")
    tape.say("b", messageId="1")
    assert texts(tape) == [("assistant", "ab")]


def test_the_users_own_prompt_is_recorded_without_the_assembled_text() -> None:
    tape = Tape()
    tape.note(notes.Prompt("run-x", (TextContent(text="mine"),)))
    tape.prompt("system words, then mine")
    assert texts(tape) == [("user", "mine")]
    assert list(tape.fold.runs) == ["run-x"]


def test_a_note_counts_only_from_the_host() -> None:
    tape = Tape()
    run = tape.prompt()
    run_id = next(iter(tape.fold.runs))
    line = notes.write(notes.RunInterrupted(run_id, "error", "forged"))
    tape.fold.apply(99, 99.0, "in", line)
    assert tape.fold.runs[run_id].status == "running"
    tape.say("hi")
    tape.end(run)
    assert tape.fold.runs[run_id].status == "success"


# -- tool calls


def test_an_id_of_an_earlier_run_is_another_tool_call() -> None:
    tape = Tape()
    for _ in range(2):
        run = tape.prompt()
        tape.tool("t")
        tape.tool_update("t", status="completed")
        tape.end(run)
    first, second = tape.fold.runs
    assert tools(tape) == [("t", first, "completed"), ("t", second, "completed")]


def test_an_update_of_an_earlier_runs_tool_is_late_and_not_new() -> None:
    tape = Tape()
    run = tape.prompt()
    tape.tool("t")
    tape.end(run)
    tape.prompt()
    changes = tape.tool_update("t", status="completed")
    assert ids_of(facts.ToolCallSeen, changes) == []
    assert ids_of(facts.ToolCallEnded, changes) == ["t"]
    assert tools(tape) == [("t", next(iter(tape.fold.runs)), "completed")]


def test_an_update_that_reuses_a_finished_id_is_a_new_tool_call() -> None:
    tape = Tape()
    run = tape.prompt()
    tape.tool("t", status="completed")
    tape.end(run)
    tape.prompt()
    tape.tool_update("t", rawOutput="late")
    assert ids_of(facts.ToolCallSeen, tape.tool_update("t", status="in_progress")) == ["t"]
    assert [call.raw_output for call in tape.fold.tool_calls] == ["late", None]


def test_a_permission_request_is_never_for_an_earlier_runs_tool() -> None:
    tape = Tape()
    run = tape.prompt()
    tape.tool("t", rawInput={"command": "ls"})
    tape.end(run)
    tape.prompt()
    tape.permission("p", "t")
    [permission] = tape.fold.permissions.values()
    assert permission.raw_input is None
    assert len(tape.fold.tool_calls) == 2


def test_an_empty_id_that_comes_again_after_its_end_is_another_tool_call() -> None:
    tape = Tape()
    for _ in range(2):
        tape.tool("", status="pending")
        tape.tool_update("", status="completed")
    assert tools(tape) == [("", None, "completed"), ("", None, "completed")]


def test_a_repeated_tool_call_is_an_upsert() -> None:
    tape = Tape()
    tape.tool("t", title="one", rawInput={"a": 1})
    tape.tool("t", title="two", status="completed")
    [call] = tape.fold.tool_calls
    assert (call.title, call.raw_input, call.status) == ("two", {"a": 1}, "completed")


def test_a_title_is_not_emptied_again() -> None:
    """OpenCode sends tool calls whose title is empty after it had one."""
    tape = Tape()
    tape.tool("t", title="Read x")
    tape.tool_update("t", title="", status="completed")
    assert next(iter(tape.fold.tool_calls)).title == "Read x"


def test_an_update_replaces_content_and_leaves_what_it_does_not_name() -> None:
    tape = Tape()
    tape.tool("t", content=[{"type": "content", "content": {"type": "text", "text": "a"}}], locations=[{"path": "/x"}])
    tape.tool_update("t", content=[])
    [call] = tape.fold.tool_calls
    assert call.content == ()
    assert [location.path for location in call.locations] == ["/x"]


def test_the_output_and_exit_of_an_agents_own_command_are_collected() -> None:
    """Codex and pi send it outside the protocol, in pieces, under two names."""
    tape = Tape()
    tape.tool("t", content=[{"type": "terminal", "terminalId": "t"}], _meta={"terminal_info": {"terminal_id": "t"}})
    [call] = tape.fold.tool_calls
    assert call.output is None
    tape.tool_update("t", _meta={"terminal_output_delta": {"terminal_id": "t", "data": "one\n"}})
    tape.tool_update("t", _meta={"terminal_output": {"terminal_id": "t", "data": "two\n"}})
    tape.tool_update("t", status="failed", _meta={"terminal_exit": {"exit_code": 2, "signal": None}})
    [call] = tape.fold.tool_calls
    assert (call.output, call.truncated, call.exit_code, call.signal) == ("one\ntwo\n", False, 2, None)


def test_the_end_of_endless_output_is_recorded() -> None:
    tape = Tape()
    tape.tool("t")
    for number in range(MAX_OUTPUT_CHARACTERS // 4):
        tape.tool_update("t", _meta={"terminal_output_delta": {"data": f"{number}\n"}})
    tape.tool_update("t", _meta={"terminal_output_delta": {"data": "the end"}})
    [call] = tape.fold.tool_calls
    assert call.output is not None
    assert call.output.endswith("\nthe end")
    assert len(call.output) == MAX_OUTPUT_CHARACTERS
    assert call.truncated


@pytest.mark.parametrize(
    "meta",
    [
        {"terminal_output": "text"},
        {"terminal_output_delta": {"data": 5}},
        {"terminal_exit": {"exit_code": True, "signal": 9}},
        {"terminal_exit": []},
    ],
)
def test_output_of_a_command_in_other_shapes_is_ignored(meta: dict[str, Any]) -> None:
    tape = Tape()
    tape.tool("t", _meta=meta)
    [call] = tape.fold.tool_calls
    assert (call.output, call.exit_code, call.signal) == (None, None, None)


def test_a_tool_ends_once() -> None:
    tape = Tape()
    tape.tool("t", status="completed")
    assert ids_of(facts.ToolCallEnded, tape.tool_update("t", status="failed")) == []
    assert ids_of(facts.ToolCallEnded, tape.facts) == ["t"]


# -- runs


@pytest.mark.parametrize(
    ("stop_reason", "status"),
    [
        ("end_turn", "success"),
        ("cancelled", "cancelled"),
        ("max_tokens", "error"),
        ("max_turn_requests", "error"),
        ("refusal", "error"),
        ("something new", "error"),
    ],
)
def test_a_stop_reason_is_an_outcome(stop_reason: str, status: str) -> None:
    tape = Tape()
    run = tape.prompt()
    tape.say("hi")
    [*_, ended] = tape.end(run, stop_reason)
    assert isinstance(ended, facts.RunEnded)
    assert (ended.run.status, ended.run.stop_reason) == (status, stop_reason)


Act = Callable[[Tape], object]


@pytest.mark.parametrize(
    ("act", "silent"),
    [
        (lambda tape: None, True),
        (lambda tape: tape.update("usage_update", used=1, size=2), True),
        (lambda tape: tape.update("session_info_update", title="x"), True),
        (lambda tape: tape.user("echo"), True),
        (lambda tape: tape.say("x"), False),
        (lambda tape: tape.think("x"), False),
        (lambda tape: tape.tool("t"), False),
        (lambda tape: tape.tool_update("t"), False),
        (lambda tape: tape.permission("p"), False),
        (lambda tape: tape.update("plan", entries=[]), False),
    ],
)
def test_an_end_turn_without_text_thought_tool_or_plan_is_silent(act: Act, silent: bool) -> None:
    tape = Tape()
    run = tape.prompt()
    act(tape)
    tape.end(run)
    [row] = tape.fold.runs.values()
    assert (row.status, row.reason) == (("error", "silent") if silent else ("success", None))


def test_output_of_an_earlier_run_does_not_count_for_the_next() -> None:
    tape = Tape()
    run = tape.prompt()
    tape.say("hi")
    tape.end(run)
    tape.end(tape.prompt())
    assert [row.reason for row in tape.fold.runs.values()] == [None, "silent"]


def test_overlapping_prompts_end_each_by_its_own_answer() -> None:
    tape = Tape()
    first, second = tape.prompt("a"), tape.prompt("b")
    tape.say("hi")
    tape.end(first)
    assert tape.fold.run is not None
    assert tape.fold.run.id == list(tape.fold.runs)[1]
    tape.say("there")
    tape.end(second, "cancelled")
    assert [row.status for row in tape.fold.runs.values()] == ["success", "cancelled"]
    assert tape.fold.run is None


def test_a_run_with_text_before_another_prompt_is_not_silent() -> None:
    tape = Tape()
    first = tape.prompt("a")
    tape.say("hi")
    tape.prompt("b")
    tape.end(first)
    assert next(iter(tape.fold.runs.values())).status == "success"


def test_an_error_after_a_cancel_is_a_cancel() -> None:
    tape = Tape()
    run = tape.prompt()
    tape.cancel()
    tape.refuse(run, -32603, "aborted")
    assert next(iter(tape.fold.runs.values())).status == "cancelled"


def test_an_error_is_an_error_and_cancelled_by_its_code() -> None:
    tape = Tape()
    tape.refuse(tape.prompt(), -32603, "no")
    tape.refuse(tape.prompt(), -32800, "cancelled")
    first, second = tape.fold.runs.values()
    assert (first.status, first.error and first.error.message) == ("error", "no")
    assert second.status == "cancelled"


def test_an_interrupted_run_is_recorded_once() -> None:
    tape = Tape()
    run = tape.prompt()
    tape.say("half")
    run_id = next(iter(tape.fold.runs))
    cut = tape.note(notes.RunInterrupted(run_id, "interrupted", "gone"))
    assert [type(fact).__name__ for fact in cut] == ["MessageEnded", "RunEnded"]
    assert list(tape.note(notes.RunInterrupted(run_id, "error", "again"))) == []
    assert list(tape.end(run)) == []
    assert (tape.fold.runs[run_id].status, tape.fold.runs[run_id].reason) == ("interrupted", "gone")


def test_a_runs_usage_is_its_own_and_never_an_earlier_runs() -> None:
    tape = Tape()
    run = tape.prompt()
    tape.say("a")
    tape.end(run, usage={"totalTokens": 5, "inputTokens": 3, "outputTokens": 2})
    run = tape.prompt()
    tape.say("b")
    tape.update("usage_update", used=7, size=100, cost={"amount": 0.5, "currency": "USD"})
    tape.end(run)
    first, second = (row.usage for row in tape.fold.runs.values())
    assert first == rows.Usage(total_tokens=5, input_tokens=3, output_tokens=2)
    assert second is not None
    assert (second.total_tokens, second.context_used, second.context_size) == (None, 7, 100)
    assert second.cost is not None
    assert second.cost.amount == 0.5


def test_a_cost_reported_after_the_end_of_a_run_belongs_to_that_run() -> None:
    def report_cost(amount: float, currency: str = "USD") -> list[str]:
        cost = {"amount": amount, "currency": currency}
        return [type(fact).__name__ for fact in tape.update("usage_update", used=7, size=100, cost=cost)]

    def costs() -> list[float | None]:
        usages = [row.usage for row in tape.fold.runs.values()]
        return [usage.cost.amount if usage is not None and usage.cost is not None else None for usage in usages]

    tape = Tape()
    assert report_cost(0.1) == ["UsageChanged"]  # there is no run to whom it could belong
    tape.end(tape.prompt())
    run = tape.prompt()
    assert report_cost(0.3) == ["UsageChanged"]
    assert costs() == [0.1, None]
    tape.end(run, usage={"totalTokens": 5, "inputTokens": 3, "outputTokens": 2})
    assert costs() == [0.1, 0.3]
    assert report_cost(0.5) == ["UsageChanged", "RunCostChanged"]
    assert costs() == [0.1, 0.5]
    assert (
        report_cost(0.5) == report_cost(0.2) == report_cost(0.9, "EUR") == ["UsageChanged"]
    )  # the same, reset, and another currency
    assert costs() == [0.1, 0.5]
    last = list(tape.fold.runs.values())[-1]
    assert last.usage is not None
    assert (last.usage.total_tokens, last.usage.context_used) == (5, 7)


def test_a_usage_update_without_cost_keeps_the_cost() -> None:
    tape = Tape()
    tape.update("usage_update", used=1, size=2, cost={"amount": 0.5, "currency": "USD"})
    tape.update("usage_update", used=2, size=2)
    assert tape.fold.usage.cost is not None
    assert tape.fold.usage.context_used == 2


# -- replay


@pytest.mark.parametrize("method", ["session/load", "session/resume"])
def test_frames_between_load_and_the_next_prompt_are_replay(method: str) -> None:
    tape = Tape()
    request_id = tape.ask(method, cwd="/", mcpServers=[])
    tape.user("old question")
    tape.say("old answer")
    tape.tool("t", status="completed")
    tape.answer(request_id, None)
    tape.user("another")  # gemini: most of the replay comes after the answer
    tape.say("late")
    tape.prompt("new question")
    tape.say("new answer")
    assert [(m.text, m.replayed) for m in tape.fold.messages] == [
        ("old question", True),
        ("old answer", True),
        ("another", True),
        ("late", True),
        ("new question", False),
        ("new answer", False),
    ]
    assert [call.replayed for call in tape.fold.tool_calls] == [True]


def test_a_replayed_tool_id_may_repeat_in_a_later_turn() -> None:
    tape = Tape()
    tape.ask("session/load", cwd="/", mcpServers=[])
    for _ in range(2):
        tape.user("do it")
        tape.tool("t", status="completed")
    assert len(tape.fold.tool_calls) == 2


def test_a_user_message_before_any_prompt_is_history() -> None:
    tape = Tape()
    tape.say("a banner")
    tape.user("old question")
    tape.say("old answer")
    run = tape.prompt()
    tape.user("an echo of the prompt")
    tape.say("hi")
    tape.end(run)
    assert [message.replayed for message in tape.fold.messages] == [False, True, True, False, False, False]


# -- permissions


def test_a_permission_is_recorded_with_who_decided_and_why() -> None:
    tape = Tape()
    tape.prompt()
    tape.permission("p", "t", title="Write x")
    tape.note(notes.Decision("p", "callback", "because"))
    [resolved] = tape.decide("p", "allow")
    assert isinstance(resolved, facts.PermissionResolved)
    row = resolved.permission
    assert (row.outcome, row.option_id, row.option_kind, row.decided_by, row.reason) == (
        "selected",
        "allow",
        "allow_once",
        "callback",
        "because",
    )
    assert row.title == "Write x"
    assert list(tape.decide("p", "allow")) == []


def test_two_permissions_at_once_do_not_overwrite_each_other() -> None:
    tape = Tape()
    tape.permission("p", "a")
    tape.permission("q", "b")
    tape.decide("q", "reject")
    tape.decide("p", None)
    assert [(row.tool_call_id, row.outcome) for row in tape.fold.permissions.values()] == [
        ("a", "cancelled"),
        ("b", "selected"),
    ]


# -- settings

OPTION = {
    "type": "select",
    "id": "mode",
    "name": "Mode",
    "category": "mode",
    "currentValue": "ask",
    "options": [
        {"group": "g", "name": "G", "options": [{"value": "ask", "name": "Ask"}]},
        {"value": "do", "name": "D"},
    ],
}
MODES = {"currentModeId": "ask", "availableModes": [{"id": "ask", "name": "Ask"}, {"id": "do", "name": "Do"}]}
MODELS = {"currentModelId": "s", "availableModels": [{"modelId": "s", "name": "S"}, {"modelId": "b", "name": "B"}]}


def sources(tape: Tape) -> dict[str, str]:
    return {key: setting.source for key, setting in tape.fold.settings.items()}


def current(tape: Tape, category: str) -> object:
    setting = tape.fold.setting(category)
    return setting.current if setting is not None else None


def test_config_options_come_before_modes_and_models() -> None:
    tape = Tape()
    tape.answer(tape.ask("session/new", cwd="/"), {"configOptions": [OPTION], "modes": MODES, "models": MODELS})
    assert sources(tape) == {"mode": "option", "model": "model"}
    assert [choice.value for choice in tape.fold.settings["mode"].choices] == ["ask", "do"]


@pytest.mark.parametrize("method", ["session/load", "session/resume"])
def test_an_agent_that_continues_a_session_without_a_word_has_its_settings_as_they_were(method: str) -> None:
    tape = Tape()
    tape.answer(tape.ask("session/new", cwd="/"), {"modes": MODES})
    tape.answer(tape.ask("session/set_mode", modeId="do"), {})
    tape.answer(tape.ask(method, cwd="/"), {})
    assert current(tape, "mode") == "do"
    assert tape.answer(tape.ask(method, cwd="/"), {"configOptions": []})
    assert tape.fold.settings == {}


@pytest.mark.parametrize("method", ["session/new", "session/fork"])
def test_an_agent_that_has_no_settings_any_more_is_said_to_have_changed_them(method: str) -> None:
    tape = Tape()
    tape.answer(tape.ask("session/new", cwd="/"), {"modes": MODES})
    assert tape.answer(tape.ask(method, cwd="/"), {}) == [facts.SettingsChanged(method)]
    assert tape.fold.settings == {}
    assert not tape.answer(tape.ask(method, cwd="/"), {})


def test_the_values_that_an_agent_begins_with_are_known_after_a_switch() -> None:
    tape = Tape()
    tape.answer(tape.ask("session/new", cwd="/"), {"modes": MODES})
    tape.answer(tape.ask("session/set_mode", modeId="do"), {})
    tape.answer(tape.ask("session/resume", cwd="/"), {"modes": {**MODES, "currentModeId": "do"}})
    assert tape.fold.initial_values == {"mode": "ask"}


def test_of_two_options_for_the_model_the_one_named_so_is_the_model() -> None:
    """nanocoder 1.30.0 has its provider in the same category, ahead of the model."""
    tape = Tape()
    provider = {**OPTION, "id": "provider", "category": "model", "currentValue": "p"}
    model = {**OPTION, "id": "model", "category": "model", "currentValue": "m"}
    tape.answer(tape.ask("session/new", cwd="/"), {"configOptions": [provider, model]})
    assert current(tape, "model") == "m"


def test_a_switch_counts_when_the_agent_confirms_it() -> None:
    tape = Tape()
    tape.answer(tape.ask("session/new", cwd="/"), {"modes": MODES, "models": MODELS})
    request_id = tape.ask("session/set_mode", modeId="do")
    assert current(tape, "mode") == "ask"
    tape.answer(request_id, {})
    assert current(tape, "mode") == "do"
    tape.refuse(tape.ask("session/set_model", modelId="b"), -32601)
    assert current(tape, "model") == "s"
    tape.answer(tape.ask("session/set_model", modelId="b"), None)
    assert current(tape, "model") == "b"


@pytest.mark.parametrize("answer", [{"configOptions": [{**OPTION, "currentValue": "do"}]}, {}, None])
def test_an_option_is_set_as_the_answer_says_or_else_as_asked(answer: object) -> None:
    tape = Tape()
    tape.update("config_option_update", configOptions=[OPTION])
    tape.answer(tape.ask("session/set_config_option", configId="mode", value="do"), answer)
    assert current(tape, "mode") == "do"


def test_new_options_replace_the_old_ones_and_leave_modes_that_they_do_not_cover() -> None:
    tape = Tape()
    tape.answer(tape.ask("session/new", cwd="/"), {"configOptions": [{**OPTION, "id": "x", "category": "model"}]})
    tape.update("config_option_update", configOptions=[OPTION])
    assert sources(tape) == {"mode": "option"}


def test_a_title_can_be_cleared_and_stays_when_not_named() -> None:
    tape = Tape()
    tape.update("session_info_update", title="T")
    tape.update("session_info_update")
    assert tape.fold.title == "T"
    tape.update("session_info_update", title=None)
    assert tape.fold.title is None


def test_a_title_made_of_custom_instructions_is_none() -> None:
    tape = Tape()
    tape.update("session_info_update", title=f"{notes.INSTRUCTIONS_HEADING[:25]}…")
    assert tape.fold.title is None
    tape.update("session_info_update", title="The user's parser")
    assert tape.fold.title == "The user's parser"


def test_sub_agents_are_updated_field_by_field() -> None:
    tape = Tape()
    tape.update("subagent_update", sessionId="sub", title="Finder")
    tape.update("subagent_update", sessionId="sub", description="looks")
    [sub_agent] = tape.fold.sub_agents.values()
    assert (sub_agent.title, sub_agent.description) == ("Finder", "looks")


def test_a_new_list_of_commands_replaces_the_old_one() -> None:
    tape = Tape()
    tape.update("available_commands_update", availableCommands=[{"name": "a", "description": "A"}])
    tape.update(
        "available_commands_update", availableCommands=[{"name": "b", "description": "B", "input": {"hint": "what"}}]
    )
    assert tape.fold.commands == (rows.Command("b", "B", "what"),)


# -- folding again, and what it costs


def test_folding_the_same_frames_again_gives_the_same_rows() -> None:
    tape = Tape()
    run = tape.prompt()
    tape.say("a")
    tape.tool("t", status="completed")
    tape.permission("p")
    tape.decide("p", "allow")
    tape.end(run)
    assert rows_of(tape.played_again()) == rows_of(tape.fold)


def _calls(work: Callable[[], object]) -> int:
    """Count the calls of functions, built-in ones included: a measure that no busy machine changes."""
    count = 0

    def hear(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(hear)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize(
    "content", [TextContent(text="word"), ImageContent(data="aGk=", mime_type="image/png")], ids=["text", "image"]
)
def test_a_chunk_costs_the_same_however_many_came_before(content: Any) -> None:
    fold = SessionFold()
    chunk = AgentMessageChunk(content=content)
    costs = []
    blocks: list[Any] = []
    for position in range(20_000):
        if position % 1000 == 1:
            costs.append(_calls(lambda position=position: fold.update(position, 0.0, chunk)))  # type: ignore[misc]
        else:
            fold.update(position, 0.0, chunk)
        if position == 1:
            blocks = fold.messages[0].blocks
    assert len(set(costs)) == 1
    assert len(fold.messages) == 1
    assert fold.messages[0].blocks is blocks  # grown, and never copied


def test_growing_text_holds_few_pieces_and_all_of_the_text() -> None:
    text = GrowingText()
    for number in range(10_000):
        text.add(f"{number} ")
        assert len(text._pieces) < 4096
    assert str(text) == "".join(f"{number} " for number in range(10_000))
    text.add("more")
    assert str(text).endswith("9999 more")
    assert bool(text)
    assert not GrowingText()


def test_a_stop_reason_in_broken_text_still_ends_the_run() -> None:
    tape = Tape()
    request_id = tape.prompt()
    tape.say("hi")
    [*_, ended] = tape.fold.apply(9, 9.0, "in", Reply(request_id, "session/prompt", BROKEN, None, b""))
    assert isinstance(ended, facts.RunEnded)
    assert (ended.run.status, ended.run.stop_reason) == ("error", "odd\ufffd")
