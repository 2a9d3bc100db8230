from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.record import rows
from dragoman.record.diffs import changed_lines, claimed_paths, count_changed_lines, describe_changes
from dragoman.wire.vocabulary import Diff, ToolCallLocation


def diff(old: str | None, new: str) -> Diff:
    return Diff(path="/a", old_text=old, new_text=new)


def test_a_new_file_is_all_added() -> None:
    assert describe_changes([diff(None, "a\nb\n")]) == "+2"


def test_nothing_changed_says_nothing() -> None:
    assert describe_changes([diff("a\n", "a\n")]) == ""


def test_all_removed_lines_have_a_minus() -> None:
    assert describe_changes([diff("a\nb\n", "")]) == "+0 \N{MINUS SIGN}2"


def test_lines_come_with_their_surroundings() -> None:
    old = "".join(f"{number}\n" for number in range(10))
    assert changed_lines(diff(old, old.replace("5\n", "five\n")), context=1) == [
        (" ", "4"),
        ("-", "5"),
        ("+", "five"),
        (" ", "6"),
    ]


def test_a_huge_change_is_counted_as_a_whole() -> None:
    old, new = "".join(f"a{n}\n" for n in range(3000)), "".join(f"b{n}\n" for n in range(3000))
    assert count_changed_lines([diff(old, new)]) == (3000, 3000)


lines = st.lists(st.sampled_from(["a", "b", "c"]), max_size=12)


@given(lines, lines)
def test_the_counts_add_up(old: list[str], new: list[str]) -> None:
    added, removed = count_changed_lines([diff("\n".join(old), "\n".join(new))])
    assert added - removed == len(new) - len(old)
    assert (added, removed) == (0, 0) or old != new


@pytest.mark.parametrize("sign", ["\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\r"])
def test_a_line_end_that_becomes_something_else_is_a_change_to_see(sign: str) -> None:
    changed = Diff(path="x", old_text="# checked:\ncheck()\n", new_text=f"# checked:{sign}check()\n")
    assert ("+", f"# checked:{sign}check()") in changed_lines(changed, context=1)


def test_line_ends_of_another_system_are_no_change() -> None:
    assert changed_lines(Diff(path="x", old_text="a\r\nb\r\n", new_text="a\nb\n"), context=1) == []


def call(run_id: str, *paths: str, status: str = "completed", kind: str = "edit", diffs: bool = False) -> rows.ToolCall:
    return rows.ToolCall(
        id=f"tool-{run_id}",
        tool_call_id="t",
        run_id=run_id,
        time=0.0,
        replayed=False,
        status=status,
        kind=kind,
        content=tuple(Diff(path=path, old_text="", new_text="x") for path in paths) if diffs else (),
        locations=() if diffs else tuple(ToolCallLocation(path=path) for path in paths),
    )


def test_claimed_files_are_those_of_completed_edits_and_writes() -> None:
    tool_calls = [
        call("r1", "/a", diffs=True),
        call("r1", "/b"),
        call("r1", "/read", kind="read"),
        call("r1", "/failed", status="failed"),
        call("r2", "/other"),
    ]
    write = rows.FileCall(id="f", request_id=1, run_id="r1", time=0.0, operation="write", path="/c", status="done")
    read = rows.FileCall(id="g", request_id=2, run_id="r1", time=0.0, operation="read", path="/d", status="done")
    assert claimed_paths(tool_calls, [write, read], "r1") == ["/a", "/b", "/c"]
    assert claimed_paths(tool_calls, [write, read], None) == ["/a", "/b", "/other", "/c"]
