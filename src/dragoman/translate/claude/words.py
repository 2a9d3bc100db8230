"""Texts in the user's role: what the user typed, or what Claude Code itself put there.

Claude Code stores slash commands, their output, reminders to the model, notifications of background tasks and the mark
of an interruption as messages of the user. Only what the user typed is a prompt.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import msgspec

# Put around or beside the user's words; none of it is theirs.
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

# Messages of other programs and agents. They stand first, and are prompts: the model was asked by them.
_FOREIGN = re.compile(r"\s*<(teammate-message|ci-monitor-event|channel|cross-session-message)\b")

_INTERRUPTED = "[Request interrupted by user"

# Commands that change or show something in Claude Code's own window; `claude-agent-acp` hides the same.
_HIDDEN: Final = frozenset({"/context", "/heapdump", "/extra-usage", "/compact", "/model", "/mcp", "/status", "/usage"})

_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Task(msgspec.Struct, frozen=True, gc=False):
    """News of a background task. `status` is empty while it goes on."""

    id: str = ""
    tool_use_id: str = ""
    status: str = ""
    summary: str = ""
    result: str = ""


class UserText(msgspec.Struct, frozen=True, gc=False):
    """A text in the user's role, taken apart."""

    prompt: str = ""  # what the user typed
    command: str = ""  # or the slash command
    hidden: bool = False  # a slash command that is not told, and its output neither
    output: str = ""  # what a command of the user's printed
    shell: str = ""  # a command that the user ran in a shell
    interrupted: bool = False
    tasks: tuple[Task, ...] = ()
    injected: str = ""  # the tag of what stands in the place of the user's words


def parse(text: str) -> UserText:
    if text.lstrip().startswith(_INTERRUPTED):
        return UserText(interrupted=True)
    if "<" not in text:
        return UserText(prompt=text)
    if foreign := _FOREIGN.match(text):
        return UserText(prompt=text, injected=foreign[1])
    rest, tagged = _split_tags(text)
    if not tagged:
        return UserText(prompt=text)
    tasks = tuple(_task(body) for tag, body in tagged if tag == "task-notification")
    # After its news of a task, Claude Code tells the model which file has more.
    if rest.strip() and not (tasks and text.lstrip().startswith("<task-notification>")):
        return UserText(prompt=rest, tasks=tasks)
    return _only_tags(dict(tagged), tasks)


def _split_tags(text: str) -> tuple[str, Sequence[tuple[str, str]]]:
    """The text outside of tags, and the text in each. A tag that is not closed is ordinary text."""
    outside: list[str] = []
    tagged: list[tuple[str, str]] = []
    unclosed: set[str] = set()  # so that a text full of them is gone through once
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


def _only_tags(tags: dict[str, str], tasks: tuple[Task, ...]) -> UserText:
    printed = [tags[tag] for tag in _TAGS if tag.endswith(("-stdout", "-stderr")) and tags.get(tag)]
    output = _ANSI.sub("", "\n".join(printed)).strip()
    first = next(iter(tags))
    name = tags.get("command-name", "").strip()
    hidden = name.split(" ", 1)[0] in _HIDDEN
    is_shown = name.startswith("/") and not hidden
    return UserText(
        command=f"{name} {tags.get('command-args', '').strip()}".strip() if is_shown else "",
        hidden=hidden,
        output="" if output == "(no content)" else output,
        shell=tags.get("bash-input", "").strip(),
        tasks=tasks,
        injected=first,
    )


def _task(body: str) -> Task:
    # What the agent reports may quote any tag.
    head, _, report = body.partition("<result>")
    return Task(
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


def join(parts: Sequence[UserText]) -> UserText:
    """Of several texts in one message: what is told of any of them."""
    if len(parts) == 1:
        return parts[0]
    return UserText(
        prompt="\n".join(part.prompt for part in parts if part.prompt.strip()),
        command=next((part.command for part in parts if part.command), ""),
        hidden=any(part.hidden for part in parts),
        output="\n".join(part.output for part in parts if part.output),
        shell=next((part.shell for part in parts if part.shell), ""),
        interrupted=any(part.interrupted for part in parts),
        tasks=tuple(task for part in parts for task in part.tasks),
        injected=next((part.injected for part in parts if part.injected), ""),
    )
