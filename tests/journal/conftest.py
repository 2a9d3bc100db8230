"""Every journal there is, for tests that hold for all of them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Literal

import pytest

from dragoman.journal.protocols import Journal
from dragoman.journal.sqlite import MemoryJournal, SqliteJournal


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest) -> Literal["memory", "sqlite"]:
    kind: Literal["memory", "sqlite"] = request.param
    return kind


@pytest.fixture
async def journal(store: str, tmp_path: Path) -> AsyncIterator[Journal]:
    opened: MemoryJournal | SqliteJournal
    opened = MemoryJournal() if store == "memory" else await SqliteJournal.open(tmp_path / "journal.db")
    async with opened:
        yield opened
