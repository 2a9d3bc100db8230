"""Every test here must leave nothing behind."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator

import pytest

from dragoman.testing.leaks import nothing_left


@pytest.fixture
async def leaves_nothing() -> AsyncIterator[None]:
    if sys.platform != "linux":
        yield
        return
    async with nothing_left():
        yield
