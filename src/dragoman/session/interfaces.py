"""Small contracts between a session, its runtime and its router, so that none of them has to import another.

They say what each side needs of the other and nothing more; the public ports are in `ports.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

import msgspec

from dragoman.clock import Clock
from dragoman.errors import AuthenticationRequired, DragomanError
from dragoman.host.policy.rulebook import RuleSources
from dragoman.host.question.question import OnQuestion
from dragoman.record.facts import Fact
from dragoman.record.fold import Direction
from dragoman.session.capabilities import Capabilities
from dragoman.session.context import ContextSource
from dragoman.session.run import Run
from dragoman.session.spec import AgentSpec, Limits
from dragoman.wire import vocabulary as acp
from dragoman.wire.messages import Message, Request, Update
from dragoman.workspace.checkpoints import CheckpointSettings
from dragoman.workspace.sandbox_policy import CommandWrapper

if TYPE_CHECKING:
    from dragoman.journal.recorder import ConnectionRecorder  # with a journal: loaded by those who have one


class FrameObserver(Protocol):
    """Sees every frame of a connection, in wire order: those of its sessions, and those that belong to none.

    With a journal a frame is committed before the observer sees it. `on_frame` is called before anybody else acts on
    the frame, and must not raise. The agent is not read while the observer `is_full`, unless a request waits for its
    answer; `Runtime.wake_reader` makes the reader look again.
    """

    @property
    def is_full(self) -> bool: ...
    def on_frame(self, direction: Direction, message: Message, at: float, facts: Sequence[Fact]) -> None:
        """Take a frame and what it changed in its session: received, sent, or noted by the host."""

    def on_link_lost(self, failure: DragomanError) -> None:
        """Take note that the agent is gone, after all frames and after the sessions."""


class RoutedSession(Protocol):
    """A session as the router sees it: where frames go, and who serves the agent's requests."""

    id: str
    agent_session_id: str

    @property
    def active(self) -> Run | None: ...
    def on_updates(self, updates: Sequence[Update], at: float) -> None: ...
    def record(self, direction: Direction, message: Message, at: float) -> None: ...
    async def serve(self, request: Request) -> object: ...
    def on_link_lost(self, failure: DragomanError) -> None: ...


class Runtime(Protocol):
    """A runtime as its sessions see it: what they read of it, send by it, and leave it by."""

    @property
    def spec(self) -> AgentSpec: ...
    @property
    def limits(self) -> Limits: ...
    @property
    def clock(self) -> Clock: ...
    @property
    def sources(self) -> RuleSources: ...
    @property
    def context(self) -> ContextSource | None: ...
    @property
    def on_question(self) -> OnQuestion | None: ...
    @property
    def recorder(self) -> ConnectionRecorder | None: ...
    @property
    def checkpoints(self) -> CheckpointSettings | None: ...
    @property
    def environment(self) -> Mapping[str, str] | None: ...
    @property
    def observer(self) -> FrameObserver | None: ...
    @property
    def sandbox(self) -> CommandWrapper | None: ...
    @property
    def reader_is_paused(self) -> bool: ...
    @property
    def busy(self) -> bool: ...
    @property
    def closed(self) -> bool: ...
    def capabilities(self) -> Capabilities: ...
    async def request(self, method: str, params: object, *, timeout: float | None = None) -> msgspec.Raw: ...
    def send_prompt(self, agent_session_id: str, blocks: tuple[acp.ContentBlock, ...]) -> None: ...
    def notify(self, method: str, params: object) -> None: ...
    def hold_writes(self, until: asyncio.Future[None]) -> None: ...
    def wake_reader(self) -> None: ...
    def stderr_tail(self) -> str: ...
    def authentication_required(self, failure: AuthenticationRequired) -> AuthenticationRequired: ...
    async def end_link(self, reason: str) -> None: ...
    async def close_session(self, session: RoutedSession) -> None:
        """Tell the agent that the session is closed, and route no more frames to it."""

    async def leave_journal(self, session: RoutedSession) -> None:
        """Commit all of the session, and let another process have it."""

    async def close(self) -> None: ...
