"""`python -m bench.sdk_behaviour`: how the official Python SDK's client handles an agent's messages, beside ours.

One small raw agent per question, and the same work in both clients; not a bench of speed (`python -m bench` is), but of
what arrives. docs/adr/0001-own-wire.md rests on what this prints. The SDK is installed into the bench's cache folder.

The file plays all parts, so that it can run in the SDK's environment too, where nothing of ours is installed:
`agent SCENE PROGRESS` is the agent, `sdk SCENE` and `ours SCENE` are the clients, which print one line of JSON.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

# A client that has not answered by then is counted as hanging; both need milliseconds where they answer at all.
PATIENCE_SECONDS = 5.0
# A writer that got nothing off its hands for this long is being held back.
STILL_SECONDS, STILL_LOOKS = 1.0, 20

# What a handler waits for: a write to a socket that is not quite idle, or to a database.
HANDLER_SECONDS = 0.01

CHUNKS, TAIL, FLOOD = 200, 50, 200_000
FLOOD_BLOCK = 100
STDERR_BYTES = 1024 * 1024
ACCUMULATED = (500, 1_000, 2_000)

Seen = Mapping[str, object]


# The agent ----------------------------------------------------------------------------------------------------------


def chunk(text: str, **more: object) -> dict[str, object]:
    return {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}, **more}


def tool_call(**more: object) -> dict[str, object]:
    return {"sessionUpdate": "tool_call", "toolCallId": "t", "title": "Look", **more}


def update(content: object, **params: object) -> bytes:
    frame = {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": content, **params}}
    return json.dumps(frame).encode() + b"\n"


def write(data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(1, view) :]


def flood(progress: Path) -> bytes:
    """Write a flood, and the number of written updates to a file: it shows from outside if the client stops reading."""
    block = b"".join(update(chunk("x" * 100)) for _ in range(FLOOD_BLOCK))
    for written in range(FLOOD_BLOCK, FLOOD + 1, FLOOD_BLOCK):
        write(block)
        progress.write_text(f"{written:08d}")  # always as long: a reader never sees half of it
    return b""


def complain(_: Path) -> bytes:
    os.write(2, (b"x" * 99 + b"\n") * (STDERR_BYTES // 100))
    return update(chunk("x"))


# What the agent says in its turn, before the answer; some do something else first.
SCENES: dict[str, Callable[[Path], bytes]] = {
    "order": lambda _: b"".join(update(chunk(str(number))) for number in range(CHUNKS)),
    "tail": lambda _: b"".join(update(chunk(str(number))) for number in range(TAIL)),
    "load": lambda _: b"".join(update(chunk(f"{number} ")) for number in range(TAIL)),
    "unknown kind": lambda _: update({"sessionUpdate": "something_new", "value": 1}),
    "notice": lambda _: update({"sessionUpdate": "notice", "severity": "warning", "title": "careful"}),
    "compaction": lambda _: update({"sessionUpdate": "compaction_update", "compactionId": "c"}),
    "unknown field": lambda _: update(chunk("x", tomorrow=7)),
    "bad value": lambda _: update(tool_call(status="levitating")),
    "bad array": lambda _: update(tool_call(locations="nowhere")),
    "_meta": lambda _: update(chunk("x"), _meta={"session_id": "another"}),
    "null line": lambda _: b"null\n" + update(chunk("x")),
    "array line": lambda _: b"[1]\n" + update(chunk("x")),
    "stderr": complain,
    "flood": flood,
}


def agent(scene: str, progress: Path) -> None:
    for line in sys.stdin.buffer:
        message = json.loads(line)
        if message.get("id") is None:
            continue
        words, result = b"", dict[str, object]()
        match message["method"]:
            case "initialize":
                result = {"protocolVersion": 1, "agentCapabilities": {"loadSession": True}}
            case "session/new":
                result = {"sessionId": "s"}
            case "session/load":
                words = SCENES[scene](progress)
            case "session/prompt":
                words = SCENES[scene](progress)
                result = {"stopReason": "end_turn"}
            case _:
                pass
        answer = {"jsonrpc": "2.0", "id": message["id"], "result": result}
        # In one write with the text before it: an agent that ends its turn does not wait for the client.
        write(words + json.dumps(answer).encode() + b"\n")


# The work of both clients ---------------------------------------------------------------------------------------------


class Program:
    """A program that awaits something for each update, as one that writes to a socket or a database does."""

    def __init__(self, scene: str, progress: Path) -> None:
        self.scene = scene
        self.progress = progress
        self.texts: list[str] = []
        self.kinds: list[str] = []
        self.sessions: set[str] = set()
        self.fields: set[str] = set()

    async def take(self, session_id: str, kind: str, fields: set[str], text: str) -> None:
        if self.scene == "flood":
            await asyncio.Event().wait()  # a reader that has stopped
        # Every second one takes longer, as it would by chance; without that the tasks end in the order they began.
        await asyncio.sleep(HANDLER_SECONDS * 2 if self.scene == "order" and int(text) % 2 == 0 else HANDLER_SECONDS)
        self.sessions.add(session_id)
        self.kinds.append(kind)
        self.fields |= fields
        self.texts.append(text)

    def seen(self) -> dict[str, object]:
        numbers = [int(text) for text in self.texts if text.isdecimal()]
        late = sum(number < max(numbers[:place]) for place, number in enumerate(numbers) if place)
        return {
            "numbers": len(numbers),
            "late": late,
            "kinds": self.kinds,
            "fields": sorted(self.fields),
            "sessions": sorted(self.sessions),
        }

    async def held_back(self) -> dict[str, object]:
        """Count the updates that the agent could write while the reader did not read, and measure our memory."""
        before, written, looks_in_vain = _peak(), 0, 0
        while written < FLOOD and looks_in_vain < STILL_LOOKS:
            await asyncio.sleep(STILL_SECONDS / STILL_LOOKS)
            now = int(self.progress.read_text() or written) if self.progress.exists() else 0
            looks_in_vain = looks_in_vain + 1 if now == written else 0
            written = max(now, written)
        return {"written": written, "growth": _peak() - before}


def _peak() -> int:
    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return largest if sys.platform == "darwin" else largest * 1024


def command(scene: str, progress: Path) -> list[str]:
    return [sys.executable, __file__, "agent", scene, str(progress)]


async def sdk(scene: str, progress: Path) -> Seen:
    import acp

    logging.disable(logging.CRITICAL)  # it logs each of the losses that are counted here, with a traceback
    program = Program(scene, progress)

    class Client(acp.Client):  # type: ignore[misc]  # the SDK is installed in its own environment only: Any to us
        async def session_update(self, session_id: str, update: Any, **meta: Any) -> None:
            text = getattr(getattr(update, "content", None), "text", "")
            kind = getattr(update, "session_update", "?")
            await program.take(session_id, kind, set(update.model_dump(by_alias=True, exclude_none=True)), text)

    async with acp.spawn_agent_process(Client(), *command(scene, progress)) as (connection, process):
        await connection.initialize(protocol_version=acp.PROTOCOL_VERSION)
        at_end: dict[str, object] = {}

        async def prompt() -> None:
            if scene == "load":
                await connection.load_session(session_id="s", cwd=os.getcwd(), mcp_servers=[])
            else:
                session = await connection.new_session(cwd=os.getcwd(), mcp_servers=[])
                await connection.prompt(session_id=session.session_id, prompt=[acp.text_block("go")])
            at_end.update(program.seen())

        prompting = asyncio.ensure_future(prompt())
        try:
            if scene == "flood":
                return await program.held_back()
            outcome = await _outcome(prompting)
            await asyncio.sleep(0.5)  # what still comes, comes late
            return {"outcome": outcome, "at_end": at_end, **program.seen()}
        finally:
            prompting.cancel()
            if process.returncode is None:
                process.kill()


async def ours(scene: str, progress: Path) -> Seen:
    import dragoman
    from dragoman import events

    program = Program(scene, progress)
    spec = dragoman.AgentSpec(command=command(scene, progress))
    limits = dragoman.Limits(cancel_timeout=0.1, close_timeout=0.1)
    async with dragoman.AgentRuntime(spec, limits=limits) as runtime:
        if scene == "load":
            handle = dragoman.SessionHandle(session_id="ours", agent_session_id="s", cwd=os.getcwd())
            loaded = await runtime.load_session(handle)
            program.texts = "".join(message.text for message in loaded.fold.messages).split()
            return {"at_end": program.seen(), **program.seen()}
        session = await runtime.open_session(dragoman.SessionConfig(workspace=dragoman.Workspace(os.getcwd())))
        run = session.run("go")

        async def iterate() -> None:
            async for event in run:
                raw = event.raw
                if isinstance(raw, dict) and "sessionUpdate" in raw:
                    text = event.text if isinstance(event, events.AssistantDelta) else ""
                    await program.take(session.agent_session_id, raw["sessionUpdate"], set(raw), text)
            await run

        iterating = asyncio.ensure_future(iterate())
        try:
            if scene == "flood":
                return await program.held_back()
            return {"outcome": await _outcome(iterating), "at_end": program.seen(), **program.seen()}
        finally:
            iterating.cancel()


async def _outcome(ending: asyncio.Future[Any]) -> str:
    try:
        await asyncio.wait_for(asyncio.shield(ending), PATIENCE_SECONDS)
    except TimeoutError:
        return f"no answer in {PATIENCE_SECONDS:g} s"
    except Exception as problem:
        return f"{type(problem).__name__}: {str(problem).partition(chr(10))[0]}"
    return "answered"


def accumulate_sdk() -> Seen:
    """Measure `SessionAccumulator`, which makes a snapshot of everything with each update, at two lengths."""
    from acp.contrib.session_state import SessionAccumulator
    from acp.schema import SessionNotification

    seconds = []
    for count in ACCUMULATED:
        accumulator = SessionAccumulator()
        notifications = [
            SessionNotification.model_validate(json.loads(update(chunk("word")))["params"]) for _ in range(count)
        ]
        started = time.perf_counter()
        for notification in notifications:
            accumulator.apply(notification)
        seconds.append(time.perf_counter() - started)
    return {"seconds": seconds}


def accumulate_ours() -> Seen:
    from dragoman.record.fold import SessionFold
    from dragoman.wire.messages import Update
    from dragoman.wire.peer import Peer

    seconds = []
    for count in ACCUMULATED:
        fold = SessionFold()
        messages = Peer().feed(update(chunk("word")) * count)
        started = time.perf_counter()
        for position, message in enumerate(messages):
            assert isinstance(message, Update)
            fold.update(position, 0.0, message.update)
        seconds.append(time.perf_counter() - started)
    return {"seconds": seconds}


# The table ------------------------------------------------------------------------------------------------------------


def describe(scene: str, seen: Mapping[str, Any]) -> str:
    """Describe the result of a scene in a few words."""
    kinds = [kind for kind in seen.get("kinds", ()) if kind != "agent_message_chunk"]
    match scene:
        case "order":
            return f"{seen['late']} of {CHUNKS} after a later one"
        case "tail" | "load":
            return f"{seen['at_end']['numbers']} of {TAIL} handled when the call returns"
        case "unknown kind" | "notice" | "compaction":
            return "seen" if kinds else "dropped"
        case "bad value" | "bad array":
            return "seen, without the field" if kinds else "dropped, the whole tool call"
        case "unknown field":
            return "kept" if "tomorrow" in seen["fields"] else "stripped"
        case "_meta":
            return f"session id options to the handler: {', '.join(seen['sessions'])}"
        case "null line" | "array line" | "stderr":
            return str(seen["outcome"])
        case "flood":
            return f"{seen['written']:,} of {FLOOD:,} taken in; {seen['growth'] / 2**20:.0f} MiB more memory"
        case _:
            first, *_, last = seen["seconds"]
            return f"{ACCUMULATED[-1] // ACCUMULATED[0]}× the updates cost {last / first:.1f}× ({last:.3g} s)"


QUESTIONS = {
    "order": f"{CHUNKS} chunks, a handler that awaits {HANDLER_SECONDS * 1000:g} or {HANDLER_SECONDS * 2000:g} ms",
    "tail": f"{TAIL} chunks and the prompt's answer in one write, the same handler",
    "load": f"{TAIL} replayed chunks and the answer to `session/load`, the same",
    "unknown kind": "an update of an unknown kind",
    "notice": "a `notice`",
    "compaction": "a `compaction_update`",
    "unknown field": "an unknown field in a chunk",
    "bad value": "a tool call with a `status` that there is not",
    "bad array": "a tool call whose `locations` is no array",
    "_meta": "`_meta` of a notification has a key `session_id`",
    "null line": "a line `null` on stdout",
    "array line": "a line `[1]` on stdout",
    "stderr": f"{STDERR_BYTES // 2**20} MiB on stderr before the answer",
    "flood": f"a reader that does not read while {FLOOD:,} chunks come",
    "accumulate": "state kept from chunk to chunk (SessionAccumulator; SessionFold)",
}


def main() -> int:
    from bench.measure import ROOT, Unavailable, client
    from bench.peers import PYTHON_SDK, Peers, cache_folder

    try:
        peers = Peers(cache_folder(), lambda line: print(line, file=sys.stderr))
        sides = {"sdk": str(peers.python), "ours": sys.executable}
    except Unavailable as problem:
        print(f"the official SDK is not available: {problem}", file=sys.stderr)
        return 1
    print(f"| what the agent does | {PYTHON_SDK[0]} {PYTHON_SDK[1]} | dragoman |\n|---|---|---|")
    program = str(Path(__file__).relative_to(ROOT))
    for scene, question in QUESTIONS.items():
        cells = [describe(scene, client([python, program, side, scene]).values) for side, python in sides.items()]
        print(f"| {question} | {' | '.join(cells)} |", flush=True)
    return 0


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["agent", scene, progress]:
            try:
                agent(scene, Path(progress))
            except BrokenPipeError:
                os._exit(0)  # the client has gone
        case ["sdk" | "ours" as side, "accumulate"]:
            print(json.dumps(accumulate_sdk() if side == "sdk" else accumulate_ours()))
        case ["sdk" | "ours" as side, scene]:
            with tempfile.TemporaryDirectory(prefix="dragoman-bench-") as folder:
                client_side = sdk if side == "sdk" else ours
                print(json.dumps(asyncio.run(client_side(scene, Path(folder, "progress")))))
        case _:
            sys.exit(main())
