"""What a session has in it besides words: the files that it changed, and the commands that were run for it. Pure.

For whoever has not all rows of a session loaded and still tells what there is. Bounded: a list first, and the changes
of one file when they are asked for. What counts as a change is as the page has it (`web/src/diff/changes.ts`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

import msgspec

from dragoman.bridge.answers import ChangedFile, Contents, FileDiffs
from dragoman.bridge.payload import DiffItem, Terminal
from dragoman.bridge.rows import place_of, row_of
from dragoman.journal.rows import SessionRows
from dragoman.record import rows
from dragoman.wire import vocabulary as acp

# Files and commands that are listed, the last ones: more than anyone reads through.
MOST_FILES: Final = 1000
MOST_TERMINALS: Final = 500

# Characters of diffs that are sent of one file, the last ones: as much as is shown of one that is to be decided.
MOST_TEXT: Final = 1024 * 1024

# Texts that differ in more lines take long to compare (milliseconds, and there may be thousands of them). Of these the
# lines are counted that only one of both has: that misses those that were only moved.
MOST_EDITS: Final = 100


def contents_of(found: SessionRows, before: int, run_id: str | None = None) -> Contents:
    """Of the rows that began before a place, and of one run alone where it is named."""
    files = _changes(found, before, run_id)
    listed = list(files.items())[-MOST_FILES:]
    terminals = [
        row for row in found.terminals if place_of(row.id) < before and (run_id is None or row.run_id == run_id)
    ]
    return Contents(
        files=tuple(_listed(path, diffs) for path, diffs in reversed(listed)),
        more_files=len(files) - len(listed),
        terminals=tuple(map(_without_output, terminals[-MOST_TERMINALS:])),
        more_terminals=max(0, len(terminals) - MOST_TERMINALS),
    )


def diffs_of(found: SessionRows, path: str, before: int, run_id: str | None = None) -> FileDiffs:
    """The changes of one file, in their order."""
    diffs = _changes(found, before, run_id).get(path, [])
    kept: list[DiffItem] = []
    room = MOST_TEXT
    for diff in reversed(diffs):
        room -= len(diff.old_text or "") + len(diff.new_text)
        if room < 0:
            break
        kept.append(DiffItem(path=diff.path, old_text=diff.old_text, new_text=diff.new_text))
    return FileDiffs(diffs=tuple(reversed(kept)), more=len(diffs) - len(kept))


def _listed(path: str, diffs: Sequence[acp.Diff]) -> ChangedFile:
    counts = [counts_of(diff.old_text or "", diff.new_text) for diff in diffs]
    return ChangedFile(
        path=path,
        added=sum(added for added, _ in counts),
        removed=sum(removed for _, removed in counts),
        created=diffs[0].old_text is None,
        changes=len(diffs),
    )


def _without_output(row: rows.Terminal) -> Terminal:
    made = row_of(msgspec.structs.replace(row, output=None))
    assert isinstance(made, Terminal)
    return made


# -- which changes there are


def _changes(found: SessionRows, before: int, run_id: str | None) -> dict[str, list[acp.Diff]]:
    """By path, the file that was changed last at the end; changes that go on from each other are one."""
    made: list[tuple[int, acp.Diff]] = []
    calls = {call.id: call for call in found.tool_calls}

    def counts(row: rows.ToolCall | rows.FileCall) -> bool:
        return place_of(row.id) < before and (run_id is None or row.run_id == run_id)

    for call in found.tool_calls:
        if call.status == "completed" and counts(call):
            made += [(place_of(call.id), item) for item in call.content if isinstance(item, acp.Diff)]
    for file_call in found.file_calls:
        if file_call.diff is not None and file_call.status == "done" and counts(file_call):
            made.append((place_of(file_call.id), file_call.diff))
    # Some agents show a diff when they ask, and tell none of what they did then.
    last = {diff.path: place for place, diff in sorted(made, key=lambda one: one[0])}
    for permission in found.permissions:
        asked_for = calls.get(permission.tool_call_row or "")
        if asked_for is None or asked_for.status != "completed" or not counts(asked_for) or not _allowed(permission):
            continue
        place = place_of(asked_for.id)
        made += [
            (place, item)
            for item in permission.content
            if isinstance(item, acp.Diff) and last.get(item.path, -1) < place
        ]
    files: dict[str, list[acp.Diff]] = {}
    for _, diff in sorted(made, key=lambda one: one[0]):
        files[diff.path] = _joined(files.pop(diff.path, []), diff)
    return files


def _allowed(permission: rows.Permission) -> bool:
    if permission.outcome != "selected":
        return False
    kind = permission.option_kind
    return kind.startswith("allow") if kind else permission.decision == "allow"


def _joined(known: list[acp.Diff], diff: acp.Diff) -> list[acp.Diff]:
    if not known:
        return [diff]
    last = known[-1]
    # The tool's own diff and the write that it made through us tell the same change twice.
    if last.new_text == diff.new_text and (last.old_text or "") == (diff.old_text or ""):
        return known
    if last.new_text == diff.old_text:
        return [*known[:-1], msgspec.structs.replace(diff, old_text=last.old_text)]
    return [*known, diff]


# -- how much was changed


def counts_of(old: str, new: str) -> tuple[int, int]:
    """Lines that came, and lines that went: as few of them as can tell the difference."""
    before, after = _lines(old), _lines(new)
    start = 0
    while start < len(before) and start < len(after) and before[start] == after[start]:
        start += 1
    end = 0
    while end < min(len(before), len(after)) - start and before[-1 - end] == after[-1 - end]:
        end += 1
    before, after = before[start : len(before) - end], after[start : len(after) - end]
    if (edits := _edits(before, after)) is None:
        return (Counter(after) - Counter(before)).total(), (Counter(before) - Counter(after)).total()
    longer = len(after) - len(before)
    return (edits + longer) // 2, (edits - longer) // 2


def _lines(text: str) -> list[str]:
    lines = text.split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def _edits(before: Sequence[str], after: Sequence[str]) -> int | None:
    """How many lines must go or come to make one of the other (Myers 1986: the furthest reach of each diagonal); None
    where that are too many."""
    if not before or not after:
        return len(before) + len(after)
    furthest = {1: 0}
    for edits in range(MOST_EDITS + 1):
        for diagonal in range(-edits, edits + 1, 2):
            down = diagonal == -edits or (
                diagonal != edits and furthest.get(diagonal - 1, -1) < furthest.get(diagonal + 1, -1)
            )
            at = furthest[diagonal + 1] if down else furthest[diagonal - 1] + 1
            while at < len(before) and at - diagonal < len(after) and before[at] == after[at - diagonal]:
                at += 1
            furthest[diagonal] = at
            if at >= len(before) and at - diagonal >= len(after):
                return edits
    return None
