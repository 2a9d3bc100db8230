"""Which conversations of a transcript may come in, and as which session: one conversation is one session, and what was
deleted stays so.

Sessions are matched by the agent's own id, which is the transcript's, and by those that it had before. Of a session
that Dragoman ran, only what was said elsewhere afterwards comes in. A sub-agent goes the way of the session that began
it: where Dragoman ran that, it heard of the sub-agent's work too.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Final

import msgspec

from dragoman.journal.protocols import Journal

LIVE: Final = "Dragoman ran the session, and has it from then"
DELETED: Final = "the session was deleted here"
OPEN: Final = "a process has the session open"

# How the names of connections begin that stand for transcripts.
CONNECTION: Final = "import-"

_ID_LENGTH: Final = 12  # as long as the ids of sessions that are run


def session_id_of(provider: str, native_id: str) -> str:
    """Our id of a session that a transcript tells of: the same for ever, on any machine."""
    return sha256(f"{provider}:{native_id}".encode("utf-8", "surrogatepass")).hexdigest()[:_ID_LENGTH]


class Admission(msgspec.Struct, frozen=True):
    live: Mapping[str, str]  # the agents' ids of those that Dragoman ran, to ours
    deleted: frozenset[str]  # the agents' ids of those that are no more

    def refusal(self, native_id: str, parent_id: str | None = None) -> str | None:
        """Why this session stays out; None where it may come in."""
        if native_id in self.deleted:
            return DELETED
        return of_parent(DELETED) if parent_id in self.deleted else None

    def session_id(self, provider: str, native_id: str) -> str:
        return self.live.get(native_id) or session_id_of(provider, native_id)


def of_parent(reason: str) -> str:
    return f"{reason} (the one that began this sub-agent)"


async def look(journal: Journal, provider: str) -> Admission:
    sessions = await journal.sessions()
    tombstones = await journal.tombstones()
    names = [(name, one.id) for one in sessions for name in (one.agent_session_id, *one.earlier_ids) if name]
    return Admission(
        live={name: session_id for name, session_id in names if session_id_of(provider, name) != session_id},
        deleted=frozenset(name for one in tombstones for name in (one.agent_session_id, *one.earlier_ids) if name),
    )
