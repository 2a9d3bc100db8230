"""`Journal`: what every store of records offers, and what it promises.

* An append is whole: its frames, its rows and its receipts are committed together when it returns, or it raises and
  none of them is.
* Frames of a connection are stored in the order of their numbers, without a gap: what is there is a prefix of what
  was said, whatever ended the writer. An append that failed is made again, or nothing more of that connection is.
* A reader sees only what is committed, each entry once, in one order that is the same for all readers. A cursor means
  a place in that order, for ever. A reader costs one page of memory, however far behind it is.
* Rows are what `SessionRecord` makes of a session's frames. Where they are missing or of another version, they are
  made anew before they are shown.
* A deleted session is gone, and nothing more can be appended to it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from typing import Final, Protocol, TypeAlias

import msgspec

from dragoman.journal.entry import Cursor, Entry, Page
from dragoman.journal.rows import RowChanges, Session, SessionRows, SessionSummary, Tombstone
from dragoman.journal.search_documents import SearchHit, SearchQuery

# Entries of one page. Some hundred kilobytes: enough that a thread hop for each is nothing, small for a slow reader.
PAGE_ENTRIES: Final = 1000

# The connection on which the journal itself notes what is done to it.
OWN_CONNECTION: Final = "journal"


class Connection(msgspec.Struct, frozen=True, kw_only=True):
    """One handshake with an agent. Told again when more of it is known."""

    id: str
    agent: str
    at: float
    protocol_version: int | None = None
    capabilities: msgspec.Raw | None = None  # as the agent told them
    agent_info: msgspec.Raw | None = None


class Process(msgspec.Struct, frozen=True, kw_only=True):
    """A process that may own sessions. `started` tells it from an earlier one with the same pid."""

    id: str
    host: str
    pid: int
    started: str
    heartbeat: float


class Owner(msgspec.Struct, frozen=True):
    """Who owns a session: None when nobody does any more. Each new owner has a higher epoch."""

    process: Process | None
    epoch: int


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """What someone wants of a session that another process owns. The sender chooses the id."""

    id: str
    session_id: str
    at: float
    body: bytes


class CommandState(msgspec.Struct, frozen=True, kw_only=True):
    """`outcome` is None until the receipt is committed."""

    command: Command
    taken: bool = False
    outcome: str | None = None
    detail: str | None = None
    done_at: float | None = None


class Position(msgspec.Struct, frozen=True, kw_only=True):
    """How far a file that another program writes was read. Committed with what came of it."""

    connection_id: str  # its frames' own; a file that was moved keeps it
    provider: str
    path: str
    session_id: str  # the first session that it tells of; empty where it tells of none
    frames: int  # that the connection has of it; who tells fewer does not take any back
    offset: int  # of the first byte that was not read yet
    # As the file was when all of it had been read; zeros while it is being read.
    inode: int = 0
    size: int = 0
    modified: float = 0.0
    finished: bool = False  # what the file leaves open was ended


# What a commit of this process brought: where the journal then ends, its frames, and what they changed.
Listener: TypeAlias = Callable[[Cursor, Sequence[Entry], Sequence[RowChanges]], None]


class Journal(Protocol):
    @property
    def name(self) -> str:
        """Its own, which its cursors carry."""

    # -- writing

    async def connect(self, connection: Connection) -> None:
        """To be told before the connection's first frame."""

    async def append(
        self,
        entries: Sequence[Entry],
        changes: Sequence[RowChanges] = (),
        *,
        epochs: Mapping[str, int] = {},
        position: Position | None = None,
    ) -> Cursor:
        """Commits; returns the cursor after the last entry. `epochs`: by which claim each owned session is written to;
        `position`: how far the file was read that these entries came from.

        Entries without their changes are fine: the rows are made when they are asked for.
        """

    async def delete(self, session_id: str, *, at: float, by: str = "") -> bool:
        """Removes all that is known of the session, but for a tombstone; False when there is no such session."""

    # -- reading

    async def cursor(self) -> Cursor:
        """The end of the journal, now."""

    async def read(
        self, session_id: str | None = None, *, after: Cursor | None = None, limit: int = PAGE_ENTRIES
    ) -> Page:
        """The next entries of a session, or of all."""

    def subscribe(
        self, session_id: str | None = None, *, after: Cursor | None = None, limit: int = PAGE_ENTRIES
    ) -> AsyncIterator[Page]:
        """What is stored, then what comes, page by page; also what other processes append.

        Ends when the journal is closed, and for a session after its tombstone.
        """

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Tells of each commit of this process, once it is made, in order; returns what ends that.

        What other processes commit is not told: `news` and `touched` are for that.
        """

    def news(self) -> AsyncIterator[None]:
        """Once at first, then whenever there may be more to read, whoever committed it. Ends when it is closed."""

    async def touched(self, after: Cursor) -> tuple[Cursor, frozenset[str]]:
        """Which sessions got frames after the cursor, and the end of the journal by then."""

    async def connections(self) -> Sequence[Connection]: ...

    async def positions(self) -> Sequence[Position]:
        """Of all files that were read."""

    async def sessions(self) -> Sequence[Session]:
        """Those that are not deleted, the one with the latest frame first."""

    async def session(self, session_id: str) -> Session | None:
        """One of them."""

    async def rows(self, session_id: str) -> SessionRows: ...

    async def summaries(self, session_ids: Iterable[str]) -> Mapping[str, SessionSummary]:
        """Return runs, usage and state of these sessions, by session; of one without frames, an empty summary."""

    async def tombstones(self) -> Sequence[Tombstone]: ...

    async def search(self, query: SearchQuery) -> Sequence[SearchHit]:
        """The best matches first."""

    # -- owners

    async def heartbeat(self, process: Process) -> None:
        """This process lives; to be told before its first claim, and again and again."""

    async def claim(self, session_id: str, process_id: str, *, alive: Callable[[Process], bool]) -> int:
        """Takes the session for this process; its epoch. `NotTheOwner` where a living process has it."""

    async def release(self, session_id: str, process_id: str) -> None: ...

    async def owner(self, session_id: str) -> Owner | None: ...

    # -- the inbox

    async def send(self, command: Command) -> bool:
        """False when a command with this id was sent before: it is, or will be, done once."""

    async def take(self, session_id: str, epoch: int) -> Sequence[Command]:
        """Commands that the owner has not taken yet, in the order they were sent; also those that an earlier owner
        took and has no receipt for."""

    async def command(self, command_id: str) -> CommandState | None: ...

    async def waiting(self) -> frozenset[str]:
        """Sessions with commands that nobody has taken."""

    async def unanswered(self, session_id: str) -> Sequence[Command]:
        """Commands without a receipt, taken or not, in the order they were sent."""

    # -- upkeep

    async def stale(self) -> Sequence[str]:
        """Sessions whose rows are missing or of another version."""

    async def session_ids(self) -> Sequence[str]:
        """All, the deleted ones too: these have only their tombstone."""

    async def stored_rows(self, session_id: str) -> SessionRows:
        """The rows as they are stored, made anew or not."""

    async def replace_rows(self, changes: RowChanges) -> bool:
        """Puts these in place of all rows of the session; False when it has got more frames meanwhile."""

    @property
    def pending_writes(self) -> int:
        """Writes that wait to be committed, of all connections of this process."""

    def commit_times(self) -> Sequence[float]:
        """Return the duration of each commit in seconds since the last call."""

    async def check(self) -> Sequence[str]:
        """What is wrong with the store itself, in words; nothing when all is well."""

    async def vacuum(self) -> None:
        """Gives back what is not used any more."""

    async def compress(self, session_id: str) -> None:
        """Stores the session's frames smaller. They read as before."""

    async def close(self) -> None: ...
