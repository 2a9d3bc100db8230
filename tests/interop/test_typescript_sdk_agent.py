"""Our client and an agent built on the official TypeScript SDK, over a pipe."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.session.runtime import AgentRuntime
from dragoman.session.spec import AgentSpec
from interop import tour

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]  # the SDK is installed first


async def test_every_method_of_the_stable_protocol_is_understood_both_ways(
    node_agent: list[str], tmp_path: Path
) -> None:
    spec = AgentSpec(command=node_agent, read_files=True, write_files=True, terminals=True)
    async with AgentRuntime(spec) as runtime:
        report = await tour.take(runtime, tmp_path, more_updates=tour.NEWER_UPDATES)
    assert set(report["heard"]) == tour.EVERYTHING
    assert report["lost"] == []
