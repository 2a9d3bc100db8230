"""Exit codes and error messages: the one place where results and errors become either."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from typing import Final

from dragoman.cli.pieces import UNSEEN
from dragoman.cli.text import plain
from dragoman.errors import (
    AgentCrashed,
    AuthenticationRequired,
    CapabilityMissing,
    DragomanError,
    InputError,
    LimitExceeded,
    UnsupportedVersion,
)
from dragoman.record import events

DONE: Final = 0
AGENT_FAILED: Final = 1
BAD_INPUT: Final = 2
CANNOT_START: Final = 3
LOGIN_NEEDED: Final = 4
REFUSED: Final = 5
LIMIT: Final = 124  # as `timeout` does
INTERRUPTED: Final = 130  # as a shell reports a program that SIGINT ended
PIPE_CLOSED: Final = 141  # SIGPIPE
TERMINATED: Final = 143  # SIGTERM

# Enough to see why; with -v all of it was output as it came.
STDERR_LINES: Final = 10


class Denials:
    """Counts what policy, and not a person, denied in a run.

    `decisive`: no tool call was completed after the last denial, so the work was not done.
    """

    def __init__(self) -> None:
        self.count = 0
        self.unanswered = 0  # denied only because there was nobody to ask
        self._done_since = False

    def add(self, event: events.Event) -> None:
        match event:
            case events.PermissionResolved(origin="agent", decided_by=by, decision=decision) if by in UNSEEN:
                if decision != "allow":
                    self._refused(by)
            case (
                events.FileRead(status="denied", decided_by=by)
                | events.FileWritten(status="denied", decided_by=by)
                | events.TerminalRefused(status="denied", decided_by=by)
            ) if by in UNSEEN:
                self._refused(by)
            case events.ToolResult(status="completed") | events.FileWritten(status="done"):
                self._done_since = True
            case _:
                return

    def _refused(self, by: str | None) -> None:
        self.count += 1
        self.unanswered += by == "default"
        self._done_since = False

    @property
    def decisive(self) -> bool:
        return self.count > 0 and not self._done_since


def code_of_error(error: DragomanError, *, opened: bool, denials: Denials | None = None) -> int:
    """The exit code of an error; `opened`: a session had been opened by then."""
    match error:
        case AuthenticationRequired():
            return LOGIN_NEEDED
        case UnsupportedVersion():
            return CANNOT_START
        case InputError() | CapabilityMissing():
            return BAD_INPUT
        case LimitExceeded():
            return LIMIT
        case _ if not opened:
            return CANNOT_START
        case AgentCrashed():
            return AGENT_FAILED
        case _:
            return REFUSED if denials is not None and denials.count else AGENT_FAILED


def code_of_result(status: str, denials: Denials) -> int:
    """The exit code of a run that raised no error and was not interrupted."""
    if status == "success":
        return REFUSED if denials.decisive else DONE
    # The agent itself reported it as cancelled: most do so after a denial.
    return REFUSED if denials.count else AGENT_FAILED


def message_of(error: DragomanError, *, verbose: bool = False, width: int | None = None) -> str:
    """Format an error: what happened, what to do about it, and the agent's last words.

    On a terminal of `width` columns words are kept whole.
    """
    message = str(error)
    if isinstance(error, AuthenticationRequired) and error.methods and not verbose:
        message = message.partition(': {"')[0]  # without the data that came with it: the methods are listed below
    lines = _indented(f"dragoman: {message}", first="")
    if verbose:
        lines.append(f"  ({type(error).__name__}, category: {error.category})")
    stderr = getattr(error, "stderr", "")
    if stderr and stderr not in str(error):
        lines.append("  Its last lines:")
        lines += [f"  | {line}" for line in stderr.splitlines()[-STDERR_LINES:]]
    if error.guidance:
        lines += _indented(error.guidance)
    return lay_out(lines, width)


def access_advice(access: str, *, width: int | None = None) -> str:
    """Tell how to allow what was denied because nobody could be asked."""
    return lay_out(
        [
            f"dragoman: the agent's request was denied: access is {access}, and there was nobody to ask.",
            "  Run it on a terminal to be asked, or allow it: --access edit-inside (write inside the workspace) or "
            "--access full (everything).",
        ],
        width,
    )


def lay_out(lines: Iterable[str], width: int | None) -> str:
    """Lay out lines for stderr: broken between words, with a hanging indent; the agent's output stays as it is."""
    output = []
    for line in map(plain, lines):
        if width is None or line.startswith("  |"):
            output.append(line)
            continue
        indent = " " * max(2, len(line) - len(line.lstrip()))
        output += textwrap.wrap(
            line, width - 1, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
        ) or [""]
    return "".join(f"{line}\n" for line in output)


def _indented(text: str, first: str = "  ") -> list[str]:
    head, *rest = text.splitlines() or [""]
    return [f"{first}{head}", *(f"  {first}{line}" for line in rest)]
