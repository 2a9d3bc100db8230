"""Leaked descriptors, tasks and processes are found."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys

import pytest

from dragoman.testing.leaks import nothing_left

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


async def test_a_block_that_leaves_nothing_passes() -> None:
    async with nothing_left():
        task = asyncio.ensure_future(asyncio.sleep(0))
        ends = os.pipe()
        await asyncio.to_thread(subprocess.run, ["true"], check=True)
        for end in ends:
            os.close(end)
    await task


async def test_a_task_that_is_left_is_told() -> None:
    task: asyncio.Task[bool] | None = None
    with pytest.raises(AssertionError, match="tasks were left"):
        async with nothing_left():
            task = asyncio.get_running_loop().create_task(asyncio.Event().wait())
    assert task is not None
    task.cancel()


async def test_a_descriptor_that_is_left_is_told() -> None:
    ends: tuple[int, ...] = ()
    with pytest.raises(AssertionError, match="descriptors were left"):
        async with nothing_left():
            ends = os.pipe()
    for end in ends:
        os.close(end)


async def test_a_process_that_is_left_is_told() -> None:
    left: list[subprocess.Popen[bytes]] = []

    def start() -> None:
        left.append(subprocess.Popen(["true"]))

    with pytest.raises(AssertionError, match="processes were left"):
        async with nothing_left():
            start()
    for process in left:
        process.wait()
