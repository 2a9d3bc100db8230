"""The router: every frame of a link to the session it belongs to, in the order of the wire.

It also decides when the link is read: not while a run's queue is full, unless someone waits for
something else on the same link.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from dragoman.errors import NOT_FOUND, DragomanError
from dragoman.host.question.questions import Questions
from dragoman.host.refusals import not_offered
from dragoman.proc.link import AgentLink
from dragoman.record.routing import SessionIndex
from dragoman.session.diagnostics import Diagnostics
from dragoman.wire.connection import Connection, RpcRefusal, wait_for_first
from dragoman.wire.messages import (
    Message,
    Noise,
    Notification,
    OutgoingMessage,
    Oversized,
    Reply,
    Request,
    RequestId,
    Update,
    session_id_in,
)

if TYPE_CHECKING:
    from dragoman.journal.entry import Origin
    from dragoman.session.journal_client import ConnectionRecorder
    from dragoman.session.run import Run
    from dragoman.session.session import Session

# Updates of a session whose id we have not learnt yet wait for it, up to this many bytes. They are a few
# commands and figures in practice; more than this is an agent that talks to nobody.
EARLY_BYTES = 16 * 1024 * 1024

# Events that wait are bounded by their number, and where they are large by their bytes: a read that holds
# fewer messages than this is of large ones, and only then are they weighed.
FEW_MESSAGES = 16
HEAVY_BYTES = 32 * 1024 * 1024


class Router:
    """The `Handler` of a runtime's connection."""

    def __init__(
        self,
        diagnostics: Diagnostics,
        on_end: Callable[[], Awaitable[DragomanError]],
        questions: Questions | None,
    ) -> None:
        self.sessions: dict[str, Session] = {}  # by the agent's id
        self._session_index = SessionIndex()
        self.connection: Connection | None = None
        self.link: AgentLink | None = None
        self._over = False  # the agent has ended: what it left is read to its end
        self._diagnostics = diagnostics
        self._on_end = on_end
        self._questions = questions  # those that belong to no session; None where there is nobody to ask
        self._opening: dict[RequestId, Session] = {}
        self._early: dict[str, list[tuple[Update, float]]] = {}
        self._early_bytes = 0
        self._names: set[str] = set()  # that sessions have, or had, on this connection
        self._woken = asyncio.Event()
        self._weight = 0  # bytes of large messages since nothing waited to be iterated
        self.kept: ConnectionRecorder | None = None  # where frames go before anyone is told of them
        self._asked_for: Session | None = None  # the session that the next request will open
        self.held = False  # the agent is not read: what it says meanwhile is not heard

    # -- which session has which id

    def about_to_open(self, session: Session) -> None:
        """The request that is sent next opens this session: it is a part of it."""
        self._asked_for = session

    def opening(self, request_id: RequestId, session: Session) -> None:
        """The answer to this request will tell the session's id; what comes for it before is kept."""
        self._asked_for = None
        self._opening[request_id] = session

    def opened(self, request_id: RequestId) -> None:
        self._opening.pop(request_id, None)
        if self._opening:
            return
        for session_id, updates in self._early.items():
            for update, at in updates:
                self._keep("agent", update, at)
            text = f"{len(updates)} updates for session {session_id!r}, which is not open here"
            self._diagnostics.add(time.time(), "stray", text)
        self._early.clear()
        self._early_bytes = 0

    def bind(self, session: Session, agent_session_id: str) -> None:
        self.release(session)  # an agent may go on under another id when a session is resumed
        session.agent_session_id = agent_session_id
        self.sessions[agent_session_id] = session
        self._names.add(agent_session_id)
        for update, at in self._early.pop(agent_session_id, ()):
            session.heard(update, at)

    def release(self, session: Session) -> None:
        if self.sessions.get(session.agent_session_id) is session:
            del self.sessions[session.agent_session_id]

    # -- frames (wire.connection.Handler)

    def on_received(self, messages: Sequence[Message], at: float) -> None:
        if len(messages) < FEW_MESSAGES:
            self._weight += sum(len(getattr(message, "line", b"")) for message in messages)
        sessions = self.sessions
        for message in messages:
            if type(message) is Update:
                session = sessions.get(message.session_id)
                if session is not None:
                    session.heard(message, at)
                else:
                    self._unclaimed(message, at)
            else:
                self._received_other(message, at)

    def _received_other(self, message: Message, at: float) -> None:
        if isinstance(message, Noise | Oversized):
            self._keep("agent", message, at)
        if isinstance(message, Noise):
            self._diagnostics.add(at, "noise", f"{message.reason}: {message.line.decode('utf-8', 'replace')}")
            return
        if isinstance(message, Oversized):
            self._diagnostics.add(at, "oversized", f"a line of {message.length} bytes, over the limit; not read")
            return
        agent_session_id = self._session_index.session_of("in", message)
        if isinstance(message, Reply) and message.error is None:
            opening = self._opening.pop(message.id, None)
            if opening is not None and (named := session_id_in(message.result)):
                if self.sessions.get(named, opening) is not opening:
                    return  # another's name: who opens it says so, and that other one is left alone
                self.bind(opening, named)
                agent_session_id = named
        session = self.sessions.get(agent_session_id or "")
        if session is not None:
            session.record("in", message, at)
            return
        self._keep("agent", message, at)
        if isinstance(message, Notification) and message.method == "elicitation/complete" and self._questions:
            self._questions.complete(message.params)
        elif isinstance(message, Notification):
            self._diagnostics.add(at, "stray", message.line.decode("utf-8", "replace"))

    def on_sending(self, message: OutgoingMessage, at: float) -> None:
        agent_session_id = self._session_index.session_of("out", message)
        session = self.sessions.get(agent_session_id or "") or self._asked_for
        if session is not None:
            session.record("out", message, at)
        else:
            self._keep("client", message, at)

    def _keep(self, origin: Origin, message: Message, at: float) -> None:
        """What belongs to no session."""
        if self.kept is not None:
            self.kept.add(origin, message, at, None)

    async def serve(self, request: Request) -> object:
        agent_session_id = session_id_in(request.params) or self._session_index.session_of_request("in", request.id)
        if agent_session_id is None and request.method == "elicitation/create" and self._questions is not None:
            return await self._questions.create(request)
        if agent_session_id is None:
            raise not_offered(request.method)
        session = self.sessions.get(agent_session_id)
        if session is None:
            raise RpcRefusal(NOT_FOUND, f"no session {agent_session_id!r} is open here")
        return await session.serve(request)

    async def on_ended(self) -> DragomanError:
        failure = await self._on_end()
        if self.kept is not None and self.kept.problem is not None:
            failure = self.kept.problem
        for session in list(self.sessions.values()):
            session.link_lost(failure)
        return failure

    def _unclaimed(self, update: Update, at: float) -> None:
        opening = self._spoken_of(update.session_id)
        if opening is not None:
            opening.heard(update, at)
        elif self._opening and self._early_bytes + len(update.line) <= EARLY_BYTES:
            self._early.setdefault(update.session_id, []).append((update, at))
            self._early_bytes += len(update.line)
        else:
            self._keep("agent", update, at)
            text = f"an update for session {update.session_id!r}, which is not open here"
            self._diagnostics.add(at, "stray", text)

    def _spoken_of(self, name: str) -> Session | None:
        """With a journal: the session that is being opened, where a new name can be no other's. What is said of it is
        then kept at once, in the order of the wire, and not when the answer has told its name."""
        if self.kept is None or len(self._opening) != 1 or name in self._names or self._active_runs():
            return None
        [session] = self._opening.values()
        return None if session.agent_session_id else session

    # -- backpressure

    async def wait_until_ready(self) -> None:
        while self._too_much_waits() and not self._awaited():
            self.held = True
            self._woken.clear()
            # An agent that has ended can add nothing to what is in the pipe, and its end must be heard of.
            await wait_for_first(self._woken.wait(), self._link_ended())
        self.held = False

    async def _link_ended(self) -> None:
        assert self.link is not None
        await self.link.wait()
        self._over = True

    def _too_much_waits(self) -> bool:
        if self._over:
            return False
        runs = self._active_runs()
        if not any(run.waiting for run in runs):
            self._weight = 0
        return self._weight > HEAVY_BYTES or any(run.full for run in runs)

    def wake(self) -> None:
        """Something changed that may let the reader go on."""
        self._woken.set()

    def _active_runs(self) -> list[Run]:
        return [session.active for session in self.sessions.values() if session.active is not None]

    def _awaited(self) -> bool:
        """Someone waits for an answer, or for what another run brings: it may lie behind what is unread."""
        assert self.connection is not None
        if any(method != "session/prompt" for method in self.connection.pending_methods):
            return True
        return any(run.hungry for run in self._active_runs())
