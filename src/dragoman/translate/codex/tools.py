"""Codex's tools: the title, kind and content of a call before it has a result.

Titles and kinds are those of `codex-acp` 2.6.0, so that a session reads the same whether it was run through that
adapter or found on disk. Calls that the adapter does not show (of unknown tools, or questions) are named after their
tool.

The changes of `apply_patch` are shown as diffs. The model's own patch shows the intended changes, the `unified_diff` of
an applied change also the old text of the file. Nothing here raises: of a truncated or malformed patch, the readable
part is shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final, Literal, TypeAlias

import msgspec

from dragoman.translate.codex import commands, records
from dragoman.translate.codex.commands import process_name
from dragoman.translate.codex.records import absolute
from dragoman.translate.records import decode_leniently
from dragoman.wire.messages import DECODE_ERRORS
from dragoman.wire.vocabulary import (
    Content,
    Diff,
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
    applied = patch_in_shell(line) if "patch" in line[:400] else None
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
    changes = parse_patch(patch)
    return ToolDisplay(
        form="patch",
        name=name,
        title=EDITING,
        kind="edit",
        content=diffs_of(changes, folder),
        locations=locations_of(changes, folder),
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


# A shell command that only applies a patch from a here-document. Models forget to end it; a shell then takes the rest.
_PATCH_IN_SHELL: Final = re.compile(
    r"\s*(?:cd\s+(?P<folder>'[^']+'|\"[^\"]+\"|\S+)\s*&&\s*)?apply_?patch\s*<<-?\s*(?P<quote>['\"]?)(?P<end>\w+)(?P=quote)\n"
    r"(?P<patch>.*?)(?:\n(?P=end)\s*|(?<=\n\*\*\* End Patch)\s*)",
    re.DOTALL,
)
_HUNK: Final = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d{1,10})(?:,\d+)? @@")
_NO_NEWLINE: Final = "\\"


class Change(msgspec.Struct, frozen=True, gc=False):
    """One hunk of a file, or the whole file if it was added or deleted."""

    path: str
    kind: Literal["add", "update", "delete"]
    new: str = ""
    old: str | None = None
    line: int | None = None


class _FileChange(msgspec.Struct, frozen=True, gc=False):
    """One file of `changes`, as Codex records what it did."""

    type: str = ""
    content: str = ""
    unified_diff: str = ""
    move_path: str | None = None


def patch_in_shell(command: str) -> tuple[str, str] | None:
    """Return the patch that a shell command applies, and the folder that it changes to; None for other commands."""
    match = _PATCH_IN_SHELL.fullmatch(command)
    if match is None or "*** " not in match["patch"]:
        return None
    return match["patch"], (match["folder"] or "").strip("'\"")


def parse_patch(patch: str) -> Sequence[Change]:
    """Parse a patch in the model's own format."""
    changes: list[Change] = []
    path, kind, body = "", "", list[str]()
    for line in [*_patch_lines(patch), "*** End Patch"]:
        header = _header(line)
        if header is None:
            body.append(line)
            continue
        word, name = header
        if word == "Move to":
            path = name
            continue
        if word == "End of File":
            continue
        changes.extend(_section(path, kind, body))
        path, kind, body = name, word, []
    return changes


def _patch_lines(text: str) -> list[str]:
    """Split at newlines only, as programs that make patches do; `splitlines` splits at more characters."""
    return text.removesuffix("\n").split("\n")


def _header(line: str) -> tuple[str, str] | None:
    """Return the action and the name in a line such as `*** Add File: name`; None for other lines."""
    if not line.startswith("*** "):
        return None
    word, _, name = line[4:].partition(":")
    return word.strip(), name.strip()


def _section(path: str, kind: str, body: Sequence[str]) -> Iterable[Change]:
    match kind:
        case "Add File":
            yield Change(path, "add", "".join(line[1:] + "\n" for line in body if line.startswith("+")))
        case "Delete File":
            yield Change(path, "delete")
        case "Update File":
            hunk: list[str] = []
            for line in [*body, "@@"]:
                if not line.startswith("@@"):
                    hunk.append(line)
                elif hunk:
                    yield _hunk(path, hunk)
                    hunk = []
            if not body:
                yield Change(path, "update", "", "")  # only moved
        case _:
            pass


def _hunk(path: str, lines: Sequence[str], line_number: int | None = None) -> Change:
    old: list[str] = []
    new: list[str] = []
    before = " "
    for line in lines:
        sign = line[:1] or " "
        if sign == _NO_NEWLINE:
            if before != "+" and old:
                old[-1] = old[-1].removesuffix("\n")
            if before != "-" and new:
                new[-1] = new[-1].removesuffix("\n")
            continue
        text = line[1:] + "\n"
        if sign != "+":
            old.append(text)
        if sign != "-":
            new.append(text)
        before = sign
    return Change(path, "update", "".join(new), "".join(old), line_number)


def applied_changes(changes: msgspec.Raw) -> Sequence[Change]:
    """Decode the changes that Codex made."""
    files = records.read(changes, dict[str, _FileChange], {})
    return [change for path, file_change in files.items() for change in _changes_of_file(path, file_change)]


def _changes_of_file(path: str, file_change: _FileChange) -> Iterable[Change]:
    match file_change.type:
        case "add":
            yield Change(path, "add", file_change.content)
        case "delete":
            yield Change(path, "delete", "", file_change.content)
        case "update":
            yield from _unified(file_change.move_path or path, file_change.unified_diff)
        case _:
            pass


def _unified(path: str, diff: str) -> Iterable[Change]:
    """Yield one change for each hunk of a unified diff without file names."""
    start: int | None = None
    lines: list[str] = []
    has_hunks = False
    for line in [*_patch_lines(diff), "@@ -0 +0 @@"]:
        header = _HUNK.match(line)
        if header is None:
            lines.append(line)
            continue
        if start is not None and lines:
            has_hunks = True
            yield _hunk(path, lines, start or None)
        start, lines = int(header[2]), []
    if not has_hunks:
        yield Change(path, "update", "", "")  # only moved


def diffs_of(changes: Iterable[Change], folder: str) -> tuple[Diff, ...]:
    """Convert changes to diffs, in the order of their paths, as `codex-acp` reports them."""
    return tuple(
        Diff(
            path=absolute(change.path, folder),
            new_text=change.new,
            old_text=change.old,
            meta={"kind": change.kind},
        )
        for change in sorted(changes, key=_path)
    )


def locations_of(changes: Iterable[Change], folder: str) -> tuple[ToolCallLocation, ...]:
    """Return each file once, with the line of its first hunk if that is known."""
    first: dict[str, int | None] = {}
    for change in sorted(changes, key=_path):
        first.setdefault(absolute(change.path, folder), change.line)
    return tuple(ToolCallLocation(path=path, line=line) for path, line in first.items())


def _path(change: Change) -> str:
    return change.path
