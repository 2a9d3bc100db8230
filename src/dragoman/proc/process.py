"""`ProcessLink`: the link to a real process, which leads a process group of its own.

It owns the process, its three pipes and its entry in the reaper's list, from `spawn` until `end`, on one event loop.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import subprocess
import sys
import warnings
from collections.abc import Sequence

from dragoman.clock import SYSTEM_CLOCK, timeout
from dragoman.proc._reaper_main import group_alive, marked_processes, signal_group, signal_marked
from dragoman.proc.exits import ExitStatus, reap, reap_later, watch_exit
from dragoman.proc.link import END_GRACE_S
from dragoman.proc.pipes import PipeDrainer, PipeReader, PipeWriter
from dragoman.proc.reaper import reaper
from dragoman.proc.stderr import StderrTail

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
        deadline = self._loop.time() + seconds
        while True:
            if signal_number is not None:
                await self._signal_stragglers(signal_number)
            if not await self._any_alive():
                return True
            if self._loop.time() > deadline:
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
