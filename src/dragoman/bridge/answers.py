"""What the controls of a client are answered with."""

from __future__ import annotations

from typing import Literal

from dragoman.bridge.messages import Scope
from dragoman.bridge.payload import AgentItem, DiffItem, Live, Out, Row, Rows, SessionItem, Terminal


class Done(Out, frozen=True, kw_only=True):
    """Of controls that have nothing to tell but that they are done."""


class Opened(Out, frozen=True, kw_only=True):
    """`live`: how it stands with the session now, with what its agent can do."""

    session_id: str
    live: Live


class Prompted(Out, frozen=True, kw_only=True):
    """The run that began, or the id of what waits in the queue. `how`: started, queued, steered, or cancelled_first
    (the agent cannot be steered: what it was doing was cancelled)."""

    run_id: str | None = None
    queued_id: str | None = None
    how: Literal["started", "queued", "steered", "cancelled_first"] = "started"


class Exported(Out, frozen=True, kw_only=True):
    file_name: str
    mime_type: str
    text: str


class Listed(Out, frozen=True, kw_only=True):
    sessions: tuple[SessionItem, ...]
    more: bool


class History(Out, frozen=True, kw_only=True):
    rows: Rows
    more: bool
    before: int


class WholeRow(Out, frozen=True, kw_only=True):
    row: Row


class ChangedFile(Out, frozen=True, kw_only=True):
    """`added` and `removed`: lines, over all its changes. `created`: it was not there before."""

    path: str
    added: int
    removed: int
    created: bool
    changes: int


class Contents(Out, frozen=True, kw_only=True):
    """`files`: the one that was changed last comes first. `terminals`: in their order, and without their output, which
    `session.row` gives. `more_…`: how many came before these, and are not listed."""

    files: tuple[ChangedFile, ...]
    more_files: int
    terminals: tuple[Terminal, ...]
    more_terminals: int


class FileDiffs(Out, frozen=True, kw_only=True):
    """In their order. `more`: how many came before these, and are too long to be told."""

    diffs: tuple[DiffItem, ...]
    more: int


class WorkspaceItem(Out, frozen=True, kw_only=True):
    cwd: str
    sessions: int
    updated: float
    trusted: bool | None  # None: it has no rules of its own
    notice: str | None = None


class Workspaces(Out, frozen=True, kw_only=True):
    workspaces: tuple[WorkspaceItem, ...]
    home: str


class Trusted(Out, frozen=True, kw_only=True):
    trusted: bool | None
    notice: str | None = None


class Answered(Out, frozen=True, kw_only=True):
    """False: someone else was first, or it was withdrawn; nothing was done by this answer."""

    accepted: bool


class RuleItem(Out, frozen=True, kw_only=True):
    """A rule as it reads. `layer` is where it stands; only those with an `id` can be revoked here."""

    id: str | None
    answer: str
    text: str
    layer: str
    source: str
    workspace: str | None = None
    at: float | None = None


class Policy(Out, frozen=True, kw_only=True):
    access: str
    rules: tuple[RuleItem, ...]
    notice: str | None = None


class Preview(Out, frozen=True, kw_only=True):
    """The rules that an "always" becomes, as they read; where there are none, `problem` says why."""

    rules: tuple[str, ...]
    problem: str = ""


class Agents(Out, frozen=True, kw_only=True):
    agents: tuple[AgentItem, ...]


class LoginMethod(Out, frozen=True, kw_only=True):
    id: str
    name: str
    description: str
    kind: str
    command: str | None = None  # to be run in a terminal, where that is how it is done


class Tested(Out, frozen=True, kw_only=True):
    """`ok`, or what went wrong and what to do about it."""

    ok: bool
    name: str | None = None
    version: str | None = None
    message: str = ""
    guidance: str = ""
    stderr: str = ""
    methods: tuple[LoginMethod, ...] = ()


class Login(Out, frozen=True, kw_only=True):
    methods: tuple[LoginMethod, ...]
    done: bool = False
    message: str = ""


class TokenItem(Out, frozen=True, kw_only=True):
    id: str
    name: str
    scope: Scope
    created: float
    used: float | None
    current: bool  # the one that this client uses


class Tokens(Out, frozen=True, kw_only=True):
    tokens: tuple[TokenItem, ...]


class TokenMade(Out, frozen=True, kw_only=True):
    token: str
    item: TokenItem


class Hit(Out, frozen=True, kw_only=True):
    """`marks` are what matched within the snippet: from, to."""

    session: SessionItem
    row_id: str
    kind: str
    at: float
    snippet: str
    marks: tuple[tuple[int, int], ...]


class Found(Out, frozen=True, kw_only=True):
    hits: tuple[Hit, ...]


class Sum(Out, frozen=True, kw_only=True):
    """`reported`: of how many of the runs each figure is made."""

    key: str | None
    runs: int
    input_tokens: int | None
    cached_tokens: int | None
    output_tokens: int | None
    thought_tokens: int | None
    total_tokens: int | None
    cost: dict[str, float]
    reported: dict[str, int]


class UsageTold(Out, frozen=True, kw_only=True):
    by: str
    sums: tuple[Sum, ...]
    total: Sum


class Files(Out, frozen=True, kw_only=True):
    """Paths within the workspace. `complete`: all files were looked at."""

    cwd: str
    paths: tuple[str, ...]
    complete: bool


class FileText(Out, frozen=True, kw_only=True):
    path: str
    text: str
    line: int
    lines: int  # of the whole file
    truncated: bool


class ProviderItem(Out, frozen=True, kw_only=True):
    """An agent whose own files can be read. `mode`: off, ask (nothing is read before someone agrees) or on."""

    provider: str
    name: str
    mode: str
    files: int  # that it has
    size: int  # bytes
    sessions: int  # of it that are here
    waiting: int  # files that have something new, while they are read
    problem: str | None = None


class Transcripts(Out, frozen=True, kw_only=True):
    providers: tuple[ProviderItem, ...]


class SettingItem(Out, frozen=True, kw_only=True):
    name: str
    value: str | bool | int | float | None
    default: str | bool | int | float | None
    where: str | None  # what set it: a file and line, a variable; None is the default
    editable: bool
    description: str
    choices: tuple[str, ...] = ()


class Settings(Out, frozen=True, kw_only=True):
    settings: tuple[SettingItem, ...]
    home: str
    version: str
