"""Results: what the server answers to a client's requests."""

from __future__ import annotations

from typing import Literal

from dragoman._version import __version__
from dragoman.protocol.checkpoints import Checkpoint
from dragoman.protocol.messages import ErrorDetails, Scope
from dragoman.protocol.models import (
    AgentItem,
    DiffItem,
    Model,
    Row,
    Rows,
    SessionItem,
    SessionState,
    Terminal,
    Usage,
)
from dragoman.protocol.worktrees import Leftover, WorktreeInfo
from dragoman.record import rows


class Done(Model, frozen=True, kw_only=True):
    """The result of requests that return nothing."""


class SessionOpened(Model, frozen=True, kw_only=True):
    """An open session and its state, which has the agent's capabilities."""

    session_id: str
    state: SessionState


class PromptAccepted(Model, frozen=True, kw_only=True):
    """The run that began, or the id of the prompt in the queue.

    `how`: started, queued, steered, or cancelled_first (the agent cannot be steered, so its run was cancelled).
    """

    run_id: str | None = None
    queued_id: str | None = None
    how: Literal["started", "queued", "steered", "cancelled_first"] = "started"


class Worktrees(Model, frozen=True, kw_only=True):
    worktrees: tuple[WorktreeInfo, ...]


class Leftovers(Model, frozen=True, kw_only=True):
    leftovers: tuple[Leftover, ...]


class ExportedSession(Model, frozen=True, kw_only=True):
    file_name: str
    mime_type: str
    text: str


class SessionPage(Model, frozen=True, kw_only=True):
    sessions: tuple[SessionItem, ...]
    more: bool


class HistoryPage(Model, frozen=True, kw_only=True):
    rows: Rows
    more: bool
    before: int


class FullRow(Model, frozen=True, kw_only=True):
    row: Row


class ChangedFile(Model, frozen=True, kw_only=True):
    """A file that the session changed. `added` and `removed` count lines over all its changes."""

    path: str
    added: int
    removed: int
    created: bool  # it did not exist before
    changes: int
    position: int  # of the last change


class RunChanges(Model, frozen=True, kw_only=True):
    """The number of files that a run changed, and of lines that it added and removed."""

    run_id: str
    files: int
    added: int
    removed: int


class ChangesSummary(Model, frozen=True, kw_only=True):
    """The files that a session changed and the commands that it ran.

    `files`: the one that was changed last comes first. `runs`: those that changed files, in their order. `terminals`:
    in their order and without output, which `session.row` returns. `more_…`: how many earlier ones are not listed.
    """

    files: tuple[ChangedFile, ...]
    more_files: int
    runs: tuple[RunChanges, ...]
    terminals: tuple[Terminal, ...]
    more_terminals: int


class FileDiffs(Model, frozen=True, kw_only=True):
    """The changes of one file, in their order. `more`: how many earlier ones were left out for their length."""

    diffs: tuple[DiffItem, ...]
    more: int


class Checkpoints(Model, frozen=True, kw_only=True):
    checkpoints: tuple[Checkpoint, ...]


class WorkspaceItem(Model, frozen=True, kw_only=True):
    cwd: str
    sessions: int
    updated: float
    trusted: bool | None  # None: it has no rules of its own
    notice: str | None = None


class RecentWorkspaces(Model, frozen=True, kw_only=True):
    workspaces: tuple[WorkspaceItem, ...]
    home: str


class WorkspaceTrusted(Model, frozen=True, kw_only=True):
    trusted: bool | None
    notice: str | None = None


class AnswerResult(Model, frozen=True, kw_only=True):
    """`accepted` is False when another answer came first or the question was withdrawn: this answer had no effect."""

    accepted: bool


class RuleItem(Model, frozen=True, kw_only=True):
    """A rule as text. `layer` says where it is defined; only rules with an `id` can be revoked by a client."""

    id: str | None
    answer: str
    text: str
    layer: str
    source: str
    workspace: str | None = None
    at: float | None = None


class PolicyRules(Model, frozen=True, kw_only=True):
    access: str
    rules: tuple[RuleItem, ...]
    notice: str | None = None


class RulePreview(Model, frozen=True, kw_only=True):
    """The rules that "always" would create, as text; `error` says why where there are none.

    `only_files` are those for the files of the request alone; empty where `rules` go no further.
    """

    rules: tuple[str, ...]
    only_files: tuple[str, ...] = ()
    error: str = ""


class SkillItem(Model, frozen=True, kw_only=True):
    """A skill. `problem`: why it cannot be used; `notice`: what its author should correct. `size` is in bytes.

    `kind`: skill (a folder with a SKILL.md), document or script. `place`: workspace or user. `state`: always, listed or
    off. No skill is run by Dragoman.
    """

    name: str
    description: str
    path: str
    folder: str
    place: Literal["workspace", "user"]
    kind: Literal["skill", "document", "script"]
    state: Literal["always", "listed", "off"]
    size: int
    license: str = ""
    compatibility: str = ""
    allowed_tools: str = ""
    problem: str = ""
    notice: str = ""


class TemplateItem(Model, frozen=True, kw_only=True):
    """A prompt template, called by `/name`. `hint` describes its arguments; `problem`: why it cannot be used."""

    name: str
    description: str
    hint: str
    path: str
    place: Literal["workspace", "user"]
    problem: str = ""


class KnownSkills(Model, frozen=True, kw_only=True):
    """`budget`: the bytes of skills that go with a prompt at most."""

    skills: tuple[SkillItem, ...]
    templates: tuple[TemplateItem, ...]
    budget: int


class KnownAgents(Model, frozen=True, kw_only=True):
    agents: tuple[AgentItem, ...]


class LoginMethod(Model, frozen=True, kw_only=True):
    id: str
    name: str
    description: str
    kind: str
    command: str | None = None  # the command line of a login in a terminal


class AgentTestResult(Model, frozen=True, kw_only=True):
    """`ok`, or what failed and what to do about it."""

    ok: bool
    name: str | None = None
    version: str | None = None
    message: str = ""
    guidance: str = ""
    stderr: str = ""
    methods: tuple[LoginMethod, ...] = ()


class LoginResult(Model, frozen=True, kw_only=True):
    methods: tuple[LoginMethod, ...]
    done: bool = False
    message: str = ""


class TokenItem(Model, frozen=True, kw_only=True):
    id: str
    name: str
    scope: Scope
    created: float
    used: float | None
    current: bool  # this client uses it


class KnownTokens(Model, frozen=True, kw_only=True):
    tokens: tuple[TokenItem, ...]


class TokenCreated(Model, frozen=True, kw_only=True):
    """A new token. `token` is the secret itself, which the server does not store."""

    token: str
    item: TokenItem


class SearchHit(Model, frozen=True, kw_only=True):
    """A row that matches. `marks` are the matches within the snippet, each as start and end."""

    session: SessionItem
    row_id: str
    kind: str
    at: float
    snippet: str
    marks: tuple[tuple[int, int], ...]


class SearchHits(Model, frozen=True, kw_only=True):
    """The best matches first. `is_cut`: there are more than these."""

    hits: tuple[SearchHit, ...]
    is_cut: bool = False


class UsageSum(Model, frozen=True, kw_only=True):
    """Token counts and cost of some runs. `reported`: for how many of the runs each figure was reported."""

    key: str | None
    runs: int
    input_tokens: int | None
    cached_tokens: int | None
    output_tokens: int | None
    thought_tokens: int | None
    total_tokens: int | None
    cost: dict[str, float]
    reported: dict[str, int]


class UsageReport(Model, frozen=True, kw_only=True):
    by: str
    sums: tuple[UsageSum, ...]
    total: UsageSum


class FileMatches(Model, frozen=True, kw_only=True):
    """Paths within the workspace. `complete`: all files were considered."""

    cwd: str
    paths: tuple[str, ...]
    complete: bool


class FileText(Model, frozen=True, kw_only=True):
    path: str
    text: str
    line: int
    lines: int  # of the whole file
    truncated: bool


class ProviderItem(Model, frozen=True, kw_only=True):
    """An agent whose own transcripts can be imported. `mode`: off, ask (nothing is read before a user agrees) or on."""

    provider: str
    name: str
    mode: str
    files: int  # number of transcripts
    size: int  # bytes
    sessions: int  # already imported
    pending: int  # files with new content, while they are imported
    error: str | None = None


class TranscriptProviders(Model, frozen=True, kw_only=True):
    providers: tuple[ProviderItem, ...]


class SettingItem(Model, frozen=True, kw_only=True):
    name: str
    value: str | bool | int | float | None
    default: str | bool | int | float | None
    source: str | None  # a file and line, or a variable; None for the default
    editable: bool
    description: str
    choices: tuple[str, ...] = ()


class ServerSettings(Model, frozen=True, kw_only=True):
    settings: tuple[SettingItem, ...]
    home: str
    version: str


# -- of HTTP alone


class HttpError(Model, frozen=True, kw_only=True):
    """The body of every response that reports an error."""

    error: ErrorDetails


class Health(Model, frozen=True, kw_only=True):
    """The answer of `/v1/health`, which needs no token."""

    name: Literal["dragoman"] = "dragoman"
    status: Literal["ok"] = "ok"
    version: str = __version__


class Paired(Model, frozen=True, kw_only=True):
    """`new`: the code was valid and the browser got a new cookie. Otherwise its existing cookie is still valid."""

    new: bool


class RunResult(Model, frozen=True, kw_only=True):
    """A run. `text` is the text of all the agent's messages in it, with a blank line between them.

    `status` is `running` only where the client did not want to wait any longer. `cursor`: where the stream continues.
    """

    session_id: str
    run_id: str
    status: rows.RunStatus
    stop_reason: str | None
    reason: str | None
    text: str
    usage: Usage | None
    cursor: str
