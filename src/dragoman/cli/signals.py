"""Signals: Ctrl-C, a second Ctrl-C, and SIGTERM.

The first Ctrl-C asks politely, the second ends the agent at once, and SIGTERM does what the second does. After that a
timer on a thread ends this process if anything hangs, and its reaper ends what is left. In a chat, Ctrl-C only cancels
a run.
"""

from __future__ import annotations

import asyncio
import os
import signal
import termios
import threading
from collections.abc import Callable
from types import TracebackType

from dragoman.cli.exits import INTERRUPTED, TERMINATED
from dragoman.cli.output import STDIN

# Longer than it takes to kill an agent and its stragglers (half a second between SIGTERM and SIGKILL for those).
LAST_RESORT = 4.0


class Interrupts:
    """`polite` and `at_once` are called on the loop. `code` is the exit code of what was asked for, or None."""

    def __init__(self, polite: Callable[[], None], at_once: Callable[[], None]) -> None:
        self._polite = polite
        self._at_once = at_once
        self._timer: threading.Timer | None = None
        self._loop = asyncio.get_running_loop()
        self.code: int | None = None

    def __enter__(self) -> Interrupts:
        self._loop.add_signal_handler(signal.SIGINT, self._interrupted)
        self._loop.add_signal_handler(signal.SIGTERM, self._terminated)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._loop.remove_signal_handler(number)
        if self._timer is not None:
            self._timer.cancel()

    def _interrupted(self) -> None:
        if self.code is None:
            self.code = INTERRUPTED
            self._polite()
        else:
            self._end()

    def _terminated(self) -> None:
        self.code = TERMINATED
        self._end()

    def _end(self) -> None:
        if self._timer is not None:  # asked once more than needed: whoever asks has waited enough
            os._exit(self.code or INTERRUPTED)
        self._timer = last_resort(self.code or INTERRUPTED)
        self._at_once()


def last_resort(code: int, first: Callable[[], None] | None = None) -> threading.Timer:
    """Ends this process, unless the timer is cancelled in time: nothing that hangs can hold us."""

    def end() -> None:
        if first is not None:
            first()
        os._exit(code)

    timer = threading.Timer(LAST_RESORT, end)
    timer.daemon = True
    timer.start()
    return timer


class ChatSignals:
    """`code` is the exit code of what ended the chat, or None. Made in the task that `break_off` cancels."""

    def __init__(self, interrupted: Callable[[], None], kill: Callable[[], None]) -> None:
        self._handlers = {
            signal.SIGINT: interrupted,
            signal.SIGTERM: self._terminated,
            signal.SIGHUP: self._terminated,
        }
        self._kill = kill
        self._loop = asyncio.get_running_loop()
        self._timer: threading.Timer | None = None
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self.code: int | None = None

    def __enter__(self) -> ChatSignals:
        self._found = termios.tcgetattr(STDIN)
        for number, handler in self._handlers.items():
            self._loop.add_signal_handler(number, handler)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number in self._handlers:
            self._loop.remove_signal_handler(number)
        if self._timer is not None:
            self._timer.cancel()
        self._restore_terminal()

    def break_off(self, code: int) -> None:
        """Ends the chat by cancelling its task. Once only: a second time would break into the closing of the agent."""
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
            termios.tcsetattr(STDIN, termios.TCSANOW, self._found)
        except termios.error:  # the terminal is gone
            pass
