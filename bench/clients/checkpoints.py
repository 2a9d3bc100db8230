"""Seconds for checkpoints and for the same work of git, on a folder of many files: `checkpoints FOLDER FILES`."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench.clients.report import report
from dragoman.workspace import tree_diff
from dragoman.workspace.checkpoint_store import CheckpointStore, LogEntry

# Files that an agent changes in a run, and that a rewind brings back.
CHANGED = 1000
SMALL = 20  # files of a small project

IDENTITY = ("-c", "user.name=bench", "-c", "user.email=bench@localhost")


def main(folder: Path, count: int) -> None:
    work = fill(folder / "work", count)
    git(work, "init", "--quiet")
    add_seconds = timed(lambda: git(work, "add", "--all"))
    git(work, *IDENTITY, "commit", "--quiet", "-m", "first")
    store = CheckpointStore(folder / "home", work, max_file_bytes=10**8, timeout_s=600)
    first = timed(store.take)
    for warm in (store.take, lambda: git(work, "status", "--porcelain")):
        warm()
    # In turns, so that whatever slows the machine slows both.
    pairs = [(timed(store.take), timed(lambda: git(work, "status", "--porcelain"))) for _ in range(5)]
    target = store.take([entry()])[1][0]
    assert target is not None
    changed = sorted(random.Random(17).sample(range(count), min(CHANGED, count)))
    for number in changed:
        with open(work / name(number), "a") as file:
            file.write("changed\n")
    after_change = timed(store.take)
    status_after_change = timed(lambda: git(work, "status", "--porcelain"))
    new = store.take()[0].tree
    with store.open() as repository:

        def compare() -> None:
            files = tree_diff.list_files(repository, target.tree, new)
            while files:
                files = files[len(tree_diff.read_lines(repository, target.tree, new, files)) :]

        diff = timed(compare)
    git_diff = timed(lambda: git(work, "diff"))

    def rewind() -> None:
        with store.open() as repository:
            plan = store.plan(repository, target)
            assert len(plan.changes) == len(changed)
            store.apply_rewind(repository, plan, store.begin_rewind(plan, entry()))

    rewound = timed(rewind)
    for number in changed:
        with open(work / name(number), "a") as file:
            file.write("changed\n")
    checkout = timed(lambda: git(work, "checkout", "--quiet", "--", "."))
    small = fill(folder / "small", SMALL)
    git(small, "init", "--quiet")
    small_store = CheckpointStore(folder / "home", small, max_file_bytes=10**8)
    small_store.take()
    small_pairs = [(timed(small_store.take), timed(lambda: git(small, "status", "--porcelain"))) for _ in range(20)]
    report(
        first=first,
        add=add_seconds,
        next=middle([ours for ours, _ in pairs]),
        status=middle([other for _, other in pairs]),
        after_change=after_change,
        status_after_change=status_after_change,
        diff=diff,
        git_diff=git_diff,
        rewind=rewound,
        checkout=checkout,
        small=middle([ours for ours, _ in small_pairs]),
        small_status=middle([other for _, other in small_pairs]),
    )


def name(number: int) -> str:
    return f"area{number // 2000}/part{number // 50}/file{number}.txt"


def fill(folder: Path, count: int) -> Path:
    chance = random.Random(1)
    for number in range(count):
        path = folder / name(number)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"line {number}\n" * chance.randrange(10, 200))
    return folder


def entry() -> LogEntry:
    return LogEntry(at=time.time(), session_id="bench", run_id="run", moment="after", tree="")


def git(folder: Path, *args: str) -> None:
    subprocess.run(["git", *args], cwd=folder, check=True, stdout=subprocess.DEVNULL)


def timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def middle(samples: list[float]) -> float:
    return sorted(samples)[len(samples) // 2]


if __name__ == "__main__":
    base = Path(tempfile.mkdtemp(prefix="dragoman-bench-", dir=os.path.abspath(sys.argv[1])))
    try:
        main(base, int(sys.argv[2]))
    finally:
        shutil.rmtree(base)
