"""A scripted agent that writes a file, asks whether to go on, and then tells what it finds. Run as a process."""

from __future__ import annotations

import json
import os
from pathlib import Path

from dragoman.testing import Turn


async def script(turn: Turn) -> None:
    cwd = Path(turn.agent.all_heard("session/new")[-1].params["cwd"])
    write(cwd, turn.text)
    await turn.ask_permission("go on")
    await turn.say(json.dumps(look(cwd)))


def write(cwd: Path, text: str) -> None:
    (cwd / "result.txt").write_text(text)
    Path(os.environ["TMPDIR"], text).touch()
    Path(os.environ["HOME"], text).touch()


def look(cwd: Path) -> dict[str, object]:
    return {
        "files": sorted(path.name for path in cwd.iterdir() if path.name != ".git"),
        "result": (cwd / "result.txt").read_text(),
        "temporary": os.listdir(os.environ["TMPDIR"]),
        "home": os.listdir(os.environ["HOME"]),
    }
