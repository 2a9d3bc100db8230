"""Top-level sessions and their sub-agents."""

from __future__ import annotations

import pytest

from dragoman.journal.rows import Session
from dragoman.journal.sessions import descendants, top_level


def sessions(**parents: str | None) -> list[Session]:
    return [Session(id=name, parent=parent) for name, parent in parents.items()]


@pytest.mark.parametrize(
    ("given_sessions", "expected"),
    [
        (sessions(a=None, b="a", c="b"), ["a"]),
        (sessions(a=None, b="absent", c="b", d=""), ["a"]),
        (sessions(a="b", b="a", c="c"), ["a", "b", "c"]),
        (sessions(a="b", b="a", d="a"), ["a", "b", "d"]),
    ],
)
def test_only_a_session_without_a_parent_is_top_level(given_sessions: list[Session], expected: list[str]) -> None:
    """Sessions that name each other as parents are not lost."""
    assert [session.id for session in top_level(given_sessions)] == expected


def test_descendants_are_sub_agents_and_theirs() -> None:
    given_sessions = sessions(a=None, b="a", c="b", d=None, e="d")
    assert [session.id for session in descendants(given_sessions, ["a"])] == ["b", "c"]
    assert [session.id for session in descendants(given_sessions, ["b", "d"])] == ["c", "e"]
    assert descendants(given_sessions, ["e", "absent"]) == []


def test_descendants_of_a_cycle_come_once() -> None:
    assert [session.id for session in descendants(sessions(a="b", b="a"), ["a"])] == ["b"]
