"""Ids and folders of then and of now: exchanged in each frame, so that a recording plays anywhere.

Pure. The rest of a frame stays as it was recorded, byte by byte; where nothing is to be exchanged, all of it.
"""

from __future__ import annotations

import re

import msgspec

from dragoman.wire.messages import DECODE_ERRORS, RequestId

# What may stand beside a folder's name in a text without being part of a longer name; the letter of a written newline
# or tab is none of a name either.
_BEFORE, _AFTER = rb"(?:(?<![\w.~-])|(?<=\\[nrt]))", rb"(?![\w-]|\.\w)"


class Names:
    """Of one session. `session_id` and `cwd` are the client's; terminals get to be known on the way."""

    def __init__(self, session_ids: tuple[str, ...], cwd: str) -> None:
        self._recorded_ids = session_ids
        self._recorded_cwd = cwd
        self._cwd = cwd
        self._session: msgspec.Raw | None = None  # None where it is the recorded one
        self._folder: re.Pattern[bytes] | None = None
        self._terminals: dict[bytes, tuple[re.Pattern[bytes], bytes]] = {}

    def settle(self, session_id: str | None, cwd: str) -> None:
        """The client has opened the session by this id, in this folder. None is the recorded id, an empty cwd too."""
        known = session_id is None or session_id in self._recorded_ids
        self._session = None if known else msgspec.Raw(msgspec.json.encode(session_id))
        self._cwd = cwd.rstrip("/") or self._recorded_cwd
        self._folder = folder(self._recorded_cwd, self._cwd)

    def terminal(self, recorded: bytes, given: bytes) -> None:
        """The client's answers to `terminal/create`, then and now."""
        was, now = _terminal_of(recorded), _terminal_of(given)
        if was is not None and now is not None and was != now:
            self._terminals[was] = re.compile(rb'("terminalId"\s*:\s*)' + re.escape(was)), now

    def now(self, frame: bytes, request_id: RequestId | None = None) -> bytes:
        """A recorded frame as it is to be said now, with this id where one is given."""
        if self._folder is not None:
            frame = exchanged(self._folder, inside(self._cwd), frame)
        for pattern, its_id in self._terminals.values():
            frame = exchanged(pattern, its_id, frame)
        if self._session is None and request_id is None:
            return frame
        members = msgspec.json.decode(frame, type=dict[str, msgspec.Raw])
        if request_id is not None:
            members["id"] = msgspec.Raw(msgspec.json.encode(request_id))
        for part in ("params", "result"):
            if self._session is not None and part in members:
                members[part] = self._renamed(members[part])
        return msgspec.json.encode(members)

    def then(self, frame: bytes) -> bytes:
        """A frame of the client's, with the folder of the recording."""
        back = folder(self._cwd, self._recorded_cwd)
        return frame if back is None else exchanged(back, inside(self._recorded_cwd), frame)

    def _renamed(self, part: msgspec.Raw) -> msgspec.Raw:
        try:
            members = msgspec.json.decode(part, type=dict[str, msgspec.Raw])
        except DECODE_ERRORS:
            return part
        if "sessionId" not in members or self._session is None:
            return part
        return msgspec.Raw(msgspec.json.encode({**members, "sessionId": self._session}))


def folder(was: str, now: str) -> re.Pattern[bytes] | None:
    """Finds a folder in a frame, for `exchanged`. None where there is nothing to exchange: the root is everybody's."""
    was = was.rstrip("/")
    if not was or not now or was == now:
        return None
    return re.compile(_BEFORE + b"()" + re.escape(inside(was)) + _AFTER)


def exchanged(pattern: re.Pattern[bytes], name: bytes, frame: bytes) -> bytes:
    """With this name in the place of what is found. The pattern's first group stays."""
    return pattern.sub(lambda found: found[1] + name, frame)


def inside(text: str) -> bytes:
    """As it stands within a text of JSON."""
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
