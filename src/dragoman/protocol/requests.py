"""Requests: what a client sends, on the socket or over HTTP. Each is declared once, here.

A request is a class: its tag is its name on the wire, its fields are its parameters, the type argument of its base is
its result, and `@declare` adds the scope that it needs, its HTTP route if it has one, and whether it changes something.
The first paragraph of the docstring is its summary. Some values, and some sessions, need the scope `admin` whatever the
request: `hub.scopes` has those.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Generic, Literal, TypeAlias, TypedDict, TypeVar, Union, get_args

import msgspec

from dragoman.protocol import results
from dragoman.protocol.checkpoints import Rewind, WorkspaceDiff
from dragoman.protocol.git import GitCommit, GitPush, GitState, ProposedMessage, PullRequest, PullRequestProgram
from dragoman.protocol.messages import Scope, Stream
from dragoman.protocol.models import Model, Table
from dragoman.protocol.worktrees import (
    WorktreeApply,
    WorktreeChanges,
    WorktreeChoice,
    WorktreeInfo,
    WorktreeMerge,
)

ResultT = TypeVar("ResultT", bound=Model, covariant=True)
RequestT = TypeVar("RequestT", bound="Request[Any]")

Method: TypeAlias = Literal["GET", "POST", "PATCH", "DELETE"]


class FromClient(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="type"):
    """Base of everything that a client sends. An unknown field is an error that names it."""


class Ping(FromClient, tag="ping", frozen=True, kw_only=True):
    """Answered by `pong`."""


class Subscribe(FromClient, tag="subscribe", frozen=True, kw_only=True):
    """Follow a stream. `id`: of the session, or `<session id>/<terminal id>`. `limit`: rows in the snapshot."""

    stream: Stream
    id: str = ""
    after: str | None = None
    frames: bool = False
    limit: int = 400


class Unsubscribe(FromClient, tag="unsubscribe", frozen=True, kw_only=True):
    stream: Stream
    id: str = ""


class Request(FromClient, Generic[ResultT], frozen=True, kw_only=True):
    """Base of all requests.

    `command_id`: chosen by the client, for a request that must be carried out once however often it is sent.
    """

    id: str = ""
    command_id: str | None = None


# -- declarations


class Route(msgspec.Struct, frozen=True):
    """The HTTP form of a request. `defaults`: values of fields that have another default over HTTP."""

    method: Method
    path: str
    status: int = 200
    defaults: dict[str, str] = {}

    @property
    def path_fields(self) -> frozenset[str]:
        return frozenset(re.findall(r"{(\w+)}", self.path))

    @property
    def has_body(self) -> bool:
        return self.method in ("POST", "PATCH")


class Declaration(msgspec.Struct, frozen=True, kw_only=True):
    """Everything about a request besides its fields.

    `changes`: it changes something. `inbox`: the journal's inbox passes it on to the process that owns the session,
    and does each command id once; the server need not remember its result.
    """

    request: type[Request[Any]]
    result: type[Model]
    scope: Scope
    changes: bool
    inbox: bool
    route: Route | None

    @property
    def name(self) -> str:
        return name_of(self.request)

    @property
    def summary(self) -> str:
        return self._paragraphs()[0].rstrip(".")

    @property
    def description(self) -> str:
        return "\n\n".join(self._paragraphs())

    def _paragraphs(self) -> list[str]:
        return [" ".join(paragraph.split()) for paragraph in (self.request.__doc__ or "").split("\n\n")]


REQUESTS: Final[dict[type[Request[Any]], Declaration]] = {}

SESSION: Final = "/v1/sessions/{session_id}"


def declare(
    scope: Scope, *, changes: bool | None = None, inbox: bool = False, route: Route | None = None
) -> Callable[[type[RequestT]], type[RequestT]]:
    """Register a request. It changes something unless its scope is `view` or `changes` says otherwise."""

    def register(request: type[RequestT]) -> type[RequestT]:
        (result,) = get_args(request.__orig_bases__[0])  # type: ignore[attr-defined]  # Generic sets it
        REQUESTS[request] = Declaration(
            request=request,
            result=result,
            scope=scope,
            changes=scope != "view" if changes is None else changes,
            inbox=inbox,
            route=route,
        )
        return request

    return register


def name_of(request: Request[Any] | type[Request[Any]]) -> str:
    """The name of a request on the wire, such as `session.open`."""
    return str(request.__struct_config__.tag)


# -- attachments of a prompt


class AttachedFile(FromClient, frozen=True, kw_only=True, tag="file"):
    """A file of the workspace, by its path in it."""

    path: str


class AttachedImage(FromClient, frozen=True, kw_only=True, tag="image"):
    mime_type: str
    data: str  # base64
    name: str = ""


class AttachedAudio(FromClient, frozen=True, kw_only=True, tag="audio"):
    mime_type: str
    data: str  # base64
    name: str = ""


class AttachedText(FromClient, frozen=True, kw_only=True, tag="text"):
    """A text that is no file of the workspace: dropped, pasted, or selected on a web page (`uri`)."""

    name: str
    text: str
    uri: str | None = None


Attachment: TypeAlias = AttachedFile | AttachedImage | AttachedAudio | AttachedText


# -- sessions


# The settings of a session, three times: as data, as keywords of Python functions, and as a request. A new setting is
# added to all three; `session.options.settings_in` then copies it between them.


class Isolation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Things that an agent has of its own, in place of the user's.

    `environment` names further variables that it gets; `*` stands for any characters, and `"*"` alone for all of them.
    """

    home: bool = True  # a HOME with nothing in it but its login
    environment: tuple[str, ...] = ()
    worktree: bool | None = None  # an evaluation has a copy of the workspace, a session a git worktree; None: if it can
    temporary_folder: bool = True


class SessionSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings that every session has, wherever it is opened. None means the agent's own default."""

    model: str | None = None
    mode: str | None = None
    reasoning_effort: str | None = None
    options: dict[str, str | bool] = {}  # the agent's own config options, by id
    system_prompt: str | None = None
    network: bool | Literal["hosts"] | None = None
    web_search: bool | None = None
    sandbox: bool | str | None = None  # "off", "auto", or a mechanism; None means as configured
    keep_terminals: bool | None = None  # a cancel leaves the commands that the agent started through Dragoman running
    checkpoints: bool | None = None  # the workspace is recorded before and after each run; None: as configured
    skills: tuple[str, ...] | None = None  # names of skills that go with each prompt in full; empty: no skills at all
    custom_instructions: str | None = None  # go before each prompt; empty: none, whatever is configured
    isolation: bool | Isolation | None = None  # the agent has a HOME and an environment of its own; None: as configured


class SettingOptions(TypedDict, total=False):
    """Keywords for `SessionSettings`. A setting that is left out, or None, is the agent's own default."""

    model: str | None  # one of the agent's models, by id
    mode: str | None  # one of the agent's modes, by id
    reasoning_effort: str | None  # one of the agent's levels of reasoning
    options: Mapping[str, str | bool] | None  # the agent's own config options, by id
    system_prompt: str | None  # instructions that are added to the agent's system prompt
    network: bool | Literal["hosts"] | None  # whether the network may be used; "hosts": of a sandbox, by its rules
    web_search: bool | None  # whether the agent may search the web
    sandbox: bool | str | None  # whether the kernel confines the agent; or "bubblewrap", "landlock" or "seatbelt"
    keep_terminals: bool | None  # whether commands that the agent started through Dragoman outlive a cancelled run
    checkpoints: bool | None  # whether the workspace is recorded before and after each run; by default as configured
    skills: Sequence[str] | None  # skills that go with each prompt in full; empty: none, not even those of the settings
    custom_instructions: str | None  # a text before each prompt; by default as configured, and empty for none
    isolation: bool | Isolation | None  # whether the agent has a HOME and an environment of its own; as configured


@declare("prompt", route=Route("POST", "/v1/sessions", 201))
class SessionOpen(Request[results.SessionOpened], tag="session.open", frozen=True, kw_only=True):
    """Open a session.

    The scope `admin` is needed for more access than the configured one, for the network, for another sandbox than the
    configured one, for a mode or an option with which the agent may act without asking, for a system prompt that begins
    with a command of the agent, and for a folder that no admin has opened or configured.
    """

    agent: str | None = None  # the default agent where it is left out
    cwd: str
    additional: tuple[str, ...] = ()
    worktree: bool | str | WorktreeChoice | None = None  # work in a git worktree: a new one, or one by its name
    access: str | None = None
    model: str | None = None
    mode: str | None = None
    options: dict[str, str | bool] = {}
    reasoning_effort: str | None = None
    system_prompt: str | None = None
    network: bool | Literal["hosts"] | None = None
    web_search: bool | None = None
    sandbox: bool | str | None = None  # "off", "auto", or a mechanism; as configured where it is left out
    keep_terminals: bool | None = None
    checkpoints: bool | None = None
    skills: tuple[str, ...] | None = None
    custom_instructions: str | None = None
    isolation: bool | Isolation | None = None


@declare("prompt", inbox=True, route=Route("POST", f"{SESSION}/runs", defaults={"when": "refuse"}))
class SessionPrompt(Request[results.PromptAccepted], tag="session.prompt", frozen=True, kw_only=True):
    """Send a prompt.

    `when` applies while the session is busy: `queue` the prompt, run it `now` (by steering, or by cancelling the
    current run first), or `refuse` it. A session that only an admin may open so needs the scope `admin` here, too.
    """

    session_id: str
    text: str
    attachments: tuple[Attachment, ...] = ()
    when: Literal["queue", "now", "refuse"] = "queue"
    run_id: str | None = None  # id of the run that it begins, if the client wants to choose it
    skills: tuple[str, ...] = ()  # names of skills whose whole text goes with this prompt


@declare("prompt", inbox=True, route=Route("POST", f"{SESSION}/cancel"))
class SessionCancel(Request[results.Done], tag="session.cancel", frozen=True, kw_only=True):
    """Cancel the current run.

    With a `run_id`, nothing happens unless that run is the current one.
    """

    session_id: str
    run_id: str | None = None


@declare("prompt", route=Route("POST", f"{SESSION}/close"))
class SessionClose(Request[results.Done], tag="session.close", frozen=True, kw_only=True):
    """Close a session: end its agent. It can be resumed later.

    One that a client opened and that has neither a prompt nor a title is removed, once no client looks at it.
    """

    session_id: str


@declare("admin", route=Route("DELETE", SESSION))
class SessionDelete(Request[results.Done], tag="session.delete", frozen=True, kw_only=True):
    """Delete a session and everything recorded of it."""

    session_id: str


@declare("prompt", route=Route("POST", f"{SESSION}/fork", 201))
class SessionFork(Request[results.SessionOpened], tag="session.fork", frozen=True, kw_only=True):
    """Open a new session with the history of this one."""

    session_id: str


@declare("prompt", route=Route("POST", f"{SESSION}/load"))
class SessionLoad(Request[results.SessionOpened], tag="session.load", frozen=True, kw_only=True):
    """Continue a session by having the agent replay its history."""

    session_id: str


@declare("prompt", route=Route("POST", f"{SESSION}/resume"))
class SessionResume(Request[results.SessionOpened], tag="session.resume", frozen=True, kw_only=True):
    """Continue a session in the way that its agent supports."""

    session_id: str


@declare("prompt", route=Route("POST", f"{SESSION}/restart"))
class SessionRestart(Request[results.SessionOpened], tag="session.restart", frozen=True, kw_only=True):
    """End the agent and start it again.

    With `reload` the conversation continues; without it the agent remembers nothing of it, and only the journal does.
    """

    session_id: str
    reload: bool = False


@declare("prompt", inbox=True, route=Route("POST", SESSION + "/options/{option_id}"))
class SessionSetOption(Request[results.Done], tag="session.set_option", frozen=True, kw_only=True):
    """Set one of the agent's options.

    A value with which the agent may act without asking needs the scope `admin`.
    """

    session_id: str
    option_id: str
    value: str | bool


@declare("prompt", inbox=True, route=Route("POST", f"{SESSION}/mode"))
class SessionSetMode(Request[results.Done], tag="session.set_mode", frozen=True, kw_only=True):
    """Switch the agent's mode.

    A mode in which the agent may act without asking needs the scope `admin`.
    """

    session_id: str
    mode: str


@declare("prompt", route=Route("PATCH", SESSION))
class SessionRename(Request[results.Done], tag="session.rename", frozen=True, kw_only=True):
    """Rename a session."""

    session_id: str
    title: str


@declare("view", route=Route("GET", f"{SESSION}/export"))
class SessionExport(Request[results.ExportedSession], tag="session.export", frozen=True, kw_only=True):
    """Export a session as one text."""

    session_id: str
    format: Literal["markdown", "jsonl"] = "markdown"


@declare("view", route=Route("GET", "/v1/sessions"))
class SessionList(Request[results.SessionPage], tag="session.list", frozen=True, kw_only=True):
    """List sessions with their sub-agents, newest first."""

    before: float | None = None
    limit: int = 100
    agent: str | None = None
    cwd: str | None = None


@declare("view", route=Route("GET", f"{SESSION}/history"))
class SessionHistory(Request[results.HistoryPage], tag="session.history", frozen=True, kw_only=True):
    """Read older rows: the newest ones whose `position` is below `before`."""

    session_id: str
    before: int
    limit: int = 400


@declare("view")
class SessionRow(Request[results.FullRow], tag="session.row", frozen=True, kw_only=True):
    """Read one row in full.

    Of a message, a part of its text that begins at the character `offset`; it is `shortened` while more follows.
    """

    session_id: str
    table: Table
    row_id: str
    offset: int = 0


@declare("view")
class SessionChanges(Request[results.ChangesSummary], tag="session.changes", frozen=True, kw_only=True):
    """List the files that a session changed and the commands that it ran.

    With a `run_id`, of that run only.
    """

    session_id: str
    run_id: str | None = None


@declare("view")
class SessionDiffs(Request[results.FileDiffs], tag="session.diffs", frozen=True, kw_only=True):
    """Read the changes of one file, of the session or of one run."""

    session_id: str
    path: str
    run_id: str | None = None


# -- checkpoints of the workspace


@declare("view", route=Route("GET", f"{SESSION}/checkpoints"))
class CheckpointList(Request[results.Checkpoints], tag="checkpoint.list", frozen=True, kw_only=True):
    """List the checkpoints of a session's workspace, oldest first."""

    session_id: str


@declare("prompt", changes=False, route=Route("GET", f"{SESSION}/diff"))
class CheckpointDiff(Request[WorkspaceDiff], tag="checkpoint.diff", frozen=True, kw_only=True):
    """Compare the workspace before and after a run.

    `run`: its id or its number, from 1 on; by default the last one. `since_start`: since the session was opened. A long
    answer comes in parts: repeat the request with `next_offset` as `offset`; for more lines of one file, with its
    `path` and its `next_line` as `first_line`. Without the scope `admin`, the lines of files that a rule denies or asks
    about are left out.
    """

    session_id: str
    run: str | None = None
    since_start: bool = False
    path: str | None = None
    offset: int = 0
    first_line: int = 0


@declare("admin", route=Route("POST", f"{SESSION}/rewind"))
class CheckpointRewind(Request[Rewind], tag="checkpoint.rewind", frozen=True, kw_only=True):
    """Bring the files of the workspace back to what they were after a run, or `before` it.

    Without a `plan` nothing is changed: the result says which files would be, and its `id` is the `plan` of the request
    that does it. That one is refused if files were changed since, and while an agent is at work there. `undo`: back to
    what the files were before the last rewind.
    """

    session_id: str
    run: str | None = None
    before: bool = False
    undo: bool = False
    plan: str | None = None


# -- git in the repository of a session's workspace


@declare("prompt", changes=False, route=Route("GET", f"{SESSION}/git"))
class GitReadState(Request[GitState], tag="git.state", frozen=True, kw_only=True):
    """Read the branch of a session's repository, and which files differ from the last commit."""

    session_id: str


@declare("admin", route=Route("POST", f"{SESSION}/git/commit"))
class GitCommitChanges(Request[GitCommit], tag="git.commit", frozen=True, kw_only=True):
    """Commit all changes of the repository, or those at or below `paths`, or what is staged.

    Hooks run as in git. It is refused while an agent is at work in these files, unless `while_running`; and where
    settings or hooks of the repository were changed since agents work there, unless `trust_repository`.
    """

    session_id: str
    message: str
    paths: tuple[str, ...] | None = None
    only_staged: bool = False
    while_running: bool = False
    trust_repository: bool = False


@declare("admin", route=Route("POST", f"{SESSION}/git/message"))
class GitProposeMessage(Request[ProposedMessage], tag="git.propose_message", frozen=True, kw_only=True):
    """Ask the session's agent for a commit message, in a session of its own that is not stored."""

    session_id: str
    paths: tuple[str, ...] | None = None
    only_staged: bool = False


@declare("admin", route=Route("POST", f"{SESSION}/git/push"))
class GitPushBranch(Request[GitPush], tag="git.push", frozen=True, kw_only=True):
    """Push the branch to the branch of the same name, never by force.

    `set_upstream`: whether it follows that branch from now on; by default if it follows none.
    """

    session_id: str
    remote: str | None = None
    set_upstream: bool | None = None
    trust_repository: bool = False


@declare("admin", route=Route("POST", f"{SESSION}/git/pull_request"))
class GitOpenPullRequest(Request[PullRequest], tag="git.pull_request", frozen=True, kw_only=True):
    """Open a pull request for the pushed branch by `gh` or `glab`, or find the one that is open.

    `title`: by default the subject of the last commit. `base`: by default the remote's default branch. `program`: for a
    host that neither program is known for.
    """

    session_id: str
    title: str | None = None
    body: str = ""
    base: str | None = None
    draft: bool = False
    remote: str | None = None
    program: PullRequestProgram | None = None
    trust_repository: bool = False


# -- worktrees


WORKTREE: Final = "/v1/worktrees/{worktree}"


@declare("prompt", changes=False, route=Route("GET", "/v1/worktrees"))
class WorktreeList(Request[results.Worktrees], tag="worktree.list", frozen=True, kw_only=True):
    """List the worktrees of sessions, oldest first.

    `dropped`: those that were dropped and can be recovered. Without the scope `admin`, only worktrees of folders in
    which this client may have sessions are listed.
    """

    dropped: bool = False


@declare("prompt", changes=False, route=Route("GET", WORKTREE))
class WorktreeShow(Request[WorktreeChanges], tag="worktree.show", frozen=True, kw_only=True):
    """List what was changed in a worktree since it was made. `worktree`: its id, or its name where that is unique."""

    worktree: str


@declare("admin", route=Route("POST", f"{WORKTREE}/apply"))
class WorktreeApplyChanges(Request[WorktreeApply], tag="worktree.apply", frozen=True, kw_only=True):
    """Bring the changes of a worktree into the checkout, as uncommitted changes.

    Without a `plan` nothing is changed: the result says which files would be, and its `id` is the `plan` of the request
    that does it. That one is refused if files were changed since, and while an agent is at work there. With conflicts
    nothing is changed. `undo`: take back what was applied last.
    """

    worktree: str
    undo: bool = False
    plan: str | None = None


@declare("admin", route=Route("POST", f"{WORKTREE}/merge"))
class WorktreeMergeBranch(Request[WorktreeMerge], tag="worktree.merge", frozen=True, kw_only=True):
    """Merge the branch of a worktree into the branch that it was made from, or `into` another one.

    `commit`: commit what is not committed first, with this message. `no_ff`: make a merge commit, with this `message`,
    also where a fast-forward is possible. With conflicts nothing is changed; `conflicts` brings them into the worktree,
    where they wait to be solved. It is refused where settings or hooks of the repository were changed since agents
    work there, unless `trust_repository`.
    """

    worktree: str
    into: str | None = None
    commit: str | None = None
    message: str | None = None
    no_ff: bool = False
    conflicts: bool = False
    trust_repository: bool = False


@declare("admin", route=Route("POST", f"{WORKTREE}/drop"))
class WorktreeDrop(Request[WorktreeInfo], tag="worktree.drop", frozen=True, kw_only=True):
    """Remove a worktree and its branch. It can be recovered for 30 days.

    Refused while an agent is at work there, and where files could not be recovered, unless with `force`.
    """

    worktree: str
    force: bool = False


@declare("admin", route=Route("POST", f"{WORKTREE}/keep"))
class WorktreeKeep(Request[WorktreeInfo], tag="worktree.keep", frozen=True, kw_only=True):
    """Forget a worktree: its folder and branch stay."""

    worktree: str


@declare("admin", route=Route("POST", f"{WORKTREE}/recover"))
class WorktreeRecover(Request[WorktreeInfo], tag="worktree.recover", frozen=True, kw_only=True):
    """Bring back a dropped worktree, with all files and commits."""

    worktree: str


@declare("admin", route=Route("POST", "/v1/worktrees/prune"))
class WorktreePrune(Request[results.Leftovers], tag="worktree.prune", frozen=True, kw_only=True):
    """Find what no worktree needs any more; with `remove`, remove it."""

    remove: bool = False


# -- the queue of a session


@declare("prompt", inbox=True)
class QueueAdd(Request[results.PromptAccepted], tag="queue.add", frozen=True, kw_only=True):
    """Queue a prompt."""

    session_id: str
    text: str
    attachments: tuple[Attachment, ...] = ()


@declare("prompt", inbox=True)
class QueueEdit(Request[results.Done], tag="queue.edit", frozen=True, kw_only=True):
    """Change the text of a queued prompt. `queued_id` is the `command_id` of the request that queued it."""

    session_id: str
    queued_id: str
    text: str


@declare("prompt", inbox=True)
class QueueMove(Request[results.Done], tag="queue.move", frozen=True, kw_only=True):
    """Move a queued prompt to the index `to`, counted from 0."""

    session_id: str
    queued_id: str
    to: int


@declare("prompt", inbox=True)
class QueueSend(Request[results.PromptAccepted], tag="queue.send", frozen=True, kw_only=True):
    """Send a queued prompt now, before the others, cancelling the current run first."""

    session_id: str
    queued_id: str


@declare("prompt", inbox=True)
class QueueRemove(Request[results.Done], tag="queue.remove", frozen=True, kw_only=True):
    """Remove a prompt from the queue."""

    session_id: str
    queued_id: str


# -- workspaces, permissions, rules


@declare("view")
class WorkspaceRecent(Request[results.RecentWorkspaces], tag="workspace.recent", frozen=True, kw_only=True):
    """List the folders that were used last."""

    limit: int = 20


@declare("admin")
class WorkspaceTrust(Request[results.WorkspaceTrusted], tag="workspace.trust", frozen=True, kw_only=True):
    """Trust the workspace's own rules, or stop trusting them."""

    cwd: str
    trust: bool = True


@declare("prompt", inbox=True, route=Route("POST", "/v1/permissions/{session_id}/{permission_id}"))
class PermissionAnswer(Request[results.AnswerResult], tag="permission.answer", frozen=True, kw_only=True):
    """Answer a permission: by one of the agent's options, or by `answer`, which picks the matching option.

    `always`: from now on, in this workspace; this creates a rule. With `only_files` the rule covers the files of the
    request, not their folder; use it with `answer`. `by`: a person or a program decided. `remember`: an option that
    means "always" creates a rule, too; ignored without the scope `admin`. That scope is needed for a rule, to allow
    more than this one request, to allow what always needs approval (Dragoman's own files among it), and to allow a
    command of which nobody can know what it does.
    """

    session_id: str
    permission_id: str
    option_id: str | None = None
    answer: Literal["allow", "reject", "cancel"] | None = None
    always: bool = False
    only_files: bool = False
    by: Literal["person", "callback"] = "person"
    remember: bool = True


@declare("prompt", inbox=True, route=Route("POST", "/v1/questions/{session_id}/{question_id}"))
class QuestionAnswer(Request[results.AnswerResult], tag="question.answer", frozen=True, kw_only=True):
    """Answer a question of the agent. `by`: a person or a program answered.

    Content that does not fit the form is refused; the error's `fields` has a message for each invalid field.
    """

    session_id: str
    question_id: str
    action: Literal["accept", "decline", "cancel"]
    content: dict[str, Any] | None = None
    by: Literal["person", "callback"] = "person"


@declare("view", route=Route("GET", "/v1/policy"))
class PolicyList(Request[results.PolicyRules], tag="policy.list", frozen=True, kw_only=True):
    """List the rules in force, of a workspace or of all."""

    cwd: str | None = None


@declare("view")
class PolicyPreview(Request[results.RulePreview], tag="policy.preview", frozen=True, kw_only=True):
    """Preview the rules that "always" would create."""

    session_id: str
    permission_id: str
    answer: Literal["allow", "reject"] = "allow"


@declare("admin")
class PolicyAdd(Request[results.PolicyRules], tag="policy.add", frozen=True, kw_only=True):
    """Add a rule for a workspace. `about`: its conditions, with the field names of `dragoman policy`."""

    cwd: str
    answer: Literal["allow", "deny", "ask"]
    about: dict[str, str | tuple[str, ...]] = {}


@declare("admin")
class PolicyRevoke(Request[results.PolicyRules], tag="policy.revoke", frozen=True, kw_only=True):
    """Revoke remembered rules by id."""

    ids: tuple[str, ...]


# -- skills


@declare("prompt", changes=False, route=Route("GET", "/v1/skills"))
class SkillList(Request[results.KnownSkills], tag="skill.list", frozen=True, kw_only=True):
    """List the skills and prompt templates of a session's workspace, or of a folder, and the user's own."""

    session_id: str | None = None
    cwd: str | None = None


@declare("admin")
class SkillSet(Request[results.KnownSkills], tag="skill.set", frozen=True, kw_only=True):
    """Set how a skill goes with prompts: `always` in full, `listed` in the index, or `off`.

    None restores what the skill says itself. A skill belongs to its file: one of the same name elsewhere is another.
    """

    name: str
    state: Literal["always", "listed", "off"] | None
    session_id: str | None = None
    cwd: str | None = None


# -- agents


@declare("view", route=Route("GET", "/v1/agents"))
class AgentList(Request[results.KnownAgents], tag="agent.list", frozen=True, kw_only=True):
    """Look up which agents are installed."""


@declare("admin")
class AgentAdd(Request[results.KnownAgents], tag="agent.add", frozen=True, kw_only=True):
    """Add a custom agent. `key` is an API key that it gets in the variable `key_name`; no request returns it."""

    agent: str
    name: str | None = None
    command: str
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    key_name: str | None = None
    key: str | None = None


@declare("admin")
class AgentEdit(Request[results.KnownAgents], tag="agent.edit", frozen=True, kw_only=True):
    """Change the fields that are present; `env` replaces all variables that were set before."""

    agent: str
    name: str | None = None
    command: str | None = None
    args: tuple[str, ...] | None = None
    env: dict[str, str] | None = None
    key_name: str | None = None
    key: str | None = None
    default: bool | None = None


@declare("admin")
class AgentRemove(Request[results.KnownAgents], tag="agent.remove", frozen=True, kw_only=True):
    """Remove a custom agent, or the changes to a built-in one."""

    agent: str


@declare("admin", changes=False)
class AgentTest(Request[results.AgentTestResult], tag="agent.test", frozen=True, kw_only=True):
    """Start an agent, open a session with it, and end it."""

    agent: str


@declare("admin")
class AgentLogin(Request[results.LoginResult], tag="agent.login", frozen=True, kw_only=True):
    """Log in to an agent by one of its methods; without `method_id`, list the methods."""

    agent: str
    method_id: str | None = None


# -- tokens, terminals, search, files, settings


@declare("admin", changes=False, route=Route("GET", "/v1/tokens"))
class TokenList(Request[results.KnownTokens], tag="token.list", frozen=True, kw_only=True):
    """List tokens."""


@declare("admin", route=Route("POST", "/v1/tokens", 201))
class TokenCreate(Request[results.TokenCreated], tag="token.create", frozen=True, kw_only=True):
    """Create a token. Only this result contains the token itself."""

    name: str
    scope: Scope = "prompt"


@declare("admin", route=Route("DELETE", "/v1/tokens/{token_id}"))
class TokenRevoke(Request[results.KnownTokens], tag="token.revoke", frozen=True, kw_only=True):
    """Revoke a token."""

    token_id: str


@declare("admin")
class TerminalInput(Request[results.Done], tag="terminal.input", frozen=True, kw_only=True):
    """Type into a terminal. `data` is base64.

    No rule judges what is typed, and it may be typed into a shell: so this needs the scope `admin`.
    """

    session_id: str
    terminal_id: str
    data: str


@declare("prompt")
class TerminalResize(Request[results.Done], tag="terminal.resize", frozen=True, kw_only=True):
    """Resize a terminal."""

    session_id: str
    terminal_id: str
    columns: int
    rows: int


@declare("prompt")
class TerminalKill(Request[results.Done], tag="terminal.kill", frozen=True, kw_only=True):
    """End the command in a terminal."""

    session_id: str
    terminal_id: str


@declare("view", route=Route("GET", "/v1/search"))
class Search(Request[results.SearchHits], tag="search", frozen=True, kw_only=True):
    """Search all sessions."""

    text: str
    agent: str | None = None
    cwd: str | None = None
    kinds: tuple[Literal["user", "assistant", "thought", "tool", "file", "command"], ...] = ()
    session_id: str | None = None
    since: float | None = None
    until: float | None = None
    limit: int = 20


@declare("view", route=Route("GET", "/v1/usage"))
class UsageQuery(Request[results.UsageReport], tag="usage", frozen=True, kw_only=True):
    """Sum up tokens and cost as the agents reported them."""

    by: Literal["day", "agent", "model", "workspace"] = "day"
    since: float | None = None
    until: float | None = None
    agent: str | None = None
    cwd: str | None = None


@declare("prompt", changes=False)
class FilesList(Request[results.FileMatches], tag="files.list", frozen=True, kw_only=True):
    """List files of a session's workspace whose paths match the query, best match first.

    A folder without a session needs the scope `admin`.
    """

    session_id: str | None = None
    cwd: str | None = None
    query: str = ""
    limit: int = 50


@declare("view")
class FilesRead(Request[results.FileText], tag="files.read", frozen=True, kw_only=True):
    """Read lines of a file of a session's workspace.

    With the scope `view` only files that the conversation shows; without `admin` none that a rule denies or asks about.
    """

    session_id: str
    path: str
    line: int = 1
    limit: int = 2000


@declare("view")
class TranscriptsList(Request[results.TranscriptProviders], tag="transcripts.list", frozen=True, kw_only=True):
    """Count the transcripts that agents wrote in other terminals. Only names and sizes are read."""


@declare("admin")
class TranscriptsAllow(Request[results.TranscriptProviders], tag="transcripts.allow", frozen=True, kw_only=True):
    """Allow the import of an agent's transcripts, present and future."""

    provider: str


@declare("view")
class SettingsGet(Request[results.ServerSettings], tag="settings.get", frozen=True, kw_only=True):
    """Read the settings."""


@declare("admin")
class SettingsSet(Request[results.ServerSettings], tag="settings.set", frozen=True, kw_only=True):
    """Change a setting. None restores the default."""

    name: str
    value: str | bool | int | float | None


# The union of all requests, for decoders and schemas; its members are known only at run time.
AnyRequest: Any = Union[tuple(REQUESTS)]  # noqa: UP007
FROM_CLIENT: Any = Union[Ping, Subscribe, Unsubscribe, AnyRequest]  # noqa: UP007
