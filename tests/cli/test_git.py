"""`dragoman git`: state, commits, pushes and pull requests from the command line, with the demo agent and real git."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
from pathlib import Path

import pytest

from workspace.repositories import Clone, StandIn, git, path_with

from .conftest import Cli, On

pytestmark = pytest.mark.slow  # many processes of the command line and of git


@pytest.fixture
def clone(cli: Cli, tmp_path: Path) -> Clone:
    """The workspace is a clone; the user's git has no configuration, and there is neither gh nor glab."""
    (tmp_path / "user").mkdir()
    cli.env |= {"HOME": str(tmp_path / "user"), "GIT_CONFIG_NOSYSTEM": "1"}
    cli.env.pop("XDG_CONFIG_HOME", None)
    (tmp_path / "repository").mkdir()
    clone = Clone(tmp_path / "repository")
    cli.workspace = clone.root
    programs = tmp_path / "programs"
    programs.mkdir()
    cli.env["PATH"] = path_with(programs)
    return clone


def test_the_state_without_any_session_creates_nothing(cli: Cli, clone: Clone) -> None:
    clone.write("new", "new\n")
    clone.write("a.txt", "changed\n")
    before = sorted(os.listdir(cli.home))
    done = cli("git", "status")
    assert done.code == 0, done.err
    assert done.out.splitlines() == [f"On main, level with origin/main ({clone.root})", " M  a.txt", "??  new"]
    assert sorted(os.listdir(cli.home)) == before
    state = json.loads(cli("git", "status", "--cwd", str(clone.root), "--json").out)
    assert (state["branch"], state["file_count"], state["ahead"]) == ("main", 2, 0)


def test_commit_and_push_of_a_session_are_in_its_history(cli: Cli, clone: Clone) -> None:
    assert cli("run", "--access", "full", "edit").code == 0
    done = cli("git", "commit", "-m", "Add a README")
    assert done.code == 0, done.err
    commit = clone.git("rev-parse", "HEAD")
    assert done.out == f"{commit[:10]} on main: Add a README (1 file)\n"
    done = cli("git", "push", "-")
    assert done.code == 0, done.err
    assert done.out == f"Pushed main ({commit[:10]}) to origin ({clone.bare}).\n"
    assert git(clone.bare, "rev-parse", "main") == commit
    assert "already" in cli("git", "push").out
    shown = cli("sessions", "show", "-").out
    assert f"Committed {commit[:10]} on main: Add a README" in shown
    assert f"Pushed main ({commit[:10]}) to origin" in shown
    done = cli("git", "commit", "-m", "again")
    assert done.code == 1
    assert "there is nothing to commit" in done.err


def test_paths_are_relative_to_the_folder_or_the_work_tree(cli: Cli, clone: Clone) -> None:
    clone.write("sub/one", "1\n")
    clone.write("sub/two", "2\n")
    clone.write("three", "3\n")
    process = cli.start("git", "commit", "-m", "one", "--path", "one", cwd=clone.root / "sub")
    assert process.wait(40) == 0
    assert clone.git("show", "--format=", "--name-only") == "sub/one"
    process = cli.start("git", "commit", "--cwd", str(clone.root), "-m", "two", "--path", "sub", cwd=cli.home)
    assert process.wait(40) == 0
    assert clone.git("status", "--porcelain") == "?? three"
    done = cli("git", "commit", "-m", "-", "--json", stdin=b"From stdin\n\nBody\n")
    assert json.loads(done.out)["subject"] == "From stdin"


def test_a_failing_hook_is_shown_and_nothing_acts_on_the_terminal(cli: Cli, clone: Clone, on_terminal: On) -> None:
    clone.hook("pre-commit", r"printf '\033]0;title\007\033[2Jfailed\n'; exit 1")
    clone.write("a\x1b[2J\nb", "x\n")
    terminal = on_terminal("git", "status")
    shown = terminal.until(b"\\nb")
    assert b"\x1b[2J" not in shown
    terminal.rest()
    terminal = on_terminal("git", "commit", "-m", "x")
    shown = terminal.until(b"commit again")
    assert b"nothing was committed" in shown
    assert b"failed" in shown
    assert b"\x1b[2J" not in shown
    assert b"\x1b]0;" not in shown
    terminal.rest()


def test_the_agent_proposes_and_the_user_confirms_edits_or_declines(
    cli: Cli, clone: Clone, on_terminal: On, tmp_path: Path
) -> None:
    assert cli("run", "hello").code == 0
    clone.write("a.txt", "changed\n")
    terminal = on_terminal("git", "commit", "--propose")
    terminal.until(b"[N]o: ")
    terminal.type(b"\r")
    assert terminal.code() == 1
    assert clone.git("rev-list", "--count", "HEAD") == "1"
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nprintf "Edited: " | cat - "$1" > "$1.new" && mv "$1.new" "$1"\n')
    editor.chmod(editor.stat().st_mode | stat.S_IXUSR)
    cli.env["EDITOR"] = cli.env["VISUAL"] = str(editor)
    terminal = on_terminal("git", "commit", "--propose")
    terminal.until(b"[N]o: ")
    terminal.type(b"e\r")
    terminal.until(b"Edited: ")
    terminal.until(b"[N]o: ")
    terminal.type(b"y\r")
    assert terminal.code() == 0
    assert clone.git("log", "-1", "--format=%s").startswith("Edited: ")
    clone.write("a.txt", "once more\n")
    done = cli("git", "commit", "--propose")
    assert done.code == 2
    assert "--yes" in done.err
    done = cli("git", "commit", "--propose", "--yes")
    assert done.code == 0, done.err
    assert clone.git("rev-list", "--count", "HEAD") == "3"
    assert len(json.loads(cli("sessions", "list", "--json").out)) == 1


def test_what_cannot_be_combined_or_is_missing_is_an_error(cli: Cli, clone: Clone, tmp_path: Path) -> None:
    clone.write("a.txt", "changed\n")
    assert "-m TEXT, or --propose" in cli("git", "commit").err
    assert cli("git", "commit", "-m", "x", "--propose").code == 2
    assert cli("git", "status", "x", "--cwd", ".").code == 2
    assert "is not a folder" in cli("git", "status", "--cwd", "missing").err
    assert "there is no agent" in cli("git", "commit", "--cwd", ".", "--propose").err
    done = cli("git", "status", "--cwd", str(tmp_path / "user"))
    assert done.code == 1
    assert "in no git repository" in done.err
    assert cli("git", "commit", "-m", " ").code == 2
    assert cli("git", "pr", "--body", "a", "--body-file", "b").code == 2
    assert cli("git", "pr", "--body-file", "missing").code == 2


def test_a_planted_hook_is_refused_until_somebody_trusts_it(cli: Cli, clone: Clone, tmp_path: Path) -> None:
    assert cli("run", "hello").code == 0
    ran = tmp_path / "ran"
    clone.hook("pre-commit", f"touch {ran}")
    clone.write("a.txt", "changed\n")
    assert "hook pre-commit (new)" in cli("git", "status").err
    done = cli("git", "commit", "-m", "x")
    assert done.code == 1
    assert "hook pre-commit (new)" in done.err
    assert "--trust-repository" in done.err
    assert not ran.exists()
    assert cli("git", "commit", "-m", "x", "--trust-repository").code == 0
    assert ran.exists()


def test_a_pull_request_with_its_push(cli: Cli, clone: Clone, tmp_path: Path) -> None:
    clone.git("remote", "set-url", "origin", "git@github.com:ada/engine.git")
    clone.git("remote", "set-url", "--push", "origin", str(clone.bare))
    clone.git("switch", "--quiet", "-c", "feature")
    clone.write("a.txt", "changed\n")
    assert cli("git", "commit", "-m", "Add retries").code == 0
    done = cli("git", "pr")
    assert done.code == 1
    assert "was not pushed" in done.err
    done = cli("git", "pr", "--push", "--base", "main")
    assert done.code == 1
    assert "https://github.com/ada/engine/compare/main...feature?expand=1" in done.err.replace("\n  ", "")
    gh = StandIn(tmp_path / "programs", "gh")
    gh.answer(create={"stdout": "https://github.com/ada/engine/pull/7\n"})
    (tmp_path / "body").write_text("Because.\n")
    done = cli("git", "pr", "--title", "-x", "--body-file", str(tmp_path / "body"), "--draft")
    assert (done.code, done.out) == (0, "https://github.com/ada/engine/pull/7\n"), done.err
    assert gh.calls()[1]["stdin"] == "Because.\n"
    gh.answer(list={"stdout": '[{"url": "https://github.com/ada/engine/pull/7", "title": "Old"}]'})
    done = cli("git", "pr")
    assert "It was open already: Old" in done.err
    assert json.loads(cli("git", "pr", "--json").out)["is_new"] is False


def test_a_rejected_push_says_what_to_do(cli: Cli, clone: Clone) -> None:
    clone.push_from_elsewhere()
    clone.write("a.txt", "changed\n")
    assert cli("git", "commit", "-m", "mine").code == 0
    done = cli("git", "push")
    assert done.code == 1
    assert "git pull --rebase origin main" in done.err
    subprocess.run(["git", "pull", "--quiet", "--rebase", "origin", "main"], cwd=clone.root, env=cli.env, check=True)
    assert cli("git", "push").code == 0


def test_an_interrupt_ends_the_hook(cli: Cli, clone: Clone, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "started")
    os.mkfifo(tmp_path / "never")
    clone.hook("pre-commit", f"echo now > {tmp_path / 'started'}; cat {tmp_path / 'never'}")
    clone.write("a.txt", "changed\n")
    process = cli.start("git", "commit", "-m", "x")
    assert (tmp_path / "started").read_text() == "now\n"
    process.send_signal(signal.SIGINT)
    assert process.wait(40) == 130
    assert clone.git("status", "--porcelain") == " M a.txt"
