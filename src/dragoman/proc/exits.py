"""Hearing of a process's end at once, and, where the platform lets us, without giving up its number.

While an ended process has not been reaped, its number, and with it that of its group, cannot be taken by a stranger:
signals to the group are safe for as long as we like. So we look at the exit status first (`waitid` with WNOWAIT) and
reap when the group has been dealt with. On macOS before Python 3.13 there is no `waitid`; there the process is reaped
as it ends, and `Ended.reaped` says so.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable
from typing import NamedTuple

UNKNOWN_EXIT = 255
"""The exit code we report when someone else in this process has taken it (a `waitpid(-1)`, an ignored SIGCHLD)."""


class Ended(NamedTuple):
    code: int
    reaped: bool


def signal_name(number: int) -> str:
    """A signal as people call it."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def watch_exit(loop: asyncio.AbstractEventLoop, pid: int, on_exit: Callable[[Ended], None]) -> Callable[[], None]:
    """Call `on_exit` once, on the loop, when our child `pid` ends. Returns a function that stops watching."""
    pidfd_open = getattr(os, "pidfd_open", None)
    if pidfd_open is not None:
        try:
            fd: int = pidfd_open(pid)
        except OSError:
            pass  # an old kernel, or a sandbox without the call: a thread does it as well
        else:
            return _watch_descriptor(loop, fd, pid, on_exit)
    return _watch_in_thread(loop, pid, on_exit)


def reap(pid: int) -> None:
    """Let go of an ended child's number."""
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        pass  # someone was faster


def reap_later(pid: int) -> None:
    """The same for a child that has been killed but may not have ended yet, without waiting for it."""

    def run() -> None:
        try:
            os.waitpid(pid, 0)
        except ChildProcessError:
            pass

    threading.Thread(target=run, name=f"dragoman-reap-{pid}", daemon=True).start()


def _watch_descriptor(
    loop: asyncio.AbstractEventLoop, fd: int, pid: int, on_exit: Callable[[Ended], None]
) -> Callable[[], None]:
    watched = True

    def stop() -> None:
        nonlocal watched
        if watched:
            watched = False
            if not loop.is_closed():
                loop.remove_reader(fd)
            os.close(fd)

    def ended() -> None:
        stop()
        on_exit(_wait(pid))

    loop.add_reader(fd, ended)
    return stop


def _watch_in_thread(loop: asyncio.AbstractEventLoop, pid: int, on_exit: Callable[[Ended], None]) -> Callable[[], None]:
    watched = True

    def deliver(end: Ended) -> None:
        if watched:
            on_exit(end)

    def run() -> None:
        end = _wait(pid)
        try:
            loop.call_soon_threadsafe(deliver, end)
        except RuntimeError:
            pass  # the loop is closed: nobody is left to tell

    def stop() -> None:
        nonlocal watched
        watched = False

    # A daemon: it must never hold up the interpreter's exit.
    threading.Thread(target=run, name=f"dragoman-wait-{pid}", daemon=True).start()
    return stop


def _wait(pid: int) -> Ended:
    """Wait for the end, without reaping if that can be done."""
    try:
        if hasattr(os, "waitid"):
            status = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
            assert status is not None  # only WNOHANG may return nothing
            exited = status.si_code == os.CLD_EXITED
            return Ended(status.si_status if exited else -status.si_status, reaped=False)
        _, wait_status = os.waitpid(pid, 0)
        return Ended(os.waitstatus_to_exitcode(wait_status), reaped=True)
    except ChildProcessError:
        return Ended(UNKNOWN_EXIT, reaped=True)
