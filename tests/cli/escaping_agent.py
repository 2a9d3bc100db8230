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
    "direction": "\u202e{place}\u2066",
}
PLACES = (
    *("session title", "thought", "message", "plan", "tool title", "tool path", "tool output", "tool diff"),
    *("command of a question", "option of a question", "name of a command", "stderr"),
)


def attack(place: str) -> str:
    """Return a text with all sequences, for one of the places."""
    assert place in PLACES
    return " ".join(f"{name}{sequence}." for name, sequence in SEQUENCES.items()).replace("{place}", place)


def updates() -> Iterator[dict[str, Any]]:
    yield {"sessionUpdate": "session_info_update", "title": f"Title {attack('session title')}"}
    name = attack("name of a command")
    yield {"sessionUpdate": "available_commands_update", "availableCommands": [{"name": name, "description": name}]}
    for place in ("thought", "message"):
        text = f"escaping {attack(place)}\n\n`{attack(place)}`\n\n"
        yield {"sessionUpdate": f"agent_{place}_chunk", "content": {"type": "text", "text": text}}
    # A sequence that comes in two pieces.
    for text in ("half \x1b", "]0;owned\x07 and \x1b[", "2J whole\n\n"):
        yield {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
    yield {"sessionUpdate": "plan", "entries": [{"content": attack("plan"), "priority": "high", "status": "pending"}]}
    path, output, changed = f"/x/{attack('tool path')}", attack("tool output"), attack("tool diff")
    yield {
        "sessionUpdate": "tool_call",
        "toolCallId": f"call {attack('tool title')}",
        "title": attack("tool title"),
        "kind": "edit",
        "status": "failed",
        "locations": [{"path": path, "line": 1}],
        "rawInput": {"command": attack("tool title")},
        "rawOutput": output,
        "content": [
            {"type": "diff", "path": path, "oldText": changed, "newText": f"new {changed}"},
            {"type": "content", "content": {"type": "text", "text": output}},
        ],
    }


def permission_request() -> dict[str, Any]:
    command, option = attack("command of a question"), attack("option of a question")
    return {
        "toolCall": {
            "toolCallId": "asked",
            "title": command,
            "kind": "execute",
            "rawInput": {"command": f"rm {command}"},
        },
        "options": [
            {"optionId": "yes", "name": f"Yes {option}", "kind": "allow_once"},
            {"optionId": "no", "name": f"No {option}", "kind": "reject_once"},
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
                print(attack("stderr"), file=sys.stderr, flush=True)
                for update in updates():
                    _send(method="session/update", params={"sessionId": "s", "update": update})
                _send(id="ask", method="session/request_permission", params={"sessionId": "s", **permission_request()})
            case None if message.get("id") == "ask":
                _send(id=prompt, result={"stopReason": "end_turn"})
            case _ if "id" in message and "method" in message:
                _send(id=message["id"], error={"code": -32601, "message": attack("stderr")})
            case _:
                pass


if __name__ == "__main__":
    main()
