"""Real agents work in isolation: a HOME of their own, and only the variables that their presets and the user name."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dragoman import Isolation, PromptResponse, evaluate
from dragoman.hub.hub import Hub
from workspace.sandbox_support import machine_with

from .acts import all_events, allow
from .catalog import AGENTS, RealAgent
from .conftest import Stage

# The first test of an agent may have to install it.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

# Codex has its provider in its settings, which an isolated one does not get. This variable has the same settings.
_CODEX = {
    "model": "gpt-5.5",
    "model_provider": "scripted",
    "approval_policy": "on-request",
    "sandbox_mode": "workspace-write",
    "model_providers": {
        "scripted": {
            "name": "Scripted",
            "base_url": "{url}/v1",
            "wire_api": "responses",
            "env_key": "OPENAI_API_KEY",
            "requires_openai_auth": False,
            "request_max_retries": 1,
            "stream_max_retries": 1,
            "supports_websockets": False,
        }
    },
}
MORE_ENV = {"codex": {"CODEX_CONFIG": json.dumps(_CODEX)}}
LOGINS = {
    "claude": (".claude/.credentials.json", ".claude/settings.json"),
    "codex": (".codex/auth.json", ".codex/AGENTS.md"),
    "opencode": (".local/share/opencode/auth.json", ".config/opencode/AGENTS.md"),
    "gemini": (".gemini/google_accounts.json", ".gemini/GEMINI.md"),
    "goose": (".config/goose/secrets.yaml", ".config/goose/permission.yaml"),
}


@pytest.fixture(
    params=[agent for agent in AGENTS if agent.id in LOGINS], ids=lambda agent: str(agent.id), scope="module"
)
def agent(request: pytest.FixtureRequest) -> RealAgent:
    chosen: RealAgent = request.param
    return chosen


def _user_files(home: Path, agent: str) -> tuple[Path, Path]:
    """Make a login of no meaning, and something else that the agent would read."""
    login, other = (home / name for name in LOGINS[agent])
    for path in (login, other):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}\n" if path.suffix == ".json" else "")
    return login, other


async def test_an_agent_works_in_a_home_of_its_own(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    login, other = _user_files(stage.home, stage.agent.id)
    before = sorted(stage.home.rglob("*"))
    stage.more_env |= MORE_ENV.get(stage.agent.id, {})
    isolation = Isolation(worktree=False)
    command = stage.agent.run("echo $HOME > home.txt; env > env.txt; ls -A ~ > ls.txt")
    async with Hub(tmp_path / "dragoman") as hub:
        config = stage.config(allow, isolation=isolation)
        async with stage.runtime(config=config, journal_client=hub.journal_client) as runtime:
            session = await runtime.open_session(config)
            report = runtime.capabilities().isolation
            assert report is not None
            assert report.problems == ()
            name = str(login.relative_to(stage.home))
            assert name in report.login
            home = Path(str(report.home))
            assert (home / name).read_bytes() == login.read_bytes()
            assert not (home / other.relative_to(stage.home)).exists()
            await all_events(session.run(f"[[say:Doing.]]{command}[[say:It is done.]]"))
            handle = session.snapshot()
        if not stage.agent.load_after:  # its transcript is in its home
            async with hub.resume_session(handle.session_id, env=stage.env, on_permission=allow) as resumed:
                again = await resumed.run("[[say:Again.]]")
                assert "Again." in again.text
                assert stage.requests.had("It is done.")  # it has its history
    seen = {name: (stage.folder / f"{name}.txt").read_text() for name in ("home", "env", "ls")}
    assert seen["home"].strip() == report.home
    assert "AWS_SECRET_ACCESS_KEY" not in seen["env"]
    assert handle.isolated_home == home.parent.name
    assert sorted(stage.home.rglob("*")) == before  # nothing of the user's home was touched


async def test_an_agent_is_evaluated_on_a_copy_of_the_repository(stage: Stage) -> None:
    stage.more_env |= MORE_ENV.get(stage.agent.id, {})
    (stage.folder / "README.md").write_text("read me\n")
    for command in ("init -q", "add -A", "-c user.name=A -c user.email=a@b commit -qm first"):
        await asyncio.to_thread(subprocess.run, ["git", *command.split()], cwd=stage.folder, check=True)
    found = []

    def look(response: PromptResponse[Any]) -> None:
        found.append((Path(str(response.stats.cwd)) / "made.txt").read_text())

    prompt = f"[[say:Doing.]]{stage.agent.run('git log --oneline > made.txt')}[[say:It is done.]]"
    response = await evaluate(
        stage.spec, prompt, cwd=stage.folder, access="full", on_permission=allow, isolation=True, guards=look
    )
    assert "It is done." in response.text
    assert found[0].endswith("first\n")
    assert sorted(os.listdir(stage.folder)) == [".git", "README.md"]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux has Landlock")
async def test_an_isolated_agent_works_in_a_sandbox_and_does_not_reach_the_users_home(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = machine_with("landlock")
    monkeypatch.setattr("dragoman.workspace.sandbox.this_machine", lambda: machine)
    login, other = _user_files(stage.home, stage.agent.id)
    other.write_text("of the user")
    stage.more_env |= MORE_ENV.get(stage.agent.id, {})
    config = stage.config(allow, isolation=Isolation(worktree=False), sandbox="landlock")
    command = stage.agent.run(
        f"echo $HOME > home.txt; cat {other} >> home.txt; echo x >> {login}; echo end >> home.txt"
    )
    before = login.read_bytes()
    async with stage.runtime(config=config) as runtime:
        session = await runtime.open_session(config)
        report = runtime.capabilities().isolation
        assert report is not None
        await all_events(session.run(f"[[say:Doing.]]{command}[[say:It is done.]]"))
    assert (stage.folder / "home.txt").read_text() == f"{report.home}\nend\n"
    assert login.read_bytes() == before
