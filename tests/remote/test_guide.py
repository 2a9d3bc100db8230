"""The guide to sessions on a server does what it says."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from docs import examples
from remote.real_server import RealServer

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "remote.md"
EXAMPLES = list(examples.examples(GUIDE))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.where)
async def test_an_example_runs_and_prints_what_is_shown(
    example: examples.Example, server: RealServer, folder: Path
) -> None:
    env = {**os.environ, "DRAGOMAN_URL": server.url, "DRAGOMAN_TOKEN": server.token()}
    printed = await asyncio.to_thread(examples.run, example, folder, env, {})
    assert example.expected is not None
    assert examples.matches(example.expected, printed, {}), printed
