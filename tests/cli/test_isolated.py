"""`--isolated` of `run` and `eval`: the agent has a HOME of its own, and the user's folder stays as it is."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from .conftest import Cli

pytestmark = pytest.mark.slow  # many processes of the command line


def homes(cli: Cli) -> list[Path]:
    root = Path(cli.env["DRAGOMAN_HOME"]) / "isolated"
    return [path for path in root.iterdir() if path.is_dir()] if root.exists() else []


def test_an_isolated_run_says_what_the_agent_got_and_is_continued_in_the_same_home(cli: Cli) -> None:
    done = cli("run", "--isolated", "-v", "hello")
    assert done.code == 0, done.err
    (home,) = homes(cli)
    assert f"isolated: HOME {home}/home, login: none; variables: " in done.err.replace("\n", " ")
    assert cli("run", "--resume", "-", "hello").code == 0
    assert homes(cli) == [home]
    assert cli("sessions", "delete", "--yes", "-").code == 0
    assert homes(cli) == []


def test_isolated_tasks_leave_the_folder_as_it_is(cli: Cli) -> None:
    (cli.workspace / "README.md").write_text("read me\n")
    (cli.workspace / "tasks.jsonl").write_text(json.dumps({"id": "one", "prompt": "edit README"}) + "\n")
    done = cli("eval", "--isolated", "--access", "full", "-a", "demo", "tasks.jsonl")
    assert done.code == 0, done.err
    assert (cli.workspace / "README.md").read_text() == "read me\n"
    assert homes(cli) == []


def test_isolation_is_a_setting(cli: Cli) -> None:
    assert cli("config", "set", "isolation", "on").code == 0
    assert cli("run", "--not-isolated", "hello").code == 0
    assert homes(cli) == []
    assert cli("run", "--no-journal", "hello").code == 0
    assert homes(cli) == []  # removed at the end: nothing can continue it
    assert cli("run", "hello").code == 0
    assert len(homes(cli)) == 1


def test_an_isolated_run_in_a_repository_has_a_worktree_unless_told_otherwise(cli: Cli) -> None:
    (cli.workspace / "README.md").write_text("# Mine\n")
    for command in ("init -q", "add -A", "-c user.name=A -c user.email=a@b commit -qm first"):
        subprocess.run(["git", *command.split()], cwd=cli.workspace, check=True)
    done = cli("run", "--isolated", "--access", "full", "edit README")
    assert done.code == 0, done.err
    assert (cli.workspace / "README.md").read_text() == "# Mine\n"
    assert "worktree" in done.err
    done = cli("run", "--isolated", "--no-worktree", "--access", "full", "edit README")
    assert done.code == 0, done.err
    assert (cli.workspace / "README.md").read_text() != "# Mine\n"
