"""Random trees and edits: each checkpoint is the tree of plain git, and a rewind brings back every byte."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dragoman.workspace.checkpoint_store import CheckpointStore, LogEntry
from workspace.folder_state import folder_state, plain_tree

# Few names, so that edits meet: a file where a folder was, a link where a file was. Some are hard for git or a shell.
NAMES = (b"a", b"b", b"c d", b"\xff\xfe", "é".encode(), b"x\ny", b":(top)", b"*", b".gitattributes", b"-f")
CONTENTS = st.one_of(
    st.binary(max_size=40),
    st.sampled_from([b"", b"one\r\ntwo\r\n", b"* text eol=crlf\n", b"$Id$\n", b"\0" * 2000, b"same\n"]),
)
PATHS = st.lists(st.sampled_from(NAMES), min_size=1, max_size=3).map(b"/".join)

EDITS = st.one_of(
    st.tuples(st.just("write"), PATHS, CONTENTS),
    st.tuples(st.just("executable"), PATHS, CONTENTS),
    st.tuples(st.just("link"), PATHS, st.sampled_from([b"a", b"../a", b"/etc/passwd", b"nowhere", b"."])),
    st.tuples(st.just("remove"), PATHS, st.just(b"")),
    st.tuples(st.just("rename"), PATHS, PATHS),
)


def edit(root: bytes, kind: str, path: bytes, value: bytes) -> None:
    """Make a change, by force: whatever is in its way is removed."""
    target = os.path.join(root, path)
    if kind == "rename":
        destination = os.path.join(root, value)
        is_inside = (value + b"/").startswith(path + b"/") or (path + b"/").startswith(value + b"/")
        if os.path.lexists(target) and not is_inside:
            clear(root, value)
            if os.path.lexists(target):  # it may have been behind a link that was cleared
                os.rename(target, destination)
        return
    clear(root, path)
    if kind == "link":
        os.symlink(value, target)
    elif kind != "remove":
        with open(target, "wb") as file:
            file.write(value)
        os.chmod(target, 0o755 if kind == "executable" else 0o644)


def clear(root: bytes, path: bytes) -> None:
    """Make room at a path, and real folders above it."""
    parts = path.split(b"/")
    for end in range(1, len(parts) + 1):
        current = os.path.join(root, *parts[:end])
        if end < len(parts) and os.path.isdir(current) and not os.path.islink(current):
            continue
        if os.path.isdir(current) and not os.path.islink(current):
            shutil.rmtree(current)
        elif os.path.lexists(current):
            os.unlink(current)
        if end < len(parts):
            os.mkdir(current)


STEPS = st.lists(st.lists(EDITS, min_size=1, max_size=6), min_size=1, max_size=3)
TARGETS = st.lists(st.integers(min_value=0, max_value=10), min_size=1, max_size=2)


@given(STEPS, TARGETS)
@settings(max_examples=6, suppress_health_check=[HealthCheck.too_slow])
@pytest.mark.timeout(300)
def test_a_checkpoint_is_what_plain_git_records_and_a_rewind_brings_it_back(
    steps: Sequence[Sequence[tuple[str, bytes, bytes]]], targets: Sequence[int]
) -> None:
    check(steps, targets)


@given(STEPS, TARGETS)
@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_many_checkpoints_are_what_plain_git_records(
    steps: Sequence[Sequence[tuple[str, bytes, bytes]]], targets: Sequence[int]
) -> None:
    check(steps, targets)


def check(steps: Sequence[Sequence[tuple[str, bytes, bytes]]], targets: Sequence[int]) -> None:
    """Take a checkpoint after each step, then rewind to some of them, and undo the last rewind."""
    base = Path(tempfile.mkdtemp(prefix="dragoman-test-"))
    try:
        folder = base / "work"
        folder.mkdir()
        repository = CheckpointStore(base / "home", folder, max_file_bytes=10**6)
        taken: list[tuple[LogEntry, dict[bytes, tuple[str, bytes]]]] = []
        for number, edits in enumerate(steps):
            for change in edits:
                edit(os.fsencode(folder), *change)
            _, (entry,) = repository.take([_entry(number)])
            assert entry is not None
            assert entry.skipped_paths == ()
            assert entry.tree == plain_tree(folder, base / "plain")
            taken.append((entry, folder_state(folder)))
        for number, target in enumerate(targets):
            entry, state = taken[target % len(taken)]
            before = folder_state(folder)
            undo = _rewind(repository, entry, number)
            assert folder_state(folder) == state
            assert plain_tree(folder, base / "plain") == entry.tree
            if number == len(targets) - 1:
                _rewind(repository, undo, number + 100)
                assert folder_state(folder) == before
    finally:
        shutil.rmtree(base)


def _entry(number: int, **fields: Any) -> LogEntry:
    return LogEntry(at=float(number), session_id="s", run_id=f"run-{number}", moment="after", tree="", **fields)


def _rewind(repository: CheckpointStore, target: LogEntry, number: int) -> LogEntry:
    """Rewind, and return the entry whose tree is the state before."""
    with repository.open() as git:
        plan = repository.plan(git, target)
        assert plan.left_paths == []
        entry = repository.begin_rewind(plan, _entry(number, operation=f"{number:016x}"))
        repository.apply_rewind(git, plan, entry)
    return entry
