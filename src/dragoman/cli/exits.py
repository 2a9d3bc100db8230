"""The end of a command: exit codes, error messages, and signals.

This is the one place where results and errors become exit codes and messages. The first Ctrl-C asks politely, the
second ends the agent at once, and SIGTERM does what the second does. After that a timer on a thread ends this process
if anything hangs, and its reaper ends what is left. In a chat, Ctrl-C only cancels a run.
"""

from __future__ import annotations

import asyncio
import os
import signal
import termios
import textwrap
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Final, Self

from dragoman.cli.output import STDIN
from dragoman.cli.screen import UNSEEN
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
LIMIT_REACHED: Final = 124  # as `timeout` does
INTERRUPTED: Final = 130  # as a shell reports a program that SIGINT ended
PIPE_CLOSED: Final = 141  # SIGPIPE
TERMINATED: Final = 143  # SIGTERM

# Lines of the agent's stderr: enough to see why; with -v all of it was printed as it came.
MAX_STDERR_LINES: Final = 10


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
    """Return the exit code of an error; `opened`: a session had been opened by then."""
    match error:
        case AuthenticationRequired():
            return LOGIN_NEEDED
        case UnsupportedVersion():
            return CANNOT_START
        case InputError() | CapabilityMissing():
            return BAD_INPUT
        case LimitExceeded():
            return LIMIT_REACHED
        case _ if not opened:
            return CANNOT_START
        case AgentCrashed():
            return AGENT_FAILED
        case _:
            return REFUSED if denials is not None and denials.count else AGENT_FAILED


def code_of_result(status: str, denials: Denials) -> int:
    """Return the exit code of a run that raised no error and was not interrupted."""
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
        lines += [f"  | {line}" for line in stderr.splitlines()[-MAX_STDERR_LINES:]]
    if error.guidance:
        lines += _indented(error.guidance)
    return lay_out(lines, width)


def access_advice(access: str, *, width: int | None = None) -> str:
    """Explain how to allow what was denied because nobody could be asked; never by the access that is set already."""
    match access:
        case "full":
            how = "by a rule in config.toml"
        case "edit-inside":
            how = "--access full (everything)"
        case _:
            how = "--access edit-inside (write inside the workspace) or --access full (everything)"
    return lay_out(
        [
            f"dragoman: the agent's request was denied: access is {access}, and there was nobody to ask.",
            f"  Run it on a terminal to be asked, or allow it: {how}.",
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


# Seconds; killing an agent and its stragglers takes less (half a second between SIGTERM and SIGKILL for those).
LAST_RESORT_S = 4.0


class _SignalHandlers:
    """Handles signals on the loop while it is entered. `code` is the exit code for a signal, None without one."""

    def __init__(self, handlers: Mapping[signal.Signals, Callable[[], None]]) -> None:
        self._handlers = handlers
        self._loop = asyncio.get_running_loop()
        self._timer: threading.Timer | None = None
        self.code: int | None = None

    def __enter__(self) -> Self:
        for number, handler in self._handlers.items():
            self._loop.add_signal_handler(number, handler)
        return self

    def __exit__(self, *exc_info: object) -> None:
        for number in self._handlers:
            self._loop.remove_signal_handler(number)
        if self._timer is not None:
            self._timer.cancel()


class Interrupts(_SignalHandlers):
    """Calls `on_interrupt` at the first Ctrl-C, `on_kill` at the second one and at SIGTERM."""

    def __init__(self, on_interrupt: Callable[[], None], on_kill: Callable[[], None]) -> None:
        super().__init__({signal.SIGINT: self._interrupted, signal.SIGTERM: self._terminated})
        self._on_interrupt = on_interrupt
        self._on_kill = on_kill

    def _interrupted(self) -> None:
        if self.code is None:
            self.code = INTERRUPTED
            self._on_interrupt()
        else:
            self._end()

    def _terminated(self) -> None:
        self.code = TERMINATED
        self._end()

    def _end(self) -> None:
        if self._timer is not None:  # signalled once more than needed: the user has waited enough
            os._exit(self.code or INTERRUPTED)
        self._timer = last_resort(self.code or INTERRUPTED)
        self._on_kill()


def last_resort(code: int, first: Callable[[], None] | None = None) -> threading.Timer:
    """End this process after LAST_RESORT_S seconds, unless the timer is cancelled, whatever hangs."""

    def end() -> None:
        if first is not None:
            first()
        os._exit(code)

    timer = threading.Timer(LAST_RESORT_S, end)
    timer.daemon = True
    timer.start()
    return timer


class ChatSignals(_SignalHandlers):
    """The signals of a chat; the terminal's settings are restored at its end.

    Create it in the task that `break_off` cancels.
    """

    def __init__(self, on_interrupt: Callable[[], None], kill: Callable[[], None]) -> None:
        super().__init__(
            {signal.SIGINT: on_interrupt, signal.SIGTERM: self._terminated, signal.SIGHUP: self._terminated}
        )
        self._kill = kill
        task = asyncio.current_task()
        assert task is not None
        self._task = task

    def __enter__(self) -> Self:
        self._terminal_settings = termios.tcgetattr(STDIN)
        return super().__enter__()

    def __exit__(self, *exc_info: object) -> None:
        super().__exit__(*exc_info)
        self._restore_terminal()

    def break_off(self, code: int) -> None:
        """End the chat by cancelling its task. Once only: a second time would break into the closing of the agent."""
        if self.code is None:
            self.code = code
            self._task.cancel()

    def _terminated(self) -> None:
        if self._timer is None:
            self._timer = last_resort(TERMINATED, self._restore_terminal)
        self._kill()
        self.break_off(TERMINATED)

    def _restore_terminal(self) -> None:
        try:
            termios.tcsetattr(STDIN, termios.TCSANOW, self._terminal_settings)
        except termios.error:  # the terminal is gone
            pass
