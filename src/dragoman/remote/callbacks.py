"""`Callbacks`: a program's `on_permission` and `on_question`, for a session on a server.

The first answer counts, of this program, of another one or of a person on the page. A callback is cancelled when
another answer comes first. An error in a callback denies the permission, or cancels the question, and is logged.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Coroutine, Hashable
from typing import Any, Final, TypeAlias

from dragoman.errors import DragomanError
from dragoman.host.pending import PendingRequest, PendingRequests, call
from dragoman.host.permission import (
    OnPermission,
    Option,
    Origin,
    PermissionAnswer,
    PermissionRequest,
    answer_later,
    answer_of,
)
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

AnswerPermission: TypeAlias = Callable[[str, PermissionAnswer], Awaitable[object]]
AnswerQuestion: TypeAlias = Callable[[str, QuestionAnswer], Awaitable[object]]

# A permission's row, or the frame of a question; None for a question whose frame is not known.
_Pending: TypeAlias = rows.Permission | Request | None


def permission_request(
    row: rows.Permission, calls: ToolCalls, session_id: str, agent: str, cwd: str
) -> PermissionRequest:
    """The argument of `on_permission` for a permission's row."""
    diffs = tuple(item for item in row.content if isinstance(item, acp.Diff))
    paths = [*(location.path for location in row.locations), *(diff.path for diff in diffs)]
    tool_call = calls.by_agent_id(row.tool_call_id) if row.tool_call_id is not None else None
    return PermissionRequest(
        session_id=session_id,
        agent=agent,
        tool_call_id=row.tool_call_id,
        title=row.title,
        first_title=(calls.first_title(row.tool_call_id) or "") if row.tool_call_id is not None else "",
        kind=row.kind,
        options=tuple(Option(option.option_id, option.name, option.kind) for option in row.options),
        origin=_ORIGINS.get(row.origin, "agent"),
        name=tool_call.name if tool_call is not None else None,
        paths=tuple(dict.fromkeys(os.path.join(cwd, path) for path in paths)),
        diffs=diffs,
        command=row.title if row.origin == "terminals" else command_of(row.raw_input),
        raw_input=row.raw_input,
        request_id=row.request_id,
        reason=row.asked_because,
    )


class Callbacks:
    """The pending permissions and questions of a session, and the callbacks that answer them.

    `make_request` builds the argument of `on_permission` from a row, `make_question` that of `on_question` from a
    frame.
    """

    def __init__(
        self,
        on_permission: OnPermission | None,
        on_question: OnQuestion | None,
        *,
        make_request: Callable[[rows.Permission], PermissionRequest],
        make_question: Callable[[Request], Question],
        answer_permission: AnswerPermission,
        answer_question: AnswerQuestion,
    ) -> None:
        self._on_permission = None if on_permission is answer_later else on_permission
        self._on_question = on_question
        self._make_request = make_request
        self._make_question = make_question
        self._answer_permission = answer_permission
        self._answer_question = answer_question
        self._pending: PendingRequests[_Pending, None] = PendingRequests()
        self._called: dict[Hashable, asyncio.Task[None]] = {}

    @property
    def has_pending(self) -> bool:
        """A permission or a question waits for an answer."""
        return len(self._pending) > 0

    def on_fact(self, fact: Fact, message: Message) -> None:
        match fact:
            case facts.PermissionRequested(permission=row):
                self._pending.open(row.id, row)
            case facts.PermissionChanged(permission=row) if row.id not in self._called:
                self._resolve(row.id)
                self._pending.open(row.id, row)
            case facts.QuestionAsked(question=row):
                self._pending.open(row.id, message if isinstance(message, Request) else None)
            case facts.PermissionResolved(permission=rows.Permission(id=row_id)):
                self._resolve(row_id)
            case facts.QuestionAnswered(question=rows.Question(id=row_id)):
                self._resolve(row_id)
            case _:
                pass

    def _resolve(self, row_id: str) -> None:
        if (pending := self._pending.get(row_id)) is not None:
            self._pending.withdraw(pending, None)
        self._called.pop(row_id, None)

    def call_pending(self) -> None:
        """Call the program for everything pending that it was not called for yet."""
        for pending in self._pending:
            if pending.key not in self._called and (consult := self._consultation(pending)) is not None:
                self._called[pending.key] = asyncio.get_running_loop().create_task(
                    self._pending.wait(pending, consult), name="dragoman callback"
                )

    def close(self) -> None:
        self._pending.cancel_all(lambda _: None)
        self._called.clear()

    def _consultation(self, pending: PendingRequest[_Pending, None]) -> Callable[[], Coroutine[Any, Any, None]] | None:
        row_id, request = str(pending.key), pending.request
        if isinstance(request, rows.Permission) and (on_permission := self._on_permission) is not None:
            permission = self._make_request(request)
            return lambda: self._ask_permission(row_id, on_permission, permission)
        if isinstance(request, Request) and (on_question := self._on_question) is not None:
            return lambda: self._ask_question(row_id, on_question, request)
        return None

    async def _ask_permission(self, row_id: str, on_permission: OnPermission, request: PermissionRequest) -> None:
        try:
            answer = answer_of(request, await call(on_permission, request))
        except Exception:
            logger.exception("on_permission failed, and %r is denied", request.title)
            answer = request.reject()
        await self._send(self._answer_permission(row_id, answer))

    async def _ask_question(self, row_id: str, on_question: OnQuestion, request: Request) -> None:
        answer = CANCELLED
        try:
            question = self._make_question(request)
            answer = parse_question_answer(question, await call(on_question, question))
        except (Exception, RpcRefusal):
            logger.exception("on_question failed, and the question is cancelled")
        await self._send(self._answer_question(row_id, answer))

    async def _send(self, answering: Awaitable[object]) -> None:
        try:
            await answering
        except DragomanError as error:
            logger.warning("an answer did not reach the server: %s", error)
