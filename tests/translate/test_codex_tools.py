"""Codex's tool calls: commands, patches, plans, scripts, and what each gave, in all forms that are known."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from dragoman.record import rows
from dragoman.translate.codex import commands, tools
from dragoman.translate.codex.commands import CallOutput, parse_output
from dragoman.translate.codex.records import absolute
from dragoman.wire.vocabulary import Content, ContentBlock, Diff, ImageContent, ResourceLink, TextContent
from translate.claude_talk import updates
from translate.codex_talk import FOLDER, Transcript

PATCH = """*** Begin Patch
*** Update File: a.py
@@ def one():
 keep
-old
+new
@@
-last
+first
*** Add File: b/new.txt
+hello
+
+there
*** Delete File: gone.txt
*** End Patch"""


def _words(call: rows.ToolCall) -> str:
    return "".join(
        item.content.text
        for item in call.content
        if isinstance(item, Content) and isinstance(item.content, TextContent)
    )


def _blocks(call: rows.ToolCall) -> list[ContentBlock]:
    return [item.content for item in call.content if isinstance(item, Content)]


def _diffs(call: rows.ToolCall) -> list[tuple[str, str | None, str]]:
    return [(item.path, item.old_text, item.new_text) for item in call.content if isinstance(item, Diff)]


def _transcript_of(*calls: tuple[str, dict[str, Any], Any]) -> Transcript:
    """A turn of calls with their outputs."""
    transcript = Transcript()
    transcript.started()
    transcript.prompt("Go")
    for number, (tool, arguments, output) in enumerate(calls, 1):
        transcript.call(tool, arguments, f"call_{number}")
        transcript.output(output, f"call_{number}")
    transcript.ended()
    return transcript


# -- outputs


def _refused(text: str) -> CallOutput:
    return CallOutput(text, failed=True, refused=True)


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ('{"output":"a\\n","metadata":{"exit_code":2,"duration_seconds":0.1}}', CallOutput("a\n", 2, failed=True)),
        ("Exit code: 0\nWall time: 0.1 seconds\nOutput:\na\n", CallOutput("a\n", 0)),
        ("Exit code: 1\nWall time: 1 seconds\nTotal output lines: 9\nOutput:\n\na", CallOutput("\na", 1, failed=True)),
        (
            "Chunk ID: abc123\nWall time: 0.0 seconds\nProcess exited with code 3\nOriginal token count: 4\nOutput:\na",
            CallOutput("a", 3, failed=True),
        ),
        (
            "Command: /bin/zsh -lc 'cat <<X\nChunk\nX'\nChunk ID: a1\nWall time: 1 seconds\n"
            "Process running with session ID 12\nOutput:\n",
            CallOutput("", running="process 12"),
        ),
        (
            "Wall time: 0.0 seconds\nOutput:\nExit code: 0\nWall time: 0 seconds\nOutput:\nSuccess.\n",
            CallOutput("Success.\n", 0),
        ),
        (
            "Wall time: 0.500 seconds\nProcess running with session ID 42\n"
            "Warning: truncated output (original token count: 1000)\nOutput:\na",
            CallOutput("a", running="process 42"),
        ),
        ("Script completed\nWall time 0.3 seconds\nOutput:\na", CallOutput("a")),
        ("Script failed\nWall time 0.3 seconds\nOutput:\na", CallOutput("a", failed=True)),
        ("Script running with cell ID 27\nWall time 11.0 seconds\nOutput:\n", CallOutput("", running="script 27")),
        ("exec command rejected by user", _refused("exec command rejected by user")),
        ("aborted by user after 170.7s", _refused("aborted by user after 170.7s")),
        ("Wall time: 0.1 seconds\naborted by user", _refused("Wall time: 0.1 seconds\naborted by user")),
        ("apply_patch verification failed: no", _refused("apply_patch verification failed: no")),
        ("error: invalid hunk at line 3", _refused("error: invalid hunk at line 3")),
        ("unsupported call: dance", _refused("unsupported call: dance")),
        ("collab spawn failed: too many", _refused("collab spawn failed: too many")),
        ("Plan updated", CallOutput("Plan updated")),
        ("2 tests failed", CallOutput("2 tests failed")),
        ('{"output": 3}', CallOutput('{"output": 3}')),
        ("", CallOutput("")),
    ],
)
def test_an_output_is_read_in_each_of_its_forms(text: str, result: CallOutput) -> None:
    assert parse_output(text) == result


def test_an_output_of_pieces_is_their_texts_and_images() -> None:
    pieces = [
        {"type": "input_text", "text": "Script completed\nWall time 0.3 seconds\nOutput:\n"},
        {"type": "input_text", "text": "a"},
        {"type": "input_image", "image_url": "data:image/png;base64,QUJD"},
    ]
    call = _transcript_of(("dance", {}, pieces)).tool()
    assert _words(call) == "a"
    assert len(call.content) == 2


def test_an_output_may_be_wrapped_in_an_object() -> None:
    whole = {"content": [{"type": "input_text", "text": "no"}], "success": False}
    call = _transcript_of(("dance", {}, whole)).tool()
    assert (call.status, _words(call)) == ("failed", "no")


# -- commands


@pytest.mark.parametrize(
    ("line", "title", "kind"),
    [
        ("cat README.md", f"Read file '{FOLDER}/README.md'", "read"),
        ("sed -n '1,20p' src/a.py", f"Read file '{FOLDER}/src/a.py'", "read"),
        ("nl -ba a.py | sed -n '3,9p'", f"Read file '{FOLDER}/a.py'", "read"),
        ("head -n 5 /etc/hosts", "Read file '/etc/hosts'", "read"),
        ("ls -la", "List files", "read"),
        ("ls src/core", "List files in 'core'", "read"),
        ("rg --files -g '*.py'", "List files", "read"),
        ("find . -maxdepth 2 -type f | sort", "List files in '.'", "read"),
        ("rg -n 'a b' src/core docs", "Search for 'a b' in core", "search"),
        ('grep -rn "x|y"', "Search for 'x|y'", "search"),
        ("cat a b", "cat a b", "execute"),
        ("cat a > b", "cat a > b", "execute"),
        ("cat $(which x)", "cat $(which x)", "execute"),
        ("ls && rm -r x", "ls && rm -r x", "execute"),
        ("find . -delete", "find . -delete", "execute"),
        ("sed -i s/a/b/ x", "sed -i s/a/b/ x", "execute"),
        ("rg x | xargs rm", "rg x | xargs rm", "execute"),
        ("make", "make", "execute"),
        ("cat 'unended", "cat 'unended", "execute"),
    ],
)
def test_a_command_that_only_reads_is_named_by_what_it_reads(line: str, title: str, kind: str) -> None:
    call = _transcript_of(("exec_command", {"cmd": line}, "Exit code: 0\nWall time: 0 seconds\nOutput:\n")).tool()
    assert (call.title, call.kind, call.status) == (title, kind, "completed")
    assert call.raw_input == {"command": line, "cwd": FOLDER}


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("shell", {"command": ["bash", "-lc", "make all"]}),
        ("shell", {"command": ["/usr/bin/zsh", "-c", "make all"]}),
        ("shell", {"command": ["make", "all"]}),
        ("shell", {"command": ["powershell.exe", "-NoLogo", "-Command", "make all"]}),
        ("shell_command", {"command": "make all", "workdir": FOLDER}),
        ("exec_command", {"cmd": "make all"}),
    ],
)
def test_a_command_is_shown_without_its_shell(tool: str, arguments: dict[str, Any]) -> None:
    call = _transcript_of((tool, arguments, "done")).tool()
    assert (call.name, call.title, call.raw_input["command"]) == (tool, "make all", "make all")


def test_a_local_shell_call_is_a_command() -> None:
    transcript = Transcript()
    action = {"type": "exec", "command": ["bash", "-lc", "make"], "working_directory": "/srv"}
    transcript.item("local_shell_call", call_id="c", status="completed", action=action)
    transcript.output("Exit code: 0\nWall time: 0 seconds\nOutput:\nok", "c")
    call = transcript.tool()
    assert (call.title, call.raw_input["cwd"], _words(call)) == ("make", "/srv", "ok")


def test_a_failed_command_has_its_exit_code() -> None:
    call = _transcript_of(("exec_command", {"cmd": "make"}, "Exit code: 2\nWall time: 0 seconds\nOutput:\nno")).tool()
    assert (call.status, call.raw_output, _words(call)) == ("failed", {"exit_code": 2}, "no")


def _running(text: str = "") -> str:
    return f"Chunk ID: a\nWall time: 1.0 seconds\nProcess running with session ID 7\nOutput:\n{text}"


def _exited(code: int, text: str = "") -> str:
    return f"Chunk ID: a\nWall time: 1.0 seconds\nProcess exited with code {code}\nOutput:\n{text}"


def test_a_running_command_ends_when_a_later_call_reports_it() -> None:
    poll = {"session_id": 7, "chars": ""}
    transcript = _transcript_of(
        ("exec_command", {"cmd": "make"}, _running("one\n")),
        ("write_stdin", poll, _running("two\n")),
        ("write_stdin", {"session_id": 7, "chars": "y"}, _exited(1, "three\n")),
    )
    call = transcript.tool()
    assert (call.status, call.raw_output) == ("failed", {"exit_code": 1})
    assert _words(call) == "one\ntwo\n\ny\nthree\n"
    reported = updates(transcript.frames(), "tool_call_update")
    assert [update["status"] for update in reported] == ["in_progress", "in_progress", "failed"]
    assert [update["_meta"]["native"].get("callId") for update in reported] == [None, "call_2", "call_3"]


def test_a_long_output_is_not_repeated_with_each_piece() -> None:
    piece = "x" * 4095 + "\n"
    polls = [("write_stdin", {"session_id": 7}, _running(piece)) for _ in range(100)]
    transcript = _transcript_of(("exec_command", {"cmd": "make"}, _running()), *polls)
    frames = transcript.frames()
    assert sum(len(frame.line) for frame in frames) < 5 * 100 * len(piece)
    assert _words(transcript.tool()) == 100 * piece


def test_a_running_command_may_end_in_a_later_turn() -> None:
    transcript = _transcript_of(("exec_command", {"cmd": "make"}, _running()))
    transcript.started()
    transcript.prompt("And?")
    transcript.call("write_stdin", {"session_id": 7}, "call_9")
    transcript.output(_exited(0, "ok"), "call_9")
    transcript.ended()
    assert (transcript.tool().status, _words(transcript.tool())) == ("completed", "ok")


def test_polling_an_unknown_process_is_a_call_of_its_own() -> None:
    call = _transcript_of(("write_stdin", {"session_id": 9}, "write_stdin failed: Unknown process id 9")).tool()
    assert (call.name, call.title, call.status) == ("write_stdin", "Wait for process 9", "failed")


def test_a_poll_that_was_refused_does_not_end_the_command() -> None:
    transcript = _transcript_of(
        ("exec_command", {"cmd": "make"}, _running("one\n")),
        ("write_stdin", {"session_id": 7, "chars": "\x03"}, "write_stdin failed: stdin is closed for this session"),
        ("write_stdin", {"session_id": 7}, _exited(0, "two\n")),
    )
    command, refused = transcript.fold().tool_calls
    assert (command.status, _words(command)) == ("completed", "one\ntwo\n")
    assert (refused.title, refused.status) == ("Write to process 7", "failed")


def test_an_event_has_more_about_the_end_of_a_command_than_its_output() -> None:
    transcript = Transcript()
    transcript.call("exec_command", {"cmd": "cd x && cat a"})
    transcript.event(
        "exec_command_end", call_id="call_1", command=["/bin/zsh", "-lc", "cd x && cat a"], cwd=FOLDER,
        parsed_cmd=[{"type": "read", "cmd": "cat a", "name": "a", "path": "x/a"}], aggregated_output="all of it",
        exit_code=0, status="completed",
    )  # fmt: skip
    transcript.output(_exited(0, "a part"))
    call = transcript.tool()
    assert (call.title, call.kind, call.status) == (f"Read file '{FOLDER}/x/a'", "read", "completed")
    assert _words(call) == "all of it"


@pytest.mark.parametrize("event_first", [False, True])
def test_a_command_that_an_event_ended_is_not_reported_again_by_polls(event_first: bool) -> None:
    transcript = Transcript()
    transcript.call("exec_command", {"cmd": "make"})
    if not event_first:
        transcript.output(_running("one\n"))
    transcript.event("exec_command_end", call_id="call_1", command=["make"], cwd=FOLDER, aggregated_output="one\ntwo\n",
                     exit_code=1, status="failed")  # fmt: skip
    if event_first:
        transcript.output(_running("one\n"))
    transcript.call("write_stdin", {"session_id": 7}, "call_2")
    transcript.output(_exited(1, "two\n"), "call_2")
    assert (transcript.tool().status, _words(transcript.tool())) == ("failed", "one\ntwo\n")


def test_an_event_of_a_poll_adds_nothing_to_the_command() -> None:
    transcript = Transcript()
    transcript.call("exec_command", {"cmd": "make"})
    transcript.output(_running("one\n"))
    transcript.call("write_stdin", {"session_id": 7}, "call_2")
    transcript.event("exec_command_end", call_id="call_2", command=["make"], cwd=FOLDER, aggregated_output="two\n",
                     exit_code=0, status="completed")  # fmt: skip
    transcript.output(_exited(0, "two\n"), "call_2")
    assert (transcript.tool().title, _words(transcript.tool())) == ("make", "one\ntwo\n")


def test_an_item_with_file_urls_gives_the_same_call() -> None:
    transcript = Transcript()
    transcript.call("exec_command", {"cmd": "cat 'a b'"})
    transcript.completed("CommandExecution", id="call_1", command=["bash", "-lc", "cat 'a b'"],
                         cwd="file:///home/ada/pro%20j", parsed_cmd=[{"type": "read", "path": "a b"}],
                         status="completed", aggregated_output="x", exit_code=0)  # fmt: skip
    assert transcript.tool().title == "Read file '/home/ada/pro j/a b'"


def test_an_end_without_a_call_is_reported() -> None:
    transcript = Transcript()
    transcript.event("exec_command_end", call_id="x", command=["make"], cwd=FOLDER, exit_code=0, status="completed")
    assert (transcript.tool().title, transcript.tool().status) == ("make", "completed")


# -- patches


def _expected(folder: str = FOLDER) -> list[tuple[str, str | None, str]]:
    return [
        (f"{folder}/a.py", "keep\nold\n", "keep\nnew\n"),
        (f"{folder}/a.py", "last\n", "first\n"),
        (f"{folder}/b/new.txt", None, "hello\n\nthere\n"),
        (f"{folder}/gone.txt", None, ""),
    ]


def _by_custom(transcript: Transcript) -> None:
    transcript.custom("apply_patch", PATCH)


def _by_arguments(transcript: Transcript) -> None:
    transcript.call("apply_patch", {"input": PATCH})


def _by_words(transcript: Transcript) -> None:
    transcript.call("shell", {"command": ["apply_patch", PATCH]})


def _by_shell(transcript: Transcript) -> None:
    transcript.call("shell", {"command": ["bash", "-lc", f"apply_patch <<'EOF'\n{PATCH}\nEOF\n"]})


def _by_exec(transcript: Transcript) -> None:
    transcript.call("exec_command", {"cmd": f'apply_patch << "PATCH"\n{PATCH}\nPATCH'})


def _by_open_end(transcript: Transcript) -> None:
    transcript.call("shell", {"command": ["bash", "-lc", f"apply_patch << 'PATCH'\n{PATCH}\n"]})


@pytest.mark.parametrize("made", [_by_custom, _by_arguments, _by_words, _by_shell, _by_exec, _by_open_end])
def test_a_patch_is_diffs_in_whichever_way_it_is_applied(made: Any) -> None:
    transcript = Transcript()
    made(transcript)
    transcript.output('{"output":"Success.","metadata":{"exit_code":0}}')
    call = transcript.tool()
    assert (call.title, call.kind, call.status) == ("Editing files", "edit", "completed")
    assert _diffs(call) == _expected()
    assert [place.path for place in call.locations] == [
        f"{FOLDER}/{name}" for name in ("a.py", "b/new.txt", "gone.txt")
    ]


def test_a_patch_in_another_folder_has_its_paths_there() -> None:
    transcript = Transcript()
    transcript.call("exec_command", {"cmd": f"cd sub && apply_patch <<'EOF'\n{PATCH}\nEOF"})
    assert _diffs(transcript.tool()) == _expected(f"{FOLDER}/sub")


def test_a_command_that_does_more_than_patch_is_a_command() -> None:
    transcript = Transcript()
    transcript.call("exec_command", {"cmd": f"apply_patch <<'EOF'\n{PATCH}\nEOF\nmake"})
    assert transcript.tool().kind == "execute"


def test_a_failed_patch_shows_its_changes_and_the_reason() -> None:
    transcript = Transcript()
    transcript.custom("apply_patch", PATCH)
    transcript.output("apply_patch verification failed: no such lines")
    call = transcript.tool()
    assert (call.status, _diffs(call)) == ("failed", _expected())
    assert _words(call) == "apply_patch verification failed: no such lines"


def test_the_actual_changes_replace_the_requested_ones() -> None:
    transcript = Transcript()
    transcript.custom("apply_patch", PATCH)
    changes = {
        f"{FOLDER}/z.txt": {"type": "delete", "content": "was\n"},
        f"{FOLDER}/a.py": {
            "type": "update",
            "unified_diff": "@@ -3,2 +3,2 @@\n keep\n-old\n+new\n@@ -90 +90 @@\n-last\n"
            "\\ No newline at end of file\n+first\n\\ No newline at end of file\n",
            "move_path": f"{FOLDER}/c.py",
        },
        f"{FOLDER}/new.txt": {"type": "add", "content": "hello\n"},
    }
    transcript.event("patch_apply_end", call_id="call_1", success=True, changes=changes, stdout="Success.")
    transcript.output("Success.")
    call = transcript.tool()
    assert _diffs(call) == [
        (f"{FOLDER}/c.py", "keep\nold\n", "keep\nnew\n"),
        (f"{FOLDER}/c.py", "last", "first"),
        (f"{FOLDER}/new.txt", None, "hello\n"),
        (f"{FOLDER}/z.txt", "was\n", ""),
    ]
    assert (call.locations[0].path, call.locations[0].line) == (f"{FOLDER}/c.py", 3)
    assert call.status == "completed"


def test_a_patch_within_a_script_is_a_call_of_its_own() -> None:
    transcript = Transcript()
    transcript.custom("exec", "await tools.apply_patch(patch)", "call_1")
    changes = {f"{FOLDER}/a": {"type": "add", "content": "x\n"}}
    transcript.event("patch_apply_end", call_id="exec-1", success=True, changes=changes)
    transcript.output([{"type": "input_text", "text": "Script completed\nWall time 1 seconds\nOutput:\n"}])
    script, patch = transcript.fold().tool_calls
    assert (script.title, script.status) == ("Run script", "completed")
    assert (patch.title, patch.status, _diffs(patch)) == ("Editing files", "completed", [(f"{FOLDER}/a", None, "x\n")])


def test_a_file_change_that_was_declined_failed() -> None:
    transcript = Transcript()
    transcript.custom("apply_patch", PATCH)
    transcript.completed("FileChange", id="call_1", changes={}, status="declined", stderr="no")
    call = transcript.tool()
    assert (call.status, _diffs(call), _words(call)) == ("failed", _expected(), "no")


@pytest.mark.parametrize("patch", ["", "*** Begin Patch", "nonsense", "*** Update File: a\n@@\n*** End Patch", "*** "])
def test_a_patch_that_is_none_does_no_harm(patch: str) -> None:
    assert all(change.path in ("a", "") for change in tools.parse_patch(patch))


def test_a_line_of_a_patch_may_look_like_its_grammar() -> None:
    (change,) = tools.parse_patch("*** Begin Patch\n*** Add File: a\n+*** Begin Patch\n+@@\x0c\u2028\n*** End Patch\n")
    assert change.new == "*** Begin Patch\n@@\x0c\u2028\n"


# -- other tools


def test_a_plan_is_the_plan_and_no_call() -> None:
    plan = [{"step": "One", "status": "completed"}, {"step": "Two", "status": "inProgress"}, {"step": "Three"}]
    transcript = _transcript_of(("update_plan", {"plan": plan}, "Plan updated"))
    fold = transcript.fold()
    assert [(entry.content, entry.status) for entry in fold.plans[None].entries] == [
        ("One", "completed"),
        ("Two", "in_progress"),
        ("Three", "pending"),
    ]
    assert not list(fold.tool_calls)


def test_a_refused_plan_is_a_failed_call() -> None:
    transcript = _transcript_of(("update_plan", {"plan": [{"step": "One"}]}, "unsupported call: update_plan"))
    assert (transcript.tool().name, transcript.tool().status) == ("update_plan", "failed")
    assert not transcript.fold().plans


def test_a_script_is_called_by_its_first_command_and_may_go_on() -> None:
    transcript = Transcript()
    transcript.custom("exec", 'const r = await tools.exec_command({\n  cmd: "make \\"all\\"",\n});')
    transcript.output("Script running with cell ID 27\nWall time 11.0 seconds\nOutput:\n")
    transcript.call("wait", {"cell_id": "27"}, "call_2")
    transcript.output([{"type": "input_text", "text": "Script completed\nWall time 1 seconds\nOutput:\nok"}], "call_2")
    call = transcript.tool()
    assert (call.title, call.kind, call.status, _words(call)) == ('make "all"', "execute", "completed", "ok")


def test_an_mcp_tool_is_named_as_its_server_knows_it() -> None:
    transcript = Transcript()
    transcript.call("_fetch_pr", {"pr": 1}, namespace="mcp__apps__github")
    invocation = {"server": "apps", "tool": "github_fetch_pr", "arguments": {"pr": 1}}
    transcript.event("mcp_tool_call_end", call_id="call_1", invocation=invocation,
                     result={"Ok": {"content": [{"type": "text", "text": "PR"}], "isError": True}})  # fmt: skip
    transcript.output("Wall time: 1 seconds\nOutput:\nPR")
    call = transcript.tool()
    assert (call.title, call.kind, call.status) == ("mcp.apps.github_fetch_pr", "execute", "failed")
    assert (call.raw_input, _words(call)) == (invocation, "PR")


def test_an_mcp_tool_that_could_not_be_called_failed() -> None:
    transcript = Transcript()
    transcript.call("memory__add", {})
    transcript.completed("McpToolCall", id="call_1", server="memory", tool="add", arguments={}, status="failed",
                         error={"message": "gone"})  # fmt: skip
    call = transcript.tool()
    assert (call.title, call.status, _words(call)) == ("mcp.memory.add", "failed", "gone")


def test_the_result_of_an_mcp_tool_is_shown() -> None:
    transcript = Transcript()
    content = [
        {"type": "image", "data": "QUJD", "mimeType": "image/png"},
        {"type": "resource_link", "name": "a", "uri": "x://a"},
    ]
    transcript.completed("McpToolCall", id="call_1", server="s", tool="t", arguments={}, result={"content": content})
    assert _blocks(transcript.tool()) == [
        ImageContent(data="QUJD", mime_type="image/png"),
        ResourceLink(name="a", uri="x://a"),
    ]


def test_the_result_of_a_dynamic_tool_is_shown() -> None:
    transcript = Transcript()
    content = [{"type": "inputImage", "imageUrl": "data:image/png;base64,QUJD"}, {"type": "inputText", "text": "See?"}]
    transcript.completed("DynamicToolCall", id="call_1", tool="look", arguments={}, content_items=content, success=True)
    assert _blocks(transcript.tool()) == [
        ImageContent(data="QUJD", mime_type="image/png"),
        TextContent(text="See?"),
    ]


def test_an_output_without_a_call_is_reported_once() -> None:
    transcript = Transcript()
    for words in ("One.", "Two."):
        reported = {"name": "notifications", "namespace": "slack", "output": words}
        transcript.completed("FunctionCallOutput", id=f"fco_{words}", **reported)
        transcript.item("function_call_output", id=f"fco_{words}", **reported)
    calls = [(call.title, call.status, _words(call)) for call in transcript.fold().tool_calls]
    assert calls == [("slack.notifications", "completed", "One."), ("slack.notifications", "completed", "Two.")]


@pytest.mark.parametrize("told_by", ["item", "event"])
def test_an_output_without_an_id_is_not_that_of_a_call(told_by: str) -> None:
    transcript = Transcript()
    transcript.call("dance", {})
    if told_by == "item":
        transcript.item("function_call_output", output="News.")
    else:
        transcript.completed("FunctionCallOutput", id="fco_1", output="News.")
    transcript.output("Danced.")
    assert [_words(call) for call in transcript.fold().tool_calls] == ["Danced.", "News."]


@pytest.mark.parametrize(
    ("action", "title"),
    [
        ({"type": "search", "query": "acp"}, "Web search: acp"),
        ({"type": "search", "queries": ["a", "b"]}, "Web search: a, b"),
        ({"type": "open_page", "url": "https://x.test"}, "Open page: https://x.test"),
        ({"type": "find_in_page", "url": "https://x.test", "pattern": "y"}, "Find in page for 'y' in https://x.test"),
    ],
)
@pytest.mark.parametrize("order", ["event first", "item first", "same id", "event alone", "item alone"])
def test_a_web_search_is_reported_once(action: dict[str, Any], title: str, order: str) -> None:
    transcript = Transcript()
    item = {"status": "completed", "action": action, **({"id": "ws_1"} if order == "same id" else {})}
    if order == "item first" or order == "item alone":
        transcript.item("web_search_call", **item)
    if order != "item alone":
        transcript.event("web_search_end", call_id="ws_1", query="", action=action)
    if order in ("event first", "same id"):
        transcript.item("web_search_call", **item)
    call = transcript.tool()
    assert (call.title, call.kind, call.status) == (title, "search", "completed")


def test_a_search_without_details_is_reported_once() -> None:
    transcript = Transcript()
    transcript.event("web_search_end", call_id="ws_1", query="", action={"type": "other"})
    transcript.item("web_search_call", status="completed")
    assert transcript.tool().title == "Web search"


@pytest.mark.parametrize("action", [None, {"type": "open_page"}])
def test_equal_searches_are_reported_each(action: Any) -> None:
    transcript = Transcript()
    for _ in range(3):
        transcript.item("web_search_call", status="completed", **({"action": action} if action else {}))
    assert len(list(transcript.fold().tool_calls)) == 3


def test_a_tool_that_searches_is_called_by_its_search_and_ends_with_its_output() -> None:
    transcript = Transcript()
    transcript.call("run", {"q": "acp"}, namespace="web")
    transcript.completed("Extension", id="call_1", kind="web.search", query="acp", action={"type": "openPage"})
    transcript.output("Found.")
    call = transcript.tool()
    assert (call.title, call.kind, call.status, _words(call)) == ("Open page", "search", "completed", "Found.")


def test_an_image_that_an_extension_made_is_shown() -> None:
    transcript = Transcript()
    transcript.completed("Extension", id="ig_1", kind="image_gen.generation", status="completed", result="QUJD")
    call = transcript.tool()
    assert (call.title, call.status, len(call.content)) == ("Image generation", "completed", 1)


def test_an_image_that_is_looked_at_is_read() -> None:
    transcript = Transcript()
    transcript.call("view_image", {"path": "pic.png"})
    transcript.completed("ImageView", id="call_1", path=f"file://{FOLDER}/pic.png")
    transcript.output([{"type": "input_image", "image_url": "data:image/png;base64,QUJD"}])
    call = transcript.tool()
    assert (call.title, call.kind, call.status) == (f"View Image {FOLDER}/pic.png", "read", "completed")
    assert [place.path for place in call.locations] == [f"{FOLDER}/pic.png"]


@pytest.mark.parametrize(("message", "shown"), [("Look!", "Look!"), ("gAAAAABo", "")])
def test_the_task_of_an_agent_is_shown_unless_it_is_encrypted(message: str, shown: str) -> None:
    transcript = Transcript()
    transcript.call("spawn_agent", {"message": message}, namespace="collaboration")
    assert _words(transcript.tool()) == shown


@pytest.mark.parametrize(("tool", "words"), [("request_user_input", "question"), ("request_user_input_async", "title")])
def test_a_question_has_its_text_as_the_title(tool: str, words: str) -> None:
    transcript = Transcript()
    transcript.call(tool, {"questions": [{words: "Which colour?", "options": ["Blue"]}]})
    assert transcript.tool().title == "Which colour?"


def test_an_unknown_tool_is_named_after_itself() -> None:
    call = _transcript_of(("dance", {"steps": 3}, "aborted")).tool()
    assert (call.title, call.kind, call.raw_input, call.status) == ("dance", "other", {"steps": 3}, "failed")


def test_arguments_that_are_no_json_are_shown_as_text() -> None:
    transcript = Transcript()
    transcript.item("function_call", name="dance", arguments="{broken", call_id="call_1")
    assert transcript.tool().raw_input == "{broken"


def test_a_call_id_that_comes_again_is_another_call() -> None:
    transcript = _transcript_of(("dance", {}, "one"))
    transcript.call("dance", {"again": True}, "call_1")
    transcript.output("two", "call_1")
    assert [_words(call) for call in transcript.fold().tool_calls] == ["one", "two"]


def test_an_output_before_its_call_waits_for_it() -> None:
    transcript = Transcript()
    transcript.output("early")
    transcript.call("dance", {})
    assert (transcript.tool().status, _words(transcript.tool())) == ("completed", "early")


# -- paths


@pytest.mark.parametrize(
    ("path", "folder", "full"),
    [
        ("a/../b", "/w", "/w/b"),
        ("/a", "/w", "/a"),
        ("a", "", "a"),
        ("file:///w/a%20b", "/x", "/w/a b"),
        ("file:///C:/w/a", "/x", "C:/w/a"),
        ("a/b", "c:\\w", "c:\\w\\a\\b"),
        ("D:\\a", "c:\\w", "D:\\a"),
    ],
)
def test_a_path_is_made_absolute(path: str, folder: str, full: str) -> None:
    assert absolute(path, folder) == full


def test_the_actions_that_codex_found_in_a_command_are_used() -> None:
    reported = commands.decode_actions(msgspec.Raw(b'[{"type":"read","path":"a"},{"type":"read","path":"b"}]'))
    assert commands.display_command("cat a && cat b", "/w", reported).title == "cat a && cat b"
    assert commands.decode_actions(msgspec.Raw(b'[{"type":"dance"}]')) == []
