"""Actions of the host for the agent, as the renderer shows them to a person."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dragoman.cli.render import MAX_DIFF_LINES, Renderer
from dragoman.cli.screen import Ending, Line, without_colours
from dragoman.record import events
from dragoman.wire.vocabulary import Diff, PermissionOption, ToolCallLocation

HEAD = (0.0, "s", "r", None)
CHANGE = Diff(path="/project/src/a.py", old_text="a\nb\n", new_text="a\nc\nd\n")


def renderer(*, width: int = 80, verbose: bool = False, diffs: bool = False) -> Renderer:
    return Renderer(cwd=Path("/project"), width=width, thoughts=False, verbose=verbose, diffs=diffs)


def lines(*run_events: events.Event, using: Renderer | None = None) -> list[str]:
    by = using or renderer()
    found = []
    for event in run_events:
        for piece in by.show(event):
            assert isinstance(piece, Line | Ending)
            found.append(without_colours(piece.spans))
    return found


def read(status: str = "done", *, path: str = "/project/src/a.py", **more: Any) -> events.FileRead:
    fields = {"from_line": None, "limit": None, "size": 3, "error": None, **more}
    return events.FileRead(*HEAD, file_id="f", path=path, status=status, **fields)


def written(status: str = "done", *, path: str = "/project/src/a.py", **more: Any) -> events.FileWritten:
    fields = {"diff": CHANGE, "size": 6, "old_size": 4, "error": None, **more}
    return events.FileWritten(*HEAD, file_id="f", path=path, status=status, **fields)


def started(command: str = "make", *args: str) -> events.TerminalStarted:
    return events.TerminalStarted(*HEAD, "term", command, args, "/project", ())


def refused(status: str, **more: Any) -> events.TerminalRefused:
    fields = {"cwd": None, "env": (), "error": None, **more}
    return events.TerminalRefused(*HEAD, terminal_id="terminal-1", command="rm -rf x", args=(), status=status, **fields)


def exited(status: str = "exited", code: int | None = 0, **more: Any) -> events.TerminalExited:
    fields = {"signal": None, "output": "one\ntwo\n", "output_bytes": 8, "truncated": False, **more}
    return events.TerminalExited(
        *HEAD, terminal_id="term", command="make", args=("all",), status=status, exit_code=code, **fields
    )


def test_a_missing_file_is_shown_only_with_verbose() -> None:
    missing = read("failed", error="Not found: /project/src/a.py")
    assert lines(missing) == []
    assert lines(missing, using=renderer(verbose=True)) == ["· read src/a.py: Not found"]


@pytest.mark.parametrize(
    ("event", "line"),
    [
        (read(), "· read src/a.py"),
        (read(from_line=12, limit=3), "· read src/a.py:12"),
        (read(path="/etc/hosts"), "· read /etc/hosts"),
        (
            read("denied", decided_by="rule", reason="secret", rule="deny .env", layer="user"),
            "✗ not allowed: read src/a.py (secret: deny .env)",
        ),
        (written(), "✓ write src/a.py  +2 −1"),
        (written(diff=None, size=123_456), "✓ write src/a.py  123,456 bytes"),
        (written(diff=Diff(path="/x", old_text="a", new_text="a")), "✓ write src/a.py  unchanged"),
        (written("failed", error="disk full"), "✗ write src/a.py: disk full"),
        (written("denied", decided_by="default", reason="…"), "✗ not allowed: write src/a.py (nobody to ask)"),
        (written("denied", decided_by="rule", reason="read-only"), "✗ not allowed: write src/a.py (read-only)"),
        (started("make", "all", "X=a b"), "$ make all 'X=a b'"),
        (started("make && make test"), "$ make && make test"),
        (refused("denied", decided_by="rule", reason="no"), "✗ not allowed: run rm -rf x (no)"),
        (refused("failed", error="no program"), "✗ run rm -rf x: no program"),
        (exited(), "✓ $ make all  exit 0"),
        (exited(code=2), "✗ $ make all  exit 2"),
        (exited(code=None, signal="SIGSEGV"), "✗ $ make all  SIGSEGV"),
        (exited("killed", None, signal="SIGTERM"), "■ $ make all  killed"),
        (exited("released", None), "■ $ make all  stopped"),
    ],
)
def test_each_action_is_one_line(event: events.Event, line: str) -> None:
    assert lines(event) == [line]


@pytest.mark.parametrize("by", ["callback", "person", "cancel"])
def test_a_denial_by_a_person_is_not_shown_again(by: str) -> None:
    assert (
        lines(written("denied", decided_by=by), refused("denied", decided_by=by), read("cancelled", decided_by=by))
        == []
    )


@pytest.mark.parametrize("width", [40, 80])
def test_every_line_fits_the_terminal(width: int) -> None:
    deep = f"/project/{'deep/' * 40}a.py"
    run_events = (
        read(path=deep),
        written(path=deep),
        written("denied", path=deep, decided_by="rule", reason="long " * 40),
        started("echo", "long " * 40),
        events.TerminalExited(*HEAD, "t", "long " * 40, (), "exited", 1, None, None, None, False),
        written(diff=Diff(path="/x", old_text="", new_text="long " * 40)),
    )
    assert all(len(line) <= width for line in lines(*run_events, using=renderer(width=width, diffs=True)))


def test_a_command_ends_where_it_began() -> None:
    by = renderer()
    [begun] = by.show(started())
    [ended] = by.show(exited())
    assert isinstance(begun, Line)
    assert isinstance(ended, Ending)
    assert begun.key == ended.key


def test_output_is_shown_with_verbose() -> None:
    assert lines(exited(output="\x1b[31mone\ntwo\n"), using=renderer(verbose=True)) == [
        "✓ $ make all  exit 0",
        "    one",
        "    two",
    ]


def test_on_a_terminal_a_write_shows_what_it_changed_once() -> None:
    tool = (*HEAD, "t", "Edit a.py", None, "edit", "completed", (CHANGE,), (), None, None, None)
    assert lines(written(), events.ToolResult(*tool), using=renderer(diffs=True)) == [
        "✓ write src/a.py  +2 −1",
        "      a",
        "    - b",
        "    + c",
        "    + d",
        "✓ Edit a.py  +2 −1",
    ]


def announcing(
    kind: str = "edit", *, content: Any = (), path: str | None = None, wanted: Any = None
) -> events.ToolCall:
    locations = (ToolCallLocation(path=path),) if path else ()
    return events.ToolCall(*HEAD, "t", "Do it", None, kind, "pending", content, locations, wanted, None, None)


def done_tool(content: Any = ()) -> events.ToolResult:
    return events.ToolResult(*HEAD, "t", "Do it", None, "edit", "completed", content, (), None, None, None)


def test_an_action_that_a_tool_call_announced_exactly_gets_no_line_of_its_own() -> None:
    edit, run = announcing(content=(CHANGE,)), announcing("execute", wanted={"command": ["make", "all"]})
    look = announcing("read", path="/project/src/a.py")
    assert lines(edit, written(), done_tool((CHANGE,))) == ["● Do it", "✓ Do it  +2 −1"]
    assert lines(run, started("make", "all"), exited(), done_tool()) == ["● run Do it", "✓ Do it  exit 0"]
    assert lines(look, read(), done_tool()) == ["● Do it src/a.py", "✓ Do it"]


def test_an_action_that_differs_from_its_announcement_or_failed_is_shown() -> None:
    edit = announcing(content=(Diff(path="/project/src/a.py", new_text="something else"),))
    assert lines(edit, written())[1:] == ["✓ write src/a.py  +2 −1"]
    assert lines(announcing(content=(CHANGE,)), done_tool(), written())[2:] == ["✓ write src/a.py  +2 −1"]
    assert lines(announcing(content=(CHANGE,)), written("failed", error="no room"))[1:] == ["✗ write src/a.py: no room"]
    assert lines(announcing("execute", wanted={"command": "ls"}), started("rm"))[1:] == ["$ rm"]
    assert lines(announcing(content=(CHANGE,)), written(), using=renderer(verbose=True))[1:] == [
        "✓ write src/a.py  +2 −1"
    ]


def test_the_rule_of_an_access_level_is_shown_as_its_reason_only() -> None:
    event = written("denied", decided_by="rule", reason="access is read-only", rule="deny write", layer="access")
    assert lines(event) == ["✗ not allowed: write src/a.py (access is read-only)"]


def test_a_long_diff_is_counted() -> None:
    long = Diff(path="/x", new_text="".join(f"{number}\n" for number in range(100)))
    shown = lines(written(diff=long), using=renderer(diffs=True))
    assert len(shown) == 1 + MAX_DIFF_LINES + 1
    assert shown[-1] == f"    … {100 - MAX_DIFF_LINES} more lines"


def test_a_diff_that_a_person_was_asked_about_is_not_shown_again() -> None:
    option = PermissionOption(option_id="o", name="Allow", kind="allow_once")
    request = events.PermissionRequested(
        *HEAD, "p", None, "Write a.py", "edit", None, (CHANGE,), (), (option,), origin="files"
    )
    answered = events.PermissionResolved(
        *HEAD, "p", None, "selected", "o", "allow_once", "files", decision="allow", decided_by="callback"
    )
    shown = lines(request, answered, written(decided_by="callback"), using=renderer(diffs=True))
    assert shown == ["✓ write src/a.py  +2 −1"]


def test_a_host_permission_decided_without_a_person_is_shown_by_the_write_alone() -> None:
    request = events.PermissionRequested(*HEAD, "p", None, "Write a.py", "edit", None, (), (), (), origin="files")
    answered = events.PermissionResolved(
        *HEAD, "p", None, "selected", None, None, "files", decision="deny", decided_by="timeout", reason="too late"
    )
    refused_write = written("denied", decided_by="timeout", reason="too late")
    assert lines(request, answered, refused_write) == ["✗ not allowed: write src/a.py (too late)"]


def test_a_question_without_a_person_to_answer_is_shown() -> None:
    request = events.QuestionAsked(*HEAD, "q", "Which colour?", "form", None, None, None)
    unanswered = events.QuestionAnswered(*HEAD, "q", "cancel", None, decided_by="default", reason="…")
    declined = events.QuestionAnswered(*HEAD, "q", "decline", None, decided_by="person", reason="…")
    assert lines(request, unanswered) == ["✗ not answered: Which colour? (nobody to ask)"]
    assert lines(request, declined) == []


def test_nothing_in_a_command_acts_on_the_terminal_or_hides_there() -> None:
    assert lines(started("echo \x1b[2J\r hidden")) == [r"$ echo \x1b[2J\r hidden"]
