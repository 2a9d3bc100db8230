"""Codex threads that are rolled back, undone or compacted, and their sub-agents."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from translate.claude_talk import folds, updates
from translate.codex_talk import THREAD, Transcript, conversation_of, natives, translated

ROLLOUT = "019d7e40-7150-7df3-b034-a8421746ef80"


def _notices(transcript: Transcript) -> list[str]:
    return [notice["title"] for notice in updates(transcript.frames(), "notice")]


def test_a_thread_that_was_rolled_back_keeps_its_title_and_has_a_notice() -> None:
    transcript = Transcript(history_base={"thread_id": THREAD, "end_ordinal_exclusive": 6, "end_byte_offset": 1300})
    transcript.run("Instead")
    frames = translated(transcript.lines, f"rollout-2026-04-11T20-30-03-{THREAD}_{ROLLOUT}.jsonl")
    fold = folds(frames)[THREAD]
    assert (fold.title, conversation_of(fold)[0]) == (None, ("user", "Instead"))
    assert [notice["title"] for notice in updates(frames, "notice")] == [
        "The thread was rolled back to an earlier turn"
    ]


def test_a_file_that_continues_another_does_not_count_its_tokens() -> None:
    transcript = Transcript(history_base={"thread_id": THREAD, "end_ordinal_exclusive": 6, "end_byte_offset": 1300})
    transcript.started()
    transcript.prompt("Instead")
    transcript.tokens(1000, 100)
    transcript.tokens(1200, 200)
    transcript.ended()
    (run,) = folds(transcript.frames())[THREAD].runs.values()
    assert run.usage is not None
    assert run.usage.total_tokens == 300


@pytest.mark.parametrize(
    ("reported", "title"),
    [
        ({"success": True, "message": "Undo restored snapshot 1234567."}, "Undo restored snapshot 1234567."),
        ({"success": True}, "Undone"),
        ({"success": False}, "Could not be undone"),
    ],
)
def test_an_undo_is_a_notice(reported: dict[str, Any], title: str) -> None:
    transcript = Transcript(cli_version="0.63.0")
    transcript.run()
    transcript.event("undo_completed", **reported)
    assert _notices(transcript) == [title]


def test_a_readable_summary_is_reported_with_its_compaction() -> None:
    transcript = Transcript()
    transcript.started()
    transcript.prompt("Go")
    transcript.add("compacted", message="We went.")
    transcript.event("context_compacted")
    transcript.ended()
    (compaction,) = updates(transcript.frames(), "compaction_update")
    assert compaction["summary"] == [{"type": "text", "text": "We went."}]


def test_events_of_progress_are_left_out() -> None:
    transcript = Transcript()
    for kind in ("exec_command_begin", "mcp_tool_call_begin", "exec_command_output_delta", "agent_message_delta"):
        transcript.event(kind, call_id="call_1")
    transcript.add("retained_context", type="verified_answer", questions=[])
    assert [frame.kind for frame in transcript.frames()] == ["session/new", "session/new"]


# -- sub-agents


def _states(transcript: Transcript) -> list[tuple[str, str]]:
    agents = updates(transcript.frames(), "subagent_update")
    return [(agent["sessionId"], agent["state"]["state"]) for agent in agents]


@pytest.mark.parametrize("state", [{"completed": "Seen."}, {"errored": "Lost."}, "shutdown"])
@pytest.mark.parametrize("told_by", ["output", "item"])
def test_a_sub_agent_that_was_waited_for_is_done(told_by: str, state: Any) -> None:
    transcript = Transcript()
    transcript.started()
    transcript.prompt("Go")
    for number in (1, 2):
        transcript.call("spawn_agent", {"message": "Look!"}, f"call_{number}")
        transcript.output(f'{{"agent_id": "t{number}"}}', f"call_{number}")
    states = {"t1": state, "t2": "running"}
    if told_by == "output":
        transcript.call("wait", {"ids": ["t1", "t2"]}, "call_3")
        transcript.output(msgspec.json.encode({"status": states, "timed_out": False}).decode(), "call_3")
    else:
        transcript.completed("CollabAgentToolCall", id="c1", tool="wait", status="completed", agents_states=states)
    transcript.ended()
    assert _states(transcript) == [("t1", "running"), ("t2", "running"), ("t1", "idle")]


def test_a_state_that_is_none_does_no_harm() -> None:
    transcript = Transcript()
    transcript.completed("CollabAgentToolCall", id="c1", agents_states={"t1": ["completed"], "t2": None})
    assert _states(transcript) == []
    assert not natives(transcript.frames())


@pytest.mark.parametrize("reported", ["timeout_ms must be at least 10000", "agent path `/root/look` already exists"])
def test_a_failed_call_of_an_agent_tool_is_a_failed_call(reported: str) -> None:
    transcript = Transcript()
    transcript.call("spawn_agent", {"message": "Look!"}, namespace="collaboration")
    transcript.output(reported)
    call = transcript.tool()
    assert (call.status, reported in str(call.content)) == ("failed", True)
