"""`Renderer`: makes pieces of events, for a person to see; `HostActions`: those about files and commands. Pure.

The agent's text becomes `Text` and goes to stdout; everything else goes to stderr.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeAlias

import msgspec

from dragoman.cli.screen import UNSEEN, Ending, Line, MessageEnd, Piece, Span, Style, Text, Thought
from dragoman.cli.text import columns, duration, exact, one_line, plain, size, truncate, usage_parts, wrapped
from dragoman.host.requests import command_of
from dragoman.host.shell.wrappers import unwrap_shell
from dragoman.journal.markdown import context_label
from dragoman.record import events, rows
from dragoman.record.diffs import changed_lines, describe_changes
from dragoman.record.notes import Difference
from dragoman.record.runs import covered_seconds
from dragoman.wire.vocabulary import Content, Diff, Terminal, TextContent

YES, NO = "✓", "✗"
EXIT_OK = "exit 0"

# Lines of a diff that are shown; the rest is counted, so that the conversation stays in sight.
MAX_DIFF_LINES = 16

# Lines of a command's output that are shown with -v, from its end.
MAX_OUTPUT_LINES = 10

# Skills of the workspace that are named when they first go with a prompt; the others are counted.
MAX_NAMED_SKILLS = 6

# Layers whose rules are what `--access` says, which the reason names.
_SELF_EVIDENT = ("built in", "access")

_MARKS: dict[str, Style] = {"+": "good", "-": "bad"}

Decided: TypeAlias = (
    events.PermissionResolved
    | events.FileRead
    | events.FileWritten
    | events.TerminalStarted
    | events.TerminalRefused
    | events.QuestionAnswered
)
HostEvent: TypeAlias = (
    events.FileRead
    | events.FileWritten
    | events.TerminalStarted
    | events.TerminalRefused
    | events.TerminalExited
    | events.QuestionAsked
    | events.QuestionAnswered
)


class HostActions:
    """Lines about what the host did for the agent. Each diff is shown once.

    The agent's question, its tool call and the write itself have the same diff.

    An action that a running tool call has announced is covered by the line of the tool call; with `verbose` it gets its
    own. `width` returns the terminal's current width.
    """

    def __init__(
        self, *, cwd: Path, width: Callable[[], int], verbose: bool, diffs: bool, output_lines: int = 0
    ) -> None:
        self._output_lines = output_lines
        self._cwd = cwd
        self._width = width
        self._verbose = verbose
        self._diffs = diffs
        self._seen: set[int] = set()
        self._announced: dict[str | None, set[int]] = {}  # by tool calls under way
        self._covered: dict[str, str | None] = {}  # terminals whose line is that of a tool call, with its id
        # Ends of commands, by the terminal's id and by the id of such a tool call.
        self._command_ends: dict[str | None, events.TerminalExited] = {}
        self._questions: dict[str, str] = {}  # messages of those without an answer

    def show(self, event: HostEvent) -> Iterable[Piece]:
        match event:
            case events.FileRead():
                yield from self._read(event)
            case events.FileWritten():
                yield from self._written(event)
            case events.TerminalStarted() if call := self._announcing("run", unwrap_shell(_command_line(event))):
                self._covered[event.terminal_id] = call[0]
            case events.TerminalExited(terminal_id=terminal_id) if terminal_id in self._covered:
                self._note_end(event, self._covered.pop(terminal_id))
            case events.TerminalStarted():
                yield Line((Span(f"$ {self._command(event, 2)}"),), key=event.terminal_id)
            case events.TerminalRefused():
                yield from self._not_done(event, f"run {self._command(event, 0)}")
            case events.TerminalExited():
                self._note_end(msgspec.structs.replace(event, output=None))  # it is shown here
                yield from self._exited(event)
            case events.QuestionAsked(question_id=question_id, message=message):
                self._questions[question_id] = message
            case events.QuestionAnswered(question_id=question_id, action=action):
                message = self._questions.pop(question_id, "")
                if action != "accept" and event.decided_by in UNSEEN:
                    yield self._line(NO, "bad", f"not answered: {message} ({why(event)})")

    def announced(self, call: events.ToolCall | events.PermissionRequested) -> None:
        """Note what a tool call is about to do."""
        actions = self._announced.setdefault(call.tool_call_id, set())
        actions.update(hash(("write", diff.path, diff.new_text)) for diff in call.content if isinstance(diff, Diff))
        if call.kind == "read":
            actions.update(hash(("read", location.path)) for location in call.locations)
        if (command := command_of(call.input)) is not None:
            actions.add(hash(("run", unwrap_shell(command))))

    def tool_ended(self, tool_call_id: str) -> None:
        self._announced.pop(tool_call_id, None)

    def _announcing(self, *action: str) -> tuple[str | None] | None:
        """Return the id of the tool call that announced this action, in a tuple, as it may be missing; else None."""
        if self._verbose:
            return None
        return next(((call_id,) for call_id, actions in self._announced.items() if hash(action) in actions), None)

    def _is_announced(self, *action: str) -> bool:
        return self._announcing(*action) is not None

    def _note_end(self, end: events.TerminalExited, tool_call_id: str | None = None) -> None:
        self._command_ends[end.terminal_id] = end
        if tool_call_id is not None:
            self._command_ends[tool_call_id] = end

    def command_end(self, result: events.ToolCall | events.ToolResult) -> events.TerminalExited | None:
        """Return the end of the command that a tool call ran in one of our terminals, if it did."""
        terminals = [item.terminal_id for item in result.content if isinstance(item, Terminal)]
        ends = [self._command_ends.pop(key, None) for key in (*terminals, result.tool_call_id)]
        return next((end for end in ends if end is not None), None)

    def seen(self, diffs: Iterable[Diff]) -> None:
        """Note that these diffs were on the screen."""
        self._seen.update(hash((diff.path, diff.new_text)) for diff in diffs)

    def diff_lines(self, diffs: Iterable[Diff]) -> Iterable[Piece]:
        """Show the changed lines, where diffs are enabled and these were not shown before."""
        for diff in diffs:
            if not self._diffs or hash((diff.path, diff.new_text)) in self._seen:
                continue
            self.seen((diff,))
            changed = changed_lines(diff, context=1)
            for mark, line in changed[:MAX_DIFF_LINES]:
                text = truncate(exact(line).expandtabs(4), self._width() - 6)
                yield Line((Span(f"    {mark} {text}", _MARKS.get(mark, "dim")),))
            if len(changed) > MAX_DIFF_LINES:
                yield Line((Span(f"    … {len(changed) - MAX_DIFF_LINES} more lines", "dim"),))

    # -- files

    def _read(self, read: events.FileRead) -> Iterable[Piece]:
        path_text = self._relative(read.path) + (f":{read.from_line}" if read.from_line else "")
        if read.status in ("done", "failed") and self._is_announced("read", read.path):
            return
        if read.status == "done":
            yield Line((Span(one_line(f"· read {path_text}", self._width()), "dim"),))
        elif read.status == "failed" and not self._verbose:
            pass  # agents look for files that may not be there
        elif read.status == "failed":
            yield Line((Span(one_line(f"· read {path_text}: {_failure(read)}", self._width()), "dim"),))
        else:
            yield from self._not_done(read, f"read {path_text}")

    def _written(self, write: events.FileWritten) -> Iterable[Piece]:
        path_text = self._relative(write.path)
        if write.status == "done" and write.diff and self._is_announced("write", write.path, write.diff.new_text):
            return
        if write.status == "done":
            changed = describe_changes((write.diff,)) if write.diff is not None else f"{write.size or 0:,} bytes"
            outcome = changed or "unchanged"
            name = one_line(f"write {path_text}", self._width() - 4 - columns(outcome))
            yield Line((Span(YES, "good"), Span(f" {name}"), Span(f"  {outcome}", "dim")))
            if write.diff is not None:
                yield from self.diff_lines((write.diff,))
        elif write.status == "failed":
            yield self._line(NO, "bad", f"write {path_text}: {_failure(write)}")
        else:
            yield from self._not_done(write, f"write {path_text}")

    def _relative(self, path: str) -> str:
        path_text = Path(path)
        return str(path_text.relative_to(self._cwd) if path_text.is_relative_to(self._cwd) else path_text)

    # -- commands

    def _exited(self, end: events.TerminalExited) -> Iterable[Piece]:
        good = end.exit_code == 0
        if end.status == "exited":
            outcome = end.signal or ("ended" if end.exit_code is None else f"exit {end.exit_code}")
        else:
            outcome = "killed" if end.status == "killed" else "stopped"
        mark: Span = Span(YES, "good") if good else Span(NO, "bad") if end.status == "exited" else Span("■", "dim")
        command = self._command(end, 6 + columns(outcome))
        outcome_span = Span(f"  {outcome}", "dim" if good or end.status != "exited" else "bad")
        yield Ending(end.terminal_id, (mark, Span(f" $ {command}"), outcome_span))
        yield from output_pieces(end.output or "", self._output_lines, self._width())

    def _command(
        self, event: events.TerminalStarted | events.TerminalRefused | events.TerminalExited, taken: int
    ) -> str:
        return one_line(exact(_command_line(event)), self._width() - taken)

    # -- denied and failed actions

    def _not_done(
        self, event: events.FileRead | events.FileWritten | events.TerminalRefused, action: str
    ) -> Iterable[Line]:
        if event.status == "failed":
            yield self._line(NO, "bad", f"{action}: {_failure(event)}")
        elif event.decided_by in UNSEEN or event.decided_by is None:
            yield self._line(NO, "bad", f"not allowed: {action} ({why(event)})")

    def _line(self, mark: str, style: Style, text: str) -> Line:
        return Line((Span(mark, style), Span(f" {one_line(text, self._width() - 2)}")))


def output_pieces(text: str, count: int, width: int) -> Iterable[Line]:
    """Show the last lines of a command's output."""
    lines = text.rstrip().splitlines() if count else []
    for line in lines[-count:]:
        yield Line((Span(f"    {truncate(plain(line).expandtabs(4), width - 4)}", "dim"),))


def why(event: Decided) -> str:
    """Return the reason in a few words, and the rule where it is the user's own."""
    if event.decided_by == "default":
        return "nobody to ask"
    reason = event.reason or "no reason given"
    named = event.rule and event.layer not in _SELF_EVIDENT and event.rule not in reason
    return f"{reason}: {event.rule}" if named else reason


def _command_line(event: events.TerminalStarted | events.TerminalRefused | events.TerminalExited) -> str:
    return shlex.join((event.command, *event.args)) if event.args else event.command


def _failure(event: events.FileRead | events.FileWritten | events.TerminalRefused) -> str:
    """Return the error that the agent got, without the path, which is shown before it."""
    error = event.error or "failed"
    return error if isinstance(event, events.TerminalRefused) else error.replace(f": {event.path}", "")


BULLET = "●"

# Lines of a decision and its reason.
MAX_REASON_LINES = 4

# The verb before a title that does not name it; other kinds mean nothing to people.
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


class WaitingTime:
    """Adds up how long a run waited for answers of a person. Waits at the same time count once."""

    def __init__(self) -> None:
        self._pending: dict[str, float] = {}  # by the id of the permission or question: when it was asked
        self._spans: list[tuple[float, float]] = []

    def add(self, event: events.Event) -> None:
        match event:
            case events.PermissionRequested(permission_id=id_) | events.QuestionAsked(question_id=id_):
                self._pending[id_] = event.time
            case events.PermissionResolved(permission_id=id_) | events.QuestionAnswered(question_id=id_):
                since = self._pending.pop(id_, None)
                if since is not None and event.decided_by == "person":
                    self._spans.append((since, event.time))
            case _:
                return

    def take(self) -> float:
        """Return the seconds since the last call."""
        seconds = covered_seconds(self._spans)
        self._spans.clear()
        self._pending.clear()
        return seconds


class Renderer:
    """Makes pieces of events, in order. Of a plan, only changes are shown again."""

    def __init__(
        self, *, cwd: Path, width: int, thoughts: bool, verbose: bool, diffs: bool = False, output_lines: int = 0
    ) -> None:
        """`output_lines`: of the output of each command that are shown, from its end; with `verbose` more."""
        self._cwd = cwd
        self.width = width
        self._output_lines = MAX_OUTPUT_LINES if verbose else output_lines
        self._thoughts = thoughts
        self._verbose = verbose
        self._plans: dict[str | None, tuple[rows.PlanEntry, ...]] = {}
        self._pending: dict[str, events.PermissionRequested] = {}  # permissions without an answer
        self._workspace_skills: set[str] = set()  # that were named
        self._failed_checkpoint: tuple[str | None, str] | None = None  # the run and the reason of the last one shown
        self._host_actions = HostActions(
            cwd=cwd, width=lambda: self.width, verbose=verbose, diffs=diffs, output_lines=self._output_lines
        )
        self.waiting_time = WaitingTime()

    def show(self, event: events.Event) -> Iterable[Piece]:
        self.waiting_time.add(event)
        match event:
            case events.AssistantDelta(text=text, message_id=message_id):
                yield Text(text, message_id)
            case events.ReasoningDelta(text=text, message_id=message_id):
                if self._thoughts:
                    yield Thought(text, message_id)
            case events.AssistantMessage(message_id=message_id) | events.ReasoningMessage(message_id=message_id):
                yield MessageEnd(message_id)
            case events.ToolCall():
                # Some agents report a tool call only when it is done.
                if event.status in ("completed", "failed"):
                    yield from self._tool_ended(event)
                else:
                    self._host_actions.announced(event)
                    yield self._tool_call(event)
            case events.ToolResult():
                yield from self._tool_ended(event)
            case events.PlanUpdated():
                yield from self._plan(event)
            case events.PermissionRequested(permission_id=permission_id):
                self._pending[permission_id] = event
                if event.origin == "agent":
                    self._host_actions.announced(event)
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
                yield from self._host_actions.show(event)
            case events.HistoryDiffers() if event.differences:
                message = f"! the agent's history differs: {_difference(event.differences[0])}"
                rest = f" (and {event.count - 1} more)" if event.count > 1 else ""
                yield Line((Span(one_line(message, self.width - len(rest)) + rest, "dim"),))
            case events.CheckpointFailed():
                yield from self._checkpoint_failed(event)
            case events.WorkspaceRewound():
                files = "1 file" if event.changed == 1 else f"{event.changed:,} files"
                message = f"The files were brought back to what they were {event.target}: {files} changed."
                yield Line((Span(one_line(message, self.width), "dim"),), block="end")
            case events.GitAction():
                yield Line((Span(one_line(_git_action(event), self.width), "dim"),), block="end")
            case events.ProviderEvent():
                yield from self._provider(event)
            case events.RunStarted(context=context) if context is not None:
                yield from self._context(context)
            case events.RunCompleted():
                yield self._completed(event)
            case _:
                # Errors are shown once, at the end.
                return

    # -- prompts

    def _checkpoint_failed(self, event: events.CheckpointFailed) -> Iterable[Piece]:
        """Warn in full, because the reason ends with what to do; once for a run, where both its checkpoints fail."""
        if (event.run_id, event.reason) != self._failed_checkpoint:
            self._failed_checkpoint = (event.run_id, event.reason)
            text = f"! no checkpoint {event.moment} this run: {event.reason}"
            for line in wrapped(plain(text), self.width):
                yield Line((Span(line, "dim"),))

    def _context(self, context: rows.PromptContext) -> Iterable[Piece]:
        """Tell what went with a prompt, and which skills of the workspace for the first time."""
        new = [name for name in context.workspace_skills if name not in self._workspace_skills]
        self._workspace_skills.update(new)
        texts = []
        if context.skills or context.omitted or context.template is not None:
            texts.append(context_label(context))
        if new:
            more = f" and {len(new) - MAX_NAMED_SKILLS} more" if len(new) > MAX_NAMED_SKILLS else ""
            names = ", ".join(one_line(name, 30) for name in new[:MAX_NAMED_SKILLS])
            texts.append(
                f"skills of this folder go with your prompts: {names}{more}"
                " (dragoman skills list shows them, --no-skills leaves them out)"
            )
        for text in texts:
            for line in wrapped(plain(text), self.width):
                yield Line((Span(line, "dim"),))

    # -- tools

    def _tool_call(self, call: events.ToolCall) -> Line:
        named = self._title(call, self.width - 2)
        return Line((*_indent(call), Span(f"{BULLET} ", "tool"), *named), key=call.tool_call_id)

    def _tool_ended(self, result: events.ToolCall | events.ToolResult) -> Iterable[Piece]:
        end = self._host_actions.command_end(result)
        yield self._tool_result(result, end)
        self._host_actions.tool_ended(result.tool_call_id)
        if end is not None:
            yield from output_pieces(end.output or "", self._output_lines, self.width)
        elif result.kind == "execute" and result.status == "completed":
            yield from output_pieces(_text_of(result), self._output_lines, self.width)
        if result.status == "completed":
            yield from self._host_actions.diff_lines(item for item in result.content if isinstance(item, Diff))

    def _tool_result(self, result: events.ToolCall | events.ToolResult, end: events.TerminalExited | None) -> Ending:
        command_end = _command_end(result, end)
        # An agent completes the call of a command that failed: for the user it failed.
        failed = result.status == "failed" or command_end not in ("", EXIT_OK)
        mark = Span(NO, "bad") if failed else Span(YES, "good")
        outcome = _outcome(result) or command_end
        if not outcome:
            named = self._title(result, self.width - 2)
            return Ending(result.tool_call_id, (*_indent(result), mark, Span(" "), *named))
        # Half of the line at most for each, where both are long.
        min_columns = min(columns(one_line(outcome, self.width)), self.width // 2)
        named = self._title(result, self.width - min_columns - 4)
        room = self.width - sum(columns(span.text) for span in named) - 4
        outcome_span = Span(f"  {one_line(outcome, room)}", "bad" if failed else "dim")
        return Ending(result.tool_call_id, (*_indent(result), mark, Span(" "), *named, outcome_span))

    def _title(self, call: events.ToolCall | events.ToolResult, room: int) -> tuple[Span, ...]:
        """Return the title, with the verb of its kind and the first location where it does not name them itself."""
        verb = _VERBS.get(call.kind, "")
        title = one_line((call.title or call.name or "").replace(f"{self._cwd}/", ""), self.width)
        words = title.lower().split() or [""]
        # A bare command, path or tool name needs a verb.
        if verb and (len(words) < 2 or call.kind == "execute") and verb not in (*words, words[0][: len(verb)]):
            title = f"{verb} {title}".rstrip()
        room -= len(_INDENT) if call.parent_id else 0
        title = one_line(title or call.kind, room)
        location = self._location(call)
        if not location or os.path.basename(location.partition(":")[0]) in title or columns(title) + 8 > room:
            return (Span(title),)
        return Span(title), Span(f" {one_line(location, room - columns(title) - 1)}", "dim")

    def _location(self, call: events.ToolCall | events.ToolResult) -> str:
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
        """Show a decision that was made without the user; an answer of the user is on the screen already."""
        request = self._pending.pop(answer.permission_id, None)
        if answer.decided_by not in UNSEEN:
            if request is not None:
                self._host_actions.seen(item for item in request.content if isinstance(item, Diff))
            yield from self._lasting_answer(answer)
            return
        allowed = answer.decision == "allow"
        # For requests to the host, the line of the file or command shows the decision.
        if answer.origin != "agent" or (allowed and not self._verbose):
            return
        word = "allowed" if allowed else "not allowed"
        mark = Span(YES, "good") if allowed else Span(NO, "bad")
        title = one_line(request.title if request else "", self.width - len(word) - 4)
        # Wrapped, not truncated: the rule is at the end.
        text = one_line(f"{word}: {title} ({why(answer)})", MAX_REASON_LINES * self.width)
        first, *more = self._wrap(text)
        style: Style = "dim" if allowed else ""
        yield Line((mark, Span(f" {first}", style)))
        yield from (Line((Span(f"{_INDENT}{line}", style),)) for line in more)

    def _lasting_answer(self, answer: events.PermissionResolved) -> Iterable[Piece]:
        """Show the scope of an "always" or a "never", and how to revoke it."""
        _, _, scope = (answer.reason or "").partition("; ")
        if answer.decided_by != "person" or not scope:
            return
        style: Style = "dim" if answer.remembered else "bad"
        mark = "· "
        for line in self._wrap(plain(scope)):
            yield Line((Span(f"{mark}{line}", style),))
            mark = _INDENT
        if answer.remembered:
            yield Line((Span(f"{_INDENT}To revoke it: dragoman policy revoke {' '.join(answer.remembered)}", style),))

    def _wrap(self, text: str) -> list[str]:
        """Wrap into lines with room for a mark before each."""
        return [line.rstrip() for line in wrapped(text, self.width - 3)]

    # -- the rest

    def _provider(self, event: events.ProviderEvent) -> Iterable[Piece]:
        raw = event.raw
        fields = raw if isinstance(raw, dict) else {}
        match event.kind:
            case "agent_message_chunk":
                yield Line((Span(_attachment(fields.get("content")), "dim"),))
            case "notice":
                text = ": ".join(str(fields[key]) for key in ("title", "description") if fields.get(key))
                bad = fields.get("severity") in ("error", "warning")
                yield Line((Span(f"! {one_line(text, self.width - 2)}", "bad" if bad else "dim"),))
            case "current_mode_update" if fields.get("currentModeId"):
                yield Line((Span(f"mode: {one_line(str(fields['currentModeId']), 60)}", "dim"),))
            case "compaction_update" if fields.get("status") == "completed":
                yield Line((Span("the agent compacted its context", "dim"),))
            case _:
                return

    def _completed(self, end: events.RunCompleted) -> Line:
        words = {"success": ("done", "in"), "cancelled": ("cancelled", "after"), "error": ("failed", "after")}
        outcome, preposition = words[end.status]
        waited = self.waiting_time.take()
        if end.duration is not None:
            outcome = f"{outcome} {preposition} {duration(max(0.0, end.duration - waited))}"
        parts = [outcome]
        if waited >= 1:
            parts.append(f"waited {duration(waited)} for you")
        parts += usage_parts(end.usage) if end.usage else ()
        return Line((Span(one_line(" · ".join(parts), self.width), "dim"),), block="end")


def _indent(call: events.ToolCall | events.ToolResult) -> tuple[Span, ...]:
    # The tool calls of a sub-agent are indented below the one that started it.
    return (Span(_INDENT),) if call.parent_id else ()


def _git_action(event: events.GitAction) -> str:
    short, branch = (event.commit or "")[:10], event.branch or "no branch"
    match event.action:
        case "commit":
            return f"Committed {short} on {branch}: {event.subject}"
        case "push":
            return f"Pushed {branch} ({short}) to {event.remote}"
        case _:
            return f"Opened a pull request: {event.subject} ({event.url})"


def _difference(difference: Difference) -> str:
    if difference.subject == "prompt":
        return f'it leaves out "{difference.recorded}"'
    if difference.replayed:
        return f'"{difference.replayed}" is not recorded here'
    return f'it leaves out the tool calls of a run: "{difference.recorded}"'


def _outcome(result: events.ToolCall | events.ToolResult) -> str:
    """Describe the outcome in a word or two: lines changed, or the error."""
    if result.status == "failed":
        error = result.output.get("error") if isinstance(result.output, dict) else None
        message = error if isinstance(error, str) else _text_of(result)
        return " ".join(line for line in message.splitlines() if not line.startswith("```"))
    return describe_changes([item for item in result.content if isinstance(item, Diff)])


def _command_end(result: events.ToolCall | events.ToolResult, end: events.TerminalExited | None) -> str:
    """Return the exit code or signal of a tool's command, as the agent or its terminal reports it; empty if unknown."""
    if isinstance(result.output, dict):
        for key in ("exitCode", "exit_code"):
            if isinstance(code := result.output.get(key), int):
                return f"exit {code}"
    if end is None or end.status != "exited":
        return ""
    return end.signal or ("" if end.exit_code is None else f"exit {end.exit_code}")


def _text_of(result: events.ToolCall | events.ToolResult) -> str:
    """Return the text that a tool call reports, without the fence that some agents put around it."""
    texts = [
        item.content.text
        for item in result.content
        if isinstance(item, Content) and isinstance(item.content, TextContent)
    ]
    return "\n".join(line for text in texts for line in text.splitlines() if not line.startswith("```"))


def _attachment(block: object) -> str:
    """Describe a part of a message that is not text in a few words."""
    fields = block if isinstance(block, dict) else {}
    kind = one_line(str(fields.get("type", "attachment")), 20)
    if isinstance(data := fields.get("data"), str):
        # Base64 has four characters for three bytes, and `=` where there were fewer.
        length = len(data) * 3 // 4 - data[-2:].count("=")
        return f"[{kind}: {one_line(str(fields.get('mimeType', '')), 40)}, {size(length)}]"
    inner = fields.get("resource")
    uri = fields.get("uri") or (inner.get("uri") if isinstance(inner, dict) else None) or ""
    return f"[{kind.removeprefix('resource_') or kind}: {one_line(str(uri), 70)}]"
