"""`Started`: the agent of a job, brought up, with a session opened on it, and within reach until it has ended."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from dragoman.cli.job import Job, option_value
from dragoman.host.question.question import OnQuestion
from dragoman.proc.link import AgentLink
from dragoman.session.client import limits_of
from dragoman.session.diagnostics import Diagnostic
from dragoman.session.handle import SessionHandle
from dragoman.session.launch import launch
from dragoman.session.runtime import AgentRuntime
from dragoman.session.session import Session
from dragoman.session.spec import AgentSpec, Limits, SessionConfig


class Started:
    def __init__(
        self, job: Job, *, on_diagnostic: Callable[[Diagnostic], None], on_question: OnQuestion | None = None
    ) -> None:
        self._link: AgentLink | None = None
        self.runtime = AgentRuntime(
            job.spec,
            limits=limits_of(job.settings),
            on_diagnostic=on_diagnostic,
            line_limit=job.settings.line_limit,
            sources=job.sources,
            on_question=on_question,
            launch=self._launch,
        )

    async def _launch(self, spec: AgentSpec, limits: Limits, on_stderr: Callable[[str], None]) -> AgentLink:
        self._link = await launch(spec, limits, on_stderr)
        return self._link

    async def open(
        self, config: SessionConfig, handle: SessionHandle | None, options: Mapping[str, str] | None = None
    ) -> Session:
        """The session of the handle, or a new one; with these options, as they were typed."""
        if handle is not None:
            session = await self.runtime.resume_session(handle, config)
        else:
            session = await self.runtime.open_session(config)
        for option_id, text in (options or {}).items():
            await session.set_option(option_id, option_value(session, option_id, text))
        return session

    def kill(self) -> None:
        """Ends the agent at once, where there is one by now; the runtime is still to be closed."""
        if self._link is not None:
            self._link.kill()
