"""Filters of sessions by agent, folder and time, and the state of a session.

Pure, but for `state_of`, which reads the clock and looks for a living process.
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


def filter_sessions(
    sessions: Sequence[Session],
    *,
    agent: str | None = None,
    workspace: str | None = None,
    since: float | None = None,
    until: float | None = None,
) -> list[Session]:
    """The sessions that match; `since` and `until` apply to their last activity."""
    cwd = workspace_of(sessions, workspace)
    return [
        session
        for session in sessions
        if agent in (None, session.agent)
        and cwd in (None, session.cwd)
        and (since is None or session.updated >= since)
        and (until is None or session.updated < until)
    ]


def workspace_of(sessions: Sequence[Session], folder: str | None) -> str | None:
    """The folder as sessions name it: without symbolic links, or as typed where imported sessions have it so."""
    if folder is None:
        return None
    typed_path = os.path.abspath(os.path.expanduser(folder))
    return typed_path if any(session.cwd == typed_path for session in sessions) else os.path.realpath(typed_path)


def parse_time(text: str | None, option: str, now: datetime, *, end: bool = False) -> float | None:
    """Read a day, a day and time, or a duration before now. A day means its beginning, or with `end` its end."""
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
            f"{option}: {text!r} is not a time",
            guidance='Use a day ("2026-01-31", "today", "yesterday"), a day and time ("2026-01-31T18:00"), or a'
            ' duration before now ("90m", "12h", "7d").',
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
        # A transcript that was left in the middle of a run never records its end.
        return "running" if is_at_work(session, now()) else "idle"
    return "running" if await is_open_elsewhere(journal, session.id) else "interrupted"


async def is_open_elsewhere(journal: Journal, session_id: str) -> bool:
    """Test whether a living process has the session open."""
    owner = await journal.owner(session_id)
    return owner is not None and owner.process is not None and is_alive(owner.process)
