"""Watch for the end of a process, without giving up its pid where the platform allows it.

While an ended process has not been reaped, no other process can get its pid or its group: signals to the group stay
safe. So the exit status is read first (`waitid` with WNOWAIT), and the process is reaped when the group has ended. On
macOS before Python 3.13 there is no `waitid`; there the process is reaped as it ends, and `ExitStatus.reaped` says so.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable
from typing import NamedTuple

UNKNOWN_EXIT = 255
"""The exit code where other code of this process has taken the real one (`waitpid(-1)`, an ignored SIGCHLD)."""


class ExitStatus(NamedTuple):
    code: int
    reaped: bool


def signal_name(number: int) -> str:
    """Return the usual name of a signal."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def watch_exit(loop: asyncio.AbstractEventLoop, pid: int, on_exit: Callable[[ExitStatus], None]) -> Callable[[], None]:
    """Call `on_exit` once, on the loop, when the child `pid` ends. Return a function that stops watching."""
    pidfd_open = getattr(os, "pidfd_open", None)
    if pidfd_open is not None:
        try:
            fd: int = pidfd_open(pid)
        except OSError:
            pass  # an old kernel, or a sandbox without the call: use a thread
        else:
            return _watch_descriptor(loop, fd, pid, on_exit)
    return _watch_in_thread(loop, pid, on_exit)


def reap(pid: int) -> None:
    """Reap an ended child, which frees its pid."""
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        pass  # already reaped


def reap_later(pid: int) -> None:
    """Reap a child that has been killed but may not have ended yet, in a thread."""

    def run() -> None:
        try:
            os.waitpid(pid, 0)
        except ChildProcessError:
            pass

    threading.Thread(target=run, name=f"dragoman-reap-{pid}", daemon=True).start()


def _watch_descriptor(
    loop: asyncio.AbstractEventLoop, fd: int, pid: int, on_exit: Callable[[ExitStatus], None]
) -> Callable[[], None]:
    is_watching = True

    def stop() -> None:
        nonlocal is_watching
        if is_watching:
            is_watching = False
            if not loop.is_closed():
                loop.remove_reader(fd)
            os.close(fd)

    def ended() -> None:
        stop()
        on_exit(_wait(pid))

    loop.add_reader(fd, ended)
    return stop


def _watch_in_thread(
    loop: asyncio.AbstractEventLoop, pid: int, on_exit: Callable[[ExitStatus], None]
) -> Callable[[], None]:
    is_watching = True

    def deliver(end: ExitStatus) -> None:
        if is_watching:
            on_exit(end)

    def run() -> None:
        end = _wait(pid)
        try:
            loop.call_soon_threadsafe(deliver, end)
        except RuntimeError:
            pass  # the loop is closed

    def stop() -> None:
        nonlocal is_watching
        is_watching = False

    # A daemon thread: it must never delay the exit of the interpreter.
    threading.Thread(target=run, name=f"dragoman-wait-{pid}", daemon=True).start()
    return stop


def _wait(pid: int) -> ExitStatus:
    """Wait for the end, without reaping if possible."""
    try:
        if hasattr(os, "waitid"):
            status = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
            assert status is not None  # only WNOHANG may return nothing
            exited = status.si_code == os.CLD_EXITED
            return ExitStatus(status.si_status if exited else -status.si_status, reaped=False)
        _, wait_status = os.waitpid(pid, 0)
        return ExitStatus(os.waitstatus_to_exitcode(wait_status), reaped=True)
    except ChildProcessError:
        return ExitStatus(UNKNOWN_EXIT, reaped=True)
