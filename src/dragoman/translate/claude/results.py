"""Results of Claude's tools as tool calls show them, and diffs as the agent recorded them.

A result stands in the transcript twice: as the text that the model read, with hints to the model in it, and as a
structure of the tool's own. The structure is taken where there is one, as `claude-agent-acp` 0.99.0 does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from dragoman.translate.claude.records import ABSENT, Block, decode_blocks, decode_text
from dragoman.translate.claude.tools import AGENT_TOOLS, PLAN_TOOLS, text
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
)

_EXIT_CODE = re.compile(r"Exit code (\d{1,10})(?:\n|$)")
_FENCE = re.compile(r"^```+", re.MULTILINE)
# What the model is told after a sub-agent's report, and no reader asked for.
_AGENT_TRAILER = re.compile(
    r"\n?agentId: [\w-]+ \([^)]*\)\s*(?:<usage>.*</usage>\s*)?$|\n?<usage>.*</usage>\s*$", re.DOTALL
)
_TRAILER_CHARS: Final = (
    4096  # characters at the end among which it stands: a report may be long, and full of such words
)


class FilePart(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    content: str = ""
    start_line: int | None = None
    num_lines: int | None = None
    total_lines: int | None = None
    truncated_by_token_cap: bool = False


class Hunk(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    lines: tuple[str, ...] = ()
    new_start: int = 0


class Task(msgspec.Struct, frozen=True, gc=False):
    id: str = ""
    subject: str = ""
    status: str = "pending"


class Output(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """`toolUseResult` of any tool: the fields that are looked at."""

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
    task: Task | None = None
    tasks: tuple[Task, ...] | None = None


class Result(msgspec.Struct, frozen=True, gc=False):
    """The changes that a result makes to its tool call; None for fields that stay."""

    content: tuple[ToolCallContent, ...] | None = None
    locations: tuple[ToolCallLocation, ...] | None = None
    title: str | None = None
    extras: dict[str, Any] = {}


_BLANK: Final = Output()
_decode = msgspec.json.Decoder(Output).decode

# Whose structure is looked at; of the others it would be read for nothing.
_STRUCTURED_TOOLS: Final = frozenset({"Bash", "PowerShell", "Read", "Edit", "MultiEdit", "Write", "WebSearch"})
_DECODED_TOOLS: Final = _STRUCTURED_TOOLS | AGENT_TOOLS | PLAN_TOOLS


def read_output(name: str, raw: msgspec.Raw) -> Output:
    if name not in _DECODED_TOOLS:
        return _BLANK
    try:
        return _decode(raw)
    except DECODE_ERRORS:
        return decode_leniently(raw, Output, _BLANK)


def display(name: str, answer: Block, output: Output) -> Result:
    """Return the content, locations and title that a result gives its call."""
    if answer.is_error and (failed := _block_contents(decode_blocks(answer.content), fenced=True)):
        code = _EXIT_CODE.match(decode_text(answer.content))
        return Result(failed, extras={"exitCode": int(code[1])} if code else {})
    tool = _RESULTS.get(name)
    return tool(answer, output) if tool is not None else Result(_block_contents(decode_blocks(answer.content)) or None)


def diffs_of(output: Output) -> Result:
    """The hunks of an edit, each as a diff with the lines around it."""
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
            known = before is not None
            diffs.append(
                Diff(path=path, old_text=before, new_text=after)
                if known
                else text(f"Updated `{path}` (previous content too large to diff)")
            )
    return Result(tuple(diffs) or None, tuple(locations) or None)


def _string(raw: msgspec.Raw) -> str | None:
    try:
        return msgspec.json.decode(raw, type=str)
    except DECODE_ERRORS:
        return None


def _edit(answer: Block, output: Output) -> Result:
    return diffs_of(output)


def _command(answer: Block, output: Output) -> Result:
    extras: dict[str, Any] = {}
    if output.stdout is not None and output.stderr is not None and not output.is_image:
        if output.background_task_id is None:
            return _finished_command(output)
        extras["backgroundTaskId"] = output.background_task_id
    content = decode_blocks(answer.content)
    if any(block.type != "text" for block in content):
        return Result(_block_contents(content) or None, extras=extras)
    return Result(_console("\n".join(block.text for block in content)), extras=extras)


def _finished_command(output: Output) -> Result:
    extras: dict[str, Any] = {}
    parts = [output.stdout, output.stderr]
    if output.interrupted:
        parts.append("[Command was aborted before completion]")
        extras["interrupted"] = True
    elif output.return_code_interpretation is None:
        extras["exitCode"] = 0  # any other code is an error, or has an interpretation
    if output.persisted_output_path is not None:
        size = f" ({output.persisted_output_size} bytes total)" if output.persisted_output_size is not None else ""
        parts.append(f"[Output truncated{size}: full output saved to {output.persisted_output_path}]")
    return Result(_console("\n".join(part for part in parts if part)), extras=extras)


def _console(output: str) -> tuple[ToolCallContent, ...] | None:
    return (text(f"```console\n{output.rstrip()}\n```"),) if output.strip() else None


def _read(answer: Block, output: Output) -> Result:
    part = output.file
    if output.type == "text" and part is not None and part.content:
        first = part.start_line if part.start_line is not None else 1
        lines = part.content.removesuffix("\n").split("\n")
        numbered = "\n".join(f"{number}\t{line}" for number, line in enumerate(lines, first))
        if part.truncated_by_token_cap:
            counted = part.num_lines is not None and part.total_lines is not None
            of = f": showing {part.num_lines} of {part.total_lines} lines" if counted else ""
            numbered += f"\n[File truncated{of}]"
        return Result((text(fence(numbered)),))
    content = decode_blocks(answer.content)
    fenced = [text(fence(block.text)) if block.type == "text" else Content(content=_block(block)) for block in content]
    return Result(tuple(fenced) if any(block.type != "text" or block.text for block in content) else None)


def _agent(answer: Block, output: Output) -> Result:
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


def _web_search(answer: Block, output: Output) -> Result:
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
    "Bash": _command,
    "PowerShell": _command,
    "Read": _read,
    "Edit": _edit,
    "MultiEdit": _edit,
    "Write": _edit,
    "Agent": _agent,
    "Task": _agent,
    "WebSearch": _web_search,
    "Skill": _nothing,
    "ExitPlanMode": lambda answer, output: Result(title="Exited Plan Mode"),
    "exit_plan_mode": lambda answer, output: Result(title="Exited Plan Mode"),
}


# Blocks -------------------------------------------------------------------------------------------------------------


def fence(words: str) -> str:
    """Fenced, with a fence longer than any within."""
    mark = "`" * max([3, *(len(found) + 1 for found in _FENCE.findall(words))])
    return f"{mark}\n{words}{'' if words.endswith(chr(10)) else chr(10)}{mark}"


def _block_contents(content: Sequence[Block], *, fenced: bool = False) -> tuple[ToolCallContent, ...]:
    if all(block.type == "text" and not block.text for block in content):
        return ()
    return tuple(Content(content=_block(block, fenced=fenced)) for block in content)


def _block(block: Block, *, fenced: bool = False) -> ContentBlock:
    source = block.source
    if block.type == "image" and source is not None and source.type == "base64":
        return ImageContent(data=source.data, mime_type=source.media_type)
    words = block_text(block)
    return TextContent(text=f"```\n{words}\n```" if fenced else words)


def block_text(block: Block) -> str:
    """The readable text of a block that has no counterpart in ACP."""
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
