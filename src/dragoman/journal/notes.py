"""What the host notes about whole sessions: `_dragoman/…` notifications that the journal itself understands.

As with the notes of `record.notes`, they count only with the origin `host`.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from dragoman.journal.entry import Entry
from dragoman.journal.rows import Session
from dragoman.record.notes import read_as, write_as
from dragoman.wire.messages import Notification


class SessionOpened(msgspec.Struct, frozen=True, kw_only=True):
    """A session began, or goes on: with another id of the agent's, on another connection."""

    agent: str
    cwd: str
    agent_session_id: str = ""
    folders: tuple[str, ...] = ()
    handle: str | None = None  # what it takes to continue it, as JSON; no secret is in it
    parent: str | None = None  # the session that this one is a sub-agent of; it need not be here


class SessionRenamed(msgspec.Struct, frozen=True, kw_only=True):
    """A person gave the session a title; an empty one takes it back, and the agent's holds again."""

    title: str


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """A command from the inbox is done, or was refused; said in the commit that holds what it did."""

    command_id: str
    outcome: str = "done"
    detail: str | None = None


class Tombstone(msgspec.Struct, frozen=True, kw_only=True):
    """A session was deleted. The agent's names for it are kept, so that it is not imported again."""

    session_id: str
    agent: str = ""
    agent_session_id: str = ""
    earlier_ids: tuple[str, ...] = ()
    by: str = ""


Note: TypeAlias = SessionOpened | SessionRenamed | Receipt | Tombstone

TYPES: dict[str, type[Note]] = {
    "_dragoman/session": SessionOpened,
    "_dragoman/renamed": SessionRenamed,
    "_dragoman/receipt": Receipt,
    "_dragoman/tombstone": Tombstone,
}
METHODS = {type_: method for method, type_ in TYPES.items()}


def write(note: Note) -> Notification:
    """The note as the frame that is kept."""
    return write_as(METHODS[type(note)], note)


def tombstone(session_id: str, known: Session | None, by: str) -> Notification:
    """Of a session that is deleted; `known` is its row, where it has one."""
    if known is None:
        return write(Tombstone(session_id=session_id, by=by))
    return write(
        Tombstone(
            session_id=session_id,
            agent=known.agent,
            agent_session_id=known.agent_session_id,
            earlier_ids=known.earlier_ids,
            by=by,
        )
    )


def read(message: Notification) -> Note | None:
    return read_as(TYPES, message)


def is_tombstone(entry: Entry) -> bool:
    """The last word on a session. Only the host has it."""
    return entry.origin == "host" and entry.kind == METHODS[Tombstone]
