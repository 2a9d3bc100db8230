"""Any sequence of operations on sessions leaves a journal whose rows are those of its frames.

`make test` tries a few sequences; DRAGOMAN_OPERATIONS is the number of operations in each, DRAGOMAN_SEED makes others.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from dragoman.errors import DragomanError
from dragoman.hub.hub import Hub
from dragoman.hub.owned_session import OwnedSession
from dragoman.journal import notes
from dragoman.journal.maintenance import rebuild, verify
from dragoman.journal.session_record import SessionRecord
from dragoman.protocol import requests
from dragoman.session.options import SessionConfig
from dragoman.wire.messages import Notification
from dragoman.workspace import Workspace

OPERATIONS = int(os.environ.get("DRAGOMAN_OPERATIONS", "20"))
SEED = int(os.environ.get("DRAGOMAN_SEED", "0"))
SEQUENCES = 3
OPERATION_TIMEOUT_S = 60.0

TEXTS = [
    *("hello", "plan", "think", "tools", "usage", "compact", "notice", "edit README", "run ls", "read README"),
    *("permission", "ask me", "mode plan", "model demo-large", "title x", "stream 40", "slow 5", "sleep 600", "refuse"),
    *("error", "max tokens", "silent", "noise", "crash", "image", "link"),
]
MAX_SESSIONS = 3


class Operations:
    """Does one thing after another with the sessions of a hub; refusals are part of it."""

    def __init__(self, home: Path, folder: Path, choices: random.Random) -> None:
        self.hub = Hub(home)
        self._home = home
        self._folder = folder
        self._random = choices
        self._all: list[Callable[[], Awaitable[object]]] = [
            *[self._prompt] * 6,
            *[self._answer] * 4,
            *(self._open, self._cancel, self._set_mode, self._set_model, self._rename, self._fork, self._close),
            *(self._continue, self._continue, self._restart, self._delete, self._edit_queue, self._move_queued),
            *(self._send_queued, self._remove_queued, self._rebuild),
        ]

    async def do_one(self) -> str:
        operation = self._random.choice(self._all)
        with contextlib.suppress(DragomanError):
            async with asyncio.timeout(OPERATION_TIMEOUT_S):
                await operation()
        return getattr(operation, "__name__", "")

    async def _session_id(self) -> str:
        rows = await self.hub.journal.sessions()
        if not rows:
            await self._open()
            rows = await self.hub.journal.sessions()
        return self._random.choice(sorted(rows, key=lambda row: row.id)).id

    def _queued(self) -> tuple[str, str] | None:
        waiting = [(owned.id, queued.id) for owned in self.hub.owned_sessions.values() for queued in owned.queue]
        return self._random.choice(waiting) if waiting else None

    async def _open(self) -> None:
        if len(await self.hub.journal.sessions()) < MAX_SESSIONS:
            access = self._random.choice(("ask", "edit-inside", "read-only"))
            config = SessionConfig(workspace=Workspace(self._folder), access=access)  # type: ignore[arg-type]
            await self.hub.start_session("demo", config)

    async def _prompt(self) -> None:
        when = self._random.choice(("queue", "queue", "now", "refuse"))
        text = self._random.choice(TEXTS)
        session_id = await self._session_id()
        await self.hub.command(
            requests.SessionPrompt(session_id=session_id, text=text, when=when)  # type: ignore[arg-type]
        )

    async def _answer(self) -> None:
        for owned in list(self.hub.owned_sessions.values()):
            if owned.session is not None:
                await self._answer_in(owned)

    async def _answer_in(self, owned: OwnedSession) -> None:
        assert owned.session is not None
        answer = self._random.choice(("allow", "reject", "cancel"))
        for row in list(owned.session.fold.permissions.values()):
            if row.outcome == "pending":
                await self.hub.command(
                    requests.PermissionAnswer(session_id=owned.id, permission_id=row.id, answer=answer)  # type: ignore[arg-type]
                )
        for question in list(owned.session.fold.questions.values()):
            await self.hub.command(
                requests.QuestionAnswer(session_id=owned.id, question_id=question.id, action="decline")
            )

    async def _cancel(self) -> None:
        await self.hub.command(requests.SessionCancel(session_id=await self._session_id()))

    async def _set_mode(self) -> None:
        mode = self._random.choice(("ask", "code", "plan", "none"))
        await self.hub.command(requests.SessionSetMode(session_id=await self._session_id(), mode=mode))

    async def _set_model(self) -> None:
        model = self._random.choice(("demo-large", "demo-small", "none"))
        session_id = await self._session_id()
        await self.hub.command(requests.SessionSetOption(session_id=session_id, option_id="model", value=model))

    async def _rename(self) -> None:
        def renamed(record: SessionRecord) -> list[Notification]:
            return [notes.write(notes.SessionRenamed(title="another title"))]

        await self.hub.note(await self._session_id(), renamed)

    async def _fork(self) -> None:
        if len(await self.hub.journal.sessions()) < MAX_SESSIONS:
            await self.hub.fork_session(await self._session_id())

    async def _close(self) -> None:
        await self.hub.close_session(await self._session_id())

    async def _continue(self) -> None:
        how = self._random.choice(("resume", "load", "new"))
        await self.hub.continue_session(await self._session_id(), how)  # type: ignore[arg-type]

    async def _restart(self) -> None:
        """End the hub, and start another one on the same journal."""
        await self.hub.close()
        self.hub = await Hub(self._home).start()

    async def _delete(self) -> None:
        if self._random.random() < 0.3:
            await self.hub.delete_session(await self._session_id())

    async def _edit_queue(self) -> None:
        if queued := self._queued():
            text = self._random.choice(TEXTS)
            await self.hub.command(requests.QueueEdit(session_id=queued[0], queued_id=queued[1], text=text))

    async def _move_queued(self) -> None:
        if queued := self._queued():
            await self.hub.command(requests.QueueMove(session_id=queued[0], queued_id=queued[1], to=0))

    async def _send_queued(self) -> None:
        if queued := self._queued():
            await self.hub.command(requests.QueueSend(session_id=queued[0], queued_id=queued[1]))

    async def _remove_queued(self) -> None:
        if queued := self._queued():
            await self.hub.command(requests.QueueRemove(session_id=queued[0], queued_id=queued[1]))

    async def _rebuild(self) -> None:
        session_id = await self._session_id()
        if session_id not in self.hub.owned_sessions:
            await rebuild(self.hub.journal, [session_id])


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("sequence", range(SEQUENCES))
async def test_the_journal_verifies_after_every_operation(
    sequence: int, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRAGOMAN_DEMO_PACE", "0")
    operations = Operations(home, tmp_path, random.Random(f"{SEED} {sequence}"))
    done: list[str] = []
    await operations.hub.start()
    try:
        for _ in range(OPERATIONS):
            done.append(await operations.do_one())
            assert await verify(operations.hub.journal) == [], done
    finally:
        await operations.hub.close()
