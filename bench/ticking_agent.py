"""An agent for measuring the delay of updates: it sends the time at an even pace, or has the client run a command.

A prompt `tick 500 2` is answered with 500 message chunks, one every 2 ms, each with the clock's reading at the moment
of its writing. A prompt `run yes` asks the client for a terminal with that command, `run-on-pipes yes` for one without
a pseudo-terminal; it is answered when the command runs, and the terminal stays until the session ends.
"""

from __future__ import annotations

import json
import sys
import time

SESSION_ID = "9c3e1f52-9d0b-4a86-b6f4-000000000001"


def write(message: dict[str, object]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def say(text: str) -> None:
    update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
    write({"method": "session/update", "params": {"sessionId": SESSION_ID, "update": update}})


def tick(count: int, milliseconds: int) -> None:
    pace = milliseconds / 1000
    due = time.monotonic()
    for _ in range(count):
        due += pace
        time.sleep(max(0.0, due - time.monotonic()))
        say(f"{time.monotonic_ns()} ")


def main() -> None:
    prompt_id: object = None  # the prompt that waits for its command
    for line in sys.stdin:
        message = json.loads(line)
        result: dict[str, object] | None = {}
        match message.get("method"):
            case "initialize":
                result = {"protocolVersion": 1, "agentCapabilities": {}}
            case "session/new":
                result = {"sessionId": SESSION_ID}
            case "session/prompt":
                word, _, rest = message["params"]["prompt"][0]["text"].partition(" ")
                if word == "tick":
                    tick(*map(int, rest.split()))
                    result = {"stopReason": "end_turn"}
                else:
                    prompt_id, result = message["id"], None
                    meta = {"dragoman": {"pty": word == "run"}}
                    params = {"sessionId": SESSION_ID, "command": rest, "_meta": meta}
                    write({"id": "create", "method": "terminal/create", "params": params})
            case None if message.get("id") == "create":
                say("It runs." if "result" in message else json.dumps(message))
                message["id"], result = prompt_id, {"stopReason": "end_turn" if "result" in message else "refusal"}
            case _:
                pass
        if result is not None and message.get("id") is not None:
            write({"id": message["id"], "result": result})


if __name__ == "__main__":
    main()
