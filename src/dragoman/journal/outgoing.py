"""The two things of ours that are not kept as they were sent: secrets, and long answers.

Pure. Only what we say ourselves is changed; what an agent says is kept as it is, whatever it says.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from dragoman.wire.messages import UNREADABLE, Message, Reply, Request

# Bytes of an answer that are kept. Longer ones are files that are on the disk anyway and output that is polled again
# and again, each time with all of it.
LONGEST_ANSWER: Final = 64 * 1024

# Characters below which a secret is not looked for by its value: it would be found in words that are none.
_SHORTEST: Final = 6


def kept(message: Message, secrets: Mapping[str, str]) -> bytes | None:
    """What to keep of a line of ours; None when it is kept as it is. `secrets`: by name, wherever they may occur."""
    match message:
        case Reply(line=line) if len(line) > LONGEST_ANSWER and message.error is None:
            told = {"length": len(message.result), "sha256": hashlib.sha256(message.result).hexdigest()}
            return msgspec.json.encode({"jsonrpc": "2.0", "id": message.id, "result": {"_dragoman": told}})
        case Request(line=line):
            hidden = _without_values(_without_server_secrets(line), secrets)
        case _:
            line = getattr(message, "line", b"")
            hidden = _without_values(line, secrets)
    return hidden if hidden != line else None


def _without_server_secrets(line: bytes) -> bytes:
    """What MCP servers get in their environment and headers is theirs alone, each value of it."""
    if b'"mcpServers"' not in line:
        return line
    try:
        frame = msgspec.json.decode(line)
    except UNREADABLE:
        return line
    params = frame.get("params") if isinstance(frame, dict) else None
    servers = params.get("mcpServers") if isinstance(params, dict) else None
    changed = False
    for server in servers if isinstance(servers, list) else []:
        for field in ("env", "headers"):
            changed = _hide(server.get(field) if isinstance(server, dict) else None) or changed
    return msgspec.json.encode(frame) if changed else line


def _hide(pairs: Any) -> bool:
    if not isinstance(pairs, list):
        return False
    found = [pair for pair in pairs if isinstance(pair, dict) and pair.get("value")]
    for pair in found:
        pair["value"] = _name(str(pair.get("name")))
    return bool(found)


def _without_values(line: bytes, secrets: Mapping[str, str]) -> bytes:
    for name, value in secrets.items():
        if len(value) >= _SHORTEST:
            # As it stands within a JSON string.
            line = line.replace(msgspec.json.encode(value)[1:-1], msgspec.json.encode(_name(name))[1:-1])
    return line


def _name(name: str) -> str:
    return f"[secret:{name}]"
