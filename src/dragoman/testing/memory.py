"""`MemoryLink`: an agent that is a coroutine of this process, behind the same link as a real one.

It keeps the promises of `proc.link.AgentLink`: bytes in order, backpressure, an exit code, a stderr, an end. A signal
to such an agent is the cancellation of its task; the agent decides how to react, as with a real signal. Memory has
no kernel: nothing can end a coroutine that never awaits.

`runtime_of`, `session_of` and `play` open a runtime or a session on a scripted agent in memory, in one line.
"""

from __future__ import annotations

import asyncio
import signal
import tempfile
import traceback
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from dragoman.proc.link import END_GRACE_S, AgentLink, StderrTail
from dragoman.record.events import Event
from dragoman.session.options import SessionConfig
from dragoman.session.prompt import Input
from dragoman.session.runtime import AgentRuntime
from dragoman.session.session import Session
from dragoman.session.spec import AgentSpec, Launch, Limits
from dragoman.testing.scripted import AgentExit, AgentMain, AgentSide, Script, ScriptedAgent
from dragoman.wire.transport import memory_pair
from dragoman.workspace import Workspace

# Seconds after the last cancellation until we stop waiting for a coroutine that swallows them all.
KILL_TIMEOUT_S = 5.0


class MemoryLink:
    """An `AgentLink`. The agent starts at once, as a task of the running loop."""

    def __init__(
        self, main: AgentMain, *, name: str = "memory agent", on_stderr: Callable[[str], None] | None = None
    ) -> None:
        self.name = name
        self._ours, theirs = memory_pair()
        self._tail = StderrTail(on_stderr)
        self._signal = signal.SIGTERM
        loop = asyncio.get_running_loop()
        self._exited: asyncio.Future[int] = loop.create_future()
        side = AgentSide(theirs, lambda line: self._tail.feed(line.encode() + b"\n"))
        self._task = loop.create_task(self._live(main, side), name=name)
        self.read = self._ours.read
        self.write = self._ours.write
        self.drain = self._ours.drain
        self.close = self._ours.close

    async def _live(self, main: AgentMain, side: AgentSide) -> None:
        code = 1
        try:
            code = await main(side) or 0
        except AgentExit as left:
            code = left.code
        except asyncio.CancelledError:
            code = -self._signal
        except Exception:
            side.complain(traceback.format_exc())
        finally:
            side.close()
            self._ours.close()  # later writes are dropped, and nobody waits for them
            self._tail.end()
            self._exited.set_result(code)

    @property
    def exit_code(self) -> int | None:
        return self._exited.result() if self._exited.done() else None

    @property
    def stderr(self) -> StderrTail:
        return self._tail

    async def wait(self) -> int:
        return await asyncio.shield(self._exited)

    async def end(self, grace: float = END_GRACE_S) -> int:
        self.close()
        if not await self._ended_within(grace):
            self._send(signal.SIGTERM)
            if not await self._ended_within(grace):
                self.kill()
                await self._ended_within(KILL_TIMEOUT_S)
        return self._exited.result()

    def interrupt(self) -> None:
        self._send(signal.SIGINT)

    def kill(self) -> None:
        self._send(signal.SIGKILL)

    def _send(self, number: signal.Signals) -> None:
        self._signal = number
        self._task.cancel()

    async def _ended_within(self, seconds: float) -> bool:
        await asyncio.wait({self._exited}, timeout=seconds)
        return self._exited.done()


def in_memory(main: AgentMain) -> Launch:
    """Return the `launch` of an `AgentRuntime` whose agent is this function."""

    async def launch(spec: AgentSpec, limits: Limits, on_stderr: Callable[[str], None]) -> AgentLink:
        return MemoryLink(main, name=spec.name, on_stderr=on_stderr)

    return launch


def memory_runtime(main: AgentMain, *, spec: AgentSpec | None = None, **options: Any) -> AgentRuntime:
    """Return a runtime, not yet started, on an agent in memory. `options` are those of `AgentRuntime`."""
    return AgentRuntime(spec or AgentSpec(command=["memory"]), launch=in_memory(main), **options)


# Until a test gives up waiting: far more than anything in memory takes.
TIMEOUT_S = 20.0


def config(**settings: Any) -> SessionConfig:
    """Return a `SessionConfig`; the default workspace is the folder for temporary files."""
    return SessionConfig(**{"workspace": Workspace(tempfile.gettempdir()), **settings})


@asynccontextmanager
async def runtime_of(agent: ScriptedAgent | Script, **options: Any) -> AsyncIterator[AgentRuntime]:
    """Start a runtime. `options` are those of `AgentRuntime`."""
    main = (agent if isinstance(agent, ScriptedAgent) else ScriptedAgent(agent)).main
    async with asyncio.timeout(TIMEOUT_S), memory_runtime(main, **options) as runtime:
        yield runtime


@asynccontextmanager
async def session_of(
    agent: ScriptedAgent | Script, *, runtime: dict[str, Any] | None = None, **settings: Any
) -> AsyncIterator[Session]:
    """Open a session. `settings` are those of `SessionConfig`, `runtime` those of `AgentRuntime`."""
    async with runtime_of(agent, **(runtime or {})) as running:
        yield await running.open_session(config(**settings))


async def play(agent: ScriptedAgent | Script, prompt: Input = "go", **settings: Any) -> list[Event]:
    """Return all events of one run."""
    async with session_of(agent, **settings) as session:
        return [event async for event in session.run(prompt)]
