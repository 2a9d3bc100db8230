"""`Turns`: the runs of a session on a server, as far as we have to do with them.

Ours are sent one at a time, in the order in which they were asked for, and wait on the server only for those of others.
Of the runs that others begin it is known that they go on, so that their end can be told.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, Literal, NamedTuple, TypeAlias

from dragoman.bridge import answers, asked
from dragoman.errors import DragomanError, InputError
from dragoman.remote.said import Said
from dragoman.remote.socket import Socket, new_call
from dragoman.session.run import Run
from dragoman.wire.connection import copy_error

Do: TypeAlias = Callable[[Coroutine[Any, Any, Any]], asyncio.Task[Any]]


class Prompt(NamedTuple):
    run: Run
    said: Said
    when: Literal["queue", "refuse"]  # where someone else's run goes on


class Turns:
    """`do` has something done in the background, for as long as the session is held here."""

    def __init__(self, socket: Socket, session_id: str, do: Do) -> None:
        self._socket = socket
        self._session_id = session_id
        self._do = do
        self.active: Run | None = None  # ours, sent, and not yet over
        self._queue: deque[Prompt] = deque()
        self._going_on: dict[str, Run] = {}  # ours that is sent, and those of others
        self._begun: set[str] = set()
        self._sending: dict[str, asyncio.Task[answers.Prompted | None]] = {}

    def get(self, run_id: str | None) -> Run | None:
        return self._going_on.get(run_id or "")

    @property
    def any(self) -> Run | None:
        """One that goes on, ours first."""
        return self.active or next(iter(self._going_on.values()), None)

    def add(self, prompt: Prompt) -> None:
        self._queue.append(prompt)
        self._send_next()

    def adopt(self, run: Run) -> None:
        """Someone else began it: nobody iterates over it here."""
        self._going_on[run.id] = run
        self._begun.add(run.id)
        run.drain()

    def began(self, run: Run) -> None:
        self._begun.add(run.id)
        run.began()
        run.sent()

    def over(self, run: Run) -> None:
        """It ended, or never began."""
        self._going_on.pop(run.id, None)
        self._sending.pop(run.id, None)
        self._begun.discard(run.id)
        if run is self.active:
            self.active = None
            # Not now: who is told of its end may want to have a word first.
            asyncio.get_running_loop().call_soon(self._send_next)

    def lost(self, problem: DragomanError) -> None:
        """What becomes of them will not be known here."""
        runs = [*self._going_on.values(), *(prompt.run for prompt in self._queue)]
        self._queue.clear()
        self._going_on.clear()
        self.active = None
        for run in runs:
            run.lost(copy_error(problem), time.time())

    # -- prompts

    def _send_next(self) -> None:
        if self.active is None and self._queue:
            prompt = self._queue.popleft()
            run = self.active = self._going_on[prompt.run.id] = prompt.run
            self._sending[run.id] = self._do(self._send(prompt))

    async def _send(self, prompt: Prompt) -> answers.Prompted | None:
        run, (text, attachments), when = prompt
        control = asked.SessionPrompt(
            id=new_call(),
            command_id=new_call(),
            session_id=self._session_id,
            text=text,
            attachments=attachments,
            when=when,
            run_id=run.id,
        )
        try:
            return await self._socket.call(control, answers.Prompted)
        except DragomanError as problem:
            self.over(run)
            run.lost(problem, time.time())
            return None

    # -- cancelling

    def cancel_queued(self) -> None:
        for prompt in list(self._queue):
            self.cancel(prompt.run)

    def cancel(self, run: Run) -> None:
        """Asks for its end; what it takes to get it goes on in the background."""
        run.cancelling = True
        if run.id in self._going_on:
            self._do(self._cancel(run))
        else:
            self._queue = deque(prompt for prompt in self._queue if prompt.run is not run)
            run.dropped(time.time())

    async def _cancel(self, run: Run) -> None:
        # Not before it is there to be cancelled.
        sending = self._sending.get(run.id)
        prompted = await sending if sending is not None else None
        try:
            waits = prompted.queued_id if prompted is not None and run.id not in self._begun else None
            if waits is not None and await self._taken_back(waits):
                self.over(run)
                run.dropped(time.time())
            elif not run.done:
                cancel = asked.SessionCancel(
                    id=new_call(), command_id=new_call(), session_id=self._session_id, run_id=run.id
                )
                await self._socket.call(cancel, answers.Done)
        except DragomanError as problem:
            if not run.done:
                self.over(run)
                run.lost(problem, time.time())

    async def _taken_back(self, queued_id: str) -> bool:
        """A prompt that waits on the server, behind someone else's run."""
        removal = asked.QueueRemove(
            id=new_call(), command_id=new_call(), session_id=self._session_id, queued_id=queued_id
        )
        try:
            await self._socket.call(removal, answers.Done)
        except InputError:
            return False  # it has had its turn meanwhile
        return True
