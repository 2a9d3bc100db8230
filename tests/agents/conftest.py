"""Real agents, each installed once into a cache, run with a HOME of its own against a scripted model on loopback."""

from __future__ import annotations

import asyncio
import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from dragoman import AgentRuntime, AgentSpec, Limits, Session, SessionConfig, Workspace
from dragoman.agents.preset import load_preset
from dragoman.config import load
from dragoman.host.permission import OnPermission
from dragoman.proc._reaper_main import marked
from dragoman.proc.link import AgentLink
from dragoman.proc.process import ProcessLink
from dragoman.proc.reaper import reaper
from dragoman.session.launch import launch
from dragoman.session.spec import spec_of_preset
from dragoman.testing.model import Seen, Server, serve

from .catalog import AGENTS, NODE, RealAgent

LIMIT = 45.0
"""Seconds until a test gives up waiting for an agent: the slowest thing here takes about ten."""


def cache_folder() -> Path:
    chosen = os.environ.get("DRAGOMAN_TEST_CACHE")
    return Path(chosen).absolute() if chosen else Path(__file__).parents[2] / ".cache"


def installed(name: str, packages: tuple[str, ...], say: Callable[[str], None]) -> Path:
    """The folder with the packages' programs; installs them where they are not there yet, and says so."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("npm is not here to install the agent with")
    folder = cache_folder() / "agents" / name
    folder.mkdir(parents=True, exist_ok=True)
    programs = folder / "node_modules" / ".bin"
    stamp = folder / "installed"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several test processes may want it at once
        if stamp.exists() and stamp.read_text().split() == list(packages):
            return programs
        say(f"installing {' '.join(packages)} into {folder}")
        command = [npm, "install", "--no-save", "--no-audit", "--no-fund", "--prefix", str(folder), *packages]
        # npm itself chooses by its Node which versions to install, and installs older ones for an older Node.
        folders = [] if name == "node" else [str(installed("node", (NODE,), say))]
        env = {**os.environ, "PATH": os.pathsep.join((*folders, os.environ["PATH"]))}
        done = subprocess.run(command, capture_output=True, text=True, env=env)
        if done.returncode:
            pytest.fail(f"npm could not install {' '.join(packages)}:\n{done.stderr[-2000:]}", pytrace=False)
        stamp.write_text("\n".join(packages))
    return programs


def processes() -> list[int]:
    """All processes of agents that live, found by the marker in their environment."""
    return marked(f"{reaper().prefix}.", prefix=True)


class Errors:
    """Counts the model's answers that were errors."""

    def __init__(self) -> None:
        self.times = 0
        self.again = asyncio.Event()

    def note(self, seen: Seen) -> None:
        if seen.status >= 400:
            self.times += 1
            self.again.set()


class Stage:
    """One test's agent: its HOME, its workspace, its model."""

    def __init__(self, agent: RealAgent, folder: Path, server: Server, programs: list[Path], errors: Errors) -> None:
        self.agent = agent
        self.home = folder / "home"
        self.folder = folder / "workspace"
        self._errors = errors
        self.links: list[AgentLink] = []
        self._server = server
        self._programs = programs
        self.home.mkdir()
        self.folder.mkdir()
        for name, text in agent.files.items():
            file = self.home / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(self._filled(text))

    def _filled(self, text: str) -> str:
        return text.replace("{url}", self._server.url).replace("{home}", str(self.home))

    @property
    def env(self) -> dict[str, str | None]:
        path = os.pathsep.join((*map(str, self._programs), os.environ["PATH"]))
        own: dict[str, str | None] = {name: self._filled(value) for name, value in self.agent.env.items()}
        # Where these are set, agents keep their files there, and not in HOME.
        away = ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME")
        return {**dict.fromkeys(away), "HOME": str(self.home), "PATH": path, **own}

    @property
    def spec(self) -> AgentSpec:
        return spec_of_preset(load_preset(self.agent.id, load()), env=self.env)

    @asynccontextmanager
    async def runtime(self, **limits: float) -> AsyncIterator[AgentRuntime]:
        async with AgentRuntime(self.spec, limits=Limits(**limits), launch=self._launch) as runtime:
            yield runtime

    async def _launch(self, spec: AgentSpec, limits: Limits, on_stderr: Callable[[str], None]) -> AgentLink:
        link = await launch(spec, limits, on_stderr)
        self.links.append(link)
        return link

    def config(self, on_permission: OnPermission | None = None, folder: Path | None = None) -> SessionConfig:
        return SessionConfig(workspace=Workspace(folder or self.folder), on_permission=on_permission)

    @asynccontextmanager
    async def session(self, on_permission: OnPermission | None = None) -> AsyncIterator[Session]:
        async with self.runtime() as runtime:
            yield await runtime.open_session(self.config(on_permission))

    @property
    def leader(self) -> int:
        """The process that was started; agents have others below it."""
        link = self.links[0]
        assert isinstance(link, ProcessLink)
        return link.pid

    async def failed(self, times: int) -> None:
        """Waits until the model has answered so many times with an error."""
        while self._errors.times < times:
            self._errors.again.clear()
            await self._errors.again.wait()


@pytest.fixture(params=AGENTS, ids=lambda agent: agent.id)
def agent(request: pytest.FixtureRequest) -> RealAgent:
    chosen: RealAgent = request.param
    return chosen


@pytest.fixture
async def stage(
    agent: RealAgent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> AsyncIterator[Stage]:
    capturing = request.config.pluginmanager.getplugin("capturemanager")

    def say(line: str) -> None:
        with capturing.global_and_fixture_disabled():  # people wait for this: it is no output of a test
            print(f"\n{line}", file=sys.stderr, flush=True)

    monkeypatch.setenv("DRAGOMAN_HOME", str(tmp_path / "dragoman"))
    wanted = {agent.id: agent.packages, "node": (NODE,)}
    programs = [await asyncio.to_thread(installed, name, packages, say) for name, packages in wanted.items()]
    errors = Errors()
    async with await serve(on_request=errors.note) as server:
        yield Stage(agent, tmp_path, server, programs, errors)
        assert not processes(), "a process of the agent was left"
