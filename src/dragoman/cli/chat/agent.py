"""`ChatAgent`: the agent of a chat and its session, which survives the agent's process where the agent can resume."""

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
from dragoman.session.options import AGENT_CATEGORIES, SessionConfig
from dragoman.session.session import Session


class ChatAgent:
    """`config` makes a session's configuration for an event callback.

    `on_event` gets every event but those of a replayed history.
    """

    def __init__(
        self,
        plan: RunPlan,
        config: Callable[[Callable[[Event], None]], SessionConfig],
        *,
        on_event: Callable[[Event], None],
        on_diagnostic: Callable[[Diagnostic], None],
        on_question: OnQuestion,
    ) -> None:
        self._plan = plan
        self._config = config
        self._on_event = on_event
        self._on_diagnostic = on_diagnostic
        self._on_question = on_question
        self._journal_client: JournalClient | None = None
        self._process = self._new_process()
        self._session: Session | None = None
        self._opening = True
        self.save = plan.save  # the file of the session's handle

    @property
    def session(self) -> Session:
        assert self._session is not None
        return self._session

    @property
    def fold(self) -> SessionFold | None:
        """The folded record of the session; None before it is open."""
        return self._session.fold if self._session is not None else None

    @property
    def is_open(self) -> bool:
        return self._session is not None

    @property
    def is_gone(self) -> bool:
        return self.session.failure is not None or self.session.closed

    def _new_process(self) -> AgentProcess:
        started = AgentProcess(self._plan, on_diagnostic=self._on_diagnostic, on_question=self._on_question)
        if self._journal_client is not None:
            started.runtime.keep_in(self._journal_client)
        return started

    def keep_in(self, journal_client: JournalClient) -> None:
        """Record the session in this journal. Call it before `start`."""
        self._journal_client = journal_client
        self._process.runtime.keep_in(journal_client)

    async def start(self) -> None:
        await self._process.runtime.start()
        self._session = await self._process.open(
            self._config(self._pass_on), self._plan.handle, self._plan.agent_options
        )
        self._opening = False
        self.save_handle_now()

    async def restart(self) -> DragomanError | None:
        """Start a new process and resume the session in it; return the error where it had to become a new session."""
        handle = self.session.snapshot()
        self._opening = True
        await self._process.runtime.close()
        self._process = self._new_process()
        await self._process.runtime.start()
        config = self._current_config()
        error: DragomanError | None = None
        try:
            self._session = await self._process.open(config, handle)
        except DragomanError as failure:
            error = failure
            self._session = await self._process.open(config, None)
            await self._session.restore_settings(handle)  # the status line shows what is no longer offered
        self._opening = False
        self.save_handle_now()
        return error

    async def begin_new(self) -> None:
        """Leave the session and open a new one with the same settings; on a new process where the agent is gone."""
        previous, handle = self.session, self.session.snapshot()
        config = self._current_config()
        self._opening = True
        try:
            if self.is_gone:
                await self._process.runtime.close()
                self._process = self._new_process()
                await self._process.runtime.start()
            self._session = await self._process.open(config, None)
            await self._session.restore_settings(handle)
        finally:
            self._opening = False
        await self._leave(previous)
        self.save_handle_now()

    def _current_config(self) -> SessionConfig:
        """Return the settings as they are, not as the command line had them: the user may have switched since."""
        switched = {**dict.fromkeys(AGENT_CATEGORIES), "access": self.session.config.access}
        return msgspec.structs.replace(self._config(self._pass_on), **switched)

    async def _leave(self, session: Session) -> None:
        """Close a session; one without a prompt leaves no entry in the journal."""
        if session.fold.runs:
            await session.close()
        else:
            await self._process.runtime.discard_session(session)

    def save_handle_now(self) -> None:
        """Write the handle, if there is a file for it. InputError where it cannot be written."""
        if self.save is not None:
            save_handle(self.save, self.session.snapshot())

    def save_as(self, path: Path) -> None:
        self.save = path
        self.save_handle_now()

    def kill(self) -> None:
        self._process.kill()

    async def close(self) -> None:
        try:
            # A handle that was saved must find its session again.
            if self._session is not None and self.save is None and not self.is_gone:
                await self._leave(self._session)
        finally:
            await self._process.runtime.close()

    def _pass_on(self, event: Event) -> None:
        if not self._opening:
            self._on_event(event)
