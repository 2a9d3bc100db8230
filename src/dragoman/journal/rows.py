"""The rows of a session as a journal stores them, and the changes that a commit makes to them. Pure data.

Most are the fold's own (`record.rows`); the others describe a session as a whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal, TypeAlias

import msgspec

from dragoman.record import rows
from dragoman.record.notes import HistoryDiffers
from dragoman.record.text import GrowingText
from dragoman.wire.dialect import MessageTokens
from dragoman.wire.vocabulary import ContentBlock

# Raise it whenever the fold makes other rows of the same frames: stored rows of another version are rebuilt when they
# are next read. A change of a row's fields alone is noticed without it.
FOLD_VERSION: Final = 6


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """A session as lists show it. `status` is that of its last run."""

    id: str
    agent: str = ""
    agent_session_id: str = ""
    cwd: str = ""
    folders: tuple[str, ...] = ()
    title: str | None = None  # the agent's, or one that a person gave it
    prompt: str = ""  # the beginning of the user's first prompt
    created: float = 0.0
    updated: float = 0.0
    frames: int = 0
    runs: int = 0
    status: rows.RunStatus | None = None
    handle: str | None = None  # what resuming it needs
    imported: bool = False  # at least partly read from the agent's own files
    earlier_ids: tuple[str, ...] = ()  # earlier ids of the agent for it
    parent: str | None = None  # the session whose sub-agent this is; it may be missing here, or unknown (empty)
    forked_from: str | None = None  # the session of which this one began as a copy; it may be missing here


class StoredMessage(msgspec.Struct, frozen=True, kw_only=True):
    """`rows.Message` with its text as one string. Until it has ended, parts may follow."""

    id: str
    kind: rows.MessageKind
    run_id: str | None
    message_id: str | None
    time: float
    replayed: bool
    text: str = ""
    blocks: tuple[ContentBlock, ...] = ()
    ended: bool = False

    def row(self) -> rows.Message:
        """Return the message as the fold has it."""
        body = GrowingText()
        if self.text:
            body.add(self.text)
        return rows.Message(
            id=self.id,
            kind=self.kind,
            run_id=self.run_id,
            message_id=self.message_id,
            time=self.time,
            replayed=self.replayed,
            body=body,
            blocks=list(self.blocks),
            ended=self.ended,
        )


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """The usage of a run, as the agent reported it. The id is the run's; cost and context are the session's so far."""

    id: str
    time: float | None
    model: str | None
    usage: rows.Usage
    messages: tuple[MessageTokens, ...] = ()  # those that the tokens are the sum of, where a transcript has them


class State(msgspec.Struct, frozen=True, kw_only=True):
    """The current settings, commands, sub-agents and usage of a session."""

    id: str = ""
    title: str | None = None
    commands: tuple[rows.Command, ...] = ()
    settings: tuple[rows.Setting, ...] = ()
    sub_agents: tuple[rows.SubAgent, ...] = ()
    usage: rows.Usage = rows.Usage()
    differs: HistoryDiffers | None = None  # the last difference between journal and replayed history


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a command, whose id it has."""

    id: str
    time: float
    outcome: str
    detail: str | None = None


class Tombstone(msgspec.Struct, frozen=True, kw_only=True):
    """The trace of a deleted session, whose id it has."""

    id: str
    time: float
    agent: str
    agent_session_id: str
    by: str
    earlier_ids: tuple[str, ...] = ()


Row: TypeAlias = (
    Session
    | rows.Run
    | StoredMessage
    | rows.ToolCall
    | rows.Plan
    | rows.Permission
    | rows.FileCall
    | rows.Terminal
    | rows.Question
    | rows.Notice
    | Usage
    | State
    | Receipt
    | Tombstone
)

# Every table of rows, by name. A new kind of row is added here, to `Row`, and to `SessionRows`; stores and checks
# follow. A row that the fold reports in a fact is stored without further code.
TABLES: Final[dict[str, type[Any]]] = {
    "sessions": Session,
    "runs": rows.Run,
    "messages": StoredMessage,
    "tool_calls": rows.ToolCall,
    "plans": rows.Plan,
    "permissions": rows.Permission,
    "file_calls": rows.FileCall,
    "terminals": rows.Terminal,
    "questions": rows.Question,
    "notices": rows.Notice,
    "usage": Usage,
    "session_state": State,
    "receipts": Receipt,
    "tombstones": Tombstone,
}
TABLE_NAMES: Final[dict[type[Any], str]] = {type_: name for name, type_ in TABLES.items()}


def row_key(row: Row) -> str:
    """Return the key of a row within its table and session."""
    return row.plan_id or "" if isinstance(row, rows.Plan) else row.id


def row_position(row_id: str) -> int:
    """Return the position of the frame that a row began with, within its session: row ids end with it."""
    _, _, digits = row_id.rpartition("-")
    return int(digits) if digits.isdecimal() else 0


def is_longer_than(value: object, characters: int) -> bool:
    """Return whether a row or any of its values has more characters as JSON, estimated from below. It looks at no more
    values than that."""
    left = characters
    values = [value]
    while values:
        match values.pop():
            case str() | bytes() | msgspec.Raw() as text:
                left -= len(text)
            case msgspec.Struct() as struct:
                values.extend(getattr(struct, name) for name in struct.__struct_fields__)
            case dict() as items:
                left -= 2 * len(items)
                if left >= 0:
                    values.extend(items)
                    values.extend(items.values())
            case list() | tuple() as items:
                left -= 2 * len(items)
                if left >= 0:
                    values.extend(items)
            case _:
                left -= 1
        if left < 0:
            return True
    return False


class SessionRows(msgspec.Struct, frozen=True, kw_only=True):
    """All rows of a session, each table in the order in which its rows were first seen. `sessions` has one, or none."""

    sessions: Sequence[Session] = ()
    runs: Sequence[rows.Run] = ()
    messages: Sequence[StoredMessage] = ()
    tool_calls: Sequence[rows.ToolCall] = ()
    plans: Sequence[rows.Plan] = ()
    permissions: Sequence[rows.Permission] = ()
    file_calls: Sequence[rows.FileCall] = ()
    terminals: Sequence[rows.Terminal] = ()
    questions: Sequence[rows.Question] = ()
    notices: Sequence[rows.Notice] = ()
    usage: Sequence[Usage] = ()
    session_state: Sequence[State] = ()
    receipts: Sequence[Receipt] = ()
    tombstones: Sequence[Tombstone] = ()


class SessionSummary(msgspec.Struct, frozen=True):
    """The few rows of a session that lists and sums need, without its messages and tool calls.

    `usage` has an entry for each run whose agent reported a figure.
    """

    runs: Sequence[rows.Run] = ()
    usage: Sequence[Usage] = ()
    state: State | None = None


class MessagePart(msgspec.Struct, frozen=True):
    """Text and blocks that an unfinished message got since the last commit."""

    message_id: str
    text: str
    blocks: tuple[ContentBlock, ...] = ()


DocumentKind: TypeAlias = Literal["user", "assistant", "thought", "tool", "file", "command"]


class SearchDocument(msgspec.Struct, frozen=True):
    """A text that can be searched. `text` is None where it is the text of the message with that id."""

    row_id: str
    kind: DocumentKind
    at: float
    text: str | None = None


class RowChanges(msgspec.Struct, frozen=True):
    """The changes of rows by the frames after `previous_position`, up to `position`.

    They say nothing about earlier frames: on rows that lack some of these, the result is stale.
    """

    session_id: str
    position: int  # frames of the session so far
    puts: Sequence[Row] = ()
    removed: Sequence[tuple[str, str]] = ()  # table and key
    parts: Sequence[MessagePart] = ()
    documents: Sequence[SearchDocument] = ()  # texts that became searchable
    previous_position: int = 0


class RowStore:
    """The rows of one session in memory, as any store reads them back."""

    def __init__(self) -> None:
        self.tables: dict[str, dict[str, Row]] = {name: {} for name in TABLES}
        self.parts: dict[str, list[MessagePart]] = {}
        self.position = 0  # frames of the session that are in these rows

    def apply(self, changes: RowChanges) -> None:
        for table, key in changes.removed:
            self.tables[table].pop(key, None)
        for row in changes.puts:
            self.tables[TABLE_NAMES[type(row)]][row_key(row)] = row
            if isinstance(row, StoredMessage) and row.ended:
                self.parts.pop(row.id, None)
        for part in changes.parts:
            self.parts.setdefault(part.message_id, []).append(part)
        self.position = changes.position

    def read(self) -> SessionRows:
        tables: dict[str, Sequence[Any]] = {name: list(rows.values()) for name, rows in self.tables.items()}
        tables["messages"] = [self._with_parts(message) for message in tables["messages"]]
        return SessionRows(**tables)

    def _with_parts(self, message: StoredMessage) -> StoredMessage:
        parts = self.parts.get(message.id)
        if parts is None:
            return message
        blocks = tuple(block for part in parts for block in part.blocks)
        return msgspec.structs.replace(message, text="".join(part.text for part in parts), blocks=blocks)
