"""`Staged`: a real agent for the page's server, on a scripted model.

The server's user has told it, in config.toml, how the agent is started. Tests at the browser have no event loop of
their own, so the model's runs in a thread.
"""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path

import pytest

from agents.catalog import RealAgent
from agents.conftest import Stage, staged
from dragoman.agents.preset import Preset, load_preset
from dragoman.config import load
from page.server import Server

# Seconds: the first test of an agent may have to install it.
SETUP_TIMEOUT_S = 240.0


class Staged:
    def __init__(self, stage: Stage, server: Server) -> None:
        self.agent = stage.agent
        self.requests = stage.requests
        self.home = stage.home
        self.server = server

    @property
    def name(self) -> str:
        """The name that the page shows."""
        return self._preset.name

    @property
    def _preset(self) -> Preset:
        return load_preset(self.agent.id, load())

    @property
    def written(self) -> Path:
        """The new file that `writing` makes."""
        return self.server.workspace / "written.txt"

    @property
    def writing(self) -> str:
        return self.agent.write(self.written)

    def wrapper(self) -> Path:
        """A program that starts the agent, and leaves `wrapped` in its HOME."""
        program = self.home / "wrapper"
        program.write_text(f'#!/bin/sh\ntouch "$HOME/wrapped"\nexec {self._preset.command} "$@"\n')
        program.chmod(0o755)
        return program

    def processes(self) -> list[int]:
        """All that live with the agent's HOME as theirs: the agent, and what it started."""
        return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit() and self._is_its(entry)]

    def _is_its(self, process: Path) -> bool:
        try:
            return f"HOME={self.home}".encode() in (process / "environ").read_bytes().split(b"\0")
        except OSError:  # it has ended, or is not ours
            return False


@contextmanager
def on_stage(agent: RealAgent, folder: Path, config: pytest.Config) -> Iterator[Staged]:
    """The server, running, with this agent; both have ended afterwards, with everything they started."""
    for place in ("agent", "server"):
        (folder / place).mkdir()
    with _loop() as loop:
        stack = AsyncExitStack()
        entering = stack.enter_async_context(staged(agent, folder / "agent", config))
        stage = asyncio.run_coroutine_threadsafe(entering, loop).result(SETUP_TIMEOUT_S)
        server = Server(folder / "server")
        _write_config(server.home, stage)
        here = Staged(stage, server)
        try:
            server.start()
            yield here
        finally:
            server.stop()
            asyncio.run_coroutine_threadsafe(stack.aclose(), loop).result(SETUP_TIMEOUT_S)
    assert here.processes() == [], "a process of the agent was left"


@contextmanager
def _loop() -> Iterator[asyncio.AbstractEventLoop]:
    """An event loop that runs in a thread."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield loop
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def _write_config(home: Path, stage: Stage) -> None:
    away = [name for name, value in stage.env.items() if value is None and name in os.environ]
    if away:
        pytest.skip(f"{', '.join(away)} would have the agent keep its files elsewhere")
    home.mkdir()
    lines = [f"{name} = {json.dumps(value)}" for name, value in stage.env.items() if value is not None]
    (home / "config.toml").write_text("\n".join((f"[agents.{stage.agent.id}.env]", *lines, "")))
