"""`RunQueue`: the runs of a session, one at a time, in the order in which they were asked for.

The next prompt is sent only after the run before it has ended, and that is a fact in the fold: all its updates are seen
by then. A run that is asked to end does so within the grace, or its agent is ended.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Literal, TypeAlias

from dragoman.errors import DragomanError, InputError
from dragoman.host.host import Host
from dragoman.record import notes, rows
from dragoman.session.dispatcher import SessionDispatcher
from dragoman.session.prompt_queue import PromptQueue
from dragoman.session.run import Run
from dragoman.wire import vocabulary as acp
from dragoman.wire.connection import copy_error

if TYPE_CHECKING:
    from dragoman.session.runtime import AgentRuntime
    from dragoman.session.session import Session

Blocks: TypeAlias = tuple[acp.ContentBlock, ...]


class RunQueue:
    def __init__(self, session: Session, runtime: AgentRuntime, host: Host, frames: SessionDispatcher) -> None:
        self.unsaid_system_prompt = session.config.system_prompt  # goes with the first prompt, unless it is said before
        self._session = session
        self._runtime = runtime
        self._host = host
        self._frames = frames
        self._queue: PromptQueue[tuple[Run, Blocks]] = PromptQueue()
        self._escalation: asyncio.Task[None] | None = None
        frames.on_run_ended = self._ended

    @property
    def first(self) -> Run | None:
        """The run that goes on, or is about to."""
        return self._frames.active or (self._queue.first[0] if self._queue.first is not None else None)

    # -- beginning

    def add(self, run: Run, blocks: Blocks) -> None:
        """Begins it, or queues it behind the others."""
        if self.first is None:
            self.begin(run, blocks)
        else:
            self._queue.add(run.id, (run, blocks))

    def begin(self, run: Run, blocks: Blocks) -> None:
        """Begins it now. No other may go on."""
        said = blocks
        differs = self._frames.replayed()
        if self.unsaid_system_prompt is not None:
            blocks = (acp.TextContent(text=self.unsaid_system_prompt), *blocks)
        self._frames.active = run
        self._host.begin_run(run.rules)
        run.began()
        try:
            self._session.note(notes.Prompt(run.id, said))
            self._runtime.send_prompt(self._session, blocks)
        except BaseException as problem:
            # It did not reach the agent: the session is as free as before.
            self._frames.active = None
            if isinstance(problem, TypeError | ValueError):
                raise InputError(f"the prompt cannot be written as JSON: {problem}") from problem
            raise
        self.unsaid_system_prompt = None
        if differs is not None:
            self._session.note(differs)
        run.sent()

    def _begin_next(self) -> None:
        if self._frames.active is not None:
            return
        queued = self._queue.pop_next()
        if queued is None:
            return
        run, blocks = queued
        try:
            self._session.check_open()
            self.begin(run, blocks)
        except Exception as problem:
            # Whatever it is, who waits for this run must learn of it, and the next ones have their turn.
            failure = (
                problem if isinstance(problem, DragomanError) else DragomanError(f"it could not be sent: {problem}")
            )
            run.lost(failure, time.time())
            self._begin_next()

    # -- ending

    def cancel_queued(self) -> None:
        for run, _ in self._queue:
            self.cancel(run)

    def cancel(self, run: Run) -> None:
        """Asks for its end; what it takes to get it goes on in the background."""
        if run.done or run.cancelling:
            return
        run.cancelling = True
        if run is not self._frames.active:
            if run.id in self._queue:
                self._queue.remove(run.id)
            run.dropped(time.time())
            return
        self._runtime.notify("session/cancel", acp.CancelNotification(session_id=self._session.agent_session_id))
        # The protocol wants every question of the cancelled run answered, and we go on listening.
        self._host.cancel_pending(rest_of_run=True)
        self._runtime.wake_reader()
        self._escalation = asyncio.get_running_loop().create_task(self._escalate(run), name="dragoman cancel")

    async def _escalate(self, run: Run) -> None:
        grace = self._runtime.limits.cancel_grace
        if not await run.ended_within(grace):
            name = self._session.agent_name
            await self._runtime.end_link(f"{name} did not stop within {grace:g} s of being asked to")

    def _ended(self, row: rows.Run) -> None:
        run = self._frames.active
        if run is None or run.id != row.id:
            return
        self._frames.active = None
        self._host.cancel_pending()
        self._host.run_ended()
        run.ended(row)
        # Not now: what is left of the bytes at hand was said before any new prompt could be heard.
        asyncio.get_running_loop().call_soon(self._begin_next)

    def lost(self, failure: DragomanError) -> None:
        """The agent is gone. The active run is cut, and recorded as cut; the others never begin."""
        now = time.time()
        run = self._frames.active
        if run is not None and self._frames.problem is not None:
            self._frames.active = None
            run.lost(copy_error(failure), now)  # what happened to it cannot be kept, and whoever waits must learn of it
        elif run is not None:
            status: Literal["cancelled", "interrupted"] = "cancelled" if run.cancelling else "interrupted"
            self._session.note(notes.RunInterrupted(run.id, status, str(failure)))
        for queued, _ in self._queue.clear():
            queued.lost(copy_error(failure), now)
