"""A program that takes a checkpoint, or rewinds, and is killed at its N-th step: at a call that changes something.

`killed_checkpoints.py HOME FOLDER ACTION STEP`; a STEP of -1 kills nothing and prints the number of steps.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dragoman.workspace.checkpoint_store import CheckpointStore, LogEntry

STEPS = ("replace", "unlink", "rmdir", "mkdir", "symlink", "open", "write", "fsync")


def main(home: Path, folder: Path, action: str, step: int) -> None:
    repository = CheckpointStore(home, folder, max_file_bytes=10**6)
    target = next(entry for entry in repository.read_log() if entry.run_id == "target")
    count = 0

    def counted(call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(*args: Any, **options: Any) -> Any:
            nonlocal count
            if count == step:
                os.kill(os.getpid(), signal.SIGKILL)
            count += 1
            return call(*args, **options)

        return wrapper

    for name in STEPS:
        setattr(os, name, counted(getattr(os, name)))
    subprocess.Popen.communicate = counted(subprocess.Popen.communicate)  # type: ignore[method-assign]
    if action == "checkpoint":
        repository.take([LogEntry(at=2.0, session_id="s", run_id="killed", moment="after", tree="")])
    else:
        with repository.open() as git:
            plan = repository.plan(git, target)
            entry = LogEntry(at=2.0, session_id="s", moment="rewind", tree="", operation="f" * 16)
            repository.apply_rewind(git, plan, repository.begin_rewind(plan, entry))
    print(count)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]))
