"""A session as Markdown, for a ticket or a page: the conversation, and what the agent did, in their order. Pure.

Promised: nothing in a session acts on a terminal; titles and names stay within their line, outputs and prompts within
their block. The agent's own messages are Markdown already and stay as they are, but for a code block that they leave
open.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import msgspec

from dragoman.journal.rows import SessionRows, StoredMessage, row_position
from dragoman.record import rows
from dragoman.record.diffs import changed_lines
from dragoman.record.rows import PromptContext
from dragoman.record.runs import covered_seconds
from dragoman.record.text import strip_controls, strip_directions
from dragoman.wire import vocabulary as acp

# Unchanged lines that are shown around each change of a file.
DIFF_CONTEXT_LINES: Final = 3

_BACKTICKS: Final = re.compile("`+")
_FENCES: Final = re.compile(r"^ {0,3}(`{3,}|~{3,})(.*)$", re.MULTILINE)
# Characters that mean something to Markdown within a line.
_MARKUP: Final = re.compile(r"([\\`*_<>\[\]#|])")

_CHECKBOXES: Final = {"completed": "- [x]", "in_progress": "- [ ] (in progress)"}


def session_markdown(session: SessionRows) -> Iterator[str]:
    """Write a session part by part; the parts joined are the document."""
    yield from _blocks(_head(session))
    # What the agent did through us is shown with the tool call that it belongs to, where the agent says so.
    shown_terminals = {
        item.terminal_id for call in session.tool_calls for item in call.content if isinstance(item, acp.Terminal)
    }
    terminals = {terminal.terminal_id: terminal for terminal in session.terminals if terminal.terminal_id}
    contexts = {run.id: run.context for run in session.runs if run.context is not None}
    shown_diffs = {_changed_text(item) for call in session.tool_calls for item in call.content if _is_diff(item)}
    for row in _in_order(session):
        match row:
            case StoredMessage():
                yield from _blocks(_message(row))
                if row.kind == "user" and (context := contexts.pop(row.run_id or "", None)) is not None:
                    yield from _blocks([f"*{_inline(context_label(context))}*"])
            case rows.ToolCall():
                yield from _blocks(_tool_call(row, terminals))
            case rows.Terminal() if row.terminal_id not in shown_terminals:
                yield from _blocks(_terminal(row))
            case rows.FileCall():
                yield from _blocks(_file_call(row, with_diff=_changed_text(row.diff) not in shown_diffs))
            case rows.Permission() if row.decided_by is not None:
                yield from _blocks([_item("permission", row.title, _decision(row))])
            case rows.Question():
                yield from _blocks(_question(row))
            case rows.Notice():
                yield from _blocks(_notice(row))
            case rows.Run() if row.status != "running":
                yield from _blocks([f"*{_inline(_run_end(row, _seconds_waited(session, row.id)))}*"])
            case _:
                pass
    yield from _blocks(block for plan in session.plans for block in _plan(plan))


def _blocks(blocks: Iterable[str]) -> Iterator[str]:
    for block in blocks:
        if block:
            yield f"{block}\n" if block.startswith("# ") else f"\n{block}\n"


def _in_order(session: SessionRows) -> Iterator[Any]:
    """Every row in the order of the journal, each run after the last of its rows: the line of a run shows its end."""
    tables: Sequence[Sequence[Any]] = (
        session.messages,
        session.tool_calls,
        session.terminals,
        session.file_calls,
        session.permissions,
        session.questions,
        session.notices,
    )
    ordered = sorted((row for table in tables for row in table), key=lambda row: row_position(row.id))
    last_position = {run.id: run.position for run in session.runs}
    for row in ordered:
        if row.run_id in last_position:
            last_position[row.run_id] = max(last_position[row.run_id], row_position(row.id))
    runs = sorted(session.runs, key=lambda run: last_position[run.id])
    for row in ordered:
        while runs and last_position[runs[0].id] < row_position(row.id):
            yield runs.pop(0)
        yield row
    yield from runs


def _head(session: SessionRows) -> Iterator[str]:
    if not session.sessions:
        yield "# Session"
        return
    row = session.sessions[0]
    yield f"# {_inline(row.title or row.prompt or row.id)}"
    facts = {"agent": row.agent, "workspace": row.cwd, "began": _local_time(row.created), "session": row.id}
    yield "\n".join(f"- {name}: {_inline(value)}" for name, value in facts.items() if value)


def _message(row: StoredMessage) -> Iterator[str]:
    attachments = ", ".join(attachment_label(block) for block in row.blocks)
    match row.kind:
        case "user":
            yield f"## {_local_time(row.time)}"
            yield _quoted(row.text)
            if attachments:
                yield f"with {_inline(attachments)}"
        case "assistant":
            yield _with_closed_fence(strip_controls(row.text).strip())
            if attachments:
                yield f"*{_inline(attachments)}*"
        case "thought":
            if row.text.strip():
                yield _quoted(row.text, first="> *thought:* ")


def _tool_call(row: rows.ToolCall, terminals: Mapping[str, rows.Terminal]) -> Iterator[str]:
    status = row.status if row.exit_code is None else f"{row.status}, exit code {row.exit_code}"
    yield _item(row.kind, f"↳ {row.title}" if row.parent_id else row.title, status)
    has_result = False
    for item in row.content:
        match item:
            case acp.Diff():
                has_result = True
                yield _diff(item)
            case acp.Content(content=acp.TextContent(text=text)) if text.strip():
                has_result = True
                yield _fenced(text.strip("\n"))
            case acp.Content(content=block) if not isinstance(block, acp.TextContent):
                yield f"*{_inline(attachment_label(block))}*"
            case acp.Terminal(terminal_id=terminal_id) if terminal_id in terminals:
                has_result = True
                yield from _terminal(terminals[terminal_id])
            case _:
                pass
    if row.output is not None and row.output.strip():
        yield _fenced(_output(row.output, truncated=row.truncated))
    elif row.raw_output is not None and not has_result:
        yield _raw(row.raw_output)


def _terminal(row: rows.Terminal) -> Iterator[str]:
    status = row.status if row.exit_code is None else f"{row.status}, exit code {row.exit_code}"
    yield _item("command", shlex.join((row.command, *row.args)) if row.args else row.command, row.error or status)
    if row.output is not None and row.output.strip():
        yield _fenced(_output(row.output, truncated=row.truncated))


def _file_call(row: rows.FileCall, *, with_diff: bool) -> Iterator[str]:
    yield _item(row.operation, row.path, row.error or row.status)
    if row.diff is not None and with_diff:
        yield _diff(row.diff)


def _question(row: rows.Question) -> Iterator[str]:
    answers = [f"  - {_inline(name)}: {_inline(str(value))}" for name, value in (row.content or {}).items()]
    yield "\n".join([_item("question", row.message, row.action), *answers])


def _notice(row: rows.Notice) -> Iterator[str]:
    yield _item(row.kind, row.title, row.status or row.severity)
    if row.text and row.text.strip():
        yield _quoted(row.text)


def _plan(plan: rows.Plan) -> Iterator[str]:
    if plan.entries or plan.markdown:
        yield "## Plan"
        yield "\n".join(f"{_CHECKBOXES.get(entry.status, '- [ ]')} {_inline(entry.content)}" for entry in plan.entries)
        yield _quoted(plan.markdown) if plan.markdown else ""


def _seconds_waited(session: SessionRows, run_id: str) -> float:
    """Return how long a run waited for answers of a person."""
    answers: list[tuple[rows.Permission | rows.Question, float | None]] = [
        *((row, row.resolved_time) for row in session.permissions),
        *((row, row.answered_time) for row in session.questions),
    ]
    return covered_seconds(
        (row.time, end)
        for row, end in answers
        if row.run_id == run_id and row.decided_by == "person" and end is not None
    )


def _run_end(run: rows.Run, waited_s: float = 0.0) -> str:
    reason = run.reason or (run.error.message if run.error is not None else None)
    match run.status:
        case "success":
            # Only for a run that ended by itself: an interruption may have been recorded much later.
            seconds = "" if run.ended_time is None else f" in {max(0.0, run.ended_time - run.time - waited_s):.1f} s"
            text = f"completed{seconds}" if run.stop_reason in (None, "end_turn") else f"{run.stop_reason}{seconds}"
        case "error":
            text = f"failed: {reason}" if reason else "failed"
        case status:
            text = f"{status}: {reason}" if reason else status
    return " · ".join([text.strip().rstrip("."), *(_usage(run.usage) if run.usage is not None else ())])


def _usage(usage: rows.Usage) -> Iterator[str]:
    """Describe the figures that the agent reported, and no others."""
    tokens = [(usage.input_tokens, "in"), (usage.output_tokens, "out")]
    if counts := [f"{count} {word}" for count, word in tokens if count is not None]:
        yield f"tokens: {', '.join(counts)}"
    elif usage.total_tokens is not None:
        yield f"tokens: {usage.total_tokens}"
    if usage.cost is not None:
        yield f"{usage.cost.amount:.4g} {usage.cost.currency}"


def _decision(row: rows.DecidedRow) -> str:
    decider = "you" if row.decided_by == "person" else row.decided_by
    match row.decision:
        case "allow":
            return f"allowed by {decider}"
        case "deny":
            return f"denied by {decider}"
        case _:
            return "not answered"


def _diff(diff: acp.Diff) -> str:
    head = f"--- {'/dev/null' if diff.old_text is None else diff.path}\n+++ {diff.path}"
    lines = [f"{mark}{line}" for mark, line in changed_lines(diff, context=DIFF_CONTEXT_LINES)]
    return _fenced("\n".join([head, *lines]), "diff")


def _is_diff(item: object) -> bool:
    return isinstance(item, acp.Diff)


def _changed_text(diff: Any) -> tuple[str, str, str] | None:
    return (diff.path, diff.old_text or "", diff.new_text) if isinstance(diff, acp.Diff) else None


def attachment_label(block: object, *, format_size: Callable[[int], str] = "{:,} bytes".format) -> str:
    """Return a short text for an attachment of a prompt: its type and size, its name or its address."""
    match block:
        case acp.ImageContent(data=data, mime_type=mime_type) | acp.AudioContent(data=data, mime_type=mime_type):
            # Base64 has four characters for three bytes.
            return f"{mime_type} ({format_size(len(data) * 3 // 4)})"
        case acp.ResourceLink(name=name, uri=uri):
            return name or uri
        case acp.EmbeddedResource(resource=resource):
            return resource.uri
        case _:
            return "an attachment"


def context_label(context: PromptContext) -> str:
    """Return a line about the text that went with a prompt beside the user's own."""
    parts = []
    if context.skills:
        parts.append(f"skills in full: {', '.join(skill.name for skill in context.skills)}")
    if context.listed:
        parts.append(f"{context.listed} skill{'s' if context.listed > 1 else ''} listed")
    if context.template is not None:
        parts.append(f"template: {context.template}")
    if context.has_custom_instructions:
        parts.append("custom instructions")
    parts += [f"not sent: {skill.name} ({skill.reason})" for skill in context.omitted]
    return f"with {' · '.join(parts)}" if parts else ""


def _output(text: str, *, truncated: bool) -> str:
    return f"[…]\n{text.strip()}" if truncated else text.strip("\n")


def _raw(value: Any) -> str:
    if isinstance(value, str):
        return _fenced(value.strip("\n")) if value.strip() else ""
    return _fenced(msgspec.json.format(msgspec.json.encode(value), indent=2).decode(), "json")


def _item(kind: str, title: str, status: str) -> str:
    return f"- **{_inline(kind)}** {_inline(title)} ({_inline(status)})"


def _quoted(text: str, first: str = "> ") -> str:
    head, *rest = strip_controls(text).strip().split("\n")
    return "\n".join([f"{first}{head}".rstrip(), *(f"> {line}".rstrip() for line in rest)])


def _fenced(text: str, language: str = "text") -> str:
    inert = strip_controls(text)
    longest = max(map(len, _BACKTICKS.findall(inert)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{inert}\n{fence}"


def _with_closed_fence(text: str) -> str:
    """Close the code block that an agent's Markdown leaves open: it would swallow the rest of the document."""
    fence = ""
    for mark, rest in _FENCES.findall(text):
        if not fence:
            fence = mark
        elif mark.startswith(fence) and not rest.strip():
            fence = ""
    return f"{text}\n{fence}" if fence else text


def _inline(text: str) -> str:
    """Put a text on one line, with every character that Markdown would read as markup escaped."""
    return _MARKUP.sub(r"\\\1", " ".join(strip_directions(strip_controls(text)).split()))


def _local_time(time: float) -> str:
    if not time:
        return "unknown time"
    return datetime.fromtimestamp(time).astimezone().strftime("%Y-%m-%d %H:%M")
