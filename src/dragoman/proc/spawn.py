"""Start an agent's process, and explain why it could not be started."""

from __future__ import annotations

import errno
import os
import shlex
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from dragoman.errors import CommandNotExecutable, CommandNotFound, ExitedAtStart, InputError, StartError
from dragoman.proc._reaper_main import signal_group
from dragoman.proc.link import MAX_LINES, AgentLink, StderrTail
from dragoman.proc.process import ProcessLink, signal_name
from dragoman.proc.reaper import reaper

# The exit codes of a shell, `env` and most launchers when they could not run a program.
EXIT_NOT_FOUND = 127
EXIT_NOT_EXECUTABLE = 126


async def spawn(
    command: Sequence[str],
    *,
    cwd: Path | None,
    env: Mapping[str, str],
    name: str,
    on_stderr: Callable[[str], None] | None = None,
    stderr_lines: int = MAX_LINES,
    install: str | None = None,
) -> ProcessLink:
    """Start `command` as the leader of a process group, with `env` plus the reaper's marker and PWD.

    `install` is the line that installs the agent, for the error. It is a coroutine because the link belongs to the
    running loop; it never waits, so that a cancelled caller never leaves a process without a link.
    """
    if not command or not command[0]:
        raise InputError(f"{name} has no command to start.", guidance="Give the program and its arguments.")
    pipes = _Pipes()
    try:
        process, marker = _start(command, cwd, env, pipes, install)
        try:
            return ProcessLink(
                process,
                pipes.ours,
                name=name,
                command=command,
                marker=marker,
                tail=StderrTail(on_stderr, max_lines=stderr_lines),
            )
        except BaseException:  # a loop that cannot watch descriptors
            signal_group(process.pid, signal.SIGKILL)
            process.wait()
            reaper().remove(process.pid)  # its pid is free, and another process may get it
            raise
    except BaseException:
        pipes.close_ours()
        raise
    finally:
        pipes.close_theirs()


def _start(
    command: Sequence[str], cwd: Path | None, env: Mapping[str, str], pipes: _Pipes, install: str | None
) -> tuple[subprocess.Popen[bytes], str]:
    """Start the process and add it to the reaper; return it and its marker. Blocks for the fork, about 1 ms."""
    ours = reaper()
    ours.ensure()
    environment, marker = ours.mark(env)
    if cwd is not None:
        # Some agents trust PWD more than the kernel, and the inherited PWD names another folder.
        environment["PWD"] = os.path.abspath(cwd)
    try:
        pipes.open()
        process = subprocess.Popen(
            list(command),
            stdin=pipes.theirs[0],
            stdout=pipes.theirs[1],
            stderr=pipes.theirs[2],
            cwd=cwd,
            env=environment,
            start_new_session=True,
        )
    except OSError as error:
        _check_folder(cwd)
        raise _explain(error, command, environment, cwd, install) from error
    except ValueError as error:  # a NUL byte, a lone surrogate, a variable's name with "="
        raise InputError(
            f"`{shlex.join(command)}` cannot be started: {error}.",
            guidance="Check the arguments and the environment variables given to the agent.",
        ) from error
    ours.add(process.pid)
    return process, marker


def start_failure(link: AgentLink, install: str | None = None) -> StartError:
    """Return the error for an agent that ended before it sent anything, from its exit code and its stderr.

    `install` is the line that installs the agent. Call it when `link.wait()` has returned.
    """
    code = link.exit_code
    assert code is not None, "start_failure() is for an agent that has ended"
    command = link.command_line if isinstance(link, ProcessLink) else link.name
    stderr = link.stderr.text()
    details = f" Its stderr:\n{stderr}" if stderr else " Its stderr is empty."
    match code:
        case _ if code < 0:
            message = f"`{command}` was killed at start by {signal_name(-code)}."
        case _ if code == EXIT_NOT_FOUND:
            message = f"`{command}` did not find the program to run (exit code 127)."
            return CommandNotFound(message + details, install=install, stderr=stderr, exit_code=code)
        case _ if code == EXIT_NOT_EXECUTABLE:
            message = f"`{command}` found the program, but could not run it (exit code 126)."
            return CommandNotExecutable(message + details, stderr=stderr, exit_code=code)
        case 0:
            message = f"`{command}` exited at start with exit code 0: it may need another argument to speak ACP."
        case _:
            message = f"`{command}` exited at start with exit code {code}."
    guidance = None if stderr else "Run the same command in a terminal to see what it does."
    return ExitedAtStart(message + details, stderr=stderr, exit_code=code, guidance=guidance)


class _Pipes:
    """The three pipes of a process: its ends and ours."""

    def __init__(self) -> None:
        self.theirs: list[int] = []
        self.ours: list[int] = []

    def open(self) -> None:
        for ours in (1, 0, 0):  # stdin is the pipe that Dragoman writes
            ends = os.pipe()
            self.ours.append(ends[ours])
            self.theirs.append(ends[1 - ours])

    def close_theirs(self) -> None:
        while self.theirs:
            os.close(self.theirs.pop())

    def close_ours(self) -> None:
        while self.ours:
            os.close(self.ours.pop())


def _check_folder(cwd: Path | None) -> None:
    """Raise if the error is about the folder, not the command; the kernel reports both alike."""
    if cwd is None:
        return
    if not cwd.exists():
        raise InputError(f"The folder {cwd} does not exist.", guidance="Give an existing folder to work in (cwd).")
    if not cwd.is_dir():
        raise InputError(f"{cwd} is not a folder.", guidance="Give a folder to work in (cwd), not a file.")
    if not os.access(cwd, os.X_OK):
        raise InputError(f"The folder {cwd} cannot be entered.", guidance="Check its permissions (chmod u+x).")


def _explain(
    error: OSError, command: Sequence[str], env: Mapping[str, str], cwd: Path | None, install: str | None
) -> StartError:
    program = command[0]
    line = shlex.join(command)
    file = Path(cwd or ".") / program
    has_slash = "/" in program
    match error.errno:
        case errno.ENOENT if has_slash and file.exists():
            return CommandNotFound(
                f"{program} exists, but the interpreter in its first line does not: {_first_line(file)}",
                guidance="Install that interpreter, or correct the file's first line.",
            )
        case errno.ENOENT | errno.ENOTDIR if has_slash:
            return CommandNotFound(f"The file {file} does not exist; it is needed to run `{line}`.", install=install)
        case errno.ENOENT | errno.ENOTDIR:
            return CommandNotFound(
                f"Found no program named {program} on PATH, to run `{line}`.",
                install=install,
            )
        case errno.EACCES if has_slash and file.is_dir():
            return CommandNotExecutable(f"{program} is a folder.", guidance="Name the program inside it.")
        case errno.EACCES | errno.EPERM:
            return CommandNotExecutable(f"{program} cannot be run, for `{line}`: {error.strerror}.")
        case errno.ENOEXEC:
            return CommandNotExecutable(
                f"{program} is neither a program for this machine nor a script with an interpreter line (#!).",
                guidance="Name the interpreter in the command (as in `node agent.js`), or install the right build.",
            )
        case errno.E2BIG:
            return StartError(
                f"`{program}` got more arguments or environment than the system allows.",
                guidance="Give long text in the prompt or in a file, not as an argument.",
            )
        case errno.EMFILE | errno.ENFILE:
            return StartError(
                f"`{line}` could not be started: too many open files.",
                guidance="End sessions that are no longer needed, or raise the limit (ulimit -n).",
            )
        case errno.EAGAIN | errno.ENOMEM:
            return StartError(
                f"`{line}` could not be started: {error.strerror}.",
                guidance="The system has no room for another process: end some, or raise the limit (ulimit -u).",
            )
        case _:
            return StartError(f"`{line}` could not be started: {error.strerror}.")


def _first_line(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            return opened.readline(256).decode("utf-8", "replace").strip()
    except OSError:
        return "(it cannot be read)"
