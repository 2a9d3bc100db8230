"""Two hundred evaluations in a row, and nothing is left of them."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from dragoman.evaluation.evaluate import evaluate
from dragoman.evaluation.tool import tool
from dragoman.session.runtime import AgentRuntime
from dragoman.testing.demo import demo_in_memory, demo_spec
from dragoman.testing.leaks import nothing_left
from dragoman.testing.memory import memory_runtime

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only /proc tells what is left")

TIMES = 200


def listening() -> set[str]:
    """The ports of this process."""
    own = {os.readlink(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd") if _is_socket(name)}
    found = set()
    for line in Path("/proc/self/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[3] == "0A" and f"socket:[{fields[9]}]" in own:
            found.add(fields[1])
    return found


def _is_socket(name: str) -> bool:
    try:
        return os.readlink(f"/proc/self/fd/{name}").startswith("socket:")
    except OSError:
        return False


@tool(read_only=True)
def lookup(sku: str) -> int:
    """Return the number in stock."""
    return len(sku)


async def many(runtime: AgentRuntime | None, tmp_path: Path, times: int) -> None:
    spec = demo_spec(tmp_path / "demo")
    for number in range(times):
        response = await evaluate(
            runtime or spec, f'{{"n": {number}}}', output_type=dict[str, int], tools=[lookup], cwd=tmp_path
        )
        assert response.output == {"n": number}


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for temporary files that nobody else uses."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return folder


async def nothing_is_left_of(tmp_path: Path, runtime: AgentRuntime | None, times: int) -> None:
    await many(runtime, tmp_path, 2)  # what is loaded once, and stays
    threads, folders, ports = threading.active_count(), set(os.listdir(tempfile.gettempdir())), listening()
    async with nothing_left():
        await many(runtime, tmp_path, times)
    assert listening() == ports
    assert threading.active_count() <= threads + 1  # of the pool, which grows to its size and stays
    assert set(os.listdir(tempfile.gettempdir())) == folders


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_two_hundred_evaluations_in_a_process_of_their_own_leave_nothing(tmp_path: Path) -> None:
    await nothing_is_left_of(tmp_path, None, TIMES)


async def test_evaluations_on_one_agent_leave_nothing(tmp_path: Path) -> None:
    async with memory_runtime(demo_in_memory(tmp_path / "demo")) as runtime:
        await nothing_is_left_of(tmp_path, runtime, 20)


async def test_an_aborted_evaluation_leaves_nothing(tmp_path: Path) -> None:
    await many(None, tmp_path, 1)
    async with nothing_left():
        for ticks in (0, 1, 5, 20, 100):
            task = asyncio.ensure_future(many(None, tmp_path, 1))
            for _ in range(ticks):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
