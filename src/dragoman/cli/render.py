"""From events to what a person sees. Pure: events in, pieces out.

The agent's words become `Text` and go to stdout; everything else stands beside them, on stderr.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from dragoman.cli.figures import duration, size, usage_parts
from dragoman.cli.host_actions import NO, YES, HostActions, why
from dragoman.cli.pieces import UNSEEN, Ending, Line, MessageEnd, Piece, Span, Style, Text, Thought
from dragoman.cli.text import columns, one_line, plain, wrapped
from dragoman.record import events, rows
from dragoman.record.diffs import describe_changes
from dragoman.record.notes import Difference
from dragoman.wire.vocabulary import Content, Diff, TextContent

BULLET = "●"

# Of what was decided and why, at most.
REASON_LINES = 4

# What stands before a title that does not say it itself; kinds that are not here say nothing to people.
_VERBS = {
    "read": "read",
    "edit": "edit",
    "delete": "delete",
    "move": "move",
    "search": "search",
    "execute": "run",
    "fetch": "fetch",
    "think": "think",
}
_STEPS: dict[str, tuple[str, Style]] = {
    "completed": (YES, "good"),
    "in_progress": ("▸", "bold"),
    "pending": ("○", "dim"),
}
_INDENT = "  "


class Renderer:
    """Remembers what was shown, so that a plan is told anew only where it changed."""

    def __init__(self, *, cwd: Path, width: int, thoughts: bool, verbose: bool, diffs: bool = False) -> None:
        self._cwd = cwd
        self.width = width
        self._thoughts = thoughts
        self._verbose = verbose
        self._plans: dict[str | None, tuple[rows.PlanEntry, ...]] = {}
        self._asked: dict[str, events.PermissionRequested] = {}  # those without an answer
        self._served = HostActions(cwd=cwd, width=lambda: self.width, verbose=verbose, diffs=diffs)

    def show(self, event: events.Event) -> Iterable[Piece]:
        match event:
            case events.AssistantDelta(text=text, message_id=message_id):
                yield Text(text, message_id)
            case events.ReasoningDelta(text=text, message_id=message_id):
                if self._thoughts:
                    yield Thought(text, message_id)
            case events.AssistantMessage(message_id=message_id) | events.ReasoningMessage(message_id=message_id):
                yield MessageEnd(message_id)
            case events.ToolCall():
                # Some agents tell of a tool only when it is done.
                if event.status in ("completed", "failed"):
                    yield from self._tool_ended(event)
                else:
                    self._served.announced(event)
                    yield self._tool_call(event)
            case events.ToolResult():
                yield from self._tool_ended(event)
            case events.PlanUpdated():
                yield from self._plan(event)
            case events.PermissionRequested(permission_id=permission_id):
                self._asked[permission_id] = event
                if event.origin == "agent":
                    self._served.announced(event)
            case events.PermissionResolved():
                yield from self._resolved(event)
            case (
                events.FileRead()
                | events.FileWritten()
                | events.TerminalStarted()
                | events.TerminalRefused()
                | events.TerminalExited()
                | events.QuestionAsked()
                | events.QuestionAnswered()
            ):
                yield from self._served.show(event)
            case events.HistoryDiffers() if event.differences:
                told = f"! the agent tells this session otherwise: {_difference(event.differences[0])}"
                rest = f" (and {event.count - 1} more)" if event.count > 1 else ""
                yield Line((Span(one_line(told, self.width - len(rest)) + rest, "dim"),))
            case events.ProviderEvent():
                yield from self._provider(event)
            case events.RunCompleted():
                yield self._completed(event)
            case _:
                # Errors are told once, at the end.
                return

    # -- tools

    def _tool_call(self, call: events.ToolCall) -> Line:
        named = self._named(call, self.width - 2)
        return Line((*_indent(call), Span(f"{BULLET} ", "tool"), *named), key=call.tool_call_id)

    def _tool_ended(self, result: events.ToolCall | events.ToolResult) -> Iterable[Piece]:
        yield self._tool_result(result)
        self._served.tool_ended(result.tool_call_id)
        if result.status == "completed":
            yield from self._served.diff_lines(item for item in result.content if isinstance(item, Diff))

    def _tool_result(self, result: events.ToolCall | events.ToolResult) -> Ending:
        failed = result.status == "failed"
        mark = Span(NO, "bad") if failed else Span(YES, "good")
        said = _outcome(result)
        if not said:
            named = self._named(result, self.width - 2)
            return Ending(result.tool_call_id, (*_indent(result), mark, Span(" "), *named))
        # Half of the line at most for each, where both are long.
        least = min(columns(one_line(said, self.width)), self.width // 2)
        named = self._named(result, self.width - least - 4)
        room = self.width - sum(columns(span.text) for span in named) - 4
        outcome = Span(f"  {one_line(said, room)}", "bad" if failed else "dim")
        return Ending(result.tool_call_id, (*_indent(result), mark, Span(" "), *named, outcome))

    def _named(self, call: events.ToolCall | events.ToolResult, room: int) -> tuple[Span, ...]:
        """Title, with the verb of its kind and the first location where it does not name them itself."""
        verb = _VERBS.get(call.kind, "")
        title = one_line((call.title or call.name or "").replace(f"{self._cwd}/", ""), self.width)
        words = title.lower().split() or [""]
        # A bare command, path or tool's name does not say what is done with it.
        if verb and (len(words) < 2 or call.kind == "execute") and verb not in (*words, words[0][: len(verb)]):
            title = f"{verb} {title}".rstrip()
        room -= len(_INDENT) if call.parent_id else 0
        title = one_line(title or call.kind, room)
        place = self._place(call)
        if not place or os.path.basename(place.partition(":")[0]) in title or columns(title) + 8 > room:
            return (Span(title),)
        return Span(title), Span(f" {one_line(place, room - columns(title) - 1)}", "dim")

    def _place(self, call: events.ToolCall | events.ToolResult) -> str:
        if not call.locations or call.kind == "execute":  # beside a command it would look like a part of it
            return ""
        first = call.locations[0]
        path = Path(first.path)
        shown = path.relative_to(self._cwd) if path.is_relative_to(self._cwd) else path
        return f"{shown}:{first.line}" if first.line else str(shown)

    # -- plan

    def _plan(self, plan: events.PlanUpdated) -> Iterable[Piece]:
        before = self._plans.get(plan.plan_id)
        self._plans[plan.plan_id] = plan.entries
        if plan.markdown and not plan.removed:
            yield from (Line((Span(plain(line)),)) for line in plan.markdown.splitlines())
        if plan.removed or not plan.entries or before == plan.entries:
            return
        same_steps = before is not None and [entry.content for entry in before] == [e.content for e in plan.entries]
        if same_steps and before is not None:
            changed = [entry for entry, old in zip(plan.entries, before, strict=True) if entry.status != old.status]
        else:
            done = sum(entry.status == "completed" for entry in plan.entries)
            yield Line((Span("plan", "bold"), Span(f" {done}/{len(plan.entries)}", "dim")))
            changed = list(plan.entries)
        for entry in changed:
            mark, style = _STEPS.get(entry.status, ("○", "dim"))
            text = one_line(entry.content, self.width - 4)
            yield Line(
                (Span(f"{_INDENT}{mark}", style), Span(f" {text}", "dim" if entry.status == "completed" else ""))
            )

    # -- permissions

    def _resolved(self, answer: events.PermissionResolved) -> Iterable[Piece]:
        """What a person answered was on the screen already; what was decided for them is told."""
        asked = self._asked.pop(answer.permission_id, None)
        if answer.decided_by not in UNSEEN:
            if asked is not None:
                self._served.seen(item for item in asked.content if isinstance(item, Diff))
            yield from self._for_good(answer)
            return
        allowed = answer.decision == "allow"
        # Of what the agent asked us to do, the file or the command itself tells.
        if answer.origin != "agent" or (allowed and not self._verbose):
            return
        word = "allowed" if allowed else "not allowed"
        mark = Span(YES, "good") if allowed else Span(NO, "bad")
        title = one_line(asked.title if asked else "", self.width - len(word) - 4)
        # Broken, not cut: which rule it was stands at the end.
        said = one_line(f"{word}: {title} ({why(answer)})", REASON_LINES * self.width)
        first, *more = self._broken(said)
        style: Style = "dim" if allowed else ""
        yield Line((mark, Span(f" {first}", style)))
        yield from (Line((Span(f"{_INDENT}{line}", style),)) for line in more)

    def _for_good(self, answer: events.PermissionResolved) -> Iterable[Piece]:
        """What an "always" or a "never" became: how far it goes, and how it is taken back."""
        _, _, told = (answer.reason or "").partition("; ")
        if answer.decided_by != "person" or not told:
            return
        style: Style = "dim" if answer.remembered else "bad"
        mark = "· "
        for line in self._broken(plain(told)):
            yield Line((Span(f"{mark}{line}", style),))
            mark = _INDENT
        if answer.remembered:
            yield Line((Span(f"{_INDENT}To forget it: dragoman policy revoke {' '.join(answer.remembered)}", style),))

    def _broken(self, text: str) -> list[str]:
        """As lines with room for a mark before each."""
        return [line.rstrip() for line in wrapped(text, self.width - 3)]

    # -- the rest

    def _provider(self, event: events.ProviderEvent) -> Iterable[Piece]:
        raw = event.raw
        said = raw if isinstance(raw, dict) else {}
        match event.kind:
            case "agent_message_chunk":
                yield Line((Span(_attachment(said.get("content")), "dim"),))
            case "notice":
                text = ": ".join(str(said[key]) for key in ("title", "description") if said.get(key))
                bad = said.get("severity") in ("error", "warning")
                yield Line((Span(f"! {one_line(text, self.width - 2)}", "bad" if bad else "dim"),))
            case "current_mode_update" if said.get("currentModeId"):
                yield Line((Span(f"mode: {one_line(str(said['currentModeId']), 60)}", "dim"),))
            case "compaction_update" if said.get("status") == "completed":
                yield Line((Span("the agent compacted its context", "dim"),))
            case _:
                return

    def _completed(self, end: events.RunCompleted) -> Line:
        words = {"success": "done in", "cancelled": "cancelled after", "error": "failed after"}
        parts = [f"{words[end.status]} {duration(end.duration)}", *(usage_parts(end.usage) if end.usage else ())]
        return Line((Span(one_line(" · ".join(parts), self.width), "dim"),), block="end")


def _indent(call: events.ToolCall | events.ToolResult) -> tuple[Span, ...]:
    # The tools of a sub-agent stand under the tool that started it.
    return (Span(_INDENT),) if call.parent_id else ()


def _difference(one: Difference) -> str:
    if one.subject == "prompt":
        return f'it leaves out "{one.recorded}"'
    if one.replayed:
        return f'"{one.replayed}" is not kept here'
    return f'it leaves out the tool calls of a run: "{one.recorded}"'


def _outcome(result: events.ToolCall | events.ToolResult) -> str:
    """In a word or two, how it went: lines changed, exit code, or why it failed."""
    texts = [
        item.content.text
        for item in result.content
        if isinstance(item, Content) and isinstance(item.content, TextContent)
    ]
    if result.status == "failed":
        error = result.output.get("error") if isinstance(result.output, dict) else None
        said = error if isinstance(error, str) else next((text for text in texts if text.strip()), "")
        return " ".join(line for line in said.splitlines() if not line.startswith("```"))
    if diffs := [item for item in result.content if isinstance(item, Diff)]:
        return describe_changes(diffs)
    if isinstance(result.output, dict):
        for key in ("exitCode", "exit_code"):
            if isinstance(code := result.output.get(key), int):
                return f"exit {code}"
    return ""


def _attachment(block: object) -> str:
    """A part of a message that is no text, in a few words."""
    said = block if isinstance(block, dict) else {}
    kind = one_line(str(said.get("type", "attachment")), 20)
    if isinstance(data := said.get("data"), str):
        # Base64 has four characters for three bytes, and `=` where there were fewer.
        length = len(data) * 3 // 4 - data[-2:].count("=")
        return f"[{kind}: {one_line(str(said.get('mimeType', '')), 40)}, {size(length)}]"
    inner = said.get("resource")
    uri = said.get("uri") or (inner.get("uri") if isinstance(inner, dict) else None) or ""
    return f"[{kind.removeprefix('resource_') or kind}: {one_line(str(uri), 70)}]"
