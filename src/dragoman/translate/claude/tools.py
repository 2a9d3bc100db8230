"""Claude's tools: the title, kind and content of a call, and what its result adds to that.

Titles and kinds are those of `claude-agent-acp` 0.99.0, so that a session reads the same whether it was run through
that adapter or found on disk. Tools that this version no longer has are shown like their successors.

A transcript has a result twice: as the text that the model read, with hints to the model in it, and as a structure of
the tool's own. The structure is used if there is one, as the adapter does.
"""

from __future__ import annotations

import os.path
import re
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from dragoman.translate.claude.records import ABSENT, Block, decode_blocks, decode_text
from dragoman.translate.records import decode_leniently
from dragoman.wire.messages import DECODE_ERRORS
from dragoman.wire.vocabulary import (
    Content,
    ContentBlock,
    Diff,
    ImageContent,
    TextContent,
    ToolCallContent,
    ToolCallLocation,
    ToolKind,
)

# Reported as a plan, and as tool calls only if they fail.
PLAN_TOOLS: Final = frozenset({"TodoWrite", "TaskCreate", "TaskUpdate", "TaskList", "TaskGet"})

# Tools whose calls start a sub-agent.
AGENT_TOOLS: Final = frozenset({"Agent", "Task"})


class Input(msgspec.Struct, frozen=True, gc=False):
    """The arguments of all tools that are shown."""

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


def text(content: str) -> Content:
    return Content(content=TextContent(text=content))


def relative_path(path: str, cwd: str) -> str:
    """Return the path relative to the session's folder if it is below it."""
    if not cwd:
        return path
    normal = os.path.normpath(path)
    folder = os.path.normpath(cwd)
    if normal == folder:
        return ""
    return normal[len(folder) + 1 :] if normal.startswith(folder + "/") else path


def _bash(arguments: Input, cwd: str) -> ToolDisplay:
    description = arguments.description if arguments.description is not None else arguments.command_description
    return ToolDisplay(arguments.command or "Terminal", "execute", (text(description),) if description else ())


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
    new_text = next((text for text in texts if text is not None), None)
    if not path:
        return ToolDisplay("Preparing file…", "edit", (text(new_text),) if new_text else ())
    diff = (Diff(path=path, old_text=None, new_text=new_text or ""),)
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
    """Show the search as a command line that would do the same."""
    mode = arguments.output_mode
    if mode is None and _is_on(arguments.names_only):
        mode = "files_with_matches"
    if mode is None and _is_on(arguments.count_only):
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
    path = arguments.path if arguments.path is not None else arguments.file_path
    words += [path] if path else []
    return ToolDisplay(" ".join(words), "search")


def _is_on(flag: bool | str) -> bool:
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


_EXIT_CODE = re.compile(r"Exit code (\d{1,10})(?:\n|$)")
_FENCE = re.compile(r"^```+", re.MULTILINE)
# A hint to the model after the report of a sub-agent.
_AGENT_TRAILER = re.compile(
    r"\n?agentId: [\w-]+ \([^)]*\)\s*(?:<usage>.*</usage>\s*)?$|\n?<usage>.*</usage>\s*$", re.DOTALL
)
# The hint is within this many characters of the end. The report before it may be long and contain similar text.
_TRAILER_CHARS: Final = 4096


class FilePart(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    content: str = ""
    start_line: int | None = None
    num_lines: int | None = None
    total_lines: int | None = None
    truncated_by_token_cap: bool = False


class Hunk(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    lines: tuple[str, ...] = ()
    new_start: int = 0


class PlanTask(msgspec.Struct, frozen=True, gc=False):
    id: str = ""
    subject: str = ""
    status: str = "pending"


class Output(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """`toolUseResult` of any tool: the fields that are shown."""

    type: str | None = None
    status: str | None = None
    stdout: str | None = None
    stderr: str | None = None
    interrupted: bool = False
    is_image: bool = False
    background_task_id: str | None = None
    return_code_interpretation: str | None = None
    persisted_output_path: str | None = None
    persisted_output_size: int | None = None
    file: FilePart | None = None
    file_path: str | None = None
    structured_patch: tuple[Hunk, ...] = ()
    content: msgspec.Raw = ABSENT
    original_file: msgspec.Raw = ABSENT
    results: msgspec.Raw = ABSENT
    agent_id: str | None = None
    task: PlanTask | None = None
    tasks: tuple[PlanTask, ...] | None = None


class Result(msgspec.Struct, frozen=True, gc=False):
    """The changes that a result makes to its tool call; None for fields that stay."""

    content: tuple[ToolCallContent, ...] | None = None
    locations: tuple[ToolCallLocation, ...] | None = None
    title: str | None = None
    extras: dict[str, Any] = {}


_BLANK_OUTPUT: Final = Output()
_decode_output = msgspec.json.Decoder(Output).decode

# Tools whose structured result is shown. That of the others is not decoded.
_STRUCTURED_TOOLS: Final = frozenset({"Bash", "PowerShell", "Read", "Edit", "MultiEdit", "Write", "WebSearch"})
_DECODED_TOOLS: Final = _STRUCTURED_TOOLS | AGENT_TOOLS | PLAN_TOOLS


def read_output(name: str, raw: msgspec.Raw) -> Output:
    if name not in _DECODED_TOOLS:
        return _BLANK_OUTPUT
    try:
        return _decode_output(raw)
    except DECODE_ERRORS:
        return decode_leniently(raw, Output, _BLANK_OUTPUT)


def display_result(name: str, answer: Block, output: Output) -> Result:
    """Return the content, locations and title that a result gives its call."""
    if answer.is_error and (failed := _block_contents(decode_blocks(answer.content), fenced=True)):
        code = _EXIT_CODE.match(decode_text(answer.content))
        return Result(failed, extras={"exitCode": int(code[1])} if code else {})
    tool = _RESULTS.get(name)
    return tool(answer, output) if tool is not None else Result(_block_contents(decode_blocks(answer.content)) or None)


def _edit_result(answer: Block, output: Output) -> Result:
    """Return the hunks of an edit, each as a diff with the lines around it."""
    path = output.file_path
    if not path:
        return Result()
    diffs: list[ToolCallContent] = []
    locations: list[ToolCallLocation] = []
    for hunk in output.structured_patch:
        old = [line[1:] for line in hunk.lines if line[:1] not in ("+", "\\")]
        new = [line[1:] for line in hunk.lines if line[:1] not in ("-", "\\")]
        if old or new:
            diffs.append(Diff(path=path, old_text="\n".join(old) or None, new_text="\n".join(new)))
            locations.append(ToolCallLocation(path=path, line=hunk.new_start))
    if not diffs and output.type == "update":
        # The texts were the same, or too long for Claude to compare.
        before, after = _string(output.original_file), _string(output.content)
        if after is not None:
            locations.append(ToolCallLocation(path=path))
            diffs.append(
                Diff(path=path, old_text=before, new_text=after)
                if before is not None
                else text(f"Updated `{path}` (previous content too large to diff)")
            )
    return Result(tuple(diffs) or None, tuple(locations) or None)


def _string(raw: msgspec.Raw) -> str | None:
    try:
        return msgspec.json.decode(raw, type=str)
    except DECODE_ERRORS:
        return None


def _command_result(answer: Block, output: Output) -> Result:
    extras: dict[str, Any] = {}
    if output.stdout is not None and output.stderr is not None and not output.is_image:
        if output.background_task_id is None:
            return _finished_command_result(output)
        extras["backgroundTaskId"] = output.background_task_id
    content = decode_blocks(answer.content)
    if any(block.type != "text" for block in content):
        return Result(_block_contents(content) or None, extras=extras)
    return Result(_console("\n".join(block.text for block in content)), extras=extras)


def _finished_command_result(output: Output) -> Result:
    extras: dict[str, Any] = {}
    parts = [output.stdout, output.stderr]
    if output.interrupted:
        parts.append("[Command was aborted before completion]")
        extras["interrupted"] = True
    elif output.return_code_interpretation is None:
        extras["exitCode"] = 0  # any other code is an error, or is interpreted
    if output.persisted_output_path is not None:
        size = f" ({output.persisted_output_size} bytes total)" if output.persisted_output_size is not None else ""
        parts.append(f"[Output truncated{size}: full output saved to {output.persisted_output_path}]")
    return Result(_console("\n".join(part for part in parts if part)), extras=extras)


def _console(output: str) -> tuple[ToolCallContent, ...] | None:
    return (text(f"```console\n{output.rstrip()}\n```"),) if output.strip() else None


def _read_result(answer: Block, output: Output) -> Result:
    part = output.file
    if output.type == "text" and part is not None and part.content:
        first = part.start_line if part.start_line is not None else 1
        lines = part.content.removesuffix("\n").split("\n")
        numbered = "\n".join(f"{number}\t{line}" for number, line in enumerate(lines, first))
        if part.truncated_by_token_cap:
            counted = part.num_lines is not None and part.total_lines is not None
            shown = f": showing {part.num_lines} of {part.total_lines} lines" if counted else ""
            numbered += f"\n[File truncated{shown}]"
        return Result((text(fence(numbered)),))
    content = decode_blocks(answer.content)
    fenced = [text(fence(block.text)) if block.type == "text" else Content(content=_block(block)) for block in content]
    return Result(tuple(fenced) if any(block.type != "text" or block.text for block in content) else None)


def _agent_result(answer: Block, output: Output) -> Result:
    extras: dict[str, Any] = {"agentId": output.agent_id} if output.agent_id is not None else {}
    if output.status is not None:
        extras["status"] = output.status
    if output.status == "completed" and (report := _block_contents(decode_blocks(output.content))):
        return Result(report, extras=extras)
    content = [
        msgspec.structs.replace(block, text=_without_trailer(block.text)) if block.type == "text" else block
        for block in decode_blocks(answer.content)
    ]
    return Result(_block_contents(content) or None, extras=extras)


def _without_trailer(report: str) -> str:
    return report[:-_TRAILER_CHARS] + _AGENT_TRAILER.sub("", report[-_TRAILER_CHARS:])


def _search_result(answer: Block, output: Output) -> Result:
    try:
        entries = msgspec.json.decode(output.results, type=list[Any])
    except DECODE_ERRORS:
        entries = []
    lines: list[str] = []
    for entry in entries:
        if isinstance(entry, str):
            lines.append(entry)
        elif isinstance(entry, dict) and isinstance(hits := entry.get("content"), list):
            lines.extend(
                f"{hit['title']} ({hit['url']})"
                for hit in hits
                if isinstance(hit, dict) and {"title", "url"} <= set(hit)
            )
    return (
        Result((text("\n".join(lines)),)) if lines else Result(_block_contents(decode_blocks(answer.content)) or None)
    )


def _nothing(answer: Block, output: Output) -> Result:
    return Result()


_RESULTS: Final[dict[str, Callable[[Block, Output], Result]]] = {
    "Bash": _command_result,
    "PowerShell": _command_result,
    "Read": _read_result,
    "Edit": _edit_result,
    "MultiEdit": _edit_result,
    "Write": _edit_result,
    "Agent": _agent_result,
    "Task": _agent_result,
    "WebSearch": _search_result,
    "Skill": _nothing,
    "ExitPlanMode": lambda answer, output: Result(title="Exited Plan Mode"),
    "exit_plan_mode": lambda answer, output: Result(title="Exited Plan Mode"),
}


def fence(content: str) -> str:
    """Put a fence around the text, longer than any fence within."""
    mark = "`" * max([3, *(len(inner) + 1 for inner in _FENCE.findall(content))])
    return f"{mark}\n{content}{'' if content.endswith(chr(10)) else chr(10)}{mark}"


def _block_contents(content: Sequence[Block], *, fenced: bool = False) -> tuple[ToolCallContent, ...]:
    if all(block.type == "text" and not block.text for block in content):
        return ()
    return tuple(Content(content=_block(block, fenced=fenced)) for block in content)


def _block(block: Block, *, fenced: bool = False) -> ContentBlock:
    source = block.source
    if block.type == "image" and source is not None and source.type == "base64":
        return ImageContent(data=source.data, mime_type=source.media_type)
    content = block_text(block)
    return TextContent(text=f"```\n{content}\n```" if fenced else content)


def block_text(block: Block) -> str:
    """Return the readable text of a block that has no counterpart in ACP."""
    source = block.source
    match block.type:
        case "text":
            return block.text
        case "image":
            return f"[image: {source.url}]" if source is not None and source.url else "[image: file reference]"
        case "document" if source is not None:
            title = f' "{block.title}"' if block.title else ""
            return f"[document{title}: {source.url or source.media_type}]"
        case "tool_reference":
            return f"Tool: {block.tool_name}"
        case _:
            return f"[{block.type or 'unknown content'}]"
