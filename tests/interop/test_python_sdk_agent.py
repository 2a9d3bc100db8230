"""Our client and an agent built on the official Python SDK, over a pipe."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.session.runtime import AgentRuntime
from dragoman.session.spec import AgentSpec
from interop import tour

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]  # the SDK is installed first


async def test_every_method_of_the_stable_protocol_is_understood_both_ways(
    python_agent: list[str], tmp_path: Path
) -> None:
    spec = AgentSpec(command=python_agent, read_files=True, write_files=True, terminals=True)
    async with AgentRuntime(spec) as runtime:
        report = await tour.take(runtime, tmp_path)
    assert set(report["heard"]) == tour.EVERYTHING
    # The SDK is of an older schema, and does not know what we offer here.
    assert set(report["lost"]) == {
        "initialize: clientCapabilities.session.compaction",
        "initialize: clientCapabilities.session.notices",
    }
