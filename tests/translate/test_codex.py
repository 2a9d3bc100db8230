"""Codex's transcripts as conversations: messages, runs, settings, tokens, forks, sub-agents, and unknown records."""

from __future__ import annotations

from pathlib import Path, PurePath
from typing import Any

import msgspec
import pytest

from dragoman.translate.codex.translator import CodexTranslator
from dragoman.translate.translator import get_provider
from dragoman.wire.vocabulary import ImageContent, ResourceLink
from translate.claude_talk import folds, updates
from translate.codex_talk import (
    FOLDER,
    NAME,
    OWN_TURN,
    PARENT,
    PARENTS_TURN,
    THREAD,
    Transcript,
    conversation_of,
    natives,
    translated,
)  # fmt: skip


def _runs(transcript: Transcript) -> list[tuple[str, str | None]]:
    return [(run.status, run.stop_reason) for run in transcript.fold().runs.values()]


# -- words


def test_a_turn_recorded_by_events_and_items_is_reported_once() -> None:
    transcript = Transcript()
    transcript.started()
    transcript.prompt("What is this?")
    transcript.thought("**Look**", "**Again**", id="rs_1")
    transcript.text("A test.")
    transcript.ended(last_agent_message="A test.")
    fold = transcript.fold()
    assert conversation_of(fold) == [
        ("user", "What is this?"),
        ("thought", "**Look**\n\n**Again**"),
        ("assistant", "A test."),
    ]
    assert _runs(transcript) == [("success", "end_turn")]


def test_repeated_texts_are_not_lost() -> None:
    transcript = Transcript()
    transcript.started()
    transcript.prompt("Twice")
    transcript.text("Yes.")
    transcript.text("Yes.")
    transcript.ended()
    assert conversation_of(transcript.fold())[1:] == [("assistant", "Yes."), ("assistant", "Yes.")]


def test_texts_that_only_events_have_are_reported_at_the_end_of_the_turn() -> None:
    transcript = Transcript()
    transcript.started()
    transcript.prompt("Go")
    transcript.event("agent_reasoning", text="Only an event")
    transcript.event("turn_aborted", reason="interrupted")
    assert conversation_of(transcript.fold()) == [("user", "Go"), ("thought", "Only an event")]


def test_paginated_items_and_response_items_with_one_id_are_one_message() -> None:
    transcript = Transcript(history_mode="paginated", cli_version="0.166.0")
    transcript.started()
    transcript.item("message", role="user", id="msg_0", content=[{"type": "input_text", "text": "Go"}])
    transcript.completed("UserMessage", id="u", content=[{"type": "text", "text": "Go"}])
    transcript.completed("Reasoning", id="rs_1", summary_text=["Hm"], raw_content=[])
    transcript.item("reasoning", id="rs_1", summary=[{"type": "summary_text", "text": "Hm"}])
    transcript.completed("AgentMessage", id="msg_1", content=[{"type": "Text", "text": "Done."}])
    transcript.item("message", id="msg_1", role="assistant", content=[{"type": "output_text", "text": "Done."}])
    transcript.ended()
    assert conversation_of(transcript.fold()) == [("user", "Go"), ("thought", "Hm"), ("assistant", "Done.")]


def test_messages_with_empty_ids_are_each_their_own() -> None:
    transcript = Transcript()
    transcript.started()
    transcript.prompt("Go")
    for words in ("One", "Two"):
        transcript.item("reasoning", id="", summary=[], content=[{"type": "reasoning_text", "text": words}])
    transcript.ended()
    assert conversation_of(transcript.fold())[1:] == [("thought", "One"), ("thought", "Two")]


def test_a_message_of_parts_is_reported_once_for_events_of_all_or_some_parts() -> None:
    transcript = Transcript()
    transcript.started()
    transcript.prompt("Go")
    for events in (["One. ", "Two."], ["One. Two."]):
        for event in events:
            transcript.event("agent_message", message=event)
        content = [{"type": "output_text", "text": text} for text in ("One. ", "Two.")]
        transcript.item("message", role="assistant", content=content)
    transcript.ended()
    assert conversation_of(transcript.fold())[1:] == [("assistant", "One. Two."), ("assistant", "One. Two.")]


@pytest.mark.parametrize("event_first", [True, False])
def test_notes_of_the_model_to_codex_are_not_shown(event_first: bool) -> None:
    transcript = Transcript()
    transcript.started()
    transcript.prompt("Go")
    noted = "Done.<oai-mem-citation><rollout_ids>x</rollout_ids></oai-mem-citation>"
    if event_first:
        transcript.event("agent_message", message="Done.")
    transcript.item("message", role="assistant", content=[{"type": "output_text", "text": noted}])
    if not event_first:
        transcript.event("agent_message", message="Done.")
    transcript.ended()
    assert conversation_of(transcript.fold())[1:] == [("assistant", "Done.")]


def test_a_plan_within_a_message_is_reported_once_without_its_marks() -> None:
    transcript = Transcript()
    transcript.started()
    transcript.prompt("Go")
    transcript.completed("Plan", id="p1", text="# Plan\n")
    transcript.event("agent_message", message="I plan:\nAgreed?")
    whole = "I plan:\n<proposed_plan>\n# Plan\n</proposed_plan>\nAgreed?"
    transcript.item("message", role="assistant", content=[{"type": "output_text", "text": whole}])
    transcript.text("It stands in `<proposed_plan>`.")
    transcript.ended()
    assert conversation_of(transcript.fold())[1:] == [
        ("assistant", "I plan:\n# Plan\nAgreed?"),
        ("assistant", "It stands in `<proposed_plan>`."),
    ]


def test_a_thought_with_a_summary_is_reported_by_its_summary() -> None:
    transcript = Transcript()
    transcript.started()
    transcript.prompt("Go")
    transcript.event("agent_reasoning", text="In short")
    transcript.event("agent_reasoning_raw_content", text="At length")
    transcript.item("reasoning", summary=[{"type": "summary_text", "text": "In short"}],
                    content=[{"type": "reasoning_text", "text": "At length"}])  # fmt: skip
    transcript.ended()
    assert conversation_of(transcript.fold())[1:] == [("thought", "In short")]


def test_a_prompt_with_a_late_event_is_reported_once() -> None:
    transcript = Transcript()
    transcript.started()
    transcript.item("message", role="user", content=[{"type": "input_text", "text": "Go"}])
    transcript.text("Going.")
    transcript.event("user_message", message="Go")
    transcript.ended()
    transcript.run("Again")
    assert [text for _, text in conversation_of(transcript.fold())] == ["Go", "Going.", "Again", "Done."]


@pytest.mark.parametrize("kind", ["environment_context", "user_instructions"])
def test_context_that_old_versions_record_as_a_prompt_is_left_out(kind: str) -> None:
    transcript = Transcript(cli_version="0.39.0")
    transcript.event("user_message", message=f"<{kind}>x</{kind}>", kind=kind)
    transcript.prompt("Hello", kind="plain")
    assert conversation_of(transcript.fold()) == [("user", "Hello")]


def test_injected_context_is_left_out() -> None:
    transcript = Transcript()
    for text in ("<environment_context>x</environment_context>", "# AGENTS.md instructions", "<turn_aborted>"):
        transcript.item("message", role="user", content=[{"type": "input_text", "text": text}])
    transcript.item("message", role="developer", content=[{"type": "input_text", "text": "Obey."}])
    transcript.run("Hello")
    assert conversation_of(transcript.fold()) == [("user", "Hello"), ("assistant", "Done.")]


def test_without_events_prompts_are_the_texts_in_the_users_role() -> None:
    transcript = Transcript()
    for words in ("One", "Two"):
        for text in ("<environment_context>x</environment_context>", words):
            transcript.item("message", role="user", content=[{"type": "input_text", "text": text}])
        transcript.item("message", role="assistant", content=[{"type": "output_text", "text": "Done."}])
    assert [text for _, text in conversation_of(transcript.fold())] == ["One", "Done.", "Two", "Done."]


def test_the_context_that_an_editor_adds_to_a_prompt_is_in_its_meta() -> None:
    transcript = Transcript()
    context = "# Context from my IDE setup:\n\n## Active file: a.py\n"
    transcript.run(f"{context}\n## My request for Codex:\nFix it\n")
    assert conversation_of(transcript.fold())[0] == ("user", "Fix it")
    (prompts,) = [frame for frame in transcript.frames() if (frame.kind, frame.direction) == ("session/prompt", "out")]
    assert msgspec.json.decode(prompts.line)["params"]["_meta"]["native"]["context"] == context.rstrip()


def test_images_of_a_prompt_are_images_and_links() -> None:
    transcript = Transcript()
    transcript.started()
    transcript.prompt("See", images=["data:image/jpeg;base64,QUJD"], local_images=["/tmp/a.png"])
    transcript.text("I see.")
    transcript.ended()
    blocks = transcript.fold().messages[0].blocks
    assert blocks == [
        ImageContent(data="QUJD", mime_type="image/jpeg"),
        ResourceLink(name="a.png", uri="file:///tmp/a.png"),
    ]


def test_encrypted_thoughts_are_left_out() -> None:
    transcript = Transcript()
    transcript.started()
    transcript.prompt("Go")
    transcript.item("reasoning", summary=[], content=None, encrypted_content="gAAAA")
    transcript.text("Done.")
    transcript.ended()
    assert conversation_of(transcript.fold()) == [("user", "Go"), ("assistant", "Done.")]


# -- runs


def test_a_text_typed_during_a_turn_joins_its_run() -> None:
    transcript = Transcript()
    transcript.started()
    transcript.prompt("Go")
    transcript.text("Going.")
    transcript.prompt("Faster")
    transcript.text("Done.")
    transcript.ended()
    assert _runs(transcript) == [("success", "end_turn")]
    assert [text for _, text in conversation_of(transcript.fold())] == ["Go", "Going.", "Faster", "Done."]


def test_without_turn_events_a_run_ends_with_the_next_prompt_or_the_file() -> None:
    transcript = Transcript(cli_version="0.40.0")
    for prompt in ("One", "Two"):
        transcript.prompt(prompt)
        transcript.text("Done.")
    transcript.prompt("Three")
    transcript.call("shell", {"command": ["ls"]})
    assert _runs(transcript) == [("success", "end_turn"), ("success", "end_turn"), ("interrupted", None)]


def test_a_turn_without_an_end_is_interrupted() -> None:
    transcript = Transcript()
    transcript.started()
    transcript.prompt("Go")
    transcript.text("Going.")
    (run,) = transcript.fold().runs.values()
    assert (run.status, run.reason) == ("interrupted", "The transcript ends before this run does.")


def test_a_turn_without_an_end_succeeds_after_the_final_answer() -> None:
    transcript = Transcript()
    transcript.started()
    transcript.prompt("Go")
    transcript.text("Going.", phase="commentary")
    transcript.text("Done.", phase="final_answer")
    transcript.tokens(100, 100)
    transcript.run("Again")
    assert _runs(transcript) == [("success", "end_turn")] * 2
    first, _ = transcript.fold().runs.values()
    assert first.usage is not None
    assert first.usage.total_tokens == 100


def test_a_commentary_is_not_the_final_answer() -> None:
    transcript = Transcript()
    transcript.started()
    transcript.prompt("Go")
    transcript.text("Done.", phase="final_answer")
    transcript.call("shell", {"command": ["ls"]})
    transcript.run("Again")
    assert _runs(transcript) == [("interrupted", None), ("success", "end_turn")]


@pytest.mark.parametrize("version", ["0.40.0", "0.118.0"])
def test_a_run_without_an_end_ends_with_its_last_record(version: str) -> None:
    transcript = Transcript(cli_version=version)
    if version != "0.40.0":
        transcript.started()
    transcript.prompt("Go")
    transcript.call("shell", {"command": ["ls"]})
    transcript.output("a")
    end = transcript.frames(finish=False)[-1].at
    transcript.line(
        type="event_msg", timestamp="2026-04-13T20:00:00.000Z", payload={"type": "token_count", "info": None}
    )
    later = {"timestamp": "2026-04-13T20:00:00.000Z"}
    if version != "0.40.0":
        transcript.line(type="event_msg", payload={"type": "task_started", "turn_id": "t2"}, **later)
    transcript.line(type="event_msg", payload={"type": "user_message", "message": "Again"}, **later)
    first, _ = transcript.fold().runs.values()
    assert (first.status, first.ended_time) == ("interrupted", end)


def test_a_turn_that_begins_during_another_interrupts_it() -> None:
    transcript = Transcript()
    transcript.started()
    transcript.prompt("Go")
    transcript.run("Again")
    assert _runs(transcript) == [("interrupted", None), ("success", "end_turn")]


def test_an_aborted_turn_is_cancelled_and_its_open_calls_failed() -> None:
    transcript = Transcript()
    transcript.started()
    transcript.prompt("Go")
    transcript.call("exec_command", {"cmd": "sleep 99"})
    transcript.event("turn_aborted", reason="interrupted")
    assert _runs(transcript) == [("cancelled", "cancelled")]
    assert transcript.tool().status == "failed"


@pytest.mark.parametrize("told_by", ["event", "end", "both"])
def test_an_error_ends_the_run_and_is_reported_once(told_by: str) -> None:
    transcript = Transcript()
    transcript.started()
    transcript.prompt("Go")
    error = {"message": "No more.", "codex_error_info": "usage_limit_exceeded"}
    if told_by != "end":
        transcript.event("error", **error)
    transcript.ended(**({} if told_by == "event" else {"error": error}))
    (run,) = transcript.fold().runs.values()
    assert run.status == "error"
    assert run.error is not None
    assert (run.error.message, run.error.data) == ("No more.", {"codexErrorInfo": "usage_limit_exceeded"})
    assert [notice["title"] for notice in updates(transcript.frames(), "notice")] == ["No more."]


def test_a_turn_without_a_prompt_is_a_run_with_an_empty_prompt() -> None:
    transcript = Transcript()
    transcript.started()
    transcript.text("I went on.")
    transcript.ended()
    assert _runs(transcript) == [("success", "end_turn")]
    assert conversation_of(transcript.fold()) == [("user", ""), ("assistant", "I went on.")]


@pytest.mark.parametrize("told_by", ["event", "item"])
def test_a_command_of_the_users_own_is_a_run_with_a_call(told_by: str) -> None:
    transcript = Transcript()
    transcript.started()
    fields: dict[str, Any] = {
        "command": ["bash", "-lc", "make"],
        "cwd": FOLDER,
        "exit_code": 0,
        "source": "user_shell",
    }
    if told_by == "event":
        transcript.event("exec_command_end", call_id="x", **fields)
    else:
        transcript.completed("CommandExecution", id="x", **fields)
    transcript.ended()
    (run,) = transcript.fold().runs.values()
    assert (transcript.tool().run_id, run.status) == (run.id, "success")


def test_a_command_that_ends_as_a_turn_begins_does_not_replace_its_prompt() -> None:
    transcript = Transcript()
    transcript.run()
    transcript.started()
    transcript.event("exec_command_end", call_id="x", command=["make"], cwd=FOLDER, source="unified_exec_startup")
    transcript.prompt("Go on")
    transcript.ended()
    (_, frame) = [frame for frame in transcript.frames() if (frame.kind, frame.direction) == ("session/prompt", "out")]
    assert msgspec.json.decode(frame.line)["params"]["prompt"] == [{"type": "text", "text": "Go on"}]


def test_a_message_of_another_agent_is_the_prompt_of_its_turn() -> None:
    transcript = Transcript()
    transcript.started()
    transcript.item("agent_message", id="m1", author="/root", recipient="/root/child",
                    content=[{"type": "input_text", "text": "Look at it."}])  # fmt: skip
    transcript.text("Seen.")
    transcript.ended()
    assert conversation_of(transcript.fold()) == [("user", "Look at it."), ("assistant", "Seen.")]


def _letter(form: str, words: str) -> Transcript:
    """A message from one agent to another, in the forms of several versions."""
    transcript = Transcript()
    transcript.started()
    letter: dict[str, Any] = {"author": "/root", "recipient": "/root/child"}
    match form:
        case "words":
            transcript.item("agent_message", **letter, content=[{"type": "input_text", "text": words}])
        case "not encrypted after all":
            transcript.item("agent_message", **letter, content=[
                {"type": "encrypted_content", "encrypted_content": words},
                {"type": "encrypted_content", "encrypted_content": "gAAAAABo"}])  # fmt: skip
        case "JSON":
            text = msgspec.json.encode({**letter, "content": words, "trigger_turn": True}).decode()
            transcript.item("message", role="assistant", content=[{"type": "output_text", "text": text}])
        case _:
            transcript.add("inter_agent_communication", **letter, content=words, trigger_turn=True)
    transcript.text("Seen.")
    transcript.ended()
    return transcript


@pytest.mark.parametrize("form", ["words", "not encrypted after all", "JSON", "record"])
def test_a_letter_is_read_in_each_of_its_forms(form: str) -> None:
    transcript = _letter(form, "Look at it.")
    assert conversation_of(transcript.fold()) == [("user", "Look at it."), ("assistant", "Seen.")]
    assert not natives(transcript.frames())


@pytest.mark.parametrize("told_by", ["event", "item"])
def test_the_prompt_of_a_review_is_reported_once_though_two_records_have_it(told_by: str) -> None:
    transcript = Transcript()
    if told_by == "event":
        transcript.event("entered_review_mode", user_facing_hint="current changes")
    else:
        transcript.completed("EnteredReviewMode", id="r1", user_facing_hint="current changes")
    transcript.started()
    transcript.event("user_message", message="Review it.")
    transcript.event("user_message", message="Review it.")
    transcript.event("exited_review_mode", review_output=None)
    transcript.text("Fine.")
    transcript.ended()
    assert conversation_of(transcript.fold()) == [("user", "Review it."), ("assistant", "Fine.")]
    assert [notice["title"] for notice in updates(transcript.frames(), "notice")] == ["Review of current changes"]


def test_each_review_has_its_own_last_message() -> None:
    transcript = Transcript()
    for words in ("Fine.", "Finer."):
        transcript.started()
        transcript.prompt("Review it.")
        transcript.text(words, id="review_rollout_assistant")
        transcript.text("And so on.")
        transcript.ended()
    texts = [text for kind, text in conversation_of(transcript.fold()) if kind == "assistant"]
    assert texts == ["Fine.", "And so on.", "Finer.", "And so on."]


# -- tokens


def test_growing_counts_become_the_tokens_of_each_run() -> None:
    transcript = Transcript()
    for total, last in ((100, 100), (300, 150)):
        transcript.started()
        transcript.prompt("Go")
        transcript.text("Done.")
        transcript.tokens(total, last)
        transcript.tokens(total, last)
        transcript.ended()
    usages = [run.usage for run in transcript.fold().runs.values()]
    assert [usage.total_tokens for usage in usages if usage] == [100, 200]
    assert [usage.cached_tokens for usage in usages if usage] == [50, 100]
    assert [usage.input_tokens for usage in usages if usage] == [40, 100]
    assert [update["used"] for update in updates(transcript.frames(), "usage_update")] == [100, 150]


def test_the_tokens_of_a_turn_that_only_compacts_belong_to_the_next_run() -> None:
    transcript = Transcript()
    transcript.run()
    transcript.started()
    transcript.add("compacted", message="", replacement_history=[])
    transcript.tokens(100, 100)
    transcript.ended()
    transcript.started()
    transcript.prompt("Go")
    transcript.tokens(150, 50)
    transcript.text("Done.")
    transcript.ended()
    _, run = transcript.fold().runs.values()
    assert run.usage is not None
    assert run.usage.total_tokens == 150


def test_a_count_that_decreases_is_replaced_by_the_sum_of_its_requests() -> None:
    transcript = Transcript()
    transcript.run()
    transcript.started()
    transcript.prompt("Go")
    transcript.tokens(1000, 1000)
    transcript.tokens(70, 70)
    transcript.tokens(70, 70)
    transcript.text("Done.")
    transcript.ended()
    usage = list(transcript.fold().runs.values())[-1].usage
    assert usage is not None
    assert usage.total_tokens == 1070


def test_a_run_without_counts_reports_none() -> None:
    transcript = Transcript()
    transcript.started()
    transcript.prompt("Go")
    transcript.event("token_count", info=None)
    transcript.text("Done.")
    transcript.ended()
    (run,) = transcript.fold().runs.values()
    assert run.usage is not None
    assert (run.usage.total_tokens, run.usage.context_used) == (None, None)


def test_an_interrupted_run_has_its_tokens_in_the_error() -> None:
    transcript = Transcript()
    transcript.started()
    transcript.prompt("Go")
    transcript.tokens(100, 100)
    (run,) = transcript.fold().runs.values()
    assert run.error is not None
    assert run.error.data["usage"]["totalTokens"] == 100


# -- the thread


def test_the_first_frames_open_the_session_with_its_details() -> None:
    transcript = Transcript(git={"branch": "main"}, source="cli")
    transcript.run()
    prompts, answered, *_ = transcript.frames()
    assert (prompts.kind, prompts.direction, prompts.session_id) == ("session/new", "out", THREAD)
    params = msgspec.json.decode(prompts.line)["params"]
    assert params["cwd"] == FOLDER
    native = params["_meta"]["native"]
    assert (native["provider"], native["version"], native["git"]) == ("codex", "0.118.0", {"branch": "main"})
    assert msgspec.json.decode(answered.line)["result"] == {"sessionId": THREAD}
    assert prompts.at == 1775938980.0


def test_a_repeated_first_record_changes_nothing() -> None:
    transcript = Transcript()
    transcript.run()
    transcript.began(cwd="/elsewhere")
    transcript.run("Again")
    assert [frame.kind for frame in transcript.frames()].count("session/new") == 2
    assert len(transcript.fold().runs) == 2


def test_changes_of_settings_are_reported() -> None:
    transcript = Transcript()
    context: dict[str, Any] = {
        "cwd": FOLDER, "model": "gpt-5.5", "effort": "high", "approval_policy": "on-request",
        "sandbox_policy": {"mode": "workspace-write"},
    }  # fmt: skip
    transcript.add("turn_context", **context)
    transcript.add("turn_context", **context)
    transcript.add("turn_context", **{**context, "approval_policy": "never",
                                      "sandbox_policy": {"type": "danger-full-access"}})  # fmt: skip
    transcript.event("thread_settings_applied", thread_settings={"model": "gpt-6"})
    reported = [
        {option["id"]: option["currentValue"] for option in update["configOptions"]}
        for update in updates(transcript.frames(), "config_option_update")
    ]
    assert reported == [
        {"mode": "workspace-write", "model": "gpt-5.5", "reasoning_effort": "high"},
        {"mode": "agent-full-access", "model": "gpt-5.5", "reasoning_effort": "high"},
        {"mode": "agent-full-access", "model": "gpt-6", "reasoning_effort": "high"},
    ]


def test_a_thread_is_called_by_its_first_prompt_until_it_has_a_name() -> None:
    transcript = Transcript()
    transcript.run("Say\n  hello")
    assert transcript.fold().title == "Say hello"
    transcript.event("thread_name_updated", thread_name="Greeting")
    assert transcript.fold().title == "Greeting"


def test_a_thread_that_begins_with_an_image_is_named_by_its_first_text() -> None:
    transcript = Transcript()
    transcript.started()
    transcript.event("user_message", message="", images=["data:image/png;base64,QUJD"])
    transcript.ended()
    transcript.run("What is it?")
    assert transcript.fold().title == "What is it?"


def test_the_last_line_of_the_index_of_threads_has_the_name() -> None:
    transcript = Transcript()
    transcript.run("Hello")
    lines = [{"id": THREAD, "thread_name": name} for name in ("Old", "New")] + [{"id": PARENT, "thread_name": "Other"}]
    index = b"".join(msgspec.json.encode(line) + b"\n" for line in lines)
    frames = transcript.frames(index)
    assert folds(frames)[THREAD].title == "New"
    assert len(frames) == len(transcript.frames())  # who has some of the frames can leave out as many


def test_a_compaction_is_reported_once() -> None:
    transcript = Transcript()
    for _ in range(2):
        transcript.started()
        transcript.prompt("Go")
        transcript.add("compacted", message="", replacement_history=[{"type": "message", "role": "user"}])
        transcript.event("context_compacted")
        transcript.text("Done.")
        transcript.ended()
    assert len(updates(transcript.frames(), "compaction_update")) == 2
    assert len(transcript.fold().messages) == 4


def test_a_plan_of_plan_mode_is_a_document() -> None:
    transcript = Transcript()
    transcript.completed("Plan", id="p1", text="# Plan")
    assert transcript.fold().plans["p1"].markdown == "# Plan"


# -- forks and sub-agents


def _fork(**meta: Any) -> Transcript:
    """A thread that begins with its parent's, all of it written at once."""
    transcript = Transcript(forked_from_id=PARENT, **meta)
    transcript.began(id=PARENT)
    transcript.started(PARENTS_TURN)
    transcript.prompt("The parent's")
    transcript.call("exec_command", {"cmd": "make"}, "call_p")
    transcript.output("Process exited with code 0", "call_p")
    transcript.tokens(500, 500)
    transcript.text("The parent's answer.")
    transcript.ended()
    transcript.started(OWN_TURN)
    transcript.prompt("Its own")
    transcript.tokens(620, 120)
    transcript.text("Its own answer.")
    transcript.ended()
    return transcript


def _spawned(**fields: Any) -> dict[str, Any]:
    return {"subagent": {"thread_spawn": {"parent_thread_id": PARENT, "depth": 1, **fields}}}


def test_a_sub_agent_leaves_out_the_history_of_its_parent() -> None:
    transcript = _fork(source=_spawned(), agent_nickname="Ada")
    fold = transcript.fold()
    assert conversation_of(fold) == [("user", "Its own"), ("assistant", "Its own answer.")]
    assert not list(fold.tool_calls)
    (run,) = fold.runs.values()
    assert run.usage is not None
    assert run.usage.total_tokens == 120
    params = msgspec.json.decode(transcript.frames()[0].line)["params"]
    assert params["_meta"]["codex"] == {"parentSessionId": PARENT, "forkedFromId": PARENT, "agentNickname": "Ada"}


def test_a_fork_of_the_user_has_the_copy_as_history() -> None:
    fold = _fork(source="cli").fold()
    assert [(message.text, message.replayed) for message in fold.messages] == [
        ("The parent's", True),
        ("The parent's answer.", True),
        ("Its own", False),
        ("Its own answer.", False),
    ]
    assert [call.replayed for call in fold.tool_calls] == [True]
    (run,) = fold.runs.values()
    assert run.usage is not None
    assert run.usage.total_tokens == 120


def test_a_copy_ends_with_a_turn_that_begins_after_it_was_written() -> None:
    transcript = Transcript(forked_from_id=PARENT, source=_spawned())
    transcript.started("parents-turn")
    transcript.prompt("The parent's")
    transcript.ended()
    transcript.started("turn-1")
    transcript.prompt("Its own")
    transcript.ended()
    assert conversation_of(transcript.fold()) == [("user", "Its own")]


def test_another_thread_at_the_end_of_a_file_is_no_copy() -> None:
    transcript = Transcript()
    transcript.run()
    earlier = Transcript(id=PARENT)
    earlier.started(PARENTS_TURN)
    earlier.prompt("Before")
    earlier.text("Done.")
    earlier.ended()
    lines = [line.replace(b"2026-04-11", b"2026-04-10") for line in earlier.lines]
    fold = folds(translated([*transcript.lines, *lines]))[THREAD]
    assert [text for _, text in conversation_of(fold)] == ["Go", "Done.", "Before", "Done."]
    assert len(fold.runs) == 2


def test_the_recorded_start_of_a_sub_agents_own_history_is_used() -> None:
    transcript = Transcript(begun=False)
    transcript.line(type="session_meta", ordinal=0, payload={
        "id": THREAD, "cwd": FOLDER, "source": _spawned(), "subagent_history_start_ordinal": 3})  # fmt: skip
    for ordinal, words in enumerate(("One", "Two", "Three", "Four"), 1):
        transcript.line(type="response_item", ordinal=ordinal, payload={
            "type": "message", "role": "assistant", "content": [{"type": "output_text", "text": words}]})  # fmt: skip
    assert [text for _, text in conversation_of(transcript.fold())] == ["Three", "Four"]


def test_a_thread_that_refers_to_its_parents_history_has_no_copy_of_it() -> None:
    transcript = Transcript(forked_from_id=PARENT, history_base={"thread_id": PARENT, "end_ordinal_exclusive": 7})
    transcript.prompt("Its own")
    assert conversation_of(transcript.fold()) == [("user", "Its own")]


def test_sub_agents_are_reported_when_they_start_and_when_they_are_done() -> None:
    transcript = Transcript()
    transcript.started()
    transcript.prompt("Go")
    transcript.call("spawn_agent", {"message": "Look!"})
    transcript.event("collab_agent_spawn_end", call_id="call_1", new_thread_id="t2", new_agent_nickname="Ada",
                     prompt="Look!", status="pending_init")  # fmt: skip
    transcript.output('{"agent_id": "t2", "nickname": "Ada"}')
    transcript.event("collab_waiting_end", agent_statuses=[{"thread_id": "t2", "status": {"completed": "Seen."}}])
    transcript.ended()
    agents = updates(transcript.frames(), "subagent_update")
    assert [(agent["sessionId"], agent["state"]["state"]) for agent in agents] == [("t2", "running"), ("t2", "idle")]
    assert agents[0]["_meta"]["codex"] == {"parentToolUseId": "call_1"}
    call = transcript.tool()
    assert (call.title, call.kind, call.status) == ("spawnAgent", "other", "completed")


# -- flat files


def _flat(*items: dict[str, Any]) -> list[bytes]:
    meta: dict[str, Any] = {"id": THREAD, "timestamp": "2025-08-19T08:25:08.061Z", "instructions": None, "git": {}}
    return [msgspec.json.encode(line) for line in (meta, {"record_type": "state"}, *items)]


def _texts(role: str, text: str) -> dict[str, Any]:
    return {"type": "message", "id": None, "role": role, "content": [{"type": "input_text", "text": text}]}


def test_a_flat_file_is_a_conversation() -> None:
    lines = _flat(
        _texts("user", "<environment_context>\n<cwd>/home/ada/flat</cwd>\n</environment_context>"),
        _texts("user", "Hello"),
        {"type": "function_call", "name": "shell", "arguments": '{"command":["bash","-lc","ls"]}', "call_id": "c"},
        {"type": "function_call_output", "call_id": "c", "output": '{"output":"a","metadata":{"exit_code":0}}'},
        _texts("assistant", "Hi."),
    )
    frames = translated(lines)
    fold = folds(frames)[THREAD]
    assert conversation_of(fold) == [("user", "Hello"), ("assistant", "Hi.")]
    assert [(run.status, run.ended_time) for run in fold.runs.values()] == [("success", None)]  # it has no times
    assert msgspec.json.decode(frames[0].line)["params"]["cwd"] == "/home/ada/flat"
    assert [call.title for call in fold.tool_calls] == ["List files"]
    assert {frame.at for frame in frames} == {1755591908.061}


def test_a_flat_file_of_its_first_line_alone_is_a_session() -> None:
    assert translated(_flat()[:1], finish=False) == []
    assert [frame.kind for frame in translated(_flat()[:1])] == ["session/new", "session/new"]


# -- unknown records and damaged lines


def test_unknown_records_are_stored_and_counted() -> None:
    transcript = Transcript()
    transcript.event("weather", sky="blue")
    transcript.item("dream")
    transcript.completed("Wish", id="w")
    transcript.completed("Extension", id="x", kind="garden.bloom")
    transcript.add("omen")
    translator = CodexTranslator(PurePath(NAME))
    frames = [frame for line in transcript.lines for frame in translator.feed(line, 0)]
    kinds = ["event_msg/weather", "response_item/dream", "event_msg/item_completed/Wish",
             "event_msg/item_completed/Extension", "omen"]  # fmt: skip
    assert [native["kind"] for native in natives(frames)] == kinds
    assert dict(translator.unknown) == dict.fromkeys(kinds, 1)
    assert natives(frames)[0]["record"]["payload"] == {"type": "weather", "sky": "blue"}


def test_records_for_codex_itself_are_known_and_left_out() -> None:
    transcript = Transcript()
    for kind in ("world_state", "token_usage_record", "inter_agent_communication_metadata", "security_risk_score"):
        transcript.add(kind)
    for kind in ("ghost_snapshot", "compaction_trigger", "additional_tools"):
        transcript.item(kind)
    for kind in ("thread_goal_updated", "guardian_assessment"):
        transcript.event(kind)
    transcript.completed("HookPrompt", id="h1", fragments=[])
    transcript.completed("Sleep", id="s1", duration_ms=10)
    transcript.completed("Extension", id="s2", kind="clock.sleep", durationMs=10)
    assert [frame.kind for frame in transcript.frames()] == ["session/new", "session/new"]


def test_two_records_on_one_line_are_both_translated() -> None:
    transcript = Transcript()
    transcript.run()
    lines = transcript.lines
    glued = [*lines[:1], lines[1] + lines[2] + lines[3], *lines[4:]]
    assert conversation_of(folds(translated(glued))[THREAD]) == conversation_of(transcript.fold())


def test_a_repeated_line_is_translated_once() -> None:
    transcript = Transcript()
    transcript.run()
    twice = [line for line in transcript.lines for _ in range(2)]
    assert len(translated(twice)) == len(transcript.frames())


def test_a_line_that_is_no_record_is_stored() -> None:
    frames = translated([*Transcript().lines, b'{"timestamp": "2026', b"[1, 2]"])
    assert [(native["kind"], native["record"]) for native in natives(frames)] == [
        ("unreadable", '{"timestamp": "2026'),
        ("unreadable", [1, 2]),
    ]


def test_a_field_of_another_type_costs_that_field_alone() -> None:
    transcript = Transcript()
    transcript.started()
    transcript.item("message", role="user", id=7, content=[{"type": "input_text", "text": "Go"}])
    transcript.event("user_message", message="Go", images=3, turn_id=[])
    transcript.item("message", role="assistant", phase=1, content=[3, {"type": "output_text", "text": "Done."}])
    transcript.ended()
    assert conversation_of(transcript.fold()) == [("user", "Go"), ("assistant", "Done.")]


def test_a_file_without_its_beginning_gets_its_id_from_its_name() -> None:
    transcript = Transcript()
    transcript.run()
    frames = translated(transcript.lines[1:])
    assert {frame.session_id for frame in frames} == {THREAD}


def test_finishing_takes_nothing_back() -> None:
    transcript = Transcript()
    transcript.run()
    transcript.started()
    transcript.prompt("More")
    transcript.text("More.")
    transcript.ended()
    for count in range(len(transcript.lines) + 1):
        reported = translated(transcript.lines[:count], finish=False)
        assert translated(transcript.lines[:count])[: len(reported)] == reported


# -- the provider


def test_the_provider_finds_its_files_and_their_index() -> None:
    codex = get_provider("codex")
    assert codex.folders({}, Path("/home/ada")) == (
        Path("/home/ada/.codex/sessions"),
        Path("/home/ada/.codex/archived_sessions"),
    )
    (sessions, _) = codex.folders({"CODEX_HOME": "/srv/codex"}, Path("/home/ada"))
    path = sessions / "2026" / "04" / "11" / NAME
    assert codex.reads(path)
    assert codex.reads(path.with_name(f"{NAME}.zst"))
    assert not codex.reads(path.with_name("history.jsonl"))
    assert codex.sidecar(path) == Path("/srv/codex/session_index.jsonl")
    assert codex.sidecar(PurePath("elsewhere.jsonl")) is None
