"""Messages from the server on the socket `/v1/socket`: JSON objects, each with a `type`.

The server begins with `hello`. A client subscribes to streams and gets a `snapshot` of each, then `update`s, each
with a cursor; a client that comes back with its last cursor gets what it missed. Each request of a client is answered
once, to that client alone, by a `result` or an `error` with the request's `id`. A request that changes something may
carry a `command_id`: sent twice, it is carried out once and answered twice.
"""

from __future__ import annotations

from typing import Any, Final, Literal, TypeAlias

import msgspec

from dragoman.protocol.models import (
    AgentItem,
    Block,
    Frame,
    Model,
    PendingItem,
    Row,
    Rows,
    SessionDetails,
    SessionItem,
    SessionState,
    Table,
    Terminal,
)

# Raised whenever an older page or program could not understand the server any more.
PROTOCOL: Final = 1

Scope: TypeAlias = Literal["view", "prompt", "admin"]

# Each scope includes those before it.
SCOPES: Final[tuple[Scope, ...]] = ("view", "prompt", "admin")

Stream: TypeAlias = Literal["sessions", "session", "permissions", "terminal", "agents"]


def includes(scope: Scope, needed: Scope) -> bool:
    """Return whether a client with this scope may do what needs the other one."""
    return SCOPES.index(scope) >= SCOPES.index(needed)


class SocketLimits(Model, frozen=True, kw_only=True):
    message_bytes: int
    messages_per_second: int
    subscriptions: int


class Hello(Model, tag_field="type", tag="hello", frozen=True, kw_only=True):
    """The first message. `scope` is the scope of the client's token; `cursor` the current end of the journal."""

    version: str
    protocol: int
    journal: str
    cursor: str
    scope: Scope
    capabilities: tuple[str, ...]
    limits: SocketLimits
    time: float


class SessionsSnapshot(Model, tag_field="type", tag="snapshot", frozen=True, kw_only=True):
    """The latest sessions, newest first; `more` when there are older ones (`session.list`)."""

    stream: Literal["sessions"] = "sessions"
    cursor: str
    sessions: tuple[SessionItem, ...]
    more: bool


class SessionsUpdate(Model, tag_field="type", tag="update", frozen=True, kw_only=True):
    stream: Literal["sessions"] = "sessions"
    cursor: str
    changed: tuple[SessionItem, ...]
    removed: tuple[str, ...] = ()


class SessionSnapshot(Model, tag_field="type", tag="snapshot", frozen=True, kw_only=True):
    """A session with its newest rows.

    `resumed`: the client's rows are still valid and updates follow from its cursor; `rows` and `details` are empty and
    to be ignored. `more`: there are rows older than these (`session.history`, with `before`).
    """

    stream: Literal["session"] = "session"
    id: str
    cursor: str
    resumed: bool
    session: SessionItem
    state: SessionState
    details: SessionDetails
    rows: Rows
    more: bool
    before: int


class Put(Model, tag_field="op", tag="put", frozen=True, kw_only=True):
    """A new row, or the new version of the row with this id."""

    row: Row


class Remove(Model, tag_field="op", tag="remove", frozen=True, kw_only=True):
    table: Table
    id: str


class Append(Model, tag_field="op", tag="append", frozen=True, kw_only=True):
    """More text or blocks of a message that has not ended. When it ends it is `put`.

    `shortened`: a part of this was left out, so that nothing can be appended after it until the message is `put`.
    """

    message_id: str
    text: str
    blocks: tuple[Block, ...] = ()
    shortened: bool = False


class PutSession(Model, tag_field="op", tag="session", frozen=True, kw_only=True):
    session: SessionItem


class PutDetails(Model, tag_field="op", tag="details", frozen=True, kw_only=True):
    details: SessionDetails


class PutState(Model, tag_field="op", tag="state", frozen=True, kw_only=True):
    state: SessionState


Change: TypeAlias = Put | Remove | Append | PutSession | PutDetails | PutState


class SessionUpdate(Model, tag_field="type", tag="update", frozen=True, kw_only=True):
    stream: Literal["session"] = "session"
    id: str
    cursor: str
    changes: tuple[Change, ...]


class FramesUpdate(Model, tag_field="type", tag="update", frozen=True, kw_only=True):
    """Frames in place of rows, for a subscription with `frames`. The first one comes at once, even when it is empty.

    `state` is present when it changed since the last update; it belongs to the last of these frames. An update whose
    `after` is not the cursor of the last one belongs to an earlier subscription: the client leaves it out.
    """

    stream: Literal["session"] = "session"
    id: str
    after: str | None = None  # the cursor that it continues from; None at the beginning of the session
    cursor: str
    frames: tuple[Frame, ...]
    state: SessionState | None = None
    more: bool = False  # more stored frames follow


class PermissionsSnapshot(Model, tag_field="type", tag="snapshot", frozen=True, kw_only=True):
    """All permissions and questions that wait for an answer, in all sessions, oldest first."""

    stream: Literal["permissions"] = "permissions"
    cursor: str
    pending: tuple[PendingItem, ...]


class PermissionsUpdate(Model, tag_field="type", tag="update", frozen=True, kw_only=True):
    """The whole list again; it replaces the one before."""

    stream: Literal["permissions"] = "permissions"
    cursor: str
    pending: tuple[PendingItem, ...]


class TerminalSnapshot(Model, tag_field="type", tag="snapshot", frozen=True, kw_only=True):
    """The output of a terminal so far. `id` is `<session id>/<terminal id>`.

    `data` is the output from `offset` on, in base64; earlier output is no longer kept. The cursor is the offset of its
    end.
    """

    stream: Literal["terminal"] = "terminal"
    id: str
    cursor: str
    offset: int
    data: str
    terminal: Terminal | None
    accepts_input: bool  # `terminal.input` works
    ended: bool


class TerminalUpdate(Model, tag_field="type", tag="update", frozen=True, kw_only=True):
    stream: Literal["terminal"] = "terminal"
    id: str
    cursor: str
    offset: int
    data: str
    ended: bool


class AgentsSnapshot(Model, tag_field="type", tag="snapshot", frozen=True, kw_only=True):
    stream: Literal["agents"] = "agents"
    cursor: str
    agents: tuple[AgentItem, ...]


class AgentsUpdate(Model, tag_field="type", tag="update", frozen=True, kw_only=True):
    """The whole list again; it replaces the one before."""

    stream: Literal["agents"] = "agents"
    cursor: str
    agents: tuple[AgentItem, ...]


class StreamEnded(Model, tag_field="type", tag="ended", frozen=True, kw_only=True):
    """The server ended a stream: the session was deleted, or reading it failed. Not sent after `unsubscribe`.

    `kind` is that of the error, if there was one (`ErrorDetails`).
    """

    stream: Stream
    id: str
    reason: str
    kind: str | None = None


class ResultMessage(Model, tag_field="type", tag="result", frozen=True, kw_only=True):
    """The answer to a request that succeeded. The type of `result` depends on the request."""

    id: str
    result: Any


class ErrorDetails(Model, frozen=True, kw_only=True):
    """Why a request failed.

    `kind` is for programs, `message` and `guidance` are for people; `field` names the field that is wrong. `error` is
    the name of the Python exception, where there was one, and `stderr` the agent's last lines. `fields`: of an answer
    that does not fit a form, a message for each invalid field, as the rest of a sentence about the field.
    """

    kind: str
    message: str
    guidance: str = ""
    field: str | None = None
    retry_after: float | None = None  # seconds
    error: str | None = None
    stderr: str = ""
    fields: dict[str, str] = msgspec.field(default_factory=dict)


class ErrorMessage(Model, tag_field="type", tag="error", frozen=True, kw_only=True):
    """The answer to a request that failed; `id` is None where the request could not be read at all."""

    id: str | None
    error: ErrorDetails


class Pong(Model, tag_field="type", tag="pong", frozen=True, kw_only=True):
    time: float


SNAPSHOTS: tuple[type[Model], ...] = (
    SessionsSnapshot,
    SessionSnapshot,
    PermissionsSnapshot,
    TerminalSnapshot,
    AgentsSnapshot,
)
UPDATES: tuple[type[Model], ...] = (
    SessionsUpdate,
    SessionUpdate,
    FramesUpdate,
    PermissionsUpdate,
    TerminalUpdate,
    AgentsUpdate,
)
FROM_SERVER: tuple[type[Model], ...] = (
    Hello,
    *SNAPSHOTS,
    *UPDATES,
    StreamEnded,
    ResultMessage,
    ErrorMessage,
    Pong,
)
