"""The exact state of a folder, and of a user's repository in it, for comparisons."""

from __future__ import annotations

import hashlib
import os
import stat
import subprocess
from pathlib import Path

IDENTITY = ("-c", "user.name=A User", "-c", "user.email=user@example.com", "-c", "init.defaultBranch=main")


def folder_state(folder: Path) -> dict[bytes, tuple[str, bytes]]:
    """Return kind and content of all files and links by path, without those of git's own folders."""
    root = os.fsencode(folder)
    state: dict[bytes, tuple[str, bytes]] = {}
    for parent, folders, names in os.walk(root):
        if b".git" in folders:
            folders.remove(b".git")
        for name in [*names, *(each for each in folders if os.path.islink(os.path.join(parent, each)))]:
            path = os.path.join(parent, name)
            status = os.lstat(path)
            relative = os.path.relpath(path, root)
            if stat.S_ISLNK(status.st_mode):
                state[relative] = ("link", os.readlink(path))
            elif stat.S_ISREG(status.st_mode):
                kind = "executable" if status.st_mode & stat.S_IXUSR else "file"
                with open(path, "rb") as file:
                    state[relative] = (kind, file.read())
    return state


def digest(folder: Path) -> str:
    """Return a digest of everything below a folder: names, modes, times and contents."""
    lines = []
    for parent, folders, names in os.walk(folder):
        for name in sorted([*folders, *names]):
            path = os.path.join(parent, name)
            status = os.lstat(path)
            content = b"" if stat.S_ISDIR(status.st_mode) else Path(path).read_bytes()
            lines.append(f"{path} {status.st_mode} {status.st_mtime_ns} {hashlib.sha256(content).hexdigest()}")
    return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()


def run_git(folder: Path, *args: str) -> str:
    """Run git as the user would, without the configuration of whoever runs the tests."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment |= {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}
    done = subprocess.run(["git", *IDENTITY, *args], cwd=folder, env=environment, capture_output=True, check=True)
    return done.stdout.decode()


def plain_tree(folder: Path, repository: Path) -> str:
    """Return the tree that plain git makes of a folder without a repository: the id stands for all names and bytes."""
    if not repository.exists():
        repository.mkdir()
        run_git(repository, "init", "--quiet", "--bare")
    options = (f"--git-dir={repository}", f"--work-tree={folder}", "-c", "core.bare=false", "-c", "core.autocrlf=false")
    run_git(folder, *options, "-c", "core.protectNTFS=false", "add", "--all", "--force")
    return run_git(folder, *options, "write-tree").strip()
