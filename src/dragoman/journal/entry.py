"""Entries: frames as the journal keeps them, and back from what is kept to the message it was.

Pure. A frame is kept as its own bytes; beside it stands only what the bytes do not tell: where it came from, when, in
which session, and what it answers. From that alone the same message can be read again, in any process.
"""

from __future__ import annotations

import base64
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

# A position in the journal, to be kept and given back, never to be looked into.
Cursor: TypeAlias = str

NOISE: Final = "noise"
OVERSIZED: Final = "oversized"


class Entry(msgspec.Struct, frozen=True, gc=False):
    """One frame.

    `n` counts the frames of its connection from 1, without a gap. `kind` is the kind of an update, the method of a
    request or notification, and for an answer the method of what it answers; `noise` for a line that is no message,
    `oversized` for one that was too long to read, of which `frame` then holds the length, the digest and the beginning.
    """

    connection_id: str
    session_id: str | None  # ours; None for what concerns the connection as a whole
    n: int
    at: float
    origin: Origin
    kind: str
    frame: bytes


class Page(msgspec.Struct, frozen=True):
    """Entries in the order of the journal."""

    entries: Sequence[Entry]
    cursor: Cursor  # after the last of them; where there is none, what was asked for
    journal: str
    places: Sequence[int]

    def cursor_at(self, index: int) -> Cursor:
        """Who comes back with it goes on after `entries[index]`."""
        return format_cursor(self.journal, self.places[index])


# Of a place in a journal: more frames than there will ever be, and a number that every store has room for.
_DIGITS: Final = 18


def format_cursor(journal: str, place: int) -> Cursor:
    return f"{journal}.{place}"


def parse_cursor(journal: str, cursor: Cursor | None) -> int:
    """The place that a cursor of this journal means; None is its beginning."""
    if cursor is None:
        return 0
    name, _, place = cursor.partition(".")
    if name != journal or not place.isdecimal() or not place.isascii() or len(place) > _DIGITS:
        raise InputError(
            f"{cursor!r} is no cursor of this journal",
            guidance="Begin anew without a cursor; the journal was replaced, or the cursor belongs to another one.",
        )
    return int(place)


class _Cut(msgspec.Struct, frozen=True):
    length: int
    sha256: str
    head: str  # base64: it may end within a character
    tail: str = ""


def stored_frame(message: Message) -> bytes:
    """The bytes to keep: the line as it was. Two have none: one too long to keep, and the answer that stands for it."""
    if isinstance(message, Oversized):
        head, tail = base64.b64encode(message.head).decode(), base64.b64encode(message.tail).decode()
        return msgspec.json.encode(_Cut(message.length, message.sha256, head, tail))
    if isinstance(message, Reply) and not message.line:
        said = {"result": message.result} if message.error is None else {"error": message.error}
        return msgspec.json.encode({"jsonrpc": "2.0", "id": message.id, **said})
    return message.line.rstrip(b"\n") if message.line.endswith(b"\n") else message.line


# Kinds of updates by their types, as far as they have been seen.
UPDATE_KINDS: Final[dict[type, str]] = {}


def entry_kind(message: Message) -> str:
    if isinstance(message, Update):  # nearly all are
        update = message.update
        if isinstance(update, Unknown):
            return update.kind
        known = UPDATE_KINDS.get(type(update))
        if known is None:
            known = UPDATE_KINDS[type(update)] = str(type(update).__struct_config__.tag or "")
        return known
    if isinstance(message, Noise):
        return NOISE
    return OVERSIZED if isinstance(message, Oversized) else message.method


_read_update = dialect_for(LATEST_VERSION).read_update


def read_message(entry: Entry) -> Message:
    """The message that was kept, as the connection told it then. Never raises."""
    frame = entry.frame
    try:
        params = _read_update(frame).params
        return Update(params.session_id, params.update, frame)
    except DECODE_ERRORS:
        pass
    if entry.kind == NOISE:
        return Noise("kept as noise", frame)
    if entry.kind == OVERSIZED:
        return _oversized(frame)
    peer = Peer(line_limit=len(frame) + 1)
    envelope = peek(frame)
    if envelope.is_answer and envelope.id is not None:
        peer.expect(envelope.id, entry.kind)
    messages = [*peer.feed(frame.replace(b"\n", b" ")), *peer.finish()]  # not a byte of a long one is copied
    return messages[0] if len(messages) == 1 else Noise("kept as something else", frame)


def _oversized(frame: bytes) -> Message:
    try:
        cut = msgspec.json.decode(frame, type=_Cut)
        return Oversized(cut.length, cut.sha256, base64.b64decode(cut.head), base64.b64decode(cut.tail))
    except (*DECODE_ERRORS, ValueError):
        return Noise("kept as noise", frame)


# What only an agent sends, besides methods with an underscore. An import does not say who said what; the method does.
_AGENTS = ("session/update", "session/request_permission", "fs/", "terminal/", "elicitation/", "_", "$/")


def direction_of(origin: Origin, message: Message) -> Direction:
    """Which way it went, as the fold asks."""
    match origin:
        case "agent" | "replay":
            return "in"
        case "client":
            return "out"
        case "host":
            # The host answers for an agent whose own answer was too long to read.
            return "in" if isinstance(message, Reply) else "host"
        case "import":
            method = getattr(message, "method", "session/update")
            from_agent = method.startswith(_AGENTS) != isinstance(message, Reply)
            return "in" if from_agent else "out"
