"""The files that a session changed, their line counts, and the commands that it ran."""

from __future__ import annotations

import difflib
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest

from bridge.socket_client import real_server
from dragoman.bridge import changes
from dragoman.bridge.changes import changes_summary, count_lines, file_diffs
from dragoman.journal.rows import SessionRows
from dragoman.record import rows
from dragoman.wire import vocabulary as acp


def call(position: int, *diffs: acp.Diff, status: str = "completed", run_id: str = "r1") -> rows.ToolCall:
    return rows.ToolCall(
        id=f"t-{position}",
        tool_call_id=f"a{position}",
        run_id=run_id,
        time=0.0,
        replayed=False,
        status=status,
        content=diffs,
    )


def write(position: int, diff: acp.Diff, status: Literal["done", "denied"] = "done") -> rows.FileCall:
    return rows.FileCall(
        id=f"f-{position}",
        request_id=position,
        run_id="r1",
        time=0.0,
        operation="write",
        path=diff.path,
        status=status,
        diff=diff,
    )


def request(position: int, about: rows.ToolCall, diff: acp.Diff, option: str) -> rows.Permission:
    options = tuple(
        acp.PermissionOption(option_id=kind, name=kind, kind=kind) for kind in ("allow_once", "reject_once")
    )
    return rows.Permission(
        id=f"p-{position}",
        request_id=position,
        run_id="r1",
        time=0.0,
        options=options,
        tool_call_row=about.id,
        content=(diff,),
        outcome="selected",
        option_id=option,
    )


def diff(path: str, old: str | None, new: str) -> acp.Diff:
    return acp.Diff(path=path, old_text=old, new_text=new)


def files(session_rows: SessionRows, run_id: str | None = None) -> list[tuple[str, int, int, bool, int]]:
    summary = changes_summary(session_rows, run_id)
    return [(file.path, file.added, file.removed, file.created, file.changes) for file in summary.files]


def test_the_file_that_was_changed_last_comes_first() -> None:
    session_rows = SessionRows(
        tool_calls=[
            call(1, diff("a", None, "one\n")),
            call(2, diff("b", "x\ny\n", "x\nz\n")),
            call(3, diff("a", "one\n", "one\ntwo\n")),
            call(4, diff("a", "else\n", "other\n")),
            call(5, diff("c", "x\n", "y\n"), status="failed"),
        ]
    )
    # The first two of `a` go on from each other.
    assert files(session_rows) == [("a", 3, 1, True, 2), ("b", 1, 1, False, 1)]
    assert [change.new_text for change in file_diffs(session_rows, "a").diffs] == ["one\ntwo\n", "other\n"]
    assert file_diffs(session_rows, "c").diffs == ()


def test_edits_that_go_on_from_each_other_are_one_change_with_the_position_of_the_last() -> None:
    session_rows = SessionRows(tool_calls=[call(1, diff("a", "1\n", "2\n")), call(2, diff("a", "2\n", "3\n4\n"))])
    [file] = changes_summary(session_rows).files
    assert (file.added, file.removed, file.changes, file.position) == (2, 1, 1, 2)
    [change] = file_diffs(session_rows, "a").diffs
    assert (change.old_text, change.new_text) == ("1\n", "3\n4\n")


def test_edits_of_different_parts_of_a_file_stay_separate() -> None:
    session_rows = SessionRows(tool_calls=[call(1, diff("a", "x\n", "y\n")), call(2, diff("a", "p\n", "q\n"))])
    assert len(file_diffs(session_rows, "a").diffs) == 2


def test_changes_can_be_those_of_one_run() -> None:
    session_rows = SessionRows(
        tool_calls=[
            call(1, diff("a", "1\n", "2\n")),
            call(2, diff("b", "1\n", "2\n")),
            call(5, diff("a", None, "1\n2\n"), run_id="r2"),
        ]
    )
    assert [path for path, *_ in files(session_rows, run_id="r1")] == ["b", "a"]
    assert [path for path, *_ in files(session_rows)] == ["a", "b"]
    assert file_diffs(session_rows, "b", "r2").diffs == ()
    runs = [(run.run_id, run.files, run.added, run.removed) for run in changes_summary(session_rows).runs]
    assert runs == [("r1", 2, 2, 2), ("r2", 1, 2, 0)]


def test_a_change_that_the_tool_and_the_write_report_counts_once() -> None:
    same = diff("a", "x\n", "y\n")
    assert files(SessionRows(tool_calls=[call(1, same)], file_calls=[write(2, same)])) == [("a", 1, 1, False, 1)]


def test_a_failed_call_and_a_denied_write_change_nothing() -> None:
    session_rows = SessionRows(
        tool_calls=[call(1, diff("a", "x\n", "y\n"), status="failed")],
        file_calls=[write(2, diff("b", None, "x\n"), status="denied")],
    )
    assert files(session_rows) == []


@pytest.mark.parametrize(("option", "counts"), [("allow_once", True), ("reject_once", False)])
def test_a_diff_that_was_allowed_counts_unless_its_run_reports_the_change(option: str, counts: bool) -> None:
    edit = call(1)
    shown = diff("a", "x\n", "y\n")
    assert bool(files(SessionRows(tool_calls=[edit], permissions=[request(2, edit, shown, option)]))) is counts
    permissions = [request(2, edit, shown, "allow_once")]
    assert files(SessionRows(tool_calls=[edit, call(3, shown)], permissions=permissions)) == [("a", 1, 1, False, 1)]
    later = call(3, diff("a", "y\n", "y\nz\n"), run_id="r2")
    assert files(SessionRows(tool_calls=[edit, later], permissions=permissions)) == [("a", 2, 1, False, 1)]


def test_a_summary_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "MAX_FILES", 3)
    monkeypatch.setattr(changes, "MAX_RUNS", 1)
    monkeypatch.setattr(changes, "MAX_DIFF_CHARS", 100)
    monkeypatch.setattr(changes, "MAX_REMEMBERED_COUNTS", 4)
    session_rows = SessionRows(
        tool_calls=[
            *(call(number, diff(f"f{number}", None, "1\n"), run_id="r0") for number in range(5)),
            *(call(number, diff("long", f"{number}" * 20, f"{number}" * 20 + "!")) for number in range(10, 20)),
        ]
    )
    summary = changes_summary(session_rows)
    assert ([file.path for file in summary.files], summary.more_files) == (["long", "f4", "f3"], 3)
    assert [run.run_id for run in summary.runs] == ["r1"]
    assert len(changes._counts) <= 4
    sent = file_diffs(session_rows, "long")
    assert [change.old_text for change in sent.diffs] == ["19" * 20]
    assert sent.more == 9


def texts() -> Iterator[tuple[str, str]]:
    chance = random.Random(7)
    for _ in range(200):
        old = [chance.choice("abcdef") for _ in range(chance.randrange(30))]
        new = [line for line in old if chance.random() > 0.2]
        for _ in range(chance.randrange(5)):
            new.insert(chance.randrange(len(new) + 1), chance.choice("abcdefgh"))
        yield "".join(f"{line}\n" for line in old), "\n".join(new)


def test_lines_are_counted_as_a_shortest_diff_has_them() -> None:
    for old, new in texts():
        added, removed = count_lines(old, new)
        before, after = old.split("\n")[:-1], new.split("\n") if new else []
        assert len(before) - removed + added == len(after)
        marks = [line[0] for line in difflib.ndiff(before, after) if line[0] in "+-"]
        assert added + removed <= len(marks)
        assert (added + removed == 0) == (before == after)
    assert count_lines("a\nb\nc\nd\n", "b\nc\nd\na\n") == (1, 1)
    assert count_lines("", "a") == (1, 0)


def test_texts_that_have_nothing_in_common_are_counted_in_no_time() -> None:
    old = "".join(f"old {line}\n" for line in range(20_000))
    new = "".join(f"new {line}\n" for line in range(30_000))
    assert count_lines(old, new) == (30_000, 20_000)


async def test_a_client_reads_the_changes_of_a_session(tmp_path: Path) -> None:
    (tmp_path / "README").write_text("one\n")
    async with real_server(tmp_path / "home") as server, server.client() as talk:
        opened = await talk.call("session.open", agent="demo", cwd=str(tmp_path), access="full")
        session_id = opened["session_id"]
        view = await talk.follow(session_id)
        for text in ("edit README: two", "run echo hello"):
            await talk.call("session.prompt", session_id=session_id, text=text, when="queue")
        await talk.wait_for(view, lambda view: len(view.rows("runs")) == 2 and view.settled)
        made = await talk.call("session.changes", session_id=session_id)
        [file] = made["files"]
        path = str(tmp_path / "README")
        assert (file["path"], file["added"], file["created"]) == (path, 1, False)
        [terminal] = made["terminals"]
        assert terminal["output"] is None
        whole = await talk.call("session.row", session_id=session_id, table="terminals", row_id=terminal["id"])
        assert "hello" in whole["row"]["output"]
        [change] = (await talk.call("session.diffs", session_id=session_id, path=path))["diffs"]
        assert "two" in change["new_text"]
        first, second = (row["id"] for row in view.rows("runs"))
        assert made["runs"] == [{"run_id": first, "files": 1, "added": 1, "removed": 0}]
        of_second = await talk.call("session.changes", session_id=session_id, run_id=second)
        assert (of_second["files"], len(of_second["terminals"])) == ([], 1)
        assert (await talk.call_refused("session.changes", session_id="none"))["kind"] == "not_found"
