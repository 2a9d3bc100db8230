"""`Recorder`: the frames of one connection on their way into a journal.

Folds each frame at once, appends in the background, and tells what is committed, in order, once it is. While one batch
is being committed the next one gathers; how much may wait is bounded by `ready`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

import msgspec

from dragoman.journal.entry import UPDATE_KINDS, Cursor, Entry, Origin, entry_kind, read_message, stored_frame
from dragoman.journal.errors import JournalError
from dragoman.journal.protocols import Journal
from dragoman.journal.redaction import redact
from dragoman.journal.rows import RowChanges
from dragoman.journal.scheduler import scheduler_of_loop
from dragoman.journal.session_record import SessionRecord
from dragoman.record.facts import Fact
from dragoman.wire.messages import Message, Update

# Bytes of frames that may wait for the disk: the next commit of a burst. A slow disk then slows the agent, what can be
# lost to a kill is what nobody has been shown, and telling of one commit keeps the event loop for a millisecond or two.
# (Measured: with more a burst is no faster.)
WAITING: Final = 1024 * 1024

_OURS: Final = ("client", "host")

Told: TypeAlias = Callable[[Sequence[tuple[Entry, Message, Sequence[Fact]]]], None]


class _Batch:
    def __init__(self) -> None:
        self.entries: list[Entry] = []
        # Beside the entries, and not with each in a tuple: the garbage collector would look at every one, again and
        # again while they wait.
        self.messages: list[Message] = []
        self.facts: list[Sequence[Fact]] = []
        self.size = 0


class Recorder:
    """`told` gets what was committed, each frame once, in the order in which they were added."""

    def __init__(
        self,
        journal: Journal,
        connection_id: str,
        *,
        frames: int = 0,
        told: Told | None = None,
        secrets: Mapping[str, str] = {},
        waiting: int = WAITING,
    ) -> None:
        """`frames` is the number of the connection's frames that the journal has already; `secrets` are the values,
        by name, that must not be kept of what we send."""
        self._journal = journal
        self._connection_id = connection_id
        self._n = frames
        self._told = told
        self._limit = waiting
        self._scheduler = scheduler_of_loop()
        self._secrets = secrets
        self._records: dict[str, SessionRecord] = {}
        self._epochs: dict[str, int] = {}
        self._touched: dict[str, SessionRecord] = {}
        self._batch = _Batch()
        self._committing: tuple[_Batch, Sequence[RowChanges]] | None = None
        self._task: asyncio.Task[None] | None = None
        self._problem: JournalError | None = None
        self._room = asyncio.Event()
        self._room.set()
        self.cursor: Cursor | None = None  # after the last frame that is committed

    def session(self, record: SessionRecord, epoch: int | None = None) -> None:
        """Frames of this session are folded into the record; `epoch` where this process has claimed the session."""
        self._records[record.session_id] = record
        if epoch is not None:
            self._epochs[record.session_id] = epoch

    @property
    def problem(self) -> JournalError | None:
        """Why nothing more is committed; `flush` tries again."""
        return self._problem

    def forget(self, session_id: str) -> None:
        """The session has left this connection. What was added of it is still committed."""
        self._records.pop(session_id, None)

    def add(self, origin: Origin, message: Message, at: float, session_id: str | None = None) -> Sequence[Fact]:
        """Takes a frame; what it changed. It is committed later: `told`, `flush` and `ready` say when."""
        self._n = n = self._n + 1
        if type(message) is Update:  # nearly all are, and pay for nothing else
            frame = message.line
            kind = UPDATE_KINDS.get(type(message.update)) or entry_kind(message)
            entry = Entry(self._connection_id, session_id, n, at, origin, kind, frame)
        else:
            frame = stored_frame(message)
            entry = Entry(self._connection_id, session_id, n, at, origin, entry_kind(message), frame)
            if origin in _OURS and (changed := redact(message, self._secrets)) is not None:
                # Folded as it is kept, so that it folds to the same rows again.
                entry = msgspec.structs.replace(entry, frame=changed.rstrip(b"\n"))
                message, frame = read_message(entry), entry.frame
        batch = self._batch
        batch.entries.append(entry)
        batch.size += len(frame)
        facts: Sequence[Fact] = ()
        if session_id is not None and (record := self._records.get(session_id)) is not None:
            self._touched[session_id] = record
            facts = record.add(entry, message)
        if self._told is not None:
            batch.messages.append(message)
            batch.facts.append(facts)
        if self._task is None and self._problem is None:
            self._task = asyncio.get_running_loop().create_task(self._commit_all(), name="dragoman recorder")
        if batch.size > self._limit:
            self._room.clear()
        return facts

    async def ready(self) -> None:
        """Returns when more may be added; raises when the journal has failed."""
        size = self._batch.size
        if not self._room.is_set():
            await self._room.wait()
        await self._scheduler.acquire(size)
        if self._problem is not None:
            raise self._problem

    async def flush(self) -> Cursor | None:
        """Returns when all that was added is committed. After a failure it tries again, from where it failed."""
        self._problem = None
        while self._task is not None or self._committing is not None or self._batch.entries:
            if self._task is None:
                self._task = asyncio.get_running_loop().create_task(self._commit_all(), name="dragoman recorder")
            await asyncio.shield(self._task)
            if self._problem is not None:
                raise self._problem
        return self.cursor

    async def _commit_all(self) -> None:
        try:
            while self._committing is not None or self._batch.entries:
                if self._committing is None:
                    self._committing = self._gathered()
                batch, changes = self._committing
                self.cursor = await self._journal.append(batch.entries, changes, epochs=self._epochs_of(batch))
                self._committing = None
                if self._told is not None:
                    await self._scheduler.acquire(batch.size)
                    self._told(list(zip(batch.entries, batch.messages, batch.facts, strict=True)))
        except JournalError as problem:
            # The batch is kept: its frames are the next ones of this connection, and may still be written.
            self._problem = problem
            self._room.set()
        finally:
            self._task = None

    def _gathered(self) -> tuple[_Batch, Sequence[RowChanges]]:
        batch, self._batch = self._batch, _Batch()
        touched, self._touched = self._touched, {}
        self._room.set()
        return batch, [record.take() for record in touched.values()]

    def _epochs_of(self, batch: _Batch) -> dict[str, int]:
        if not self._epochs:
            return {}
        sessions = {entry.session_id for entry in batch.entries}
        return {session_id: epoch for session_id, epoch in self._epochs.items() if session_id in sessions}
