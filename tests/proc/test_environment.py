from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from dragoman.errors import CommandNotFound, InputError
from dragoman.proc import environment
from dragoman.proc.environment import (
    GIT_SETTINGS,
    PATH_BEGIN,
    PATH_END,
    WITHHELD_VARIABLES,
    agent_environment,
    find_command,
    login_path,
    parse_path,
    resolve_command,
)
from dragoman.proc.spawn import spawn

from .conftest import Agents, Lifeline

BASH = next((path for path in ("/bin/bash", "/usr/bin/bash") if os.access(path, os.X_OK)), None)
needs_bash = pytest.mark.skipif(BASH is None, reason="needs bash")


def program(path: Path, text: str = "#!/bin/sh\nexit 0\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


@pytest.fixture
def env(home: Path) -> dict[str, str]:
    """Return a service's environment: a short PATH, and a shell that prints nothing."""
    return {"HOME": str(home), "PATH": "/nowhere", "SHELL": str(program(home.parent / "mute"))}


# What an agent inherits

GIT_VARIABLES = {
    "GIT_CONFIG_COUNT": "2",
    "GIT_CONFIG_KEY_0": "safe.bareRepository",
    "GIT_CONFIG_VALUE_0": "explicit",
    "GIT_CONFIG_KEY_1": "core.fsmonitor",
    "GIT_CONFIG_VALUE_1": "false",
}


def test_the_users_environment_is_handed_on() -> None:
    base = {"PATH": "/bin", "OPENAI_API_KEY": "k", "HTTPS_PROXY": "p", "NODE_OPTIONS": "o", "VIRTUAL_ENV": "v"}
    assert agent_environment(base, {}) == base | GIT_VARIABLES


@pytest.mark.parametrize("name", [*WITHHELD_VARIABLES, "DRAGOMAN_TOKEN", "DRAGOMAN_REAP", "DRAGOMAN_HOME"])
def test_misleading_variables_are_withheld_unless_given_by_name(name: str) -> None:
    assert agent_environment({name: "x", "A": "1"}, {}) == {"A": "1"} | GIT_VARIABLES
    assert agent_environment({name: "x"}, {name: "y"}) == {name: "y"} | GIT_VARIABLES


def test_extra_replaces_adds_and_takes_away() -> None:
    base = {"A": "1", "B": "2", "C": "3"}
    changed = agent_environment(base, {"A": "9", "B": None, "D": "4", "E": None})
    assert changed == {"A": "9", "C": "3", "D": "4"} | GIT_VARIABLES
    assert base == {"A": "1", "B": "2", "C": "3"}


def test_settings_of_git_come_after_those_that_are_there() -> None:
    base = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "core.fsmonitor", "GIT_CONFIG_VALUE_0": "true"}
    env = agent_environment(base, {})
    assert (env["GIT_CONFIG_COUNT"], env["GIT_CONFIG_VALUE_0"]) == ("3", "true")
    assert {env[f"GIT_CONFIG_KEY_{at}"]: env[f"GIT_CONFIG_VALUE_{at}"] for at in range(3)} == GIT_SETTINGS
    assert agent_environment(env, {}) == env
    assert agent_environment({"GIT_CONFIG_COUNT": "many"}, {}) == GIT_VARIABLES
    assert agent_environment({}, {"GIT_CONFIG_COUNT": None}) == GIT_VARIABLES


def plant_repository(folder: Path, trace: Path) -> None:
    """Make a folder that git takes for a repository, with a program that `git status` runs."""
    for name in ("objects", "refs"):
        (folder / name).mkdir(parents=True)
    (folder / "HEAD").write_text("ref: refs/heads/main\n")
    (folder / "config").write_text(
        f'[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = .\n\tfsmonitor = "touch {trace};:"\n'
    )


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_a_folder_that_looks_like_a_repository_runs_nothing(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    plant_repository(tmp_path / "planted", trace)
    (tmp_path / "planted" / "file").touch()
    usual = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    for env, runs in ((usual, True), (agent_environment(usual, {}), False)):
        subprocess.run(["git", "status"], cwd=tmp_path / "planted", env=env, check=False, capture_output=True)
        assert trace.exists() == runs
        trace.unlink(missing_ok=True)


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_a_folder_that_looks_like_a_repository_is_none(tmp_path: Path) -> None:
    """Other settings than the one for a program that watches files name programs, too."""
    plant_repository(tmp_path / "planted", tmp_path / "trace")
    usual = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    command = ["git", "rev-parse", "--git-dir"]
    for env, is_taken in ((usual, True), (agent_environment(usual, {}), False)):
        done = subprocess.run(command, cwd=tmp_path / "planted", env=env, check=False, capture_output=True)
        assert (done.returncode == 0) == is_taken


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_a_repository_of_somebody_else_runs_no_program_to_watch_its_files(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    usual = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    for command in (["init", "-q"], ["config", "core.fsmonitor", f"touch {trace};:"]):
        subprocess.run(["git", *command], cwd=tmp_path, env=usual, check=True)
    env = agent_environment(usual, {})
    for command in (["status"], ["diff"], ["add", "-n", "."]):
        subprocess.run(["git", *command], cwd=tmp_path, env=env, check=True, capture_output=True)
    assert not trace.exists()


# Where a command is found


def test_path_comes_first(home: Path, env: dict[str, str]) -> None:
    expected = program(home / "first" / "agent")
    program(home / "second" / "agent")
    program(home / ".local" / "bin" / "agent")
    env["PATH"] = f"{home / 'none'}:{home / 'first'}:{home / 'second'}"
    assert find_command("agent", env) == expected


def test_files_that_cannot_be_run_are_passed_over(home: Path, env: dict[str, str]) -> None:
    program(home / "first" / "agent").chmod(0o644)
    (home / "second" / "agent").mkdir(parents=True)
    expected = program(home / "third" / "agent")
    env["PATH"] = ":".join(str(home / name) for name in ("first", "second", "third"))
    assert find_command("agent", env) == expected


def test_a_relative_entry_of_path_is_relative_to_the_agents_folder(home: Path, env: dict[str, str]) -> None:
    expected = program(home / "tools" / "agent")
    env["PATH"] = "tools"
    assert find_command("agent", env, cwd=home) == expected
    env["PATH"] = ""
    assert find_command("agent", env, cwd=home / "tools") == expected


def test_a_name_with_a_slash_is_relative_to_the_agents_folder(home: Path, env: dict[str, str]) -> None:
    expected = program(home / "tools" / "agent")
    assert find_command("tools/agent", env, cwd=home) == expected
    assert find_command("./tools/agent", env, cwd=home) == home / "./tools/agent"
    assert find_command("~/tools/agent", env) == expected
    assert find_command(str(expected), env, cwd=Path("/")) == expected
    assert find_command("./agent", env, cwd=home) is None


@pytest.mark.parametrize(
    "folder", [".local/bin", ".volta/bin", ".bun/bin", ".cargo/bin", ".pyenv/shims", ".npm-global/bin"]
)
def test_the_folders_of_installers_are_searched(home: Path, env: dict[str, str], folder: str) -> None:
    expected = program(home / folder / "an-agent-of-ours")
    assert find_command("an-agent-of-ours", env) == expected


def test_the_newest_node_of_nvm_is_taken(home: Path, env: dict[str, str]) -> None:
    for version in ("v9.11.2", "v22.9.0", "v22.10.1", "v20.1.0", "system"):
        program(home / ".nvm" / "versions" / "node" / version / "bin" / "agent")
    program(home / ".nvm" / "versions" / "node" / "v24.0.0" / "bin" / "other")
    assert find_command("agent", env) == home / ".nvm/versions/node/v22.10.1/bin/agent"
    program(home / "elsewhere" / "versions" / "node" / "v1.0.0" / "bin" / "agent")
    env["NVM_DIR"] = str(home / "elsewhere")
    assert find_command("agent", env) == home / "elsewhere/versions/node/v1.0.0/bin/agent"


def test_what_is_nowhere_is_not_found(env: dict[str, str]) -> None:
    assert find_command("no-such-agent-at-all", env) is None


async def test_a_resolved_script_finds_its_interpreter_beside_it(
    home: Path, env: dict[str, str], agents: Agents
) -> None:
    folder = home / ".nvm" / "versions" / "node" / "v22.0.0" / "bin"
    program(folder / "agent", "#!/usr/bin/env our-node\n")
    program(folder / "our-node", "#!/bin/sh\necho ran $1\n")
    env["PATH"] = "/usr/bin:/bin"
    command, new_env = await resolve_command(["agent", "--acp"], env)
    assert command == [str(folder / "agent"), "--acp"]
    assert new_env["PATH"] == f"{folder}:/usr/bin:/bin"
    link = await spawn(command, cwd=None, env=new_env, name="test")
    agents.links.append(link)
    assert await link.read() == f"ran {folder / 'agent'}\n".encode()


async def test_resolving_what_is_on_path_changes_nothing_else(home: Path, env: dict[str, str]) -> None:
    expected = program(home / "bin" / "agent")
    env["PATH"] = str(home / "bin")
    assert await resolve_command(["agent", "x"], env) == ([str(expected), "x"], env)
    assert await resolve_command(["bin/agent"], env, cwd=home) == ([str(expected)], env)


async def test_a_program_that_cannot_be_resolved_says_how_to_get_it(env: dict[str, str]) -> None:
    with pytest.raises(CommandNotFound, match="no-such-agent") as caught:
        await resolve_command(["no-such-agent"], env, install="npm i agent")
    assert caught.value.guidance == "Install it: npm i agent"
    with pytest.raises(InputError):
        await resolve_command([], env)


# The login shell


@needs_bash
async def test_the_login_shells_path_is_known_though_its_files_are_noisy(home: Path, env: dict[str, str]) -> None:
    assert BASH is not None
    expected = program(home / "only in the shell" / "agent")
    left = home / "left"
    (home / ".bash_profile").write_text(f"""
echo 'Welcome!'; printf 'no newline at the end'; echo trouble >&2
echo '{PATH_BEGIN}'
. ~/.bashrc
""")
    (home / ".bashrc").write_text(f"""
case $- in *i*) ;; *) return;; esac
read -r answer
sleep 1000 & echo $! > {left}
export PATH="/from/profile:/bin:{expected.parent}"
trap "echo goodbye" EXIT
""")
    env |= {"SHELL": BASH, "PATH": "/usr/bin:/bin"}
    try:
        assert login_path(env) == f"/from/profile:/bin:{expected.parent}"
    finally:
        os.kill(int(left.read_text()), signal.SIGKILL)
    command, new_env = await resolve_command(["agent"], env)
    assert command == [str(expected)]
    assert new_env["PATH"] == f"{expected.parent}:/usr/bin:/bin:/from/profile"


def test_the_login_shell_is_asked_once(home: Path, env: dict[str, str]) -> None:
    marker_file = home / "asked"
    env["SHELL"] = str(program(home / "shell", f'#!/bin/sh\necho x >> {marker_file}\nPATH=/from/shell; eval "$4"\n'))
    assert login_path(env) == login_path(env) == "/from/shell"
    assert marker_file.read_text() == "x\n"


def test_a_login_shell_that_hangs_is_given_up_and_killed_with_its_children(
    tmp_path: Path, lifeline: Lifeline, env: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment, "LOGIN_SHELL_TIMEOUT_S", 1.0)
    agents = Agents(tmp_path, lifeline)
    _, *options, code = agents.command(
        "child('stubborn(); live(\"child\"); rest()'); stubborn(); live('shell'); rest()"
    )
    (tmp_path / "hang.py").write_text(code)
    env["SHELL"] = str(
        program(tmp_path / "shell", f"#!/bin/sh\nexec {sys.executable} {' '.join(options[:-1])} {tmp_path}/hang.py\n")
    )
    assert login_path(env) is None
    lifeline.silence()


@pytest.mark.parametrize("text", ["#!/bin/sh\nexit 3\n", "#!/bin/sh\necho hello\n", "not a program", "#!/no/such\n"])
def test_a_shell_that_is_none_gives_no_path(tmp_path: Path, env: dict[str, str], text: str) -> None:
    env["SHELL"] = str(program(tmp_path / "shell", text))
    assert login_path(env) is None


@pytest.mark.parametrize(
    ("output", "path"),
    [
        (f"noise{PATH_BEGIN}\n\n/a:/b\n\n{PATH_END}\n", "/a:/b"),
        (f"{PATH_BEGIN}\n/fake\n{PATH_END}\n{PATH_BEGIN}\n/a\n{PATH_END}", "/a"),
        (f"{PATH_BEGIN}\n/a", None),
        (f"{PATH_BEGIN}\n\n\n{PATH_END}", None),
        (f"{PATH_BEGIN}\n/a\n/b\n{PATH_END}", None),
        ("", None),
    ],
)
def test_the_path_is_the_text_between_the_marks(output: str, path: str | None) -> None:
    assert parse_path(output) == path
