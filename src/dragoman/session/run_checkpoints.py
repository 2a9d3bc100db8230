"""`RunCheckpoints`: the checkpoints of a session's workspace before and after each of its runs.

The prompt is written to the agent when the checkpoint before the run is complete: what the agent changes from its first
moment on belongs to the run. The run is over when the checkpoint after it is complete: what a program changes then does
not. Both cost about as much as `git status`. The first checkpoint of a folder costs more, and begins while the agent
starts.

A checkpoint that fails, or takes too long, costs the run nothing but the checkpoint: a note in the session says so.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from typing import Final, Literal

from dragoman.clock import Clock, timeout
from dragoman.errors import DragomanError, InputError
from dragoman.protocol.checkpoints import Rewind
from dragoman.record import notes
from dragoman.workspace.checkpoints import SessionCheckpoints

logger = logging.getLogger(__name__)

# Changed files that the note about a rewind names.
MAX_NOTED_PATHS: Final = 20


def choose_run(run_ids: Sequence[str], choice: str | int) -> str:
    """Return the id of a run by its number, from 1 on, or by its id. A number below 0 counts from the last one."""
    if isinstance(choice, str) and choice in run_ids:
        return choice
    try:
        number = int(choice)
    except ValueError:
        number = 0
    if 1 <= abs(number) <= len(run_ids):
        return run_ids[number - 1 if number > 0 else number]
    if not run_ids:
        raise InputError("the session has no run yet")
    raise InputError(f"the session has no run {choice}", guidance=f"Runs are numbered from 1: it has {len(run_ids)}.")


def words_for(run_ids: Sequence[str], run_id: str | None, *, before: bool) -> str:
    """Say where a rewind goes to."""
    if run_id is None:
        return "before the last rewind"
    return f"{'before' if before else 'after'} run {run_ids.index(run_id) + 1}"


def rewound_note(rewind: Rewind) -> notes.Rewound:
    paths = tuple(change.path for change in rewind.changes[:MAX_NOTED_PATHS])
    return notes.Rewound(
        rewind.operation or "", rewind.target, rewind.run_id, rewind.before, len(rewind.changes), paths
    )


class RunCheckpoints:
    """`note` records what failed; `recorded_rewinds` are the ids of the rewinds that the session has notes of."""

    def __init__(
        self,
        checkpoints: SessionCheckpoints,
        note: Callable[[notes.Note], None],
        recorded_rewinds: Collection[str],
        clock: Clock,
    ) -> None:
        self._checkpoints = checkpoints
        self._note = note
        self._recorded_rewinds = recorded_rewinds
        self._clock = clock
        self._first: asyncio.Task[None] | None = None
        self._before: asyncio.Task[None] | None = None
        self._abandoned: asyncio.Task[None] | None = None
        self._may_send: asyncio.Future[None] | None = None

    def on_opened(self) -> None:
        """Begin with the first checkpoint: a folder that has none yet takes its time."""
        self._first = asyncio.get_running_loop().create_task(self._take_first(), name="dragoman first checkpoint")

    async def _take_first(self) -> None:
        try:
            await self._checkpoints.take(None, "opened", self._clock.time())
            for operation, target, changed in await self._checkpoints.list_rewinds():
                if operation not in self._recorded_rewinds:  # the process was killed before it could write the note
                    self._note(notes.Rewound(operation, target, changed=changed))
        except DragomanError as error:
            logger.info("no checkpoint: %s", error)  # the one before the first run reports it

    def begin_run(self, run_id: str) -> asyncio.Future[None]:
        """Begin with the checkpoint before a run. The prompt may be written when the future is done."""
        loop = asyncio.get_running_loop()
        self._may_send = loop.create_future()
        self._before = loop.create_task(self._take_before(run_id, self._may_send), name="dragoman checkpoint before")
        return self._may_send

    @property
    def is_prompt_held(self) -> bool:
        """True while a prompt waits for the checkpoint before its run."""
        return self._may_send is not None and not self._may_send.done()

    def release_prompt(self) -> None:
        """Let the prompt go now: its run is cancelled already, and the cancellation must not wait."""
        if self._may_send is not None and not self._may_send.done():
            self._may_send.set_result(None)

    async def _take_before(self, run_id: str, may_send: asyncio.Future[None]) -> None:
        try:
            await self._take(run_id, "before")
        finally:
            if not may_send.done():
                may_send.set_result(None)

    async def end_run(self, run_id: str) -> bool:
        """Take the checkpoint after a run. False where that failed; a note says why."""
        if self._before is not None:
            await asyncio.wait([self._before])
        if await self._take(run_id, "after"):
            return True
        with suppress(DragomanError):
            await self._checkpoints.end_run(run_id)
        return False

    def abandon_run(self, run_id: str) -> None:
        """Forget a run that did not reach the agent."""
        self.release_prompt()
        self._abandoned = asyncio.get_running_loop().create_task(self._abandon(run_id), name="dragoman abandoned run")

    async def _abandon(self, run_id: str) -> None:
        if self._before is not None:
            await asyncio.wait([self._before])
        with suppress(DragomanError):
            await self._checkpoints.end_run(run_id)

    async def _take(self, run_id: str, moment: Literal["before", "after"]) -> bool:
        limit_s = self._checkpoints.settings.timeout_s
        try:
            async with timeout(self._clock, limit_s):
                await self._checkpoints.take(run_id, moment, self._clock.time())
            return True
        except TimeoutError:
            reason = f"it took longer than {limit_s:g} s; the next one may be faster"
        except DragomanError as error:
            reason = ". ".join(filter(None, (str(error), error.guidance)))
        except Exception as error:
            logger.exception("a checkpoint failed")  # a defect of ours must not cost the run
            reason = f"{type(error).__name__}: {error}"
        self._note(notes.CheckpointFailed(run_id, moment, reason))
        return False

    async def close(self) -> None:
        """Stop what is not needed any more, and remove checkpoints that are too old."""
        for task in (self._first, self._before, self._abandoned):
            if task is not None and not task.done():
                task.cancel()
                await asyncio.wait([task])
        await self._checkpoints.prune(self._clock.time())
