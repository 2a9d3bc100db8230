"""Which session is meant: by its id or the agent's, or by the beginning of one. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from dragoman.errors import InputError
from dragoman.journal.family import heads
from dragoman.journal.rows import Session

LATEST: Final = "-"

# Characters of an id that are shown at least, so that what was noted down still works when there are more sessions.
LEAST_PREFIX: Final = 6

# Sessions that are named when an id could mean several, and characters of each name.
_NAMED: Final = 5
_NAME: Final = 40


def find(sessions: Sequence[Session], wanted: str) -> Session:
    """`sessions` are the latest first. An id of ours or of the agent's, or the beginning of one."""
    if not sessions:
        raise InputError("there are no sessions yet", guidance='Begin with: dragoman run "hello"')
    if wanted == LATEST:
        return heads(sessions)[0]
    exact = [one for one in sessions if wanted in (one.id, one.agent_session_id)]
    found = exact or [one for one in sessions if one.id.startswith(wanted) or one.agent_session_id.startswith(wanted)]
    if not found or not wanted:
        raise InputError(
            f'no session has an id that begins with "{wanted}"',
            guidance="`dragoman sessions list` shows the ids; `-` means the latest session.",
        )
    if len(found) > 1:
        short = prefixes(sessions)
        some = [f"{short[one.id]} ({' '.join(name_of(one).split())[:_NAME]})" for one in found[:_NAMED]]
        rest = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
        raise InputError(
            f'{len(found)} sessions have an id that begins with "{wanted}": {", ".join(some)}{rest}',
            guidance="Write more of the id.",
        )
    return found[0]


def prefixes(sessions: Sequence[Session]) -> dict[str, str]:
    """The beginning of each id, as much of it as it takes to mean no other."""
    ordered = sorted(one.id for one in sessions)
    short = {}
    for before, id_, after in zip(["", *ordered], ordered, [*ordered[1:], ""], strict=False):
        short[id_] = id_[: max(LEAST_PREFIX, _shared(id_, before) + 1, _shared(id_, after) + 1)]
    return short


def _shared(one: str, other: str) -> int:
    return next(
        (place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )


def name_of(session: Session) -> str:
    """The agent's title, or how the first prompt begins."""
    return session.title or session.prompt or "(nothing was said)"
