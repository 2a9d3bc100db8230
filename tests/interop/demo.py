"""The demo agent for the clients of other SDKs: what they are to ask, and what they must then have heard."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dragoman.agents.demo.requests import REQUESTS
from dragoman.wire.vocabulary import METHODS

HERE = Path(__file__).parent
LIMIT = 90

# What breaks the connection, or takes long, is not for here.
LEFT_OUT = {"crash", "hang", "noise", "flood", "slow", "sleep"}
WITH_WORDS = {
    "read": "read notes.txt",
    "edit": "edit notes.txt",
    "delete": "delete notes.txt",
    "title": "title A new title",
    "stream": "stream 300",
    "mode": "mode code",
}
PROMPTS = [WITH_WORDS.get(ask.name, ask.words[0]) for ask in REQUESTS if ask.name not in LEFT_OUT]
CANCELLED = ["slow 1000", "run sleep 600"]

OUTCOMES: dict[str, str | int] = {
    **dict.fromkeys(PROMPTS, "end_turn"),
    "error": -32603,
    "refuse": "refusal",
    "max tokens": "max_tokens",
    "max turns": "max_turn_requests",
    **dict.fromkeys(CANCELLED, "cancelled"),
}

UPDATES = {
    "user_message_chunk",
    "agent_message_chunk",
    "agent_thought_chunk",
    "tool_call",
    "tool_call_update",
    "plan",
    "available_commands_update",
    "current_mode_update",
    "config_option_update",
    "session_info_update",
    "usage_update",
}
NEWER_UPDATES = {f"session/update {kind}" for kind in ("notice", "compaction_update", "compaction_summary_chunk")}

# All that a client of the stable protocol hears of an agent: answers, updates and requests. (`session/fork` is not
# stable, but asked for as well where the SDK has it.)
EVERYTHING = (
    {f"session/update {kind}" for kind in UPDATES}
    | NEWER_UPDATES
    | {
        f"answer to {method.name}"
        for method in METHODS.values()
        if method.side == "agent" and method.kind == "request" and (method.stable or method.name == "session/fork")
    }
    | {
        method.name
        for method in METHODS.values()
        if method.stable and method.side in ("client", "both") and method.name != "session/update"
    }
)


async def driven_by(client: Sequence[str], folder: Path) -> Any:
    """The report of a client that has asked the demo agent for everything."""
    work = folder / "work"
    work.mkdir()
    (work / "notes.txt").write_text("a note\n")
    given = {
        "command": [sys.executable, "-m", "dragoman.agents.demo"],
        "folder": str(work),
        "prompts": PROMPTS,
        "cancel": CANCELLED,
    }
    environment = {**os.environ, "DRAGOMAN_DEMO_HOME": str(folder / "home"), "DRAGOMAN_DEMO_PACE": "0"}
    process = await asyncio.create_subprocess_exec(
        *client,
        json.dumps(given),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=environment,
    )
    try:
        async with asyncio.timeout(LIMIT):
            stdout, stderr = await process.communicate()
    except BaseException:
        process.kill()
        await process.communicate()
        raise
    assert process.returncode == 0, stderr.decode()[-3000:]
    return json.loads(stdout)
