"""Sessions and their sub-agents: whose each one is."""

from __future__ import annotations

import pytest

from dragoman.journal.rows import Session
from dragoman.journal.sessions import descendants, top_level


def family(**parents: str | None) -> list[Session]:
    return [Session(id=name, parent=parent) for name, parent in parents.items()]


@pytest.mark.parametrize(
    ("members", "alone"),
    [
        (family(a=None, b="a", c="b"), ["a"]),
        (family(b="absent", c="b"), ["b"]),
        (family(a="b", b="a", c="c"), ["a", "b", "c"]),
        (family(a="b", b="a", d="a"), ["a", "b", "d"]),
    ],
)
def test_heads_are_those_that_are_nobodys_sub_agent(members: list[Session], alone: list[str]) -> None:
    """Nor is one lost where they go round in a circle."""
    assert [one.id for one in top_level(members)] == alone


def test_below_a_session_are_its_sub_agents_and_theirs() -> None:
    members = family(a=None, b="a", c="b", d=None, e="d")
    assert [one.id for one in descendants(members, ["a"])] == ["b", "c"]
    assert [one.id for one in descendants(members, ["b", "d"])] == ["c", "e"]
    assert descendants(members, ["e", "absent"]) == []


def test_a_circle_has_an_end() -> None:
    assert [one.id for one in descendants(family(a="b", b="a"), ["a"])] == ["b"]
