"""An agent that floods: a prompt `noise 1000000` is answered with as many lines that are no messages, `requests 20000`
with as many requests, `updates 200000` with as many message chunks, and `message 60` with one chunk of so many MB."""

from __future__ import annotations

import json
import sys
from typing import Final

SESSION_ID: Final = "9c3e1f52-9d0b-4a86-b6f4-000000000002"

# Lines that are written at once, and requests that are sent before their answers are read.
BATCH: Final = 500


def line(message: dict[str, object]) -> str:
    return json.dumps({"jsonrpc": "2.0", **message}) + "\n"


def chunk(text: str) -> str:
    update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
    return line({"method": "session/update", "params": {"sessionId": SESSION_ID, "update": update}})


def write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def flood(kind: str, count: int) -> None:
    if kind == "message":
        write(chunk("word " * (count * 200_000)))
        return
    for start in range(0, count, BATCH):
        if kind == "noise":
            write("x\n" * BATCH)
        elif kind == "updates":
            write(chunk("word ") * BATCH)
        else:
            params = {"sessionId": SESSION_ID}
            requests = (line({"id": f"r{start + n}", "method": "bench/ask", "params": params}) for n in range(BATCH))
            write("".join(requests))
            for _ in range(BATCH):
                sys.stdin.readline()


def main() -> None:
    for text in sys.stdin:
        message = json.loads(text)
        result: dict[str, object] = {}
        match message.get("method"):
            case "initialize":
                result = {"protocolVersion": 1, "agentCapabilities": {}}
            case "session/new":
                result = {"sessionId": SESSION_ID}
            case "session/prompt":
                kind, _, count = message["params"]["prompt"][0]["text"].partition(" ")
                flood(kind, int(count))
                write(chunk("done"))  # a run without a word would count as failed
                result = {"stopReason": "end_turn"}
            case _:
                pass
        if message.get("id") is not None:
            write(line({"id": message["id"], "result": result}))


if __name__ == "__main__":
    main()
