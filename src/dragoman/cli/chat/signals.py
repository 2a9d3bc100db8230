"""What ends a chat from outside, and the terminal's own settings, which outlive all of it.

Ctrl-C is only passed on: in a chat it cancels a run, and the chat goes on.
"""

from __future__ import annotations

import asyncio
import signal
import termios
import threading
from collections.abc import Callable
from types import TracebackType

from dragoman.cli.exits import TERMINATED
from dragoman.cli.output import STDIN
from dragoman.cli.signals import last_resort


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
