"""Every recording of a real agent plays to clients built on the official SDKs: the same ends, the same words."""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from agents_unit.replay_recordings import CASES, Line, connections

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]  # the SDK is installed first

HERE = Path(__file__).parent
# Seconds for all of them: each starts a process.
LIMIT = 300
# Plays for one client process; some at a time, since a machine has several cores.
BATCH = 30


def plan(lines: list[Line], case: Path, connection: int) -> dict[str, Any]:
    """Return the messages that a client sends, when, and the messages that it must then have received."""
    steps: list[dict[str, Any]] = []
    requests: dict[Any, str] = {}
    answers: dict[str, dict[Any, Any]] = {}
    heard = updates = 0
    for line in lines:
        frame = json.loads(line.bytes)
        if line.dir == "in":
            heard += 1
            updates += frame.get("method") == "session/update"
            if "method" in frame and "id" in frame:
                requests[frame["id"]] = frame["method"]
                answers.setdefault(frame["method"], {})[frame["id"]] = None
        elif "method" in frame:
            sent = {"method": frame["method"], "params": frame.get("params") or {}}
            steps.append({**sent, "asks": "id" in frame, "after": heard})
        elif frame["id"] in requests:
            answers[requests[frame["id"]]][frame["id"]] = frame
    replay = [sys.executable, "-m", "dragoman", "replay", "--speed", "now", "--connection", str(connection), str(case)]
    return {
        "command": replay,
        "steps": steps,
        "answers": {method: list(given.values()) for method, given in answers.items()},
        "heard": heard,
        "updates": updates,
    }


def expected(lines: list[Line]) -> dict[str, Any]:
    frames = [(line.dir, json.loads(line.bytes)) for line in lines]
    replies = {frame["id"]: frame for way, frame in frames if way == "in" and "method" not in frame}
    outcomes: list[str | int | None] = []
    text: dict[str, str] = {}
    for way, frame in frames:
        match way, frame:
            case "out", {"method": _, "id": request_id}:
                reply = replies.get(request_id, {})
                result = reply.get("result") or {}
                outcomes.append(reply["error"]["code"] if "error" in reply else result.get("stopReason", "answered"))
            case "in", {"method": "session/update", "params": {"sessionId": name, "update": update}}:
                if update["sessionUpdate"] == "agent_message_chunk":
                    text[name] = text.get(name, "") + update["content"].get("text", "")
            case _:
                pass
    updates = sum(frame.get("method") == "session/update" for way, frame in frames if way == "in")
    return {"outcomes": outcomes, "text": text, "updates": updates, "problem": None}


async def reports(client: Sequence[str], plays: list[dict[str, Any]]) -> list[dict[str, Any]]:
    process = await asyncio.create_subprocess_exec(
        *client, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    try:
        stdout, stderr = await process.communicate(json.dumps(plays).encode())
    except BaseException:
        process.kill()
        await process.communicate()
        raise
    assert process.returncode == 0, stderr.decode()[-3000:]
    return list(json.loads(stdout))


async def all_played(client: Sequence[str]) -> None:
    named = [
        (f"{case.parent.name}/{case.stem} {number}", lines, plan(lines, case, number))
        for case in CASES
        for number, lines in enumerate(connections(case), start=1)
    ]
    batches = [named[at : at + BATCH] for at in range(0, len(named), BATCH)]
    async with asyncio.timeout(LIMIT):
        batch_reports = await asyncio.gather(*(reports(client, [play for _, _, play in batch]) for batch in batches))
    differing = {
        name: (report, expected(lines))
        for (name, lines, _), report in zip(named, itertools.chain(*batch_reports), strict=True)
        if report != expected(lines)
    }
    assert differing == {}


async def test_every_recording_plays_to_the_python_sdk(python_sdk: Path) -> None:
    await all_played([str(python_sdk), str(HERE / "replay_client.py")])


async def test_every_recording_plays_to_the_typescript_sdk(node_sdk: Path) -> None:
    await all_played(["node", str(HERE / "replay_client.mjs"), str(node_sdk)])
