"""A program that applies or merges a worktree, and is killed at its N-th step: at a call that changes something.

`killed_worktrees.py BASE ACTION STEP`; a STEP of -1 kills nothing and prints the number of steps.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dragoman.workspace import user_git
from dragoman.workspace.worktree_store import WorktreeSettings
from dragoman.workspace.worktrees import Worktrees

STEPS = ("replace", "unlink", "rmdir", "mkdir", "symlink", "link", "open", "write", "fsync")


async def main(base: Path, action: str, step: int) -> None:
    worktrees = Worktrees(WorktreeSettings(home=base / "home", folder=base / "worktrees"), clock=lambda: 1_000_000.0)
    worktree = await worktrees.find("work")
    plan = await worktree.apply() if action == "apply" else None
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
    user_git._communicate = counted(user_git._communicate)
    if plan is not None:
        await worktree.apply(plan)
    else:
        await worktree.merge()
    print(count)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
