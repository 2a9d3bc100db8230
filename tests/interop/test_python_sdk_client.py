"""The demo agent under a client built on the official Python SDK."""

from __future__ import annotations

from pathlib import Path

import pytest

from interop import demo

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]  # the SDK is installed first


async def test_every_frame_of_the_demo_agent_is_valid_for_the_sdk(python_sdk: Path, tmp_path: Path) -> None:
    report = await demo.driven_by([str(python_sdk), str(demo.HERE / "python_client.py")], tmp_path)
    assert report["outcomes"] == demo.OUTCOMES
    # The SDK is of an older schema, and has no words for these.
    assert set(report["heard"]) == demo.EVERYTHING - demo.NEWER_UPDATES
    assert report["problems"] == []
