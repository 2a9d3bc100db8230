"""The files that a session changed or shows, and the commands that it ran. Pure.

Clients show this summary, and ask for the changes of one file at a time. This module alone decides which diffs count as
changes.
"""

from __future__ import annotations

import difflib
import hashlib
from collections import Counter, OrderedDict
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import msgspec

from dragoman.bridge.rows import diff_item, row_model
from dragoman.journal.rows import SessionRows, row_position
from dragoman.protocol.models import DiffItem, Terminal
from dragoman.protocol.results import ChangedFile, ChangesSummary, FileDiffs, RunChanges
from dragoman.record import rows
from dragoman.wire import vocabulary as acp

# Files, runs and commands that are listed, the last ones: more than anyone reads through.
MAX_FILES: Final = 1000
MAX_RUNS: Final = 1000
MAX_TERMINALS: Final = 500

# Characters of diffs that are sent of one file, the last ones: as many as of a permission.
MAX_DIFF_CHARS: Final = 1024 * 1024

# Texts with more different lines than this take long to compare, and a session may have thousands of them. For those
# only lines that one of the two texts lacks are counted, which misses lines that were moved.
MAX_COMPARED_LINES: Final = 500

# Diffs whose line counts are remembered: a client asks again after each change, and most diffs are the same.
MAX_REMEMBERED_COUNTS: Final = 8192


class _Change(NamedTuple):
    position: int
    run_id: str | None
    diff: acp.Diff


class _FileChanges(NamedTuple):
    """The diffs of a file; consecutive ones are joined. `position`: of the last change."""

    diffs: list[acp.Diff]
    position: int


def changes_summary(session_rows: SessionRows, run_id: str | None = None) -> ChangesSummary:
    """The changes of a session; with a `run_id`, of that run only."""
    changes = [change for change in _changes(session_rows) if run_id in (None, change.run_id)]
    files = _by_file(changes)
    listed = list(files.items())[-MAX_FILES:]
    terminals = [row for row in session_rows.terminals if run_id in (None, row.run_id)]
    return ChangesSummary(
        files=tuple(_changed_file(path, file) for path, file in reversed(listed)),
        more_files=len(files) - len(listed),
        runs=_by_run(changes),
        terminals=tuple(map(_without_output, terminals[-MAX_TERMINALS:])),
        more_terminals=max(0, len(terminals) - MAX_TERMINALS),
    )


def file_diffs(session_rows: SessionRows, path: str, run_id: str | None = None) -> FileDiffs:
    """The changes of one file, in their order."""
    changes = (change for change in _changes(session_rows) if run_id in (None, change.run_id))
    file = _by_file(change for change in changes if change.diff.path == path).get(path)
    diffs = file.diffs if file is not None else []
    sent: list[DiffItem] = []
    room = MAX_DIFF_CHARS
    for diff in reversed(diffs):
        room -= len(diff.old_text or "") + len(diff.new_text)
        if room < 0:
            break
        sent.append(diff_item(diff))
    return FileDiffs(diffs=tuple(reversed(sent)), more=len(diffs) - len(sent))


def _changed_file(path: str, file: _FileChanges) -> ChangedFile:
    added, removed = _count(file.diffs)
    return ChangedFile(
        path=path,
        added=added,
        removed=removed,
        created=file.diffs[0].old_text is None,
        changes=len(file.diffs),
        position=file.position,
    )


def _by_run(changes: Iterable[_Change]) -> tuple[RunChanges, ...]:
    runs: dict[str, list[_Change]] = {}
    for change in changes:
        if change.run_id is not None:
            runs.setdefault(change.run_id, []).append(change)
    listed: list[RunChanges] = []
    for run_id, changes_of_run in list(runs.items())[-MAX_RUNS:]:
        files = _by_file(changes_of_run)
        added, removed = _count([diff for file in files.values() for diff in file.diffs])
        listed.append(RunChanges(run_id=run_id, files=len(files), added=added, removed=removed))
    return tuple(listed)


def _without_output(row: rows.Terminal) -> Terminal:
    model = row_model(msgspec.structs.replace(row, output=None))
    assert isinstance(model, Terminal)
    return model


def shown_files(session_rows: SessionRows) -> set[str]:
    """The paths of the files that a conversation shows: those that were read or changed in it."""
    paths = {change.diff.path for change in _changes(session_rows)}
    paths.update(call.path for call in session_rows.file_calls if call.status == "done")
    for call in session_rows.tool_calls:
        if call.status == "completed":
            paths.update(location.path for location in call.locations)
    return paths


# -- which diffs are changes


def _changes(session_rows: SessionRows) -> list[_Change]:
    """The changes of a session, in their order."""
    changes: list[_Change] = []
    calls = {call.id: call for call in session_rows.tool_calls}
    for call in session_rows.tool_calls:
        if call.status == "completed":
            position = row_position(call.id)
            changes += [_Change(position, call.run_id, item) for item in call.content if isinstance(item, acp.Diff)]
    for file_call in session_rows.file_calls:
        if file_call.diff is not None and file_call.status == "done":
            changes.append(_Change(row_position(file_call.id), file_call.run_id, file_call.diff))
    # Some agents send a diff with their permission request, and none with the tool call that then makes the change.
    reported = {(change.run_id, change.diff.path): change.position for change in sorted(changes, key=_position)}
    for permission in session_rows.permissions:
        permitted = calls.get(permission.tool_call_row or "")
        if permitted is None or permitted.status != "completed" or not _is_allowed(permission):
            continue
        position = row_position(permitted.id)
        changes += [
            _Change(position, permitted.run_id, item)
            for item in permission.content
            if isinstance(item, acp.Diff) and reported.get((permitted.run_id, item.path), -1) < position
        ]
    return sorted(changes, key=_position)


def _position(change: _Change) -> int:
    return change.position


def _by_file(changes: Iterable[_Change]) -> dict[str, _FileChanges]:
    """The changes of each file, the file that was changed last at the end."""
    files: dict[str, _FileChanges] = {}
    for change in changes:
        file = files.pop(change.diff.path, None)
        diffs = _joined(file.diffs, change.diff) if file is not None else [change.diff]
        files[change.diff.path] = _FileChanges(diffs, change.position)
    return files


def _is_allowed(permission: rows.Permission) -> bool:
    if permission.outcome != "selected":
        return False
    kind = permission.option_kind
    return kind.startswith("allow") if kind else permission.decision == "allow"


def _joined(diffs: list[acp.Diff], diff: acp.Diff) -> list[acp.Diff]:
    last = diffs[-1]
    # The tool's own diff and the write that it made through the host report the same change twice.
    if last.new_text == diff.new_text and (last.old_text or "") == (diff.old_text or ""):
        return diffs
    if last.new_text == diff.old_text:
        return [*diffs[:-1], msgspec.structs.replace(diff, old_text=last.old_text)]
    return [*diffs, diff]


# -- line counts

_counts: Final[OrderedDict[bytes, tuple[int, int]]] = OrderedDict()  # by a digest of the diff


def _count(diffs: Sequence[acp.Diff]) -> tuple[int, int]:
    """The numbers of lines that diffs add and remove, together."""
    counts = [_remembered_count(diff.old_text or "", diff.new_text) for diff in diffs]
    return sum(added for added, _ in counts), sum(removed for _, removed in counts)


def _remembered_count(old: str, new: str) -> tuple[int, int]:
    key = hashlib.blake2b(f"{len(old)} {old}{new}".encode("utf-8", "surrogatepass"), digest_size=16).digest()
    count = _counts.get(key)
    if count is None:
        count = _counts[key] = count_lines(old, new)
        while len(_counts) > MAX_REMEMBERED_COUNTS:
            _counts.popitem(last=False)
    return count


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
