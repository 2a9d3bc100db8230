"""The contract of a journal, in three small protocols: `JournalStore`, `SessionOwners` and `CommandInbox`.

`Journal` is all three. A function takes the narrowest one that it needs. tests/journal/test_conformance.py holds every
implementation to what is promised here.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from typing import Final, Protocol, TypeAlias

import msgspec

from dragoman.journal.entry import Cursor, Entry, Page
from dragoman.journal.rows import RowChanges, Session, SessionRows, SessionSummary, Tombstone
from dragoman.journal.search_documents import SearchHits, SearchQuery

# Entries of one page: some hundred kilobytes, so that one thread hop for each page costs nothing and a slow reader
# needs little memory.
PAGE_ENTRIES: Final = 1000

# The connection on which the journal itself records what is done to it.
OWN_CONNECTION: Final = "journal"


class Connection(msgspec.Struct, frozen=True, kw_only=True):
    """One handshake with an agent. It is registered again when more of it is known."""

    id: str
    agent: str
    at: float
    protocol_version: int | None = None
    capabilities: msgspec.Raw | None = None  # as the agent declared them
    agent_info: msgspec.Raw | None = None


class Process(msgspec.Struct, frozen=True, kw_only=True):
    """A process that may own sessions. `started` distinguishes it from an earlier process with the same pid."""

    id: str
    host: str
    pid: int
    started: str
    heartbeat: float


class Owner(msgspec.Struct, frozen=True):
    """The owner of a session; `process` is None after it was released. Each new owner has a higher epoch."""

    process: Process | None
    epoch: int


class InboxCommand(msgspec.Struct, frozen=True, kw_only=True):
    """A request to the owner of a session. The sender chooses the id."""

    id: str
    session_id: str
    at: float
    body: bytes


class CommandState(msgspec.Struct, frozen=True, kw_only=True):
    """A command and its outcome, which is None until the receipt is committed."""

    command: InboxCommand
    taken: bool = False
    outcome: str | None = None
    detail: str | None = None
    done_at: float | None = None


class TranscriptPosition(msgspec.Struct, frozen=True, kw_only=True):
    """The position up to which a transcript of another program was read. Committed with the frames read from it."""

    connection_id: str  # of its frames; a file that was moved keeps it
    provider: str
    path: str
    session_id: str  # the first session in the file; empty where it holds none
    frames: int  # frames of the connection so far; storing a lower number does not decrease it
    offset: int  # of the first byte that was not read yet
    # The file as it was when all of it had been read; zeros while it is being read.
    inode: int = 0
    size: int = 0
    modified: float = 0.0
    finished: bool = False  # runs that the file leaves open were ended


# Called with one commit of this process: the end of the journal after it, its frames, and the rows they changed.
CommitListener: TypeAlias = Callable[[Cursor, Sequence[Entry], Sequence[RowChanges]], None]


class JournalStore(Protocol):
    """Frames, the rows folded from them, cursors, search and maintenance.

    Promised:

    * An append is atomic: its frames, rows and receipts are committed when it returns; if it raises, none of them is.
    * Frames of a connection are stored in the order of their numbers, without a gap: whatever ends the writer, the
      stored frames are a prefix of what was sent. After a failed append the caller repeats it, or appends nothing more
      of that connection.
    * A reader sees only committed entries, each once, in one order that is the same for all readers. A cursor means
      the same place in that order forever. A reader needs one page of memory, however far behind it is.
    * Rows are those that `SessionRecord` makes of a session's frames. Rows that are missing or of another version are
      rebuilt before they are returned.
    * A deleted session is gone, and nothing can be appended to it any more.

    Not promised: that an append which was cancelled while it waited is or is not committed; that frames of different
    connections are stored in the order in which they were sent.
    """

    @property
    def name(self) -> str:
        """The name of this journal, which its cursors carry."""

    # -- writing

    async def register_connection(self, connection: Connection) -> None:
        """Store a connection. Required before its first frame is appended."""

    async def append(
        self,
        entries: Sequence[Entry],
        changes: Sequence[RowChanges] = (),
        *,
        epochs: Mapping[str, int] = {},
        transcript_position: TranscriptPosition | None = None,
    ) -> Cursor:
        """Commit entries with the rows they changed, and return the cursor after the last entry.

        `epochs` has the claim under which each owned session is written; `transcript_position` says how far the
        transcript was read that these entries came from. Entries may come without changes: their rows are then made
        on demand.
        """

    async def delete(self, session_id: str, *, at: float, by: str = "") -> bool:
        """Remove everything about the session except a tombstone. False where there is no such session."""

    # -- reading

    async def cursor(self) -> Cursor:
        """Return the current end of the journal."""

    async def read(
        self, session_id: str | None = None, *, after: Cursor | None = None, limit: int = PAGE_ENTRIES
    ) -> Page:
        """Return the next entries of a session, or of all sessions."""

    def subscribe(
        self, session_id: str | None = None, *, after: Cursor | None = None, limit: int = PAGE_ENTRIES
    ) -> AsyncIterator[Page]:
        """Yield stored entries page by page, then new ones as they are committed, by other processes too.

        Ends when the journal is closed, and for a session after its tombstone.
        """

    def on_commit(self, listener: CommitListener) -> Callable[[], None]:
        """Call `listener` after each commit of this process, in order; return a function that removes it.

        Commits of other processes are not reported: use `changes` and `changed_sessions` for those.
        """

    def changes(self) -> AsyncIterator[None]:
        """Yield once immediately, then whenever any process may have committed. Ends when the journal is closed."""

    async def changed_sessions(self, after: Cursor) -> tuple[Cursor, frozenset[str]]:
        """Return the current end of the journal and the sessions that got frames between `after` and that."""

    async def connections(self) -> Sequence[Connection]: ...

    async def transcript_positions(self) -> Sequence[TranscriptPosition]:
        """Return the positions of all transcripts that were read."""

    async def sessions(self) -> Sequence[Session]:
        """Return the sessions that are not deleted, the one with the latest frame first."""

    async def session(self, session_id: str) -> Session | None: ...

    async def rows(self, session_id: str, *, max_characters: int | None = None) -> SessionRows:
        """Return all rows of the session. Of texts of megabytes, up to `max_characters` are enough."""

    async def summaries(self, session_ids: Iterable[str]) -> Mapping[str, SessionSummary]:
        """Return runs, usage and state of these sessions, by session; of one without frames, an empty summary."""

    async def tombstones(self) -> Sequence[Tombstone]: ...

    async def search(self, query: SearchQuery) -> SearchHits:
        """Return the best matches first, and whether there are more."""

    # -- maintenance

    async def stale_sessions(self) -> Sequence[str]:
        """Return the sessions whose rows are missing or of another version."""

    async def session_ids(self) -> Sequence[str]:
        """Return the ids of all sessions, including deleted ones, which have only their tombstone."""

    async def stored_rows(self, session_id: str) -> SessionRows:
        """Return the rows as they are stored, even if they are stale."""

    async def replace_rows(self, changes: RowChanges) -> bool:
        """Replace all rows of the session by these. False where the session got more frames meanwhile."""

    @property
    def pending_writes(self) -> int:
        """The number of writes of this process that wait to be committed."""

    def commit_times(self) -> Sequence[float]:
        """Return the duration of each commit in seconds since the last call."""

    async def check(self) -> Sequence[str]:
        """Return the defects of the store itself, in words; none when all is well."""

    async def vacuum(self) -> None:
        """Give unused space back to the disk."""

    async def compress(self, session_id: str) -> None:
        """Store the session's frames in less space. They read as before."""

    async def close(self) -> None: ...


class SessionOwners(Protocol):
    """One process owns a session at a time, and only the owner appends to it.

    Promised: of two processes that claim a session at once, one gets it and the other raises `NotTheOwner`; an append
    under an older epoch raises `NotTheOwner` and writes nothing. Not promised: that an owner notices at once that its
    claim was taken over; it learns of it with its next append.
    """

    async def heartbeat(self, process: Process) -> None:
        """Record that this process is alive. Required before its first claim, and regularly after it."""

    async def claim(self, session_id: str, process_id: str, *, is_alive: Callable[[Process], bool]) -> int:
        """Make this process the owner of the session and return its epoch.

        Raises `NotTheOwner` where another process owns the session for which `is_alive` returns True.
        """

    async def release(self, session_id: str, process_id: str) -> None:
        """End the claim of this process, if it has one."""

    async def owner(self, session_id: str) -> Owner | None:
        """Return the owner of the session; None where nobody ever claimed it."""


class CommandInbox(Protocol):
    """Commands to the owner of a session, from any process.

    Promised: a command is stored once, however often it is sent; commands of a session are taken in the order in which
    they were sent; one that was taken without a receipt is offered again to the next owner. Not promised: that a
    command is carried out; its state tells.
    """

    async def send_command(self, command: InboxCommand, *, taken_epoch: int | None = None) -> bool:
        """Store a command. False where a command with this id was sent before.

        The owner of the session stores its own commands as taken under its `taken_epoch`, in the same commit: it need
        not read them back. Raises `NotTheOwner` where the session is not owned under this epoch.
        """

    def command_changes(self) -> AsyncIterator[None]:
        """Yield once immediately, then whenever any process may have sent a command. Ends when the journal is closed.

        Commits of frames do not wake it.
        """

    async def take_commands(self, session_id: str, epoch: int) -> Sequence[InboxCommand]:
        """Mark the session's pending commands as taken and return them in the order in which they were sent.

        These are the commands that nobody took, and those that an earlier owner took without leaving a receipt. Raises
        `NotTheOwner` where the session is not owned under this epoch.
        """

    async def command_state(self, command_id: str) -> CommandState | None: ...

    async def sessions_with_commands(self) -> frozenset[str]:
        """Return the sessions with commands that nobody has taken."""

    async def pending_commands(self, session_id: str) -> Sequence[InboxCommand]:
        """Return the commands without a receipt, taken or not, in the order in which they were sent."""


class Journal(JournalStore, SessionOwners, CommandInbox, Protocol):
    """A whole journal."""
