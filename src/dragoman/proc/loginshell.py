"""The PATH of the user's login shell, which programs started by a desktop or a service do not have."""

from __future__ import annotations

import os
import pwd
import signal
import subprocess
import tempfile
import threading
from collections.abc import Mapping

from dragoman.proc._reaper_main import signal_group
from dragoman.proc.reaper import reaper

LOGIN_SHELL_TIMEOUT_S = 5.0
"""Seconds. Version managers make some shells slow; one that needs longer most likely waits for input."""

PATH_BEGIN, PATH_END = "-- dragoman: path begins --", "-- dragoman: path ends --"

_paths: dict[tuple[str, str], str | None] = {}
_lock = threading.Lock()


def login_path(env: Mapping[str, str]) -> str | None:
    """Return the PATH that the login shell of `env` (SHELL, HOME) sets, or None. Blocks; runs once per process."""
    key = (env.get("SHELL") or _shell_of_user(), env.get("HOME", ""))
    with _lock:
        if key not in _paths:
            _paths[key] = _run_login_shell(key[0], env)
        return _paths[key]


def _run_login_shell(shell: str, env: Mapping[str, str]) -> str | None:
    reaper().ensure()
    # Marks around the PATH, because start-up files print other text; each as its own argument, because shells disagree
    # on the characters that may follow a variable's name.
    script = f"printf '\\n%s\\n' '{PATH_BEGIN}' \"$PATH\" '{PATH_END}'"
    # A file, not a pipe: a daemon that the start-up files start would hold a pipe open.
    with tempfile.TemporaryFile() as output:
        try:
            process = subprocess.Popen(
                # Interactive as well, because nvm and others write themselves into the interactive shell's file.
                [shell, "-l", "-i", "-c", script],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.DEVNULL,
                env=dict(env),
                cwd=env.get("HOME") or None,
                start_new_session=True,  # away from this terminal: an interactive shell would take it over
            )
        except (OSError, ValueError):
            return None
        # Known to the reaper only while it runs, and without a marker: daemons of the start-up files are the user's.
        reaper().add(process.pid)
        try:
            process.wait(LOGIN_SHELL_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            signal_group(process.pid, signal.SIGKILL)
            process.wait()
        finally:
            reaper().remove(process.pid)
        output.seek(0)
        return parse_path(output.read().decode("utf-8", "surrogateescape"))


def parse_path(output: str) -> str | None:
    """Return the PATH between the marks, if it looks like one."""
    _, has_begin, rest = output.rpartition(f"{PATH_BEGIN}\n")
    path, has_end, _ = rest.partition(f"\n{PATH_END}")
    path = path.strip("\n")
    return path if has_begin and has_end and path.startswith("/") and "\n" not in path else None


def _shell_of_user() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_shell or "/bin/sh"
    except KeyError:  # a container's user id without a name
        return "/bin/sh"
