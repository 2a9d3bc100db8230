"""What waits for an answer in a session on the server, and the program's own `on_permission` and `on_question`.

The first answer counts, whoever gives it: a program's, or a person's on the page. What someone else has answered is
asked no further here. What goes wrong in a callback refuses, and is logged.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, TypeAlias

from dragoman.errors import DragomanError
from dragoman.host.callback import call
from dragoman.host.permission import Answer, OnPermission, Option, Origin, PermissionRequest, answer_later, answer_of
from dragoman.host.question.question import CANCELLED, OnQuestion, Question, QuestionAnswer
from dragoman.host.question.question import parse_answer as parse_question_answer
from dragoman.host.requests import command_of
from dragoman.record import facts, rows
from dragoman.record.facts import Fact
from dragoman.record.tool_calls import ToolCalls
from dragoman.wire import vocabulary as acp
from dragoman.wire.connection import RpcRefusal
from dragoman.wire.messages import Message, Request

logger = logging.getLogger(__name__)

_ORIGINS: Final[dict[str, Origin]] = {"files": "files", "terminals": "terminals"}

AnswerPermission: TypeAlias = Callable[[str, Answer], Awaitable[object]]
AnswerQuestion: TypeAlias = Callable[[str, QuestionAnswer], Awaitable[object]]


def request_of(row: rows.Permission, calls: ToolCalls, session_id: str, agent: str, cwd: str) -> PermissionRequest:
    """The row of a permission request as `on_permission` gets it."""
    diffs = tuple(item for item in row.content if isinstance(item, acp.Diff))
    named = [*(location.path for location in row.locations), *(diff.path for diff in diffs)]
    known = calls.by_agent_id(row.tool_call_id) if row.tool_call_id is not None else None
    return PermissionRequest(
        session_id=session_id,
        agent=agent,
        tool_call_id=row.tool_call_id,
        title=row.title,
        kind=row.kind,
        options=tuple(Option(option.option_id, option.name, option.kind) for option in row.options),
        origin=_ORIGINS.get(row.origin, "agent"),
        name=known.name if known is not None else None,
        paths=tuple(dict.fromkeys(os.path.join(cwd, path) for path in named)),
        diffs=diffs,
        command=row.title if row.origin == "terminals" else command_of(row.raw_input),
        raw_input=row.raw_input,
        request_id=row.request_id,
    )


class Asking:
    """`request` makes of a row what `on_permission` gets, and `question` of a frame what `on_question` gets."""

    def __init__(
        self,
        on_permission: OnPermission | None,
        on_question: OnQuestion | None,
        request: Callable[[rows.Permission], PermissionRequest],
        question: Callable[[Request], Question],
        answer_permission: AnswerPermission,
        answer_question: AnswerQuestion,
    ) -> None:
        self._on_permission = None if on_permission is answer_later else on_permission
        self._on_question = on_question
        self._request = request
        self._question = question
        self._answer_permission = answer_permission
        self._answer_question = answer_question
        self._waiting: dict[str, rows.Permission | Request | None] = {}  # by the row's id; None where nobody can tell
        self._tasks: dict[str, asyncio.Task[None]] = {}

    @property
    def pending(self) -> bool:
        """Someone is asked something."""
        return bool(self._waiting)

    def note(self, fact: Fact, message: Message) -> None:
        match fact:
            case facts.PermissionRequested(permission=row):
                self._waiting[row.id] = row
            case facts.QuestionAsked(question=row):
                self._waiting[row.id] = message if isinstance(message, Request) else None
            case facts.PermissionResolved(permission=rows.Permission(id=row_id)):
                self._settled(row_id)
            case facts.QuestionAnswered(question=rows.Question(id=row_id)):
                self._settled(row_id)
            case _:
                pass

    def ask(self) -> None:
        """Asks the program what it was not asked yet."""
        for row_id, asked in self._waiting.items():
            if row_id in self._tasks:
                continue
            if isinstance(asked, rows.Permission) and self._on_permission is not None:
                self._begin(row_id, self._consult(row_id, self._on_permission, self._request(asked)))
            elif isinstance(asked, Request) and self._on_question is not None:
                self._begin(row_id, self._put(row_id, self._on_question, asked))

    def close(self) -> None:
        self._waiting.clear()
        for task in self._tasks.values():
            task.cancel()

    def _settled(self, row_id: str) -> None:
        self._waiting.pop(row_id, None)
        task = self._tasks.pop(row_id, None)
        if task is not None:
            task.cancel()

    def _begin(self, row_id: str, work: Coroutine[Any, Any, None]) -> None:
        # One that is done stays until its question is settled: nobody is asked twice.
        self._tasks[row_id] = asyncio.get_running_loop().create_task(work, name="dragoman asks")

    async def _consult(self, row_id: str, on_permission: OnPermission, request: PermissionRequest) -> None:
        try:
            answer = answer_of(request, await call(on_permission, request))
        except Exception:
            logger.exception("on_permission failed, and %r is refused", request.title)
            answer = request.reject()
        await self._told(self._answer_permission(row_id, answer))

    async def _put(self, row_id: str, on_question: OnQuestion, asked: Request) -> None:
        answer = CANCELLED
        try:
            question = self._question(asked)
            answer = parse_question_answer(question, await call(on_question, question))
        except (Exception, RpcRefusal):
            logger.exception("on_question failed, and the question is cancelled")
        await self._told(self._answer_question(row_id, answer))

    async def _told(self, answering: Awaitable[object]) -> None:
        try:
            await answering
        except DragomanError as problem:
            logger.warning("an answer did not reach the server: %s", problem)
