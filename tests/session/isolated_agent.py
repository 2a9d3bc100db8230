"""A scripted agent that tells what it sees of the machine, and does what a prompt asks for. Run as a process."""

from __future__ import annotations

import json
import os
from pathlib import Path

from dragoman.testing import Turn


async def script(turn: Turn) -> None:
    word, _, rest = turn.text.partition(" ")
    cwd = Path(turn.agent.all_heard("session/new")[-1].params["cwd"])
    match word:
        case "command":
            params = {"sessionId": turn.session_id, "command": rest, "cwd": str(cwd)}
            created = await turn.agent.request("terminal/create", params)
            known = {"sessionId": turn.session_id, "terminalId": created["terminalId"]}
            await turn.agent.request("terminal/wait_for_exit", known)
            await turn.say((await turn.agent.request("terminal/output", known))["output"])
        case "crash-once":
            found = leave_files(cwd)
            if is_first_time(Path(rest)):
                turn.crash()
            await turn.say(json.dumps(found))
        case "forever":
            await turn.say("waiting")
            await turn.never()
        case _:
            await turn.say(json.dumps(act(word, rest, cwd)))


def act(word: str, rest: str, cwd: Path) -> object:
    home = Path(os.environ["HOME"])
    login = home / ".mine" / "login.json"
    match word:
        case "environment":
            return dict(os.environ)
        case "home":
            modes = {name: oct((home / name).lstat().st_mode & 0o777) for name in files_below(home)}
            return {"folder": oct(home.stat().st_mode & 0o777), **modes}
        case "renew":
            login.write_text(rest)
        case "plant":
            login.unlink()
            login.symlink_to(rest)
        case "plant-folder":
            login.parent.rename(home / ".theirs")
            login.parent.symlink_to(rest)
        case "write":
            name, _, text = rest.partition(" ")
            (cwd / name).write_text(text)
        case "files":
            return [name for name in files_below(cwd) if not name.startswith(".git/")]
        case "temporary":
            Path(os.environ["TMPDIR"], "scrap").write_text("scrap")
            return os.environ["TMPDIR"]
        case _:
            return f"{word} {rest}"
    return "done"


def files_below(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir())


def leave_files(cwd: Path) -> list[bool]:
    """Leave a file in the workspace and one in HOME; return whether they were there."""
    files = [folder / "left.txt" for folder in (cwd, Path(os.environ["HOME"]))]
    found = [file.exists() for file in files]
    for file in files:
        file.touch()
    return found


def is_first_time(marker: Path) -> bool:
    try:
        marker.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True
