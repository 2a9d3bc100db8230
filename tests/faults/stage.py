"""A rogue agent, a witness that collects what it brings, and a well-behaved neighbour beside it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dragoman import AgentRuntime, AgentSpec, Diagnostic, Limits, Run, Session, SessionConfig, Workspace, events
from dragoman.proc._reaper_main import marked_processes
from dragoman.proc.reaper import reaper
from dragoman.testing.leaks import nothing_left
from dragoman.testing.rogue import command

HANG = 40.0
"""Seconds until a test gives up: the guard against a hang, far more than anything here takes."""

# Graces that a rogue makes us sit out are short; limits that must not pass are long.
LIMITS = Limits(start_timeout=HANG, request_timeout=HANG, cancel_timeout=HANG, close_timeout=0.3)


@dataclass
class Witness:
    """The events and diagnostics of a runtime."""

    heard: list[events.Event] = field(default_factory=list)
    diagnostics: list[Diagnostic] = field(default_factory=list)
    spoke: asyncio.Event = field(default_factory=asyncio.Event)  # the agent said something
    failed: asyncio.Event = field(default_factory=asyncio.Event)  # an error event came
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def on_diagnostic(self, diagnostic: Diagnostic) -> None:
        self.diagnostics.append(diagnostic)
        self._changed.set()

    def on_event(self, event: events.Event) -> None:
        self.heard.append(event)
        if isinstance(event, events.AssistantDelta):
            self.spoke.set()
        if isinstance(event, events.Error):
            self.failed.set()
        self._changed.set()

    async def wait_for(self, condition: Callable[[], bool]) -> None:
        """Return when `condition` is true; asked after each event and each diagnostic."""
        while not condition():
            self._changed.clear()
            await self._changed.wait()

    def errors(self) -> list[events.Error]:
        return [event for event in self.heard if isinstance(event, events.Error)]

    def deltas(self, run: Run) -> str:
        return "".join(
            event.text for event in self.heard if isinstance(event, events.AssistantDelta) and event.run_id == run.id
        )

    def kinds(self) -> list[str]:
        """Return the kinds of the provider events."""
        return [event.kind for event in self.heard if isinstance(event, events.ProviderEvent)]

    def reported(self, words: str) -> bool:
        return any(words in each.text for each in self.diagnostics)


def rogue(
    behaviour: str,
    witness: Witness | None = None,
    *,
    count: int | None = None,
    limits: Limits = LIMITS,
    offers: Mapping[str, Any] | None = None,
    **options: Any,
) -> AgentRuntime:
    """Return a runtime that is not started yet. `offers` and `options` are those of `AgentSpec` and `AgentRuntime`."""
    spec = AgentSpec(command=command(behaviour, count=count), name="rogue", **(offers or {}))
    return AgentRuntime(spec, limits=limits, on_diagnostic=witness.on_diagnostic if witness else None, **options)


def config(folder: Path, witness: Witness | None = None, **settings: Any) -> SessionConfig:
    return SessionConfig(workspace=Workspace(folder), on_event=witness.on_event if witness else None, **settings)


class Neighbour:
    """A session on a well-behaved agent, which nothing that a rogue does may touch (G11)."""

    def __init__(self, session: Session, expected: str) -> None:
        self._session = session
        self._expected = expected

    async def run(self) -> None:
        result = await self._session.run("stream 40")
        assert result.status == "success"
        assert result.text == self._expected

    @asynccontextmanager
    async def beside(self) -> AsyncIterator[None]:
        """Run the neighbour again and again while the block runs, and once after it."""
        over = asyncio.Event()
        running = asyncio.create_task(self._until(over))
        try:
            yield
        finally:
            over.set()
            await running
        await self.run()

    async def _until(self, over: asyncio.Event) -> None:
        while not over.is_set():
            await self.run()
            # Not without pause: the machine is the rogue's too.
            await _within(over, 0.05)


@asynccontextmanager
async def untouched(neighbour: Neighbour) -> AsyncIterator[None]:
    """Check that the block ends in time and leaves no task, descriptor or process; the neighbour notices nothing."""
    alive = marked_processes(reaper().prefix + ".", prefix=True)
    async with asyncio.timeout(HANG), nothing_left(), neighbour.beside():
        yield
    assert marked_processes(reaper().prefix + ".", prefix=True) == alive


def resident() -> int:
    """Return the memory of this process, in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def _within(event: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        pass
