"""Rows as they cross the socket: snake_case throughout, and typed, so that the page's types are made of these.

Only `raw_input`, `raw_output`, `meta` and JSON Schemas are carried as the agent wrote them. What a row has too much of
(the output of a tool that printed a file of ten megabytes) is cut, and says so in `cut`; `session.row` gives it whole.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec


class Out(msgspec.Struct, frozen=True, kw_only=True):
    """What the server sends. Every field is always there."""


# -- content


class TextBlock(Out, tag_field="type", tag="text", frozen=True, kw_only=True):
    text: str


class ImageBlock(Out, tag_field="type", tag="image", frozen=True, kw_only=True):
    mime_type: str
    data: str  # base64
    uri: str | None = None


class AudioBlock(Out, tag_field="type", tag="audio", frozen=True, kw_only=True):
    mime_type: str
    data: str


class ResourceBlock(Out, tag_field="type", tag="resource", frozen=True, kw_only=True):
    """A file or the like, with its content: `text`, or `blob` in base64."""

    uri: str
    mime_type: str | None = None
    text: str | None = None
    blob: str | None = None


class LinkBlock(Out, tag_field="type", tag="resource_link", frozen=True, kw_only=True):
    uri: str
    name: str
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    size: int | None = None


class UnknownBlock(Out, tag_field="type", tag="unknown", frozen=True, kw_only=True):
    """Content of a kind that is not known here."""

    kind: str


Block: TypeAlias = TextBlock | ImageBlock | AudioBlock | ResourceBlock | LinkBlock | UnknownBlock


class ContentItem(Out, tag_field="type", tag="content", frozen=True, kw_only=True):
    content: Block


class DiffItem(Out, tag_field="type", tag="diff", frozen=True, kw_only=True):
    """`old_text` is None for a file that is new."""

    path: str
    old_text: str | None
    new_text: str


class TerminalItem(Out, tag_field="type", tag="terminal", frozen=True, kw_only=True):
    terminal_id: str


ToolContent: TypeAlias = ContentItem | DiffItem | TerminalItem


class Location(Out, frozen=True, kw_only=True):
    path: str
    line: int | None = None


class Cost(Out, frozen=True, kw_only=True):
    amount: float
    currency: str


class Usage(Out, frozen=True, kw_only=True):
    """Figures as the agent reported them; None is "not reported"."""

    input_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None
    thought_tokens: int | None = None
    total_tokens: int | None = None
    context_used: int | None = None
    context_size: int | None = None
    cost: Cost | None = None


# -- rows. Each tells its table; `place` orders all rows of a session among each other.

RunStatus: TypeAlias = Literal["running", "success", "cancelled", "error", "interrupted"]


class Problem(Out, frozen=True, kw_only=True):
    """What went wrong, for a person. `kind` is the error's own name, `guidance` what can be done now."""

    kind: str
    category: str
    message: str
    guidance: str = ""
    stderr: str = ""
    actions: tuple[str, ...] = ()  # of login, restart, restart_and_reload, install, settings
    install: str | None = None  # the line that installs what is missing


class Run(Out, tag_field="table", tag="runs", frozen=True, kw_only=True):
    id: str
    place: int
    time: float
    status: RunStatus
    stop_reason: str | None = None
    reason: str | None = None  # why it was cut, or what the agent's error said
    cancel_requested: bool = False
    usage: Usage | None = None
    ended_time: float | None = None


class Message(Out, tag_field="table", tag="messages", frozen=True, kw_only=True):
    id: str
    place: int
    kind: Literal["user", "assistant", "thought"]
    run_id: str | None
    time: float
    replayed: bool
    text: str
    blocks: tuple[Block, ...]
    ended: bool


class ToolCall(Out, tag_field="table", tag="tool_calls", frozen=True, kw_only=True):
    id: str
    place: int
    tool_call_id: str
    run_id: str | None
    time: float
    replayed: bool
    title: str
    name: str | None
    kind: str  # read, edit, delete, move, search, execute, think, fetch, switch_mode, other
    status: str  # pending, in_progress, completed, failed
    content: tuple[ToolContent, ...]
    locations: tuple[Location, ...]
    raw_input: Any
    raw_output: Any
    parent_id: str | None  # the agent's id of the tool call whose sub-agent made this one
    ended_time: float | None
    output: str | None  # the end of what a command of the agent's own wrote, where it tells that
    truncated: bool  # it wrote more than that
    exit_code: int | None
    signal: str | None
    cut: bool = False  # some of it was left out; `session.row` gives it whole


class PlanEntry(Out, frozen=True, kw_only=True):
    content: str
    priority: str
    status: str


class Plan(Out, tag_field="table", tag="plans", frozen=True, kw_only=True):
    id: str  # empty for the one plan of most agents
    entries: tuple[PlanEntry, ...]
    markdown: str | None = None
    uri: str | None = None


class Option(Out, frozen=True, kw_only=True):
    """An answer that the agent offers. `kind`: allow_once, allow_always, reject_once or reject_always."""

    option_id: str
    name: str
    kind: str


class Decision(Out, frozen=True, kw_only=True):
    """How something that the agent asked was decided: by a rule, a person, a default, a time limit."""

    decision: str | None = None
    decided_by: str | None = None
    reason: str | None = None
    rule: str | None = None
    layer: str | None = None
    remembered: tuple[str, ...] = ()


class Permission(Out, tag_field="table", tag="permissions", frozen=True, kw_only=True):
    id: str
    place: int
    run_id: str | None
    time: float
    options: tuple[Option, ...]
    origin: str  # agent, files or terminals
    tool_call_row: str | None
    tool_call_id: str | None
    title: str
    kind: str
    content: tuple[ToolContent, ...]
    locations: tuple[Location, ...]
    raw_input: Any
    outcome: Literal["pending", "selected", "cancelled", "failed"]
    option_id: str | None
    resolved_time: float | None
    decided: Decision
    cut: bool = False


class FileCall(Out, tag_field="table", tag="file_calls", frozen=True, kw_only=True):
    """A file that the agent read or wrote through us, or wanted to."""

    id: str
    place: int
    run_id: str | None
    time: float
    operation: Literal["read", "write"]
    path: str
    line: int | None
    limit: int | None
    status: str
    size: int | None
    diff: DiffItem | None
    error: str | None
    ended_time: float | None
    decided: Decision
    cut: bool = False


class Terminal(Out, tag_field="table", tag="terminals", frozen=True, kw_only=True):
    """A command that the agent ran through us. Its output while it runs: the stream `terminal`, by `terminal_id`."""

    id: str
    place: int
    run_id: str | None
    time: float
    command: str
    args: tuple[str, ...]
    cwd: str | None
    terminal_id: str | None
    status: str
    exit_code: int | None
    signal: str | None
    output: str | None
    output_bytes: int | None
    truncated: bool
    error: str | None
    ended_time: float | None
    decided: Decision


class Question(Out, tag_field="table", tag="questions", frozen=True, kw_only=True):
    """What the agent asked the user. `schema` is the JSON Schema of the form, as the agent wrote it."""

    id: str
    place: int
    run_id: str | None
    time: float
    mode: str  # form or url
    message: str
    tool_call_id: str | None
    schema: Any
    url: str | None
    action: str  # pending, accept, decline, cancel or failed
    content: Any
    answered_time: float | None
    completed_time: float | None
    decided: Decision


class Notice(Out, tag_field="table", tag="notices", frozen=True, kw_only=True):
    """Something that the agent tells of itself: a notice, or that it compacts what it remembers."""

    id: str
    place: int
    run_id: str | None
    time: float
    kind: Literal["notice", "compaction"]
    severity: str
    title: str
    text: str | None
    status: str | None
    ended_time: float | None


class Choice(Out, frozen=True, kw_only=True):
    value: str
    name: str
    description: str | None = None


class Setting(Out, frozen=True, kw_only=True):
    """Something the session can be switched between. `category`: mode, model, thought_level, or the agent's own."""

    id: str
    name: str
    category: str | None
    current: str | bool | None
    choices: tuple[Choice, ...]


class Command(Out, frozen=True, kw_only=True):
    """A slash command that the agent offers."""

    name: str
    description: str
    hint: str | None = None


class SubAgent(Out, frozen=True, kw_only=True):
    session_id: str
    title: str | None = None
    description: str | None = None
    state: str | None = None


class State(Out, frozen=True, kw_only=True):
    """What a session is set to now."""

    title: str | None = None
    commands: tuple[Command, ...] = ()
    settings: tuple[Setting, ...] = ()
    sub_agents: tuple[SubAgent, ...] = ()
    usage: Usage = Usage()


Table: TypeAlias = Literal[
    "runs", "messages", "tool_calls", "plans", "permissions", "file_calls", "terminals", "questions", "notices"
]
Row: TypeAlias = Run | Message | ToolCall | Plan | Permission | FileCall | Terminal | Question | Notice


class Rows(Out, frozen=True, kw_only=True):
    """Each table in the order of `place`."""

    runs: tuple[Run, ...] = ()
    messages: tuple[Message, ...] = ()
    tool_calls: tuple[ToolCall, ...] = ()
    plans: tuple[Plan, ...] = ()
    permissions: tuple[Permission, ...] = ()
    file_calls: tuple[FileCall, ...] = ()
    terminals: tuple[Terminal, ...] = ()
    questions: tuple[Question, ...] = ()
    notices: tuple[Notice, ...] = ()


# -- sessions

Connection: TypeAlias = Literal["none", "starting", "connected", "disconnected", "error", "elsewhere", "watched"]
Status: TypeAlias = Literal["idle", "running", "waiting", "error"]


class Abilities(Out, frozen=True, kw_only=True):
    """What the session's agent can do, and what it says it is; all False while it is not connected."""

    load: bool = False
    resume: bool = False
    fork: bool = False
    close: bool = False
    image: bool = False
    audio: bool = False
    embedded_context: bool = False
    steering: bool = False
    list: bool = False
    delete: bool = False
    additional_directories: bool = False
    system_prompt: bool = False
    mcp_http: bool = False
    mcp_sse: bool = False
    logout: bool = False
    protocol_version: int = 0
    agent_name: str | None = None
    agent_version: str | None = None


class Queued(Out, frozen=True, kw_only=True):
    """A prompt that waits for its turn."""

    id: str
    text: str
    attachments: tuple[str, ...] = ()  # what goes with it, in words
    time: float


class Live(Out, frozen=True, kw_only=True):
    """How it stands with a session right now.

    `connection`: `none` for a session that nobody has open, `elsewhere` for one that another process has, `watched` for
    one in which an agent is at work that Dragoman did not start, as far as its transcript tells. `reason` says in words
    why it is as it is, and `problem` what went wrong, with the agent's last lines on stderr.
    """

    connection: Connection = "none"
    status: Status = "idle"
    reason: str = ""
    problem: Problem | None = None
    abilities: Abilities = Abilities()
    queue: tuple[Queued, ...] = ()
    continuable: bool = False  # it is known how it could be continued
    policy_notice: str | None = None  # why the workspace's own rules do not count


class SessionItem(Out, frozen=True, kw_only=True):
    """A session as lists show it. `status` is that of its last run; `waiting` what waits for a person."""

    id: str
    agent: str
    title: str | None
    prompt: str
    cwd: str
    created: float
    updated: float
    runs: int
    frames: int
    run_status: RunStatus | None
    connection: Connection
    status: Status
    waiting: int
    imported: bool
    agent_session_id: str = ""  # the agent's own id: what its sub-agents are named by in `State`
    parent: str | None = None  # the session that this one is a sub-agent of; it need not be here


class Waiting(Out, frozen=True, kw_only=True):
    """Something that waits for a person: a permission or a question, and the session it is of."""

    session: SessionItem
    permission: Permission | None = None
    question: Question | None = None


class Frame(Out, frozen=True, kw_only=True):
    """A frame as it went over the wire. `frame` is its own bytes as text.

    One of the kind `hidden` is not shown, and has none: it is there so that who counts the frames counts it too.
    """

    cursor: str
    connection_id: str
    n: int
    at: float
    origin: str
    kind: str
    frame: str


class AgentItem(Out, frozen=True, kw_only=True):
    """An agent that could be started here."""

    id: str
    name: str
    description: str
    state: str  # installed, downloads, missing
    version: str | None
    path: str | None
    command: str
    args: tuple[str, ...]
    env: tuple[str, ...]  # names alone
    has_key: bool
    own: bool  # made or changed by the user
    default: bool
    problem: str | None
    hint: str | None
    install: str | None
    note: str | None
    website: str | None
