"""Notes: actions of the host itself, recorded in the journal as `_dragoman/…` notifications.

They count only with the origin `host`. The same method from an agent is an unknown notification.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Final, Literal, TypeAlias, TypeVar

import msgspec

from dragoman.record.rows import PromptContext
from dragoman.wire import lenient
from dragoman.wire.messages import Notification, RequestId
from dragoman.wire.vocabulary import ContentBlock, PermissionOption

T = TypeVar("T")

# Bytes of a text that is recorded for a diff. Nearly every source file is smaller, and nobody reads a larger diff; an
# agent that rewrites a large file repeatedly would otherwise fill the journal with copies of it.
MAX_DIFF_TEXT_BYTES: Final = 256 * 1024


# The key in `_meta` of the blocks that Dragoman itself adds to a prompt: the others are the user's own.
CONTEXT_MARK: Final = "dragoman.context"

# The line before custom instructions, which go before the user's words.
INSTRUCTIONS_HEADING: Final = "The user's instructions for every prompt:"


class Prompt(msgspec.Struct, frozen=True, omit_defaults=True):
    """The user's own prompt, before prompt assembly added to it, and the run that it began.

    `context` says what was added; None where nothing was.
    """

    run_id: str
    prompt: tuple[ContentBlock, ...]
    context: PromptContext | None = None


class Decision(msgspec.Struct, frozen=True, omit_defaults=True):
    """The decision on a request of the agent, with who made it and why. Recorded before the request is answered."""

    request_id: RequestId
    by: str
    reason: str
    decision: Literal["allow", "deny", "cancelled"] | None = None
    option_id: str | None = None  # the chosen option, where a permission was requested
    rule: str | None = None  # the text of the rule
    layer: str | None = None
    remembered: tuple[str, ...] = ()


class PermissionRequested(msgspec.Struct, frozen=True, omit_defaults=True):
    """A permission that the host asks for before it carries out a file or terminal request of the agent."""

    request_id: RequestId
    origin: str  # files, terminals
    title: str
    kind: str
    options: tuple[PermissionOption, ...]


class PermissionGuarded(msgspec.Struct, frozen=True):
    """Why a permission that is asked for needs an answer of a person, whatever rules allow."""

    request_id: RequestId
    reason: str


class File(msgspec.Struct, frozen=True, omit_defaults=True):
    """The resolved path of an `fs/*` request, and the text that a write replaces. Made by `file_note`."""

    request_id: RequestId
    path: str
    old_text: str | None = None
    old_size: int | None = None  # in bytes; None where there is no file yet
    old_sha256: str | None = None  # in place of a text that is too large to record


class TerminalExited(msgspec.Struct, frozen=True, omit_defaults=True):
    """The end of a command. Recorded before the agent is answered, so that the end and the output appear together."""

    terminal_id: str
    exit_code: int | None = None
    signal: str | None = None
    output: str = ""  # the end of the output
    output_bytes: int = 0  # the size of the whole output
    truncated: bool = False
    killed: bool = False  # the host ended it


class RunInterrupted(msgspec.Struct, frozen=True):
    """The end of a run that the agent itself did not end."""

    run_id: str
    status: Literal["cancelled", "error", "interrupted"]
    reason: str


class AgentRestarted(msgspec.Struct, frozen=True):
    """A session with a history goes on with another process of its agent.

    `how`: the agent resumed the session, loaded its history, or began a new session and remembers nothing.
    """

    how: Literal["resume", "load", "new"]


class Difference(msgspec.Struct, frozen=True, omit_defaults=True):
    """One difference: the beginning of the text in the journal, and of the text that the agent replayed, if any."""

    subject: Literal["prompt", "answer", "tool_calls"]
    recorded: str = ""
    replayed: str = ""
    run_id: str | None = None  # the run that differs, or the one before


class HistoryDiffers(msgspec.Struct, frozen=True):
    """The history that the agent replayed differs from the journal. Found by `record.replay_comparison`."""

    differences: tuple[Difference, ...]  # the first of them
    count: int  # of all differences


class CheckpointFailed(msgspec.Struct, frozen=True):
    """The workspace before or after a run could not be recorded. The run goes on, and cannot be rewound to."""

    run_id: str
    moment: Literal["before", "after"]
    reason: str


class Rewound(msgspec.Struct, frozen=True, omit_defaults=True):
    """The files of the workspace were brought back to an earlier checkpoint."""

    operation: str
    target: str  # in words, such as "before run 3"
    run_id: str | None = None  # the run whose checkpoint it was; None where the last rewind was undone
    before: bool = False
    changed: int = 0  # the number of files that were created, overwritten or deleted
    paths: tuple[str, ...] = ()  # the first of these


class GitAction(msgspec.Struct, frozen=True, omit_defaults=True):
    """A person committed, pushed or opened a pull request from the session. The agent does not know of it."""

    action: Literal["commit", "push", "pull_request"]
    branch: str | None = None  # None: HEAD is detached
    commit: str | None = None  # the commit that was made, or the last one that was pushed
    subject: str = ""  # of the commit, or the title of the pull request
    remote: str | None = None
    url: str | None = None
    file_count: int = 0  # of a commit


class NoiseOmitted(msgspec.Struct, frozen=True):
    """Lines of the agent that were no messages and were not recorded, because there were too many. Of no session."""

    lines: int
    bytes: int


NOISE_OMITTED: Final = "_dragoman/noise_omitted"

Note: TypeAlias = (
    Prompt
    | Decision
    | PermissionRequested
    | PermissionGuarded
    | File
    | TerminalExited
    | RunInterrupted
    | AgentRestarted
    | HistoryDiffers
    | CheckpointFailed
    | Rewound
    | GitAction
)

_TYPES: dict[str, type[Note]] = {
    "_dragoman/prompt": Prompt,
    "_dragoman/decision": Decision,
    "_dragoman/permission_requested": PermissionRequested,
    "_dragoman/permission_guarded": PermissionGuarded,
    "_dragoman/file": File,
    "_dragoman/terminal_exited": TerminalExited,
    "_dragoman/run_interrupted": RunInterrupted,
    "_dragoman/agent_restarted": AgentRestarted,
    "_dragoman/history_differs": HistoryDiffers,
    "_dragoman/checkpoint_failed": CheckpointFailed,
    "_dragoman/rewound": Rewound,
    "_dragoman/git_action": GitAction,
}
_METHODS = {type_: method for method, type_ in _TYPES.items()}


def file_note(request_id: RequestId, path: str, old_text: str | None = None, *, old_size: int | None = None) -> File:
    """Return the note on a file, with its old text if that is not too large. `old_size` alone: a file without text."""
    if old_text is None:
        return File(request_id, path, old_size=old_size)
    data = old_text.encode("utf-8", "surrogatepass")
    if len(data) <= MAX_DIFF_TEXT_BYTES:
        return File(request_id, path, old_text, len(data))
    return File(request_id, path, None, len(data), hashlib.sha256(data).hexdigest())


class _Line(msgspec.Struct, frozen=True):
    method: str
    params: msgspec.Raw
    jsonrpc: str = "2.0"


class WrittenNote(Notification, frozen=True, gc=False):
    """The frame of a note that this process wrote, with the note itself: it need not be read back from its JSON."""

    note: object = None


def write(note: Note) -> Notification:
    """Return the note as the frame that is recorded."""
    return write_as(_METHODS[type(note)], note)


def read(message: Notification) -> Note | None:
    """Return the note in a frame; None where it is none, or cannot be read."""
    return read_as(_TYPES, message)


def write_as(method: str, note: msgspec.Struct) -> Notification:
    """Return any note as a frame with this method."""
    try:
        params = msgspec.Raw(msgspec.json.encode(note))
    except UnicodeEncodeError:  # the name of a file or folder that is not UTF-8
        params = msgspec.Raw(lenient.encode_repaired(msgspec.to_builtins(note)))
        return Notification(method, params, msgspec.json.encode(_Line(method, params)))
    return WrittenNote(method, params, msgspec.json.encode(_Line(method, params)), note)


def read_as(types: Mapping[str, type[T]], message: Notification) -> T | None:
    """Return the note of one of these methods; None where it is none, or cannot be read."""
    type_ = types.get(message.method)
    if type_ is None:
        return None
    if isinstance(message, WrittenNote) and isinstance(message.note, type_):
        return message.note
    try:
        return msgspec.json.decode(message.params, type=type_)
    except msgspec.MsgspecError:
        return None
