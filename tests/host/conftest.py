"""A host to ask things of, as an agent would; and terminals, with the objects behind them."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
import pytest

from dragoman.config import Access
from dragoman.host.host import Host
from dragoman.host.permission import PermissionRequest
from dragoman.host.policy.rulebook import Rulebook, RuleSources
from dragoman.host.terminal.terminal import Terminal
from dragoman.host.terminal.terminals import Terminals
from dragoman.record import notes
from dragoman.wire import vocabulary as acp
from dragoman.wire.connection import RpcRefusal
from dragoman.wire.messages import Request, RequestId, RpcError
from dragoman.workspace import Workspace

TIMEOUT_S = 20.0
"""Seconds until a test gives up waiting: far more than anything here takes."""

ONCE = {"optionId": "yes", "name": "Yes", "kind": "allow_once"}
ALWAYS = {"optionId": "yes-always", "name": "Yes, always", "kind": "allow_always"}
NO = {"optionId": "no", "name": "No", "kind": "reject_once"}


class Agent:
    """The agent's side: asks the host, and remembers what was decided."""

    def __init__(
        self, workspace: Workspace, *, access: Access = "ask", sources: RuleSources | None = None, **settings: Any
    ) -> None:
        self.notes: list[notes.Note] = []
        self.workspace = workspace
        self._ids = itertools.count(1)
        about = ("network", "web_search", "session")
        rules = {name: settings.pop(name) for name in about if name in settings}
        self.rules = Rulebook(workspace, access, sources or RuleSources(), **rules)
        self.host = Host(
            workspace=workspace,
            session_id="s1",
            **{
                "rules": self.rules,
                "note": self.notes.append,
                "read_files": True,
                "write_files": True,
                "terminals": True,
                **settings,
            },
        )

    @property
    def decisions(self) -> list[tuple[RequestId, str, str]]:
        """The journaled decisions: request id, decider and reason."""
        return [(note.request_id, note.by, note.reason) for note in self.notes if isinstance(note, notes.Decision)]

    async def ask(self, method: str, /, **params: Any) -> dict[str, Any]:
        """Send a request as the agent; return the result that it would see."""
        result = await self.host.serve(self.request(method, {"sessionId": "a1", **params}))
        answer: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(result))
        return answer

    async def refused(self, method: str, /, **params: Any) -> RpcError:
        with pytest.raises(RpcRefusal) as caught:
            await self.ask(method, **params)
        return caught.value.error

    async def permission(self, *options: dict[str, str], **tool_call: Any) -> dict[str, Any]:
        """Send a permission request; return its outcome."""
        call = {"toolCallId": "t1", "title": "something", **tool_call}
        answer = await self.ask("session/request_permission", toolCall=call, options=options or (ALWAYS, NO, ONCE))
        outcome: dict[str, Any] = answer["outcome"]
        return outcome

    def request(self, method: str, params: object) -> Request:
        raw = msgspec.Raw(msgspec.json.encode(params))
        return Request(next(self._ids), method, raw, b"")


Build: TypeAlias = Callable[..., Agent]


class Commands:
    """A session's terminals, with the objects behind them."""

    def __init__(self, cwd: Path, **settings: Any) -> None:
        self.terminals = Terminals(**settings)
        self._cwd = cwd

    async def start(self, command: str, *args: str, **more: Any) -> Terminal:
        request = acp.CreateTerminalRequest(session_id="s", command=command, args=args, **more)
        made = await self.terminals.create(request, dict(os.environ), self._cwd)
        terminal = self.terminals.find(made.terminal_id)
        assert terminal is not None
        return terminal

    async def release(self, terminal: Terminal) -> None:
        await self.terminals.release(acp.ReleaseTerminalRequest(session_id="s", terminal_id=terminal.id))


Make: TypeAlias = Callable[..., Commands]


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    (tmp_path / "repo").mkdir()
    return Workspace(tmp_path / "repo")


@pytest.fixture
async def agent_with(workspace: Workspace) -> AsyncIterator[Callable[..., Agent]]:
    agents: list[Agent] = []

    def build(**settings: Any) -> Agent:
        agents.append(Agent(workspace, **settings))
        return agents[-1]

    yield build
    for agent in agents:
        await agent.host.close()


@pytest.fixture
async def make(tmp_path: Path) -> AsyncIterator[Make]:
    made: list[Commands] = []

    def build(**settings: Any) -> Commands:
        made.append(Commands(tmp_path, **settings))
        return made[-1]

    yield build
    async with asyncio.timeout(TIMEOUT_S):
        for commands in made:
            await commands.terminals.close()


@pytest.fixture
def commands(make: Make) -> Commands:
    return make()


def requested(line: str) -> PermissionRequest:
    """Return an agent's request to run a command line."""
    return PermissionRequest(
        session_id="s",
        tool_call_id="t",
        title="t",
        kind="execute",
        options=(),
        command=line,
        raw_input={"command": line},
    )
