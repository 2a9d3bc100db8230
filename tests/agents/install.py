"""Puts the pinned agents into the cache: by a test that needs one, or all of them by `python -m agents.install`."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from .catalog import AGENTS, NODE

# A registry that does not answer once most often does the next time.
ATTEMPTS = 2
# Seconds for which a failure is not tried again: every test of the agent would, one after the other.
FAILURE_KEPT = 1800


class CannotInstall(Exception):
    """The agent cannot be had here; says why."""


def cache_folder() -> Path:
    chosen = os.environ.get("DRAGOMAN_TEST_CACHE")
    return Path(chosen).absolute() if chosen else Path(__file__).parents[2] / ".cache"


def installed(name: str, packages: tuple[str, ...], say: Callable[[str], None]) -> Path:
    """Return the folder with the packages' programs; install them first if needed, and say so."""
    npm = shutil.which("npm")
    if npm is None:
        raise CannotInstall("npm is not here to install the agent with")
    folder = cache_folder() / "agents" / name
    folder.mkdir(parents=True, exist_ok=True)
    programs = folder / "node_modules" / ".bin"
    stamp = folder / "installed"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several test processes may want it at once
        if stamp.exists() and stamp.read_text().split() == list(packages):
            return programs
        failed = folder / "failed"
        if failed.exists() and time.time() - failed.stat().st_mtime < FAILURE_KEPT:
            raise CannotInstall(failed.read_text())
        say(f"installing {' '.join(packages)} into {folder}")
        command = [npm, "install", "--no-save", "--no-audit", "--no-fund", "--prefix", str(folder), *packages]
        # npm itself chooses by its Node which versions to install, and installs older ones for an older Node.
        folders = [] if name == "node" else [str(installed("node", (NODE,), say))]
        env = {**os.environ, "PATH": os.pathsep.join((*folders, os.environ["PATH"]))}
        complaint = ""
        for attempt in range(1, ATTEMPTS + 1):
            done = subprocess.run(command, capture_output=True, text=True, env=env)
            if done.returncode == 0:
                stamp.write_text("\n".join(packages))
                return programs
            complaint = done.stderr[-500:].strip()
            say(f"npm could not install {' '.join(packages)} (attempt {attempt} of {ATTEMPTS})")
        shutil.rmtree(folder / "node_modules", ignore_errors=True)  # half of it is of no use, and takes room
        failed.write_text(f"npm could not install {' '.join(packages)}: {complaint}")
        raise CannotInstall(failed.read_text())


def main() -> None:
    """Install all agents, one after the other; tests of an agent that cannot be installed are skipped."""
    for agent in AGENTS:
        try:
            installed(agent.id, agent.packages, lambda line: print(line, file=sys.stderr, flush=True))
        except CannotInstall as problem:
            print(problem, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
