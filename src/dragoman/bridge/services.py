"""`Services`: what the handlers of requests work with, the list of agents included; and the registry of handlers."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar

from dragoman.agents.find import Finding, survey
from dragoman.agents.preset import Keys, load_presets
from dragoman.bridge.auth import Caller
from dragoman.bridge.broadcast import Waiters
from dragoman.bridge.broadcaster import Broadcaster
from dragoman.bridge.listing import SessionListing, session_state
from dragoman.bridge.refusal import Refusal
from dragoman.bridge.tokens import Tokens
from dragoman.config import Config, load
from dragoman.host.terminal.terminal import Terminal
from dragoman.hub.hub import Hub
from dragoman.journal.protocols import Journal
from dragoman.journal.rows import Session as SessionRow
from dragoman.journal.rows import SessionRows
from dragoman.protocol.messages import includes
from dragoman.protocol.models import AgentItem, Model
from dragoman.protocol.requests import Request
from dragoman.protocol.results import SessionOpened
from dragoman.translate.ingest.watcher import Watcher


class AgentList:
    """The agents, kept until something changes. `number` grows with each change."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._items: tuple[AgentItem, ...] | None = None
        self._lookup = asyncio.Lock()
        self._waiters = Waiters()
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
        self._waiters.wake()

    async def wait(self, number: int) -> None:
        """Return when the agents changed after this number."""
        await self._waiters.wait(lambda: self.number > number)


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


class Services:
    """The parts of a started bridge."""

    def __init__(
        self,
        *,
        config: Config,
        hub: Hub,
        tokens: Tokens,
        agents: AgentList,
        broadcaster: Broadcaster,
        watcher: Watcher,
    ) -> None:
        self.config = config
        self.hub = hub
        self.tokens = tokens
        self.agents = agents
        self.broadcaster = broadcaster
        self.watcher = watcher

    @property
    def journal(self) -> Journal:
        return self.hub.journal

    @property
    def listing(self) -> SessionListing:
        return self.broadcaster.listing

    async def session_row(self, session_id: str) -> SessionRow:
        """The row of a session; a `Refusal` where there is none."""
        row = await self.journal.session(session_id)
        if row is None:
            raise Refusal("not_found", f"there is no session {session_id}", field="session_id")
        return row

    async def session_rows(self, session_id: str, *, max_characters: int | None = None) -> SessionRows:
        """All rows of a session, with so much of long texts at least; a `Refusal` where there is no such session."""
        await self.session_row(session_id)
        return await self.journal.rows(session_id, max_characters=max_characters)

    async def check_folders(self, caller: Caller, *folders: str) -> None:
        """Raise a `ScopeMissing` where the caller may not work in one of these folders; they need not exist."""
        if not includes(caller.scope, "admin"):
            await self.hub.check_folders(caller.scope, folders)

    async def opened(self, session_id: str) -> SessionOpened:
        """The result of a request that opened this session."""
        row = await self.session_row(session_id)
        state = session_state(row, self.hub.owned_sessions.get(session_id), elsewhere=False, pending=0)
        return SessionOpened(session_id=session_id, state=state)

    def terminal(self, session_id: str, terminal_id: str) -> Terminal:
        """A terminal of a session that this process has; a `Refusal` where there is none."""
        owned = self.hub.owned_sessions.get(session_id)
        terminal = owned.session.terminal(terminal_id) if owned is not None and owned.session is not None else None
        if terminal is None:
            raise Refusal("not_found", f"there is no terminal {session_id}/{terminal_id} here", field="id")
        return terminal


ResultT = TypeVar("ResultT", bound=Model)
RequestT = TypeVar("RequestT", bound=Request[Any])
Handler: TypeAlias = Callable[[Services, RequestT, Caller], Awaitable[ResultT]]

HANDLERS: Final[dict[type[Request[Any]], Handler[Any, Any]]] = {}


def handles(
    request: type[RequestT],
) -> Callable[[Callable[[Services, RequestT, Caller], Awaitable[ResultT]]], Handler[RequestT, ResultT]]:
    """Register a function as the handler of a request."""

    def register(handler: Handler[RequestT, ResultT]) -> Handler[RequestT, ResultT]:
        if request in HANDLERS:
            raise AssertionError(f"{request.__name__} has two handlers")
        HANDLERS[request] = handler
        return handler

    return register
