"""Redaction of frames that Dragoman sends: secrets and long responses are not stored as they were sent. Pure.

Frames of an agent are stored as they are, whatever they contain.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from dragoman.wire.messages import DECODE_ERRORS, Message, Reply, Request

# Longer responses are files, which are on the disk anyway, and terminal output, which the agent polls again and again,
# each time with all of it.
MAX_ANSWER_BYTES: Final = 64 * 1024

# A shorter secret is not looked for by its value: it would be found within ordinary words.
_MIN_SECRET_CHARACTERS: Final = 6

# Secret parts of a URL: user and password, and everything after `?` and `#`. Arguments that mention a secret.
_URL_SECRETS: Final = re.compile(r"(?<=://)[^/@]+(?=@)|(?<=[?#]).+")
_MENTIONS_SECRET: Final = re.compile(r"key|token|secret|passw|credential|auth|bearer|://[^/]*@", re.IGNORECASE)


def redact(message: Message, secrets: Mapping[str, str]) -> bytes | None:
    """Return the line to store for a message of ours; None where it is stored as it is. `secrets`: values by name."""
    match message:
        case Reply(line=line) if len(line) > MAX_ANSWER_BYTES and message.error is None:
            summary = {"length": len(message.result), "sha256": hashlib.sha256(message.result).hexdigest()}
            return msgspec.json.encode({"jsonrpc": "2.0", "id": message.id, "result": {"_dragoman": summary}})
        case Request(line=line):
            redacted = _without_values(_without_server_secrets(line), secrets)
        case _:
            line = getattr(message, "line", b"")
            redacted = _without_values(line, secrets)
    return redacted if redacted != line else None


def _without_server_secrets(line: bytes) -> bytes:
    """Replace every value in the environment, headers and `_meta` of MCP servers, and what may be a key in their URLs
    and arguments."""
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
    """Replace the secrets of a server; return whether there was any."""
    before = msgspec.json.encode(server)
    for field in ("env", "headers"):
        for pair in _as_list(server.get(field)):
            if isinstance(pair, dict) and pair.get("value"):
                pair["value"] = _placeholder(str(pair.get("name")))
    if isinstance(url := server.get("url"), str):
        server["url"] = _URL_SECRETS.sub(_placeholder("url"), url)
    if arguments := _as_list(server.get("args")):
        server["args"] = list(_arguments(arguments))
    if server.get("_meta"):
        server["_meta"] = {"_dragoman": _placeholder("_meta")}
    return before != msgspec.json.encode(server)


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _arguments(arguments: Sequence[Any]) -> Iterator[Any]:
    """Replace `--key VALUE`, `--key=VALUE`, and everything else that mentions a secret."""
    secret_option = ""  # its value is the next argument
    for argument in arguments:
        option, equals, value = str(argument).partition("=")
        mentions_secret = _MENTIONS_SECRET.search(str(argument)) is not None
        if secret_option and not option.startswith("-"):
            yield _placeholder(secret_option)
        elif mentions_secret and option.startswith("-"):
            yield f"{option}={_placeholder(option)}" if value else argument
        else:
            yield _placeholder("args") if mentions_secret else argument
        secret_option = option if mentions_secret and option.startswith("-") and not equals else ""


def _without_values(line: bytes, secrets: Mapping[str, str]) -> bytes:
    for name, value in secrets.items():
        if len(value) >= _MIN_SECRET_CHARACTERS:
            # As it is written within a JSON string.
            line = line.replace(msgspec.json.encode(value)[1:-1], msgspec.json.encode(_placeholder(name))[1:-1])
    return line


def _placeholder(name: str) -> str:
    return f"[secret:{name}]"
