"""`ProcessLink`: the link to a real process, which leads a process group of its own.

It owns the process, its three pipes and its entry in the reaper's list, from `spawn` until `end`, on one event loop.

The end of a process is watched without giving up its pid where the platform allows it. While an ended process has not
been reaped, no other process can get its pid or its group: signals to the group stay safe. So the exit status is read
first (`waitid` with WNOWAIT), and the process is reaped when the group has ended. On macOS before Python 3.13 there is
no `waitid`; there the process is reaped as it ends, and `ExitStatus.reaped` says so.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Sequence
from typing import NamedTuple

from dragoman.clock import SYSTEM_CLOCK, timeout
from dragoman.proc._reaper_main import group_alive, marked_processes, signal_group, signal_marked
from dragoman.proc.link import END_GRACE_S, StderrTail
from dragoman.proc.pipes import PipeDrainer, PipeReader, PipeWriter
from dragoman.proc.reaper import reaper

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


LATE_OUTPUT_GRACE_S = 0.25
"""Seconds of reading after the agent's exit, if children hold its stdout open. All that the agent itself wrote is in
the pipe by then; this is for the last output of a program that a wrapper script started."""

STRAGGLER_GRACE_S = 0.5
"""Seconds between SIGTERM and SIGKILL for processes that outlive the leader. Tool servers exit with their stdin."""

POLL_INTERVAL_S = 0.01
"""Seconds between two reads of the process table; the kernel does not notify of an empty group."""

KILL_TIMEOUT_S = 5.0
"""Seconds to wait after SIGKILL. Only a process stuck in the kernel (a dead network disk) needs more."""


class ProcessLink:
    """An `AgentLink`, made by `spawn`, which passes the process and Dragoman's ends of its pipes."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        pipes: Sequence[int],
        *,
        name: str,
        command: Sequence[str],
        marker: str,
        tail: StderrTail,
    ) -> None:
        self.name = name
        self.command = tuple(command)
        self.marker = marker
        self.pid = process.pid
        self._process = process
        self._loop = asyncio.get_running_loop()
        self._tail = tail
        stdin, stdout, stderr = pipes
        self._stdin = PipeWriter(self._loop, stdin)
        self.clock = SYSTEM_CLOCK  # of the graces of `end()`
        self._stdout = PipeReader(self._loop, stdout)
        self._stderr = PipeDrainer(self._loop, stderr, tail.feed)
        self._exited: asyncio.Future[int] = self._loop.create_future()
        self._reaped = False
        self._group_alive = False
        self._late_output: asyncio.TimerHandle | None = None
        self._end_task: asyncio.Task[int] | None = None
        self._stop_watching = watch_exit(self._loop, self.pid, self._on_exit)
        self._owner_pid = os.getpid()
        self._is_open = True

    def __repr__(self) -> str:
        state = "running" if self.exit_code is None else f"exit {self.exit_code}"
        return f"<ProcessLink {self.name} pid={self.pid} {state}>"

    # -- the bytes

    async def read(self) -> bytes:
        return await self._stdout.read()

    def write(self, data: bytes) -> None:
        self._stdin.write(data)

    async def drain(self) -> None:
        await self._stdin.drain()

    def close(self) -> None:
        self._stdin.close()

    # -- the process

    @property
    def command_line(self) -> str:
        """The command as typed in a shell."""
        return shlex.join(self.command)

    @property
    def exit_code(self) -> int | None:
        return self._exited.result() if self._exited.done() else None

    @property
    def stderr(self) -> StderrTail:
        return self._tail

    async def wait(self) -> int:
        return await asyncio.shield(self._exited)

    def interrupt(self) -> None:
        if not self._exited.done():
            signal_group(self.pid, signal.SIGINT)

    def terminate(self) -> None:
        """Send SIGTERM to the group: for a command that does not end with its stdin."""
        if not self._exited.done():
            signal_group(self.pid, signal.SIGTERM)

    def kill(self) -> None:
        if not self._reaped:
            signal_group(self.pid, signal.SIGKILL)

    async def end(self, grace: float = END_GRACE_S) -> int:
        if self._end_task is None:
            # A separate task: a cancelled caller must not leave the agent half ended.
            self._end_task = self._loop.create_task(self._end(grace), name=f"end {self.name}")
        return await asyncio.shield(self._end_task)

    # -- the end

    async def _end(self, grace: float) -> int:
        try:
            self.close()
            if not await self._ended_within(grace):
                signal_group(self.pid, signal.SIGTERM)
                if not await self._ended_within(grace):
                    signal_group(self.pid, signal.SIGKILL)
                    await self._ended_within(KILL_TIMEOUT_S)
            self._reap()
            await self._end_stragglers()
        except BaseException:
            # The loop is closing: do what is possible without it.
            self._end_at_once()
            raise
        finally:
            self._release()
        return self._exited.result()

    async def _ended_within(self, seconds: float) -> bool:
        try:
            async with timeout(self.clock, seconds):
                await asyncio.wait({self._exited})
        except TimeoutError:
            pass
        return self._exited.done()

    async def _end_stragglers(self) -> None:
        """End the processes that outlive the leader: members of its group, and marked children outside of it."""
        if not await self._any_alive():
            return
        await self._signal_stragglers(signal.SIGTERM)
        if await self._all_ended_within(STRAGGLER_GRACE_S, None):
            return
        await self._all_ended_within(KILL_TIMEOUT_S, signal.SIGKILL)

    async def _all_ended_within(self, seconds: float, signal_number: signal.Signals | None) -> bool:
        """Wait until no process is left; with a signal, send it at every poll, because children may have children."""
        deadline = self.clock.monotonic() + seconds
        while True:
            if signal_number is not None:
                await self._signal_stragglers(signal_number)
            if not await self._any_alive():
                return True
            if self.clock.monotonic() > deadline:
                return False
            await asyncio.sleep(POLL_INTERVAL_S)

    async def _any_alive(self) -> bool:
        # In threads: reading the process table takes some 20 µs for each process.
        if self._group_alive:
            self._group_alive = await asyncio.to_thread(group_alive, self.pid)
        return self._group_alive or bool(await asyncio.to_thread(marked_processes, self.marker))

    async def _signal_stragglers(self, signal_number: signal.Signals) -> None:
        if self._group_alive:
            signal_group(self.pid, signal_number)
        await asyncio.to_thread(signal_marked, self.marker, signal_number)

    def _on_exit(self, status: ExitStatus) -> None:
        if status.reaped:
            self._mark_reaped(status.code)
        self._stderr.catch_up()
        self._stdin.abandon()
        self._late_output = self._loop.call_later(LATE_OUTPUT_GRACE_S, self._stdout.finish)
        self._exited.set_result(status.code)

    def _reap(self) -> None:
        if not self._reaped and self._exited.done():
            reap(self.pid)
            self._mark_reaped(self._exited.result())

    def _mark_reaped(self, code: int) -> None:
        self._reaped = True
        self._process.returncode = code  # else `Popen` would wait for it, and warn
        # If the group is empty now, its number is free for other processes: never signal it again.
        self._group_alive = signal_group(self.pid, 0)

    def _end_at_once(self) -> None:
        if self._group_alive or not self._reaped:
            signal_group(self.pid, signal.SIGKILL)
        signal_marked(self.marker, signal.SIGKILL)

    def _release(self) -> None:
        """Release all resources. Synchronous: it also runs when nothing can be awaited any more."""
        self._is_open = False
        self._stop_watching()
        if self._late_output is not None:
            self._late_output.cancel()
        if not self._exited.done():
            self._exited.set_result(-signal.SIGKILL)
        self._stdin.abandon()
        self._stdout.finish()
        self._stderr.finish()
        self._tail.end()
        if self._reaped:
            reaper().remove(self.pid)
        else:
            # Killed a moment ago, or stuck in the kernel: it stays on the reaper's list.
            reap_later(self.pid)
            self._mark_reaped(self._exited.result())

    def __del__(self) -> None:
        # The last reference is gone. In a forked process it is only a copy, and the agent must not be ended there.
        if not getattr(self, "_is_open", False) or self._owner_pid != os.getpid():
            return
        warnings.warn(f"{self!r} was never ended", ResourceWarning, source=self, stacklevel=2)
        if sys.is_finalizing():
            # The interpreter is shutting down, and the reaper ends the agent.
            self.kill()
            self._process.returncode = -signal.SIGKILL
        else:
            self._end_at_once()
            self._release()
