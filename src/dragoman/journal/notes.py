"""Notes of the host about whole sessions: `_dragoman/…` notifications that the journal itself understands.

Like the notes of `record.notes`, they have a meaning only with the origin `host`.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from dragoman.journal.entry import Entry
from dragoman.journal.rows import Session
from dragoman.record.notes import read_as, write_as
from dragoman.wire.messages import Notification


class SessionOpened(msgspec.Struct, frozen=True, kw_only=True):
    """A session began, or continues with another id of the agent, or on another connection."""

    agent: str
    cwd: str
    agent_session_id: str = ""
    folders: tuple[str, ...] = ()
    handle: str | None = None  # what resuming it needs, as JSON without secrets
    parent: str | None = None  # the session whose sub-agent this is; it may be missing here, or unknown (empty)
    forked_from: str | None = None  # the session of which this one began as a copy; only the first note has it


class SessionRenamed(msgspec.Struct, frozen=True, kw_only=True):
    """A person gave the session a title; an empty one restores the agent's title."""

    title: str


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """A command from the inbox was carried out or refused. Committed together with its effects."""

    command_id: str
    outcome: str = "done"
    detail: str | None = None


class Tombstone(msgspec.Struct, frozen=True, kw_only=True):
    """A session was deleted. The agent's ids of it remain, so that it is not imported again."""

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
    """Return the note as the frame to store."""
    return write_as(METHODS[type(note)], note)


def tombstone(session_id: str, session: Session | None, by: str) -> Notification:
    """Return the note for a deleted session; `session` is its row, where it has one."""
    if session is None:
        return write(Tombstone(session_id=session_id, by=by))
    return write(
        Tombstone(
            session_id=session_id,
            agent=session.agent,
            agent_session_id=session.agent_session_id,
            earlier_ids=session.earlier_ids,
            by=by,
        )
    )


def read(message: Notification) -> Note | None:
    return read_as(TYPES, message)


def is_tombstone(entry: Entry) -> bool:
    """Return whether this is the last entry of a session. Only the host writes one."""
    return entry.origin == "host" and entry.kind == METHODS[Tombstone]
