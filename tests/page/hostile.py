"""An agent that tries to break out of the page: every text that it may send is an attack. Run as a program."""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Iterator
from typing import Any

# What each of them would leave behind, if it ran.
HIT = "window.hit = (window.hit || 0) + 1"
ELSEWHERE = "http://192.0.2.1/beacon"

TAGS = f"""<script>{HIT}</script><img src=x onerror="{HIT}"><svg onload="{HIT}"></svg>\
<iframe srcdoc="<script>parent.{HIT}</script>"></iframe><a href="javascript:{HIT}">a</a>\
<style>@import '{ELSEWHERE}'</style>"""
LINKS = f"""[a](javascript:{HIT}) [b](JaVaScRiPt&colon;{HIT}) [c](data:text/html,<script>{HIT}</script>) \
[d](vbscript:{HIT}) <javascript:{HIT}> ![e]({ELSEWHERE}.png) ![f](javascript:{HIT}) [g](\\x01javascript:{HIT})

[h]: javascript:{HIT} "t"
[h] ![i][j]

[j]: {ELSEWHERE}.gif

```html
{TAGS}
```

$$\\href{{javascript:{HIT}}}{{x}} \\includegraphics{{{ELSEWHERE}.png}}$$
"""
ESCAPES = (
    f"\x1b]8;;javascript:{HIT}\x07click\x1b]8;;\x07 \x1b]0;{TAGS}\x07 \x1b]52;c;aGl0\x07 \x1b[31m{TAGS}\x1b[0m \x1b[6n"
)
SVG = base64.b64encode(
    f'<svg xmlns="http://www.w3.org/2000/svg" onload="{HIT}"><script>{HIT}</script>'
    f'<image href="{ELSEWHERE}.svg"/></svg>'.encode()
).decode()
PATH = f'/workspace/"><img src=x onerror={HIT}>.py'


def updates() -> Iterator[dict[str, Any]]:
    yield {"sessionUpdate": "session_info_update", "title": TAGS}
    yield {
        "sessionUpdate": "available_commands_update",
        "availableCommands": [{"name": "x<img src=x onerror=hit>", "description": TAGS}],
    }
    for kind in ("agent_thought_chunk", "agent_message_chunk"):
        yield _chunk(kind, {"type": "text", "text": f"{TAGS}\n\n{LINKS}\n\n{ESCAPES}\n\n"})
    yield _chunk("agent_message_chunk", {"type": "image", "mimeType": "image/svg+xml", "data": SVG})
    yield _chunk("agent_message_chunk", {"type": "image", "mimeType": "text/html", "data": SVG})
    yield _chunk("agent_message_chunk", {"type": "image", "mimeType": "image/png", "data": "", "uri": ELSEWHERE})
    yield _chunk(
        "agent_message_chunk",
        {"type": "resource_link", "uri": f"javascript:{HIT}", "name": TAGS, "title": TAGS, "description": TAGS},
    )
    yield _chunk(
        "agent_message_chunk",
        {"type": "resource", "resource": {"uri": f"javascript:{HIT}", "mimeType": "text/html", "text": TAGS}},
    )
    yield {"sessionUpdate": "plan", "entries": [{"content": TAGS + LINKS, "priority": "high", "status": "pending"}]}
    yield {
        "sessionUpdate": "tool_call",
        "toolCallId": f"c'\"{TAGS}",
        "title": TAGS,
        "kind": "edit",
        "status": "completed",
        "locations": [{"path": PATH, "line": 1}],
        "rawInput": {TAGS: TAGS},
        "rawOutput": ESCAPES,
        "content": [
            {"type": "diff", "path": PATH, "oldText": TAGS, "newText": LINKS},
            {"type": "content", "content": {"type": "text", "text": TAGS + LINKS + ESCAPES}},
            {"type": "content", "content": {"type": "image", "mimeType": "image/svg+xml", "data": SVG}},
        ],
    }


# Texts that would take an unbounded parser seconds, or more levels than its stack has.
BOMBS = (
    "$$" + " " * 3000,
    ">" * 5000,
    "\n".join("  " * level + "- x" for level in range(500)),
    "*" * 3000 + "a" + "*" * 3000,
    "|" * 3000 + "\n" + "|-" * 3000 + "|\n" + "|\n" * 3000,
    "[" * 5000,
    "![" * 3000 + "](x)" * 3000,
    "<" * 5000 + ">" * 5000,
    "`" * 3000 + "a" + "`" * 2999,
    "_a_" * 3000 + "_" * 3000,
    "~~" * 3000 + "a",
    "\\" * 5001,
    "&" * 3000 + "amp;" * 3000,
    "1. " * 2000 + "x",
    "\n".join("#" * 6 + " x" for _ in range(3000)),
    "$" * 3000,
    "$$" + "{" * 2000 + "}" * 2000 + "$$",
    "$$" + "\\frac{" * 500 + "1" + "}{2}" * 500 + "$$",
    "```" + "x" * 10_000,
    "- [ ] " * 2000,
    "[a]: " + "b" * 10_000 + "\n" + "[a]" * 3000,
    "a" * 200_000,
    "\u202e\u0300" * 5000,
)
LONG = "A long message. " * 10_000 + "\n\nThe very end of the long message.\n\n"


def bombs() -> Iterator[dict[str, Any]]:
    """Messages that are made to freeze the page, with a tool call after each, which ends it."""
    for number, text in enumerate((*BOMBS, LONG)):
        yield _chunk("agent_message_chunk", {"type": "text", "text": text})
        yield {"sessionUpdate": "tool_call", "toolCallId": f"call-{number}", "title": "next", "status": "completed"}
    yield _chunk("agent_message_chunk", {"type": "text", "text": "The page is **still here**."})


def payload_count() -> int:
    """Count the scripts and foreign addresses in all that the agent sends."""
    sent = json.dumps([*updates(), permission_request()])
    return sum(sent.count(json.dumps(mark)[1:-1]) for mark in (HIT, ELSEWHERE))


def permission_request() -> dict[str, Any]:
    return {
        "toolCall": {
            "toolCallId": "asked",
            "title": TAGS,
            "kind": "execute",
            "rawInput": {"command": TAGS + ESCAPES},
            "content": [{"type": "diff", "path": PATH, "oldText": None, "newText": TAGS}],
        },
        "options": [{"optionId": "yes", "name": TAGS, "kind": "allow_once"}],
    }


def _chunk(kind: str, content: dict[str, Any]) -> dict[str, Any]:
    return {"sessionUpdate": kind, "content": content}


def _send(**message: Any) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def main() -> None:
    prompt: Any = None
    for line in sys.stdin:
        message = json.loads(line)
        params = message.get("params", {})
        match message.get("method"):
            case "initialize":
                _send(id=message["id"], result={"protocolVersion": 1, "agentCapabilities": {}})
            case "session/new":
                options = [{"value": TAGS, "name": TAGS, "description": TAGS}]
                config = {"id": "model", "name": TAGS, "category": "model", "type": "select"}
                chosen = {**config, "currentValue": TAGS, "options": options}
                _send(id=message["id"], result={"sessionId": "s", "configOptions": [chosen]})
            case "session/prompt":
                prompt = message["id"]
                is_bombing = params["prompt"][0]["text"] == "bombs"
                for update in bombs() if is_bombing else updates():
                    _send(method="session/update", params={"sessionId": params["sessionId"], "update": update})
                if is_bombing:
                    _send(id=prompt, result={"stopReason": "end_turn"})
                    continue
                _send(id="ask", method="session/request_permission", params={"sessionId": "s", **permission_request()})
            case None if message.get("id") == "ask":
                _send(id=prompt, result={"stopReason": "end_turn"})
            case _ if "id" in message and "method" in message:
                _send(id=message["id"], error={"code": -32601, "message": TAGS})
            case _:
                pass


if __name__ == "__main__":
    main()
