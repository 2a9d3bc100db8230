"""Copies of a workspace for evaluations: `copy_workspace`, each with a repository of its own where there is one.

Promised: the copy has the files as they are, byte for byte, with their modes and symbolic links: those that git tracks,
changed or not, and new ones, but none that git ignores, except those that `.worktreeinclude` names. A folder without
git is copied whole. The repository of a copy has the commits of the original and its branches as remote ones; what is
committed, stashed or configured in it is seen by nobody else. Nothing is written to the original.

Not promised: the contents of submodules, which are left empty; the state of the index: what was staged is changed, but
not staged, in the copy.

A copy reads the objects of the original repository (`objects/info/alternates`), so that a large history costs nothing.
It is for as long as an evaluation takes: objects that nobody needs any more may vanish from the original later.

Blocking: call it in a thread.
"""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from dragoman.errors import InputError
from dragoman.workspace.folders import Workspace
from dragoman.workspace.git import GitError, git_program

# A copy is meant for source code. Larger folders are mostly data, or a home folder that was named by mistake.
MAX_COPIED_FILES: Final = 200_000
MAX_COPIED_BYTES: Final = 4 * 1024**3

INCLUDE_FILE: Final = ".worktreeinclude"
"""Names, one on a line as in `.gitignore`, ignored files that a copy has nevertheless."""

# Seconds. A repository with a million files is listed in a few.
GIT_TIMEOUT_S: Final = 300.0

# No program that the repository's settings name runs, and none of the user's settings counts.
_GIT_OPTIONS: Final = (
    *("-c", "core.fsmonitor=false", "-c", f"core.hooksPath={os.devnull}", "-c", "core.quotePath=false"),
    *("-c", "gc.auto=0", "-c", "maintenance.auto=false", "-c", "protocol.file.allow=always"),
)
_GIT_VARIABLES: Final = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_LFS_SKIP_SMUDGE": "1",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "LC_ALL": "C",
}
# The remote of a copy.
_REMOTE: Final = "original"


def copy_workspace(workspace: Workspace, into: Path) -> Workspace:
    """Copy the folders of a workspace below `into`, and return the workspace of the copies.

    Folders of one repository are folders of one copy. `InputError` where one is too large.
    """
    copies: dict[Path, Path] = {}

    def copied(folder: Path) -> Path:
        repository = _repository(folder)
        top = repository or folder
        if top not in copies:
            outer = next((original for original in copies if top.is_relative_to(original)), None)
            if outer is not None and (copies[outer] / top.relative_to(outer)).is_dir():
                return copies[outer] / folder.relative_to(outer)
            copies[top] = into / str(len(copies)) / (top.name or "workspace")
            copies[top].mkdir(parents=True, mode=0o700)
            if repository is None:
                _copy_files(top, copies[top], _walk(top))
            else:
                _copy_repository(top, copies[top])
        target = copies[top] / folder.relative_to(top)
        target.mkdir(parents=True, exist_ok=True)  # git knows no empty folder
        return target

    cwd, *additional = [copied(folder) for folder in workspace.folders]
    return Workspace(cwd, additional, workspace.rules_folder)


def has_commit(folder: Path) -> bool:
    """Return whether a folder is in a repository with a commit, and not ignored there: it can have a worktree."""
    if _repository(folder) is None:
        return False
    try:
        _git(folder, "rev-parse", "--verify", "--quiet", "HEAD")
    except GitError:
        return False
    return True


def shared_objects(copy: Workspace) -> list[Path]:
    """Return the folders of the originals in which git finds the objects of a new copy. A sandbox lets them be read."""
    found: list[Path] = []
    for folder in copy.folders:
        for above in (folder, *folder.parents):
            alternates = above / ".git" / "objects" / "info" / "alternates"
            if alternates.is_file():
                found += [Path(line) for line in alternates.read_text().splitlines()]
                break
    return list(dict.fromkeys(found))


def moved_path(path: str | os.PathLike[str], original: Workspace, copy: Workspace) -> Path:
    """Return where a path of the original workspace is in the copy; one outside of it as it is."""
    absolute = Path(os.path.realpath(os.path.join(original.cwd, Path(path).expanduser())))
    for folder, target in zip(original.folders, copy.folders, strict=True):
        if absolute.is_relative_to(folder):
            return target / absolute.relative_to(folder)
    return absolute


def _repository(folder: Path) -> Path | None:
    """Return the top of the working tree that the folder is in.

    None where git knows of none, is not installed, or ignores the folder: then none of its files would be copied.
    """
    try:
        top = Path(os.fsdecode(_git(folder, "rev-parse", "--show-toplevel").rstrip(b"\n")))
    except GitError:
        return None
    try:
        _git(folder, "check-ignore", "--quiet", ".")
    except GitError:
        return top
    return None


def _copy_repository(source: Path, target: Path) -> None:
    _clone(source, target)
    listed = _git(source, "ls-files", "-z", "--cached", "--others", "--exclude-standard").split(b"\0")
    names = [Path(os.fsdecode(name)) for name in listed if name]
    if (source / INCLUDE_FILE).is_file():
        included = _git(source, "ls-files", "-z", "--others", "--ignored", f"--exclude-from={INCLUDE_FILE}")
        names += [Path(os.fsdecode(name)) for name in included.split(b"\0") if name]
    _copy_files(source, target, dict.fromkeys(names))


def _clone(source: Path, target: Path) -> None:
    """Make a repository without files, on the commit and branch of the original."""
    # An agent that pushes must not change the user's branches, and one that commits needs a name.
    settings = {f"remote.{_REMOTE}.pushurl": os.devnull, **_identity(source)}
    options = [f"--config={name}={value}" for name, value in settings.items()]
    options += ["--shared", "--no-checkout", "--quiet", "--template=", f"--origin={_REMOTE}"]
    _git(source, "clone", *options, "--", str(source), str(target))
    _git(target, "reset", "--quiet", "--mixed", check=False)  # the index; there may be no commit yet


def _identity(repository: Path) -> dict[str, str]:
    """Return the user's name and address, which git would not find in an isolated home."""
    command = [git_program(), "-C", str(repository), "config", "--null", "--get-regexp", r"^user\.(name|email)$"]
    done = subprocess.run(command, capture_output=True, check=False, stdin=subprocess.DEVNULL, timeout=GIT_TIMEOUT_S)
    lines = done.stdout.decode("utf-8", "replace").split("\0")
    return {name: value for name, _, value in (line.partition("\n") for line in lines) if value}


def _copy_files(source: Path, target: Path, names: Iterable[Path]) -> None:
    count = size = 0
    real_source = Path(os.path.realpath(source))
    is_real: dict[Path, bool] = {}  # by folder: whether it is reached through no link
    for name in names:
        original, copy = source / name, target / name
        if (folder := name.parent) not in is_real:
            is_real[folder] = os.path.realpath(source / folder) == str(real_source / folder)
        if not is_real[folder]:
            continue  # deleted, and not committed: there is a link in the place of its folder
        try:
            status = original.lstat()
        except (FileNotFoundError, NotADirectoryError):
            continue  # deleted, and not committed
        count, size = count + 1, size + status.st_size
        if count > MAX_COPIED_FILES or size > MAX_COPIED_BYTES:
            raise InputError(
                f"{source} is too large for a copy: more than {MAX_COPIED_FILES:,} files or "
                f"{MAX_COPIED_BYTES // 1024**3} GiB",
                guidance="Name a smaller folder, let git ignore the data in it, or isolate without a worktree.",
            )
        if stat.S_ISDIR(status.st_mode):  # an empty one, or a submodule
            copy.mkdir(parents=True, exist_ok=True)
        elif stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode):
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(original, copy, follow_symlinks=False)


def _walk(folder: Path) -> Iterator[Path]:
    """Iterate over everything in a folder without git, by paths relative to it."""
    for path, folders, files in os.walk(folder):
        here = Path(path).relative_to(folder)
        links = [name for name in folders if os.path.islink(os.path.join(path, name))]
        yield from (here / name for name in (*files, *links))
        if not files and not folders and here.parts:
            yield here


def _git(folder: Path, *args: str, check: bool = True) -> bytes:
    """Run git on the user's repository, for reading, or on a copy of it."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        done = subprocess.run(
            [git_program(), "-C", str(folder), *_GIT_OPTIONS, *args],
            env={**environ, **_GIT_VARIABLES},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=GIT_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise GitError(f"git {args[0]} took too long") from None
    if check and done.returncode != 0:
        stderr = done.stderr.decode("utf-8", "replace").strip()
        raise GitError(f"git {args[0]} failed: {stderr}", stderr=stderr, exit_code=done.returncode)
    return done.stdout
