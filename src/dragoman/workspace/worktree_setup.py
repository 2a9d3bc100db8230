"""Preparing a new worktree: copies of ignored files that it needs, and the user's setup command.

`.worktreeinclude` in the checkout lists, by the patterns of `.gitignore`, which files are copied; only those that git
ignores are. It is a file of the repository, so it can only choose files that are there already. A setup command comes
from the user's settings or the command line, never from the repository: nothing that an agent or a stranger has planted
there is run.

Blocking: call it in a thread.
"""

from __future__ import annotations

import collections
import os
import signal
import stat
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from dragoman.errors import WorktreeError
from dragoman.proc.reaper import reaper
from dragoman.workspace.git import GitError
from dragoman.workspace.restore import EXECUTABLE, REGULAR, FileChange, FileConflict, FileVersion, FolderWriter
from dragoman.workspace.shadow import path_text
from dragoman.workspace.user_git import UserGit

OnProgress = Callable[[str], None]

INCLUDE_FILE: Final = ".worktreeinclude"
MAX_INCLUDE_BYTES: Final = 64 * 1024
MAX_COPIED_FILES: Final = 20_000

# Lines of a setup command that its error shows.
MAX_SHOWN_LINES: Final = 12
MAX_LINE_CHARACTERS: Final = 1000

_FOLDER_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


def copy_included(checkout: Path, folder: Path, *, max_bytes: int, on_progress: OnProgress) -> int:
    """Copy the ignored files that `.worktreeinclude` of the checkout lists; return their number.

    Links, and files that would exceed `max_bytes` in all, are left out and reported. No link is followed, on either
    side, and nothing that the worktree has already is overwritten.
    """
    patterns = _read_patterns(checkout)
    if not patterns.strip():
        return 0
    copied = copied_bytes = 0
    left_out: list[str] = []
    with FolderWriter(folder, ".dragoman-" + os.urandom(8).hex()) as writer:
        paths = _listed_paths(checkout, patterns)
        for path in paths[:MAX_COPIED_FILES]:
            shown = path_text(path)
            try:
                mode, size = _status(checkout, path)
                if not stat.S_ISREG(mode):
                    left_out.append(f"{shown} (no regular file)")
                    continue
                if copied_bytes + size > max_bytes:
                    left_out.append(f"{shown} ({size:,} bytes, over the limit)")
                    continue
                data = _read(checkout, path)
                version = FileVersion(EXECUTABLE if mode & stat.S_IXUSR else REGULAR, "")
                writer.apply([FileChange(path, None, version)], lambda _id, data=data: data)  # type: ignore[misc]
            except (OSError, FileConflict) as error:
                left_out.append(f"{shown} ({error})")
                continue
            copied, copied_bytes = copied + 1, copied_bytes + len(data)
        if len(paths) > MAX_COPIED_FILES:
            left_out.append(f"{len(paths) - MAX_COPIED_FILES:,} files more than {MAX_COPIED_FILES:,}")
    if copied:
        on_progress(f"copied {copied:,} ignored file{'' if copied == 1 else 's'} ({INCLUDE_FILE})")
    for line in left_out[:MAX_SHOWN_LINES]:
        on_progress(f"not copied: {line}")
    if len(left_out) > MAX_SHOWN_LINES:
        on_progress(f"not copied: {len(left_out) - MAX_SHOWN_LINES:,} more")
    return copied


def _read_patterns(checkout: Path) -> bytes:
    try:
        with open(os.open(checkout / INCLUDE_FILE, _READ_FLAGS), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return b""
            return file.read(MAX_INCLUDE_BYTES)
    except OSError:
        return b""


def _listed_paths(checkout: Path, patterns: bytes) -> list[bytes]:
    """Return the files that the patterns name and git ignores."""
    git = UserGit(checkout)
    with tempfile.NamedTemporaryFile(prefix="dragoman-", buffering=0) as file:
        file.write(patterns)
        listed = git.run("ls-files", "-z", "--others", "--ignored", f"--exclude-from={file.name}")
    named = [path for path in listed.split(b"\0") if path and not path.endswith(b"/")]
    if not named:
        return []
    standard_input = b"".join(b"./" + path + b"\0" for path in named)
    # `check-ignore` refuses the variable that makes names literal; it takes them so anyway.
    done = git.call("check-ignore", "-z", "--stdin", stdin=standard_input, env={"GIT_LITERAL_PATHSPECS": "0"})
    if done.exit_code not in (0, 1):
        raise GitError(f"git check-ignore failed: {done.stderr.strip()}")
    return sorted(path.removeprefix(b"./") for path in done.stdout.split(b"\0") if path)


def _status(root: Path, path: bytes) -> tuple[int, int]:
    with _ParentFolder(root, path) as folder:
        status = os.stat(os.path.basename(path), dir_fd=folder, follow_symlinks=False)
    return status.st_mode, status.st_size


def _read(root: Path, path: bytes) -> bytes:
    with (
        _ParentFolder(root, path) as folder,
        open(os.open(os.path.basename(path), _READ_FLAGS, dir_fd=folder), "rb") as file,
    ):
        return file.read()


class _ParentFolder:
    """The open folder of a path below `root`, which leads through no link."""

    def __init__(self, root: Path, path: bytes) -> None:
        self._descriptor = os.open(root, _FOLDER_FLAGS)
        for name in path.split(b"/")[:-1]:
            above = self._descriptor
            try:
                self._descriptor = os.open(name, _FOLDER_FLAGS, dir_fd=above)
            finally:
                os.close(above)

    def __enter__(self) -> int:
        return self._descriptor

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)


def run_setup(command: str, folder: Path, checkout: Path, *, timeout_s: float, on_progress: OnProgress) -> None:
    """Run the setup command in a new worktree, with its output as progress. Raises `WorktreeError` where it fails.

    It finds the two folders in `DRAGOMAN_WORKTREE` and `DRAGOMAN_CHECKOUT`. If this process ends, the command does too.
    """
    on_progress(f"setup: {command}")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment |= {"DRAGOMAN_WORKTREE": str(folder), "DRAGOMAN_CHECKOUT": str(checkout), "PWD": str(folder)}
    helper = reaper()
    helper.ensure()
    environment, _ = helper.mark(environment)
    try:
        process = subprocess.Popen(
            ["/bin/sh", "-c", command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env=environment,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        raise WorktreeError(f"the setup command could not be started: {error}") from None
    helper.add(process.pid)
    last_lines: collections.deque[str] = collections.deque(maxlen=MAX_SHOWN_LINES)
    is_late = threading.Event()

    def end_late() -> None:
        is_late.set()
        _kill_group(process.pid)

    timer = threading.Timer(timeout_s, end_late)
    timer.daemon = True
    timer.start()
    try:
        for line in _lines(process):
            last_lines.append(line)
            on_progress(line)
        process.wait()
    finally:
        timer.cancel()
        _kill_group(process.pid)  # what it left running
        process.wait()
        helper.remove(process.pid)
    if process.returncode == 0 and not is_late.is_set():
        return
    end = f"took longer than {timeout_s:g} seconds" if is_late.is_set() else _end_of(process.returncode)
    output = "".join(f"\n  {line}" for line in last_lines)
    raise WorktreeError(
        f"the setup command {end}: {command}{output}",
        guidance="Correct the command (--setup, or [worktrees] in config.toml), or go without: --setup ''.",
    )


def _lines(process: subprocess.Popen[bytes]) -> Iterator[str]:
    assert process.stdout is not None
    with process.stdout as output:
        while line := output.readline(MAX_LINE_CHARACTERS):
            yield line.decode("utf-8", "replace").rstrip()


def _end_of(code: int) -> str:
    return f"failed with exit code {code}" if code > 0 else f"was ended by signal {-code}"


def _kill_group(group: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)
