"""`Git`: the program git, driven as a subprocess on a repository of our own.

Promised: nothing of the user's git has an effect or is changed. No configuration file of the user, of the system or of
the workspace is read, no hook and no filter runs, no attribute of the workspace changes a byte, and no variable of the
environment (`GIT_DIR`, `GIT_INDEX_FILE`, …) gets through. The user's own repository is never opened.

Blocking: call it in a thread.
"""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import IO, Final

from dragoman.errors import DragomanError

# Attributes of the workspace that would change content, or hide a change of it, are switched off for every path: the
# file with these lines (`info/attributes`) has precedence over all others. `working-tree-encoding` can only be reset.
ATTRIBUTES: Final = (
    b"* -text -crlf -ident -filter !eol !working-tree-encoding !diff !merge !whitespace !conflict-marker-size\n"
)

# The configuration of every call: the repository's own file may be as old as the first version that wrote it.
_CONFIG: Final = {
    "core.bare": "false",
    "core.hooksPath": os.devnull,
    "core.attributesFile": os.devnull,
    "core.autocrlf": "false",
    "core.safecrlf": "false",
    "core.eol": "lf",
    "core.symlinks": "true",
    "core.fileMode": "true",
    "core.protectNTFS": "false",  # these forbid names that are fine here
    "core.protectHFS": "false",
    "core.quotePath": "false",
    "core.fsmonitor": "false",
    "core.untrackedCache": "true",
    "core.preloadIndex": "true",
    "core.logAllRefUpdates": "false",
    "index.version": "4",
    "status.showUntrackedFiles": "all",  # as an option alone it would switch the cache of untracked files off
    "status.renames": "false",
    "diff.external": "",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "advice.addEmbeddedRepo": "false",
}

# Variables of the environment that git gets as they are.
_PASSED_ON: Final = ("PATH", "TMPDIR", "SYSTEMROOT")

# Files of a workspace that git reads in every folder, whatever they are; and their size, above which we do not let it.
LIST_NAMES: Final = (".gitignore", ".gitattributes")
MAX_LIST_BYTES: Final = 16 * 1024 * 1024

# Seconds for finding those of them that git did not get past.
_SEARCH_LIMIT_S: Final = 5.0

# The longest file `.git`, as git has it.
MAX_LINK_BYTES: Final = 1024 * 1024

# A name for commits of ours; git refuses to make one without.
_IDENTITY: Final = {
    f"GIT_{role}_{part}": value
    for role in ("AUTHOR", "COMMITTER")
    for part, value in (("NAME", "Dragoman"), ("EMAIL", "dragoman@localhost"))
}


class GitError(DragomanError):
    """Git is not installed, failed, or took too long. `stderr` is what it said, `exit_code` None if it did not end."""

    def __init__(
        self, message: str, *, stderr: str = "", exit_code: int | None = None, guidance: str | None = None
    ) -> None:
        super().__init__(message, guidance=guidance)
        self.stderr = stderr
        self.exit_code = exit_code


@cache
def git_program() -> str:
    """Return the absolute path of git. Raises `GitError` where it is not installed."""
    path = shutil.which("git")
    if path is None or not os.path.isabs(path):
        raise GitError("git is not installed", guidance="Install git, or switch checkpoints off: --no-checkpoints")
    return path


class Abort:
    """Ends the work of another thread with git: the process that runs, and every one after it until `reset`."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._is_set = False

    def reset(self) -> None:
        self._is_set = False

    def kill(self) -> None:
        self._is_set = True
        if (process := self._process) is not None:
            process.kill()

    @contextmanager
    def guarding(self, process: subprocess.Popen[bytes]) -> Iterator[None]:
        self._process = process
        if self._is_set:  # since before the process was known
            process.kill()
        try:
            yield
        finally:
            self._process = None


class Git:
    """Git on the repository `git_dir`, with the files of `work_tree`.

    `lock` is a descriptor that every process of git inherits: a lock on it lasts until the last of them has ended, also
    if this process is killed. `deadline` is the time, by `time.monotonic`, at which a process of git is ended.
    With `abort`, another thread can end it.
    """

    def __init__(
        self,
        git_dir: Path,
        work_tree: Path,
        *,
        lock: int | None = None,
        deadline: float | None = None,
        abort: Abort | None = None,
    ) -> None:
        self.git_dir = git_dir
        self.work_tree = work_tree
        self.excludes_file: Path | None = None  # the user's own list of files to ignore, beside those of the workspace
        self._index = git_dir / "index"
        self._lock = lock
        self._deadline = deadline
        self._abort = abort or Abort()

    def run(
        self,
        *args: str | bytes | Path,
        stdin: bytes = b"",
        config: Sequence[str] = (),
        ok_codes: Collection[int] = (0,),
    ) -> bytes:
        """Run a command and return what it prints. Raises `GitError` for an exit code that is not among `ok_codes`."""
        return self.run_with_warnings(*args, stdin=stdin, config=config, ok_codes=ok_codes)[0]

    def run_with_warnings(
        self,
        *args: str | bytes | Path,
        stdin: bytes = b"",
        config: Sequence[str] = (),
        ok_codes: Collection[int] = (0,),
    ) -> tuple[bytes, bytes]:
        """Run a command and return what it prints, and what it complains about. Raises `GitError`."""
        try:
            process = self._start(args, config)
            with process, self._abort.guarding(process):
                try:
                    stdout, stderr_bytes = process.communicate(stdin, timeout=self._remaining_s())
                except BaseException:
                    process.kill()
                    raise
        except subprocess.TimeoutExpired:
            raise GitError(f"git {_text(args[0])} took too long") from None
        except OSError as error:
            raise GitError(f"git {_text(args[0])} could not be run: {error.strerror}") from None
        if process.returncode not in ok_codes:
            stderr = _text(stderr_bytes).strip()
            last = stderr.splitlines()[-1] if stderr else f"exit code {process.returncode}"
            raise GitError(f"git {_text(args[0])} failed: {last}", stderr=stderr, exit_code=process.returncode)
        return stdout, stderr_bytes

    def _start(self, args: Sequence[str | bytes | Path], config: Sequence[str] = ()) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            self._command(args, config),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # The folder may be gone, and its checkpoints are to be removed.
            cwd=self.work_tree if self.work_tree.is_dir() else self.git_dir,
            env=self._environment(),
            pass_fds=() if self._lock is None else (self._lock,),
        )

    def on_work_tree(self, work_tree: Path) -> Git:
        """Return git on the same repository with other files."""
        other = Git(self.git_dir, work_tree, lock=self._lock, deadline=self._deadline, abort=self._abort)
        other.excludes_file = self.excludes_file
        return other

    def run_on_index(self, index: Path, *args: str, stdin: bytes = b"") -> bytes:
        """Run a command with another index, such as the user's, which is only read then. Raises `GitError`."""
        other = self.on_work_tree(self.work_tree)
        other._index = index
        return other.run(*args, stdin=stdin)

    @contextmanager
    def blobs(self) -> Iterator[BlobReader]:
        """Read contents from the repository, one after the other, by one process."""
        process = self._start(("cat-file", "--batch"))
        assert process.stdin is not None
        assert process.stdout is not None
        with process:
            try:
                yield BlobReader(process.stdin, process.stdout)
            except BaseException:
                process.kill()
                raise

    def _command(self, args: Sequence[str | bytes | Path], config: Sequence[str]) -> list[str | bytes | Path]:
        settings = [f"{name}={value}" for name, value in _CONFIG.items()]
        settings.append(f"core.excludesFile={self.excludes_file or os.devnull}")
        # Names are names, never patterns; `check-ignore` means that anyway, and refuses the option.
        literal = () if args[0] == "check-ignore" else ("--literal-pathspecs",)
        return [git_program(), *literal, *(part for setting in (*settings, *config) for part in ("-c", setting)), *args]

    def _environment(self) -> dict[str, str]:
        return {
            **{name: os.environ[name] for name in _PASSED_ON if name in os.environ},
            **_IDENTITY,
            "HOME": str(self.git_dir),  # nothing there is git's configuration
            "XDG_CONFIG_HOME": str(self.git_dir),
            "LC_ALL": "C",
            "GIT_DIR": str(self.git_dir),
            "GIT_WORK_TREE": str(self.work_tree),
            "GIT_INDEX_FILE": str(self._index),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_NO_REPLACE_OBJECTS": "1",
            "GIT_TERMINAL_PROMPT": "0",
        }

    def _remaining_s(self) -> float | None:
        if self._deadline is None:
            return None
        return max(0.001, self._deadline - time.monotonic())


class BlobReader:
    def __init__(self, requests: IO[bytes], replies: IO[bytes]) -> None:
        self._requests = requests
        self._replies = replies

    def read(self, object_id: str) -> bytes:
        """Return the content of a blob. Raises `GitError` where the repository has lost it."""
        self._requests.write(object_id.encode() + b"\n")
        self._requests.flush()
        header = self._replies.readline().split()
        if len(header) != 3:
            raise GitError(f"the content {object_id} is missing from the checkpoints")
        size = int(header[2])
        data = self._replies.read(size)
        self._replies.read(1)  # the newline after it
        if len(data) != size:
            raise GitError(f"the content {object_id} cannot be read from the checkpoints")
        return data


# -- the user's own repository, as far as its files tell without git


def find_repository(folder: Path) -> tuple[Path, Path] | None:
    """Return the work tree that a folder is in, and the folder of its repository; None where it is in none."""
    for parent in (folder, *folder.parents):
        marker = parent / ".git"
        if marker.is_dir():
            return parent, marker
        if marker.is_file():
            return (parent, repository) if (repository := _linked_repository(marker)) is not None else None
    return None


def _linked_repository(marker: Path) -> Path | None:
    """Return the common repository of a linked work tree, or the repository of a submodule."""
    git_dir = linked_git_dir(marker)
    if git_dir is None:
        return None
    line = read_small(git_dir / "commondir", MAX_LINK_BYTES)
    return git_dir if line is None else _resolved(git_dir, line)


def linked_git_dir(marker: Path) -> Path | None:
    """Return the folder that a file `.git` names."""
    line = read_small(marker, MAX_LINK_BYTES)
    if line is None or not line.startswith(b"gitdir:"):
        return None
    return _resolved(marker.parent, line.removeprefix(b"gitdir:"))


def path_in_file(file: Path) -> Path | None:
    """Return the path that a file of git has as its only line."""
    line = read_small(file, MAX_LINK_BYTES)
    return None if line is None else _resolved(file.parent, line)


def _resolved(folder: Path, line: bytes) -> Path | None:
    try:
        return (folder / os.fsdecode(line.strip())).resolve()
    except (OSError, ValueError, RuntimeError):  # a zero byte, or a circle of links
        return None


def open_without_waiting(path: str, flags: int) -> int:
    """Open a file, as an `opener`: a FIFO is opened at once. The descriptor is closed where `open` refuses a folder."""
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)


def read_small(path: Path, max_bytes: int) -> bytes | None:
    """Return the content of a regular file that the workspace may have planted; None where it is none, or larger.

    Reading a FIFO would wait, and reading a device might never end.
    """
    try:
        with open(path, "rb", opener=open_without_waiting) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode) or status.st_size > max_bytes:
                return None
            return file.read(max_bytes)
    except (OSError, ValueError):
        return None


def user_excludes_file() -> Path | None:
    """Return the file of patterns that the user ignores in all repositories (`core.excludesFile`), if there is one."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        done = subprocess.run(
            [git_program(), "config", "--global", "--get", "--type=path", "core.excludesFile"],
            capture_output=True,
            timeout=5,
            check=False,
            cwd="/",
            env={**environment, "GIT_TERMINAL_PROMPT": "0"},
        )
    except (OSError, subprocess.SubprocessError):
        return None
    chosen = os.fsdecode(done.stdout.rstrip(b"\n")) if done.returncode == 0 else ""
    config_home = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    path = Path(chosen) if chosen else Path(config_home, "git", "ignore")
    return path if path.is_absolute() and path.is_file() else None


def unreadable_lists(work_tree: Path) -> list[bytes]:
    """Return the files that git reads in a folder of the workspace and cannot get past, as far as there is time."""
    found = []
    end = time.monotonic() + _SEARCH_LIMIT_S
    for parent, folders, names in os.walk(os.fsencode(work_tree)):
        if time.monotonic() > end:
            break
        folders[:] = [name for name in folders if name != b".git"]
        for name in names:
            path = os.path.join(parent, name)
            if os.fsdecode(name) in LIST_NAMES and is_unreadable_list(path):
                found.append(os.path.relpath(path, os.fsencode(work_tree)))
    return found


def is_unreadable_list(path: bytes) -> bool:
    """Return whether git would wait for ever, or very long, when it reads this; it follows no link."""
    try:
        status = os.lstat(path)
    except OSError:
        return False
    if stat.S_ISREG(status.st_mode):
        return status.st_size > MAX_LIST_BYTES
    return not stat.S_ISDIR(status.st_mode) and not stat.S_ISLNK(status.st_mode)


def _text(value: str | bytes | Path) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
