"""The local runtime keeps the promises of the ports, with a real process and with an agent in memory."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Literal

import pytest

from dragoman.session import ports
from dragoman.session.runtime import AgentRuntime
from dragoman.testing import conformance
from dragoman.testing.demo import demo_in_memory, demo_spec
from dragoman.testing.memory import memory_runtime


class Local:
    """The local runtime on the demo agent."""

    def __init__(self, folder: Path, kind: Literal["process", "memory"]) -> None:
        self.folder = folder / "work"
        self.folder.mkdir()
        self._home = folder / "home"
        self._kind = kind

    def open(self) -> AbstractAsyncContextManager[ports.RuntimePort]:
        if self._kind == "process":
            return AgentRuntime(demo_spec(self._home))
        return memory_runtime(demo_in_memory(self._home))


@pytest.fixture(params=["process", "memory"])
def subject(request: pytest.FixtureRequest, tmp_path: Path) -> conformance.Subject:
    return Local(tmp_path, request.param)


@pytest.mark.parametrize("check", conformance.CHECKS, ids=lambda check: check.__name__)
async def test_the_local_runtime_conforms(check: conformance.Check, subject: conformance.Subject) -> None:
    await check(subject)
