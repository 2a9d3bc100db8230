"""The demo agent under a client built on the official TypeScript SDK."""

from __future__ import annotations

from pathlib import Path

import pytest

from interop import demo

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]  # the SDK is installed first


async def test_every_frame_of_the_demo_agent_is_valid_for_the_sdk(node_sdk: Path, tmp_path: Path) -> None:
    report = await demo.driven_by(["node", str(demo.HERE / "client.mjs"), str(node_sdk)], tmp_path)
    assert report["outcomes"] == demo.OUTCOMES
    assert set(report["heard"]) == demo.EVERYTHING - {"answer to session/fork"}
    assert report["problems"] == []
    # Parts that are in the schema only together with its unstable features.
    assert set(report["unstable"]) == {
        "answer to initialize: agentCapabilities.sessionCapabilities.fork",
        "answer to session/prompt: usage",
    }
