"""Claude Code's records, typed: the fields that the translation uses, and texts in the user's role split into parts.

Values that may be long and are seldom needed stay undecoded (`msgspec.Raw`). If a field has an unexpected type, only
that field is lost.

Claude Code stores slash commands, their output, reminders to the model, notifications of background tasks and the mark
of an interruption as messages of the user. Only the text that the user typed is a prompt (`parse_user_text`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from dragoman.translate.records import decode_leniently, strict_utf8
from dragoman.wire.messages import DECODE_ERRORS
from dragoman.wire.vocabulary import ResourceLink

ABSENT: Final = msgspec.Raw(b"null")


class Origin(msgspec.Struct, frozen=True, gc=False):
    kind: str = ""


class Record(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Any line. Its fields depend on its type."""

    type: str = ""
    subtype: str | None = None
    uuid: str | None = None
    parent_uuid: str | None = None
    session_id: str | None = None
    agent_id: str | None = None
    timestamp: str | None = None
    cwd: str | None = None
    version: str | None = None
    git_branch: str | None = None
    level: str | None = None
    entrypoint: str | None = None
    is_sidechain: bool = False
    is_meta: bool = False
    is_compact_summary: bool = False
    is_api_error_message: bool = False
    origin: Origin | None = None
    permission_mode: str | None = None
    message: msgspec.Raw = ABSENT
    tool_use_result: msgspec.Raw = ABSENT
    attachment: msgspec.Raw = ABSENT
    data: msgspec.Raw = ABSENT
    error: msgspec.Raw = ABSENT
    compact_metadata: msgspec.Raw = ABSENT
    content: msgspec.Raw = ABSENT
    parent_tool_use_id: str | None = msgspec.field(default=None, name="parentToolUseID")
    summary: str | None = None
    leaf_uuid: str | None = None
    ai_title: str | None = None
    custom_title: str | None = None
    hook_errors: msgspec.Raw = ABSENT
    total_cost_usd: float | None = msgspec.field(default=None, name="totalCostUSD")


class Tokens(msgspec.Struct, frozen=True, gc=False):
    """The tokens of one message; each of its lines repeats them."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cache_read_input_tokens: int | None = None

    @property
    def total(self) -> int:
        """The tokens of the context after the message."""
        return (
            (self.input_tokens or 0)
            + (self.output_tokens or 0)
            + (self.cache_creation_input_tokens or 0)
            + (self.cache_read_input_tokens or 0)
        )


class Source(msgspec.Struct, frozen=True, gc=False):
    """The source of an image or a document."""

    type: str = ""
    media_type: str = ""
    data: str = ""
    url: str = ""


class Block(msgspec.Struct, frozen=True, gc=False):
    """A piece of a message's content, of any type."""

    type: str = ""
    text: str = ""
    thinking: str = ""
    id: str = ""
    name: str = ""
    input: msgspec.Raw = msgspec.Raw(b"{}")
    tool_use_id: str = ""
    content: msgspec.Raw = ABSENT
    is_error: bool | None = None
    source: Source | None = None
    title: str | None = None
    tool_name: str = ""
    from_: Any = msgspec.field(default=None, name="from")
    to: Any = None


class Message(msgspec.Struct, frozen=True, gc=False):
    """A message of the model or of the user. `content` is a string or blocks."""

    id: str = ""
    model: str = ""
    stop_reason: str | None = None
    usage: Tokens | None = None
    content: msgspec.Raw = ABSENT


class Attachment(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    type: str = ""
    prompt: msgspec.Raw = ABSENT
    command_mode: str = ""
    # a file, folder or resource that the user named in a prompt
    filename: str = ""
    path: str = ""
    uri: str = ""
    display_path: str = ""
    # the report of a hook
    hook_name: str = ""
    content: msgspec.Raw = ABSENT
    stderr: str = ""
    message: msgspec.Raw = ABSENT
    blocking_error: msgspec.Raw = ABSENT


class Progress(msgspec.Struct, frozen=True, gc=False):
    type: str = ""
    agent_id: str | None = msgspec.field(default=None, name="agentId")


class Sidecar(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """`agent-….meta.json`, beside a sub-agent's file."""

    agent_type: str | None = None
    description: str | None = None
    tool_use_id: str | None = None


decode = strict_utf8(msgspec.json.Decoder(Record).decode)
_decode_message = msgspec.json.Decoder(Message).decode
_decode_block_list = msgspec.json.Decoder(list[Block]).decode

_BLANK: Final = Record()
_BLANK_MESSAGE: Final = Message()
_BLANK_BLOCK: Final = Block()


def build(line: bytes) -> Record | None:
    """Build a record from an object whose fields may have any type."""
    record = decode_leniently(line, Record, _BLANK)
    return None if record is _BLANK else record


def decode_message(raw: msgspec.Raw) -> Message:
    try:
        return _decode_message(raw)
    except DECODE_ERRORS:
        return decode_leniently(raw, Message, _BLANK_MESSAGE)


def decode_blocks(raw: msgspec.Raw) -> Sequence[Block]:
    """Decode the content of a message or of a tool's result: blocks, or a string as a block of text."""
    try:
        return _decode_block_list(raw)
    except DECODE_ERRORS:
        pass
    try:
        content = msgspec.json.decode(raw)
    except DECODE_ERRORS:
        return ()
    if isinstance(content, str):
        return (Block(type="text", text=content),)
    if isinstance(content, dict):
        content = [content]
    if not isinstance(content, list):
        return ()
    return [_block(item) for item in content]


def _block(item: object) -> Block:
    if isinstance(item, str):
        return Block(type="text", text=item)
    return decode_leniently(msgspec.json.encode(item), Block, _BLANK_BLOCK)


def decode_text(raw: msgspec.Raw) -> str:
    """Decode a string; empty for anything else."""
    try:
        return msgspec.json.decode(raw, type=str)
    except DECODE_ERRORS:
        return ""


def decode_texts(raw: msgspec.Raw) -> str:
    """Return all texts in a value of any form, one below the other."""
    try:
        return "\n".join(_leaves(msgspec.json.decode(raw)))
    except DECODE_ERRORS:
        return ""


def plain_text(raw: msgspec.Raw) -> str:
    """Decode a string without the colours of a terminal; empty for anything else."""
    return _ANSI.sub("", decode_text(raw)).strip()


def link_to(attachment: Attachment) -> ResourceLink | None:
    """Return a link to the file, folder or resource that the user named; None if it has no address."""
    path = attachment.filename or attachment.path
    address = attachment.uri or (f"file://{path}" if path.startswith("/") else path)
    if not address:
        return None
    return ResourceLink(name=attachment.display_path or re.split(r"[/\\]", address.rstrip("/\\"))[-1], uri=address)


def report_text(attachment: Attachment) -> str:
    """Return the words of a hook."""
    values = (attachment.blocking_error, attachment.content, attachment.message)
    return next((text for text in (attachment.stderr, *map(decode_texts, values)) if text.strip()), "")


def _leaves(value: object) -> list[str]:
    match value:
        case str():
            return [value] if value.strip() else []
        case list():
            return [text for item in value for text in _leaves(item)]
        case dict():
            return [text for item in value.values() for text in _leaves(item)]
        case _:
            return []


# The id of a record that has none of its own: its place in the file.
_PLACE = re.compile(r"\d+\.\d+")


def global_id(record: Record, session_id: str) -> str:
    """Return an id of the record that only copies of it have, in any session."""
    uuid = record.uuid or ""
    return f"{session_id}:{uuid}" if not uuid or _PLACE.fullmatch(uuid) else uuid


def native_meta(record: Record) -> dict[str, Any]:
    """Return the `_meta` of the frames of a record: its id and time in the transcript."""
    return {"native": {"uuid": record.uuid, "at": record.timestamp}}


def command_meta(record: Record) -> dict[str, Any]:
    """Return the same for a slash command."""
    return {"native": {"uuid": record.uuid, "at": record.timestamp, "command": True}}


# Tags of text that Claude Code put around or beside the user's own.
_TAGS: Final = (
    "command-name",
    "command-message",
    "command-args",
    "command-contents",
    "local-command-stdout",
    "local-command-stderr",
    "local-command-caveat",
    "bash-input",
    "bash-stdout",
    "bash-stderr",
    "system-reminder",
    "task-notification",
    "ide_opened_file",
    "ide_selection",
    "ide_diagnostics",
    "user-prompt-submit-hook",
)
_OPENING = re.compile(rf"<({'|'.join(_TAGS)})>")

# Tags at the beginning of messages of other programs and agents, which are prompts.
_FOREIGN = re.compile(r"\s*<(teammate-message|ci-monitor-event|channel|cross-session-message)\b")

_INTERRUPTED = "[Request interrupted by user"

# Beginnings of texts in the user's role that Claude Code itself wrote, and that it shows. The first ones say that a
# hook ended the run; after the others the model goes on.
_STOPPED_BY_HOOK: Final = ("Operation stopped by hook", "Operation blocked by hook", "Execution stopped by hook")
_HOOK_FEEDBACK: Final = ("Stop hook feedback:",)

# Commands that change or show something in Claude Code's own window; `claude-agent-acp` hides them too.
_HIDDEN_COMMANDS: Final = frozenset(
    {"/context", "/heapdump", "/extra-usage", "/compact", "/model", "/mcp", "/status", "/usage"}
)

_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class TaskNews(msgspec.Struct, frozen=True, gc=False):
    """A notification about a background task. `status` is empty while it runs."""

    id: str = ""
    tool_use_id: str = ""
    status: str = ""
    summary: str = ""
    result: str = ""


class UserText(msgspec.Struct, frozen=True, gc=False):
    """A text in the user's role, split into its parts."""

    prompt: str = ""  # the text that the user typed
    command: str = ""  # or a slash command
    hidden: bool = False  # it is a slash command that is not reported, nor is its output
    output: str = ""  # of a command of the user
    shell: str = ""  # a command that the user ran in a shell
    interrupted: bool = False
    notice: str = ""  # a text that Claude Code shows as its own
    stopped: bool = False  # and that says that a hook ended the run
    tasks: tuple[TaskNews, ...] = ()
    injected: str = ""  # the tag of a text that Claude Code put there


def parse_user_text(text: str) -> UserText:
    if text.lstrip().startswith(_INTERRUPTED):
        return UserText(interrupted=True)
    if text.startswith(_STOPPED_BY_HOOK):
        return UserText(notice=text, stopped=True)
    if text.startswith(_HOOK_FEEDBACK):
        return UserText(notice=text)
    if "<" not in text:
        return UserText(prompt=text)
    if foreign := _FOREIGN.match(text):
        return UserText(prompt=text, injected=foreign[1])
    rest, tagged = _split_tags(text)
    if not tagged:
        return UserText(prompt=text)
    tasks = tuple(_task(body) for tag, body in tagged if tag == "task-notification")
    # After the notification of a task, Claude Code names a file for the model.
    if rest.strip() and not (tasks and text.lstrip().startswith("<task-notification>")):
        return UserText(prompt=rest, tasks=tasks)
    return _only_tags(dict(tagged), tasks)


def _split_tags(text: str) -> tuple[str, Sequence[tuple[str, str]]]:
    """Return the text outside of tags, and each tag with its text. A tag that is not closed is ordinary text."""
    outside: list[str] = []
    tagged: list[tuple[str, str]] = []
    unclosed: set[str] = set()  # so that a text full of them is searched only once
    position = 0
    while opening := _OPENING.search(text, position):
        tag = opening[1]
        end = -1 if tag in unclosed else text.find(f"</{tag}>", opening.end())
        if end < 0:
            unclosed.add(tag)
            outside.append(text[position : opening.end()])
            position = opening.end()
            continue
        outside.append(text[position : opening.start()])
        tagged.append((tag, text[opening.end() : end]))
        position = end + len(tag) + 3
    return "".join([*outside, text[position:]]), tagged


def _only_tags(tags: dict[str, str], tasks: tuple[TaskNews, ...]) -> UserText:
    printed = [tags[tag] for tag in _TAGS if tag.endswith(("-stdout", "-stderr")) and tags.get(tag)]
    output = _ANSI.sub("", "\n".join(printed)).strip()
    first = next(iter(tags))
    name = tags.get("command-name", "").strip()
    hidden = name.split(" ", 1)[0] in _HIDDEN_COMMANDS
    is_shown = name.startswith("/") and not hidden
    return UserText(
        command=f"{name} {tags.get('command-args', '').strip()}".strip() if is_shown else "",
        hidden=hidden,
        output="" if output == "(no content)" else output,
        shell=tags.get("bash-input", "").strip(),
        tasks=tasks,
        injected=first,
    )


def _task(body: str) -> TaskNews:
    # The report of the agent may contain any tag.
    head, _, report = body.partition("<result>")
    return TaskNews(
        id=_field(head, "task-id"),
        tool_use_id=_field(head, "tool-use-id"),
        status=_field(head, "status"),
        summary=_field(head, "summary"),
        result=report.rpartition("</result>")[0].strip(),
    )


def _field(text: str, tag: str) -> str:
    _, opened, rest = text.partition(f"<{tag}>")
    value, closed, _ = rest.partition(f"</{tag}>")
    return value.strip() if opened and closed else ""


def join_user_texts(parts: Sequence[UserText]) -> UserText:
    """Combine the texts of one message."""
    if len(parts) == 1:
        return parts[0]
    return UserText(
        prompt="\n".join(part.prompt for part in parts if part.prompt.strip()),
        command=next((part.command for part in parts if part.command), ""),
        hidden=any(part.hidden for part in parts),
        output="\n".join(part.output for part in parts if part.output),
        shell=next((part.shell for part in parts if part.shell), ""),
        interrupted=any(part.interrupted for part in parts),
        notice="\n".join(part.notice for part in parts if part.notice),
        stopped=any(part.stopped for part in parts),
        tasks=tuple(task for part in parts for task in part.tasks),
        injected=next((part.injected for part in parts if part.injected), ""),
    )
