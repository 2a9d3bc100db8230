"""Events: the values that a Python program gets when it iterates over a run.

run.started               RunStarted             the prompt was sent
assistant.delta           AssistantDelta         a piece of the agent's message
assistant.reasoning.delta ReasoningDelta         a piece of the agent's reasoning
assistant.message         AssistantMessage       a complete message, with its whole text
assistant.reasoning.message ReasoningMessage     a complete piece of reasoning, with its whole text
tool.call                 ToolCall               a tool call appeared
tool.result               ToolResult             a tool call completed or failed
plan.updated              PlanUpdated            the whole plan after a change
usage.updated             UsageUpdated           tokens, context and cost, as far as the agent reported them
permission.requested      PermissionRequested    the agent asks for permission, or the host asks on its behalf
permission.resolved       PermissionResolved     the answer to a permission request, with who decided and why
file.read                 FileRead               the agent read a file through Dragoman, or was refused
file.written              FileWritten            the agent wrote a file through Dragoman, or was refused
terminal.started          TerminalStarted        a command of the agent started
terminal.refused          TerminalRefused        a command of the agent was not run
terminal.exited           TerminalExited         a command ended, with its status and the end of its output
question.asked            QuestionAsked          the agent asks the user a question
question.answered         QuestionAnswered       the answer to a question
question.completed        QuestionCompleted      the agent says that the visit of a question's URL is complete
history.differs           HistoryDiffers         the history that the agent replayed differs from the journal
checkpoint.failed         CheckpointFailed       the workspace before or after a run could not be recorded
workspace.rewound         WorkspaceRewound       the files were brought back to an earlier checkpoint
git.action                GitAction              a commit, a push or a pull request was made from the session
provider.event            ProviderEvent          anything that no other event carries without loss
run.completed             RunCompleted           success, cancelled or error; always the last of a run
error                     Error                  a failure, in a run or between runs

Every event has the time, the session's id, the run's id (None between runs) and `raw`: the agent's own update, or None
where no single frame caused the event.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, Literal, TypeAlias, TypedDict

import msgspec

from dragoman.record import facts, rows
from dragoman.record.notes import Difference
from dragoman.wire import lenient
from dragoman.wire.messages import DECODE_ERRORS
from dragoman.wire.vocabulary import (
    ContentBlock,
    Diff,
    ElicitationContentValue,
    PermissionOption,
    ToolCallContent,
    ToolCallLocation,
)


class _RawParams(msgspec.Struct, frozen=True):
    update: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class _RawFrame(msgspec.Struct, frozen=True):
    params: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    result: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    error: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class EventBase(msgspec.Struct, frozen=True, gc=False):
    """The fields that all events have. `line` is the frame that caused the event, verbatim."""

    type: ClassVar[str] = ""

    time: float
    session_id: str
    run_id: str | None
    line: bytes | None

    @property
    def raw(self) -> Any:
        """The update (or the request's params, or the answer) as the agent sent it, with unknown fields."""
        raw = raw_part(self.line)
        return None if raw is None else lenient.decode(raw, Any)


class RunStarted(EventBase, frozen=True, gc=False):
    """`context` says what went to the agent beside the user's own words: skills, custom instructions, a template."""

    type: ClassVar[str] = "run.started"
    context: rows.PromptContext | None = None


class AssistantDelta(EventBase, frozen=True, gc=False):
    type: ClassVar[str] = "assistant.delta"
    text: str
    message_id: str


class ReasoningDelta(EventBase, frozen=True, gc=False):
    type: ClassVar[str] = "assistant.reasoning.delta"
    text: str
    message_id: str


class AssistantMessage(EventBase, frozen=True, gc=False):
    type: ClassVar[str] = "assistant.message"
    text: str
    message_id: str
    blocks: tuple[ContentBlock, ...] = ()


class ReasoningMessage(EventBase, frozen=True, gc=False):
    type: ClassVar[str] = "assistant.reasoning.message"
    text: str
    message_id: str
    blocks: tuple[ContentBlock, ...] = ()


class _ToolEvent(EventBase, frozen=True, gc=False):
    tool_call_id: str
    title: str
    name: str | None
    kind: str
    status: str
    content: tuple[ToolCallContent, ...]
    locations: tuple[ToolCallLocation, ...]
    input: Any
    output: Any
    parent_id: str | None


class ToolCall(_ToolEvent, frozen=True, gc=False):
    type: ClassVar[str] = "tool.call"


class ToolResult(_ToolEvent, frozen=True, gc=False):
    type: ClassVar[str] = "tool.result"

    @property
    def is_error(self) -> bool:
        return self.status == "failed"


class PlanUpdated(EventBase, frozen=True, gc=False):
    type: ClassVar[str] = "plan.updated"
    entries: tuple[rows.PlanEntry, ...]
    plan_id: str | None = None
    markdown: str | None = None
    uri: str | None = None
    removed: bool = False


class UsageUpdated(EventBase, frozen=True, gc=False):
    type: ClassVar[str] = "usage.updated"
    usage: rows.Usage


class _DecidedEvent(EventBase, frozen=True, gc=False, kw_only=True):
    decision: str | None = None  # allow, deny or cancelled
    decided_by: str | None = None  # rule, person, callback, default, timeout, cancel, agent
    reason: str | None = None
    rule: str | None = None  # the text of the rule that decided
    layer: str | None = None  # the configuration layer of that rule
    remembered: tuple[str, ...] = ()  # ids of the rules that were made from the answer


class PermissionRequested(EventBase, frozen=True, gc=False):
    """`origin` is `agent` for a request about a tool call. It is `files` or `terminals` where Dragoman asks about a
    file to write or a command to run for the agent; there is no tool call then."""

    type: ClassVar[str] = "permission.requested"
    permission_id: str
    tool_call_id: str | None
    title: str
    kind: str
    input: Any
    content: tuple[ToolCallContent, ...]
    locations: tuple[ToolCallLocation, ...]
    options: tuple[PermissionOption, ...]
    origin: str = "agent"


class PermissionResolved(_DecidedEvent, frozen=True, gc=False):
    """`asked_because` tells why it was asked whatever rules allow; empty for others."""

    type: ClassVar[str] = "permission.resolved"
    permission_id: str
    tool_call_id: str | None
    outcome: str
    option_id: str | None
    option_kind: str | None
    origin: str = "agent"
    asked_because: str = ""


class FileRead(_DecidedEvent, frozen=True, gc=False):
    """`status`: done, failed, denied or cancelled. `size` is in bytes. Where the agent asked for a part of the file,
    `from_line` counts from 1 and `limit` is a number of lines."""

    type: ClassVar[str] = "file.read"
    file_id: str
    path: str
    status: str
    from_line: int | None
    limit: int | None
    size: int | None
    error: str | None


class FileWritten(_DecidedEvent, frozen=True, gc=False):
    """`status`: done, failed, denied or cancelled. `diff` is the change that was made or refused; None where a text is
    too large to record, or the old one is not known. `old_size` is None for a new file."""

    type: ClassVar[str] = "file.written"
    file_id: str
    path: str
    status: str
    diff: Diff | None
    size: int | None
    old_size: int | None
    error: str | None


class TerminalStarted(_DecidedEvent, frozen=True, gc=False):
    """`env` has the names of the variables that the agent set. Tool calls refer to a terminal by its `terminal_id`."""

    type: ClassVar[str] = "terminal.started"
    terminal_id: str
    command: str
    args: tuple[str, ...]
    cwd: str | None
    env: tuple[str, ...]


class TerminalRefused(_DecidedEvent, frozen=True, gc=False):
    """`status`: denied, cancelled or failed. The agent never got the `terminal_id`."""

    type: ClassVar[str] = "terminal.refused"
    terminal_id: str
    command: str
    args: tuple[str, ...]
    cwd: str | None
    env: tuple[str, ...]
    status: str
    error: str | None


class TerminalExited(EventBase, frozen=True, gc=False):
    """`status`: exited by itself, killed, or released while it ran. `output` is the end of the output."""

    type: ClassVar[str] = "terminal.exited"
    terminal_id: str
    command: str
    args: tuple[str, ...]
    status: str
    exit_code: int | None
    signal: str | None
    output: str | None
    output_bytes: int | None
    truncated: bool


class QuestionAsked(EventBase, frozen=True, gc=False):
    """`mode` is `form`, with the `schema` of its fields, or `url`, with a URL to visit."""

    type: ClassVar[str] = "question.asked"
    question_id: str
    message: str
    mode: str
    schema: dict[str, Any] | None
    url: str | None
    tool_call_id: str | None


class QuestionAnswered(_DecidedEvent, frozen=True, gc=False):
    """`action`: accept, with the values in `content`; decline; cancel, for no answer at all; or failed."""

    type: ClassVar[str] = "question.answered"
    question_id: str
    action: str
    content: dict[str, ElicitationContentValue] | None


class QuestionCompleted(EventBase, frozen=True, gc=False):
    type: ClassVar[str] = "question.completed"
    question_id: str
    url: str | None


class HistoryDiffers(EventBase, frozen=True, gc=False):
    """`differences` are the first of `count`: the beginning of each, as `recorded` and as `replayed`."""

    type: ClassVar[str] = "history.differs"
    differences: tuple[Difference, ...]
    count: int


class CheckpointFailed(EventBase, frozen=True, gc=False):
    """A warning: the run goes on, but its changes cannot be compared exactly, or rewound. `moment`: before or after."""

    type: ClassVar[str] = "checkpoint.failed"
    moment: str
    reason: str


class WorkspaceRewound(EventBase, frozen=True, gc=False):
    """`target` says in words where to, such as "before run 3"; `paths` are the first of the `changed` files."""

    type: ClassVar[str] = "workspace.rewound"
    target: str
    to_run_id: str | None
    before: bool
    changed: int
    paths: tuple[str, ...]


class GitAction(EventBase, frozen=True, gc=False):
    """`action` is "commit", "push" or "pull_request". `subject` is that of the commit, or the pull request's title."""

    type: ClassVar[str] = "git.action"
    action: str
    branch: str | None
    commit: str | None
    subject: str
    remote: str | None
    url: str | None


class ProviderEvent(EventBase, frozen=True, gc=False):
    """`kind` is the update's own name (`available_commands_update`, `current_mode_update`, …) or method."""

    type: ClassVar[str] = "provider.event"
    kind: str


class Error(EventBase, frozen=True, gc=False):
    type: ClassVar[str] = "error"
    message: str
    category: str
    kind: str
    guidance: str = ""


class RunCompleted(EventBase, frozen=True, gc=False):
    type: ClassVar[str] = "run.completed"
    status: Literal["success", "cancelled", "error"]
    stop_reason: str | None
    text: str
    usage: rows.Usage | None
    duration: float | None  # in seconds; None for a transcript without times
    reason: str | None = None


Event: TypeAlias = (
    RunStarted
    | AssistantDelta
    | ReasoningDelta
    | AssistantMessage
    | ReasoningMessage
    | ToolCall
    | ToolResult
    | PlanUpdated
    | UsageUpdated
    | PermissionRequested
    | PermissionResolved
    | FileRead
    | FileWritten
    | TerminalStarted
    | TerminalRefused
    | TerminalExited
    | QuestionAsked
    | QuestionAnswered
    | QuestionCompleted
    | HistoryDiffers
    | CheckpointFailed
    | WorkspaceRewound
    | GitAction
    | ProviderEvent
    | RunCompleted
    | Error
)


_frame = msgspec.json.Decoder(_RawFrame)
_params = msgspec.json.Decoder(_RawParams)


def raw_part(line: bytes | None) -> msgspec.Raw | None:
    """Return the content of a frame: its update, else its params, else its result or error."""
    if line is None:
        return None
    try:
        frame = _frame.decode(line.decode())  # as text: content that is passed on undecoded must be UTF-8
        if isinstance(frame.params, msgspec.Raw):
            update = _params.decode(frame.params).update
            return update if isinstance(update, msgspec.Raw) else frame.params
    except DECODE_ERRORS:
        # A line that the peer had to repair: its text is the best available.
        return msgspec.Raw(msgspec.json.encode(line.decode("utf-8", errors="replace")))
    for part in (frame.result, frame.error):
        if isinstance(part, msgspec.Raw):
            return part
    return None


def to_json(event: Event) -> bytes:
    """Return one line of JSON: `type`, the event's own fields, and `raw` as the agent sent it."""
    fields: dict[str, Any] = {"type": event.type}
    for name in event.__struct_fields__:
        if name != "line":
            fields[name] = getattr(event, name)
    fields["raw"] = raw_part(event.line)
    return msgspec.json.encode(fields)


def join_texts(messages: Iterable[rows.Message]) -> str:
    """Return the texts of the messages, with a blank line between them."""
    return "\n\n".join(text for text in (message.text.strip("\n") for message in messages) if text)


# -- from facts

_CHUNK_KINDS: dict[rows.MessageKind, str] = {
    "user": "user_message_chunk",
    "assistant": "agent_message_chunk",
    "thought": "agent_thought_chunk",
}


def event_from_fact(
    fact: facts.Fact, time: float, session_id: str, run_id: str | None, line: bytes | None
) -> Event | None:
    """Return the event for a fact, or None where another event carries it.

    `line` is the frame that caused the fact, and `run_id` the run that is active with it: a message that the frame ends
    has the id of its own run. The end of a run is no event here: the run itself emits `RunCompleted`, after everything
    else.
    """
    if type(fact) is facts.TextAdded:  # ahead of the match: most facts are this one
        message = fact.message
        if message.kind == "assistant":
            return AssistantDelta(time, session_id, run_id, line, fact.text, message.id)
        if message.kind == "thought":
            return ReasoningDelta(time, session_id, run_id, line, fact.text, message.id)
        return ProviderEvent(time, session_id, run_id, line, "user_message_chunk")
    head = (time, session_id, run_id, line)
    without_frame = (time, session_id, run_id, None)
    match fact:
        case facts.TextAdded():
            return None  # handled above
        case facts.RunStarted(run=run):
            return RunStarted(*head, run.context)
        case facts.BlockAdded(message=message):
            return ProviderEvent(*head, _CHUNK_KINDS[message.kind])
        case facts.MessageEnded(message=row):
            # A message ends with the frame that follows it, so this event has no frame of its own. Where that frame is
            # the next prompt, the message still belongs to what came before.
            own_head = (time, session_id, row.run_id, None)
            match row.kind:
                case "assistant":
                    return AssistantMessage(*own_head, row.text, row.id, tuple(row.blocks))
                case "thought":
                    return ReasoningMessage(*own_head, row.text, row.id, tuple(row.blocks))
                case "user":
                    return None
        case facts.ToolCallSeen(tool_call=call):
            return ToolCall(*head, **_tool_fields(call))
        case facts.ToolCallChanged(kind="session/request_permission"):
            return None  # the permission.requested that follows has all of it
        case facts.ToolCallChanged(kind=kind):
            return ProviderEvent(*head, kind)
        case facts.ToolCallEnded(tool_call=call):
            return ToolResult(*head, **_tool_fields(call))
        case facts.PlanChanged(plan=plan, removed=removed):
            return PlanUpdated(*head, plan.entries, plan.plan_id, plan.markdown, plan.uri, removed)
        case facts.UsageChanged(usage=usage):
            return UsageUpdated(*head, usage)
        case facts.PermissionRequested() | facts.PermissionResolved():
            # A permission that the host itself asks for is a note of the host, not a frame of the agent.
            return _permission_event(fact, head if fact.permission.origin == "agent" else without_frame)
        # The answer to a read is the file itself: events of files and terminals leave out the frames about them.
        case facts.FileCallEnded(file_call=file_call):
            return _file_event(file_call, without_frame)
        case facts.TerminalStarted() | facts.TerminalRefused() | facts.TerminalExited():
            return _terminal_event(fact, without_frame)
        case facts.FileCallChanged() | facts.TerminalChanged() | facts.PermissionChanged():
            return None  # the event comes at the end of the call or the command, or with the answer
        case facts.QuestionAsked(question=row):
            return QuestionAsked(*head, row.id, row.message, row.mode, row.schema, row.url, row.tool_call_id)
        case facts.QuestionAnswered(question=row):
            return QuestionAnswered(*head, row.id, row.action, row.content, **_decision_fields(row))
        case facts.QuestionCompleted(question=row):
            return QuestionCompleted(*head, row.id, row.url)
        case facts.NoticeChanged(kind="restart"):
            return None  # a note of the host for people who read the session; its program restarted the agent
        case facts.SettingsChanged(kind=kind) | facts.NoticeChanged(kind=kind) | facts.OtherUpdate(kind=kind):
            return ProviderEvent(*head, kind)
        case facts.HistoryDiffers(differs=differs):
            return HistoryDiffers(*without_frame, differs.differences, differs.count)
        case facts.CheckpointFailed(failed=failed):
            return CheckpointFailed(time, session_id, failed.run_id, None, failed.moment, failed.reason)
        case facts.Rewound(rewound=note):
            return WorkspaceRewound(*without_frame, note.target, note.run_id, note.before, note.changed, note.paths)
        case facts.GitActionDone(done=done):
            return GitAction(*without_frame, done.action, done.branch, done.commit, done.subject, done.remote, done.url)
        case facts.RunEnded() | facts.RunCostChanged():
            return None


_Head: TypeAlias = tuple[float, str, str | None, bytes | None]  # time, session, run and frame


class _ToolFields(TypedDict):
    tool_call_id: str
    title: str
    name: str | None
    kind: str
    status: str
    content: tuple[ToolCallContent, ...]
    locations: tuple[ToolCallLocation, ...]
    input: Any
    output: Any
    parent_id: str | None


def _tool_fields(call: rows.ToolCall) -> _ToolFields:
    return {
        "tool_call_id": call.tool_call_id,
        "title": call.title,
        "name": call.name,
        "kind": call.kind,
        "status": call.status,
        "content": call.content,
        "locations": call.locations,
        "input": call.raw_input,
        "output": call.raw_output,
        "parent_id": call.parent_id,
    }


def _permission_event(fact: facts.PermissionRequested | facts.PermissionResolved, head: _Head) -> Event:
    row = fact.permission
    match fact:
        case facts.PermissionRequested():
            return PermissionRequested(
                *head,
                row.id,
                row.tool_call_id,
                row.title,
                row.kind,
                row.raw_input,
                row.content,
                row.locations,
                row.options,
                row.origin,
            )
        case facts.PermissionResolved():
            return PermissionResolved(
                *head,
                row.id,
                row.tool_call_id,
                row.outcome,
                row.option_id,
                row.option_kind,
                row.origin,
                row.asked_because,
                **_decision_fields(row),
            )


def _file_event(row: rows.FileCall, head: _Head) -> FileRead | FileWritten:
    fields = (*head, row.id, row.path, row.status)
    if row.operation == "read":
        return FileRead(*fields, row.line, row.limit, row.size, row.error, **_decision_fields(row))
    return FileWritten(*fields, row.diff, row.size, row.old_size, row.error, **_decision_fields(row))


def _terminal_event(fact: facts.TerminalStarted | facts.TerminalRefused | facts.TerminalExited, head: _Head) -> Event:
    row = fact.terminal
    command = (row.command, row.args, row.cwd, row.env)
    match fact:
        case facts.TerminalStarted():
            return TerminalStarted(*head, row.terminal_id or "", *command, **_decision_fields(row))
        case facts.TerminalRefused():
            return TerminalRefused(*head, row.id, *command, row.status, row.error, **_decision_fields(row))
        case facts.TerminalExited():
            return TerminalExited(
                *head,
                row.terminal_id or "",
                row.command,
                row.args,
                row.status,
                row.exit_code,
                row.signal,
                row.output,
                row.output_bytes,
                row.truncated,
            )


class _DecisionFields(TypedDict):
    decision: str | None
    decided_by: str | None
    reason: str | None
    rule: str | None
    layer: str | None
    remembered: tuple[str, ...]


def _decision_fields(row: rows.DecidedRow) -> _DecisionFields:
    return {
        "decision": row.decision,
        "decided_by": row.decided_by,
        "reason": row.reason,
        "rule": row.rule,
        "layer": row.layer,
        "remembered": row.remembered,
    }
