"""Comparison of what the client sends with what it sent when the recording was made. Pure.

Compared are prompts, settings, and the answers that are decisions: which permission option was selected, how a question
was answered, and whether a request was served at all. The contents of files and terminals may differ.
"""

from __future__ import annotations

import difflib
import hashlib
import re
from typing import Any, TypeAlias

import msgspec

from dragoman.wire.messages import DECODE_ERRORS

# The placeholder for a secret in a scrubbed recording; it matches any text.
SECRET = "[secret]"  # noqa: S105 (not a secret)

# How much of a block that is not text is shown in a difference.
_MAX_SHOWN_CHARACTERS = 200

_Json: TypeAlias = Any  # any JSON value


class Difference(msgspec.Struct, frozen=True):
    """`recorded` and `given` as readable text."""

    recorded: str
    given: str

    @property
    def as_diff(self) -> str:
        lines = difflib.unified_diff(self.recorded.splitlines(), self.given.splitlines(), "recorded", "given", n=2)
        return "\n".join(line.rstrip("\n") for line in lines)


def prompts_differ(recorded: bytes, given: bytes) -> Difference | None:
    """Compare two `session/prompt` requests, both with the ids and folders of the recording."""
    old, new = _blocks(recorded), _blocks(given)
    if len(old) == len(new) and all(map(_equal_but_secrets, old, new)):
        return None
    return Difference(_readable(old), _readable(new))


def params_differ(recorded: bytes, given: bytes) -> Difference | None:
    """Compare the params of two requests, ignoring the session id."""
    old, new = (_without(_part(frame, "params"), "sessionId", "_meta") for frame in (recorded, given))
    return None if old == new else Difference(_to_json(old), _to_json(new))


def answers_differ(method: str, recorded: bytes, given: bytes) -> Difference | None:
    """Compare two answers of the client to the same request of the agent."""
    old, new = _decision(method, recorded), _decision(method, given)
    return None if old == new else Difference(old, new)


def _decision(method: str, frame: bytes) -> str:
    result, error = _part(frame, "result"), _part(frame, "error")
    if error is not None:
        return "an error"
    match method, result:
        case "session/request_permission", {"outcome": {"outcome": "selected", "optionId": option}}:
            return f"selected {option}"
        case "session/request_permission", {"outcome": {"outcome": outcome}}:
            return str(outcome)
        case "elicitation/create", {"action": action, "content": content}:
            return f"{action} {_to_json(content)}"
        case "elicitation/create", {"action": action}:
            return str(action)
        case _:
            return "served"


def _blocks(frame: bytes) -> list[_Json]:
    params = _part(frame, "params")
    prompt = params.get("prompt") if isinstance(params, dict) else None
    return [_without(block, "_meta") for block in prompt] if isinstance(prompt, list) else [prompt]


def _equal_but_secrets(old: _Json, new: _Json) -> bool:
    if old == new:
        return True
    text = _to_json(old)
    if SECRET not in text:
        return False
    pattern = ".*?".join(re.escape(part) for part in text.split(SECRET))
    return re.fullmatch(pattern, _to_json(new), re.DOTALL) is not None


def _readable(blocks: list[_Json]) -> str:
    return "\n".join(_readable_block(block) for block in blocks)


def _readable_block(block: _Json) -> str:
    if isinstance(block, dict) and block.get("type") == "text":
        return str(block.get("text"))
    text = _to_json(block)
    if len(text) <= _MAX_SHOWN_CHARACTERS:
        return text
    return f"{text[:_MAX_SHOWN_CHARACTERS]}… ({len(text)} characters, {hashlib.sha256(text.encode()).hexdigest()[:12]})"


def _to_json(value: _Json) -> str:
    return msgspec.json.encode(value, order="sorted").decode()


def _without(value: _Json, *names: str) -> _Json:
    return {key: each for key, each in value.items() if key not in names} if isinstance(value, dict) else value


def _part(frame: bytes, name: str) -> _Json:
    try:
        read = msgspec.json.decode(frame)
    except DECODE_ERRORS:
        return None
    return read.get(name) if isinstance(read, dict) else None
