"""`ChatAgent`: the agent of a chat and its session, which outlives the agent's process where the agent can resume."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from dragoman.cli.plan import AgentProcess, RunPlan, save_handle
from dragoman.errors import DragomanError
from dragoman.host.question.question import OnQuestion
from dragoman.record.events import Event
from dragoman.record.fold import SessionFold
from dragoman.session.diagnostics import Diagnostic
from dragoman.session.journal_client import JournalClient
from dragoman.session.session import Session
from dragoman.session.spec import SessionConfig


class ChatAgent:
    """`config` makes the session's, with our callbacks in it; `heard` gets each event but the history told again."""

    def __init__(
        self,
        job: RunPlan,
        config: Callable[[Callable[[Event], None]], SessionConfig],
        *,
        heard: Callable[[Event], None],
        diagnosed: Callable[[Diagnostic], None],
        on_question: OnQuestion,
    ) -> None:
        self._job = job
        self._config = config
        self._heard = heard
        self._diagnosed = diagnosed
        self._on_question = on_question
        self._journal_client: JournalClient | None = None
        self._started = self._process()
        self._session: Session | None = None
        self._opening = True
        self.save = job.save  # where the session's handle is kept

    @property
    def session(self) -> Session:
        assert self._session is not None
        return self._session

    @property
    def fold(self) -> SessionFold | None:
        """What is known of the session; None before there is one."""
        return self._session.fold if self._session is not None else None

    @property
    def opened(self) -> bool:
        return self._session is not None

    @property
    def gone(self) -> bool:
        return self.session.failure is not None or self.session.closed

    def _process(self) -> AgentProcess:
        started = AgentProcess(self._job, on_diagnostic=self._diagnosed, on_question=self._on_question)
        if self._journal_client is not None:
            started.runtime.keep_in(self._journal_client)
        return started

    def keep_in(self, journal_client: JournalClient) -> None:
        """What is said is kept in its journal. To be called before the start."""
        self._journal_client = journal_client
        self._started.runtime.keep_in(journal_client)

    async def start(self) -> None:
        await self._started.runtime.start()
        self._session = await self._started.open(self._config(self._hear), self._job.handle, self._job.options)
        self._opening = False
        self.keep_handle()

    async def restart(self) -> DragomanError | None:
        """A new process, and in it the same session; why it had to be a new one, where the agent cannot resume."""
        handle = self.session.snapshot()
        self._opening = True
        await self._started.runtime.close()
        self._started = self._process()
        await self._started.runtime.start()
        # As it was, not as the command line had it: the person may have switched since.
        config = msgspec.structs.replace(self._config(self._hear), model=None, mode=None, reasoning_effort=None)
        lost: DragomanError | None = None
        try:
            self._session = await self._started.open(config, handle)
        except DragomanError as problem:
            lost = problem
            self._session = await self._started.open(config, None)
            await self._session.restore_settings(handle)  # what is no longer offered, the status line shows
        self._opening = False
        self.keep_handle()
        return lost

    def keep_handle(self) -> None:
        """Raises InputError where it cannot be written."""
        if self.save is not None:
            save_handle(self.save, self.session.snapshot())

    def save_as(self, path: Path) -> None:
        self.save = path
        self.keep_handle()

    def kill(self) -> None:
        self._started.kill()

    async def close(self) -> None:
        await self._started.runtime.close()

    def _hear(self, event: Event) -> None:
        if not self._opening:
            self._heard(event)
