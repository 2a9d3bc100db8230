"""Rows, sessions and agents as clients see them: snake_case throughout, every field always present.

A row has the fields of the journal's row (`record.rows`), which it inherits, plus `table` and `position`. Content that
the agent sent in ACP's camelCase has a model of its own here. Only `raw_input`, `raw_output`, `schema` and `content` of
a question are passed on as the agent wrote them. A row that is too large to be sent as a whole is shortened, and says
so in `shortened`; the request `session.row` returns it in full, and a long message in parts.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from dragoman.record import rows


class Model(msgspec.Struct, frozen=True, kw_only=True):
    """Base of everything that the server sends."""


# -- content


class TextBlock(Model, tag_field="type", tag="text", frozen=True, kw_only=True):
    text: str


class ImageBlock(Model, tag_field="type", tag="image", frozen=True, kw_only=True):
    mime_type: str
    data: str  # base64
    uri: str | None = None


class AudioBlock(Model, tag_field="type", tag="audio", frozen=True, kw_only=True):
    mime_type: str
    data: str


class ResourceBlock(Model, tag_field="type", tag="resource", frozen=True, kw_only=True):
    """A resource with its content: `text`, or `blob` in base64."""

    uri: str
    mime_type: str | None = None
    text: str | None = None
    blob: str | None = None


class LinkBlock(Model, tag_field="type", tag="resource_link", frozen=True, kw_only=True):
    uri: str
    name: str
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    size: int | None = None


class UnknownBlock(Model, tag_field="type", tag="unknown", frozen=True, kw_only=True):
    """Content of a kind that this version does not know."""

    kind: str


Block: TypeAlias = TextBlock | ImageBlock | AudioBlock | ResourceBlock | LinkBlock | UnknownBlock


class ContentItem(Model, tag_field="type", tag="content", frozen=True, kw_only=True):
    content: Block


class DiffItem(Model, tag_field="type", tag="diff", frozen=True, kw_only=True):
    """A change of one file. `old_text` is None for a new file."""

    path: str
    old_text: str | None
    new_text: str


class TerminalItem(Model, tag_field="type", tag="terminal", frozen=True, kw_only=True):
    terminal_id: str


ToolContent: TypeAlias = ContentItem | DiffItem | TerminalItem


class Location(Model, frozen=True, kw_only=True):
    path: str
    line: int | None = None


class Cost(Model, frozen=True, kw_only=True):
    amount: float
    currency: str


class Usage(rows.Usage, frozen=True, kw_only=True, omit_defaults=False):
    """Token counts and cost as the agent reported them; None means "not reported"."""

    cost: Cost | None = None  # type: ignore[assignment]  # in snake_case


class PermissionOption(Model, frozen=True, kw_only=True):
    """An answer that the agent offers. `kind`: allow_once, allow_always, reject_once or reject_always."""

    option_id: str
    name: str
    kind: str


# -- rows. `position` orders all rows of a session.


class Run(Model, tag_field="table", tag="runs", frozen=True, kw_only=True):
    """One prompt until it stops. `reason`: why it was interrupted, or the agent's error message."""

    id: str
    position: int
    time: float
    status: rows.RunStatus
    stop_reason: str | None = None
    reason: str | None = None
    cancel_requested: bool = False
    usage: Usage | None = None
    ended_time: float | None = None
    context: rows.PromptContext | None = None  # the text that went to the agent beside the user's own prompt


class Message(Model, tag_field="table", tag="messages", frozen=True, kw_only=True):
    """A message of the user or the agent. While it has not `ended`, more text may be appended to it.

    Nothing is appended to one that is `shortened`.
    """

    id: str
    position: int
    kind: rows.MessageKind
    run_id: str | None
    time: float
    replayed: bool
    text: str
    blocks: tuple[Block, ...]
    ended: bool
    shortened: bool = False  # part of it was left out; `session.row` returns it in parts


class ToolCall(rows.ToolCall, tag_field="table", tag="tool_calls", frozen=True, kw_only=True):
    """A tool call of the agent.

    `kind`: read, edit, delete, move, search, execute, think, fetch, switch_mode, other. `status`: pending,
    in_progress, completed, failed.
    """

    position: int
    content: tuple[ToolContent, ...]  # type: ignore[assignment]
    locations: tuple[Location, ...]  # type: ignore[assignment]
    shortened: bool = False  # part of it was left out; `session.row` returns it in full


class Plan(Model, tag_field="table", tag="plans", frozen=True, kw_only=True):
    id: str  # empty for the one plan of most agents
    entries: tuple[rows.PlanEntry, ...]
    markdown: str | None = None
    uri: str | None = None
    shortened: bool = False


class Permission(rows.Permission, tag_field="table", tag="permissions", frozen=True, kw_only=True):
    """A question whether the agent may do something. `origin`: agent, files or terminals."""

    position: int
    options: tuple[PermissionOption, ...]  # type: ignore[assignment]
    content: tuple[ToolContent, ...]  # type: ignore[assignment]
    locations: tuple[Location, ...]  # type: ignore[assignment]
    shortened: bool = False


class FileCall(rows.FileCall, tag_field="table", tag="file_calls", frozen=True, kw_only=True):
    """A file that the agent read or wrote through Dragoman, or tried to."""

    position: int
    diff: DiffItem | None = None  # type: ignore[assignment]
    shortened: bool = False


class Terminal(rows.Terminal, tag_field="table", tag="terminals", frozen=True, kw_only=True):
    """A command that the agent ran through Dragoman. The stream `terminal` has its output while it runs."""

    position: int


class FormChoice(Model, frozen=True, kw_only=True):
    value: str
    title: str
    description: str = ""


class FormField(Model, frozen=True, kw_only=True):
    """A field of a form. A choice has `choices`; a text may have a `format`, and a `max_length` in characters."""

    kind: Literal["text", "number", "boolean", "choice", "choices"]
    name: str
    title: str
    description: str
    required: bool
    default: str | float | bool | tuple[str, ...] | None  # the agent's suggestion
    choices: tuple[FormChoice, ...] = ()
    format: str | None = None  # email, uri, date or date-time
    max_length: int | None = None
    whole: bool = False  # of a number


class Form(Model, frozen=True, kw_only=True):
    """The form of a question. `left_out`: properties of unknown kinds; `error`: why no answer can be complete."""

    fields: tuple[FormField, ...]
    left_out: tuple[str, ...] = ()
    error: str | None = None


class Question(rows.Question, tag_field="table", tag="questions", frozen=True, kw_only=True):
    """A question of the agent to the user.

    `form` is the form to fill in, as Dragoman reads `schema`, the JSON Schema that the agent wrote.
    """

    position: int
    schema: Any = None
    content: Any = None
    form: Form | None = None
    shortened: bool = False


class Notice(rows.Notice, tag_field="table", tag="notices", frozen=True, kw_only=True):
    """A notice of the agent, or a compaction of its context."""

    position: int
    shortened: bool = False


class SessionDetails(Model, frozen=True, kw_only=True):
    """The agent's report on the session as a whole: title, slash commands, settings, sub-agents, usage."""

    title: str | None = None
    commands: tuple[rows.Command, ...] = ()
    settings: tuple[rows.Setting, ...] = ()
    sub_agents: tuple[rows.SubAgent, ...] = ()
    usage: Usage = Usage()


Table: TypeAlias = Literal[
    "runs", "messages", "tool_calls", "plans", "permissions", "file_calls", "terminals", "questions", "notices"
]
Row: TypeAlias = Run | Message | ToolCall | Plan | Permission | FileCall | Terminal | Question | Notice


class Rows(Model, frozen=True, kw_only=True):
    """Rows of a session by table, each table ordered by `position`."""

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

ConnectionStatus: TypeAlias = Literal["none", "starting", "connected", "disconnected", "error", "elsewhere", "watched"]
SessionStatus: TypeAlias = Literal["idle", "running", "waiting", "error"]


class SessionFailure(Model, frozen=True, kw_only=True):
    """The failure of a session, for a person. `kind` is the name of the error, `guidance` what to do about it."""

    kind: str
    category: str
    message: str
    guidance: str = ""
    stderr: str = ""  # the agent's last lines
    actions: tuple[str, ...] = ()  # of login, restart, restart_and_reload, install, settings
    install: str | None = None  # the command that installs what is missing


SandboxMechanism: TypeAlias = Literal["bubblewrap", "landlock", "seatbelt"]


class SandboxReport(Model, frozen=True, kw_only=True):
    """The confinement of an agent by a sandbox, and what it leaves open: each item is a phrase for people.

    `network`: `open`, `off`, or `hosts`, of which only the listed ones can be reached.
    """

    mechanism: SandboxMechanism
    version: str = ""
    network: Literal["open", "off", "hosts"] = "open"
    hosts: tuple[str, ...] = ()
    writable: tuple[str, ...] = ()
    confined: tuple[str, ...] = ()
    not_confined: tuple[str, ...] = ()


class AgentCapabilities(Model, frozen=True, kw_only=True):
    """The capabilities, name and version that the session's agent announced; all False while it is not connected."""

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
    sandbox: SandboxReport | None = None  # what confines the agent; None without a sandbox


class QueuedPrompt(Model, frozen=True, kw_only=True):
    """A prompt in the session's queue."""

    id: str
    text: str
    attachments: tuple[str, ...] = ()  # a short description of each
    time: float


class SessionState(Model, frozen=True, kw_only=True):
    """The state of a session that is not in the journal: connection, queue, last failure.

    `connection`: `none` while no process has the session open, `elsewhere` while another process has it open,
    `watched` while an agent that Dragoman did not start writes its transcript. `reason` explains the state in words.
    """

    connection: ConnectionStatus = "none"
    status: SessionStatus = "idle"
    reason: str = ""
    failure: SessionFailure | None = None
    capabilities: AgentCapabilities = AgentCapabilities()
    queue: tuple[QueuedPrompt, ...] = ()
    can_resume: bool = False
    policy_notice: str | None = None  # why the workspace's own rules do not apply
    worktree: str | None = None  # the name of the git worktree that it works in


class SessionItem(Model, frozen=True, kw_only=True):
    """A session as lists show it. `run_status` is the status of its last run."""

    id: str
    agent: str
    title: str | None
    prompt: str
    cwd: str
    created: float
    updated: float
    runs: int
    frames: int
    run_status: rows.RunStatus | None
    connection: ConnectionStatus
    status: SessionStatus
    pending: int  # permissions and questions that wait for an answer
    imported: bool
    agent_session_id: str = ""  # the agent's own id, by which `SessionDetails.sub_agents` names sub-agents
    parent: str | None = None  # id of the session whose sub-agent this is; it may be missing here, or unknown (empty)
    is_sub_agent: bool = False  # lists leave it out
    forked_from: str | None = None  # id of the session that this one began as a copy of; it need not be in this journal
    worktree: str | None = None  # the name of the git worktree that it works in


class PendingItem(Model, frozen=True, kw_only=True):
    """A permission or a question that waits for an answer, with its session."""

    session: SessionItem
    permission: Permission | None = None
    question: Question | None = None


class Frame(Model, frozen=True, kw_only=True):
    """A JSON-RPC message between Dragoman and the agent. `frame` is its bytes as text.

    A frame of kind `hidden` has an empty text: it is only sent so that clients can count frames.
    """

    cursor: str
    connection_id: str
    n: int
    at: float
    origin: str
    kind: str
    frame: str


class AgentItem(Model, frozen=True, kw_only=True):
    """An agent that this server knows."""

    id: str
    name: str
    description: str
    state: str  # installed, downloads, missing
    version: str | None
    path: str | None
    command: str
    args: tuple[str, ...]
    env: tuple[str, ...]  # names only
    has_key: bool
    is_custom: bool  # added or changed by the user
    default: bool
    error: str | None
    hint: str | None
    install: str | None
    note: str | None
    website: str | None


# -- isolation


class IsolationReport(Model, frozen=True, kw_only=True):
    """The folders that an isolated agent has of its own, and names of what it got of the user's; never values."""

    home: str | None  # its HOME; None for the user's
    temporary_folder: str | None
    variables: tuple[str, ...]  # the names of all variables that it was started with
    login: tuple[str, ...]  # the files of its login, relative to its HOME
    problems: tuple[str, ...] = ()  # what could not be copied, and why
