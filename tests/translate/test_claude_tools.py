"""Claude's tools as its own ACP adapter shows them: titles, kinds, results and diffs."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.record.rows import ToolCall
from dragoman.wire.vocabulary import Content, Diff, ImageContent, TextContent, ToolCallLocation
from translate.claude_talk import BEGAN, FOLDER, SESSION, Transcript, folds, updates


def ran(tool: str, input: dict[str, Any], content: Any = "ok", output: Any = None, *, error: bool = False) -> ToolCall:
    transcript = Transcript()
    transcript.user("Go")
    transcript.call(tool, input)
    transcript.result(content, output, error=error)
    (call,) = transcript.fold().tool_calls
    return call


def texts(call: ToolCall) -> list[str]:
    shown = [item.content for item in call.content if isinstance(item, Content)]
    return [block.text for block in shown if isinstance(block, TextContent)]


@pytest.mark.parametrize(
    ("tool", "input", "title", "kind"),
    [
        ("Bash", {"command": "ls -la", "description": "List"}, "ls -la", "execute"),
        ("Bash", {}, "Terminal", "execute"),
        ("PowerShell", {"command": "dir"}, "dir", "execute"),
        ("Read", {"file_path": f"{FOLDER}/a/b.py"}, "Read a/b.py", "read"),
        ("Read", {"file_path": "/etc/hosts"}, "Read /etc/hosts", "read"),
        ("Read", {"file_path": f"{FOLDER}/a", "offset": 5, "limit": 10}, "Read a (5 - 14)", "read"),
        ("Read", {"file_path": f"{FOLDER}/a", "limit": 10}, "Read a (1 - 10)", "read"),
        ("Read", {"file_path": f"{FOLDER}/a", "offset": 5}, "Read a (from line 5)", "read"),
        ("Write", {"file_path": f"{FOLDER}/a", "content": "x"}, "Write a", "edit"),
        ("Write", {"path": f"{FOLDER}/a", "file_text": "x"}, "Write a", "edit"),
        ("Edit", {"file_path": f"{FOLDER}/a", "old_string": "x", "new_string": "y"}, "Edit a", "edit"),
        ("MultiEdit", {"file_path": f"{FOLDER}/a", "edits": []}, "Edit a", "edit"),
        ("NotebookEdit", {"notebook_path": f"{FOLDER}/a"}, "NotebookEdit", "other"),
        ("Glob", {"pattern": "*.py", "path": "src"}, "Find `src` `*.py`", "search"),
        ("Grep", {"pattern": "x", "-i": True, "-n": True, "-A": 2}, 'grep -i -n -A 2 "x"', "search"),
        ("Grep", {"pattern": "x", "output_mode": "count", "file_path": "a"}, 'grep -c "x" a', "search"),
        (
            "Grep",
            {"pattern": "x", "-l": "true", "head_limit": 3, "glob": "*.py", "type": "py", "multiline": True,
             "path": "."},
            'grep -l | head -3 --include="*.py" --type=py -P "x" .',
            "search",
        ),
        ("WebFetch", {"url": "http://a", "prompt": "?"}, "Fetch http://a", "fetch"),
        ("WebSearch", {"query": "q"}, 'Search "q"', "fetch"),
        ("Task", {"description": "Look", "prompt": "?"}, "Look", "think"),
        ("Agent", {"description": "Look", "effort": "high"}, "Look (high effort)", "think"),
        ("ExitPlanMode", {"plan": "1. do"}, "Exited Plan Mode", "switch_mode"),
        ("EnterPlanMode", {}, "EnterPlanMode", "switch_mode"),
        ("AskUserQuestion", {"questions": [{"question": "Why?"}]}, "Why?", "other"),
        ("AskUserQuestion", {"questions": [{"question": "A?"}, {"question": "B?"}]}, "Asking for your input", "other"),
        ("Skill", {"skill": "pdf"}, "Load skill: pdf", "other"),
        ("ReportFindings", {"findings": [{"file": "a", "line": 1, "summary": "s"}]}, "Report 1 finding", "think"),
        ("mcp__note__echo", {"text": "x"}, "mcp__note__echo", "other"),
        ("LS", {"path": "/"}, "LS", "other"),
    ],
)  # fmt: skip
def test_a_tool_is_named_as_the_adapter_names_it(tool: str, input: dict[str, Any], title: str, kind: str) -> None:
    call = ran(tool, input)
    assert (call.title, call.kind, call.name, call.status) == (title, kind, tool, "completed")
    assert call.raw_input == input


def test_a_command_shows_its_purpose_and_then_its_output() -> None:
    transcript = Transcript()
    transcript.user("Go")
    transcript.call("Bash", {"command": "ls", "description": "List"})
    (before,) = folds(transcript.frames(finish=False))[SESSION].tool_calls
    assert (texts(before), before.status) == (["List"], "pending")
    transcript.result("a\nwarn\nhint to the model", {"stdout": "a", "stderr": "warn", "interrupted": False})
    (after,) = transcript.fold().tool_calls
    assert texts(after) == ["```console\na\nwarn\n```"]
    assert after.raw_output == "a\nwarn\nhint to the model"


def test_a_failed_command_has_its_exit_code() -> None:
    call = ran("Bash", {"command": "false"}, "Exit code 3\nno", "Error: Exit code 3\nno", error=True)
    assert (call.status, texts(call)) == ("failed", ["```\nExit code 3\nno\n```"])
    transcript = Transcript()
    transcript.user("Go")
    transcript.call("Bash", {"command": "false"})
    transcript.result("Exit code 3\nno", error=True)
    (update,) = updates(transcript.frames(), "tool_call_update")
    assert update["_meta"]["native"]["exitCode"] == 3


def test_an_aborted_command_and_a_truncated_output_are_marked() -> None:
    output = {
        "stdout": "a", "stderr": "", "interrupted": True, "persistedOutputPath": "/t/x", "persistedOutputSize": 9,
    }  # fmt: skip
    (text,) = texts(ran("Bash", {"command": "x"}, "a", output))
    assert "[Command was aborted before completion]" in text
    assert "[Output truncated (9 bytes total): full output saved to /t/x]" in text


def test_a_file_that_was_read_is_numbered_and_fenced_without_hints_to_the_model() -> None:
    output = {"type": "text", "file": {"content": "a\n```\nb\n", "startLine": 3}}
    call = ran("Read", {"file_path": "/a", "offset": 3}, "3\ta<system-reminder>x</system-reminder>", output)
    assert texts(call) == ["```\n3\ta\n4\t```\n5\tb\n```"]
    fenced = ran("Read", {"file_path": "/a"}, "```` in it\n````")
    assert texts(fenced) == ["`````\n```` in it\n````\n`````"]
    assert call.locations == (ToolCallLocation(path="/a", line=3),)


def test_an_image_that_was_read_is_an_image() -> None:
    source = {"type": "base64", "media_type": "image/png", "data": "aGk="}
    call = ran("Read", {"file_path": "/a.png"}, [{"type": "image", "source": source}], {"type": "image"})
    assert call.content == (Content(content=ImageContent(data="aGk=", mime_type="image/png")),)


def test_an_edit_is_a_diff_for_each_hunk_at_its_line() -> None:
    first = {"oldStart": 1, "newStart": 1, "lines": [" a", "-x", "+y", "\\ No newline at end of file"]}
    second = {"oldStart": 9, "newStart": 10, "lines": ["+new"]}
    output = {"filePath": "/a", "structuredPatch": [first, second], "originalFile": "a\nx"}
    call = ran("Edit", {"file_path": "/a", "old_string": "x", "new_string": "y"}, "ok", output)
    assert call.content == (
        Diff(path="/a", old_text="a\nx", new_text="a\ny"),
        Diff(path="/a", old_text=None, new_text="new"),
    )
    assert call.locations == (ToolCallLocation(path="/a", line=1), ToolCallLocation(path="/a", line=10))


def test_an_edit_without_its_patch_shows_the_requested_change() -> None:
    given = {
        "file_path": "/a",
        "edits": [{"old_string": "a", "new_string": "b"}, {"old_string": "", "new_string": "c"}],
    }
    assert ran("MultiEdit", given).content == (
        Diff(path="/a", old_text="a", new_text="b"),
        Diff(path="/a", old_text=None, new_text="c"),
    )


def test_an_edit_that_failed_shows_why_and_no_diff() -> None:
    given = {"file_path": "/a", "old_string": "x", "new_string": "y"}
    call = ran("Edit", given, "<tool_use_error>not found</tool_use_error>", "Error: not found", error=True)
    assert call.status == "failed"
    assert texts(call) == ["```\n<tool_use_error>not found</tool_use_error>\n```"]
    assert not [item for item in call.content if isinstance(item, Diff)]


def test_a_new_file_has_no_old_text_and_a_replaced_one_has() -> None:
    given = {"file_path": "/a", "content": "new"}
    created: dict[str, Any] = {
        "type": "create",
        "filePath": "/a",
        "content": "new",
        "structuredPatch": [],
        "originalFile": None,
    }
    assert ran("Write", given, "ok", created).content == (Diff(path="/a", old_text=None, new_text="new"),)
    replaced: dict[str, Any] = {
        "type": "update",
        "filePath": "/a",
        "content": "new",
        "structuredPatch": [],
        "originalFile": "old",
    }
    assert ran("Write", given, "ok", replaced).content == (Diff(path="/a", old_text="old", new_text="new"),)
    too_long = {**replaced, "originalFile": None}
    assert texts(ran("Write", given, "ok", too_long)) == ["Updated `/a` (previous content too large to diff)"]


def test_the_report_of_a_sub_agent_is_shown_without_hints_to_the_model() -> None:
    result = "Report.\nagentId: a1 (use SendMessage to continue)\n<usage>tokens: 5</usage>"
    report = [{"type": "text", "text": "Report."}]
    output = {"status": "completed", "agentId": "a1", "content": report}
    assert texts(ran("Agent", {"prompt": "?"}, [{"type": "text", "text": result}], output)) == ["Report."]
    assert texts(ran("Agent", {"prompt": "?"}, [{"type": "text", "text": result}])) == ["Report."]


def test_the_result_of_a_web_search_is_a_list() -> None:
    output = {"query": "q", "results": [{"content": [{"title": "T", "url": "http://t"}]}, "And that is it."]}
    assert texts(ran("WebSearch", {"query": "q"}, "dump", output)) == ["T (http://t)\nAnd that is it."]


def test_the_list_of_todos_is_the_plan_and_no_tool_call() -> None:
    transcript = Transcript()
    transcript.user("Go")
    todos = [
        {"content": "A", "status": "completed"},
        {"content": "B", "status": "in_progress", "activeForm": "Doing B"},
    ]
    transcript.call("TodoWrite", {"todos": todos})
    transcript.result("ok", {"oldTodos": [], "newTodos": todos})
    fold = transcript.fold()
    assert not len(fold.tool_calls)
    assert [(entry.content, entry.status, entry.priority) for entry in fold.plans[None].entries] == [
        ("A", "completed", "medium"),
        ("Doing B", "in_progress", "medium"),
    ]


def test_tasks_are_one_plan_that_changes_piece_by_piece() -> None:
    transcript = Transcript()
    transcript.user("Go")
    steps: list[tuple[str, dict[str, Any], Any, str]] = [
        ("TaskCreate", {"subject": "A", "activeForm": "Doing A"}, {"task": {"id": "1", "subject": "A"}}, "ok"),
        ("TaskCreate", {"subject": "B"}, None, "Task #2 created successfully: B"),
        ("TaskCreate", {"subject": "C"}, {"task": {"id": "3", "subject": "C"}}, "ok"),
        ("TaskUpdate", {"taskId": "1", "status": "in_progress"}, {"success": True, "taskId": "1"}, "ok"),
        ("TaskUpdate", {"taskId": "3", "status": "deleted"}, {"success": True, "taskId": "3"}, "ok"),
    ]
    for number, (tool, given, output, result) in enumerate(steps):
        transcript.call(tool, given, f"toolu_{number}")
        transcript.result(result, output, f"toolu_{number}")
    entries = transcript.fold().plans[None].entries
    assert [(entry.content, entry.status) for entry in entries] == [("Doing A", "in_progress"), ("B", "pending")]


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("TaskUpdate", {"taskId": "7", "status": "completed", "owner": "bob"}),
        ("TaskUpdate", {"taskId": "7", "status": "deleted"}),
        ("TaskGet", {"taskId": "7"}),
    ],
)
def test_a_call_on_the_task_of_another_agent_is_a_call(tool: str, arguments: dict[str, Any]) -> None:
    call = ran(tool, arguments, "ok")
    assert (call.name, call.status) == (tool, "completed")


def test_a_failed_change_of_the_plan_is_a_failed_call() -> None:
    call = ran("TodoWrite", {"todos": [{"content": "A", "status": "pending"}]}, "No such tool", error=True)
    assert (call.status, call.title) == ("failed", "Update TODOs: A")


def test_a_change_of_the_plan_without_a_result_is_a_call_at_the_end() -> None:
    transcript = Transcript()
    transcript.user("Go")
    transcript.call("TodoWrite", {"todos": [{"content": "A", "status": "pending"}]})
    (result,) = [frame for frame in transcript.frames() if frame.kind == "tool_call"]
    assert result.at == BEGAN + 2


@pytest.mark.parametrize("length", [10, 5000])
def test_the_description_of_a_sub_agent_is_reported_whole(length: int) -> None:
    transcript = Transcript()
    transcript.user("Go")
    transcript.call("Task", {"prompt": "Look", "description": "x" * length})
    transcript.result("Begun", {"status": "async_launched", "agentId": "a1"})
    assert [update["title"] for update in updates(transcript.frames(), "subagent_update")] == ["x" * length]


def test_progress_is_reported_once() -> None:
    transcript = Transcript()
    transcript.user("Go")
    transcript.call("Bash", {"command": "make"})
    for _ in range(3):
        transcript.add("progress", data={"type": "bash_progress", "output": "…"}, parentToolUseID="toolu_1")
    assert [update["status"] for update in updates(transcript.frames(), "tool_call_update")] == ["in_progress"]


def test_an_id_that_comes_again_is_another_call() -> None:
    transcript = Transcript()
    transcript.user("Go")
    for command in ("one", "two"):
        transcript.call("Bash", {"command": command}, "REDACTED")
        transcript.result(command, call_id="REDACTED")
    assert [(call.title, call.raw_output) for call in transcript.fold().tool_calls] == [("one", "one"), ("two", "two")]
