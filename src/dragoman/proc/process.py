"""`ProcessLink`: the link to a real process, the leader of a group of its own.

Owns the process, its three pipes and its place in the reaper's list, from `spawn` until `end`. All of it lives on one
event loop.
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

from dragoman.proc._reaper_main import group_alive, marked, signal_group, signal_marked
from dragoman.proc.exits import Ended, reap, reap_later, watch_exit
from dragoman.proc.link import END_GRACE_S
from dragoman.proc.pipes import DrainedEnd, PulledEnd, PushedEnd
from dragoman.proc.reaper import reaper
from dragoman.proc.stderr import StderrTail

LATE_OUTPUT_GRACE = 0.25
"""Seconds for which we still read after the agent's exit, if children hold its stdout open. All that the agent itself
wrote is in the pipe by then; this is for the last words of the program that a wrapper script had started."""

STRAGGLER_GRACE = 0.5
"""Seconds between SIGTERM and SIGKILL for what outlived the leader. Tool servers see their own stdin end and go."""

LOOK_AGAIN = 0.01
"""Seconds between two looks at what is left; there is no notice of a group becoming empty."""

KILL_LIMIT = 5.0
"""Seconds after SIGKILL until we stop waiting. Only a process stuck in the kernel (a dead network disk) needs more."""


class ProcessLink:
    """An `AgentLink`. Made by `spawn`, which hands over the process and our ends of its pipes."""

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
        self._stdin = PushedEnd(self._loop, stdin)
        self._stdout = PulledEnd(self._loop, stdout)
        self._stderr = DrainedEnd(self._loop, stderr, tail.feed)
        self._exited: asyncio.Future[int] = self._loop.create_future()
        self._reaped = False
        self._left_behind = False
        self._late_output: asyncio.TimerHandle | None = None
        self._ending: asyncio.Task[int] | None = None
        self._stop_watching = watch_exit(self._loop, self.pid, self._on_exit)
        self._owner = os.getpid()
        self._held = True

    def __repr__(self) -> str:
        state = "running" if self.exit_code is None else f"exit {self.exit_code}"
        return f"<ProcessLink {self.name} pid={self.pid} {state}>"

    # The bytes

    async def read(self) -> bytes:
        return await self._stdout.read()

    def write(self, data: bytes) -> None:
        self._stdin.write(data)

    async def drain(self) -> None:
        await self._stdin.drain()

    def close(self) -> None:
        self._stdin.close()

    # The process

    @property
    def command_line(self) -> str:
        """The command as one would type it."""
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
        if self._ending is None:
            # A task of its own: a caller that is cancelled must not leave the agent half ended.
            self._ending = self._loop.create_task(self._end(grace), name=f"end {self.name}")
        return await asyncio.shield(self._ending)

    # The end

    async def _end(self, grace: float) -> int:
        try:
            self.close()
            if not await self._ended_within(grace):
                signal_group(self.pid, signal.SIGTERM)
                if not await self._ended_within(grace):
                    signal_group(self.pid, signal.SIGKILL)
                    await self._ended_within(KILL_LIMIT)
            self._reap()
            await self._end_stragglers()
        except BaseException:
            # The loop is being torn down around us: what can be done without it is done.
            self._end_at_once()
            raise
        finally:
            self._release()
        return self._exited.result()

    async def _ended_within(self, seconds: float) -> bool:
        await asyncio.wait({self._exited}, timeout=seconds)
        return self._exited.done()

    async def _end_stragglers(self) -> None:
        """End what outlived the leader: members of its group, and children that left it but carry our marker."""
        if not await self._any_left():
            return
        await self._signal_left(signal.SIGTERM)
        if await self._gone_within(STRAGGLER_GRACE, None):
            return
        await self._gone_within(KILL_LIMIT, signal.SIGKILL)

    async def _gone_within(self, seconds: float, number: signal.Signals | None) -> bool:
        """Wait until nothing is left; with a number, signal at every look, because children may have children."""
        deadline = self._loop.time() + seconds
        while True:
            if number is not None:
                await self._signal_left(number)
            if not await self._any_left():
                return True
            if self._loop.time() > deadline:
                return False
            await asyncio.sleep(LOOK_AGAIN)

    async def _any_left(self) -> bool:
        # In threads: a look at all processes takes some 20 µs for each of them.
        if self._left_behind:
            self._left_behind = await asyncio.to_thread(group_alive, self.pid)
        return self._left_behind or bool(await asyncio.to_thread(marked, self.marker))

    async def _signal_left(self, number: signal.Signals) -> None:
        if self._left_behind:
            signal_group(self.pid, number)
        await asyncio.to_thread(signal_marked, self.marker, number)

    def _on_exit(self, ended: Ended) -> None:
        if ended.reaped:
            self._note_reaped(ended.code)
        self._stderr.catch_up()
        self._stdin.abandon()
        self._late_output = self._loop.call_later(LATE_OUTPUT_GRACE, self._stdout.finish)
        self._exited.set_result(ended.code)

    def _reap(self) -> None:
        if not self._reaped and self._exited.done():
            reap(self.pid)
            self._note_reaped(self._exited.result())

    def _note_reaped(self, code: int) -> None:
        self._reaped = True
        self._process.returncode = code  # `Popen` would wait for it by itself, and complain
        # If nobody is left now, the number is free and may soon be a stranger's: never signal it again.
        self._left_behind = signal_group(self.pid, 0)

    def _end_at_once(self) -> None:
        if self._left_behind or not self._reaped:
            signal_group(self.pid, signal.SIGKILL)
        signal_marked(self.marker, signal.SIGKILL)

    def _release(self) -> None:
        """Give back all that we hold. Synchronous: it also runs when nothing can be awaited any more."""
        self._held = False
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
            # Killed a moment ago, or stuck in the kernel: the reaper keeps it on its list.
            reap_later(self.pid)
            self._note_reaped(self._exited.result())

    def __del__(self) -> None:
        # Nobody can end it any more. In a fork of ours it is only a copy, and the agent is not ours to end.
        if not getattr(self, "_held", False) or self._owner != os.getpid():
            return
        warnings.warn(f"{self!r} was never ended", ResourceWarning, source=self, stacklevel=2)
        if sys.is_finalizing():
            # Little of Python is left to work with; the reaper is at it already.
            self.kill()
            self._process.returncode = -signal.SIGKILL
        else:
            self._end_at_once()
            self._release()
