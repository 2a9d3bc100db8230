"""`ConnectionRecorder`: the frames of one connection, folded at once and written to a journal in batches.

While one batch is being committed the next one gathers; how much may wait is bounded by `ready`. Each frame is handed
to its session's listener once it is committed, in the order in which the frames were added.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

import msgspec

from dragoman.journal.entry import UPDATE_KINDS, Cursor, Entry, Origin, entry_kind, read_message, stored_frame
from dragoman.journal.errors import JournalError
from dragoman.journal.protocols import Connection, Journal
from dragoman.journal.redaction import redact
from dragoman.journal.rows import RowChanges
from dragoman.journal.scheduler import scheduler_of_loop
from dragoman.journal.session_record import SessionRecord
from dragoman.record.facts import Fact
from dragoman.wire.messages import DECODE_ERRORS, Message, Update

# Frames that may wait for the disk: the next commit of a burst. A slow disk then slows the agent, what can be lost to a
# kill is what nobody has been shown, and telling of one commit keeps the event loop for a millisecond or two.
# (Measured: with more a burst is no faster.)
MAX_WAITING_BYTES: Final = 1024 * 1024

_OURS: Final = ("client", "host")


class RecordedFrame(msgspec.Struct, gc=False):
    """A frame on its way into the journal, and what it changed.

    `context` is for whoever added it: a session puts there the run that the frame belongs to. Not tracked by the
    garbage collector, which would look at each of a hundred thousand again and again while they wait.
    """

    entry: Entry
    message: Message
    facts: Sequence[Fact]
    context: object


OnCommitted: TypeAlias = Callable[[RecordedFrame], None]


class _Handshake(msgspec.Struct, frozen=True):
    """The agent's answer to `initialize`. Names as on the wire; parts are stored verbatim."""

    protocolVersion: int | None = None  # noqa: N815
    agentCapabilities: msgspec.Raw = msgspec.Raw(b"")  # noqa: N815
    agentInfo: msgspec.Raw = msgspec.Raw(b"")  # noqa: N815


class _Batch:
    def __init__(self) -> None:
        self.frames: list[RecordedFrame] = []
        self.size_bytes = 0


class ConnectionRecorder:
    """`frame_count` is the number of the connection's frames that the journal has already; `secrets` are the values, by
    name, that must not be stored of what we send."""

    def __init__(
        self,
        journal: Journal,
        connection: Connection,
        *,
        frame_count: int = 0,
        secrets: Mapping[str, str] = {},
        max_waiting_bytes: int = MAX_WAITING_BYTES,
    ) -> None:
        self._journal = journal
        self._connection = connection
        self._connection_id = connection.id
        self._frame_count = frame_count
        self._max_waiting_bytes = max_waiting_bytes
        self._scheduler = scheduler_of_loop()
        self._secrets = secrets
        self._records: dict[str, SessionRecord] = {}
        self._listeners: dict[str | None, OnCommitted] = {}
        self._epochs: dict[str, int] = {}
        self._touched: dict[str, SessionRecord] = {}
        self._batch = _Batch()
        self._committing: tuple[_Batch, Sequence[RowChanges]] | None = None
        self._task: asyncio.Task[None] | None = None
        self._error: JournalError | None = None
        self._room = asyncio.Event()
        self._room.set()
        self.cursor: Cursor | None = None  # after the last frame that is committed

    @property
    def error(self) -> JournalError | None:
        """Why nothing more is committed; `flush` tries again."""
        return self._error

    async def record_handshake(self, answer: msgspec.Raw) -> None:
        """Store with the connection what the agent said of itself."""
        try:
            handshake = msgspec.json.decode(answer, type=_Handshake)
        except DECODE_ERRORS:
            return
        self._connection = msgspec.structs.replace(
            self._connection,
            protocol_version=handshake.protocolVersion,
            capabilities=handshake.agentCapabilities or None,
            agent_info=handshake.agentInfo or None,
        )
        await self._journal.register_connection(self._connection)

    # -- sessions

    def add_session(self, record: SessionRecord, epoch: int | None = None) -> None:
        """Fold the session's frames into this record; `epoch` where this process has claimed the session."""
        self._records[record.session_id] = record
        if epoch is not None:
            self._epochs[record.session_id] = epoch

    def listen(self, session_id: str | None, on_committed: OnCommitted) -> None:
        """Hand each of the session's frames to `on_committed` once it is committed; None for those of no session."""
        self._listeners[session_id] = on_committed

    def remove_session(self, session_id: str) -> None:
        """Forget a session that has left the connection. Its frames that were added before are still committed."""
        self._records.pop(session_id, None)
        self._listeners.pop(session_id, None)

    # -- frames

    def add(
        self, origin: Origin, message: Message, at: float, session_id: str | None = None, context: object = None
    ) -> Sequence[Fact]:
        """Take a frame and return what it changed. It is committed later: listener, `flush` and `ready` tell when."""
        self._frame_count = number = self._frame_count + 1
        if type(message) is Update:  # nearly all are, and pay for nothing else
            frame = message.line
            kind = UPDATE_KINDS.get(type(message.update)) or entry_kind(message)
            entry = Entry(self._connection_id, session_id, number, at, origin, kind, frame)
        else:
            frame = stored_frame(message)
            entry = Entry(self._connection_id, session_id, number, at, origin, entry_kind(message), frame)
            if origin in _OURS and (redacted := redact(message, self._secrets)) is not None:
                # Folded as it is stored, so that it folds to the same rows again.
                entry = msgspec.structs.replace(entry, frame=redacted.rstrip(b"\n"))
                message, frame = read_message(entry), entry.frame
        facts: Sequence[Fact] = ()
        if session_id is not None and (record := self._records.get(session_id)) is not None:
            self._touched[session_id] = record
            facts = record.add(entry, message)
        batch = self._batch
        batch.frames.append(RecordedFrame(entry, message, facts, context))
        batch.size_bytes += len(frame)
        if self._task is None and self._error is None:
            self._task = asyncio.get_running_loop().create_task(self._commit_all(), name="dragoman recorder")
        if batch.size_bytes > self._max_waiting_bytes:
            self._room.clear()
        return facts

    async def ready(self) -> None:
        """Return when more may be added; raise when the journal has failed."""
        size_bytes = self._batch.size_bytes
        if not self._room.is_set():
            await self._room.wait()
        await self._scheduler.acquire(size_bytes)
        if self._error is not None:
            raise self._error

    async def flush(self) -> Cursor | None:
        """Return when all that was added is committed. After a failure it tries again, from where it failed."""
        self._error = None
        while self._task is not None or self._committing is not None or self._batch.frames:
            if self._task is None:
                self._task = asyncio.get_running_loop().create_task(self._commit_all(), name="dragoman recorder")
            await asyncio.shield(self._task)
            if self._error is not None:
                raise self._error
        return self.cursor

    async def _commit_all(self) -> None:
        try:
            while self._committing is not None or self._batch.frames:
                if self._committing is None:
                    self._committing = self._take_batch()
                batch, changes = self._committing
                entries = [frame.entry for frame in batch.frames]
                self.cursor = await self._journal.append(entries, changes, epochs=self._epochs_of(entries))
                self._committing = None
                if self._listeners:
                    await self._scheduler.acquire(batch.size_bytes)
                    self._notify(batch)
        except JournalError as error:
            # The batch stays: its frames are the next ones of this connection, and may still be written.
            self._error = error
            self._room.set()
        finally:
            self._task = None

    def _take_batch(self) -> tuple[_Batch, Sequence[RowChanges]]:
        batch, self._batch = self._batch, _Batch()
        touched, self._touched = self._touched, {}
        self._room.set()
        return batch, [record.take() for record in touched.values()]

    def _notify(self, batch: _Batch) -> None:
        listeners = self._listeners
        for frame in batch.frames:
            on_committed = listeners.get(frame.entry.session_id)
            if on_committed is not None:
                on_committed(frame)

    def _epochs_of(self, entries: Sequence[Entry]) -> dict[str, int]:
        if not self._epochs:
            return {}
        sessions = {entry.session_id for entry in entries}
        return {session_id: epoch for session_id, epoch in self._epochs.items() if session_id in sessions}
