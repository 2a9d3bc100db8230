"""Which sessions are meant: by agent, folder and time; and what state one is in.

Pure, but for `state_of`, which looks whether a process lives, and at the clock.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import datetime, time, timedelta
from time import time as now
from typing import Literal, TypeAlias

from dragoman.config import parse_duration
from dragoman.errors import InputError
from dragoman.hub.identity import is_alive
from dragoman.journal.protocols import Journal
from dragoman.journal.rows import Session
from dragoman.translate.ingest.report import is_at_work

State: TypeAlias = Literal["running", "interrupted", "idle"]


def matching(
    sessions: Sequence[Session],
    *,
    agent: str | None = None,
    workspace: str | None = None,
    since: float | None = None,
    until: float | None = None,
) -> list[Session]:
    """`since` and `until` are about the last time that something happened in it."""
    cwd = workspace_of(sessions, workspace)
    return [
        one
        for one in sessions
        if agent in (None, one.agent)
        and cwd in (None, one.cwd)
        and (since is None or one.updated >= since)
        and (until is None or one.updated < until)
    ]


def workspace_of(sessions: Sequence[Session], given: str | None) -> str | None:
    """The folder as sessions name it: without symbolic links; or as it was written, where they came from elsewhere."""
    if given is None:
        return None
    written = os.path.abspath(os.path.expanduser(given))
    return written if any(one.cwd == written for one in sessions) else os.path.realpath(written)


def moment(text: str | None, option: str, now: datetime, *, end: bool = False) -> float | None:
    """A day, a day and time, or how long ago. Of a day its beginning, or with `end` its end."""
    if text is None:
        return None
    word = text.strip().lower()
    days = {"today": 0, "yesterday": 1}
    try:
        if word in days:
            day = now.date() - timedelta(days=days[word])
        elif len(word) == len("2026-01-31") and word.count("-") == 2:
            day = datetime.fromisoformat(word).date()
        elif "-" in word:
            return datetime.fromisoformat(text.strip()).astimezone().timestamp()
        else:
            return now.timestamp() - parse_duration(word)
    except (ValueError, OverflowError):
        raise InputError(
            f"{option}: {text!r} is no time",
            guidance='Write a day ("2026-01-31", "today", "yesterday"), a day and time ("2026-01-31T18:00"), or how'
            ' long ago ("90m", "12h", "7d").',
        ) from None
    # The user's own midnight; a day is not always 24 hours long.
    start = datetime.combine(day + timedelta(days=int(end)), time.min)
    return start.astimezone().timestamp()


async def state_of(journal: Journal, session: Session) -> State:
    if session.status == "interrupted":
        return "interrupted"
    if session.status != "running":
        return "idle"
    owner = await journal.owner(session.id)
    if session.imported and (owner is None or owner.process is None):
        # Of a transcript that was left in the middle of a run nobody may ever say that it is over.
        return "running" if is_at_work(session, now()) else "idle"
    return "running" if await is_held(journal, session.id) else "interrupted"


async def is_held(journal: Journal, session_id: str) -> bool:
    """Whether a living process has the session open."""
    owner = await journal.owner(session_id)
    return owner is not None and owner.process is not None and is_alive(owner.process)
