"""Behaviours by name. A behaviour is a function that is given the agent, and plays it until it returns.

Most begin with `agent.until("session/prompt")`, which is polite up to there; when the function returns the agent is
polite again, so that a test can see whether the session still works.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module

from dragoman.testing.rogue.agent import Agent

Play = Callable[[Agent], None]

# In the order in which they are listed; the names of the modules are the groups.
GROUPS = ("lines", "rpc", "handshake", "updates", "asking", "turns", "process", "exits", "floods")


@dataclass(frozen=True)
class Behaviour:
    """`does` is what it does; `good` is what a good client makes of it. One line each."""

    name: str
    group: str
    does: str
    good: str
    play: Play


_behaviours: dict[str, Behaviour] = {}


def register(name: str, does: str, good: str, play: Play) -> None:
    """For behaviours that are made in a loop."""
    if name in _behaviours:
        raise ValueError(f"there are two behaviours named {name}")
    _behaviours[name] = Behaviour(name, play.__module__.rpartition(".")[2], does, good, play)


def behaviour(does: str, good: str) -> Callable[[Play], Play]:
    """The function's name is the behaviour's."""

    def named(play: Play) -> Play:
        register(play.__name__, does, good, play)
        return play

    return named


def behaviours() -> dict[str, Behaviour]:
    """All of them, by name, in the order of the list."""
    for group in GROUPS:
        import_module(f"dragoman.testing.rogue.{group}")
    return dict(sorted(_behaviours.items(), key=lambda item: GROUPS.index(item[1].group)))


def table() -> str:
    """All of them as Markdown, a table a group."""
    lines: list[str] = []
    for group in GROUPS:
        lines += [
            f"### {group}",
            "",
            "| behaviour | what it does | what a good client makes of it |",
            "| --- | --- | --- |",
        ]
        lines += [
            f"| `{each.name}` | {each.does} | {each.good} |" for each in behaviours().values() if each.group == group
        ]
        lines.append("")
    return "\n".join(lines)
