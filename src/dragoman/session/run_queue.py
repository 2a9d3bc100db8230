"""`PromptQueue`: prompts that wait for a run to end; `RunQueue`: the runs of a session on it, one at a time, in order.

The next prompt is sent only after the run before it has ended, and that is a fact in the fold: all its updates are seen
by then. A run that is cancelled ends within the grace, or its agent is ended; the commands that the agent started in it
through us end with it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from typing import Final, Generic, Literal, Protocol, TypeAlias, TypeVar

from dragoman.clock import timeout
from dragoman.errors import DragomanError, InputError, SessionBusy
from dragoman.host.host import Host
from dragoman.record import notes, rows
from dragoman.session.context import PreparedPrompt
from dragoman.session.dispatcher import SessionDispatcher
from dragoman.session.interfaces import Runtime
from dragoman.session.run import Run
from dragoman.session.run_checkpoints import RunCheckpoints
from dragoman.wire import vocabulary as acp
from dragoman.wire.connection import copy_error

PromptT = TypeVar("PromptT")

logger = logging.getLogger(__name__)

# The ends of a run after which nothing of it may go on.
STOPPED: Final[tuple[rows.RunStatus, ...]] = ("cancelled", "interrupted")


class PromptQueue(Generic[PromptT]):
    """`on_change` is called after every change, so that the owner can store the queue or show it to others.

    While the queue is `paused` nothing leaves it by `pop_next`: a person has to look at it first. `max_prompts` is the
    number of prompts at which `check_room` refuses more; `add` takes what an earlier owner of the session had queued.
    """

    def __init__(self, *, max_prompts: int | None = None, on_change: Callable[[], None] | None = None) -> None:
        self._prompts: dict[str, PromptT] = {}
        self._max_prompts = max_prompts
        self._on_change = on_change
        self._paused = False

    def __len__(self) -> int:
        return len(self._prompts)

    def __iter__(self) -> Iterator[PromptT]:
        """Iterate over a copy: the queue may change meanwhile."""
        return iter(list(self._prompts.values()))

    def __contains__(self, prompt_id: str) -> bool:
        return prompt_id in self._prompts

    def __getitem__(self, prompt_id: str) -> PromptT:
        """Return a prompt by its id. `InputError` where it does not wait, or no longer."""
        try:
            return self._prompts[prompt_id]
        except KeyError:
            raise InputError(
                f"nothing is queued as {prompt_id!r}", guidance="It may have been sent meanwhile."
            ) from None

    @property
    def paused(self) -> bool:
        return self._paused

    @paused.setter
    def paused(self, paused: bool) -> None:
        if paused != self._paused:
            self._paused = paused
            self._changed()

    @property
    def first(self) -> PromptT | None:
        """The prompt that is next, whether or not the queue is paused."""
        return next(iter(self._prompts.values()), None)

    def check_room(self) -> None:
        """Raise `SessionBusy` where `max_prompts` prompts wait already."""
        if self._max_prompts is not None and len(self._prompts) >= self._max_prompts:
            raise SessionBusy(
                f"{len(self._prompts)} prompts are queued already", guidance="Wait, or remove some of them."
            )

    def add(self, prompt_id: str, prompt: PromptT, *, first: bool = False) -> None:
        """Add a prompt at the end, or as the `first`."""
        if prompt_id in self._prompts:
            raise InputError(f"a prompt is queued as {prompt_id!r} already", guidance="Choose another id.")
        self._prompts = {prompt_id: prompt, **self._prompts} if first else {**self._prompts, prompt_id: prompt}
        self._changed()

    def edit(self, prompt_id: str, prompt: PromptT) -> None:
        """Put another prompt in place of one that waits."""
        _ = self[prompt_id]
        self._prompts[prompt_id] = prompt
        self._changed()

    def move(self, prompt_id: str, position: int) -> None:
        """Move a prompt to this position, 0 being the first; one beyond the ends is the nearest end."""
        prompt = self[prompt_id]
        others = [item for item in self._prompts.items() if item[0] != prompt_id]
        others.insert(min(max(0, position), len(others)), (prompt_id, prompt))
        self._prompts = dict(others)
        self._changed()

    def remove(self, prompt_id: str) -> PromptT:
        prompt = self[prompt_id]
        del self._prompts[prompt_id]
        self._changed()
        return prompt

    def pop_next(self) -> PromptT | None:
        """Take the first prompt; None where nothing waits, or the queue is paused."""
        if self._paused or not self._prompts:
            return None
        prompt = self._prompts.pop(next(iter(self._prompts)))
        self._changed()
        return prompt

    def clear(self) -> list[PromptT]:
        """Remove and return all prompts, in their order."""
        prompts, self._prompts = list(self._prompts.values()), {}
        if prompts:
            self._changed()
        return prompts

    def _changed(self) -> None:
        if self._on_change is not None:
            self._on_change()


Blocks: TypeAlias = tuple[acp.ContentBlock, ...]


class QueueOwner(Protocol):
    """The session of a queue, as far as the queue has to do with it."""

    @property
    def id(self) -> str: ...
    @property
    def agent_session_id(self) -> str: ...
    @property
    def agent_name(self) -> str: ...
    def check_open(self) -> None: ...
    def note(self, note: notes.Note) -> None: ...
    def prepare_prompt(self, run: Run, blocks: Blocks) -> PreparedPrompt: ...


class RunQueue:
    """`system_prompt` goes with the first prompt, unless the agent gets it before by a request of its own."""

    def __init__(
        self,
        session: QueueOwner,
        runtime: Runtime,
        host: Host,
        dispatcher: SessionDispatcher,
        system_prompt: str | None,
        checkpoints: RunCheckpoints | None = None,
    ) -> None:
        self.pending_system_prompt = system_prompt
        self._checkpoints = checkpoints
        self._session = session
        self._runtime = runtime
        self._host = host
        self._dispatcher = dispatcher
        self._queue: PromptQueue[tuple[Run, Blocks]] = PromptQueue()
        self._escalation: asyncio.Task[None] | None = None
        self._ending_commands: asyncio.Task[None] | None = None
        self._finishing: tuple[Run, asyncio.Task[None]] | None = None  # a run that has ended, but for its commands
        dispatcher.on_run_ended = self._on_run_ended

    @property
    def first(self) -> Run | None:
        """The active run, or else the one that is next."""
        queued = self._queue.first
        return self._dispatcher.active or (queued[0] if queued is not None else None)

    # -- beginning

    def add(self, run: Run, blocks: Blocks) -> None:
        """Begin the run, or queue it behind the others."""
        if self.first is None:
            self.begin(run, blocks)
        else:
            self._queue.add(run.id, (run, blocks))

    def begin(self, run: Run, blocks: Blocks) -> None:
        """Begin the run now. No other may be active."""
        self._host.permissions.begin_run(run.rules)  # first: they also decide which files go with the prompt
        prepared = self._session.prepare_prompt(run, blocks)
        history_difference = self._dispatcher.end_replay()
        sent_blocks = prepared.blocks
        if self.pending_system_prompt is not None:
            sent_blocks = (acp.TextContent(text=self.pending_system_prompt), *sent_blocks)
        self._dispatcher.active = run
        run.began()
        try:
            self._session.note(notes.Prompt(run.id, blocks, prepared.context))
            if self._checkpoints is not None:
                self._runtime.hold_writes(self._checkpoints.begin_run(run.id))
            self._runtime.send_prompt(self._session.agent_session_id, sent_blocks)
        except BaseException as error:
            # It did not reach the agent: the session is as free as before.
            self._dispatcher.active = None
            if self._checkpoints is not None:
                self._checkpoints.abandon_run(run.id)
            if isinstance(error, TypeError | ValueError):
                raise InputError(f"the prompt cannot be written as JSON: {error}") from error
            raise
        self.pending_system_prompt = None
        if history_difference is not None:
            self._session.note(history_difference)
        run.sent()

    def _begin_next(self) -> None:
        if self._dispatcher.active is not None:
            return
        queued = self._queue.pop_next()
        if queued is None:
            return
        run, blocks = queued
        try:
            self._session.check_open()
            self.begin(run, blocks)
        except Exception as error:
            # Whatever it is, those who wait for this run must learn of it, and the next ones have their turn.
            failure = error if isinstance(error, DragomanError) else DragomanError(f"it could not be sent: {error}")
            run.lost(failure, self._runtime.clock.time())
            self._begin_next()

    # -- ending

    def cancel_queued(self) -> None:
        for run, _ in self._queue:
            self.cancel(run)

    def cancel(self, run: Run) -> None:
        """Ask for the end of a run; what it takes to get it goes on in the background."""
        if run.done or run.cancelling:
            return
        run.cancelling = True
        if run is not self._dispatcher.active:
            if run.id in self._queue:
                self._queue.remove(run.id)
            run.dropped(self._runtime.clock.time())
            return
        if self._has_stopped(run):
            return
        self._runtime.notify("session/cancel", acp.CancelNotification(session_id=self._session.agent_session_id))
        if self._checkpoints is not None:
            self._checkpoints.release_prompt()
        # The protocol wants every question of the cancelled run answered, and we go on listening.
        self._host.cancel_pending(rest_of_run=True)
        self._runtime.wake_reader()
        loop = asyncio.get_running_loop()
        # At once: an agent that waits for its command ends the sooner.
        self._ending_commands = loop.create_task(self._host.end_run_terminals(), name="dragoman cancel commands")
        self._escalation = loop.create_task(self._escalate(run), name="dragoman cancel")

    async def _escalate(self, run: Run) -> None:
        grace_s = self._runtime.limits.cancel_timeout
        if not await run.ended_within(grace_s) and not self._has_stopped(run):
            name = self._session.agent_name
            await self._runtime.end_link(f"{name} did not stop within {grace_s:g} s of being asked to")

    def _has_stopped(self, run: Run) -> bool:
        """Return whether the agent has ended the run, and only commands of it are still to end."""
        return self._finishing is not None and self._finishing[0] is run

    async def finished(self) -> None:
        """Wait until a run that the agent has ended is over: its commands end, and its checkpoint is taken."""
        if self._finishing is not None:
            await asyncio.wait([self._finishing[1]])

    def _on_run_ended(self, row: rows.Run) -> None:
        run = self._dispatcher.active
        if run is None or run.id != row.id:
            return
        self._host.cancel_pending()
        # Also where the agent gave another reason: it was asked to stop, and its commands are being ended.
        is_stopped = run.cancelling or row.status in STOPPED
        if self._checkpoints is not None or (is_stopped and self._host.has_run_terminals):
            # The run is active until its commands have ended: nothing of it goes on while the session is idle. And
            # until there is a checkpoint: what anyone changes after the run is not in it.
            finishing = self._finish_later(run, row, is_stopped=is_stopped)
            self._finishing = run, asyncio.get_running_loop().create_task(finishing, name="dragoman end of a run")
        else:
            self._finish(run, row, is_stopped=is_stopped)

    async def _finish_later(self, run: Run, row: rows.Run, *, is_stopped: bool) -> None:
        try:
            async with timeout(self._runtime.clock, self._runtime.limits.cancel_timeout):
                if is_stopped:
                    await self._host.end_run_terminals()
                    await self._dispatcher.handed_on()  # the ends of the commands come before the end of the run
        except TimeoutError:
            logger.warning("session %s: a command of the run %s could not be ended", self._session.id, run.id)
        finally:
            try:
                if self._checkpoints is not None and not await self._checkpoints.end_run(run.id):
                    await self._dispatcher.handed_on()  # the warning comes before the end of the run
            finally:
                self._finish(run, row, is_stopped=is_stopped)

    def _finish(self, run: Run, row: rows.Run, *, is_stopped: bool) -> None:
        self._dispatcher.active = None
        self._host.run_ended(stopped=is_stopped)
        run.ended(row)
        # Not now: the bytes that were already read belong to the time before any new prompt.
        asyncio.get_running_loop().call_soon(self._begin_next)

    def on_link_lost(self, failure: DragomanError) -> None:
        """Record the active run as interrupted, since the agent is gone; the queued ones never begin."""
        now = self._runtime.clock.time()
        run = self._dispatcher.active
        if run is not None and self._dispatcher.error is not None:
            self._dispatcher.active = None
            run.lost(copy_error(failure), now)  # what happened to it cannot be stored, and its caller must learn of it
        elif run is not None:
            status: Literal["cancelled", "interrupted"] = "cancelled" if run.cancelling else "interrupted"
            self._session.note(notes.RunInterrupted(run.id, status, str(failure)))
        for queued, _ in self._queue.clear():
            queued.lost(copy_error(failure), now)
