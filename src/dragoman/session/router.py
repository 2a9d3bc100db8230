"""`Router`: hands every frame of a link to the session it belongs to, in the order of the wire.

It also decides when the link is read: not while a run's queue is full, unless a call waits for something else on the
same link.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from dragoman.errors import NOT_FOUND, DragomanError
from dragoman.host.question.questions import Questions
from dragoman.host.refusals import not_offered
from dragoman.proc.link import AgentLink
from dragoman.record import notes
from dragoman.record.fold import Direction
from dragoman.record.routing import SessionIndex
from dragoman.session.diagnostics import Diagnostics
from dragoman.session.interfaces import FrameObserver, RoutedSession
from dragoman.session.run import Run
from dragoman.wire.connection import RpcConnection, RpcRefusal, wait_for_first
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
    # With a journal: loaded by those who have one.
    from dragoman.journal.entry import Origin
    from dragoman.journal.recorder import ConnectionRecorder, RecordedFrame

# Updates of a session whose id we have not learnt yet wait for it, up to this many bytes. They are a few commands and
# figures in practice; more than this is an agent that talks to no session.
MAX_EARLY_BYTES = 16 * 1024 * 1024

# Events that wait are bounded by their number, and where they are large by their bytes: a read of fewer messages than
# this is of large ones, and only then are they counted.
LARGE_READ_MESSAGES = 16
MAX_WAITING_BYTES = 32 * 1024 * 1024

# Lines of one connection that are no messages, and are recorded: far more than a program prints by mistake.
MAX_NOISE_LINES = 1000
MAX_NOISE_BYTES = 4 * 1024 * 1024


class Router:
    """The `Handler` of a runtime's connection."""

    def __init__(
        self,
        diagnostics: Diagnostics,
        on_end: Callable[[], Awaitable[DragomanError]],
        questions: Questions | None,
        observer: FrameObserver | None = None,
    ) -> None:
        self.sessions: dict[str, RoutedSession] = {}  # by the agent's id
        self.connection: RpcConnection | None = None
        self.link: AgentLink | None = None
        self._link_has_ended = False  # what the agent left is read to its end
        self._diagnostics = diagnostics
        self._on_end = on_end
        self._session_index = SessionIndex()
        self._questions = questions  # of no session; None where there is nobody to ask
        self._opening: dict[RequestId, RoutedSession] = {}
        self._early: dict[str, list[tuple[Update, float]]] = {}
        self._early_bytes = 0
        self._agent_session_ids: set[str] = set()  # that sessions have, or had, on this connection
        self._woken = asyncio.Event()
        self._waiting_bytes = 0  # bytes of large messages since nothing waited to be iterated
        self.recorder: ConnectionRecorder | None = None  # gets the frames before anything else
        self._observer = observer
        self._about_to_open: RoutedSession | None = None  # by the next request
        self._sending_for: str | None = None  # the agent's id of the session that a request is sent for
        self.is_paused = False  # the agent is not read
        # Lines that are no messages: those that were recorded, and those that were not.
        self._noise_lines = self._noise_bytes = 0
        self._omitted_lines = self._omitted_bytes = 0
        self._omitted_at = 0.0

    def record_in(self, recorder: ConnectionRecorder) -> None:
        """Give every frame to this recorder first."""
        self.recorder = recorder
        if self._observer is not None:
            recorder.listen(None, self._on_committed)

    # -- which session has which id

    @contextmanager
    def sending_for(self, agent_session_id: str) -> Iterator[None]:
        """Take the requests that are sent within as those of this session: its id is not read back from them."""
        self._sending_for = agent_session_id
        try:
            yield
        finally:
            self._sending_for = None

    def about_to_open(self, session: RoutedSession) -> None:
        """Take the request that is sent next as part of this session, which it opens."""
        self._about_to_open = session

    def opening(self, request_id: RequestId, session: RoutedSession) -> None:
        """Wait for the answer to this request, which has the session's id; what comes for it before waits with it."""
        self._about_to_open = None
        self._opening[request_id] = session

    def opened(self, request_id: RequestId) -> None:
        self._opening.pop(request_id, None)
        if self._opening:
            return
        for session_id, updates in self._early.items():
            for update, at in updates:
                self._record("agent", update, at)
            text = f"{len(updates)} updates for session {session_id!r}, which is not open here"
            self._diagnostics.add(at, "stray", text)
        self._early.clear()
        self._early_bytes = 0

    def bind(self, session: RoutedSession, agent_session_id: str) -> None:
        self.release(session)  # an agent may go on under another id when a session is resumed
        session.agent_session_id = agent_session_id
        self.sessions[agent_session_id] = session
        self._agent_session_ids.add(agent_session_id)
        for update, at in self._early.pop(agent_session_id, ()):
            session.on_updates([update], at)

    def release(self, session: RoutedSession) -> None:
        if self.sessions.get(session.agent_session_id) is session:
            del self.sessions[session.agent_session_id]

    # -- frames (wire.connection.Handler)

    def on_received(self, messages: Sequence[Message], at: float) -> None:
        if len(messages) < LARGE_READ_MESSAGES:
            self._waiting_bytes += sum(len(getattr(message, "line", b"")) for message in messages)
        updates: list[Update] = []  # of one session, without a message of another one between them
        session_id = None
        for message in messages:
            if type(message) is Update and message.session_id == session_id:
                updates.append(message)
                continue
            self._received_updates(updates, at)
            updates, session_id = [], None
            if type(message) is Update:
                updates.append(message)
                session_id = message.session_id
            else:
                self._received_other(message, at)
        self._received_updates(updates, at)

    def _received_updates(self, updates: list[Update], at: float) -> None:
        if not updates:
            return
        session = self.sessions.get(updates[0].session_id)
        if session is not None:
            session.on_updates(updates, at)
            return
        for update in updates:
            self._unclaimed(update, at)

    def _received_other(self, message: Message, at: float) -> None:
        if isinstance(message, Noise):
            self._received_noise(message, at)
            return
        if isinstance(message, Oversized):
            self._record("agent", message, at)
            self._diagnostics.add(at, "oversized", f"a line of {message.length} bytes, over the limit; not read")
            return
        agent_session_id = self._session_index.session_of("in", message)
        if isinstance(message, Reply) and message.error is None:
            opening = self._opening.pop(message.id, None)
            if opening is not None and (named := session_id_in(message.result)):
                if self.sessions.get(named, opening) is not opening:
                    self._record("agent", message, at)
                    return  # another's name: who opens it says so, and that other one is left alone
                self.bind(opening, named)
                agent_session_id = named
        session = self.sessions.get(agent_session_id or "")
        if session is not None:
            session.record("in", message, at)
            return
        self._record("agent", message, at)
        if isinstance(message, Notification) and message.method == "elicitation/complete" and self._questions:
            self._questions.complete(message.params)
        elif isinstance(message, Notification) or (
            isinstance(message, Request) and message.method != "elicitation/create"
        ):
            self._diagnostics.add(at, "stray", message.line.decode("utf-8", "replace"))

    def _received_noise(self, message: Noise, at: float) -> None:
        """Record a line that is no message, unless there were too many: an agent could fill the disk with them."""
        size = len(message.line)
        has_room = self._noise_lines < MAX_NOISE_LINES and self._noise_bytes + size <= MAX_NOISE_BYTES
        if has_room and self._omitted_lines == 0:
            self._noise_lines += 1
            self._noise_bytes += size
            self._record("agent", message, at)
            self._diagnostics.add(at, "noise", f"{message.reason}: {message.line.decode('utf-8', 'replace')}")
            return
        if self._omitted_lines == 0:
            self._diagnostics.add(at, "noise", "from here on, lines that are no messages are only counted")
        self._omitted_lines += 1
        self._omitted_bytes += size
        self._omitted_at = at

    def _record_omitted_noise(self) -> None:
        if self._omitted_lines and self.recorder is not None:
            note = notes.NoiseOmitted(self._omitted_lines, self._omitted_bytes)
            self._record("host", notes.write_as(notes.NOISE_OMITTED, note), self._omitted_at)

    def on_sending(self, message: OutgoingMessage, at: float) -> None:
        agent_session_id = self._session_index.session_of("out", message, self._sending_for)
        session = self.sessions.get(agent_session_id or "") or self._about_to_open
        if session is not None:
            session.record("out", message, at)
        else:
            self._record("client", message, at)

    def _record(self, origin: Origin, message: Message, at: float) -> None:
        """Record a frame that belongs to no session."""
        if self.recorder is not None:
            self.recorder.add(origin, message, at, None)
        elif self._observer is not None:
            self._observer.on_frame("in" if origin == "agent" else "out", message, at, ())

    def _on_committed(self, frame: RecordedFrame) -> None:
        """Show the observer a frame that belongs to no session, now that the journal has it."""
        assert self._observer is not None
        direction: Direction = "in" if frame.entry.origin == "agent" else "out"
        self._observer.on_frame(direction, frame.message, frame.entry.at, frame.facts)

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
        self._record_omitted_noise()
        if self.recorder is not None and self.recorder.error is not None:
            failure = self.recorder.error
        for session in list(self.sessions.values()):
            session.on_link_lost(failure)
        if self._observer is not None:
            self._observer.on_link_lost(failure)
        return failure

    def _unclaimed(self, update: Update, at: float) -> None:
        opening = self._session_being_opened(update.session_id)
        if opening is not None:
            opening.on_updates([update], at)
        elif self._opening and self._early_bytes + len(update.line) <= MAX_EARLY_BYTES:
            self._early.setdefault(update.session_id, []).append((update, at))
            self._early_bytes += len(update.line)
        else:
            self._record("agent", update, at)
            text = f"an update for session {update.session_id!r}, which is not open here"
            self._diagnostics.add(at, "stray", text)

    def _session_being_opened(self, agent_session_id: str) -> RoutedSession | None:
        """Return the session that is being opened, where a new id can be no other's. With a journal its frames are then
        recorded at once, in the order of the wire, and not when the answer brings the id."""
        if (
            self.recorder is None
            or len(self._opening) != 1
            or agent_session_id in self._agent_session_ids
            or self._active_runs()
        ):
            return None
        [session] = self._opening.values()
        return None if session.agent_session_id else session

    # -- backpressure

    async def wait_until_ready(self) -> None:
        while self._must_wait():
            self.is_paused = True
            self._woken.clear()
            # An agent that has ended adds nothing more to the pipe, and its end must be noticed.
            await wait_for_first(self._woken.wait(), self._link_ended())
        self.is_paused = False
        if self.recorder is not None:
            await self.recorder.wait_for_turn()

    async def _link_ended(self) -> None:
        assert self.link is not None
        await self.link.wait()
        self._link_has_ended = True

    def _must_wait(self) -> bool:
        """Return whether too much waits to be read by programs, and none of them waits for what is still unread."""
        assert self.connection is not None
        if self._link_has_ended or any(method != "session/prompt" for method in self.connection.pending_methods):
            return False
        if self._observer is not None and self._observer.is_full:
            return True
        runs = self._active_runs()
        return self._too_much_waits(runs) and not any(run.hungry for run in runs)

    def _too_much_waits(self, runs: list[Run]) -> bool:
        if not any(run.waiting for run in runs):
            self._waiting_bytes = 0
        return self._waiting_bytes > MAX_WAITING_BYTES or any(run.full for run in runs)

    def wake(self) -> None:
        """Look again whether the link may be read."""
        self._woken.set()

    def _active_runs(self) -> list[Run]:
        return [session.active for session in self.sessions.values() if session.active is not None]
