"""Real agents, each installed once into a cache, run with a HOME of its own against a scripted model on loopback."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from dragoman import AgentRuntime, AgentSpec, Limits, Session, SessionConfig, Workspace
from dragoman.agents.preset import load_preset
from dragoman.config import load
from dragoman.errors import ExitedAtStart, StartTimeout
from dragoman.host.permission import OnPermission
from dragoman.host.policy.rulebook import RuleSources
from dragoman.proc._reaper_main import marked_processes
from dragoman.proc.link import AgentLink
from dragoman.proc.process import ProcessLink
from dragoman.proc.reaper import reaper
from dragoman.session.client import spec_for_session
from dragoman.session.journal_client import JournalClient
from dragoman.session.link import launch
from dragoman.session.spec import spec_of_preset
from dragoman.testing.model import SeenRequest, Server, serve
from dragoman.testing.model.conversation import AUXILIARY_REPLY
from dragoman.testing.tee import recorded
from support.programs import HIDDEN_PROGRAMS, path_without

from .catalog import AGENTS, NODE, RealAgent
from .install import CannotInstall, installed
from .table import Table

TIMEOUT_S = 120.0
"""Seconds until a test gives up waiting for an agent: one prompt takes up to 20 on a busy machine."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("real agents")
    group.addoption("--write-recordings", action="store_true", help="play the quirks' scenes, and keep recordings")
    group.addoption("--write-table", action="store_true", help="keep what each agent does, for docs/agents.md")


start_retries: list[str] = []
"""Starts of third-party agents that failed and were tried a second time, in this process: one line each."""


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Hand the retries to tests/conftest.py, which prints them: across processes where xdist is used."""
    output = getattr(session.config, "workeroutput", session.config.__dict__)
    output["agent_start_retries"] = start_retries


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--write-table", default=False) and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Table(), "table of real agents")


def processes() -> list[int]:
    """Return all running processes of agents, found by the marker in their environment."""
    return marked_processes(f"{reaper().prefix}.", prefix=True)


class Requests:
    """The requests that the model received."""

    def __init__(self) -> None:
        self.seen: list[SeenRequest] = []
        self._more = asyncio.Event()

    def note(self, seen: SeenRequest) -> None:
        self.seen.append(seen)
        self._more.set()

    async def failed(self, times: int) -> None:
        """Wait until the model has answered `times` times with an error."""
        while sum(seen.status >= 400 for seen in self.seen) < times:
            self._more.clear()
            await self._more.wait()

    def had(self, text: str) -> bool:
        """Return whether any request contained this text."""
        return any(text.encode() in seen.body for seen in self.seen)


class Frame(msgspec.Struct, frozen=True):
    """One frame of a recording, with what tests ask of it."""

    dir: str
    id: Any = None
    method: str | None = None
    params: Any = None
    result: Any = None
    error: Any = None

    @property
    def session_id(self) -> str | None:
        return self.params.get("sessionId") if isinstance(self.params, dict) else None

    @property
    def update(self) -> str | None:
        """The kind of a `session/update`."""
        return self.params["update"]["sessionUpdate"] if self.method == "session/update" else None


def frames_of(lines: list[bytes]) -> list[Frame]:
    read = (msgspec.json.decode(line) for line in lines)
    frames = ((line["dir"], line["frame"]) for line in read if line["dir"] != "noise")
    return [msgspec.convert({**frame, "dir": direction}, Frame) for direction, frame in frames]


class Stage:
    """One test's agent: its HOME, its workspace, its model; and what was said to it and by it."""

    def __init__(
        self, agent: RealAgent, folder: Path, server: Server, programs: list[Path], requests: Requests
    ) -> None:
        self.agent = agent
        self.home = folder / "home"
        self.folder = folder / "workspace"
        self.requests = requests
        self.links: list[AgentLink] = []
        self.lines: list[bytes] = []
        self.more_env: dict[str, str] = {}
        self.offers: dict[str, Any] = {}  # of the spec, in place of the preset's
        self.server = server
        self.programs = programs
        self._path = path_without(HIDDEN_PROGRAMS, folder / "programs", os.environ["PATH"])
        self.home.mkdir()
        self.folder.mkdir()
        for name, text in agent.files.items():
            file = self.home / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(self._filled(text))

    def _filled(self, text: str) -> str:
        return text.replace("{url}", self.server.url).replace("{home}", str(self.home))

    @property
    def env(self) -> dict[str, str | None]:
        path = os.pathsep.join((*map(str, self.programs), self._path))
        own: dict[str, str | None] = {
            name: self._filled(value) for name, value in {**self.agent.env, **self.more_env}.items()
        }
        # Where these are set, agents keep their files there, and not in HOME.
        away = ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME")
        return {**dict.fromkeys(away), "HOME": str(self.home), "PATH": path, **own}

    @property
    def spec(self) -> AgentSpec:
        spec = spec_of_preset(load_preset(self.agent.id, load()), env=self.env)
        return msgspec.structs.replace(spec, cwd=self.folder, **self.offers)

    @asynccontextmanager
    async def runtime(
        self, *, journal_client: JournalClient | None = None, config: SessionConfig | None = None, **limits: float
    ) -> AsyncIterator[AgentRuntime]:
        """Start the agent, and once more if it does not come up: the retry is reported at the end of the test run.

        `config`: of the session that is to be opened on it, as far as it decides how the agent is started.
        """
        try:
            runtime = await self._new_runtime(limits, journal_client, config).start()
        except (ExitedAtStart, StartTimeout) as error:
            start_retries.append(f"{self.agent.id}: {error}")
            self.links.clear()
            self.lines.clear()
            runtime = await self._new_runtime(limits, journal_client, config).start()
        try:
            yield runtime
        finally:
            await runtime.close()

    def _new_runtime(
        self, limits: dict[str, float], journal_client: JournalClient | None, config: SessionConfig | None = None
    ) -> AgentRuntime:
        launch_it = recorded(self.lines.append, self._launch)
        sources = RuleSources(self.home / ".dragoman")
        keep = journal_client is not None
        spec = self.spec if config is None else spec_for_session(self.spec, config, load(), keep=keep)
        return AgentRuntime(
            spec, limits=Limits(**limits), sources=sources, launch=launch_it, journal_client=journal_client
        )

    async def _launch(self, spec: AgentSpec, limits: Limits, on_stderr: Callable[[str], None]) -> AgentLink:
        link = await launch(spec, limits, on_stderr)
        self.links.append(link)
        return link

    def config(
        self, on_permission: OnPermission | None = None, folder: Path | None = None, **more: Any
    ) -> SessionConfig:
        return SessionConfig(workspace=Workspace(folder or self.folder), on_permission=on_permission, **more)

    @asynccontextmanager
    async def session(self, on_permission: OnPermission | None = None, **config: Any) -> AsyncIterator[Session]:
        async with self.runtime() as runtime:
            yield await runtime.open_session(self.config(on_permission, **config))

    @property
    def leader(self) -> int:
        """The process that was started; agents have others below it."""
        link = self.links[0]
        assert isinstance(link, ProcessLink)
        return link.pid

    @property
    def frames(self) -> list[Frame]:
        return frames_of(self.lines)


class Shared:
    """One agent's process for several tests, each with a session and a folder of its own: most programs use it so."""

    def __init__(self, stage: Stage, runtime: AgentRuntime) -> None:
        self.stage = stage
        self.agent = stage.agent
        self.runtime = runtime
        self.requests = stage.requests
        self._folders = 0

    def folder(self) -> Path:
        self._folders += 1
        folder = self.stage.folder / str(self._folders)
        folder.mkdir()
        return folder

    @asynccontextmanager
    async def session(
        self, on_permission: OnPermission | None = None, folder: Path | None = None, **config: Any
    ) -> AsyncIterator[Session]:
        made = self.stage.config(on_permission, folder or self.folder(), **config)
        async with asyncio.timeout(TIMEOUT_S), await self.runtime.open_session(made) as session:
            yield session


@asynccontextmanager
async def staged(
    agent: RealAgent, folder: Path, config: pytest.Config, *, auxiliary_reply: str | None = AUXILIARY_REPLY
) -> AsyncIterator[Stage]:
    capturing = config.pluginmanager.getplugin("capturemanager")

    def say(line: str) -> None:
        with capturing.global_and_fixture_disabled():  # people wait for this: it is no output of a test
            print(f"\n{line}", file=sys.stderr, flush=True)

    wanted = {agent.id: agent.packages, "node": (NODE,)}
    try:
        programs = [await asyncio.to_thread(installed, name, packages, say) for name, packages in wanted.items()]
    except CannotInstall as problem:
        pytest.skip(str(problem))
    requests = Requests()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DRAGOMAN_HOME", str(folder / "dragoman"))
        async with await serve(on_request=requests.note, auxiliary_reply=auxiliary_reply) as server:
            yield Stage(agent, folder, server, programs, requests)


@pytest.fixture(params=AGENTS, ids=lambda agent: agent.id, scope="module")
def agent(request: pytest.FixtureRequest) -> RealAgent:
    chosen: RealAgent = request.param
    return chosen


@pytest.fixture
async def stage(agent: RealAgent, tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Stage]:
    before = processes()  # of a process that tests share
    async with staged(agent, tmp_path, request.config) as stage:
        yield stage
        assert processes() == before, "a process of the agent was left"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(
    agent: RealAgent, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> AsyncIterator[Shared]:
    async with staged(agent, tmp_path_factory.mktemp(agent.id), request.config) as stage:
        async with stage.runtime() as runtime:
            yield Shared(stage, runtime)
        assert not processes(), "a process of the agent was left"
