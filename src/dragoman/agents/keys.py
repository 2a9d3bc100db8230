"""Keys of agents that the user gave to Dragoman: in one file of the home folder (0600), and nowhere else.

They reach the agent as variables of its environment. They can be set and forgotten, and are never told.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from dragoman.fileio import LockedJsonFile

FILE_NAME: Final = "secrets"


class _Secrets(msgspec.Struct, frozen=True):
    """Variables by agent."""

    agents: dict[str, dict[str, str]] = {}


class Keys:
    def __init__(self, home: Path) -> None:
        self._file = LockedJsonFile(home / FILE_NAME, _Secrets())

    def of(self, agent: str) -> dict[str, str]:
        """The variables that the agent gets."""
        return dict(self._file.read().agents.get(agent, {}))

    def names(self, agent: str) -> tuple[str, ...]:
        return tuple(self.of(agent))

    def set(self, agent: str, variable: str, value: str) -> None:
        def with_it(known: _Secrets) -> _Secrets:
            return _Secrets({**known.agents, agent: {**known.agents.get(agent, {}), variable: value}})

        self._file.change(with_it)

    def forget(self, agent: str) -> None:
        self._file.change(lambda known: _Secrets({name: keys for name, keys in known.agents.items() if name != agent}))
