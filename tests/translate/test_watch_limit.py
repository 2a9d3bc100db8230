"""If the system has no watches left, folders are polled instead: with a real limit, of a process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from translate.watch_limited import WATCHES

UNSHARE = ["unshare", "--user", "--map-root-user"]
TIMEOUT_S = 40.0


def _can_be_limited() -> bool:
    """Linux lets a process have limits of its own in a namespace of its own; not on every machine."""
    command = [*UNSHARE, "test", "-w", "/proc/sys/user/max_inotify_watches"]
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


@pytest.mark.skipif(not _can_be_limited(), reason="this machine does not let a process have limits of its own")
@pytest.mark.parametrize(("before", "way"), [(WATCHES * 2, "polling"), (1, "native")], ids=["at the start", "later"])
def test_nothing_is_missed_when_watches_run_out(tmp_path: Path, before: int, way: str) -> None:
    for number in range(before):
        (tmp_path / ".claude" / "projects" / str(number)).mkdir(parents=True)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    command = [*UNSHARE, sys.executable, "-m", "translate.watch_limited", str(tmp_path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stderr
    first, problem = done.stdout.splitlines()
    assert first == way
    assert "is polled, because the system does not report its changes: OS file watch limit reached." in problem
