from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bridge.stub_server import StubServer, stub_server


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[StubServer]:
    async with stub_server(tmp_path / "home") as server:
        yield server
