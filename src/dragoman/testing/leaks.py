"""A check that nothing is left: no task, no descriptor, no process. It reads `/proc`, so it needs Linux."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from dragoman.proc.reaper import reaper

# Iterations of the event loop in which a task that is ending may end.
MAX_LOOP_ITERATIONS = 100


@asynccontextmanager
async def nothing_left() -> AsyncIterator[None]:
    """Raise AssertionError if the block leaves a task, a descriptor or a process behind."""
    reaper().ensure()  # the one process that we keep; it must not count as left
    descriptors, children, tasks = _descriptors(), _children(), asyncio.all_tasks()
    yield
    await _settle(tasks)
    if more := [task for task in asyncio.all_tasks() if task not in tasks and task is not asyncio.current_task()]:
        raise AssertionError(f"tasks were left: {more}")
    if left_open := {name: what for name, what in _descriptors().items() if descriptors.get(name) != what}:
        raise AssertionError(f"descriptors were left: {left_open}")
    if alive := _children() - children:
        raise AssertionError(f"processes were left: {alive}")


async def _settle(known: set[asyncio.Task[Any]]) -> None:
    for _ in range(MAX_LOOP_ITERATIONS):
        if not asyncio.all_tasks() - known - {asyncio.current_task()}:
            return
        await asyncio.sleep(0)


def _descriptors() -> dict[str, str]:
    found = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            found[name] = os.readlink(f"/proc/self/fd/{name}")
        except OSError:  # the listing's own
            continue
    return found


def _children() -> set[int]:
    """Return our child processes, including ended ones that nobody has waited for."""
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
            except OSError:  # gone meanwhile
                continue
            parent = stat.rpartition(")")[2].split()[1]
            if int(parent) == os.getpid():
                found.add(int(entry.name))
    return found
