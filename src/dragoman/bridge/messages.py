"""What server and client say to each other on the socket `/v1/socket`: JSON texts, each with a `type`.

The server greets with `hello`. The client subscribes to streams, and gets for each a `snapshot`, then `update`s, each
with a cursor; who comes back with the last cursor gets what came since. What the client wants done is a control: a
message with an `id`, answered once, to its sender alone, by a `result` or an `error` with that id. A control that
changes something takes a `command_id`: sent twice, it is done once, and answered twice.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from dragoman.bridge.payload import (
    AgentItem,
    Block,
    Frame,
    Live,
    Out,
    Row,
    Rows,
    SessionItem,
    State,
    Table,
    Terminal,
    Waiting,
)

# Raised when an old page or program could not go on with what the server says.
PROTOCOL = 1

Scope: TypeAlias = Literal["view", "prompt", "admin"]
Stream: TypeAlias = Literal["sessions", "session", "permissions", "terminal", "agents"]


# -- from the server


class Limits(Out, frozen=True, kw_only=True):
    message_bytes: int
    messages_per_second: int
    subscriptions: int


class Hello(Out, tag_field="type", tag="hello", frozen=True, kw_only=True):
    """The first message. `scope` is what the client's token allows; `cursor` the end of the journal now."""

    version: str
    protocol: int
    journal: str
    cursor: str
    scope: Scope
    capabilities: tuple[str, ...]
    limits: Limits
    time: float


class SessionsSnapshot(Out, tag_field="type", tag="snapshot", frozen=True, kw_only=True):
    """The sessions with the latest first; `more` when there are older ones (`session.list`)."""

    stream: Literal["sessions"] = "sessions"
    cursor: str
    sessions: tuple[SessionItem, ...]
    more: bool


class SessionsUpdate(Out, tag_field="type", tag="update", frozen=True, kw_only=True):
    stream: Literal["sessions"] = "sessions"
    cursor: str
    changed: tuple[SessionItem, ...]
    removed: tuple[str, ...] = ()


class SessionSnapshot(Out, tag_field="type", tag="snapshot", frozen=True, kw_only=True):
    """`resumed`: what the client has is still right, and what came since follows; `rows` and `state` are empty then,
    and do not count.

    `more`: there are older rows than these (`session.history`, with `before`).
    """

    stream: Literal["session"] = "session"
    id: str
    cursor: str
    resumed: bool
    session: SessionItem
    live: Live
    state: State
    rows: Rows
    more: bool
    before: int


class Put(Out, tag_field="op", tag="put", frozen=True, kw_only=True):
    """The row is now this: a new one, or another state of one that is known by its id."""

    row: Row


class Remove(Out, tag_field="op", tag="remove", frozen=True, kw_only=True):
    table: Table
    id: str


class Append(Out, tag_field="op", tag="append", frozen=True, kw_only=True):
    """More of a message that goes on. A message that ended is `put` as a whole."""

    message_id: str
    text: str
    blocks: tuple[Block, ...] = ()


class PutSession(Out, tag_field="op", tag="session", frozen=True, kw_only=True):
    session: SessionItem


class PutState(Out, tag_field="op", tag="state", frozen=True, kw_only=True):
    state: State


class PutLive(Out, tag_field="op", tag="live", frozen=True, kw_only=True):
    live: Live


Change: TypeAlias = Put | Remove | Append | PutSession | PutState | PutLive


class SessionUpdate(Out, tag_field="type", tag="update", frozen=True, kw_only=True):
    stream: Literal["session"] = "session"
    id: str
    cursor: str
    changes: tuple[Change, ...]


class FramesUpdate(Out, tag_field="type", tag="update", frozen=True, kw_only=True):
    """For who subscribed with `frames`: frames in place of rows. The first comes at once, also when there is nothing.

    `live` is there when it is otherwise than it was last told: it is how it stood when these frames were there.
    """

    stream: Literal["session"] = "session"
    id: str
    cursor: str
    frames: tuple[Frame, ...]
    live: Live | None = None
    more: bool = False  # more that is stored follows


class PermissionsSnapshot(Out, tag_field="type", tag="snapshot", frozen=True, kw_only=True):
    """All that waits for a person, in all sessions; the oldest first."""

    stream: Literal["permissions"] = "permissions"
    cursor: str
    waiting: tuple[Waiting, ...]


class PermissionsUpdate(Out, tag_field="type", tag="update", frozen=True, kw_only=True):
    """All that waits now, in place of what was told before."""

    stream: Literal["permissions"] = "permissions"
    cursor: str
    waiting: tuple[Waiting, ...]


class TerminalSnapshot(Out, tag_field="type", tag="snapshot", frozen=True, kw_only=True):
    """`id` is `<session id>/<terminal id>`. `data` is what it wrote, in base64, from `offset` on; what came before is
    gone. The cursor is the offset after it."""

    stream: Literal["terminal"] = "terminal"
    id: str
    cursor: str
    offset: int
    data: str
    terminal: Terminal | None
    typable: bool  # `terminal.input` reaches it
    ended: bool


class TerminalUpdate(Out, tag_field="type", tag="update", frozen=True, kw_only=True):
    stream: Literal["terminal"] = "terminal"
    id: str
    cursor: str
    offset: int
    data: str
    ended: bool


class AgentsSnapshot(Out, tag_field="type", tag="snapshot", frozen=True, kw_only=True):
    stream: Literal["agents"] = "agents"
    cursor: str
    agents: tuple[AgentItem, ...]


class AgentsUpdate(Out, tag_field="type", tag="update", frozen=True, kw_only=True):
    """All agents, in place of what was told before."""

    stream: Literal["agents"] = "agents"
    cursor: str
    agents: tuple[AgentItem, ...]


class Ended(Out, tag_field="type", tag="ended", frozen=True, kw_only=True):
    """A stream is over, and not because the client wanted it: the session was deleted, or it could not be followed. Who
    unsubscribes is told nothing more of it, this neither.

    `kind`: of the error, where it is one (`ErrorBody`).
    """

    stream: Stream
    id: str
    reason: str
    kind: str | None = None


class Result(Out, tag_field="type", tag="result", frozen=True, kw_only=True):
    """The answer to a control that was done. What `result` holds is the control's own."""

    id: str
    result: Any


class ErrorBody(Out, frozen=True, kw_only=True):
    """`kind` is for programs, `message` and `guidance` for people; `field` names what is wrong in the request.

    `error` is the own name of the error that it was, where it was one, and `stderr` the agent's last lines on it.
    """

    kind: str
    message: str
    guidance: str = ""
    field: str | None = None
    retry_after: float | None = None
    error: str | None = None
    stderr: str = ""


class Failure(Out, tag_field="type", tag="error", frozen=True, kw_only=True):
    """The answer to a control that was not done; `id` is None where the message could not be read at all."""

    id: str | None
    error: ErrorBody


class Pong(Out, tag_field="type", tag="pong", frozen=True, kw_only=True):
    time: float


SNAPSHOTS: tuple[type[Out], ...] = (
    SessionsSnapshot,
    SessionSnapshot,
    PermissionsSnapshot,
    TerminalSnapshot,
    AgentsSnapshot,
)
UPDATES: tuple[type[Out], ...] = (
    SessionsUpdate,
    SessionUpdate,
    FramesUpdate,
    PermissionsUpdate,
    TerminalUpdate,
    AgentsUpdate,
)
FROM_SERVER: tuple[type[Out], ...] = (Hello, *SNAPSHOTS, *UPDATES, Ended, Result, Failure, Pong)
