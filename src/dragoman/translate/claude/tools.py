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


class Shown(msgspec.Struct, frozen=True, gc=False):
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


def shown(name: str, given: Input, cwd: str) -> Shown:
    tool = _TOOLS.get(name)
    return tool(given, cwd) if tool is not None else Shown(name or "Unknown Tool")


def text(words: str) -> Content:
    return Content(content=TextContent(text=words))


def displayed(path: str, cwd: str) -> str:
    """Relative to the session's folder where it is below it."""
    if not cwd:
        return path
    whole = os.path.normpath(path)
    folder = os.path.normpath(cwd)
    if whole == folder:
        return ""
    return whole[len(folder) + 1 :] if whole.startswith(folder + "/") else path


def _bash(given: Input, cwd: str) -> Shown:
    about = given.description if given.description is not None else given.command_description
    return Shown(given.command or "Terminal", "execute", (text(about),) if about else ())


def _agent(given: Input, cwd: str) -> Shown:
    effort = f" ({given.effort} effort)" if given.effort and given.subagent_type != "fork" else ""
    told = (text(given.prompt),) if given.prompt is not None else ()
    return Shown((given.description or "Task") + effort, "think", told)


def _read(given: Input, cwd: str) -> Shown:
    part = ""
    if given.limit and given.limit > 0:
        first = given.offset if given.offset is not None else 1
        part = f" ({first} - {first + given.limit - 1})"
    elif given.offset:
        part = f" (from line {given.offset})"
    if given.file_path is None:
        return Shown(f"Read File{part}", "read")
    line = max(given.offset if given.offset is not None else 1, 1)
    title = f"Read {displayed(given.file_path, cwd)}{part}"
    return Shown(title, "read", (), (ToolCallLocation(path=given.file_path, line=line),))


def _write(given: Input, cwd: str) -> Shown:
    path = given.file_path or given.path
    words = next((said for said in (given.content, given.file_text, given.file_content) if said is not None), None)
    if not path:
        return Shown("Preparing file…", "edit", (text(words),) if words else ())
    diff = (Diff(path=path, old_text=None, new_text=words or ""),)
    return Shown(f"Write {displayed(path, cwd)}", "edit", diff, (ToolCallLocation(path=path),))


def _edit(given: Input, cwd: str) -> Shown:
    path = given.file_path
    if not path:
        return Shown("Edit", "edit")
    diffs: list[ToolCallContent] = []
    for old, new in [(given.old_string, given.new_string), *[_pair(edit) for edit in given.edits]]:
        if old or new:
            diffs.append(Diff(path=path, old_text=old or None, new_text=new or ""))
    return Shown(f"Edit {displayed(path, cwd)}", "edit", tuple(diffs), (ToolCallLocation(path=path),))


def _pair(edit: dict[str, Any]) -> tuple[str | None, str | None]:
    old, new = edit.get("old_string"), edit.get("new_string")
    return old if isinstance(old, str) else None, new if isinstance(new, str) else None


def _glob(given: Input, cwd: str) -> Shown:
    words = ["Find", *[f"`{word}`" for word in (given.path, given.pattern) if word]]
    return Shown(" ".join(words), "search", (), (ToolCallLocation(path=given.path),) if given.path else ())


def _grep(given: Input, cwd: str) -> Shown:
    """As the command that would do the same."""
    mode = given.output_mode
    if mode is None and _set(given.names_only):
        mode = "files_with_matches"
    if mode is None and _set(given.count_only):
        mode = "count"
    words = ["grep"]
    words += ["-i"] if given.ignore_case else []
    words += ["-n"] if given.numbers else []
    for flag, count in (("-A", given.after), ("-B", given.before), ("-C", given.around)):
        words += [f"{flag} {count}"] if count is not None else []
    words += {"files_with_matches": ["-l"], "count": ["-c"]}.get(mode or "", [])
    words += [f"| head -{given.head_limit}"] if given.head_limit is not None else []
    words += [f'--include="{given.glob}"'] if given.glob else []
    words += [f"--type={given.type}"] if given.type else []
    words += ["-P"] if given.multiline else []
    words += [f'"{given.pattern}"'] if given.pattern else []
    place = given.path if given.path is not None else given.file_path
    words += [place] if place else []
    return Shown(" ".join(words), "search")


def _set(flag: bool | str) -> bool:
    return flag is True or flag == "true"


def _fetch(given: Input, cwd: str) -> Shown:
    begin = f" (from char {given.offset})" if given.offset else ""
    title = f"Fetch {given.url}{begin}" if given.url else "Fetch"
    return Shown(title, "fetch", (text(given.prompt),) if given.prompt else ())


def _search(given: Input, cwd: str) -> Shown:
    return Shown(f'Search "{given.query}"' if given.query else "Web search", "fetch")


def _plan_ready(given: Input, cwd: str) -> Shown:
    return Shown("Approve Plan", "switch_mode", (text(given.plan),) if given.plan else ())


def _questions(given: Input, cwd: str) -> Shown:
    asked = [question for item in given.questions if isinstance(question := item.get("question"), str)]
    title = asked[0] if len(given.questions) == 1 and asked and asked[0] else "Asking for your input"
    return Shown(title, "other", tuple(text(question) for question in asked))


def _skill(given: Input, cwd: str) -> Shown:
    return Shown(f"Load skill: {given.skill}" if given.skill else "Load skill")


def _findings(given: Input, cwd: str) -> Shown:
    count = len(given.findings)
    title = f"Report {count} finding{'' if count == 1 else 's'}" if count else "Report findings: none found"
    return Shown(title, "think", tuple(text(_finding(item)) for item in given.findings))


def _finding(item: dict[str, Any]) -> str:
    line = f":{item['line']}" if item.get("line") else ""
    return f"**{item.get('file', '')}{line}** — {item.get('summary', '')}"


def _todos(given: Input, cwd: str) -> Shown:
    named: Sequence[str] = [str(item.get("content", "")) for item in given.todos]
    return Shown(f"Update TODOs: {', '.join(named)}" if named else "Update TODOs", "think")


def _task(verb: str) -> Callable[[Input, str], Shown]:
    return lambda given, cwd: Shown(f"{verb} task: {given.subject}" if given.subject else f"{verb} task", "think")


_TOOLS: Final[dict[str, Callable[[Input, str], Shown]]] = {
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
    "EnterPlanMode": lambda given, cwd: Shown("EnterPlanMode", "switch_mode"),
    "AskUserQuestion": _questions,
    "Skill": _skill,
    "ReportFindings": _findings,
    "TodoWrite": _todos,
    "TaskCreate": _task("Create"),
    "TaskUpdate": _task("Update"),
    "TaskList": lambda given, cwd: Shown("List tasks", "think"),
    "TaskGet": lambda given, cwd: Shown("Get task", "think"),
}
