"""Recording a runtime's connection, frame by frame, in the journal before anyone is told of it.

`JournalClient` is this process's handle on a journal: its identity, and the sessions that it has claimed.
`ConnectionRecorder` takes the frames of one connection and hands them on, in order, once they are committed.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from dragoman.journal import notes
from dragoman.journal.entry import Origin
from dragoman.journal.errors import JournalError
from dragoman.journal.maintenance import load_record
from dragoman.journal.protocols import Connection, Journal, Process
from dragoman.journal.recorder import Recorder
from dragoman.journal.session_record import SessionRecord
from dragoman.record.facts import Fact
from dragoman.wire.messages import DECODE_ERRORS, Message

if TYPE_CHECKING:
    from dragoman.journal.entry import Entry
    from dragoman.session.session import Session

# Who is told of a session's frames: where each came from, what it was, when, and what it changed.
Told: TypeAlias = Callable[[Origin, Message, float, Sequence[Fact]], None]


class _Handshake(msgspec.Struct, frozen=True):
    """Names as on the wire; parts are kept as they were said."""

    protocolVersion: int | None = None  # noqa: N815
    agentCapabilities: msgspec.Raw = msgspec.Raw(b"")  # noqa: N815
    agentInfo: msgspec.Raw = msgspec.Raw(b"")  # noqa: N815


class JournalClient:
    """`alive` tells whether another process still lives: a session of a dead one may be taken over."""

    def __init__(self, journal: Journal, process: Process, alive: Callable[[Process], bool]) -> None:
        self.journal = journal
        self.process = process
        self.epochs: dict[str, int] = {}  # of the sessions that are ours: under which claim
        # Told of each session that an agent has opened, and of its end here.
        self.on_opened: Callable[[Session], None] | None = None
        self.on_left: Callable[[Session], None] | None = None
        self._alive = alive

    async def connect(self, agent: str, secrets: Mapping[str, str]) -> ConnectionRecorder:
        connection = Connection(id=uuid.uuid4().hex, agent=agent, at=time.time())
        await self.journal.register_connection(connection)
        return ConnectionRecorder(self, connection, secrets)

    async def take(self, session_id: str) -> tuple[SessionRecord, int]:
        """The session, new or known, for this process alone. `NotTheOwner` where a living process has it."""
        epoch = await self.journal.claim(session_id, self.process.id, is_alive=self._alive)
        self.epochs[session_id] = epoch
        return await load_record(self.journal, session_id), epoch

    async def let_go(self, session_id: str) -> None:
        self.epochs.pop(session_id, None)
        await self.journal.release(session_id, self.process.id)


class ConnectionRecorder:
    def __init__(self, client: JournalClient, connection: Connection, secrets: Mapping[str, str]) -> None:
        self._client = client
        self._connection = connection
        self._recorder = Recorder(client.journal, connection.id, told=self._told, secrets=secrets)
        self._sessions: dict[str, Told] = {}
        self.add = self._recorder.add  # itself: every update of every agent goes through it

    @property
    def problem(self) -> JournalError | None:
        """Why nothing more is kept."""
        return self._recorder.problem

    async def shook_hands(self, answer: msgspec.Raw) -> None:
        """What the agent said of itself."""
        try:
            told = msgspec.json.decode(answer, type=_Handshake)
        except DECODE_ERRORS:
            return
        await self._client.journal.register_connection(
            msgspec.structs.replace(
                self._connection,
                protocol_version=told.protocolVersion,
                capabilities=told.agentCapabilities or None,
                agent_info=told.agentInfo or None,
            )
        )

    async def record_of(self, session_id: str) -> SessionRecord:
        """What the journal knows of the session, to go on from; from here on it is ours."""
        record, epoch = await self._client.take(session_id)
        self._recorder.session(record, epoch)
        return record

    def join(self, session_id: str, told: Told) -> None:
        """Its frames are told to it."""
        self._sessions[session_id] = told

    def opened(self, session: Session) -> None:
        """The agent has a name for it now, perhaps another one than before, or its settings have changed."""
        workspace = session.config.workspace
        opened = notes.SessionOpened(
            agent=self._connection.agent,
            cwd=str(workspace.cwd),
            agent_session_id=session.agent_session_id,
            folders=tuple(map(str, workspace.folders)),
            handle=session.snapshot().to_json(),
        )
        session.record("host", notes.write(opened), time.time())
        if self._client.on_opened is not None and not session.closed:
            self._client.on_opened(session)

    async def leave(self, session: Session) -> None:
        """All of it is committed, and another process may have it."""
        await self.flush()
        self._recorder.forget(session.id)
        self._sessions.pop(session.id, None)
        if self._client.on_left is not None:
            self._client.on_left(session)
        await self._client.let_go(session.id)

    async def flush(self) -> None:
        """Returns when all that was added is committed, and told."""
        await self._recorder.flush()

    def _told(self, batch: Sequence[tuple[Entry, Message, Sequence[Fact]]]) -> None:
        for entry, message, changed in batch:
            told = self._sessions.get(entry.session_id or "")
            if told is not None:
                told(entry.origin, message, entry.at, changed)
