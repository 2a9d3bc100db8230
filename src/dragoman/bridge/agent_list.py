"""`AgentList`: the agents of this machine, looked up once and again after every change."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from dragoman.agents.find import Finding, survey
from dragoman.agents.preset import Keys, load_presets
from dragoman.config import Config, load
from dragoman.protocol.models import AgentItem


class AgentList:
    """The agents, kept until something changes. `number` grows with each change."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._items: tuple[AgentItem, ...] | None = None
        self._lookup = asyncio.Lock()
        self._waiters: set[asyncio.Event] = set()
        self.number = 0

    async def items(self) -> tuple[AgentItem, ...]:
        async with self._lookup:
            if self._items is None:
                self._items = await self._look_up()
            return self._items

    async def _look_up(self) -> tuple[AgentItem, ...]:
        config = await asyncio.to_thread(load, self._home)
        findings = await survey(load_presets(config), environ=dict(os.environ))
        keys = Keys(config.home)
        return tuple(_item(finding, config, keys) for finding in findings)

    def invalidate(self) -> None:
        """Look the agents up again when they are next asked for, and wake followers."""
        self._items = None
        self.number += 1
        for event in self._waiters:
            event.set()

    async def wait(self, number: int) -> None:
        event = asyncio.Event()
        self._waiters.add(event)
        try:
            while self.number <= number:
                event.clear()
                await event.wait()
        finally:
            self._waiters.discard(event)


def _item(finding: Finding, config: Config, keys: Keys) -> AgentItem:
    preset = finding.preset
    command, *args = preset.command_lines[0]
    key_names = keys.names(preset.id)
    return AgentItem(
        id=preset.id,
        name=preset.name or preset.id,
        description=preset.description,
        state=finding.state,
        version=finding.version,
        path=str(finding.path) if finding.path else None,
        command=command,
        args=tuple(args),
        env=tuple(name for name in preset.env if name not in key_names),
        has_key=bool(key_names),
        is_custom=preset.id in config.agents,
        default=preset.id == config.agent,
        error=finding.problem or None,
        hint=finding.hint or None,
        install=preset.install or None,
        note=preset.note or None,
        website=preset.website or None,
    )
