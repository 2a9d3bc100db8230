"""Lines about what the host did for the agent: files read and written, commands run, and the decisions on them.

Pure. An answer of the user is on the screen already and is not shown again; a decision without the user is.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeAlias

from dragoman.cli.pieces import UNSEEN, Ending, Line, Piece, Span, Style
from dragoman.cli.text import columns, cut, exact, one_line, plain
from dragoman.host.requests import command_of
from dragoman.host.shell.programs import unwrap_shell
from dragoman.record import events
from dragoman.record.diffs import changed_lines, describe_changes
from dragoman.wire.vocabulary import Diff

YES, NO = "✓", "✗"

# Lines of a diff that are shown; the rest is counted, so that the conversation stays in sight.
MAX_DIFF_LINES = 16

# Lines of a command's output that are shown with -v, from its end.
MAX_OUTPUT_LINES = 10

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
Event: TypeAlias = (
    events.FileRead
    | events.FileWritten
    | events.TerminalStarted
    | events.TerminalRefused
    | events.TerminalExited
    | events.QuestionAsked
    | events.QuestionAnswered
)


class HostActions:
    """Remembers what was shown: the agent's question, its tool call and the write itself have the same diff.

    An action that a running tool call has announced is covered by the line of the tool call; with `verbose` it gets its
    own. `width` returns the terminal's current width.
    """

    def __init__(self, *, cwd: Path, width: Callable[[], int], verbose: bool, diffs: bool) -> None:
        self._cwd = cwd
        self._width = width
        self._verbose = verbose
        self._diffs = diffs
        self._seen: set[int] = set()
        self._announced: dict[str | None, set[int]] = {}  # by tool calls under way
        self._covered: set[str] = set()  # terminals whose line is that of a tool call
        self._questions: dict[str, str] = {}  # messages of those without an answer

    def show(self, event: Event) -> Iterable[Piece]:
        match event:
            case events.FileRead():
                yield from self._read(event)
            case events.FileWritten():
                yield from self._written(event)
            case events.TerminalStarted() if self._is_announced("run", unwrap_shell(_command_line(event))):
                self._covered.add(event.terminal_id)
            case events.TerminalExited(terminal_id=terminal_id) if terminal_id in self._covered:
                self._covered.discard(terminal_id)
            case events.TerminalStarted():
                yield Line((Span(f"$ {self._command(event, 2)}"),), key=event.terminal_id)
            case events.TerminalRefused():
                yield from self._not_done(event, f"run {self._command(event, 0)}")
            case events.TerminalExited():
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

    def _is_announced(self, *what: str) -> bool:
        return not self._verbose and any(hash(what) in actions for actions in self._announced.values())

    def seen(self, diffs: Iterable[Diff]) -> None:
        """Note that these diffs were on the screen."""
        self._seen.update(hash((diff.path, diff.new_text)) for diff in diffs)

    def diff_lines(self, diffs: Iterable[Diff]) -> Iterable[Piece]:
        """The changed lines, where diffs are enabled and these were not shown."""
        for diff in diffs:
            if not self._diffs or hash((diff.path, diff.new_text)) in self._seen:
                continue
            self.seen((diff,))
            changed = changed_lines(diff, context=1)
            for mark, line in changed[:MAX_DIFF_LINES]:
                text = cut(exact(line).expandtabs(4), self._width() - 6)
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
        if self._verbose and end.output:
            for line in end.output.rstrip().splitlines()[-MAX_OUTPUT_LINES:]:
                yield Line((Span(f"    {cut(plain(line).expandtabs(4), self._width() - 4)}", "dim"),))

    def _command(
        self, event: events.TerminalStarted | events.TerminalRefused | events.TerminalExited, taken: int
    ) -> str:
        return one_line(exact(_command_line(event)), self._width() - taken)

    # -- what was not done

    def _not_done(
        self, event: events.FileRead | events.FileWritten | events.TerminalRefused, what: str
    ) -> Iterable[Line]:
        if event.status == "failed":
            yield self._line(NO, "bad", f"{what}: {_failure(event)}")
        elif event.decided_by in UNSEEN or event.decided_by is None:
            yield self._line(NO, "bad", f"not allowed: {what} ({why(event)})")

    def _line(self, mark: str, style: Style, text: str) -> Line:
        return Line((Span(mark, style), Span(f" {one_line(text, self._width() - 2)}")))


def why(event: Decided) -> str:
    """The reason in a few words, and the rule where it is the user's own."""
    if event.decided_by == "default":
        return "nobody to ask"
    reason = event.reason or "no reason given"
    named = event.rule and event.layer not in _SELF_EVIDENT and event.rule not in reason
    return f"{reason}: {event.rule}" if named else reason


def _command_line(event: events.TerminalStarted | events.TerminalRefused | events.TerminalExited) -> str:
    return shlex.join((event.command, *event.args)) if event.args else event.command


def _failure(event: events.FileRead | events.FileWritten | events.TerminalRefused) -> str:
    """The error that the agent got, without the path, which is shown before it."""
    error = event.error or "failed"
    return error if isinstance(event, events.TerminalRefused) else error.replace(f": {event.path}", "")
