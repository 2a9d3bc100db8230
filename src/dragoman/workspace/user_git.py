"""`UserGit`: the program git on the user's own repository, with the user's configuration.

Promised: identity, signing and hooks are those of the user, as if the command had been typed. No variable of our own
environment (`GIT_DIR`, `GIT_INDEX_FILE`, …) gets through. Git never asks: not on the terminal, not in an editor, not by
a pager. It ends after its time, with all processes that it started, and what it prints is bounded.

Not promised: that configuration of the repository has no effect. It is the user's. Only programs that git would start
merely to look at files (`core.fsmonitor`) are switched off.

Blocking: call it in a thread. For a repository of our own, see `Git` in `workspace/git.py`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Final, NamedTuple

from dragoman.workspace.git import GitError, git_program

# Time for one command, in seconds.
TIMEOUT_S: Final = 60.0

# Bytes of the output that are taken; a command that prints more fails.
MAX_OUTPUT_BYTES: Final = 64 * 1024**2
MAX_STDERR_BYTES: Final = 64 * 1024

# Seconds to read what is left when git has ended: a program that a hook left running may have its standard error.
STDERR_GRACE_S: Final = 1.0

# Seconds between the request to end and the end, for a command whose time is over.
TERM_GRACE_S: Final = 2.0

_CHUNK_BYTES: Final = 64 * 1024

_CONFIG: Final = ("core.fsmonitor=false", "core.quotePath=false", "advice.detachedHead=false")

_ENVIRONMENT: Final = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_PAGER": "cat",
    "GIT_EDITOR": "false",
    "GIT_SEQUENCE_EDITOR": "false",
    "GIT_MERGE_AUTOEDIT": "no",
    "GIT_OPTIONAL_LOCKS": "0",  # looking at the state changes nothing, not even the index
    "GIT_LITERAL_PATHSPECS": "1",  # names are names, never patterns
    "LC_ALL": "C.UTF-8",
}


class GitOutput(NamedTuple):
    """The output of a command. `stderr` is its end only, if it is long."""

    exit_code: int
    stdout: bytes
    stderr: str


class Stopper:
    """Ends the work of another thread: the program that runs, and every one after it."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self.is_set = False

    def stop(self) -> None:
        self.is_set = True
        if (process := self._process) is not None:
            _end(process)

    @contextmanager
    def guarding(self, process: subprocess.Popen[bytes]) -> Iterator[None]:
        self._process = process
        if self.is_set:  # since before the process was known
            _end(process)
        try:
            yield
        finally:
            self._process = None


class UserGit:
    """Git in the folder `work_tree`.

    `git_dir` is the repository of this work tree where the caller knows it, and `common_dir`, for a linked work tree,
    the one that it is linked to: what an agent planted in their place is not followed then. `timeout_s` is the time for
    each command, in seconds. With `stopper`, another thread can end it.
    """

    def __init__(
        self,
        work_tree: Path,
        *,
        git_dir: Path | None = None,
        common_dir: Path | None = None,
        timeout_s: float = TIMEOUT_S,
        stopper: Stopper | None = None,
    ) -> None:
        self.work_tree = work_tree
        self.git_dir = git_dir
        self.common_dir = common_dir
        self._timeout_s = timeout_s
        self.stopper = stopper or Stopper()

    def run(
        self,
        *args: str | bytes | Path,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        config: Sequence[str] = (),
        on_progress: Callable[[str], None] | None = None,
    ) -> bytes:
        """Run a command and return what it prints. Raises `GitError` where it fails."""
        done = self.call(*args, stdin=stdin, env=env, config=config, on_progress=on_progress)
        if done.exit_code != 0:
            raise failure(args, done)
        return done.stdout

    def line(self, *args: str | bytes | Path) -> str:
        """Run a command that prints one line, and return it. Raises `GitError` where it fails."""
        return os.fsdecode(self.run(*args).removesuffix(b"\n"))

    def call(
        self,
        *args: str | bytes | Path,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        config: Sequence[str] = (),
        on_progress: Callable[[str], None] | None = None,
    ) -> GitOutput:
        """Run a command, and return its exit code with what it printed.

        `env` is added to the environment, `config` are settings for this call (`name=value`), `on_progress` gets each
        line that git writes to its standard error, in another thread. Raises `GitError` where the command does not run
        to its end.
        """
        settings = (part for setting in (*_CONFIG, *config) for part in ("-c", setting))
        return run_program(
            [git_program(), *settings, *args],
            cwd=self.work_tree,
            env={**self._environment(), **(env or {})},
            stdin=stdin,
            timeout_s=self._timeout_s,
            name=f"git {_text(args[0])}",
            on_progress=on_progress,
            stopper=self.stopper,
        )

    def stage(
        self,
        changed: Iterable[bytes],
        deleted: Iterable[bytes],
        *,
        env: Mapping[str, str] | None = None,
    ) -> None:
        """Put these files into the index, and take those that were deleted out of it. Raises `GitError`.

        As `git add` does, which would also run git with the settings of every repository below, and so what these name.
        """
        steps = (("--force-remove",), deleted), (("--add", "--remove", "--replace"), changed)
        for options, paths in steps:
            if names := b"".join(path.rstrip(b"/") + b"\0" for path in paths):
                self.run("update-index", *options, "-z", "--stdin", stdin=names, env=env)

    def _environment(self) -> dict[str, str]:
        environment = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
        environment.update(_ENVIRONMENT)
        if self.git_dir is not None:
            environment |= {"GIT_DIR": str(self.git_dir), "GIT_WORK_TREE": str(self.work_tree)}
        if self.common_dir is not None:
            environment["GIT_COMMON_DIR"] = str(self.common_dir)
        return environment


def failure(args: Sequence[str | bytes | Path], done: GitOutput) -> GitError:
    """Return the error of a command that failed, with the last line that it wrote."""
    lines = done.stderr.strip().splitlines()
    last = lines[-1] if lines else f"exit code {done.exit_code}"
    return GitError(f"git {_text(args[0])} failed: {last}", stderr=done.stderr, exit_code=done.exit_code)


def run_program(
    command: Sequence[str | bytes | Path],
    *,
    cwd: Path,
    env: Mapping[str, str],
    stdin: bytes = b"",
    timeout_s: float = TIMEOUT_S,
    name: str | None = None,
    on_progress: Callable[[str], None] | None = None,
    stopper: Stopper | None = None,
) -> GitOutput:
    """Run git, or a program that works with it, as `UserGit.call` does. `name` is what errors call it."""
    name = name or os.path.basename(_text(command[0]))
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cwd,
            env=env,
            start_new_session=True,  # without the terminal, and so that its processes end with it
        )
    except OSError as error:
        raise GitError(f"{name} could not be run in {cwd}: {error.strerror}") from None
    with (stopper or Stopper()).guarding(process):
        return _communicate(process, name, stdin, timeout_s, on_progress)


def _communicate(
    process: subprocess.Popen[bytes],
    name: str,
    stdin: bytes,
    timeout_s: float,
    on_progress: Callable[[str], None] | None,
) -> GitOutput:
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    stderr = bytearray()
    is_late = threading.Event()

    def end_late() -> None:
        is_late.set()
        _end(process)

    timer = threading.Timer(timeout_s, end_late)
    threads = [
        threading.Thread(target=_write, args=(process.stdin, stdin), daemon=True),
        threading.Thread(target=_read_stderr, args=(process.stderr, stderr, on_progress), daemon=True),
        timer,
    ]
    timer.daemon = True
    stdout = bytearray()
    is_too_long = False
    try:
        for thread in threads:
            thread.start()
        while chunk := process.stdout.read1(_CHUNK_BYTES):  # type: ignore[attr-defined]
            stdout += chunk
            if len(stdout) > MAX_OUTPUT_BYTES:
                is_too_long = True
                _kill(process)
                break
        process.wait()
    except BaseException:
        _kill(process)
        raise
    finally:
        timer.cancel()
        for thread in threads[:2]:
            thread.join(STDERR_GRACE_S)
        process.stdout.close()
        process.wait()
    if is_late.is_set():
        raise GitError(f"{name} took longer than {timeout_s:g} seconds")
    if is_too_long:
        raise GitError(f"{name} printed more than {MAX_OUTPUT_BYTES / 1024**2:g} MiB")
    return GitOutput(process.returncode, bytes(stdout), stderr.decode("utf-8", "replace"))


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process and those that it started. Git removes its lock files when it is asked to end."""
    _signal(process, signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        process.wait(TERM_GRACE_S)
    _kill(process)


def _kill(process: subprocess.Popen[bytes]) -> None:
    _signal(process, signal.SIGKILL)


def _signal(process: subprocess.Popen[bytes], number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


def _write(pipe: IO[bytes], data: bytes) -> None:
    with suppress(OSError), pipe:  # it may end without reading
        pipe.write(data)


def _read_stderr(pipe: IO[bytes], stderr: bytearray, on_progress: Callable[[str], None] | None) -> None:
    """Collect the end of what git writes, and pass on its lines; a progress line ends with a carriage return."""
    line = b""
    with pipe:
        while chunk := pipe.read1(_CHUNK_BYTES):  # type: ignore[attr-defined]
            stderr += chunk
            del stderr[:-MAX_STDERR_BYTES]
            if on_progress is not None:
                *lines, line = (line + chunk).replace(b"\r", b"\n").split(b"\n")
                line = line[-_CHUNK_BYTES:]
                for each in lines:
                    if each.strip():
                        on_progress(_text(each).strip())


def _text(value: str | bytes | Path) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
