"""Scenes that pour out much, take long, or misbehave: what a client must be able to live with."""

from __future__ import annotations

import asyncio

from dragoman.agents.demo.requests import Intent
from dragoman.agents.demo.turn import BURST, Turn
from dragoman.errors import AUTHENTICATION_REQUIRED, INTERNAL_ERROR
from dragoman.wire.connection import RpcRefusal
from dragoman.wire.vocabulary import AuthMethodAgent, StopReason, TextContent

# Seconds a word: slow enough to watch, and to cancel in between.
SLOW_PACE = 0.5

EXIT_CODE_OF_CRASH = 3

LOGIN = AuthMethodAgent(id="demo-login", name="Demo login", description="Needs no password: it only shows the way.")

NOISE = (
    b"this line is not JSON\n",
    b"\n",
    b'{"jsonrpc": "2.0", "half": \n',
    b"null\n",
    b"42\n",
    b"[]\n",
    b'{"a": 1}\n',
    b"\xff\xfe\n",
)


async def stream(turn: Turn, intent: Intent) -> StopReason | None:
    return await _pour(turn, int(intent.number), "chunk")


async def flood(turn: Turn, intent: Intent) -> StopReason | None:
    return await _pour(turn, int(intent.number), "drop")


async def _pour(turn: Turn, count: int, word: str) -> StopReason | None:
    for number in range(1, count + 1):
        turn.chunk(TextContent(text=f"{word} {number}\n"))
        turn.output_words += 2
        if number % BURST == 0:
            await turn.breathe()
    return None


async def slow(turn: Turn, intent: Intent) -> StopReason | None:
    for number in range(1, int(intent.number) + 1):
        turn.chunk(TextContent(text=f"word {number}\n"))
        turn.output_words += 2
        await turn.world.sleep(SLOW_PACE)
    return None


async def sleep(turn: Turn, intent: Intent) -> StopReason | None:
    await turn.say(f"I sleep for {intent.number:g} s.")
    await turn.world.sleep(intent.number)
    await turn.say("I am awake again.")
    return None


async def error(turn: Turn, intent: Intent) -> StopReason | None:
    raise RpcRefusal(INTERNAL_ERROR, "the demo agent was asked to fail", {"details": "say anything else to go on"})


async def refuse(turn: Turn, intent: Intent) -> StopReason | None:
    await turn.say("I would rather not say more.")
    return "refusal"


async def max_tokens(turn: Turn, intent: Intent) -> StopReason | None:
    await turn.say("This answer ends in the middle of a")
    return "max_tokens"


async def max_turns(turn: Turn, intent: Intent) -> StopReason | None:
    await turn.say("I have asked my (missing) model too often.")
    return "max_turn_requests"


async def silent(turn: Turn, intent: Intent) -> StopReason | None:
    return None


async def login(turn: Turn, intent: Intent) -> StopReason | None:
    if not turn.logged_in:
        raise login_required()
    await turn.say("You are logged in. `logout` in the client's menu undoes it.")
    return None


def login_required() -> RpcRefusal:
    return RpcRefusal(AUTHENTICATION_REQUIRED, "Authentication required", {"authMethods": [LOGIN]})


async def noise(turn: Turn, intent: Intent) -> StopReason | None:
    await turn.say("Some lines on my stdout are now no messages.")
    for line in NOISE:
        turn.world.write_raw(line)
    await turn.say("If you read this, your client took no harm.")
    return None


async def stderr(turn: Turn, intent: Intent) -> StopReason | None:
    count = int(intent.number)
    for number in range(1, count + 1):
        turn.world.stderr.write(f"demo agent: line {number} of {count} on stderr\n")
    turn.world.stderr.flush()
    await turn.say(f"I wrote {count:,} lines to my stderr.")
    return None


async def crash(turn: Turn, intent: Intent) -> StopReason | None:
    await turn.say("My process ends in the middle of this")
    await turn.breathe()
    turn.world.stderr.write(f"demo agent: crashing as asked, exit code {EXIT_CODE_OF_CRASH}\n")
    turn.world.stderr.flush()
    turn.world.exit(EXIT_CODE_OF_CRASH)


async def hang(turn: Turn, intent: Intent) -> StopReason | None:
    await turn.say("I hang from now on, and hear no cancel. Only ending my process helps.")
    turn.deaf = True
    await asyncio.Event().wait()
    return None
