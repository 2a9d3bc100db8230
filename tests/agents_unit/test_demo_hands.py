"""The demo agent's own commands: cancelled at any moment, they leave nothing."""

from __future__ import annotations

import asyncio
import gc
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from dragoman.agents.demo.session import PromptRun, Tool
from dragoman.agents.demo.workspace_scenes import _run_own
from dragoman.testing.leaks import nothing_left


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
async def test_a_command_of_its_own_that_is_cancelled_at_any_moment_leaves_nothing(tmp_path: Path) -> None:
    turn = cast(PromptRun, SimpleNamespace(session=SimpleNamespace(cwd=str(tmp_path))))
    tool = cast(Tool, SimpleNamespace(progress=lambda: None))
    gc.disable()  # it would close what was lost
    try:
        async with nothing_left(), asyncio.timeout(20):
            for steps in range(12):
                running = asyncio.create_task(_run_own(turn, tool, ["sleep", "1000"]))
                for _ in range(steps):
                    await asyncio.sleep(0)
                running.cancel()
                await asyncio.wait({running})
                assert running.cancelled()
    finally:
        gc.enable()
