"""Claude's tools: what a call is called, what kind it is, and what it shows before it has a result.

Titles and kinds are those of `claude-agent-acp` 0.99.0, so that a session reads the same whether it was run through it
or found on disk. The tools that version has no name for any more are named as their successors are.
"""

from __future__ import annotations

import os.path
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from dragoman.translate.records import decode_leniently
from dragoman.wire.messages import DECODE_ERRORS
from dragoman.wire.vocabulary import Content, Diff, TextContent, ToolCallContent, ToolCallLocation, ToolKind

# Told as a plan, and as tool calls only where they fail.
PLAN_TOOLS: Final = frozenset({"TodoWrite", "TaskCreate", "TaskUpdate", "TaskList", "TaskGet"})

# Whose calls begin a sub-agent.
AGENT_TOOLS: Final = frozenset({"Agent", "Task"})


class Input(msgspec.Struct, frozen=True, gc=False):
    """The fields of all tools that are shown."""

    command: str | None = None
    description: str | None = None
    command_description: str | None = None
    file_path: str | None = None
    path: str | None = None
    content: str | None = None
    file_text: str | None = None
    file_content: str | None = None
    offset: int | None = None
    limit: int | None = None
    old_string: str | None = None
    new_string: str | None = None
    edits: tuple[dict[str, Any], ...] = ()
    pattern: str | None = None
    output_mode: str | None = None
    glob: str | None = None
    type: str | None = None
    multiline: bool = False
    head_limit: int | None = None
    ignore_case: bool | str = msgspec.field(default=False, name="-i")
    numbers: bool | str = msgspec.field(default=False, name="-n")
    names_only: bool | str = msgspec.field(default=False, name="-l")
    count_only: bool | str = msgspec.field(default=False, name="-c")
    after: int | None = msgspec.field(default=None, name="-A")
    before: int | None = msgspec.field(default=None, name="-B")
    around: int | None = msgspec.field(default=None, name="-C")
    url: str | None = None
    query: str | None = None
    prompt: str | None = None
    plan: str | None = None
    skill: str | None = None
    subagent_type: str | None = None
    effort: str | None = None
    questions: tuple[dict[str, Any], ...] = ()
    findings: tuple[dict[str, Any], ...] = ()
    todos: tuple[dict[str, Any], ...] = ()
    subject: str | None = None
    active_form: str | None = msgspec.field(default=None, name="activeForm")
    task_id: str | None = msgspec.field(default=None, name="taskId")
    status: str | None = None


class ToolDisplay(msgspec.Struct, frozen=True, gc=False):
    """A call as a tool_call shows it."""

    title: str
    kind: ToolKind = "other"
    content: tuple[ToolCallContent, ...] = ()
    locations: tuple[ToolCallLocation, ...] = ()


_BLANK: Final = Input()
_decode = msgspec.json.Decoder(Input).decode


def read_input(raw: msgspec.Raw) -> Input:
    try:
        return _decode(raw)
    except DECODE_ERRORS:
        return decode_leniently(raw, Input, _BLANK)


def display(name: str, arguments: Input, cwd: str) -> ToolDisplay:
    tool = _TOOLS.get(name)
    return tool(arguments, cwd) if tool is not None else ToolDisplay(name or "Unknown Tool")


def text(words: str) -> Content:
    return Content(content=TextContent(text=words))


def relative_path(path: str, cwd: str) -> str:
    """Relative to the session's folder where it is below it."""
    if not cwd:
        return path
    whole = os.path.normpath(path)
    folder = os.path.normpath(cwd)
    if whole == folder:
        return ""
    return whole[len(folder) + 1 :] if whole.startswith(folder + "/") else path


def _bash(arguments: Input, cwd: str) -> ToolDisplay:
    about = arguments.description if arguments.description is not None else arguments.command_description
    return ToolDisplay(arguments.command or "Terminal", "execute", (text(about),) if about else ())


def _agent(arguments: Input, cwd: str) -> ToolDisplay:
    effort = f" ({arguments.effort} effort)" if arguments.effort and arguments.subagent_type != "fork" else ""
    content = (text(arguments.prompt),) if arguments.prompt is not None else ()
    return ToolDisplay((arguments.description or "Task") + effort, "think", content)


def _read(arguments: Input, cwd: str) -> ToolDisplay:
    part = ""
    if arguments.limit and arguments.limit > 0:
        first = arguments.offset if arguments.offset is not None else 1
        part = f" ({first} - {first + arguments.limit - 1})"
    elif arguments.offset:
        part = f" (from line {arguments.offset})"
    if arguments.file_path is None:
        return ToolDisplay(f"Read File{part}", "read")
    line = max(arguments.offset if arguments.offset is not None else 1, 1)
    title = f"Read {relative_path(arguments.file_path, cwd)}{part}"
    return ToolDisplay(title, "read", (), (ToolCallLocation(path=arguments.file_path, line=line),))


def _write(arguments: Input, cwd: str) -> ToolDisplay:
    path = arguments.file_path or arguments.path
    texts = (arguments.content, arguments.file_text, arguments.file_content)
    words = next((text for text in texts if text is not None), None)
    if not path:
        return ToolDisplay("Preparing file…", "edit", (text(words),) if words else ())
    diff = (Diff(path=path, old_text=None, new_text=words or ""),)
    return ToolDisplay(f"Write {relative_path(path, cwd)}", "edit", diff, (ToolCallLocation(path=path),))


def _edit(arguments: Input, cwd: str) -> ToolDisplay:
    path = arguments.file_path
    if not path:
        return ToolDisplay("Edit", "edit")
    diffs: list[ToolCallContent] = []
    for old, new in [(arguments.old_string, arguments.new_string), *[_pair(edit) for edit in arguments.edits]]:
        if old or new:
            diffs.append(Diff(path=path, old_text=old or None, new_text=new or ""))
    return ToolDisplay(f"Edit {relative_path(path, cwd)}", "edit", tuple(diffs), (ToolCallLocation(path=path),))


def _pair(edit: dict[str, Any]) -> tuple[str | None, str | None]:
    old, new = edit.get("old_string"), edit.get("new_string")
    return old if isinstance(old, str) else None, new if isinstance(new, str) else None


def _glob(arguments: Input, cwd: str) -> ToolDisplay:
    words = ["Find", *[f"`{word}`" for word in (arguments.path, arguments.pattern) if word]]
    return ToolDisplay(
        " ".join(words), "search", (), (ToolCallLocation(path=arguments.path),) if arguments.path else ()
    )


def _grep(arguments: Input, cwd: str) -> ToolDisplay:
    """As the command that would do the same."""
    mode = arguments.output_mode
    if mode is None and _set(arguments.names_only):
        mode = "files_with_matches"
    if mode is None and _set(arguments.count_only):
        mode = "count"
    words = ["grep"]
    words += ["-i"] if arguments.ignore_case else []
    words += ["-n"] if arguments.numbers else []
    for flag, count in (("-A", arguments.after), ("-B", arguments.before), ("-C", arguments.around)):
        words += [f"{flag} {count}"] if count is not None else []
    words += {"files_with_matches": ["-l"], "count": ["-c"]}.get(mode or "", [])
    words += [f"| head -{arguments.head_limit}"] if arguments.head_limit is not None else []
    words += [f'--include="{arguments.glob}"'] if arguments.glob else []
    words += [f"--type={arguments.type}"] if arguments.type else []
    words += ["-P"] if arguments.multiline else []
    words += [f'"{arguments.pattern}"'] if arguments.pattern else []
    place = arguments.path if arguments.path is not None else arguments.file_path
    words += [place] if place else []
    return ToolDisplay(" ".join(words), "search")


def _set(flag: bool | str) -> bool:
    return flag is True or flag == "true"


def _fetch(arguments: Input, cwd: str) -> ToolDisplay:
    begin = f" (from char {arguments.offset})" if arguments.offset else ""
    title = f"Fetch {arguments.url}{begin}" if arguments.url else "Fetch"
    return ToolDisplay(title, "fetch", (text(arguments.prompt),) if arguments.prompt else ())


def _search(arguments: Input, cwd: str) -> ToolDisplay:
    return ToolDisplay(f'Search "{arguments.query}"' if arguments.query else "Web search", "fetch")


def _plan_ready(arguments: Input, cwd: str) -> ToolDisplay:
    return ToolDisplay("Approve Plan", "switch_mode", (text(arguments.plan),) if arguments.plan else ())


def _questions(arguments: Input, cwd: str) -> ToolDisplay:
    questions = [question for item in arguments.questions if isinstance(question := item.get("question"), str)]
    title = questions[0] if len(arguments.questions) == 1 and questions and questions[0] else "Asking for your input"
    return ToolDisplay(title, "other", tuple(text(question) for question in questions))


def _skill(arguments: Input, cwd: str) -> ToolDisplay:
    return ToolDisplay(f"Load skill: {arguments.skill}" if arguments.skill else "Load skill")


def _findings(arguments: Input, cwd: str) -> ToolDisplay:
    count = len(arguments.findings)
    title = f"Report {count} finding{'' if count == 1 else 's'}" if count else "Report findings: none found"
    return ToolDisplay(title, "think", tuple(text(_finding(item)) for item in arguments.findings))


def _finding(item: dict[str, Any]) -> str:
    line = f":{item['line']}" if item.get("line") else ""
    return f"**{item.get('file', '')}{line}** — {item.get('summary', '')}"


def _todos(arguments: Input, cwd: str) -> ToolDisplay:
    items: Sequence[str] = [str(item.get("content", "")) for item in arguments.todos]
    return ToolDisplay(f"Update TODOs: {', '.join(items)}" if items else "Update TODOs", "think")


def _task(verb: str) -> Callable[[Input, str], ToolDisplay]:
    return lambda arguments, cwd: ToolDisplay(
        f"{verb} task: {arguments.subject}" if arguments.subject else f"{verb} task", "think"
    )


_TOOLS: Final[dict[str, Callable[[Input, str], ToolDisplay]]] = {
    "Agent": _agent,
    "Task": _agent,
    "Bash": _bash,
    "PowerShell": _bash,
    "Read": _read,
    "Write": _write,
    "Edit": _edit,
    "MultiEdit": _edit,  # until 1.0.x; several edits of one file
    "Glob": _glob,
    "Grep": _grep,
    "WebFetch": _fetch,
    "WebSearch": _search,
    "ExitPlanMode": _plan_ready,
    "exit_plan_mode": _plan_ready,  # its name in 1.0.x
    "EnterPlanMode": lambda arguments, cwd: ToolDisplay("EnterPlanMode", "switch_mode"),
    "AskUserQuestion": _questions,
    "Skill": _skill,
    "ReportFindings": _findings,
    "TodoWrite": _todos,
    "TaskCreate": _task("Create"),
    "TaskUpdate": _task("Update"),
    "TaskList": lambda arguments, cwd: ToolDisplay("List tasks", "think"),
    "TaskGet": lambda arguments, cwd: ToolDisplay("Get task", "think"),
}
