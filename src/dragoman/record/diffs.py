"""Diffs for people: the number of added and removed lines, and the changed lines themselves."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import Final

from dragoman.record import rows
from dragoman.wire.vocabulary import Diff

# Kinds of tool calls that change the files that they name.
_CHANGING_KINDS: Final = ("edit", "delete", "move")

# `difflib` compares every line with every other at worst. Past this many comparisons the counts are those of the
# changed region as a whole: a figure in a line of text is not worth a second of silence.
COMPARISONS = 1_000_000


def claimed_paths(
    tool_calls: Iterable[rows.ToolCall], file_calls: Iterable[rows.FileCall], run_id: str | None
) -> list[str]:
    """Return the files that the agent reported to have changed, in a run or in all; as it wrote their paths."""
    paths: dict[str, None] = {}
    for call in tool_calls:
        if call.status == "completed" and run_id in (None, call.run_id):
            paths.update(dict.fromkeys(item.path for item in call.content if isinstance(item, Diff)))
            if call.kind in _CHANGING_KINDS:
                paths.update(dict.fromkeys(location.path for location in call.locations))
    for file_call in file_calls:
        if file_call.operation == "write" and file_call.status == "done" and run_id in (None, file_call.run_id):
            paths[file_call.path] = None
    return list(paths)


def count_changed_lines(diffs: Iterable[Diff]) -> tuple[int, int]:
    """Return the numbers of added and of removed lines, over all diffs."""
    added = removed = 0
    for diff in diffs:
        for mark, _ in changed_lines(diff, context=0):
            added += mark == "+"
            removed += mark == "-"
    return added, removed


def describe_changes(diffs: Iterable[Diff]) -> str:
    """Describe the added and removed lines, such as `+3` or `+3 -1` with a real minus; empty if nothing changed."""
    added, removed = count_changed_lines(diffs)
    if not added and not removed:
        return ""
    # As wide as the plus, which a hyphen is not.
    return f"+{added} \N{MINUS SIGN}{removed}" if removed else f"+{added}"


def changed_lines(diff: Diff, context: int) -> list[tuple[str, str]]:
    """Return the changed lines as ("+" or "-", line), with `context` unchanged lines (" ") around each change."""
    old, new = _lines(diff.old_text or ""), _lines(diff.new_text)
    start = _common(old, new)
    end = _common(old[start:][::-1], new[start:][::-1])
    middle_old, middle_new = old[start : len(old) - end], new[start : len(new) - end]
    before, after = old[max(0, start - context) : start], old[len(old) - end :][:context] if end else []
    if not middle_old and not middle_new:
        return []
    if len(middle_old) * len(middle_new) > COMPARISONS:
        changed = [*(("-", line) for line in middle_old), *(("+", line) for line in middle_new)]
    else:
        changed = list(_compared(middle_old, middle_new, context))
    return [*((" ", line) for line in before), *changed, *((" ", line) for line in after)]


def _lines(text: str) -> list[str]:
    """Split at line ends only: a form feed or U+2028 is a part of the line, and a change of it is shown."""
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    return lines if lines[-1] else lines[:-1]


def _compared(old: Sequence[str], new: Sequence[str], context: int) -> Iterable[tuple[str, str]]:
    for line in list(difflib.unified_diff(old, new, n=context, lineterm=""))[2:]:
        if not line.startswith("@@"):
            yield line[0], line[1:]


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    count = 0
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        count += 1
    return count
