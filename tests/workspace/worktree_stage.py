"""A user's repository, and worktrees of it, for tests."""

from __future__ import annotations

from pathlib import Path

from dragoman.workspace.worktree_store import WorktreeSettings
from dragoman.workspace.worktrees import Worktrees
from workspace.folder_state import run_git


def make_repository(folder: Path) -> Path:
    """Make a repository with one commit on the branch main."""
    folder.mkdir(parents=True)
    run_git(folder, "init", "--quiet", "--initial-branch=main")
    run_git(folder, "config", "user.name", "Ada")
    run_git(folder, "config", "user.email", "ada@example.org")
    (folder / "file.txt").write_text("".join(f"line {number}\n" for number in range(1, 21)))
    (folder / "other.txt").write_text("other\n")
    (folder / "sub").mkdir()
    (folder / "sub" / "inner.txt").write_text("inner\n")
    (folder / ".gitignore").write_text("*.log\n.env\n")
    commit_all(folder, "first")
    return folder


def commit_all(folder: Path, message: str) -> str:
    run_git(folder, "add", "--all")
    run_git(folder, "commit", "--quiet", "-m", message)
    return run_git(folder, "rev-parse", "HEAD").strip()


class Stage:
    """`repository` is the user's checkout, `worktrees` those of it. `now` is the time in seconds."""

    def __init__(self, base: Path) -> None:
        base = Path(base.resolve())
        self.home = base / "home"
        self.repository = make_repository(base / "project")
        self.now = 1_000_000.0
        self.settings = WorktreeSettings(home=self.home, folder=base / "worktrees")
        self.worktrees = self.reopened()

    def reopened(self, **changes: object) -> Worktrees:
        import msgspec

        self.settings = msgspec.structs.replace(self.settings, **changes)
        return Worktrees(self.settings, clock=lambda: self.now)
