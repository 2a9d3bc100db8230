"""Properties of the Codex translator: damaged transcripts give the same frames, or at least valid ones."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path, PurePath
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.translate.codex.translator import CodexTranslator
from dragoman.translate.translator import Frame
from translate.codex_talk import FOLDER, NAME, PARENT, PARENTS_TURN, Transcript, translated
from translate.harm import check_frames, fed, with_other_values

PATCH = "*** Begin Patch\n*** Update File: a\n@@\n-x\n+y\n*** End Patch"


def _legacy() -> list[bytes]:
    """A thread with an envelope and events: all that is known of them."""
    talk = Transcript(forked_from_id=PARENT, source="cli")
    talk.began(id=PARENT)
    talk.started(PARENTS_TURN)
    talk.prompt("Before")
    talk.text("Before.")
    talk.tokens(50, 50)
    talk.ended()
    talk.started()
    talk.add("turn_context", cwd=FOLDER, model="gpt-5.5", effort="high", approval_policy="never",
             sandbox_policy={"mode": "read-only"}, collaboration_mode={"mode": "plan"})  # fmt: skip
    talk.prompt("# Context from my IDE setup:\n\n## My request for Codex:\nGo", images=["data:image/png;base64,QUJD"])
    talk.thought("One", "Two")
    talk.text("I will.", id="msg_1", phase="commentary")
    talk.call("shell", {"command": ["bash", "-lc", "ls"]})
    talk.output('{"output":"a","metadata":{"exit_code":0}}')
    talk.call("exec_command", {"cmd": "make"}, "call_2")
    talk.output("Chunk ID: a\nWall time: 1 seconds\nProcess running with session ID 7\nOutput:\none", "call_2")
    talk.call("write_stdin", {"session_id": 7, "chars": "y"}, "call_3")
    talk.output("Chunk ID: a\nWall time: 1 seconds\nProcess exited with code 1\nOutput:\ntwo", "call_3")
    talk.custom("apply_patch", PATCH, "call_4")
    changes = {"/a": {"type": "update", "unified_diff": "@@ -1 +1 @@\n-x\n+y\n", "move_path": None}}
    talk.event("patch_apply_end", call_id="call_4", success=True, changes=changes, stdout="Success.")
    talk.output("Exit code: 0\nWall time: 0 seconds\nOutput:\nSuccess.", "call_4")
    talk.call("update_plan", {"plan": [{"step": "A", "status": "in_progress"}]}, "call_5")
    talk.output("Plan updated", "call_5")
    talk.call("_fetch", {"x": 1}, "call_6", namespace="mcp__apps")
    talk.event("mcp_tool_call_end", call_id="call_6", invocation={"server": "apps", "tool": "fetch", "arguments": {}},
               result={"Ok": {"content": [{"type": "text", "text": "x"}]}})  # fmt: skip
    talk.event("web_search_end", call_id="ws_1", query="q", action={"type": "search", "query": "q"})
    talk.item("web_search_call", status="completed", action={"type": "search", "query": "q"})
    talk.call("spawn_agent", {"message": "Look"}, "call_7")
    talk.event("collab_agent_spawn_end", call_id="call_7", new_thread_id="t2", new_agent_nickname="Ada", prompt="Look")
    talk.event("collab_waiting_end", agent_statuses=[{"thread_id": "t2", "status": {"completed": "x"}}])
    talk.custom("exec", 'tools.exec_command({cmd: "ls"})', "call_8")
    talk.output([{"type": "input_text", "text": "Script running with cell ID 3\nWall time 1 s\nOutput:\n"}], "call_8")
    talk.event("exec_command_end", call_id="call_9", command=["make"], cwd=FOLDER, exit_code=2, duration={"secs": 1},
               parsed_cmd=[{"type": "unknown", "cmd": "make"}], aggregated_output="no", status="failed")  # fmt: skip
    talk.tokens(170, 120)
    talk.add("compacted", message="", replacement_history=[])
    talk.event("context_compacted")
    talk.prompt("Faster")
    talk.ended(error={"message": "No more.", "codex_error_info": {"other": 1}})
    talk.event("thread_name_updated", thread_name="Going")
    talk.started("not-a-uuid")
    talk.event("entered_review_mode", user_facing_hint="changes")
    talk.prompt("Review")
    talk.item("agent_message", author="a", recipient="b", content=[{"type": "input_text", "text": "Psst"}])
    talk.event("turn_aborted", reason="interrupted")
    talk.event("weather", sky="blue")
    return talk.lines


def _paginated() -> list[bytes]:
    talk = Transcript(history_mode="paginated", cli_version="0.166.0")
    talk.started()
    talk.completed(
        "UserMessage", id="u1", content=[{"type": "text", "text": "Go"}, {"type": "local_image", "path": "/p"}]
    )
    talk.completed("Reasoning", id="rs_1", summary_text=["Hm"], raw_content=[])
    talk.item("reasoning", id="rs_1", summary=[{"type": "summary_text", "text": "Hm"}])
    talk.completed("AgentMessage", id="msg_1", content=[{"type": "Text", "text": "I will."}], phase="commentary")
    talk.item("message", id="msg_1", role="assistant", content=[{"type": "output_text", "text": "I will."}])
    talk.call("exec_command", {"cmd": f"apply_patch <<'EOF'\n{PATCH}\nEOF"})
    talk.completed("FileChange", id="call_1", changes={"/a": {"type": "add", "content": "x"}}, status="completed")
    talk.output("Exit code: 0\nWall time: 0 seconds\nOutput:\n")
    talk.call("exec_command", {"cmd": "ls"}, "call_2")
    looked = [{"type": "list_files", "cmd": "ls", "path": None}]
    talk.completed("CommandExecution", id="call_2", command=["bash", "-lc", "ls"], cwd="file:///w", status="failed",
                   parsed_cmd=looked, aggregated_output="", exit_code=1)  # fmt: skip
    talk.completed("WebSearch", id="ws_1", query="q", action={"type": "search", "query": "q"})
    talk.item("web_search_call", id="ws_1", status="completed", action={"type": "search", "query": "q"})
    talk.completed("McpToolCall", id="call_3", server="s", tool="t", arguments={}, error={"message": "no"})
    talk.completed("DynamicToolCall", id="call_4", tool="t", arguments={}, content_items=[], success=True)
    talk.completed("ImageView", id="call_5", path="file:///w/a.png")
    talk.completed("ImageGeneration", id="ig_1", status="completed", result="QUJD", revised_prompt="A cat")
    talk.completed("Plan", id="p1", text="# Plan")
    talk.completed("SubAgentActivity", id="s1", agent_thread_id="t2", agent_path="/root/ada", kind="started")
    talk.completed("ContextCompaction", id="c1")
    talk.tokens(100, 100)
    talk.ended()
    numbered = [{"ordinal": ordinal, **msgspec.json.decode(line)} for ordinal, line in enumerate(talk.lines)]
    return [msgspec.json.encode(line) for line in numbered]


def _flat() -> list[bytes]:
    lines: list[dict[str, Any]] = [
        {"id": "x", "timestamp": "2025-08-19T08:25:08.061Z", "instructions": None, "git": None},
        {"record_type": "state"},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "<environment_context>"}]},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Go"}]},
        {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Hm"}]},
        {"type": "function_call", "name": "shell", "arguments": '{"command":["ls"]}', "call_id": "c"},
        {"type": "function_call_output", "call_id": "c", "output": '{"output":"a","metadata":{"exit_code":0}}'},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Done."}]},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Again"}]},
    ]
    return [msgspec.json.encode(line) for line in lines]


TRANSCRIPTS = {"legacy": _legacy(), "paginated": _paginated(), "flat": _flat()}
of_each_era = pytest.mark.parametrize("era", TRANSCRIPTS)


def _fed(pieces: Sequence[bytes]) -> list[Frame]:
    return fed(CodexTranslator(PurePath(NAME)), pieces)


def _data(era: str) -> bytes:
    return b"".join(line + b"\n" for line in TRANSCRIPTS[era])


@of_each_era
@given(data=st.data())
@settings(max_examples=40)
def test_any_split_into_appends_gives_the_same_frames(era: str, data: st.DataObject) -> None:
    whole = _data(era)
    cuts = data.draw(st.lists(st.integers(0, len(whole)), max_size=20))
    places = [0, *sorted(cuts), len(whole)]
    assert _fed([whole[begin:end] for begin, end in pairwise(places)]) == _fed([whole])


@of_each_era
def test_the_frames_of_the_first_lines_are_a_prefix_of_all_frames(era: str) -> None:
    lines = TRANSCRIPTS[era]
    whole = translated(lines, finish=False)
    for count in range(len(lines)):
        first = translated(lines[:count], finish=False)
        assert whole[: len(first)] == first


@of_each_era
@given(data=st.data())
@settings(max_examples=60)
def test_a_file_truncated_anywhere_gives_whole_frames_and_no_open_run(era: str, data: st.DataObject) -> None:
    whole = _data(era)
    begin = data.draw(st.sampled_from([0, 0, data.draw(st.integers(0, len(whole)))]))
    _check_frames(whole[begin : data.draw(st.integers(begin, len(whole)))].split(b"\n"))


@of_each_era
@given(data=st.data())
@settings(max_examples=60)
def test_repeated_and_reordered_lines_are_harmless(era: str, data: st.DataObject) -> None:
    lines = list(TRANSCRIPTS[era])
    for _ in range(data.draw(st.integers(0, 8))):
        place = data.draw(st.integers(0, len(lines) - 1))
        if data.draw(st.booleans()):
            lines.insert(data.draw(st.integers(0, len(lines))), lines[place])
        else:
            lines.insert(min(place + data.draw(st.integers(1, 3)), len(lines)), lines.pop(place))
    _check_frames(lines)


@of_each_era
@given(data=st.data())
@settings(max_examples=120)
def test_values_of_any_type_are_harmless(era: str, data: st.DataObject) -> None:
    _check_frames(with_other_values(data, TRANSCRIPTS[era]))


@given(st.lists(st.binary(max_size=30), max_size=5))
def test_bytes_of_any_kind_do_no_harm(noise: list[bytes]) -> None:
    lines = [piece for part in noise for piece in part.split(b"\n")]
    _check_frames([*lines, *TRANSCRIPTS["legacy"][:12], *lines])


def _check_frames(lines: Sequence[bytes]) -> None:
    check_frames(translated([line for line in lines if line]))


# -- real files, where there are any

CORPUS = Path(os.environ.get("DRAGOMAN_CORPUS") or "corpus")
# The smaller ones: each is read many times.
REAL = sorted(path for path in CORPUS.glob("**/*.jsonl") if "codex" in str(path.relative_to(CORPUS)))
SMALL = [path for path in REAL if path.stat().st_size < 60_000]


@pytest.mark.skipif(not SMALL, reason="no transcripts: DRAGOMAN_CORPUS names the folder that has them")
@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_real_files_that_are_truncated_repeated_or_reordered_are_harmless(data: st.DataObject) -> None:
    lines = data.draw(st.sampled_from(SMALL)).read_bytes().split(b"\n")
    for _ in range(data.draw(st.integers(0, 4))):
        place = data.draw(st.integers(0, len(lines) - 1))
        match data.draw(st.sampled_from(["cut", "double", "swap", "drop"])):
            case "cut":
                lines[place] = lines[place][: data.draw(st.integers(0, len(lines[place])))]
            case "double":
                lines.insert(place, lines[place])
            case "swap":
                lines.insert(min(place + 1, len(lines)), lines.pop(place))
            case _:
                del lines[place:]
                lines = lines or [b""]
    _check_frames(lines)
