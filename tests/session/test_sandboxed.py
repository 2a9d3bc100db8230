"""Sessions in a sandbox: the agent and its terminals are confined, or nothing is started."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
import pytest

from dragoman import AgentRuntime, AgentSpec, PolicyRule, SessionConfig, Workspace, events, open_session
from dragoman.config import Config, load
from dragoman.errors import InputError, SandboxUnavailable
from dragoman.session.client import LocalClient, spec_for_session
from dragoman.session.handle import config_of_handle
from dragoman.session.options import parse_sandbox
from dragoman.testing.demo import demo_spec
from dragoman.testing.memory import memory_runtime, runtime_of
from dragoman.testing.scripted import ScriptedAgent, Turn
from dragoman.workspace.sandbox_paths import allowed_paths
from dragoman.workspace.sandbox_policy import SandboxPolicy
from workspace.sandbox_support import machine_with

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux has these mechanisms")


@pytest.fixture
def landlock(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = machine_with("landlock without namespaces")
    monkeypatch.setattr("dragoman.workspace.sandbox.this_machine", lambda: machine)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a home that has a key, and a workspace."""
    (tmp_path / "home/.ssh").mkdir(parents=True)
    (tmp_path / "home/.ssh/id").write_text("the secret\n")
    (tmp_path / "workspace").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("DRAGOMAN_HOME", str(tmp_path / "home/.dragoman"))
    monkeypatch.setenv("DRAGOMAN_DEMO_PACE", "0")
    return tmp_path


@linux
@pytest.mark.usefixtures("landlock")
async def test_an_agent_and_its_terminals_are_confined_and_say_so(place: Path) -> None:
    workspace = place / "workspace"
    async with open_session("demo", cwd=workspace, sandbox=True, network=False, access="full") as session:
        report = session.capabilities().sandbox
        assert report is not None
        assert (report.mechanism, report.network) == ("landlock", "off")
        assert str(workspace) in report.writable
        run = session.run(f"run cat {place}/home/.ssh/id; echo x > {place}/planted; echo y > inside.txt")
        results = [event async for event in run if isinstance(event, events.ToolResult)]
        assert results
        assert (await session.run("edit README")).status == "success"
        assert session.snapshot().sandbox == "auto"
        assert session.snapshot().network is False
        assert config_of_handle(session.snapshot()).sandbox == "auto"
    assert (workspace / "inside.txt").read_text() == "y\n"
    assert not (place / "planted").exists()
    assert "the secret" not in str(results)
    assert (workspace / "README.md").exists()


@linux
@pytest.mark.usefixtures("landlock", "place")
async def test_a_configured_sandbox_holds_for_all_sessions_and_can_be_left_out(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRAGOMAN_SANDBOX", "landlock")
    async with open_session("demo", cwd=place / "workspace") as session:
        assert session.capabilities().sandbox is not None
    async with open_session("demo", cwd=place / "workspace", sandbox=False) as session:
        assert session.capabilities().sandbox is None


async def test_an_agent_elsewhere_cannot_be_confined(place: Path) -> None:
    with pytest.raises(SandboxUnavailable, match="runs elsewhere"):
        await open_session("ws://127.0.0.1:9", cwd=place / "workspace", sandbox=True, journal=False)


async def test_an_agent_that_was_started_without_a_sandbox_takes_no_session_that_wants_one(place: Path) -> None:
    async def script(turn: Turn) -> str:
        return "end_turn"

    async with runtime_of(script) as runtime:
        with pytest.raises(SandboxUnavailable, match="was started without a sandbox"):
            await runtime.open_session(SessionConfig(workspace=Workspace(place / "workspace"), sandbox=True))


@linux
@pytest.mark.usefixtures("landlock")
async def test_a_launch_that_knows_no_sandbox_starts_nothing_in_its_name(place: Path) -> None:
    async def script(turn: Turn) -> str:
        return "end_turn"

    spec = AgentSpec(command=["memory"], sandbox=SandboxPolicy(folders=(place / "workspace",)))
    runtime = memory_runtime(ScriptedAgent(script).main, spec=spec)
    with pytest.raises(SandboxUnavailable, match="knows no sandbox"):
        await runtime.start()


@linux
@pytest.mark.usefixtures("landlock")
async def test_a_sandbox_for_one_folder_takes_no_session_in_another(place: Path) -> None:
    spec = demo_spec(home=place / "demo")
    policy = SandboxPolicy(folders=(place / "workspace",), write=(str(place / "demo"),))
    (place / "other").mkdir()
    (place / "demo").mkdir(exist_ok=True)
    confined = AgentSpec(command=spec.command, env=spec.env, cwd=place / "workspace", sandbox=policy)
    async with AgentRuntime(confined) as runtime:
        await runtime.open_session(SessionConfig(workspace=Workspace(place / "workspace")))
        with pytest.raises(SandboxUnavailable, match="cannot work in"):
            await runtime.open_session(SessionConfig(workspace=Workspace(place / "other")))


# -- what is asked for


@pytest.mark.parametrize(
    ("value", "expected"),
    [(True, "auto"), ("on", "auto"), (False, "off"), ("landlock", "landlock"), (None, None)],
)
def test_the_sandbox_of_a_session_is_read_from_a_switch_or_a_mechanism(value: object, expected: str | None) -> None:
    assert parse_sandbox(value) == expected


def test_an_unknown_sandbox_is_an_error_that_lists_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="one of: off, auto, bubblewrap, landlock, seatbelt"):
        SessionConfig(workspace=Workspace(tmp_path), sandbox="firejail")


def test_the_policy_of_a_sandbox_comes_from_the_session_the_settings_and_the_preset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    settings = Config(
        home=tmp_path, sandbox="landlock", sandbox_read=(tmp_path / "r",), sandbox_write=(tmp_path / "w",)
    )
    spec = LocalClient(config=settings).spec_of("claude")
    rules = [
        PolicyRule("allow", host=["packages.example", "evil.test"]),
        PolicyRule("deny", host="evil.test"),
        PolicyRule("allow", host=["*.example.com", "a.corp.test"]),
        PolicyRule("ask", host=["secret.example.com", "*.corp.test"]),
    ]
    config = SessionConfig(workspace=Workspace(tmp_path), network="hosts", rules=tuple(rules))
    policy = spec_for_session(spec, config, settings).sandbox
    assert policy is not None
    assert policy.mechanism == "landlock"
    assert "~/.claude/" in policy.state
    assert "api.anthropic.com" in policy.hosts
    assert "a.corp.test" not in policy.hosts
    assert policy.refused_hosts == ("evil.test", "secret.example.com", "*.corp.test")
    assert "packages.example" in policy.hosts
    assert "evil.test" not in policy.hosts
    assert not policy.network
    assert (policy.read, policy.write) == ((str(tmp_path / "r"),), (str(tmp_path / "w"),))
    off = spec_for_session(spec, SessionConfig(workspace=Workspace(tmp_path), network=False), settings).sandbox
    assert off is not None
    assert "packages.example" not in off.hosts
    on = spec_for_session(spec, SessionConfig(workspace=Workspace(tmp_path)), settings).sandbox
    assert on is not None
    assert on.network
    none = spec_for_session(spec, SessionConfig(workspace=Workspace(tmp_path), sandbox=False), settings)
    assert none.sandbox is None


def test_the_users_own_skills_can_be_read_in_a_sandbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Prompts name the files of skills, which the agent then reads; the home folder around them stays closed."""
    home, workspace = tmp_path / "user", tmp_path / "workspace"
    for folder in (home / ".agents/skills", workspace / "skills"):
        folder.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    settings = Config(home=tmp_path / "dragoman", sandbox="landlock", skills_folders="~/, skills, .agents/skills")
    spec = LocalClient(config=settings).spec_of("demo")
    policy = spec_for_session(spec, SessionConfig(workspace=Workspace(workspace)), settings).sandbox
    assert policy is not None
    assert policy.read == (str(home / ".agents/skills"),)


def test_settings_of_the_sandbox_are_read_from_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(
        'sandbox = "on"\nsandbox_network = "hosts"\nsandbox_read = ["~/.m2"]\nsandbox_write = ["/srv/cache"]\n'
    )
    config = load(tmp_path, {"HOME": "/home/ada"})
    assert (config.sandbox, config.sandbox_network) == ("auto", "hosts")
    assert (config.sandbox_read, config.sandbox_write) == ((Path("/home/ada/.m2"),), (Path("/srv/cache"),))
    (tmp_path / "config.toml").write_text("sandbox_read = 3\n")
    with pytest.raises(InputError, match="sandbox_read"):
        load(tmp_path, {"HOME": "/home/ada"})


def test_a_link_in_the_place_of_a_skills_folder_opens_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent may have made it, in its own state, to read another folder the next time."""
    home, workspace, keys = tmp_path / "user", tmp_path / "workspace", tmp_path / "user" / "keys"
    for folder in (home / ".agent", workspace, keys):
        folder.mkdir(parents=True)
    (home / ".agent" / "skills").symlink_to(keys)
    monkeypatch.setenv("HOME", str(home))
    settings = Config(home=tmp_path / "dragoman", sandbox="landlock", skills_folders="~/.agent/skills")
    spec = LocalClient(config=settings).spec_of("demo")
    policy = spec_for_session(spec, SessionConfig(workspace=Workspace(workspace)), settings).sandbox
    assert policy is not None
    policy = msgspec.structs.replace(policy, state=("~/.agent/",))
    allowed = allowed_paths(policy, {"HOME": str(home)}, tmp_path / "temporary")
    assert keys not in (*allowed.read, *allowed.write)
