"""The texts of Codex's transcripts: each reported once, however many records have it, and with the right role."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from dragoman.wire.vocabulary import AudioContent, ImageContent, ResourceLink
from translate.codex_talk import PARENT, Transcript, conversation_of, natives


def _user_item(transcript: Transcript, text: str, *kinds: str, **fields: Any) -> None:
    """An item in the user's role with the kinds of its parts."""
    content = [{"type": "input_text", "text": text}]
    kinds_field = {"internal_chat_message_metadata_passthrough": {"content_item_kinds": kinds}} if kinds else {}
    transcript.item("message", role="user", **{"content": content, **kinds_field, **fields})


# -- the model's


def test_an_item_after_its_turn_was_aborted_is_reported_once() -> None:
    """Codex 0.40 writes items when a turn is over."""
    transcript = Transcript(cli_version="0.40.0")
    transcript.prompt("Go")
    transcript.event("agent_reasoning", text="**Look**")
    transcript.event("agent_message", message="Looking.")
    transcript.event("turn_aborted", reason="interrupted")
    transcript.item("reasoning", summary=[{"type": "summary_text", "text": "**Look**"}])
    transcript.item("message", role="assistant", content=[{"type": "output_text", "text": "Looking."}])
    transcript.prompt("Again")
    transcript.thought("**Look**")
    assert conversation_of(transcript.fold()) == [
        ("user", "Go"),
        ("thought", "**Look**"),
        ("assistant", "Looking."),
        ("user", "Again"),
        ("thought", "**Look**"),
    ]


def test_an_answer_to_a_prompt_without_an_event_is_reported_once() -> None:
    transcript = Transcript()
    for words in ("One", "Two"):
        _user_item(transcript, words)
        transcript.text(f"{words}, done.")
    assert [text for _, text in conversation_of(transcript.fold())] == ["One", "One, done.", "Two", "Two, done."]


def test_the_thoughts_of_a_review_are_reported_once_though_two_records_have_them() -> None:
    transcript = Transcript()
    transcript.event("entered_review_mode", user_facing_hint="current changes")
    transcript.started()
    transcript.event("user_message", message="Review it.")
    for thought in ("**Look**", "**Look**", "**Again**", "**Again**"):
        transcript.event("agent_reasoning", text=thought)
    transcript.event("exited_review_mode", review_output=None)
    transcript.text("Fine.")
    transcript.ended()
    assert [text for _, text in conversation_of(transcript.fold())] == ["Review it.", "**Look**", "**Again**", "Fine."]


def test_a_message_without_a_type_is_one() -> None:
    transcript = Transcript()
    for role, text in (("user", "Go"), ("assistant", "Done.")):
        transcript.add("response_item", role=role, content=[{"type": "text", "text": text}])
    transcript.add("response_item", content=[])
    assert conversation_of(transcript.fold()) == [("user", "Go"), ("assistant", "Done.")]
    assert [native["kind"] for native in natives(transcript.frames())] == ["response_item"]


@pytest.mark.parametrize(
    "metadata",
    [{"compaction_output": True}, {"delivered_assistant_message": "codex:code-mode-delivery:v1:incomplete:The"}],
)
def test_messages_that_are_not_for_the_user_are_left_out(metadata: dict[str, Any]) -> None:
    transcript = Transcript()
    transcript.started()
    transcript.prompt("Go")
    summary = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "In short"}]}
    transcript.line(type="response_item", payload=summary, metadata=metadata)
    transcript.text("Done.")
    transcript.ended()
    assert conversation_of(transcript.fold()) == [("user", "Go"), ("assistant", "Done.")]


def test_the_parents_messages_in_a_sub_agents_thread_are_left_out() -> None:
    transcript = Transcript(source={"subagent": {"thread_spawn": {"parent_thread_id": PARENT}}})
    transcript.started()
    content = [{"type": "input_text", "text": "Of the parent"}]
    copied = {"type": "message", "role": "user", "content": content}
    transcript.line(type="response_item", payload=copied, metadata={"inherited_user_message": True})
    transcript.text("Done.")
    transcript.ended()
    assert "Of the parent" not in [text for _, text in conversation_of(transcript.fold())]


def test_spoken_messages_are_reported() -> None:
    transcript = Transcript(history_mode="paginated")
    transcript.add("realtime_item", id="rt_1", type="realtime_session_started", realtime_session_id="v1")
    for number, (role, text) in enumerate((("user", "Look at it"), ("assistant", "I do."))):
        transcript.add("realtime_item", id=f"rt_2{number}", type="transcript_segment", role=role, text=text)
    transcript.add("realtime_item", id="rt_3", type="bem_item_promoted", turn_id="t1", item_id="m1")
    transcript.add("realtime_item", id="rt_4", type="realtime_session_closed", outcome="ended")
    transcript.add("realtime_item", id="rt_5", type="sung")
    assert conversation_of(transcript.fold()) == [("user", "Look at it"), ("assistant", "I do.")]
    assert [native["kind"] for native in natives(transcript.frames())] == ["realtime_item/sung"]


# -- the user's


def test_a_text_marked_as_the_users_is_a_prompt_without_an_event() -> None:
    transcript = Transcript(cli_version="0.159.3", history_mode="paginated")
    transcript.started()
    _user_item(transcript, "Here is my house style.", "agents_md.instructions")
    _user_item(transcript, "<user_shell_command>ls</user_shell_command>", "user.text")
    _user_item(transcript, "Keep going until it is done.", "user.goal")
    _user_item(transcript, "Go", "user.text")
    transcript.completed("UserMessage", id="u1", content=[{"type": "text", "text": "Go"}])
    transcript.text("Going.")
    _user_item(transcript, "Faster", "user.text")
    transcript.text("Done.")
    transcript.ended()
    assert [text for _, text in conversation_of(transcript.fold())] == ["Go", "Going.", "Faster", "Done."]


def test_a_prompt_with_an_image_and_a_late_event_is_reported_once() -> None:
    transcript = Transcript(cli_version="0.159.3", history_mode="paginated")
    transcript.started()
    pieces = [
        {"type": "input_text", "text": '<image name=[Image #1] path="/tmp/a.png">'},
        {"type": "input_image", "image_url": "data:image/png;base64,QUJD"},
        {"type": "input_text", "text": "</image>"},
        {"type": "input_text", "text": "[Image #1] What is this?"},
    ]
    _user_item(transcript, "", "user.text", "user.image", "user.text", "user.text", content=pieces)
    transcript.text("A cat.")
    event = [{"type": "local_image", "path": "/tmp/a.png"}, {"type": "text", "text": "What is this?\n\n[Image #1]"}]
    transcript.completed("UserMessage", id="u1", content=event)
    transcript.ended()
    fold = transcript.fold()
    assert conversation_of(fold) == [("user", "[Image #1] What is this?"), ("assistant", "A cat.")]
    assert fold.messages[0].blocks == [ImageContent(data="QUJD", mime_type="image/png")]


def test_the_same_text_sent_twice_is_two_prompts() -> None:
    transcript = Transcript(cli_version="0.159.3", history_mode="paginated")
    for answer in ("One.", "Two."):
        transcript.started()
        _user_item(transcript, "Continue", "user.text")
        if answer == "Two.":
            transcript.completed("UserMessage", id="u1", content=[{"type": "text", "text": "Continue"}])
        transcript.text(answer)
        transcript.ended()
    assert [text for _, text in conversation_of(transcript.fold())] == ["Continue", "One.", "Continue", "Two."]


@pytest.mark.parametrize("ends", [True, False])
def test_a_prompt_without_an_answer_or_an_event_is_reported(ends: bool) -> None:
    transcript = Transcript()
    transcript.started()
    _user_item(transcript, "Go")
    if ends:
        transcript.event("turn_aborted", reason="interrupted")
    assert conversation_of(transcript.fold()) == [("user", "Go")]


@pytest.mark.parametrize("told_by", ["event", "event with files", "item"])
def test_the_answer_to_a_question_is_reported_without_its_wrapper(told_by: str) -> None:
    replies = msgspec.json.encode([{"answer": "Blue", "question": "Which colour?"}]).decode()
    reply = f"<send_user_message_question_reply>\n{replies}\n</send_user_message_question_reply>"
    if told_by == "event with files":
        reply = f"# Files mentioned by the user:\n\n## a.png: /tmp/a.png\n\n## My request:\n{reply}"
    transcript = Transcript(cli_version="0.159.3", history_mode="paginated")
    transcript.started()
    transcript.completed("UserMessage", id="u1", content=[{"type": "text", "text": "Paint it."}])
    _user_item(transcript, reply, "user.text")
    if told_by != "item":
        transcript.completed("UserMessage", id="u2", content=[{"type": "text", "text": reply}])
    transcript.text("Done.")
    transcript.ended()
    assert [text for _, text in conversation_of(transcript.fold())] == ["Paint it.", "Blue", "Done."]


def test_files_and_audio_of_a_prompt_are_shown() -> None:
    transcript = Transcript(history_mode="paginated")
    transcript.started()
    content = [
        {"type": "mention", "name": "Garden", "path": "app://garden"},
        {"type": "audio", "audio_url": "data:audio/mp3;base64,QUJD"},
    ]
    transcript.completed("UserMessage", id="u1", content=content)
    transcript.text("I hear.")
    transcript.ended()
    assert transcript.fold().messages[0].blocks == [
        ResourceLink(name="Garden", uri="app://garden"),
        AudioContent(data="QUJD", mime_type="audio/mp3"),
    ]
