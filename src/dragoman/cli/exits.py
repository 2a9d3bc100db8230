"""How a run ends for a shell: the one place where results and errors become exit codes and messages."""

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

# Enough to see why; with -v all of it was shown as it came.
STDERR_LINES: Final = 10


class Denials:
    """What policy, and not a person, refused in a run.

    `decisive`: after the last refusal no tool call was completed, so that what was wanted was not done.
    """

    def __init__(self) -> None:
        self.count = 0
        self.unasked = 0  # refused only because there was nobody to ask
        self._done_since = False

    def hear(self, event: events.Event) -> None:
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
        self.unasked += by == "default"
        self._done_since = False

    @property
    def decisive(self) -> bool:
        return self.count > 0 and not self._done_since


def code_of_error(error: DragomanError, *, opened: bool, denials: Denials | None = None) -> int:
    """The exit code of what went wrong; `opened` tells whether there was a session by then."""
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
    """The exit code of a run that raised nothing, and that nobody interrupted."""
    if status == "success":
        return REFUSED if denials.decisive else DONE
    # The agent itself called it cancelled: most do so when they were not allowed what they wanted.
    return REFUSED if denials.count else AGENT_FAILED


def message_of(error: DragomanError, *, verbose: bool = False, width: int | None = None) -> str:
    """What to print: what happened, what to do about it, and what the agent said of it.

    On a terminal of `width` columns words are kept whole.
    """
    told = str(error)
    if isinstance(error, AuthenticationRequired) and error.methods and not verbose:
        told = told.partition(': {"')[0]  # the data that came with it: the methods, told below
    lines = _indented(f"dragoman: {told}", first="")
    if verbose:
        lines.append(f"  ({type(error).__name__}, category: {error.category})")
    stderr = getattr(error, "stderr", "")
    if stderr and stderr not in str(error):
        lines.append("  Its last lines were:")
        lines += [f"  | {line}" for line in stderr.splitlines()[-STDERR_LINES:]]
    if error.guidance:
        lines += _indented(error.guidance)
    return laid_out(lines, width)


def advice_on_access(access: str, *, width: int | None = None) -> str:
    """How to let the agent do what nobody was there to allow."""
    return laid_out(
        [
            f"dragoman: what the agent asked for was not allowed: access is {access}, and there was nobody to ask.",
            "  Run it on a terminal to be asked, or allow it beforehand: --access edit-inside (write inside the "
            "workspace) or --access full (everything).",
        ],
        width,
    )


def laid_out(lines: Iterable[str], width: int | None) -> str:
    """Lines for stderr, each broken between words and indented as it began; what the agent printed stays as it is."""
    shown = []
    for line in map(plain, lines):
        if width is None or line.startswith("  |"):
            shown.append(line)
            continue
        indent = " " * max(2, len(line) - len(line.lstrip()))
        shown += textwrap.wrap(
            line, width - 1, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
        ) or [""]
    return "".join(f"{line}\n" for line in shown)


def _indented(text: str, first: str = "  ") -> list[str]:
    head, *rest = text.splitlines() or [""]
    return [f"{first}{head}", *(f"  {first}{line}" for line in rest)]
