"""`RemoteRunQueue`: the runs of a session on a server, as far as this client has to do with them.

Our prompts are sent one at a time, in their order, and wait on the server only for the runs of other clients. Of those
runs it is only known that they go on, so that their end can be reported.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any, Literal, NamedTuple, TypeAlias

from msgspec.structs import replace

from dragoman.errors import DragomanError, InputError
from dragoman.protocol import requests
from dragoman.protocol.requests import AttachedAudio, AttachedImage, AttachedText, Attachment
from dragoman.protocol.results import PromptAccepted
from dragoman.remote.connection import ServerConnection
from dragoman.session.capabilities import Capabilities
from dragoman.session.prompt import FileAttachment, Input, TextAttachment, assemble, input_parts
from dragoman.session.run import Run
from dragoman.session.run_queue import PromptQueue
from dragoman.wire import vocabulary as acp
from dragoman.wire.connection import copy_error

StartTask: TypeAlias = Callable[[Coroutine[Any, Any, Any]], asyncio.Task[Any]]


class EncodedPrompt(NamedTuple):
    """A prompt as it is sent to the server."""

    text: str
    attachments: tuple[Attachment, ...]


def encode_prompt(prompt: Input, capabilities: Capabilities) -> EncodedPrompt:
    """Join the texts of a prompt by blank lines and turn the rest into attachments. Files are read here."""
    texts: list[str] = []
    attachments: list[Attachment] = []
    # The server embeds texts in the way that the agent supports.
    accepted = replace(capabilities, embedded_context=True)
    for part, block in zip(input_parts(prompt), assemble(prompt, accepted), strict=True):
        match block:
            case acp.TextContent(text=text):
                texts.append(text)
            case acp.ImageContent(mime_type=mime_type, data=data):
                attachments.append(AttachedImage(mime_type=mime_type, data=data))
            case acp.AudioContent(mime_type=mime_type, data=data):
                attachments.append(AttachedAudio(mime_type=mime_type, data=data))
            case acp.EmbeddedResource(resource=acp.TextResourceContents(text=text, uri=uri)):
                has_name = isinstance(part, TextAttachment | FileAttachment)
                name = (
                    part.name
                    if isinstance(part, TextAttachment)
                    else str(part.path)
                    if isinstance(part, FileAttachment)
                    else uri
                )
                attachments.append(AttachedText(name=name, text=text, uri=None if has_name else uri))
            case _:
                raise InputError(
                    f"a {type(part).__name__} cannot be sent to a session on a server",
                    guidance="Send it as text, or as a file, text, image or audio attachment.",
                )
    return EncodedPrompt("\n\n".join(texts), tuple(attachments))


class QueuedRun(NamedTuple):
    run: Run
    prompt: EncodedPrompt
    when: Literal["queue", "refuse"]  # while another client's run goes on


class RemoteRunQueue:
    """The runs of one session. `start_task` runs something in the background, as long as the session is open here."""

    def __init__(self, connection: ServerConnection, session_id: str, start_task: StartTask) -> None:
        self._connection = connection
        self._session_id = session_id
        self._start_task = start_task
        self.active: Run | None = None  # ours: sent, and not yet over
        self._queue: PromptQueue[QueuedRun] = PromptQueue()
        self._current: dict[str, Run] = {}  # ours that was sent, and those of other clients
        self._started: set[str] = set()
        self._sending: dict[str, asyncio.Task[PromptAccepted | None]] = {}

    def get(self, run_id: str | None) -> Run | None:
        return self._current.get(run_id or "")

    @property
    def any(self) -> Run | None:
        """A run that goes on, ours first."""
        return self.active or next(iter(self._current.values()), None)

    def add(self, run: Run, prompt: EncodedPrompt, when: Literal["queue", "refuse"]) -> None:
        self._queue.add(run.id, QueuedRun(run, prompt, when))
        self._send_next()

    def adopt(self, run: Run) -> None:
        """Add a run that another client began: no program iterates over it here."""
        self._current[run.id] = run
        self._started.add(run.id)
        run.drain()

    def on_started(self, run: Run) -> None:
        self._started.add(run.id)
        run.began()
        run.sent()

    def remove(self, run: Run) -> None:
        """Forget a run that ended, or never began."""
        self._current.pop(run.id, None)
        self._sending.pop(run.id, None)
        self._started.discard(run.id)
        if run is self.active:
            self.active = None
            # Not now: callbacks that learn of its end may cancel what is queued.
            asyncio.get_running_loop().call_soon(self._send_next)

    def fail_all(self, error: DragomanError) -> None:
        """End all runs here: what becomes of them on the server will not be known."""
        runs = [*self._current.values(), *(queued.run for queued in self._queue.clear())]
        self._current.clear()
        self.active = None
        for run in runs:
            run.lost(copy_error(error), time.time())

    # -- prompts

    def _send_next(self) -> None:
        if self.active is None and (queued := self._queue.pop_next()) is not None:
            run = self.active = self._current[queued.run.id] = queued.run
            self._sending[run.id] = self._start_task(self._send(queued))

    async def _send(self, queued: QueuedRun) -> PromptAccepted | None:
        run, prompt, when = queued
        request = requests.SessionPrompt(
            session_id=self._session_id,
            text=prompt.text,
            attachments=prompt.attachments,
            when=when,
            run_id=run.id,
            skills=run.skills,
        )
        try:
            return await self._connection.call(request)
        except DragomanError as error:
            self.remove(run)
            run.lost(error, time.time())
            return None

    # -- cancelling

    def cancel_queued(self) -> None:
        for queued in self._queue:
            self.cancel(queued.run)

    def cancel(self, run: Run) -> None:
        """Request the end of a run; the rest happens in the background."""
        run.cancelling = True
        if run.id in self._current:
            self._start_task(self._cancel(run))
        else:
            if run.id in self._queue:
                self._queue.remove(run.id)
            run.dropped(time.time())

    async def _cancel(self, run: Run) -> None:
        # The server has to have it before it can be cancelled.
        sending = self._sending.get(run.id)
        accepted = await sending if sending is not None else None
        try:
            queued_id = accepted.queued_id if accepted is not None and run.id not in self._started else None
            if queued_id is not None and await self._remove_queued(queued_id):
                self.remove(run)
                run.dropped(time.time())
            elif not run.done:
                await self._connection.call(requests.SessionCancel(session_id=self._session_id, run_id=run.id))
        except DragomanError as error:
            if not run.done:
                self.remove(run)
                run.lost(error, time.time())

    async def _remove_queued(self, queued_id: str) -> bool:
        """Remove a prompt that waits on the server behind another client's run. False: it was sent meanwhile."""
        try:
            await self._connection.call(requests.QueueRemove(session_id=self._session_id, queued_id=queued_id))
        except InputError:
            return False
        return True
