"""The two things of ours that are not kept as they were sent: secrets, and long answers.

Pure. Only what we say ourselves is changed; what an agent says is kept as it is, whatever it says.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from dragoman.wire.messages import DECODE_ERRORS, Message, Reply, Request

# Bytes of an answer that are kept. Longer ones are files that are on the disk anyway and output that is polled again
# and again, each time with all of it.
MAX_ANSWER_BYTES: Final = 64 * 1024

# Characters below which a secret is not looked for by its value: it would be found in words that are none.
_SHORTEST: Final = 6

# Of an address: who asks, and what stands behind `?` and `#`. Of arguments: those that speak of something secret.
_OF_ADDRESS: Final = re.compile(r"(?<=://)[^/@]+(?=@)|(?<=[?#]).+")
_TELLING: Final = re.compile(r"key|token|secret|passw|credential|auth|bearer|://[^/]*@", re.IGNORECASE)


def redact(message: Message, secrets: Mapping[str, str]) -> bytes | None:
    """What to keep of a line of ours; None when it is kept as it is. `secrets`: by name, wherever they may occur."""
    match message:
        case Reply(line=line) if len(line) > MAX_ANSWER_BYTES and message.error is None:
            told = {"length": len(message.result), "sha256": hashlib.sha256(message.result).hexdigest()}
            return msgspec.json.encode({"jsonrpc": "2.0", "id": message.id, "result": {"_dragoman": told}})
        case Request(line=line):
            hidden = _without_values(_without_server_secrets(line), secrets)
        case _:
            line = getattr(message, "line", b"")
            hidden = _without_values(line, secrets)
    return hidden if hidden != line else None


def _without_server_secrets(line: bytes) -> bytes:
    """What MCP servers get in their environment, headers and `_meta` is theirs alone, each value of it; and so is what
    their addresses and arguments say that may be a key."""
    if b'"mcpServers"' not in line:
        return line
    try:
        frame = msgspec.json.decode(line)
    except DECODE_ERRORS:
        return line
    params = frame.get("params") if isinstance(frame, dict) else None
    servers = params.get("mcpServers") if isinstance(params, dict) else None
    changed = False
    for server in servers if isinstance(servers, list) else []:
        if isinstance(server, dict):
            changed = _hide(server) or changed
    return msgspec.json.encode(frame) if changed else line


def _hide(server: dict[str, Any]) -> bool:
    """Takes what is secret out of it; whether there was any."""
    before = msgspec.json.encode(server)
    for field in ("env", "headers"):
        for pair in _listed(server.get(field)):
            if isinstance(pair, dict) and pair.get("value"):
                pair["value"] = _name(str(pair.get("name")))
    if isinstance(url := server.get("url"), str):
        server["url"] = _OF_ADDRESS.sub(_name("url"), url)
    if arguments := _listed(server.get("args")):
        server["args"] = list(_arguments(arguments))
    if server.get("_meta"):
        server["_meta"] = {"_dragoman": _name("_meta")}
    return before != msgspec.json.encode(server)


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _arguments(arguments: Sequence[Any]) -> Iterator[Any]:
    """`--key VALUE`, `--key=VALUE`, and anything else that speaks of such a thing."""
    announced = ""
    for argument in arguments:
        option, equals, value = str(argument).partition("=")
        telling = _TELLING.search(str(argument)) is not None
        if announced and not option.startswith("-"):
            yield _name(announced)
        elif telling and option.startswith("-"):
            yield f"{option}={_name(option)}" if value else argument
        else:
            yield _name("args") if telling else argument
        announced = option if telling and option.startswith("-") and not equals else ""


def _without_values(line: bytes, secrets: Mapping[str, str]) -> bytes:
    for name, value in secrets.items():
        if len(value) >= _SHORTEST:
            # As it stands within a JSON string.
            line = line.replace(msgspec.json.encode(value)[1:-1], msgspec.json.encode(_name(name))[1:-1])
    return line


def _name(name: str) -> str:
    return f"[secret:{name}]"
