"""`RuntimePool`: the agents of a process that has many sessions, and which of them a new session is opened on.

An agent that is `shared` has one process for all its sessions in a folder that were opened with the same settings: a
hundred sessions then cost one process, and what ends it ends them all. Others have a process for each session. Either
way it ends with the last session on it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from dragoman.session.runtime import AgentRuntime
from dragoman.session.spec import AgentSpec


class RuntimePool:
    def __init__(self) -> None:
        self._runtimes: list[AgentRuntime] = []
        self._starts: dict[AgentRuntime, asyncio.Task[AgentRuntime]] = {}

    @asynccontextmanager
    async def runtime(
        self, spec: AgentSpec, make: Callable[[], AgentRuntime], *, new: bool = False
    ) -> AsyncIterator[AgentRuntime]:
        """One that is started, to open a session on. A `new` one is nobody's yet: who restarts an agent wants that."""
        self._runtimes = [known for known in self._runtimes if known.living]
        runtime = None if new or not spec.shared else next((one for one in self._runtimes if one.spec == spec), None)
        if runtime is None:
            runtime = make()
            self._starts[runtime] = asyncio.get_running_loop().create_task(runtime.start(), name="dragoman start")
            if spec.shared:
                self._runtimes.insert(0, runtime)  # the newest is found first
        start = self._starts.get(runtime)
        runtime.expected += 1
        try:
            if start is not None:
                await asyncio.shield(start)
                self._starts.pop(runtime, None)
            yield runtime
        finally:
            runtime.expected -= 1
            if not runtime.busy:
                if start is not None and not start.done():
                    start.cancel()
                    await asyncio.wait([start])
                self._starts.pop(runtime, None)
                await runtime.close()
