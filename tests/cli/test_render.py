from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from dragoman.cli.render import Renderer
from dragoman.cli.screen import Ending, Line, MessageEnd, Piece, Text, Thought, without_colours
from dragoman.cli.text import duration, size, usage_parts
from dragoman.record import events, rows
from dragoman.record.notes import Difference
from dragoman.wire.vocabulary import Content, Cost, Diff, TextContent, ToolCallContent, ToolCallLocation

HEAD = (0.0, "s", "r", None)
CWD = Path("/project")


def renderer(*, width: int = 80, thoughts: bool = True, verbose: bool = False, diffs: bool = False) -> Renderer:
    return Renderer(cwd=CWD, width=width, thoughts=thoughts, verbose=verbose, diffs=diffs)


def shown(*run_events: events.Event, using: Renderer | None = None) -> list[Piece]:
    by = using or renderer()
    return [piece for event in run_events for piece in by.show(event)]


def lines(*run_events: events.Event, using: Renderer | None = None) -> list[str]:
    """Return the lines beside the text, as in a log."""
    found = []
    for piece in shown(*run_events, using=using):
        assert isinstance(piece, Line | Ending)
        found.append(without_colours(piece.spans))
    return found


def tool(
    title: str = "",
    kind: str = "other",
    *,
    content: tuple[ToolCallContent, ...] = (),
    path: str | None = None,
    line: int | None = None,
    output: Any = None,
    parent: str | None = None,
    status: str = "pending",
) -> tuple[Any, ...]:
    locations = (ToolCallLocation(path=path, line=line),) if path else ()
    return (*HEAD, "t1", title, None, kind, status, content, locations, None, output, parent)


def call(*fields: Any, **named: Any) -> events.ToolCall:
    return events.ToolCall(*tool(*fields, **named))


def result(*fields: Any, status: str = "completed", **named: Any) -> events.ToolResult:
    return events.ToolResult(*tool(*fields, status=status, **named))


def plan(*entries: tuple[str, str]) -> events.PlanUpdated:
    return events.PlanUpdated(*HEAD, tuple(rows.PlanEntry(text, "medium", status) for text, status in entries))


def provider(kind: str, **update: Any) -> events.ProviderEvent:
    line = msgspec.json.encode({"method": "session/update", "params": {"update": update}})
    return events.ProviderEvent(0.0, "s", "r", line, kind)


def test_text_and_thoughts_keep_their_message_ids() -> None:
    assert shown(
        events.AssistantDelta(*HEAD, "Hi", "m1"),
        events.AssistantMessage(*HEAD, "Hi", "m1"),
        events.ReasoningDelta(*HEAD, "Hm", "m2"),
    ) == [Text("Hi", "m1"), MessageEnd("m1"), Thought("Hm", "m2")]


def test_thoughts_can_be_left_out() -> None:
    assert shown(events.ReasoningDelta(*HEAD, "Hm", "m2"), using=renderer(thoughts=False)) == []


@pytest.mark.parametrize(
    ("event", "line"),
    [
        (call("Edit README.md", "edit", path="/project/README.md"), "● Edit README.md"),
        (call("Edit the readme", "edit", path="/project/doc/README.md", line=3), "● Edit the readme doc/README.md:3"),
        (call("ls -la", "execute"), "● run ls -la"),
        (call("Run `ls`", "execute"), "● Run `ls`"),
        (call("Running: ls", "execute"), "● Running: ls"),
        (call("ls", "execute", path="/project"), "● run ls"),
        (call("Writing /project/a/b.py", "edit"), "● Writing a/b.py"),
        (call("main.py", "read", path="/project/main.py"), "● read main.py"),
        (call("", "search"), "● search"),
        (call("", "other"), "● other"),
        (call("", "edit", path="/etc/hosts"), "● edit /etc/hosts"),
        (call("a\n\x1b[31mb", "other"), "● a b"),
        (call("Look", "read", parent="t0"), "  ● read Look"),
        (
            result("Edit x", "edit", content=(Diff(path="x", old_text="a\nb\n", new_text="a\nc\nd\n"),)),
            "✓ Edit x  +2 −1",
        ),
        (result("Run x", "execute", output={"exitCode": 2}), "✗ Run x  exit 2"),
        (result("Run x", "execute", output={"exit_code": 0}), "✓ Run x  exit 0"),
        (result("Do x", output=["a"]), "✓ Do x"),
        (result("Do x", status="failed", output={"error": "no\nway"}), "✗ Do x  no way"),
        (result("Do x", status="failed", output={"error": "```\nno\n```"}), "✗ Do x  no"),
        (result("Do x", status="failed", content=(Content(content=TextContent(text="why")),)), "✗ Do x  why"),
        (call("Done at once", status="completed"), "✓ Done at once"),
    ],
)
def test_a_tool_line_names_the_action_and_its_object(event: events.Event, line: str) -> None:
    assert lines(event) == [line]


@pytest.mark.parametrize("width", [40, 80, 120])
def test_a_tool_line_fits_the_terminal(width: int) -> None:
    long = "漢字 and a very long title that goes on and on " * 5
    for event in (
        call(long, "edit", path=f"/project/{'deep/' * 30}file.py"),
        call("Edit it", "edit", path=f"/project/{'deep/' * 30}file.py"),
        result("Do it", status="failed", output={"error": long}),
    ):
        (text,) = lines(event, using=renderer(width=width))
        wide = sum(2 if character in "漢字" else 1 for character in text)
        assert wide <= width


def test_a_result_replaces_the_line_of_its_call() -> None:
    begun, ended = shown(call("Run x", "execute"), result("Run x", "execute", output={"exitCode": 0}))
    assert isinstance(begun, Line)
    assert isinstance(ended, Ending)
    assert begun.key == ended.key


def test_a_plan_is_shown_whole_once_and_then_only_its_changes() -> None:
    by = renderer()
    assert lines(plan(("One", "in_progress"), ("Two", "pending")), using=by) == ["plan 0/2", "  ▸ One", "  ○ Two"]
    assert lines(plan(("One", "in_progress"), ("Two", "pending")), using=by) == []
    assert lines(plan(("One", "completed"), ("Two", "in_progress")), using=by) == ["  ✓ One", "  ▸ Two"]
    new = plan(("One", "completed"), ("Two", "in_progress"), ("Three", "pending"))
    assert lines(new, using=by) == ["plan 1/3", "  ✓ One", "  ▸ Two", "  ○ Three"]


def test_a_plan_in_markdown_is_shown_as_it_is() -> None:
    assert lines(events.PlanUpdated(*HEAD, (), "p", "# Do\n- this")) == ["# Do", "- this"]
    assert lines(events.PlanUpdated(*HEAD, (), "p", None, None, True)) == []


def asked_and(by: str, kind: str | None, *, verbose: bool = False) -> list[str]:
    decision = "allow" if kind == "allow_once" else "deny"
    why = "access is read-only"
    return lines(
        events.PermissionRequested(*HEAD, "p1", "t1", "Run x", "execute", None, (), (), ()),
        events.PermissionResolved(
            *HEAD, "p1", "t1", "selected", "o", kind, decision=decision, decided_by=by, reason=why
        ),
        using=renderer(verbose=verbose),
    )


def test_a_decision_without_the_user_is_shown() -> None:
    assert asked_and("rule", "reject_once") == ["✗ not allowed: Run x (access is read-only)"]
    assert asked_and("rule", None) == ["✗ not allowed: Run x (access is read-only)"]
    assert asked_and("default", "reject_once") == ["✗ not allowed: Run x (nobody to ask)"]
    assert asked_and("rule", "allow_once") == []
    assert asked_and("rule", "allow_once", verbose=True) == ["✓ allowed: Run x (access is read-only)"]
    assert asked_and("callback", "reject_once") == []


def test_the_rule_that_denied_is_not_truncated() -> None:
    shown_lines = lines(
        events.PermissionRequested(*HEAD, "p1", "t1", "Run `ls`", "execute", None, (), (), ()),
        events.PermissionResolved(
            *HEAD,
            "p1",
            "t1",
            "selected",
            "o",
            "reject_once",
            decision="deny",
            decided_by="rule",
            reason="it runs a command",
            rule="deny command ls * (.dragoman/policy.toml:1)",
            layer="workspace",
        ),
        using=renderer(width=50),
    )
    assert shown_lines == [
        "✗ not allowed: Run `ls` (it runs a command: deny",
        "  command ls * (.dragoman/policy.toml:1))",
    ]


def answered(reason: str, *remembered: str, by: str = "person") -> list[str]:
    return lines(
        events.PermissionResolved(
            *HEAD, "p1", "t1", "selected", "o", "allow_always", decided_by=by, reason=reason, remembered=remembered
        )
    )


def test_a_lasting_answer_is_shown_with_the_command_that_revokes_it() -> None:
    assert answered("a person allowed it; remembered for this workspace (3f9a1c): allow command ls", "3f9a1c") == [
        "· remembered for this workspace (3f9a1c): allow command ls",
        "  To revoke it: dragoman policy revoke 3f9a1c",
    ]
    assert answered("a person allowed it; it cannot be remembered: too little") == [
        "· it cannot be remembered: too little"
    ]
    assert answered("a person allowed it") == []
    assert answered("on_permission allowed it; remembered", "3f9a1c", by="callback") == []


def test_content_that_is_not_text_is_named() -> None:
    image = {"type": "image", "data": "A" * 4000, "mimeType": "image/png"}
    link = {"type": "resource_link", "uri": "file:///a", "name": "a"}
    inside = {"type": "resource", "resource": {"uri": "demo:///n.md", "text": "x"}}
    kind = "agent_message_chunk"
    assert lines(*(provider(kind, content=block) for block in (image, link, inside, None))) == [
        "[image: image/png, 3.0 kB]",
        "[link: file:///a]",
        "[resource: demo:///n.md]",
        "[attachment: ]",
    ]


def test_notices_modes_and_compactions_are_shown_and_other_events_are_not() -> None:
    assert lines(
        provider("notice", severity="info", title="Hello", description="there"),
        provider("current_mode_update", currentModeId="plan"),
        provider("compaction_update", status="in_progress"),
        provider("compaction_update", status="completed"),
        provider("available_commands_update", availableCommands=[]),
        provider("something_new", x=1),
    ) == ["! Hello: there", "mode: plan", "the agent compacted its context"]


def test_the_last_line_shows_only_reported_figures() -> None:
    usage = rows.Usage(input_tokens=1234, output_tokens=0, cost=Cost(amount=0.0123, currency="USD"))
    end = events.RunCompleted(*HEAD, "success", "end_turn", "", usage, 3.21)
    assert lines(end) == ["done in 3.2s · tokens: 1.2k in, 0 out · 0.0123 USD"]
    assert lines(events.RunCompleted(*HEAD, "cancelled", None, "", None, 75.4)) == ["cancelled after 1m15s"]
    assert lines(events.RunCompleted(*HEAD, "error", None, "", rows.Usage(), 1.0)) == ["failed after 1.0s"]


def test_figures_are_short() -> None:
    assert usage_parts(rows.Usage(total_tokens=999)) == ["tokens: 999"]
    assert usage_parts(rows.Usage(context_used=12_345, context_size=200_000)) == ["context: 12k of 200k"]
    assert usage_parts(rows.Usage(input_tokens=2_000_000)) == ["tokens: 2M in"]
    assert usage_parts(rows.Usage(cost=Cost(amount=12.5, currency="EUR"))) == ["12.50 EUR"]
    assert (duration(0.04), duration(3600)) == ("0.0s", "1h")
    assert (size(12), size(1500), size(3_200_000)) == ("12 bytes", "1.5 kB", "3.2 MB")


@pytest.mark.parametrize(
    ("difference", "reason"),
    [
        (Difference("prompt", recorded="add a test"), 'it leaves out "add a test"'),
        (Difference("answer", recorded="Done.", replayed="Undone."), '"Undone." is not recorded here'),
        (Difference("tool_calls", recorded="Write a.py"), 'it leaves out the tool calls of a run: "Write a.py"'),
        (Difference("tool_calls", replayed="rm \x1b[31ma.py"), '"rm a.py" is not recorded here'),
    ],
)
def test_a_history_that_differs_is_one_line(difference: Difference, reason: str) -> None:
    event = events.HistoryDiffers(0.0, "s", "r", None, (difference,), 3)
    [line] = lines(event, using=renderer(width=120))
    assert line == f"! the agent's history differs: {reason} (and 2 more)"


# -- commands that failed, and their output


def terminal_exited(code: int | None = 1, signal: str | None = None, output: str = "") -> events.TerminalExited:
    return events.TerminalExited(*HEAD, "term", "make", ("all",), "exited", code, signal, output, len(output), False)


def run_call(**named: Any) -> events.ToolCall:
    return msgspec.structs.replace(call("make all", "execute", **named), input={"command": "make all"})


def terminal_started() -> events.TerminalStarted:
    return events.TerminalStarted(*HEAD, "term", "make", ("all",), None, ())


def test_a_command_that_failed_in_our_terminal_looks_failed() -> None:
    for end, words in ((terminal_exited(2), "exit 2"), (terminal_exited(None, "SIGSEGV"), "SIGSEGV")):
        shown_lines = lines(run_call(), terminal_started(), end, result("make all", "execute"))
        assert shown_lines == ["● run make all", f"✗ run make all  {words}"]
    [*_, ended] = shown(run_call(), terminal_started(), terminal_exited(2), result("make all", "execute"))
    assert isinstance(ended, Ending)
    assert [span.style for span in ended.spans if "exit 2" in span.text] == ["bad"]
    done = lines(run_call(), terminal_started(), terminal_exited(0), result("make all", "execute"))
    assert done[-1] == "✓ run make all  exit 0"


def test_the_end_of_a_commands_output_is_shown_where_it_is_wanted() -> None:
    output = "".join(f"line {number}\n" for number in range(9))
    by = Renderer(cwd=CWD, width=80, thoughts=True, verbose=False, output_lines=2)
    command = (run_call(), terminal_started(), terminal_exited(0, output=output), result("make all", "execute"))
    assert lines(*command, using=by)[1:] == ["✓ run make all  exit 0", "    line 7", "    line 8"]
    text = (Content(content=TextContent(text=f"```console\n{output}```")),)
    assert lines(result("ls", "execute", content=text), using=by) == ["✓ run ls", "    line 7", "    line 8"]
    assert lines(*command)[1:] == ["✓ run make all  exit 0"]


# -- time that the user took to answer


def asked_at(time: float, name: str) -> events.PermissionRequested:
    return events.PermissionRequested(time, "s", "r", None, name, None, "Edit", "edit", None, (), (), ())


def answered_at(time: float, name: str, by: str = "person") -> events.PermissionResolved:
    return events.PermissionResolved(
        time, "s", "r", None, name, None, "selected", "once", "allow_once", decision="allow", decided_by=by
    )


def completed(duration_s: float) -> events.RunCompleted:
    return events.RunCompleted(*HEAD, "success", "end_turn", "", None, duration_s)


def test_the_duration_of_a_run_is_without_the_time_that_the_user_took_to_answer() -> None:
    by = renderer()
    run = (asked_at(1, "a"), asked_at(2, "b"), answered_at(21, "b"), answered_at(27, "a"), completed(30))
    assert lines(*run, using=by)[-1] == "done in 4.0s · waited 26.0s for you"
    assert lines(asked_at(1, "a"), answered_at(9, "a", "rule"), completed(10), using=by)[-1] == "done in 10.0s"
    assert lines(completed(3), using=by) == ["done in 3.0s"]


def started(**context: Any) -> events.RunStarted:
    return events.RunStarted(*HEAD, rows.PromptContext(**context))


def test_skills_of_the_workspace_are_named_once_and_again_when_one_is_added() -> None:
    by = renderer(width=500)
    [notice] = lines(started(listed=3, workspace_skills=("review", "style")), using=by)
    assert notice.startswith("skills of this folder go with your prompts: review, style (dragoman skills list")
    assert lines(started(listed=3, workspace_skills=("review", "style")), using=by) == []
    [notice] = lines(started(listed=4, workspace_skills=("\x1b[1mplanted", "review", "style")), using=by)
    assert "prompts: planted (" in notice
    many = tuple(f"s{number}" for number in range(200))
    [notice] = lines(started(listed=200, workspace_skills=many), using=renderer(width=500))
    assert "s0, s1, s2, s3, s4, s5 and 194 more (" in notice
    assert lines(started(listed=1)) == []  # the user's own


def test_what_goes_with_a_prompt_in_full_is_told_each_time() -> None:
    by = renderer(width=500)
    context = {"skills": (rows.SentSkill("review", "/x", 10),), "omitted": (rows.OmittedSkill("b", "too large"),)}
    for _ in range(2):
        assert lines(started(**context), using=by) == ["with skills in full: review · not sent: b (too large)"]
    assert lines(started(template="/project/prompts/fix.md")) == ["with template: /project/prompts/fix.md"]
