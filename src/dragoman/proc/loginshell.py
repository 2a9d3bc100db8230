"""The PATH of the user's login shell: what a terminal knows, and a start by a desktop or a service does not."""

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

LOGIN_SHELL_LIMIT = 5.0
"""Seconds. Version managers make some shells slow; one that needs longer most likely waits for someone to type."""

BEGIN, END = "-- dragoman: path begins --", "-- dragoman: path ends --"

_known: dict[tuple[str, str], str | None] = {}
_asking = threading.Lock()


def login_path(env: Mapping[str, str]) -> str | None:
    """PATH as the login shell of `env` (its SHELL and HOME) sets it, or None. Blocks; asked once per process."""
    key = (env.get("SHELL") or _shell_of_user(), env.get("HOME", ""))
    with _asking:
        if key not in _known:
            _known[key] = _ask(key[0], env)
        return _known[key]


def _ask(shell: str, env: Mapping[str, str]) -> str | None:
    reaper().ensure()
    # Marks around it, because start-up files print what they like; each an own argument, because shells disagree on
    # what may follow a variable's name.
    script = f"printf '\\n%s\\n' '{BEGIN}' \"$PATH\" '{END}'"
    # A file and not a pipe: a daemon that the start-up files leave behind would hold a pipe open.
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
                start_new_session=True,  # away from our terminal: an interactive shell would take it over
            )
        except (OSError, ValueError):
            return None
        # Known to the reaper only while it runs, and without a marker: what start-up files start is the user's.
        reaper().add(process.pid)
        try:
            process.wait(LOGIN_SHELL_LIMIT)
        except subprocess.TimeoutExpired:
            signal_group(process.pid, signal.SIGKILL)
            process.wait()
        finally:
            reaper().remove(process.pid)
        output.seek(0)
        return parse(output.read().decode("utf-8", "surrogateescape"))


def parse(output: str) -> str | None:
    """The PATH between the marks, if it looks like one."""
    _, begun, rest = output.rpartition(f"{BEGIN}\n")
    path, ended, _ = rest.partition(f"\n{END}")
    path = path.strip("\n")
    return path if begun and ended and path.startswith("/") and "\n" not in path else None


def _shell_of_user() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_shell or "/bin/sh"
    except KeyError:  # a container's number without a name
        return "/bin/sh"
