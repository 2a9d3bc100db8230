from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bridge.standing import Standing, standing


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Standing]:
    async with standing(tmp_path / "home") as server:
        yield server
