"""Codex's tools: the title, kind and content of a call before it has a result.

Titles and kinds are those of `codex-acp` 2.6.0, so that a session reads the same whether it was run through that
adapter or found on disk. Calls that the adapter does not show (of unknown tools, or questions) are named after their
tool.
"""

from __future__ import annotations

import re
from typing import Any, Final, Literal, TypeAlias

import msgspec

from dragoman.translate.codex import commands, patches, records
from dragoman.translate.codex.commands import process_name
from dragoman.translate.codex.records import absolute
from dragoman.translate.records import decode_leniently
from dragoman.wire.messages import DECODE_ERRORS
from dragoman.wire.vocabulary import (
    Content,
    PlanEntry,
    PlanEntryStatus,
    ResourceLink,
    TextContent,
    ToolCallContent,
    ToolCallLocation,
    ToolKind,
)

EDITING: Final = "Editing files"

_COMMANDS: Final = frozenset({"shell", "exec_command", "shell_command", "container.exec", "local_shell"})
_AGENTS: Final = {
    "spawn_agent": "spawnAgent",
    "send_input": "sendInput",
    "resume_agent": "resumeAgent",
    "wait_agent": "wait",
    "wait": "wait",
    "close_agent": "closeAgent",
}
_STATUSES: Final[dict[str, PlanEntryStatus]] = {
    "pending": "pending",
    "in_progress": "in_progress",
    "inProgress": "in_progress",
    "completed": "completed",
}
# The first command that a script runs.
_FIRST_COMMAND: Final = re.compile(r"""\bcmd["']?\s*:\s*("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|`[^`]*`)""")

# How the result of a call is reported.
Form: TypeAlias = Literal["command", "patch", "script", "plan", "poll", "agent", "other"]


class ToolDisplay(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A call as a tool call shows it; for a plan or a poll, the values to handle it."""

    form: Form = "other"
    name: str
    title: str
    kind: ToolKind = "other"
    content: tuple[ToolCallContent, ...] = ()
    locations: tuple[ToolCallLocation, ...] = ()
    raw_input: Any = None
    folder: str = ""
    line: str = ""  # of a command
    plan: tuple[PlanEntry, ...] = ()
    polled: str | None = None  # the process or script of a poll
    typed: str = ""  # the input that a poll sends to it


class Arguments(msgspec.Struct, frozen=True, gc=False):
    """The arguments of all tools that are shown."""

    cmd: Any = None
    command: Any = None
    workdir: str | None = None
    working_directory: str | None = None
    session_id: int | str | None = None
    cell_id: int | str | None = None
    chars: str = ""
    input: str | None = None
    patch: str | None = None
    plan: Any = None
    path: str | None = None
    message: str | None = None
    query: str | None = None
    questions: Any = None


_BLANK: Final = Arguments()


def display(name: str, namespace: str | None, raw_arguments: msgspec.Raw, text: str, cwd: str) -> ToolDisplay:
    """Return the display of a call. `text` is the input of a tool that takes only text."""
    raw, arguments = _decode_arguments(raw_arguments)
    folder = absolute(arguments.workdir or arguments.working_directory or cwd, cwd)
    if name in _COMMANDS:
        return _command(name, arguments, folder, raw)
    if name == "apply_patch":
        return _patch(name, text or arguments.input or arguments.patch or "", folder)
    if name == "update_plan":
        return ToolDisplay(form="plan", name=name, title=name, plan=_entries(arguments.plan), raw_input=raw)
    if name == "write_stdin" or (name == "wait" and arguments.cell_id is not None):
        polled = process_name(arguments.session_id, arguments.cell_id)
        title = f"Write to {polled or 'a process'}" if arguments.chars else f"Wait for {polled or 'a process'}"
        return ToolDisplay(
            form="poll", name=name, title=title, kind="execute", polled=polled, typed=arguments.chars, raw_input=raw
        )
    if name == "exec" and text:
        return ToolDisplay(
            form="script", name=name, title=_script_title(text), kind="execute", folder=cwd, raw_input={"input": text}
        )
    return _other(name, namespace, arguments, folder, raw if raw is not None else text or None)


def _decode_arguments(arguments: msgspec.Raw) -> tuple[Any, Arguments]:
    """Return the arguments as plain values and as a struct. They are JSON in a string, or an object."""
    value = records.plain(arguments)
    if not isinstance(value, str):
        return value, decode_leniently(arguments, Arguments, _BLANK)
    encoded = value.encode("utf-8", "replace")
    try:
        raw = msgspec.json.decode(encoded)
    except DECODE_ERRORS:
        return value or None, _BLANK
    return raw, decode_leniently(encoded, Arguments, _BLANK)


def _command(name: str, arguments: Arguments, folder: str, raw: Any) -> ToolDisplay:
    command = arguments.command if arguments.command is not None else arguments.cmd
    if isinstance(command, list) and len(command) == 2 and command[0] in ("apply_patch", "applypatch"):
        return _patch(name, str(command[1]), folder)
    line = commands.line_of(command)
    applied = patches.in_shell(line) if "patch" in line[:400] else None
    if applied is not None:
        patch, below = applied
        return _patch(name, patch, absolute(below, folder) if below else folder)
    command_display = commands.display_command(line, folder)
    return ToolDisplay(
        form="command",
        name=name,
        title=command_display.title or name,
        kind=command_display.kind,
        locations=(ToolCallLocation(path=command_display.path),) if command_display.path else (),
        raw_input={"command": line, "cwd": folder} if line else raw,
        folder=folder,
        line=line,
    )


def _patch(name: str, patch: str, folder: str) -> ToolDisplay:
    changes = patches.parse(patch)
    return ToolDisplay(
        form="patch",
        name=name,
        title=EDITING,
        kind="edit",
        content=patches.diffs(changes, folder),
        locations=patches.locations(changes, folder),
        raw_input={"patch": patch},
        folder=folder,
    )


def _entries(plan: object) -> tuple[PlanEntry, ...]:
    """Convert the steps of a plan. Old models used other field names, or plain text."""
    steps = plan if isinstance(plan, list) else []
    entries: list[PlanEntry] = []
    for step in steps:
        if isinstance(step, str):
            entries.append(PlanEntry(content=step, priority="medium", status="pending"))
        elif isinstance(step, dict):
            text = step.get("step") or step.get("content") or step.get("description") or ""
            status = _STATUSES.get(str(step.get("status")), "pending")
            entries.append(PlanEntry(content=str(text), priority="medium", status=status))
    return tuple(entries)


def _script_title(script: str) -> str:
    match = _FIRST_COMMAND.search(script)
    if match is None:
        return "Run script"
    quoted = match[1]
    command = records.plain(quoted.encode("utf-8", "replace")) if quoted.startswith('"') else quoted[1:-1]
    return command if isinstance(command, str) and command.strip() else "Run script"


def _other(name: str, namespace: str | None, arguments: Arguments, folder: str, raw: Any) -> ToolDisplay:
    if name == "view_image" and arguments.path:
        return image_view(arguments.path, folder)
    server, tool = _mcp(name, namespace)
    if server:
        return mcp(server, tool, raw)
    if name in _AGENTS:
        text = arguments.message
        content = (Content(content=TextContent(text=text)),) if text and not records.is_encrypted(text) else ()
        return ToolDisplay(form="agent", name=name, title=_AGENTS[name], content=content, raw_input=raw)
    if name in ("request_user_input", "request_user_input_async"):
        return ToolDisplay(name=name, title=_question(arguments.questions) or name, raw_input=raw)
    if name in ("web_search", "tool_search"):
        title = "Web search" if name == "web_search" else "Tool search"
        return ToolDisplay(
            name=name, title=f"{title}: {arguments.query}" if arguments.query else title, kind="search", raw_input=raw
        )
    return ToolDisplay(name=f"{namespace}.{name}" if namespace else name, title=name, raw_input=raw)


def _mcp(name: str, namespace: str | None) -> tuple[str, str]:
    """Return the server and the tool of an MCP call. Older versions join the two names."""
    if namespace is not None:
        return (namespace.removeprefix("mcp__"), name) if namespace.startswith("mcp__") else ("", name)
    server, joint, tool = name.removeprefix("mcp__").partition("__")
    return (server, tool) if joint and server and tool else ("", name)


def mcp(server: str, tool: str, arguments: Any) -> ToolDisplay:
    raw_input = {"server": server, "tool": tool, "arguments": arguments}
    return ToolDisplay(name=tool, title=f"mcp.{server}.{tool}", kind="execute", raw_input=raw_input)


def image_view(path: str, folder: str) -> ToolDisplay:
    full = absolute(path, folder)
    return ToolDisplay(
        name="view_image",
        title=f"View Image {full}",
        kind="read",
        content=(Content(content=ResourceLink(name=full, uri=full)),),
        locations=(ToolCallLocation(path=full),),
        raw_input={"path": full},
    )


class _Action(msgspec.Struct, frozen=True, gc=False):
    """The action of a web search."""

    type: str = ""
    query: str | None = None
    queries: tuple[str, ...] | None = None
    url: str | None = None
    pattern: str | None = None


def web_search(query: str, action: msgspec.Raw) -> ToolDisplay:
    details = decode_leniently(action, _Action, _Action())
    match details.type:
        case "open_page" | "openPage":
            title = f"Open page: {details.url}" if details.url else "Open page"
        case "find_in_page" | "findInPage":
            title = f"Find in page{_pattern_suffix(details.pattern)}{f' in {details.url}' if details.url else ''}"
        case _:
            text = details.query or ", ".join(filter(None, details.queries or ())) or query
            title = f"Web search: {text}" if text else "Web search"
    raw_input = {"query": query, "action": action}
    return ToolDisplay(name="web_search", title=title, kind="search", raw_input=raw_input)


def _pattern_suffix(pattern: str | None) -> str:
    return f" for '{pattern}'" if pattern else ""


def _question(questions: object) -> str | None:
    """Return the first question."""
    match questions:
        case [{"question": str(question)}, *_] | [{"title": str(question)}, *_]:
            return question
        case _:
            return None
