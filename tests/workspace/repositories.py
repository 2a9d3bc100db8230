"""Repositories for tests of git actions: a clone with a local bare remote, hooks, and stand-ins for `gh` and `glab`."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from dragoman.workspace.git_state import Repository, open_repository


def git(folder: Path, *args: str | bytes) -> str:
    """Run git as a person would, and return what it prints."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    done = subprocess.run(["git", *args], cwd=folder, env=environment, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode("utf-8", "replace")
    return done.stdout.decode("utf-8", "backslashreplace").removesuffix("\n")


class Clone:
    """A work tree on the branch `main` with one commit, whose remote `origin` is a bare repository beside it."""

    def __init__(self, folder: Path) -> None:
        self.bare = folder / "origin.git"
        self.root = folder / "work"
        git(folder, "init", "--quiet", "--bare", "--initial-branch=main", str(self.bare))
        git(folder, "init", "--quiet", "--initial-branch=main", str(self.root))
        git(self.root, "config", "user.name", "Ada")
        git(self.root, "config", "user.email", "ada@example.org")
        git(self.root, "remote", "add", "origin", str(self.bare))
        self.write("a.txt", "a\n")
        git(self.root, "add", "a.txt")
        git(self.root, "commit", "--quiet", "-m", "first")
        git(self.root, "push", "--quiet", "--set-upstream", "origin", "main")

    @property
    def repository(self) -> Repository:
        return open_repository(self.root)

    def git(self, *args: str | bytes) -> str:
        return git(self.root, *args)

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def hook(self, name: str, script: str, *, folder: Path | None = None) -> None:
        path = (folder or self.root / ".git" / "hooks") / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def push_from_elsewhere(self) -> None:
        """Let somebody else push a commit to `main`."""
        other = self.root.parent / "other"
        git(self.root.parent, "clone", "--quiet", str(self.bare), str(other))
        (other / "theirs").write_text("theirs\n")
        git(other, "add", "theirs")
        git(other, "-c", "user.name=Eve", "-c", "user.email=eve@example.org", "commit", "--quiet", "-m", "theirs")
        git(other, "push", "--quiet")


_STAND_IN = """#!{python}
import json, os, sys
log = {log!r}
is_listing = sys.argv[2] == "list"
call = {{"args": sys.argv[1:], "stdin": "" if is_listing else sys.stdin.read(), "cwd": os.getcwd(),
         "prompt": os.environ.get("GH_PROMPT_DISABLED")}}
with open(log, "a") as file:
    file.write(json.dumps(call) + "\\n")
answer = json.load(open(log + ".answers"))[sys.argv[2]]
sys.stderr.write(answer.get("stderr", ""))
sys.stdout.write(answer.get("stdout", ""))
sys.exit(answer.get("code", 0))
"""


class StandIn:
    """A program `gh` or `glab` on the PATH that records how it was called, and answers as the test says."""

    def __init__(self, folder: Path, name: str) -> None:
        self._log = folder / f"{name}.log"
        path = folder / name
        path.write_text(_STAND_IN.format(python=sys.executable, log=str(self._log)))
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        self.answers: dict[str, dict[str, object]] = {"list": {"stdout": "[]"}, "create": {"stdout": "https://x/1\n"}}
        self.answer()

    def answer(self, **answers: dict[str, object]) -> None:
        self.answers.update(answers)
        Path(f"{self._log}.answers").write_text(json.dumps(self.answers))

    def calls(self) -> list[dict[str, object]]:
        return [json.loads(line) for line in self._log.read_text().splitlines()] if self._log.exists() else []


def path_with(programs: Path) -> str:
    """Return a PATH on which this folder is first, and no other one has `gh` or `glab`."""
    others = [
        each
        for each in os.environ["PATH"].split(os.pathsep)
        if not any(os.path.exists(os.path.join(each, name)) for name in ("gh", "glab"))
    ]
    return os.pathsep.join([str(programs), *others])


def only_these_programs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder for stand-ins: there is no `gh` and no `glab` but those that are put there."""
    programs = folder / "programs"
    programs.mkdir()
    monkeypatch.setenv("PATH", path_with(programs))
    return programs
