"""Whether the client says what it said when the recording was made, and the difference where it does not.

Pure. Compared are prompts, settings, and the answers that are decisions: what was chosen where permission was asked,
what was done with a question, and whether a request was served at all. What a file or a terminal holds is the
machine's affair, and may differ.
"""

from __future__ import annotations

import difflib
import hashlib
import re
from typing import Any, TypeAlias

import msgspec

from dragoman.wire.messages import DECODE_ERRORS

# What stands in a scrubbed recording for something secret; any text may stand there now.
SECRET = "[secret]"  # noqa: S105 (the very opposite of one)

# Characters of a block that is no text, in a difference: enough to see which one it is.
_SHOWN = 200

_Json: TypeAlias = Any  # what JSON can hold: this is as near to the wire as can be


class Difference(msgspec.Struct, frozen=True):
    """`recorded` and `given` as people read them; `shown` tells both, as a diff."""

    recorded: str
    given: str

    @property
    def shown(self) -> str:
        lines = difflib.unified_diff(self.recorded.splitlines(), self.given.splitlines(), "recorded", "given", n=2)
        return "\n".join(line.rstrip("\n") for line in lines)


def prompts_differ(recorded: bytes, given: bytes) -> Difference | None:
    """Two requests `session/prompt`, ids and folders already those of the recording."""
    was, now = _blocks(recorded), _blocks(given)
    if len(was) == len(now) and all(map(_alike, was, now)):
        return None
    return Difference(_readable(was), _readable(now))


def params_differ(recorded: bytes, given: bytes) -> Difference | None:
    """Two requests for the same, but for the session that they name."""
    was, now = (_without(_part(frame, "params"), "sessionId", "_meta") for frame in (recorded, given))
    return None if was == now else Difference(_written(was), _written(now))


def answers_differ(method: str, recorded: bytes, given: bytes) -> Difference | None:
    """Two answers of the client's to the same request of the agent's."""
    was, now = _decision(method, recorded), _decision(method, given)
    return None if was == now else Difference(was, now)


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
            return f"{action} {_written(content)}"
        case "elicitation/create", {"action": action}:
            return str(action)
        case _:
            return "served"


def _blocks(frame: bytes) -> list[_Json]:
    params = _part(frame, "params")
    prompt = params.get("prompt") if isinstance(params, dict) else None
    return [_without(block, "_meta") for block in prompt] if isinstance(prompt, list) else [prompt]


def _alike(was: _Json, now: _Json) -> bool:
    if was == now:
        return True
    written = _written(was)
    if SECRET not in written:
        return False
    pattern = ".*?".join(re.escape(part) for part in written.split(SECRET))
    return re.fullmatch(pattern, _written(now), re.DOTALL) is not None


def _readable(blocks: list[_Json]) -> str:
    return "\n".join(_readable_block(block) for block in blocks)


def _readable_block(block: _Json) -> str:
    if isinstance(block, dict) and block.get("type") == "text":
        return str(block.get("text"))
    written = _written(block)
    if len(written) <= _SHOWN:
        return written
    return f"{written[:_SHOWN]}… ({len(written)} characters, {hashlib.sha256(written.encode()).hexdigest()[:12]})"


def _written(value: _Json) -> str:
    return msgspec.json.encode(value, order="sorted").decode()


def _without(value: _Json, *names: str) -> _Json:
    return {key: each for key, each in value.items() if key not in names} if isinstance(value, dict) else value


def _part(frame: bytes, name: str) -> _Json:
    try:
        read = msgspec.json.decode(frame)
    except DECODE_ERRORS:
        return None
    return read.get(name) if isinstance(read, dict) else None
