"""An agent that works as hard as real ones do, with the waiting left out. Run as a program.

A prompt has it work for a minute, or for as many as it names.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from typing import Any

# Of a minute: steps one after the other, each with words before it. It makes about 40 updates a second.
STEPS = 15
WORDS = 110

TEXT = """The parser reads one token ahead, so that a **missing bracket** is found where it is missing.

- `peek` looks, and takes nothing
- `take` moves on, and says what it took

```python
def take(self) -> Token:
    token, self.ahead = self.ahead, self.next()
    return token
```

| case | before | after |
| --- | --- | --- |
| empty | error | nothing |
"""
PROSE = TEXT.split(" ")


def minute(number: int) -> Iterator[dict[str, Any]]:
    for step in range(STEPS):
        name = f"{number}-{step}"
        yield _plan(step)
        for at in range(WORDS // 5):
            yield _chunk("agent_thought_chunk", f"thought {at} ")
        for at in range(WORDS):
            yield _chunk("agent_message_chunk", PROSE[at % len(PROSE)] + " ")
        yield from (_reads(name), _edits(name, number, step), _runs(name))[step % 3]
    yield _chunk("agent_message_chunk", f"\n\n{over(number)}")


def over(number: int) -> str:
    """The last words of a minute."""
    return f"Minute {number} is over."


def _reads(name: str) -> Iterator[dict[str, Any]]:
    for at in range(4):
        text = f"line {at}\n" * 100
        yield _call(f"{name}-{at}", "read", f"Read src/part{at}.py")
        yield _ended(f"{name}-{at}", content=[{"type": "content", "content": {"type": "text", "text": text}}])


def _edits(name: str, number: int, step: int) -> Iterator[dict[str, Any]]:
    diff = {
        "type": "diff",
        "path": f"/workspace/src/part{number % 40}.py",
        "oldText": "".join(f"old {line}\n" for line in range(30)),
        "newText": "".join(f"new {line} of {step}\n" for line in range(30)),
    }
    yield _call(name, "edit", f"Edit part{number % 40}.py")
    yield _ended(name, content=[diff])


def _runs(name: str) -> Iterator[dict[str, Any]]:
    shown = [{"type": "terminal", "terminalId": name}]
    yield {**_call(name, "execute", "make test"), "content": shown, "_meta": {"terminal_info": {"terminal_id": name}}}
    for at in range(60):
        output = {"terminal_output_delta": {"terminal_id": name, "data": f"test {at} passed\n"}}
        yield {"sessionUpdate": "tool_call_update", "toolCallId": name, "_meta": output}
    yield _ended(name, _meta={"terminal_exit": {"terminal_id": name, "exit_code": 0}})


def _plan(step: int) -> dict[str, Any]:
    entries = [
        {"content": f"Step {at}", "priority": "medium", "status": "completed" if at < step else "pending"}
        for at in range(STEPS)
    ]
    return {"sessionUpdate": "plan", "entries": entries}


def _chunk(kind: str, text: str) -> dict[str, Any]:
    return {"sessionUpdate": kind, "content": {"type": "text", "text": text}}


def _call(name: str, kind: str, title: str) -> dict[str, Any]:
    return {"sessionUpdate": "tool_call", "toolCallId": name, "title": title, "kind": kind, "status": "in_progress"}


def _ended(name: str, **more: Any) -> dict[str, Any]:
    return {"sessionUpdate": "tool_call_update", "toolCallId": name, "status": "completed", **more}


def _send(**message: Any) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")


def main() -> None:
    minutes = 0
    for line in sys.stdin:
        message = json.loads(line)
        match message.get("method"):
            case "initialize":
                _send(id=message["id"], result={"protocolVersion": 1, "agentCapabilities": {}})
            case "session/new":
                _send(id=message["id"], result={"sessionId": "s"})
            case "session/prompt":
                named = re.search(r"\d+", message["params"]["prompt"][0]["text"])
                for _ in range(int(named.group()) if named else 1):
                    minutes += 1
                    for update in minute(minutes):
                        _send(method="session/update", params={"sessionId": "s", "update": update})
                _send(id=message["id"], result={"stopReason": "end_turn"})
            case _ if "id" in message and "method" in message:
                _send(id=message["id"], error={"code": -32601, "message": "it does nothing else"})
            case _:
                pass
        sys.stdout.flush()


if __name__ == "__main__":
    main()
