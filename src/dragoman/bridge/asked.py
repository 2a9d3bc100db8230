"""What a client says on the socket: subscriptions and controls. A control's docstring names the result it has."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from dragoman.bridge import answers
from dragoman.bridge.messages import Scope, Stream
from dragoman.bridge.payload import Out, Table
from dragoman.hub.commands import Attachment


class In(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="type"):
    """What the client sends. A field that is not known is an error that names it."""


class Ping(In, tag="ping", frozen=True, kw_only=True):
    pass


class Subscribe(In, tag="subscribe", frozen=True, kw_only=True):
    """`id`: of the session, or `<session id>/<terminal id>`. `limit`: rows of the snapshot, the newest ones."""

    stream: Stream
    id: str = ""
    after: str | None = None
    frames: bool = False
    limit: int = 400


class Unsubscribe(In, tag="unsubscribe", frozen=True, kw_only=True):
    stream: Stream
    id: str = ""


class Control(In, frozen=True, kw_only=True):
    """`command_id`: chosen by the client, for what must be done once however often it is sent."""

    id: str
    command_id: str | None = None


class SessionOpen(Control, tag="session.open", frozen=True, kw_only=True):
    """A new session. Result: `Opened`."""

    agent: str | None = None  # the default one where it is left out
    cwd: str
    additional: tuple[str, ...] = ()
    access: str | None = None
    model: str | None = None
    mode: str | None = None
    options: dict[str, str | bool] = {}
    reasoning_effort: str | None = None
    system_prompt: str | None = None
    network: bool | None = None
    web_search: bool | None = None


class SessionPrompt(Control, tag="session.prompt", frozen=True, kw_only=True):
    """`when` the session is busy: `queue` it, do it `now` (by steering, or by a cancel first), or `refuse`.

    Result: `Prompted`.
    """

    session_id: str
    text: str
    attachments: tuple[Attachment, ...] = ()
    when: Literal["queue", "now", "refuse"] = "queue"
    run_id: str | None = None  # of the run that it begins, where the client wants to choose it


class SessionCancel(Control, tag="session.cancel", frozen=True, kw_only=True):
    """`run_id`: that run alone; where another one runs, nothing is done."""

    session_id: str
    run_id: str | None = None


class SessionClose(Control, tag="session.close", frozen=True, kw_only=True):
    session_id: str


class SessionDelete(Control, tag="session.delete", frozen=True, kw_only=True):
    session_id: str


class SessionFork(Control, tag="session.fork", frozen=True, kw_only=True):
    """Result: `Opened`."""

    session_id: str


class SessionLoad(Control, tag="session.load", frozen=True, kw_only=True):
    """Continue it; the agent tells its history again. Result: `Opened`."""

    session_id: str


class SessionResume(Control, tag="session.resume", frozen=True, kw_only=True):
    """Continue it, in the way that the agent can. Result: `Opened`."""

    session_id: str


class SessionRestart(Control, tag="session.restart", frozen=True, kw_only=True):
    """End the agent and start it anew. With `reload` the conversation goes on; without, the agent remembers nothing
    of it, though we do. Result: `Opened`."""

    session_id: str
    reload: bool = False


class SessionSetOption(Control, tag="session.set_option", frozen=True, kw_only=True):
    session_id: str
    option_id: str
    value: str | bool


class SessionSetMode(Control, tag="session.set_mode", frozen=True, kw_only=True):
    session_id: str
    mode: str


class SessionRename(Control, tag="session.rename", frozen=True, kw_only=True):
    session_id: str
    title: str


class SessionExport(Control, tag="session.export", frozen=True, kw_only=True):
    """Result: `Exported`."""

    session_id: str
    format: Literal["markdown", "jsonl"] = "markdown"


class SessionList(Control, tag="session.list", frozen=True, kw_only=True):
    """Older sessions, and with them their sub-agents. Result: `Listed`."""

    before: float | None = None
    limit: int = 100
    agent: str | None = None
    cwd: str | None = None


class SessionHistory(Control, tag="session.history", frozen=True, kw_only=True):
    """Rows whose `place` is before this one, the newest of them. Result: `History`."""

    session_id: str
    before: int
    limit: int = 400


class SessionRow(Control, tag="session.row", frozen=True, kw_only=True):
    """One row, with nothing cut. Result: `WholeRow`."""

    session_id: str
    table: Table
    row_id: str


class SessionContents(Control, tag="session.contents", frozen=True, kw_only=True):
    """What was changed and run in the rows whose `place` is before this one; in one run alone, where it is named.
    Result: `Contents`."""

    session_id: str
    before: int
    run_id: str | None = None


class SessionDiffs(Control, tag="session.diffs", frozen=True, kw_only=True):
    """The changes of one file, of the same rows. Result: `FileDiffs`."""

    session_id: str
    path: str
    before: int
    run_id: str | None = None


class QueueAdd(Control, tag="queue.add", frozen=True, kw_only=True):
    """Result: `Prompted`."""

    session_id: str
    text: str
    attachments: tuple[Attachment, ...] = ()


class QueueEdit(Control, tag="queue.edit", frozen=True, kw_only=True):
    session_id: str
    queued_id: str
    text: str


class QueueMove(Control, tag="queue.move", frozen=True, kw_only=True):
    """To this place among those that wait, counted from 0."""

    session_id: str
    queued_id: str
    to: int


class QueueSend(Control, tag="queue.send", frozen=True, kw_only=True):
    """Send it now, before the others. What runs is cancelled first, as `how` says. Result: `Prompted`."""

    session_id: str
    queued_id: str


class QueueRemove(Control, tag="queue.remove", frozen=True, kw_only=True):
    session_id: str
    queued_id: str


class WorkspaceRecent(Control, tag="workspace.recent", frozen=True, kw_only=True):
    """Result: `Workspaces`."""

    limit: int = 20


class WorkspaceTrust(Control, tag="workspace.trust", frozen=True, kw_only=True):
    """Whether the workspace's own rules count. Result: `Trusted`."""

    cwd: str
    trust: bool = True


class PermissionAnswer(Control, tag="permission.answer", frozen=True, kw_only=True):
    """One of the agent's options by its id; or `answer`, which takes the option that means it.

    `always`: from now on, for this workspace; that makes a rule, and needs the scope `admin`. With another one the
    agent's own option for it may be taken, and no rule is made of it. `by`: who decided, a person or a program. Result:
    `Answered`.
    """

    session_id: str
    permission_id: str
    option_id: str | None = None
    answer: Literal["allow", "reject", "cancel"] | None = None
    always: bool = False
    by: Literal["person", "callback"] = "person"


class QuestionAnswer(Control, tag="question.answer", frozen=True, kw_only=True):
    """`by`: who answered, a person or a program. Result: `Answered`."""

    session_id: str
    question_id: str
    action: Literal["accept", "decline", "cancel"]
    content: dict[str, Any] | None = None
    by: Literal["person", "callback"] = "person"


class PolicyList(Control, tag="policy.list", frozen=True, kw_only=True):
    """The rules in force, of a workspace or everywhere. Result: `Policy`."""

    cwd: str | None = None


class PolicyPreview(Control, tag="policy.preview", frozen=True, kw_only=True):
    """What "always" would be remembered as. Result: `Preview`."""

    session_id: str
    permission_id: str
    answer: Literal["allow", "reject"] = "allow"


class PolicyAdd(Control, tag="policy.add", frozen=True, kw_only=True):
    """A rule for a workspace, in the words of `dragoman policy`: what it is about, field by field. Result: `Policy`."""

    cwd: str
    answer: Literal["allow", "deny", "ask"]
    about: dict[str, str | tuple[str, ...]] = {}


class PolicyRevoke(Control, tag="policy.revoke", frozen=True, kw_only=True):
    """Remembered rules, by id. Result: `Policy`."""

    ids: tuple[str, ...]


class AgentList(Control, tag="agent.list", frozen=True, kw_only=True):
    """Looks anew which agents there are. Result: `Agents`."""


class AgentAdd(Control, tag="agent.add", frozen=True, kw_only=True):
    """An agent of one's own. `key_name` is the variable that `key` is given to it in; the key is never told again.

    Result: `Agents`.
    """

    agent: str
    name: str | None = None
    command: str
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    key_name: str | None = None
    key: str | None = None


class AgentEdit(Control, tag="agent.edit", frozen=True, kw_only=True):
    """Changes those that are given; `env` takes the place of all that were set before. Result: `Agents`."""

    agent: str
    name: str | None = None
    command: str | None = None
    args: tuple[str, ...] | None = None
    env: dict[str, str] | None = None
    key_name: str | None = None
    key: str | None = None
    default: bool | None = None


class AgentRemove(Control, tag="agent.remove", frozen=True, kw_only=True):
    """One of one's own goes; of a built-in one, what was changed of it. Result: `Agents`."""

    agent: str


class AgentTest(Control, tag="agent.test", frozen=True, kw_only=True):
    """Starts it, shakes hands, and ends it. Result: `Tested`."""

    agent: str


class AgentLogin(Control, tag="agent.login", frozen=True, kw_only=True):
    """Without `method_id`: which methods there are. Result: `Login`."""

    agent: str
    method_id: str | None = None


class TokenList(Control, tag="token.list", frozen=True, kw_only=True):
    """Result: `Tokens`."""


class TokenCreate(Control, tag="token.create", frozen=True, kw_only=True):
    """Result: `TokenMade`: the only time that the token itself is told."""

    name: str
    scope: Scope = "prompt"


class TokenRevoke(Control, tag="token.revoke", frozen=True, kw_only=True):
    """Result: `Tokens`."""

    token_id: str


class TerminalInput(Control, tag="terminal.input", frozen=True, kw_only=True):
    """What was typed, in base64."""

    session_id: str
    terminal_id: str
    data: str


class TerminalResize(Control, tag="terminal.resize", frozen=True, kw_only=True):
    session_id: str
    terminal_id: str
    columns: int
    rows: int


class TerminalKill(Control, tag="terminal.kill", frozen=True, kw_only=True):
    session_id: str
    terminal_id: str


class Search(Control, tag="search", frozen=True, kw_only=True):
    """Result: `Found`."""

    text: str
    agent: str | None = None
    cwd: str | None = None
    kinds: tuple[Literal["user", "assistant", "thought", "tool", "file", "command"], ...] = ()
    session_id: str | None = None
    since: float | None = None
    until: float | None = None
    limit: int = 20


class UsageAsked(Control, tag="usage", frozen=True, kw_only=True):
    """Result: `UsageTold`."""

    by: Literal["day", "agent", "model", "workspace"] = "day"
    since: float | None = None
    until: float | None = None
    agent: str | None = None
    cwd: str | None = None


class FilesList(Control, tag="files.list", frozen=True, kw_only=True):
    """Files of a session's workspace whose paths fit the query, the best first. Result: `Files`."""

    session_id: str | None = None
    cwd: str | None = None
    query: str = ""
    limit: int = 50


class FilesRead(Control, tag="files.read", frozen=True, kw_only=True):
    """Lines of a file of a session's workspace. Result: `FileText`."""

    session_id: str
    path: str
    line: int = 1
    limit: int = 2000


class TranscriptsList(Control, tag="transcripts.list", frozen=True, kw_only=True):
    """What agents kept of sessions in other terminals: names and sizes alone are looked at. Result: `Transcripts`."""


class TranscriptsAllow(Control, tag="transcripts.allow", frozen=True, kw_only=True):
    """The user agrees that these are read, and what comes to them. Result: `Transcripts`."""

    provider: str


class SettingsGet(Control, tag="settings.get", frozen=True, kw_only=True):
    """Result: `Settings`."""


class SettingsSet(Control, tag="settings.set", frozen=True, kw_only=True):
    """None: back to the default. Result: `Settings`."""

    name: str
    value: str | bool | int | float | None


AnyControl: TypeAlias = (
    SessionOpen
    | SessionPrompt
    | SessionCancel
    | SessionClose
    | SessionDelete
    | SessionFork
    | SessionLoad
    | SessionResume
    | SessionRestart
    | SessionSetOption
    | SessionSetMode
    | SessionRename
    | SessionExport
    | SessionList
    | SessionHistory
    | SessionRow
    | SessionContents
    | SessionDiffs
    | QueueAdd
    | QueueEdit
    | QueueMove
    | QueueSend
    | QueueRemove
    | WorkspaceRecent
    | WorkspaceTrust
    | PermissionAnswer
    | QuestionAnswer
    | PolicyList
    | PolicyPreview
    | PolicyAdd
    | PolicyRevoke
    | AgentList
    | AgentAdd
    | AgentEdit
    | AgentRemove
    | AgentTest
    | AgentLogin
    | TokenList
    | TokenCreate
    | TokenRevoke
    | TerminalInput
    | TerminalResize
    | TerminalKill
    | Search
    | UsageAsked
    | FilesList
    | FilesRead
    | TranscriptsList
    | TranscriptsAllow
    | SettingsGet
    | SettingsSet
)
FromClient: TypeAlias = Ping | Subscribe | Unsubscribe | AnyControl


# What each control is answered with.
RESULTS: dict[type[Control], type[Out]] = {
    SessionOpen: answers.Opened,
    SessionPrompt: answers.Prompted,
    SessionCancel: answers.Done,
    SessionClose: answers.Done,
    SessionDelete: answers.Done,
    SessionFork: answers.Opened,
    SessionLoad: answers.Opened,
    SessionResume: answers.Opened,
    SessionRestart: answers.Opened,
    SessionSetOption: answers.Done,
    SessionSetMode: answers.Done,
    SessionRename: answers.Done,
    SessionExport: answers.Exported,
    SessionList: answers.Listed,
    SessionHistory: answers.History,
    SessionRow: answers.WholeRow,
    SessionContents: answers.Contents,
    SessionDiffs: answers.FileDiffs,
    QueueAdd: answers.Prompted,
    QueueEdit: answers.Done,
    QueueMove: answers.Done,
    QueueSend: answers.Prompted,
    QueueRemove: answers.Done,
    WorkspaceRecent: answers.Workspaces,
    WorkspaceTrust: answers.Trusted,
    PermissionAnswer: answers.Answered,
    QuestionAnswer: answers.Answered,
    PolicyList: answers.Policy,
    PolicyPreview: answers.Preview,
    PolicyAdd: answers.Policy,
    PolicyRevoke: answers.Policy,
    AgentList: answers.Agents,
    AgentAdd: answers.Agents,
    AgentEdit: answers.Agents,
    AgentRemove: answers.Agents,
    AgentTest: answers.Tested,
    AgentLogin: answers.Login,
    TokenList: answers.Tokens,
    TokenCreate: answers.TokenMade,
    TokenRevoke: answers.Tokens,
    TerminalInput: answers.Done,
    TerminalResize: answers.Done,
    TerminalKill: answers.Done,
    Search: answers.Found,
    UsageAsked: answers.UsageTold,
    FilesList: answers.Files,
    FilesRead: answers.FileText,
    TranscriptsList: answers.Transcripts,
    TranscriptsAllow: answers.Transcripts,
    SettingsGet: answers.Settings,
    SettingsSet: answers.Settings,
}
