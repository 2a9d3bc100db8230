"""The files that a session changed and the commands that it ran. Pure.

A client that has not loaded all rows of a session asks for this summary, and for the changes of one file at a time.
This module alone decides which diffs count as changes of a session.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Sequence
from typing import Final

import msgspec

from dragoman.bridge.rows import diff_item, position_of, row_model
from dragoman.journal.rows import SessionRows
from dragoman.protocol.models import DiffItem, Terminal
from dragoman.protocol.results import ChangedFile, ChangesSummary, FileDiffs
from dragoman.record import rows
from dragoman.wire import vocabulary as acp

# Files and commands that are listed, the last ones: more than anyone reads through.
MAX_FILES: Final = 1000
MAX_TERMINALS: Final = 500

# Characters of diffs that are sent of one file, the last ones: as many as of a permission.
MAX_DIFF_CHARS: Final = 1024 * 1024

# Texts with more different lines than this take long to compare, and a session may have thousands of them. For those
# only lines that one of the two texts lacks are counted, which misses lines that were moved.
MAX_COMPARED_LINES: Final = 500


def changes_summary(session_rows: SessionRows, before: int, run_id: str | None = None) -> ChangesSummary:
    """The changes of the rows below a position; with a `run_id`, of that run only."""
    files = _changes(session_rows, before, run_id)
    listed = list(files.items())[-MAX_FILES:]
    terminals = [
        row
        for row in session_rows.terminals
        if position_of(row.id) < before and (run_id is None or row.run_id == run_id)
    ]
    return ChangesSummary(
        files=tuple(_changed_file(path, diffs) for path, diffs in reversed(listed)),
        more_files=len(files) - len(listed),
        terminals=tuple(map(_without_output, terminals[-MAX_TERMINALS:])),
        more_terminals=max(0, len(terminals) - MAX_TERMINALS),
    )


def file_diffs(session_rows: SessionRows, path: str, before: int, run_id: str | None = None) -> FileDiffs:
    """The changes of one file, in their order."""
    diffs = _changes(session_rows, before, run_id).get(path, [])
    sent: list[DiffItem] = []
    room = MAX_DIFF_CHARS
    for diff in reversed(diffs):
        room -= len(diff.old_text or "") + len(diff.new_text)
        if room < 0:
            break
        sent.append(diff_item(diff))
    return FileDiffs(diffs=tuple(reversed(sent)), more=len(diffs) - len(sent))


def _changed_file(path: str, diffs: Sequence[acp.Diff]) -> ChangedFile:
    counts = [count_lines(diff.old_text or "", diff.new_text) for diff in diffs]
    return ChangedFile(
        path=path,
        added=sum(added for added, _ in counts),
        removed=sum(removed for _, removed in counts),
        created=diffs[0].old_text is None,
        changes=len(diffs),
    )


def _without_output(row: rows.Terminal) -> Terminal:
    model = row_model(msgspec.structs.replace(row, output=None))
    assert isinstance(model, Terminal)
    return model


# -- which diffs are changes


def _changes(session_rows: SessionRows, before: int, run_id: str | None) -> dict[str, list[acp.Diff]]:
    """The diffs of each file, the file that was changed last at the end; consecutive diffs are joined."""
    diffs: list[tuple[int, acp.Diff]] = []
    calls = {call.id: call for call in session_rows.tool_calls}

    def is_chosen(row: rows.ToolCall | rows.FileCall) -> bool:
        return position_of(row.id) < before and (run_id is None or row.run_id == run_id)

    for call in session_rows.tool_calls:
        if call.status == "completed" and is_chosen(call):
            diffs += [(position_of(call.id), item) for item in call.content if isinstance(item, acp.Diff)]
    for file_call in session_rows.file_calls:
        if file_call.diff is not None and file_call.status == "done" and is_chosen(file_call):
            diffs.append((position_of(file_call.id), file_call.diff))
    # Some agents send a diff with their permission request, and none with the tool call that then makes the change.
    last_change = {diff.path: position for position, diff in sorted(diffs, key=lambda item: item[0])}
    for permission in session_rows.permissions:
        permitted = calls.get(permission.tool_call_row or "")
        if permitted is None or permitted.status != "completed":
            continue
        if not is_chosen(permitted) or not _is_allowed(permission):
            continue
        position = position_of(permitted.id)
        diffs += [
            (position, item)
            for item in permission.content
            if isinstance(item, acp.Diff) and last_change.get(item.path, -1) < position
        ]
    files: dict[str, list[acp.Diff]] = {}
    for _, diff in sorted(diffs, key=lambda item: item[0]):
        files[diff.path] = _joined(files.pop(diff.path, []), diff)
    return files


def _is_allowed(permission: rows.Permission) -> bool:
    if permission.outcome != "selected":
        return False
    kind = permission.option_kind
    return kind.startswith("allow") if kind else permission.decision == "allow"


def _joined(diffs: list[acp.Diff], diff: acp.Diff) -> list[acp.Diff]:
    if not diffs:
        return [diff]
    last = diffs[-1]
    # The tool's own diff and the write that it made through the host report the same change twice.
    if last.new_text == diff.new_text and (last.old_text or "") == (diff.old_text or ""):
        return diffs
    if last.new_text == diff.old_text:
        return [*diffs[:-1], msgspec.structs.replace(diff, old_text=last.old_text)]
    return [*diffs, diff]


# -- line counts


def count_lines(old: str, new: str) -> tuple[int, int]:
    """The numbers of added and removed lines."""
    before, after = _lines(old), _lines(new)
    start = 0
    while start < len(before) and start < len(after) and before[start] == after[start]:
        start += 1
    end = 0
    while end < min(len(before), len(after)) - start and before[-1 - end] == after[-1 - end]:
        end += 1
    before, after = before[start : len(before) - end], after[start : len(after) - end]
    if len(before) + len(after) > MAX_COMPARED_LINES:
        return (Counter(after) - Counter(before)).total(), (Counter(before) - Counter(after)).total()
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    same = sum(block.size for block in matcher.get_matching_blocks())
    return len(after) - same, len(before) - same


def _lines(text: str) -> list[str]:
    lines = text.split("\n")
    return lines[:-1] if lines[-1] == "" else lines
