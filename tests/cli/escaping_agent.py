"""An agent that attacks the terminal: every text that it may send has control sequences. Run as a program."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

# Each would do something to a terminal, or show another text than there is.
SEQUENCES = {
    "colour": "\x1b[31m",
    "cursor": "\x1b[99A\x1b[2K",
    "clear": "\x1b[2J\x1b[H",
    "title": "\x1b]0;owned\x07",
    "link": "\x1b]8;;http://192.0.2.1/\x1b\\",
    "clipboard": "\x1b]52;c;b3duZWQ=\x07",
    "device": "\x1bP+q544e\x1b\\",
    "application": "\x1b_Gi=1;AAAA\x1b\\",
    "answer": "\x1b[6n\x1b[c",
    "reset": "\x1bc",
    "one byte": "\x9b2J\x9d0;owned\x9c",
    "overwriting": "safe\b\b\b\bevil\rgone",
    "bell": "\x07\x07",
    "direction": "\u202etxt.exe\u2066",
}
ATTACK = " ".join(f"{name}{sequence}." for name, sequence in SEQUENCES.items())
PLACES = (
    *("session title", "thought", "message", "plan", "tool title", "tool path", "tool output", "tool diff"),
    *("command of a question", "option of a question", "name of a command", "stderr"),
)


def updates() -> Iterator[dict[str, Any]]:
    yield {"sessionUpdate": "session_info_update", "title": f"Title {ATTACK}"}
    yield {"sessionUpdate": "available_commands_update", "availableCommands": [{"name": ATTACK, "description": ATTACK}]}
    for kind in ("agent_thought_chunk", "agent_message_chunk"):
        yield {"sessionUpdate": kind, "content": {"type": "text", "text": f"escaping {ATTACK}\n\n`{ATTACK}`\n\n"}}
    # A sequence that comes in two pieces.
    for text in ("half \x1b", "]0;owned\x07 and \x1b[", "2J whole\n\n"):
        yield {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
    yield {"sessionUpdate": "plan", "entries": [{"content": ATTACK, "priority": "high", "status": "pending"}]}
    yield {
        "sessionUpdate": "tool_call",
        "toolCallId": f"call {ATTACK}",
        "title": ATTACK,
        "kind": "edit",
        "status": "failed",
        "locations": [{"path": f"/x/{ATTACK}", "line": 1}],
        "rawInput": {"command": ATTACK},
        "rawOutput": ATTACK,
        "content": [
            {"type": "diff", "path": f"/x/{ATTACK}", "oldText": ATTACK, "newText": f"new {ATTACK}"},
            {"type": "content", "content": {"type": "text", "text": ATTACK}},
        ],
    }


def permission_request() -> dict[str, Any]:
    return {
        "toolCall": {
            "toolCallId": "asked",
            "title": ATTACK,
            "kind": "execute",
            "rawInput": {"command": f"rm {ATTACK}"},
        },
        "options": [
            {"optionId": "yes", "name": f"Yes {ATTACK}", "kind": "allow_once"},
            {"optionId": "no", "name": f"No {ATTACK}", "kind": "reject_once"},
        ],
    }


def _send(**message: Any) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def main() -> None:
    prompt: Any = None
    for line in sys.stdin:
        message = json.loads(line)
        match message.get("method"):
            case "initialize":
                _send(id=message["id"], result={"protocolVersion": 1, "agentCapabilities": {}})
            case "session/new":
                _send(id=message["id"], result={"sessionId": "s"})
            case "session/prompt":
                prompt = message["id"]
                print(ATTACK, file=sys.stderr, flush=True)
                for update in updates():
                    _send(method="session/update", params={"sessionId": "s", "update": update})
                _send(id="ask", method="session/request_permission", params={"sessionId": "s", **permission_request()})
            case None if message.get("id") == "ask":
                _send(id=prompt, result={"stopReason": "end_turn"})
            case _ if "id" in message and "method" in message:
                _send(id=message["id"], error={"code": -32601, "message": ATTACK})
            case _:
                pass


if __name__ == "__main__":
    main()
