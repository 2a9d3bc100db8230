"""Hubs on a home folder of the test's own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from dragoman.hub.hub import Hub


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DRAGOMAN_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def new_hub(home: Path) -> Callable[[], Hub]:
    return lambda: Hub(home)
