"""`dragoman run --worktree` and `dragoman worktree`: from the prompt to the checkout, by the demo agent."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from workspace.folder_state import run_git
from workspace.worktree_stage import commit_all

from .conftest import Cli

pytestmark = pytest.mark.slow  # many processes of the command line and of git


@pytest.fixture
def project(cli: Cli) -> Cli:
    """A repository as the workspace, in which the demo agent created a file in a worktree."""
    cli.env["DRAGOMAN_CHECKPOINTS"] = "on"
    run_git(cli.workspace, "init", "--quiet", "--initial-branch=main")
    run_git(cli.workspace, "config", "user.name", "Ada")
    run_git(cli.workspace, "config", "user.email", "ada@example.org")
    (cli.workspace / "file.txt").write_text("one\ntwo\nthree\n")
    (cli.workspace / ".gitignore").write_text(".env\n")
    (cli.workspace / ".worktreeinclude").write_text(".env\n")
    (cli.workspace / ".env").write_text("KEY=1\n")
    commit_all(cli.workspace, "first")
    return cli


def worktree_folder(cli: Cli, name: str = "edit") -> Path:
    (info,) = [each for each in json.loads(cli("worktree", "list", "--json").out) if each["name"] == name]
    return Path(info["folder"])


def test_a_run_in_a_worktree_leaves_the_checkout_and_says_what_to_do_next(project: Cli) -> None:
    done = project("run", "--access", "full", "--worktree", "edit")
    assert done.code == 0, done.err
    assert "worktree: copied 1 ignored file (.worktreeinclude)" in done.err
    assert "worktree: worktree edit on branch dragoman/edit" in done.err
    assert "Worktree edit: 1 file changed, +3 −0, 1 not committed." in done.err
    for command in ("show", "apply", "merge", "drop"):
        assert f"dragoman worktree {command} edit" in done.err
    assert not (project.workspace / "README.md").exists()
    folder = worktree_folder(project)
    assert (folder / "README.md").exists()
    assert (folder / ".env").read_text() == "KEY=1\n"
    listed = json.loads(project("sessions", "list", "--json").out)
    assert listed[0]["worktree"] == "edit"
    assert "worktree edit" in project("sessions", "list").out
    assert "worktree edit" in project("sessions", "show").out


def test_show_apply_and_undo(project: Cli) -> None:
    project("run", "--access", "full", "-w", "-q", "edit")
    shown = project("worktree", "show", "edit")
    assert "+# README" in shown.out
    assert "1 file changed, +3 −0" in shown.err
    assert project("worktree", "show", "--stat").out == "A  README.md  +3 −0\n"
    assert "no terminal to ask" in project("worktree", "apply").err
    done = project("worktree", "apply", "-y")
    assert done.code == 0, done.err
    assert "create  README.md" in done.err
    assert run_git(project.workspace, "status", "--porcelain") == "?? README.md\n"
    assert "nothing to do" in project("worktree", "apply", "-y").err
    assert project("worktree", "apply", "--undo", "-y").code == 0
    assert run_git(project.workspace, "status", "--porcelain") == ""


def test_merge_drop_and_recover(project: Cli) -> None:
    project("run", "--access", "full", "-w", "-q", "edit")
    refused = project("worktree", "merge")
    assert refused.code == 1
    assert "--commit MESSAGE" in refused.err
    merged = project("worktree", "merge", "--commit", "Add a README", "--json")
    assert merged.code == 0, merged.err
    assert json.loads(merged.out)["kind"] == "fast-forward"
    assert run_git(project.workspace, "log", "-1", "--format=%an: %s") == "Ada: Add a README\n"
    assert (project.workspace / "README.md").exists()
    dropped = project("worktree", "drop", "edit", "-y")
    assert "dragoman worktree recover edit" in dropped.err
    assert project("worktree", "list").out == ""
    assert "dropped, for 30 more days" in project("worktree", "list", "--dropped").out
    resumed = project("run", "--resume", "-", "hello")
    assert resumed.code == 2
    assert "dragoman worktree recover edit" in resumed.err
    assert project("worktree", "recover", "edit").code == 0
    assert project("run", "--resume", "-", "hello").code == 0
    assert project("worktree", "keep").code == 0
    assert "There are no leftovers." not in project("worktree", "prune", "-y").out


def test_conflicts_are_listed_brought_into_the_worktree_and_given_to_the_agent(project: Cli) -> None:
    assert project("run", "-q", "--worktree-name", "mine", "hello").code == 0
    folder = worktree_folder(project, "mine")
    (folder / "file.txt").write_text("one\ntheirs\nthree\n")
    commit_all(folder, "theirs")
    (project.workspace / "file.txt").write_text("one\nours\nthree\n")
    head = commit_all(project.workspace, "ours")
    applied = project("worktree", "apply", "-y")
    assert applied.code == 1
    assert "  file.txt" in applied.err
    merged = project("worktree", "merge")
    assert merged.code == 1
    assert "nothing was changed:\n  file.txt" in merged.err
    assert run_git(project.workspace, "rev-parse", "main").strip() == head
    by_agent = project("worktree", "merge", "--ask-agent")
    assert by_agent.code == 0, by_agent.err
    assert "these files have conflicts" in project("sessions", "show").out
    assert "<<<<<<<" in (folder / "file.txt").read_text()
    (folder / "file.txt").write_text("one\nboth\nthree\n")
    commit_all(folder, "solved")
    assert project("worktree", "merge").code == 0
    assert (project.workspace / "file.txt").read_text() == "one\nboth\nthree\n"


def test_a_worktree_of_a_run_that_could_not_start_is_removed(project: Cli) -> None:
    done = project("run", "-w", "--agent-command", "/nonexistent/agent", "hello")
    assert done.code == 3
    assert project("worktree", "list", "--json").out.strip() == "[]"
    assert "dragoman" not in run_git(project.workspace, "branch")


def test_a_failed_setup_is_explained_and_nothing_is_left(project: Cli) -> None:
    done = project("run", "-w", "--setup", "echo missing library; exit 4", "hello")
    assert done.code != 0
    assert "the setup command failed with exit code 4" in done.err
    assert "missing library" in done.err
    assert project("worktree", "list", "--json").out.strip() == "[]"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--base", "main"), "--base is for a session in a worktree"),
        (("-w", "--base=-x"), "is no branch or commit"),
        (("--worktree-name", "../x"), "cannot be the name of a worktree"),
        (("-w", "--resume", "x"), "--worktree cannot be combined with --resume"),
    ],
)
def test_wrong_options_are_refused_before_anything_happens(
    project: Cli, options: tuple[str, ...], message: str
) -> None:
    done = project("run", *options, "hello")
    assert done.code == 2
    assert message in done.err
    assert "dragoman" not in run_git(project.workspace, "branch")


def test_a_folder_without_git_is_refused(cli: Cli) -> None:
    done = cli("run", "--worktree", "hello")
    assert done.code == 2
    assert "is in no git repository" in done.err


def test_names_of_files_cannot_write_to_the_terminal(project: Cli) -> None:
    project("run", "-q", "--worktree-name", "mine", "hello")
    (worktree_folder(project, "mine") / "a\x1b[31mb\nc").write_text("odd\n")
    for args in (("show", "--stat"), ("apply", "-y")):
        done = project("worktree", *args)
        assert done.code == 0, done.err
        assert "\x1b[31m" not in done.out + done.err
        assert "\nc" not in done.out + done.err


def test_prune_shows_and_removes_leftovers(project: Cli) -> None:
    project("run", "-q", "--worktree-name", "mine", "hello")
    run_git(project.workspace, "branch", "dragoman/lost")
    found = project("worktree", "prune", "--json", "-y")
    assert [each["name"] for each in json.loads(found.out)] == ["dragoman/lost"]
    assert "dragoman/lost" not in run_git(project.workspace, "branch")
    assert "There are no leftovers." in project("worktree", "prune").err


def test_the_difference_of_a_session_in_a_worktree_is_found_from_the_checkout(project: Cli) -> None:
    project("run", "-q", "hello")
    project("run", "--access", "full", "-w", "-q", "edit")
    assert project("diff", "--stat").out == "A  README.md  +3 −0\n"
