"""The files that a session changed, their line counts, and the commands that it ran."""

from __future__ import annotations

import difflib
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from bridge.socket_client import real_server
from dragoman.bridge import changes
from dragoman.bridge.changes import changes_summary, count_lines, file_diffs
from dragoman.journal.rows import SessionRows
from dragoman.record import rows
from dragoman.wire import vocabulary as acp

ALL = 10**9


def call(place: int, *diffs: acp.Diff, status: str = "completed", run_id: str = "r1") -> rows.ToolCall:
    return rows.ToolCall(
        id=f"t-{place}", tool_call_id=f"a{place}", run_id=run_id, time=0.0, replayed=False, status=status, content=diffs
    )


def write(place: int, diff: acp.Diff) -> rows.FileCall:
    return rows.FileCall(
        id=f"f-{place}",
        request_id=place,
        run_id="r1",
        time=0.0,
        operation="write",
        path=diff.path,
        status="done",
        diff=diff,
    )


def request(place: int, about: rows.ToolCall, diff: acp.Diff, option: str) -> rows.Permission:
    options = tuple(
        acp.PermissionOption(option_id=kind, name=kind, kind=kind) for kind in ("allow_once", "reject_once")
    )
    return rows.Permission(
        id=f"p-{place}",
        request_id=place,
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


def result(found: SessionRows, before: int = ALL, run_id: str | None = None) -> list[tuple[str, int, int, bool, int]]:
    made = changes_summary(found, before, run_id)
    return [(file.path, file.added, file.removed, file.created, file.changes) for file in made.files]


def test_files_are_told_with_what_was_changed_in_them_the_last_one_first() -> None:
    found = SessionRows(
        tool_calls=[
            call(1, diff("a", None, "one\n")),
            call(2, diff("b", "x\ny\n", "x\nz\n")),
            call(3, diff("a", "one\n", "one\ntwo\n")),
            call(4, diff("a", "else\n", "other\n")),
            call(5, diff("c", "x\n", "y\n"), status="failed"),
        ]
    )
    # The first two of `a` go on from each other.
    assert result(found) == [("a", 3, 1, True, 2), ("b", 1, 1, False, 1)]
    assert [one.new_text for one in file_diffs(found, "a", ALL).diffs] == ["one\ntwo\n", "other\n"]
    assert file_diffs(found, "c", ALL).diffs == ()


def test_only_what_began_before_the_place_and_in_the_run_counts() -> None:
    found = SessionRows(
        tool_calls=[call(1, diff("a", None, "1\n")), call(5, diff("b", None, "1\n"), run_id="r2"), call(9)]
    )
    assert [path for path, *_ in result(found, before=5)] == ["a"]
    assert [path for path, *_ in result(found, run_id="r2")] == ["b"]
    assert file_diffs(found, "b", 5).diffs == ()


def test_a_change_that_is_told_by_the_tool_and_by_the_write_is_one() -> None:
    same = diff("a", "x\n", "y\n")
    assert result(SessionRows(tool_calls=[call(1, same)], file_calls=[write(2, same)])) == [("a", 1, 1, False, 1)]


@pytest.mark.parametrize(("option", "counts"), [("allow_once", True), ("reject_once", False)])
def test_what_was_shown_and_allowed_counts_where_nothing_else_is_told_of_it(option: str, counts: bool) -> None:
    made = call(1)
    shown = diff("a", "x\n", "y\n")
    assert bool(result(SessionRows(tool_calls=[made], permissions=[request(2, made, shown, option)]))) is counts
    both = SessionRows(tool_calls=[made, call(3, shown)], permissions=[request(2, made, shown, "allow_once")])
    assert result(both) == [("a", 1, 1, False, 1)]


def test_however_much_there_is_the_answer_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "MAX_FILES", 3)
    monkeypatch.setattr(changes, "MAX_DIFF_CHARS", 100)
    found = SessionRows(
        tool_calls=[
            *(call(place, diff(f"f{place}", None, "1\n")) for place in range(5)),
            *(call(place, diff("long", f"{place}" * 20, f"{place}" * 20 + "!")) for place in range(10, 20)),
        ]
    )
    made = changes_summary(found, ALL)
    assert ([file.path for file in made.files], made.more_files) == (["long", "f4", "f3"], 3)
    stored = file_diffs(found, "long", ALL)
    assert [one.old_text for one in stored.diffs] == ["19" * 20]
    assert stored.more == 9


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


async def test_a_page_asks_for_what_it_has_not_loaded(tmp_path: Path) -> None:
    (tmp_path / "README").write_text("one\n")
    async with real_server(tmp_path / "home") as server, server.client() as talk:
        opened = await talk.call("session.open", agent="demo", cwd=str(tmp_path), access="full")
        session_id = opened["session_id"]
        view = await talk.follow(session_id)
        for text in ("edit README: two", "run echo hello"):
            await talk.call("session.prompt", session_id=session_id, text=text, when="queue")
        await talk.wait_for(view, lambda view: len(view.rows("runs")) == 2 and view.settled)
        made = await talk.call("session.changes", session_id=session_id, before=ALL)
        [file] = made["files"]
        path = str(tmp_path / "README")
        assert (file["path"], file["added"], file["created"]) == (path, 1, False)
        [terminal] = made["terminals"]
        assert terminal["output"] is None
        whole = await talk.call("session.row", session_id=session_id, table="terminals", row_id=terminal["id"])
        assert "hello" in whole["row"]["output"]
        [change] = (await talk.call("session.diffs", session_id=session_id, path=path, before=ALL))["diffs"]
        assert "two" in change["new_text"]
        first = min(row["position"] for row in view.rows("tool_calls"))
        none = await talk.call("session.changes", session_id=session_id, before=first)
        assert (none["files"], none["terminals"]) == ([], [])
        assert (await talk.call_refused("session.changes", session_id="none", before=1))["kind"] == "not_found"
