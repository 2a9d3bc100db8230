"""Claude Code's transcripts as conversations: messages, runs, settings, sub-agents, and unknown records."""

from __future__ import annotations

from pathlib import Path, PurePath
from typing import Any

import msgspec
import pytest

from dragoman.errors import InputError
from dragoman.journal.entry import Entry, read_message
from dragoman.journal.rows import Usage
from dragoman.journal.session_record import SessionRecord
from dragoman.translate.translator import get_provider
from dragoman.wire.vocabulary import ResourceLink
from translate.claude_talk import BEGAN, FOLDER, SESSION, Transcript, folds, natives, translated, updates


def test_a_prompt_and_its_answer_are_a_run_that_went_well() -> None:
    transcript = Transcript()
    transcript.user("What is this?")
    transcript.say({"type": "thinking", "thinking": "hm", "signature": "x"}, stop="end_turn")
    transcript.text("A test.")
    fold = transcript.fold()
    assert [(message.kind, message.text) for message in fold.messages] == [
        ("user", "What is this?"),
        ("thought", "hm"),
        ("assistant", "A test."),
    ]
    (run,) = fold.runs.values()
    assert (run.status, run.stop_reason) == ("success", "end_turn")
    assert run.usage is not None
    assert (run.usage.input_tokens, run.usage.cached_tokens, run.usage.output_tokens) == (10, 100, 5)
    assert run.usage.context_used == 115
    model = fold.setting("model")
    assert model is not None
    assert model.current == "claude-opus-5"


def test_the_first_frames_open_the_session_with_its_details() -> None:
    transcript = Transcript(gitBranch="main")
    transcript.user("Hello")
    prompt, answered, *_ = transcript.frames()
    assert (prompt.kind, prompt.direction, prompt.session_id) == ("session/new", "out", SESSION)
    params = msgspec.json.decode(prompt.line)["params"]
    assert params["cwd"] == FOLDER
    assert params["_meta"]["native"]["version"] == "2.1.200"
    assert params["_meta"]["native"]["gitBranch"] == "main"
    assert msgspec.json.decode(answered.line)["result"] == {"sessionId": SESSION}
    assert prompt.at == 1772359201.0


def test_one_message_over_several_lines_stays_one_message_and_is_paid_once() -> None:
    transcript = Transcript()
    transcript.user("Go")
    transcript.text("First ", stop="tool_use", usage={"input_tokens": 10, "output_tokens": 1})
    transcript.call("Bash", {"command": "ls"}, usage={"input_tokens": 10, "output_tokens": 9})
    transcript.result("a")
    transcript.text("second.", stop="tool_use", usage={"input_tokens": 10, "output_tokens": 9})
    transcript.text("End.", id="msg_2", usage={"input_tokens": 20, "output_tokens": 2})
    fold = transcript.fold()
    assert [message.text for message in fold.messages] == ["Go", "First second.", "End."]
    (run,) = fold.runs.values()
    assert run.usage is not None
    assert (run.usage.input_tokens, run.usage.output_tokens, run.usage.cached_tokens) == (30, 11, None)


def test_lines_that_repeat_the_usage_of_a_message_count_once() -> None:
    transcript = Transcript()
    transcript.user("Go")
    transcript.say({"type": "thinking", "thinking": "hm"}, stop="end_turn")
    transcript.text("Done.")
    transcript.user("Go on")
    transcript.say({"type": "thinking", "thinking": "hm"}, id="msg_2", usage={"input_tokens": 1, "output_tokens": 9})
    transcript.text("Done.", id="msg_2", usage={"input_tokens": 1, "output_tokens": 0})
    frames = transcript.frames()
    assert [update["used"] for update in updates(frames, "usage_update")] == [115, 10, 1]
    tokens = [run.usage.output_tokens for run in folds(frames)[SESSION].runs.values() if run.usage]
    assert tokens == [5, 9]


def test_a_late_line_of_a_message_begins_no_run() -> None:
    transcript = Transcript()
    transcript.user("Go")
    transcript.text("Done.")
    transcript.text(" Really.")
    fold = transcript.fold()
    assert len(fold.runs) == 1
    assert [message.text for message in fold.messages] == ["Go", "Done.", " Really."]


def test_a_result_before_its_call_waits_for_it() -> None:
    transcript = Transcript()
    transcript.user("Go")
    transcript.result("a.txt", {"stdout": "a.txt", "stderr": "", "interrupted": False})
    transcript.call("Bash", {"command": "ls"})
    (call,) = transcript.fold().tool_calls
    assert (call.title, call.status, call.raw_output) == ("ls", "completed", "a.txt")


def test_a_result_without_a_call_is_reported_at_the_end() -> None:
    transcript = Transcript()
    transcript.user("Go")
    transcript.result("lost", call_id="toolu_9")
    transcript.text("Well.")
    assert not updates(transcript.frames(finish=False), "tool_call_update")
    (update,) = updates(transcript.frames(), "tool_call_update")
    assert (update["toolCallId"], update["status"]) == ("toolu_9", "completed")


def test_an_edit_without_a_call_shows_its_changes() -> None:
    transcript = Transcript()
    hunk = {"oldStart": 3, "newStart": 3, "lines": [" a", "-x", "+y"]}
    transcript.result("ok", {"filePath": "/a", "structuredPatch": [hunk]}, "toolu_9")
    (update,) = updates(transcript.frames(), "tool_call_update")
    assert update["content"] == [{"type": "diff", "path": "/a", "oldText": "a\nx", "newText": "a\ny"}]
    assert update["locations"] == [{"path": "/a", "line": 3}]


def test_two_objects_on_one_line_are_two_records() -> None:
    transcript = Transcript()
    transcript.user("Go")
    uuid = transcript.text("Done.")
    transcript.lines[-1] += msgspec.json.encode({"type": "summary", "summary": "Going", "leafUuid": uuid})
    fold = transcript.fold()
    assert fold.messages[-1].text == "Done."
    assert fold.title == "Going"


def test_a_repeated_record_is_translated_once() -> None:
    transcript = Transcript()
    transcript.user("Go")
    transcript.text("Done.")
    once = transcript.frames()
    transcript.lines += transcript.lines
    assert transcript.frames() == once


def test_a_record_without_an_id_gets_one_from_its_offset() -> None:
    transcript = Transcript()
    transcript.user("Go", uuid=None)
    transcript.text("Done.", uuid=None)
    transcript.user("Go", uuid=None)
    transcript.text("Done.", id="msg_2", uuid=None)
    assert [run.status for run in transcript.fold().runs.values()] == ["success", "success"]
    ids = [msgspec.json.decode(frame.line)["id"] for frame in transcript.frames() if frame.direction == "out"]
    assert len(set(ids)) == 3
    assert transcript.frames() == transcript.frames()


def test_translating_again_gives_the_same_bytes() -> None:
    transcript = Transcript()
    transcript.user("Go")
    transcript.call("Bash", {"command": "ls"})
    transcript.result("a")
    transcript.text("Done.")
    assert transcript.frames() == transcript.frames()


@pytest.mark.parametrize("stop", [None, "end_turn"])
def test_the_next_prompt_ends_a_run_without_an_end(stop: str | None) -> None:
    transcript = Transcript(version="1.0.30")
    transcript.user("One")
    transcript.text("Done.", stop=stop)
    transcript.user("Two")
    transcript.text("Done again.", id="msg_2", stop=stop)
    assert [run.status for run in transcript.fold().runs.values()] == ["success", "success"]


def test_a_transcript_that_stops_early_leaves_an_interrupted_run_with_its_tokens() -> None:
    transcript = Transcript()
    transcript.user("Go")
    transcript.call("Bash", {"command": "sleep 100"})
    assert folds(transcript.frames(finish=False))[SESSION].run is not None
    (run,) = transcript.fold().runs.values()
    assert (run.status, run.reason) == ("interrupted", "The transcript ends before this run does.")
    assert run.error is not None
    assert run.error.data["usage"]["outputTokens"] == 5


def test_an_interruption_cancels_the_run_and_fails_its_open_calls() -> None:
    transcript = Transcript()
    transcript.user("Go")
    transcript.call("Bash", {"command": "sleep 100"})
    transcript.user([{"type": "text", "text": "[Request interrupted by user for tool use]"}])
    transcript.user("Something else")
    transcript.text("Yes.", id="msg_2")
    fold = transcript.fold()
    assert [run.status for run in fold.runs.values()] == ["cancelled", "success"]
    assert [call.status for call in fold.tool_calls] == ["failed"]
    assert "interrupted" not in "".join(message.text for message in fold.messages)


def test_a_result_after_the_interruption_still_counts() -> None:
    transcript = Transcript()
    transcript.user("Go")
    transcript.call("Bash", {"command": "make"})
    transcript.user([{"type": "text", "text": "[Request interrupted by user for tool use]"}])
    transcript.result("made")
    (call,) = transcript.fold().tool_calls
    assert (call.status, call.raw_output) == ("completed", "made")


def test_an_interruption_gives_up_each_call_once() -> None:
    transcript = Transcript()
    for number in range(2):
        transcript.user("Go")
        transcript.call("Bash", {"command": "sleep 100"}, f"toolu_{number}", id=f"msg_{number}")
        transcript.user([{"type": "text", "text": "[Request interrupted by user for tool use]"}])
    given_up = [update["toolCallId"] for update in updates(transcript.frames(), "tool_call_update")]
    assert given_up == ["toolu_0", "toolu_1"]


def test_a_message_with_a_prompt_between_its_lines_is_paid_once() -> None:
    transcript = Transcript()
    transcript.user("Go")
    transcript.call("Bash", {"command": "ls"})
    transcript.user("And hurry")
    transcript.call("Bash", {"command": "pwd"}, "toolu_2")
    transcript.text("Done.", id="msg_2")
    tokens = [run.usage.output_tokens for run in transcript.fold().runs.values() if run.usage]
    assert tokens == [5, 5]


def test_a_text_sent_with_a_permission_does_not_end_the_run() -> None:
    transcript = Transcript()
    transcript.user("Go")
    transcript.call("Bash", {"command": "ls"})
    allowed = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "a"}
    transcript.user([allowed, {"type": "text", "text": "But mind the tests"}])
    transcript.text("I do.", id="msg_2")
    fold = transcript.fold()
    assert [(run.status, run.stop_reason) for run in fold.runs.values()] == [("success", "end_turn")] * 2
    assert [message.text for message in fold.messages] == ["Go", "But mind the tests", "I do."]


def test_a_prompt_withdrawn_before_its_answer_is_cancelled() -> None:
    transcript = Transcript()
    transcript.user("One")
    answer = transcript.text("Done.")
    transcript.user("Tw", parentUuid=answer)
    transcript.user("Two", parentUuid=answer)
    transcript.text("Done two.", id="msg_2")
    assert [run.status for run in transcript.fold().runs.values()] == ["success", "cancelled", "success"]


@pytest.mark.parametrize("end", ["turn_duration", "stop_hook_summary"])
def test_a_turn_that_ends_in_a_thought_succeeds_if_claude_code_records_its_end(end: str) -> None:
    transcript = Transcript()
    transcript.user("Go")
    transcript.call("Bash", {"command": "ls"}, "toolu_lost")
    transcript.user("Never mind the files")
    transcript.say({"type": "thinking", "thinking": "Nothing to do", "signature": "x"}, id="msg_2")
    transcript.add("system", subtype=end)
    transcript.user("Thanks")
    transcript.text("Welcome.", id="msg_3")
    assert [run.status for run in transcript.fold().runs.values()] == ["interrupted", "success", "success"]


def test_stop_hooks_end_a_run_normally_though_no_text_was_its_last() -> None:
    transcript = Transcript()
    transcript.user("Go")
    transcript.call("Bash", {"command": "ls"})
    transcript.result("a")
    transcript.add("system", subtype="stop_hook_summary", hookErrors=["entire: not found"])
    transcript.user("Thanks")
    transcript.text("Welcome.", id="msg_2")
    frames = transcript.frames()
    first, _ = folds(frames)[SESSION].runs.values()
    assert (first.status, first.ended_time) == ("success", BEGAN + 4)
    (notice,) = updates(frames, "notice")
    assert (notice["title"], notice["description"]) == ("A stop hook failed", "entire: not found")


@pytest.mark.parametrize("is_answered", [True, False])
def test_a_run_without_an_end_ends_with_its_last_record_and_not_with_the_next_prompt(is_answered: bool) -> None:
    transcript = Transcript()
    transcript.user("Go")
    transcript.call("Bash", {"command": "ls"})
    transcript.result("a")
    if is_answered:
        transcript.text("Done.", id="msg_2", stop=None)
    transcript.add("system", subtype="away_summary", content="You were at it.", timestamp="2026-03-02T10:00:00.000Z")
    transcript.user("And now?", timestamp="2026-03-03T10:00:00.000Z")
    first, second = transcript.fold().runs.values()
    assert (first.status, first.ended_time) == (("success", BEGAN + 4) if is_answered else ("interrupted", BEGAN + 3))
    assert second.ended_time == second.time  # it has no other record


def test_a_prompt_that_was_withdrawn_ends_with_its_last_record() -> None:
    transcript = Transcript()
    transcript.user("One")
    answer = transcript.text("Done.")
    transcript.user("Tw", parentUuid=answer)
    transcript.user("Two", parentUuid=answer, timestamp="2026-03-03T10:00:00.000Z")
    _, withdrawn, _ = transcript.fold().runs.values()
    assert (withdrawn.status, withdrawn.ended_time) == ("cancelled", BEGAN + 3)


def test_runs_of_a_transcript_without_times_have_no_duration() -> None:
    transcript = Transcript(timestamp=None)
    transcript.user("Go")
    transcript.text("Done.")
    transcript.user("More")
    transcript.call("Bash", {"command": "ls"}, id="msg_2")
    runs = transcript.fold().runs.values()
    assert [(run.status, run.ended_time) for run in runs] == [("success", None), ("interrupted", None)]


def test_a_hook_of_a_sub_agents_end_does_not_end_the_run_that_waits_for_it() -> None:
    transcript = Transcript()
    transcript.user("Go")
    transcript.call("Agent", {"description": "Look", "prompt": "Look!"})
    transcript.add("system", subtype="stop_hook_summary")
    transcript.result("Seen.")
    transcript.text("Done.", id="msg_2")
    assert [run.status for run in transcript.fold().runs.values()] == ["success"]


def test_a_refusal_of_the_provider_is_a_notice_and_ends_the_run_in_an_error() -> None:
    transcript = Transcript()
    transcript.user("Go")
    transcript.text("API Error: 529 overloaded", model="<synthetic>", isApiErrorMessage=True, error="overloaded")
    frames = transcript.frames()
    (notice,) = updates(frames, "notice")
    assert (notice["severity"], notice["title"]) == ("error", "API Error: 529 overloaded")
    (run,) = folds(frames)[SESSION].runs.values()
    assert run.status == "error"
    assert run.error is not None
    assert run.error.data == {"errorKind": "overloaded"}
    assert not updates(frames, "agent_message_chunk")


def test_a_text_typed_during_a_tool_call_joins_the_run() -> None:
    transcript = Transcript()
    transcript.user("Go")
    transcript.call("Bash", {"command": "ls"})
    prompt = {"type": "queued_command", "prompt": "And hurry", "commandMode": "prompt"}
    uuid = transcript.add("attachment", attachment=prompt)
    transcript.result("a")
    transcript.text("Done.", id="msg_2")
    fold = transcript.fold()
    assert len(fold.runs) == 1
    assert [(message.kind, message.text) for message in fold.messages][1] == ("user", "And hurry")
    assert fold.messages[1].message_id == uuid


def test_words_of_a_hook_are_not_those_of_the_user() -> None:
    transcript = Transcript()
    transcript.user("Go")
    transcript.user("Operation stopped by hook: too late\nCome back tomorrow.")
    frames = transcript.frames()
    fold = folds(frames)[SESSION]
    assert [(message.kind, message.text) for message in fold.messages] == [("user", "Go")]
    (notice,) = updates(frames, "notice")
    assert (notice["severity"], notice["title"]) == ("warning", "Operation stopped by hook: too late")
    assert notice["description"] == "Come back tomorrow."
    (run,) = fold.runs.values()
    assert (run.status, run.ended_time) == ("cancelled", BEGAN + 2)


def test_recaps_warnings_and_errors_of_hooks_are_notices() -> None:
    transcript = Transcript()
    transcript.user("Go")
    attachment = {"type": "hook_non_blocking_error", "hookName": "Stop", "stderr": "no such file", "exitCode": 1}
    transcript.add("attachment", attachment=attachment)
    blocked = {
        "type": "hook_blocking_error",
        "hookName": "PreToolUse:Bash",
        "blockingError": {"blockingError": "Not here"},
    }
    transcript.add("attachment", attachment=blocked)
    transcript.add("system", content="\x1b[33mLow on space\x1b[0m", level="warning")
    transcript.add("system", content="Running PostToolUse", level="info")
    transcript.text("Done.")
    transcript.add("system", subtype="away_summary", content="You fixed the parser.")
    notices = [
        (one["severity"], one["title"], one.get("description")) for one in updates(transcript.frames(), "notice")
    ]
    assert notices == [
        ("warning", "The hook Stop failed", "no such file"),
        ("warning", "The hook PreToolUse:Bash objected", "Not here"),
        ("warning", "Low on space", None),
        ("info", "Recap", "You fixed the parser."),
    ]


def test_files_that_the_user_named_are_attached_to_the_prompt() -> None:
    transcript = Transcript()
    transcript.user("Look at @README.md and @docs")
    readme = {"type": "file", "filename": "/home/ada/proj/README.md", "displayPath": "README.md", "content": {}}
    transcript.add("attachment", attachment=readme)
    transcript.add("attachment", attachment={"type": "directory", "path": "/home/ada/proj/docs", "content": "a.md"})
    transcript.text("Seen.", stop="tool_use")
    transcript.add("attachment", attachment={"type": "file", "filename": "/home/ada/proj/again.md", "content": {}})
    transcript.text("Done.", id="msg_2")
    fold = transcript.fold()
    links = [block for message in fold.messages for block in message.blocks if isinstance(block, ResourceLink)]
    assert [(link.name, link.uri) for link in links] == [
        ("README.md", "file:///home/ada/proj/README.md"),
        ("docs", "file:///home/ada/proj/docs"),
    ]
    assert len(fold.runs) == 1


def test_a_text_that_claude_code_adds_is_no_prompt() -> None:
    transcript = Transcript()
    transcript.user("Caveat: …", isMeta=True)
    transcript.user("<local-command-caveat>x</local-command-caveat>", isMeta=True)
    transcript.user("<command-name>/model</command-name><command-args>opus</command-args>")
    transcript.user("<local-command-stdout>Set model to opus</local-command-stdout>")
    transcript.user("Look<system-reminder>be nice</system-reminder>")
    transcript.text("Yes.")
    fold = transcript.fold()
    assert [message.text for message in fold.messages] == ["Look", "Yes."]


def test_a_slash_command_that_the_model_answers_is_a_run() -> None:
    transcript = Transcript()
    transcript.user("<command-message>review is running…</command-message><command-name>/review</command-name>"
                    "<command-args>12</command-args>")  # fmt: skip
    transcript.user([{"type": "text", "text": "Review the pull request 12 …"}], isMeta=True)
    transcript.text("Fine.")
    fold = transcript.fold()
    assert [message.text for message in fold.messages] == ["/review 12", "Fine."]
    assert [run.status for run in fold.runs.values()] == ["success"]


def test_a_slash_command_that_claude_code_carries_out_itself_is_no_run() -> None:
    transcript = Transcript()
    transcript.user("Go")
    transcript.text("Done.")
    transcript.user("<command-name>/cost</command-name>")
    transcript.user("<local-command-stdout>\x1b[1mtwo dollars\x1b[22m</local-command-stdout>")
    transcript.user("<bash-input>ls</bash-input>")
    transcript.user("<bash-stdout>a.txt</bash-stdout><bash-stderr></bash-stderr>")
    fold = transcript.fold()
    assert len(fold.runs) == 1
    assert [(message.kind, message.text) for message in fold.messages][2:] == [
        ("user", "/cost"),
        ("assistant", "two dollars"),
        ("user", "!ls"),
        ("assistant", "a.txt"),
    ]


def test_a_command_that_claude_code_carries_out_while_the_model_works_leaves_the_run_alone() -> None:
    transcript = Transcript()
    transcript.user("Go")
    transcript.call("Bash", {"command": "make"})
    transcript.add("system", subtype="local_command", content="<command-name>/remote-control</command-name>")
    transcript.add("system", subtype="local_command", content="<local-command-stdout>on</local-command-stdout>")
    transcript.result("made")
    transcript.text("Done.", id="msg_2")
    transcript.add("system", subtype="local_command", content="<command-name>/exit</command-name>")
    transcript.text("By the way …", id="msg_3")
    fold = transcript.fold()
    assert [run.status for run in fold.runs.values()] == ["success", "success"]
    assert [(message.kind, message.text) for message in fold.messages if message.text] == [
        ("user", "Go"),
        ("user", "/remote-control"),
        ("assistant", "on"),
        ("assistant", "Done."),
        ("user", "/exit"),
        ("assistant", "By the way …"),
    ]


def test_news_of_a_background_task_changes_its_call_and_begins_a_run_without_a_prompt() -> None:
    transcript = Transcript()
    transcript.user("Go")
    transcript.call("Agent", {"description": "Look", "prompt": "Look!", "run_in_background": True})
    launched = {"status": "async_launched", "agentId": "a123", "isAsync": True}
    transcript.result([{"type": "text", "text": "launched"}], launched)
    transcript.text("Waiting.", id="msg_2")
    news = (
        "<task-notification><task-id>a123</task-id><tool-use-id>toolu_1</tool-use-id><status>completed</status>"
        "<summary>Agent finished</summary><result>All <status>failed</status> well</result></task-notification>"
    )
    transcript.user(news, origin={"kind": "task-notification"})
    transcript.text("It is done.", id="msg_3")
    fold = transcript.fold()
    assert [run.status for run in fold.runs.values()] == ["success", "success"]
    (call,) = fold.tool_calls
    assert call.status == "completed"
    assert "All <status>failed</status> well" in str(call.content)
    assert [message.text for message in fold.messages if message.text] == ["Go", "Waiting.", "It is done."]
    agent = fold.sub_agents["a123"]
    assert (agent.title, agent.state) == ("Look", "idle")
    prompt = msgspec.json.decode([frame for frame in transcript.frames() if frame.direction == "out"][-1].line)
    assert prompt["params"]["_meta"]["native"]["origin"] == "task-notification"


def test_a_sub_agents_file_is_a_session_of_its_own_that_names_its_parent() -> None:
    transcript = Transcript(isSidechain=True, agentId="a123")
    transcript.user("Look!")
    transcript.text("Seen.")
    sidecar = msgspec.json.encode({"agentType": "Explore", "description": "Look around", "toolUseId": "toolu_1"})
    frames = transcript.frames("agent-a123.jsonl", sidecar)
    (fold,) = folds(frames).values()
    assert fold.title == "Look around"
    assert [message.text for message in fold.messages] == ["Look!", "Seen."]
    assert frames[0].session_id == "a123"
    assert msgspec.json.decode(frames[0].line)["params"]["_meta"]["claudeCode"] == {
        "parentSessionId": SESSION,
        "parentToolUseId": "toolu_1",
        "agentType": "Explore",
    }


def test_side_chains_are_separate_sessions_linked_to_their_calls() -> None:
    transcript = Transcript(version="1.0.80")
    transcript.user("Go")
    transcript.call("Task", {"description": "One", "prompt": "Do one"}, "toolu_1")
    transcript.call("Task", {"description": "Two", "prompt": "Do two"}, "toolu_2")
    side: dict[str, Any] = {"isSidechain": True}
    one = transcript.user("Do one", parentUuid=None, **side)
    two = transcript.user("Do two", parentUuid=None, **side)
    transcript.text("Two!", id="msg_b", parentUuid=two, **side)
    transcript.text("One!", id="msg_a", parentUuid=one, **side)
    transcript.result("ok", call_id="toolu_1")
    transcript.result("ok", call_id="toolu_2")
    transcript.text("Both done.", id="msg_2")
    found = folds(transcript.frames())
    main = found[SESSION]
    assert [message.text for message in main.messages] == ["Go", "Both done."]
    assert [message.text for message in found[f"{SESSION}:{one}"].messages] == ["Do one", "One!"]
    assert [message.text for message in found[f"{SESSION}:{two}"].messages] == ["Do two", "Two!"]
    assert found[f"{SESSION}:{two}"].title == "Two"
    assert {(agent.title, agent.state) for agent in main.sub_agents.values()} == {("One", "idle"), ("Two", "idle")}


def test_only_a_second_prompt_after_the_same_message_is_a_rewind() -> None:
    transcript = Transcript()
    transcript.user("One")
    answer = transcript.text("Done.")
    hook = transcript.add("attachment", attachment={"type": "hook_success"}, parentUuid=answer)
    transcript.user("Two", parentUuid=hook)
    transcript.text("Done two.", id="msg_2")
    transcript.user("Two, but better", parentUuid=answer)
    transcript.text("Done better.", id="msg_3")
    prompt = [frame for frame in transcript.frames() if frame.kind == "session/prompt" and frame.direction == "out"]
    prompts = [msgspec.json.decode(frame.line)["params"] for frame in prompt]
    assert [prompt["_meta"]["native"].get("rewoundTo") for prompt in prompts] == [None, None, answer]


def test_a_compaction_is_reported_with_its_summary() -> None:
    transcript = Transcript()
    transcript.user("Go")
    transcript.text("Done.")
    boundary = transcript.add(
        "system", subtype="compact_boundary", parentUuid=None, compactMetadata={"trigger": "auto", "preTokens": 9}
    )
    transcript.user("This session is being continued …", isCompactSummary=True)
    transcript.user("Next")
    transcript.text("Yes.", id="msg_2")
    frames = transcript.frames()
    (compaction,) = updates(frames, "compaction_update")
    assert (compaction["compactionId"], compaction["status"]) == (boundary, "completed")
    (summary,) = updates(frames, "compaction_summary_chunk")
    assert summary["content"]["text"] == "This session is being continued …"
    assert [message.text for message in folds(frames)[SESSION].messages] == ["Go", "Done.", "Next", "Yes."]


def test_the_users_title_wins_over_the_models_and_changes_are_reported() -> None:
    transcript = Transcript()
    transcript.bare("summary", summary="Of another conversation", leafUuid="elsewhere")
    transcript.user("Go")
    transcript.bare("ai-title", aiTitle="Going")
    transcript.bare("ai-title", aiTitle="Going")
    transcript.bare("custom-title", customTitle="My going")
    transcript.bare("ai-title", aiTitle="Going further")
    frames = transcript.frames()
    assert [update["title"] for update in updates(frames, "session_info_update")] == ["Going", "My going"]


def test_a_change_of_the_mode_is_reported() -> None:
    transcript = Transcript()
    transcript.bare("permission-mode", permissionMode="plan")
    transcript.user("Go", permissionMode="plan")
    transcript.bare("permission-mode", permissionMode="acceptEdits")
    frames = transcript.frames()
    assert [update["currentModeId"] for update in updates(frames, "current_mode_update")] == ["acceptEdits"]
    mode = folds(frames)[SESSION].setting("mode")
    assert mode is not None
    assert (mode.current, mode.choices[0].name) == ("acceptEdits", "Accept edits")


def test_the_cost_is_the_sessions() -> None:
    transcript = Transcript()
    transcript.user("Go")
    transcript.text("Done.")
    transcript.bare("cost-state", totalCostUSD=0.25, modelUsage={})
    usage = transcript.fold().usage
    assert usage.cost is not None
    assert (usage.cost.amount, usage.cost.currency, usage.context_used) == (0.25, "USD", 115)


@pytest.mark.parametrize(
    ("model", "used", "size"),
    [("claude-opus-5", 1000, 200_000), ("claude-opus-5[1m]", 1000, 1_000_000), ("claude-opus-5", 300_000, 1_000_000)],
)
def test_the_size_of_the_context_follows_the_model_and_its_use(model: str, used: int, size: int) -> None:
    transcript = Transcript()
    transcript.user("Go")
    transcript.text("Done.", model=model, usage={"input_tokens": used, "output_tokens": 0})
    usage = transcript.fold().usage
    assert (usage.context_used, usage.context_size) == (used, size)
    assert usage.is_context_size_guessed


def test_the_guessed_size_of_the_context_does_not_change_back() -> None:
    transcript = Transcript()
    for number, used in enumerate((1000, 300_000, 5000)):
        transcript.user(f"Prompt {number}")
        transcript.text("Done.", id=f"msg_{number}", usage={"input_tokens": used, "output_tokens": 0})
    assert [update["size"] for update in updates(transcript.frames(), "usage_update")] == [
        200_000,
        1_000_000,
        1_000_000,
    ]


def test_copies_of_the_conversation_in_requests_are_left_out() -> None:
    transcript = Transcript(version="2.1.325")
    transcript.user("Go")
    transcript.bare("api-request-blob", message={"role": "user", "content": [{"type": "text", "text": "Go"}]})
    transcript.bare("api-request", params={})
    transcript.text("Done.")
    frames = transcript.frames()
    assert [message.text for message in folds(frames)[SESSION].messages] == ["Go", "Done."]
    assert not natives(frames)


def test_records_for_claude_code_itself_are_known_and_left_out() -> None:
    transcript = Transcript()
    transcript.user("Go")
    transcript.bare("worktree-state", worktreeSession=None)
    transcript.bare("content-replacement", replacements=[])
    transcript.add("system", subtype="agents_killed")
    transcript.add("attachment", attachment={"type": "invoked_skills", "skills": []})
    assert not natives(transcript.frames())
    assert not transcript.frames(finish=False)[3:]


@pytest.mark.parametrize("subtype", ["model_refusal_no_fallback", "model_consent_fallback"])
def test_a_refusal_or_a_fallback_of_the_model_is_a_notice(subtype: str) -> None:
    transcript = Transcript()
    transcript.user("Go")
    transcript.add("system", subtype=subtype, content="")
    (notice,) = updates(transcript.frames(), "notice")
    assert notice["title"]


def test_unknown_records_are_stored_verbatim_and_counted() -> None:
    transcript = Transcript()
    transcript.bare("weather", sky="blue")
    transcript.user("Go")
    transcript.add("system", subtype="earthquake", content="boom")
    transcript.add("attachment", attachment={"type": "carrier_pigeon"})
    transcript.add("progress", data={"type": "dream_progress"})
    transcript.say({"type": "hologram", "data": 1}, {"type": "text", "text": "Done."}, stop="end_turn")
    transcript.lines.append(b"not json")
    transcript.lines.append(b"[1, 2]")
    translator = get_provider("claude").translator(PurePath(f"{SESSION}.jsonl"))
    frames = [frame for line in transcript.lines for frame in translator.feed(line, 0)]
    kinds = [
        "weather", "system/earthquake", "attachment/carrier_pigeon", "progress/dream_progress", "assistant/hologram",
        "unreadable", "unreadable",
    ]  # fmt: skip
    stored = natives(frames)
    assert [native["kind"] for native in stored] == kinds
    assert stored[0]["record"] == {"type": "weather", "sessionId": SESSION, "sky": "blue"}
    assert [native["record"] for native in stored[-2:]] == ["not json", [1, 2]]
    assert sum(translator.unknown.values()) == len(kinds)
    assert translator.unknown["unreadable"] == 2
    assert [message.text for message in folds(frames)[SESSION].messages] == ["Go", "Done."]


def test_half_a_character_costs_that_character_alone() -> None:
    transcript = Transcript()
    transcript.user("Go")
    transcript.text("Done @.")
    transcript.lines[-1] = transcript.lines[-1].replace(b"@", rb"\ud83d")
    assert transcript.fold().messages[-1].text == "Done \ufffd."


def test_a_field_of_another_type_costs_that_field_alone() -> None:
    transcript = Transcript()
    transcript.user("Go", version=7, origin="me", isMeta="no")
    transcript.text("Done.", usage={"input_tokens": "many", "output_tokens": 5}, requestId=[])
    fold = transcript.fold()
    assert [message.text for message in fold.messages] == ["Go", "Done."]
    assert [run.status for run in fold.runs.values()] == ["success"]


def test_images_and_documents_stay_in_the_prompt() -> None:
    transcript = Transcript()
    source = {"type": "base64", "media_type": "image/png", "data": "aGk="}
    paper = {"type": "base64", "media_type": "application/pdf", "data": "cGRm"}
    transcript.user([{"type": "text", "text": "See"}, {"type": "image", "source": source},
                     {"type": "document", "title": "a.pdf", "source": paper}])  # fmt: skip
    message = transcript.fold().messages[0]
    assert message.text == "See"
    assert [type(block).__name__ for block in message.blocks] == ["ImageContent", "EmbeddedResource"]


def test_a_file_without_a_message_is_no_session() -> None:
    transcript = Transcript()
    transcript.bare("summary", summary="Of another conversation", leafUuid="elsewhere")
    transcript.bare("file-history-snapshot", snapshot={})
    assert transcript.frames() == []


def test_a_resumed_session_has_the_id_in_the_name_of_its_file() -> None:
    transcript = Transcript()
    transcript.user("Go", sessionId="another")
    transcript.text("Done.")
    assert {frame.session_id for frame in transcript.frames()} == {SESSION}
    assert {frame.session_id for frame in translated(transcript.lines, "copy.jsonl")} == {"another"}


def test_the_provider_knows_its_files() -> None:
    claude = get_provider("claude")
    home = Path("/home/ada")
    assert claude.folders({}, home) == (home / ".claude/projects",)
    assert claude.folders({"CLAUDE_CONFIG_DIR": "/etc/claude"}, home) == (Path("/etc/claude/projects"),)
    assert claude.reads(PurePath(f"-home-ada/{SESSION}.jsonl"))
    assert claude.reads(PurePath(f"-home-ada/{SESSION}/subagents/agent-a1.jsonl"))
    assert not claude.reads(PurePath(f"-home-ada/{SESSION}/subagents/agent-a1.meta.json"))
    assert not claude.reads(PurePath(f"-home-ada/{SESSION}/tool-results/out.jsonl"))
    assert claude.sidecar(PurePath("s/agent-a1.jsonl")) == PurePath("s/agent-a1.meta.json")
    assert claude.sidecar(PurePath(f"{SESSION}.jsonl")) is None


def test_a_provider_that_there_is_not_is_named_with_those_there_are() -> None:
    with pytest.raises(InputError, match="cobol") as raised:
        get_provider("cobol")
    assert "claude" in raised.value.guidance


def test_each_run_has_its_row_of_usage_with_its_model() -> None:
    transcript = Transcript()
    transcript.user("Go")
    transcript.text("Done.")
    transcript.user("Go on")
    transcript.text("Done.", id="msg_2", model="claude-haiku-5")
    record = SessionRecord("s")
    for number, frame in enumerate(transcript.frames(), 1):
        entry = Entry("c", "s", number, frame.at, "import", frame.kind, frame.line)
        record.add(entry, read_message(entry))
    rows = [row for row in record.take().puts if isinstance(row, Usage)]
    assert [(row.model, row.usage.output_tokens) for row in rows] == [("claude-opus-5", 5), ("claude-haiku-5", 5)]
    assert rows[0].time == 1772359202.0
