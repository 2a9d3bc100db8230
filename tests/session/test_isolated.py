"""Isolated sessions: the HOME, the environment and the login of the agent, how long they last, and what is left."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import dragoman
from dragoman import Hub, Isolation, Workspace
from dragoman.errors import DragomanError, InputError
from dragoman.session.handle import SessionHandle
from dragoman.session.session import Session
from dragoman.testing import command_of
from workspace.sandbox_support import machine_with

AGENT = Path(__file__).with_name("isolated_agent.py")
TIMEOUT_S = 60.0


@pytest.fixture(autouse=True)
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user with a HOME, a secret, and an agent `mine` with a login and settings; returns the HOME."""
    home = tmp_path / "user"
    for name, text in {
        ".ssh/id_ed25519": "private",
        ".mine/login.json": '{"token": "one"}',
        ".mine/settings.json": '{"auth": {"way": "oauth"}, "hooks": ["rm -rf /"], "mcp": {"servers": 1}}',
        ".mine/memory.md": "remember",
    }.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text)
    command = json.dumps(command_of(f"{AGENT}:script"))
    dragoman_home = tmp_path / "dragoman"
    dragoman_home.mkdir()
    (dragoman_home / "config.toml").write_text(
        f"""
        sandbox_read = [{json.dumps(str(AGENT.parent))}]
        [agents.mine]
        command = {json.dumps(sys.executable)}
        args = {json.dumps(json.loads(command)[1:])}
        env = {{ MINE_PRESET = "set" }}
        env_prefix = ["MINE_"]
        [agents.mine.isolation]
        login = ["$MINE_HOME/login.json"]
        variables = {{ MINE_HOME = "~/.mine" }}
        environment = ["MINE_KEY"]
        settings = {{ "$MINE_HOME/settings.json" = ["auth.way"] }}
        """
    )
    for name in [
        name for name in os.environ if not name.startswith(("DRAGOMAN_", "PYTEST_", "COV")) and name != "PATH"
    ]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("DRAGOMAN_HOME", str(dragoman_home))
    monkeypatch.setenv("MINE_KEY", "key")
    monkeypatch.setenv("MINE_COLOR", "never")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("SSH_AUTH_SOCK", "/run/agent.sock")
    return home


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "project").mkdir()
    return tmp_path / "project"


def isolated_folders(tmp_path: Path) -> list[Path]:
    root = tmp_path / "dragoman" / "isolated"
    return [path for path in root.iterdir() if path.is_dir()] if root.exists() else []


def is_folder(path: str) -> bool:
    return Path(path).is_dir()


async def reply(session: Session, prompt: str) -> Any:
    async with asyncio.timeout(TIMEOUT_S):
        text = (await session.run(prompt)).text
    try:
        return json.loads(text)
    except ValueError:
        return text


WITHOUT_WORKTREE = Isolation(worktree=False)


async def test_the_environment_is_exactly_the_list(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    passed = {"LC_TIME": "C", "LANG": "C.UTF-8", "TERM": "dumb", "no_proxy": "localhost", "SSL_CERT_FILE": "/certs"}
    for name, value in {**passed, "PYENV_ROOT": "/pyenv"}.items():
        monkeypatch.setenv(name, value)
    options: Any = {"env": {"GIVEN": "yes"}, "isolation": WITHOUT_WORKTREE}
    async with dragoman.open_session("mine", cwd=folder, **options) as session:
        env = await reply(session, "environment")
        report = session.capabilities().isolation
    own = {"HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "MINE_HOME"}
    own |= {"TMPDIR", "TMP", "TEMP", "PYENV_ROOT"}
    expected = {"PATH", *passed, "MINE_KEY", "MINE_PRESET", "GIVEN", *own}
    added = {"PWD"}  # by the start of the process, with the reaper's marker and the settings of git
    assert {name for name in env if not name.startswith(("GIT_CONFIG_", "DRAGOMAN_"))} - added == expected
    assert {name: env[name] for name in passed} == passed
    assert (env["MINE_KEY"], env["GIVEN"]) == ("key", "yes")
    assert [name for name in env if name.startswith("DRAGOMAN_")] == ["DRAGOMAN_REAP"]
    assert report is not None
    assert set(report.variables) == expected  # names, never values


async def test_further_variables_are_passed_by_name_or_pattern(folder: Path) -> None:
    isolation = Isolation(worktree=False, environment=("AWS_*",))
    async with dragoman.open_session("mine", cwd=folder, isolation=isolation) as session:
        env = await reply(session, "environment")
    assert env["AWS_SECRET_ACCESS_KEY"] == "secret"
    assert "SSH_AUTH_SOCK" not in env


async def test_home_has_the_login_and_nothing_else(user: Path, folder: Path) -> None:
    async with dragoman.open_session("mine", cwd=folder, isolation=WITHOUT_WORKTREE) as session:
        env, home = await reply(session, "environment"), await reply(session, "home")
        report = session.capabilities().isolation
        assert (Path(env["HOME"]) / ".mine/settings.json").read_text() == '{"auth":{"way":"oauth"}}'
        assert (Path(env["HOME"]) / ".mine/login.json").read_text() == '{"token": "one"}'
    assert home == {"folder": "0o700", ".mine/login.json": "0o600", ".mine/settings.json": "0o600"}
    assert Path(env["MINE_HOME"]) == Path(env["HOME"]) / ".mine"
    assert not (Path(env["HOME"]) / ".ssh").exists()
    assert report is not None
    assert report.login == (".mine/login.json",)
    assert user not in Path(env["HOME"]).parents


async def test_commands_of_the_agent_have_the_same_environment(folder: Path) -> None:
    async with dragoman.open_session("mine", cwd=folder, access="full", isolation=WITHOUT_WORKTREE) as session:
        env = await reply(session, "environment")
        text = await reply(session, "command echo home=$HOME secret=${AWS_SECRET_ACCESS_KEY:-none} key=$MINE_KEY")
    assert text.strip() == f"home={env['HOME']} secret=none key=key"


async def test_skills_and_instructions_of_the_user_do_not_go_with_prompts(
    user: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRAGOMAN_CUSTOM_INSTRUCTIONS", "Be brief.")
    for place in (user, folder):
        (place / "skills").mkdir()
        (place / "skills" / f"of-{place.name}.md").write_text("Do it so.")
    async with dragoman.open_session("mine", cwd=folder, isolation=WITHOUT_WORKTREE) as session:
        available = session.available_context()
        text = str(await reply(session, "hello"))
    assert [each.skill.name for each in available.skills] == ["of-project"]
    assert "Be brief." not in text
    async with dragoman.open_session("mine", cwd=folder) as session:
        assert len(session.available_context().skills) == 2
        assert "Be brief." in str(await reply(session, "hello"))


async def test_a_renewed_login_comes_back_to_the_user(user: Path, folder: Path) -> None:
    async with dragoman.open_session("mine", cwd=folder, isolation=WITHOUT_WORKTREE) as session:
        await reply(session, 'renew {"token": "two"}')
    assert (user / ".mine/login.json").read_text() == '{"token": "two"}'
    assert (user / ".mine/memory.md").read_text() == "remember"


async def test_a_login_that_the_user_changed_meanwhile_stays(user: Path, folder: Path) -> None:
    async with dragoman.open_session("mine", cwd=folder, isolation=WITHOUT_WORKTREE) as session:
        (user / ".mine/login.json").write_text('{"token": "another account"}')
        await reply(session, 'renew {"token": "two"}')
    assert (user / ".mine/login.json").read_text() == '{"token": "another account"}'


async def test_a_link_in_place_of_the_login_is_not_followed(user: Path, folder: Path) -> None:
    for planted in (f"plant {user}/.ssh/id_ed25519", f"plant-folder {user}/.ssh"):
        async with dragoman.open_session("mine", cwd=folder, isolation=WITHOUT_WORKTREE) as session:
            await reply(session, planted)
        assert (user / ".mine/login.json").read_text() == '{"token": "one"}'
        assert sorted(path.name for path in (user / ".ssh").iterdir()) == ["id_ed25519"]


async def test_a_login_that_is_a_link_is_not_copied_and_that_is_said(user: Path, folder: Path) -> None:
    (user / ".mine/login.json").unlink()
    (user / ".mine/login.json").symlink_to(user / ".ssh/id_ed25519")
    async with dragoman.open_session("mine", cwd=folder, isolation=WITHOUT_WORKTREE) as session:
        home = await reply(session, "home")
        report = session.capabilities().isolation
    assert ".mine/login.json" not in home
    assert report is not None
    assert "symbolic link" in report.problems[0]


async def test_a_session_is_isolated_in_the_same_way_when_it_is_continued(folder: Path, tmp_path: Path) -> None:
    async with dragoman.open_session("demo", cwd=folder, isolation=WITHOUT_WORKTREE) as session:
        await reply(session, "hello")
        handle = session.snapshot()
    (home,) = isolated_folders(tmp_path)
    assert handle.isolated_home == home.name
    assert not list((home / "uses").iterdir())
    async with dragoman.resume_session(handle.to_json()) as resumed:  # its agent finds the session in its HOME
        report = resumed.capabilities().isolation
        assert report is not None
        assert report.home == str(home / "home")
        await reply(resumed, "hello")
        assert resumed.snapshot().isolated_home == home.name
    async with Hub() as hub:
        assert isolated_folders(tmp_path) == [home]
        await hub.delete_session(session.id)
    assert not isolated_folders(tmp_path)


async def test_a_session_whose_home_is_gone_says_so(folder: Path, tmp_path: Path) -> None:
    async with dragoman.open_session("demo", cwd=folder, journal=False, isolation=WITHOUT_WORKTREE) as session:
        await reply(session, "hello")
        handle: SessionHandle = session.snapshot()
    assert not isolated_folders(tmp_path)  # nothing can continue it but this handle
    with pytest.raises(InputError, match="isolated home of this session was removed"):
        await dragoman.resume_session(handle, journal=False)
    async with dragoman.resume_session(handle, journal=False, how="new") as session:  # remembers nothing
        assert session.capabilities().isolation is not None


async def test_temporary_files_are_gone_when_the_agent_is(folder: Path) -> None:
    async with dragoman.open_session("mine", cwd=folder, isolation=WITHOUT_WORKTREE) as session:
        temporary = await reply(session, "temporary")
        assert os.listdir(temporary) == ["scrap"]
    assert not is_folder(temporary)


async def test_an_agent_at_an_address_cannot_be_isolated(folder: Path) -> None:
    with pytest.raises(InputError, match="runs elsewhere"):
        await dragoman.open_session("ws://127.0.0.1:9/acp", cwd=folder, isolation=True)


async def test_isolation_can_be_configured_and_switched_off_for_a_session(
    user: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRAGOMAN_ISOLATION", "on")
    async with dragoman.open_session("mine", cwd=folder, isolation=False) as session:
        assert (await reply(session, "environment"))["HOME"] == str(user)
        assert session.capabilities().isolation is None
    async with dragoman.open_session("mine", cwd=folder) as session:
        assert session.capabilities().isolation is not None


@pytest.fixture
def repository(folder: Path) -> Path:
    (folder / "file.txt").write_text("as it was")
    for command in ("init -q", "add -A", "-c user.name=A -c user.email=a@b commit -qm first"):
        subprocess.run(["git", *command.split()], cwd=folder, check=True)
    return folder


async def test_an_isolated_session_in_a_repository_works_in_a_worktree(repository: Path) -> None:
    async with dragoman.open_session("mine", cwd=repository, access="full", isolation=True) as session:
        await reply(session, "write file.txt changed")
        handle = session.snapshot()
    assert (repository / "file.txt").read_text() == "as it was"
    assert handle.worktree is not None
    assert handle.worktree.cwd == str(repository)
    assert (Path(handle.cwd) / "file.txt").read_text() == "changed"  # it stays, to be applied or dropped


async def test_without_git_an_isolated_session_works_in_the_folder_unless_a_worktree_is_demanded(folder: Path) -> None:
    async with dragoman.open_session("mine", cwd=folder, access="full", isolation=True) as session:
        assert await reply(session, "files") == []
        assert session.config.workspace == Workspace(folder)
    with pytest.raises(DragomanError, match="git"):
        await dragoman.open_session("mine", cwd=folder, isolation=Isolation(worktree=True))


async def test_a_worktree_that_was_chosen_is_the_one_of_an_isolated_session(repository: Path) -> None:
    async with dragoman.open_session("mine", cwd=repository, isolation=True, worktree="mine") as session:
        worktree = session.snapshot().worktree
    assert worktree is not None
    assert worktree.name == "mine"


linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux has these mechanisms")


@linux
@pytest.mark.parametrize("mechanism", ["bubblewrap", "landlock", "landlock without namespaces"])
async def test_in_a_sandbox_the_isolated_home_is_writable_and_the_users_own_state_is_hidden(
    mechanism: str, user: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = machine_with(mechanism)
    monkeypatch.setattr("dragoman.workspace.sandbox.this_machine", lambda: machine)
    options: Any = {"cwd": folder, "sandbox": mechanism.split()[0], "access": "full", "isolation": WITHOUT_WORKTREE}
    async with dragoman.open_session("mine", **options) as session:
        home = await reply(session, "home")
        await reply(session, 'renew {"token": "two"}')
        text = await reply(
            session,
            f"command cat {user}/.ssh/id_ed25519 {user}/.mine/login.json; echo planted > {user}/.mine/planted;"
            " echo written > ~/made.txt; cat ~/made.txt",
        )
    assert ".mine/login.json" in home
    assert "written" in text
    assert "private" not in text
    assert "token" not in text
    assert not (user / ".mine/planted").exists()
    assert (user / ".mine/login.json").read_text() == '{"token": "two"}'  # renewed, and brought back by us


_KILLED = """
import asyncio, sys, dragoman
from dragoman import Isolation

async def main():
    session = await dragoman.open_session("mine", cwd=sys.argv[1], isolation=Isolation(worktree=False), journal=False)
    await session.run('renew {"token": "two"}')
    print(session.capabilities().isolation.temporary_folder, flush=True)
    async for event in session.run("forever"):
        print("running", flush=True)

asyncio.run(main())
"""


def run_until_killed(folder: Path) -> str:
    """Run an isolated session in a process that is killed in the middle; return the agent's temporary folder."""
    command = [sys.executable, "-c", _KILLED, str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        temporary = process.stdout.readline().strip()
        assert process.stdout.readline().strip() == "running"
        process.send_signal(signal.SIGKILL)
    return temporary


async def test_what_a_killed_process_leaves_is_removed_at_the_next_start(
    user: Path, folder: Path, tmp_path: Path
) -> None:
    temporary = run_until_killed(folder)
    assert is_folder(temporary)
    assert isolated_folders(tmp_path)
    async with Hub():
        pass
    assert not is_folder(temporary)
    assert not isolated_folders(tmp_path)
    assert (user / ".mine/login.json").read_text() == '{"token": "two"}'  # it was renewed before the kill


async def test_homes_in_use_are_left_alone(folder: Path, tmp_path: Path) -> None:
    async with dragoman.open_session("mine", cwd=folder, journal=False, isolation=WITHOUT_WORKTREE) as session:
        async with Hub():
            pass
        assert len(isolated_folders(tmp_path)) == 1
        assert ".mine/login.json" in await reply(session, "home")
