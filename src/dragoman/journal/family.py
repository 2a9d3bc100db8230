"""Sessions and their sub-agents, where these are sessions too: whose each one is."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeVar


class Member(Protocol):
    @property
    def id(self) -> str: ...

    @property
    def parent(self) -> str | None: ...


M = TypeVar("M", bound=Member)


def heads(members: Iterable[M]) -> list[M]:
    """Those that are nobody's sub-agent, as far as is known here. Of sessions that claim to be each other's, each is
    its own."""
    every = {one.id: one for one in members}
    return [one for one in every.values() if _is_head(one, every)]


def _is_head(one: M, every: dict[str, M]) -> bool:
    seen = {one.id}
    above = every.get(one.parent or "")
    while above is not None and above.id not in seen:
        seen.add(above.id)
        above = every.get(above.parent or "")
    return len(seen) == 1 or above is not None


def below(members: Iterable[M], ids: Iterable[str]) -> list[M]:
    """The sub-agents of these, and theirs."""
    children: dict[str, list[M]] = {}
    for one in members:
        if one.parent is not None:
            children.setdefault(one.parent, []).append(one)
    found: list[M] = []
    asked = [*ids]
    given = set(asked)
    for parent in asked:
        for child in children.pop(parent, ()):
            found.append(child)
            asked.append(child.id)
    return [one for one in found if one.id not in given]
