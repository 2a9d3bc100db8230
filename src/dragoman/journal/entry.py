"""Entries: frames as the journal stores them, and the way back from an entry to the message that it was. Pure.

A frame is stored as its own bytes. The entry adds only what the bytes do not say: who sent it, when, in which session,
and which request it answers. That is enough to read the same message again, in any process.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from typing import Final, Literal, TypeAlias, get_args

import msgspec

from dragoman.errors import InputError
from dragoman.record.fold import Direction
from dragoman.wire.dialect import LATEST_VERSION, dialect_for
from dragoman.wire.messages import (
    DECODE_ERRORS,
    Message,
    Noise,
    Oversized,
    Reply,
    Unknown,
    Update,
    peek,
)
from dragoman.wire.peer import Peer

Origin: TypeAlias = Literal["agent", "client", "host", "import", "replay"]
ORIGINS: Final[tuple[Origin, ...]] = get_args(Origin)

# An opaque position in the journal, to be stored and given back.
Cursor: TypeAlias = str

# The ids of connections that stand for transcripts begin with this.
TRANSCRIPT_PREFIX: Final = "import-"

NOISE: Final = "noise"
OVERSIZED: Final = "oversized"


class Entry(msgspec.Struct, frozen=True, gc=False):
    """One frame.

    `n` counts the frames of its connection from 1, without a gap. `kind` is the kind of an update, the method of a
    request or notification, and for a response the method of its request; `noise` for a line that is not a message;
    `oversized` for a line that was too long to read, whose `frame` has its length, digest and beginning.
    """

    connection_id: str
    session_id: str | None  # ours; None for frames about the connection as a whole
    n: int
    at: float
    origin: Origin
    kind: str
    frame: bytes


class Page(msgspec.Struct, frozen=True):
    """Entries in the order of the journal."""

    entries: Sequence[Entry]
    cursor: Cursor  # after the last entry; without entries, the cursor that was passed
    journal: str
    positions: Sequence[int]

    def cursor_at(self, index: int) -> Cursor:
        """Return the cursor from which a reader continues after `entries[index]`."""
        return format_cursor(self.journal, self.positions[index])


# Digits of a position: more frames than there will ever be, in a number that every store has room for.
_MAX_POSITION_DIGITS: Final = 18


def format_cursor(journal: str, position: int) -> Cursor:
    return f"{journal}.{position}"


def parse_cursor(journal: str, cursor: Cursor | None) -> int:
    """Return the position that a cursor of this journal means; None is its beginning."""
    if cursor is None:
        return 0
    name, _, position = cursor.partition(".")
    if name != journal or not position.isdecimal() or not position.isascii() or len(position) > _MAX_POSITION_DIGITS:
        raise InputError(
            f"{cursor!r} is not a cursor of this journal",
            guidance="Start without a cursor: the journal was replaced, or the cursor belongs to another one.",
        )
    return int(position)


class _OversizedFrame(msgspec.Struct, frozen=True):
    length: int
    sha256: str
    head: str  # base64: it may end within a character
    tail: str = ""


def stored_frame(message: Message) -> bytes:
    """Return the bytes to store: the line as it was. An oversized line and the error that answers for it have none."""
    if isinstance(message, Oversized):
        head, tail = base64.b64encode(message.head).decode(), base64.b64encode(message.tail).decode()
        return msgspec.json.encode(_OversizedFrame(message.length, message.sha256, head, tail))
    if isinstance(message, Reply) and not message.line:
        outcome = {"result": message.result} if message.error is None else {"error": message.error}
        return msgspec.json.encode({"jsonrpc": "2.0", "id": message.id, **outcome})
    return message.line.rstrip(b"\n") if message.line.endswith(b"\n") else message.line


# Kinds of updates by their types; filled as types are seen.
UPDATE_KINDS: Final[dict[type, str]] = {}


def entry_kind(message: Message) -> str:
    if isinstance(message, Update):  # nearly every message is one
        update = message.update
        if isinstance(update, Unknown):
            return update.kind
        kind = UPDATE_KINDS.get(type(update))
        if kind is None:
            kind = UPDATE_KINDS[type(update)] = str(type(update).__struct_config__.tag or "")
        return kind
    if isinstance(message, Noise):
        return NOISE
    return OVERSIZED if isinstance(message, Oversized) else message.method


_read_update = dialect_for(LATEST_VERSION).read_update


def read_message(entry: Entry) -> Message:
    """Return the message of an entry, as the connection read it at the time. Never raises."""
    frame = entry.frame
    try:
        params = _read_update(frame).params
        return Update(params.session_id, params.update, frame)
    except DECODE_ERRORS:
        pass
    if entry.kind == NOISE:
        return Noise("stored as noise", frame)
    if entry.kind == OVERSIZED:
        return _oversized(frame)
    peer = Peer(line_limit=len(frame) + 1)
    envelope = peek(frame)
    if envelope.is_answer and envelope.id is not None:
        peer.expect(envelope.id, entry.kind)
    messages = [*peer.feed(frame.replace(b"\n", b" ")), *peer.finish()]  # a long line is not copied
    return messages[0] if len(messages) == 1 else Noise("stored as something else", frame)


def _oversized(frame: bytes) -> Message:
    try:
        line = msgspec.json.decode(frame, type=_OversizedFrame)
        return Oversized(line.length, line.sha256, base64.b64decode(line.head), base64.b64decode(line.tail))
    except (*DECODE_ERRORS, ValueError):
        return Noise("stored as noise", frame)


def is_from_transcript(entry: Entry) -> bool:
    """Return True for a frame that was translated from a transcript. Other imports have frames of live sessions."""
    return entry.origin == "import" and entry.connection_id.startswith(TRANSCRIPT_PREFIX)


# The last member of a provisional frame, with the number of its group.
_PROVISIONAL_MARK: Final = re.compile(rb',"_provisional":(\d+)\}\Z')
_MAX_MARK_BYTES: Final = 40


def mark_provisional(frame: bytes, group: int) -> bytes:
    """Mark a frame of a transcript that counts only until the transcript goes on, such as the end of a run that the
    transcript leaves open. The frames of a group count or are withdrawn together; a later group has a higher number.
    """
    return frame.removesuffix(b"}") + b',"_provisional":%d}' % group


def provisional_group(entry: Entry) -> int | None:
    """Return the group of a provisional frame; None for any other frame."""
    # Nearly all frames end with `"}`: this is called for each frame of a transcript.
    if not entry.frame[-2:-1].isdigit() or not is_from_transcript(entry):
        return None
    match = _PROVISIONAL_MARK.search(entry.frame, max(0, len(entry.frame) - _MAX_MARK_BYTES))
    return int(match[1]) if match is not None else None


def without_mark(frame: bytes) -> bytes:
    """Return a provisional frame as it was before it was marked."""
    return _PROVISIONAL_MARK.sub(b"}", frame)


# Beginnings of methods that only an agent sends. An import does not say who sent a frame; its method does.
_AGENT_METHODS = ("session/update", "session/request_permission", "fs/", "terminal/", "elicitation/", "_", "$/")


def direction_of(origin: Origin, message: Message) -> Direction:
    """Return the direction of a message, as the fold needs it."""
    match origin:
        case "agent" | "replay":
            return "in"
        case "client":
            return "out"
        case "host":
            # The host answers for an agent whose own response was too long to read.
            return "in" if isinstance(message, Reply) else "host"
        case "import":
            method = getattr(message, "method", "session/update")
            from_agent = method.startswith(_AGENT_METHODS) != isinstance(message, Reply)
            return "in" if from_agent else "out"
