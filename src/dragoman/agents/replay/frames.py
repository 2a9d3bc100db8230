"""Recorded frames and those of the client: comparison, and substitution of ids and folders. Pure.

Compared are prompts, settings, and the answers that are decisions: which permission option was selected, how a question
was answered, and whether a request was served at all. The contents of files and terminals may differ.

Ids and folders of the recording are replaced by those of the client, so that a recording plays anywhere. The rest of a
frame stays as it was recorded, byte by byte.
"""

from __future__ import annotations

import difflib
import hashlib
import re
from typing import Any, TypeAlias

import msgspec

from dragoman.record.notes import CONTEXT_MARK
from dragoman.wire.messages import DECODE_ERRORS, RequestId

# A folder's name is not matched inside a longer name; the letter of an escaped newline or tab is not part of a name.
_BEFORE, _AFTER = rb"(?:(?<![\w.~-])|(?<=\\[nrt]))", rb"(?![\w-]|\.\w)"


class Substitutions:
    """The substitutions of one session: its id, its folder, and its terminals as they are created."""

    def __init__(self, session_ids: tuple[str, ...], cwd: str) -> None:
        self._recorded_ids = session_ids
        self._recorded_cwd = cwd
        self._cwd = cwd
        self._session: msgspec.Raw | None = None  # None: the recorded id
        self._folder: re.Pattern[bytes] | None = None
        self._terminals: dict[bytes, tuple[re.Pattern[bytes], bytes]] = {}

    def set_client_names(self, session_id: str | None, cwd: str) -> None:
        """Set the id and folder by which the client opened the session. None, or an empty cwd: as recorded."""
        known = session_id is None or session_id in self._recorded_ids
        self._session = None if known else msgspec.Raw(msgspec.json.encode(session_id))
        self._cwd = cwd.rstrip("/") or self._recorded_cwd
        self._folder = folder_pattern(self._recorded_cwd, self._cwd)

    def add_terminal(self, recorded_answer: bytes, answer: bytes) -> None:
        """Map a recorded terminal to the client's, by both answers to `terminal/create`."""
        recorded, now = _terminal_of(recorded_answer), _terminal_of(answer)
        if recorded is not None and now is not None and recorded != now:
            self._terminals[recorded] = re.compile(rb'("terminalId"\s*:\s*)' + re.escape(recorded)), now

    def to_client(self, frame: bytes, request_id: RequestId | None = None) -> bytes:
        """Return a recorded frame with the client's names, and with `request_id` if that is not None."""
        if self._folder is not None:
            frame = substitute(self._folder, json_text(self._cwd), frame)
        for pattern, its_id in self._terminals.values():
            frame = substitute(pattern, its_id, frame)
        if self._session is None and request_id is None:
            return frame
        members = msgspec.json.decode(frame, type=dict[str, msgspec.Raw])
        if request_id is not None:
            members["id"] = msgspec.Raw(msgspec.json.encode(request_id))
        for part in ("params", "result"):
            if self._session is not None and part in members:
                members[part] = self._renamed(members[part])
        return msgspec.json.encode(members)

    def to_recording(self, frame: bytes) -> bytes:
        """Return a frame of the client with the recorded folder."""
        back = folder_pattern(self._cwd, self._recorded_cwd)
        return frame if back is None else substitute(back, json_text(self._recorded_cwd), frame)

    def _renamed(self, part: msgspec.Raw) -> msgspec.Raw:
        try:
            members = msgspec.json.decode(part, type=dict[str, msgspec.Raw])
        except DECODE_ERRORS:
            return part
        if "sessionId" not in members or self._session is None:
            return part
        return msgspec.Raw(msgspec.json.encode({**members, "sessionId": self._session}))


def folder_pattern(recorded: str, now: str) -> re.Pattern[bytes] | None:
    """Return a pattern that finds a folder in a frame; None if there is nothing to replace. `/` is never replaced."""
    recorded = recorded.rstrip("/")
    if not recorded or not now or recorded == now:
        return None
    return re.compile(_BEFORE + b"()" + re.escape(json_text(recorded)) + _AFTER)


def substitute(pattern: re.Pattern[bytes], name: bytes, frame: bytes) -> bytes:
    """Replace all matches by `name`. The pattern's first group stays."""
    return pattern.sub(lambda match: match[1] + name, frame)


def json_text(text: str) -> bytes:
    """Encode text as it appears inside a JSON string."""
    return msgspec.json.encode(text)[1:-1]


class _Created(msgspec.Struct, frozen=True):
    terminalId: str  # noqa: N815 (the wire's name)


class _Answer(msgspec.Struct, frozen=True):
    result: _Created


def _terminal_of(frame: bytes) -> bytes | None:
    try:
        return msgspec.json.encode(msgspec.json.decode(frame, type=_Answer).result.terminalId)
    except DECODE_ERRORS:
        return None


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
    if not isinstance(prompt, list):
        return [prompt]
    return [_without(block, "_meta") for block in prompt if not _is_context(block)]


def _is_context(block: _Json) -> bool:
    """Return whether Dragoman added a block to the user's own, as it does where the workspace has skills."""
    match block:
        case {"_meta": {**meta}} if CONTEXT_MARK in meta:
            return True
        case _:
            return False


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
