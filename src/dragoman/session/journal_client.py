"""`JournalClient`: this process's handle on a journal: its identity, and the sessions that it has claimed."""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from dragoman.journal.errors import JournalError
from dragoman.journal.maintenance import load_record
from dragoman.journal.protocols import Connection, Journal, Process
from dragoman.journal.recorder import ConnectionRecorder
from dragoman.journal.session_record import SessionRecord
from dragoman.session.session import Session
from dragoman.workspace.checkpoints import CheckpointSettings

# The author of the deletion of a session without a prompt.
REMOVED_BY: Final = "dragoman"

logger = logging.getLogger(__name__)


class JournalClient:
    """`is_alive` tells whether another process still lives: a session of a dead one may be taken over.

    `on_session_opened` is called with each session that an agent has opened, `on_session_left` with the id of one that
    has ended in this process. `keeps_failed` tells whether a session that could not be opened stays in the journal.
    """

    def __init__(self, journal: Journal, process: Process, is_alive: Callable[[Process], bool]) -> None:
        self.journal = journal
        self.process = process
        self.epochs: dict[str, int] = {}  # the claim under which this process owns a session, by the session's id
        self.on_session_opened: Callable[[Session], None] | None = None
        self.on_session_left: Callable[[str], None] | None = None
        self.keeps_failed: Callable[[str, BaseException | None], bool] = lambda session_id, error: False
        self.checkpoints: CheckpointSettings | None = None  # how the workspaces of its sessions are recorded
        self._is_alive = is_alive

    async def connect(self, agent: str, secrets: Mapping[str, str]) -> ConnectionRecorder:
        """Store a new connection, and return the recorder of its frames."""
        connection = Connection(id=uuid.uuid4().hex, agent=agent, at=time.time())
        await self.journal.register_connection(connection)
        return ConnectionRecorder(self.journal, connection, secrets=secrets)

    async def claim(self, session_id: str) -> tuple[SessionRecord, int]:
        """Claim a session, new or stored, for this process alone. `NotTheOwner` where a living process has it."""
        # After a jump of the clock another process may have forgotten this one, which had no session: without an entry
        # of its owner, a session would be free for all.
        await self.journal.heartbeat(msgspec.structs.replace(self.process, heartbeat=time.time()))
        epoch = await self.journal.claim(session_id, self.process.id, is_alive=self._is_alive)
        self.epochs[session_id] = epoch
        return await load_record(self.journal, session_id), epoch

    def session_opened(self, session: Session) -> None:
        """Report a session that the agent has opened, perhaps under another id than before."""
        if self.on_session_opened is not None and not session.closed:
            self.on_session_opened(session)

    async def leave(self, session_id: str) -> None:
        """Release a session whose frames are all committed: another process may have it."""
        if self.on_session_left is not None:
            self.on_session_left(session_id)
        self.epochs.pop(session_id, None)
        await self.journal.release(session_id, self.process.id)

    async def discard(self, session_id: str, error: BaseException | None) -> None:
        """Remove a session without a run. One for which prompts wait stays, so that they are not lost."""
        if self.keeps_failed(session_id, error):
            return
        try:
            if not await self.journal.pending_commands(session_id):
                await self.journal.delete(session_id, at=time.time(), by=REMOVED_BY)
        except JournalError as failure:
            logger.info("session %s was not opened, and cannot be removed: %s", session_id, failure)
