from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from dragoman.remote.client import Client
from remote.real_server import RealServer, real_server


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DRAGOMAN_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("DRAGOMAN_DEMO_HOME", str(tmp_path / "demo"))
    monkeypatch.setenv("DRAGOMAN_DEMO_PACE", "0")
    return tmp_path / "home"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@pytest.fixture
async def server(home: Path) -> AsyncIterator[RealServer]:
    async with real_server(home) as server:
        yield server


@pytest.fixture
async def client(server: RealServer) -> AsyncIterator[Client]:
    async with server.client() as client:
        yield client
