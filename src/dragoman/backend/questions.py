"""`Questions`: permission requests that wait for the front end's answer.

Promised: an answer reaches the very request it was given for, and at most once. One that came too late, because the
request was decided, withdrawn or cancelled meanwhile, gains nothing, and whoever gave it is told.
"""

from __future__ import annotations

import asyncio

import msgspec

from dragoman.backend.actions import PermissionAnswer, answer_to
from dragoman.errors import REQUEST_CANCELLED, InputError
from dragoman.host.permission import Answer, PermissionRequest
from dragoman.wire.messages import Reply, RequestId


class Question:
    def __init__(self, request: PermissionRequest) -> None:
        self.request = request
        self.answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self.answered_by: str | None = None  # the id of the message that did


class Questions:
    """By our own ids, which are used once; and by those of the agent's requests, while they are open."""

    def __init__(self) -> None:
        self._open: dict[str, Question] = {}
        self._ids: dict[RequestId, str] = {}

    @property
    def any_open(self) -> bool:
        """Someone is waited for."""
        return any(not question.answer.done() for question in self._open.values())

    def add(self, question_id: str, request: PermissionRequest, request_id: RequestId) -> Question:
        question = self._open[question_id] = Question(request)
        self._ids[request_id] = question_id
        return question

    def find(self, request_id: RequestId | None) -> Question | None:
        """The open question about this request of the agent's."""
        return self._open.get(self._ids.get(request_id, "")) if request_id is not None else None

    def take(self, given: PermissionAnswer, message_id: str) -> None:
        """An answer of the front end's. Raises `InputError` where it answers nothing, and the question stays open."""
        question = self._open.get(given.request_id)
        if question is None or question.answer.done():  # answered, or withdrawn from whoever waited for it
            raise too_late(given.request_id)
        answer = answer_to(question.request, given)
        question.answered_by = message_id
        question.answer.set_result(answer)

    def settled(self, reply: Reply) -> tuple[str, str] | None:
        """The agent has its answer. The question's id and the message that answered it in vain, where one did."""
        question_id = self._ids.pop(reply.id, None)
        if question_id is None:
            return None
        question = self._open.pop(question_id)
        if question.answered_by is None or _heeded(reply, question.answer.result()):
            return None
        return question_id, question.answered_by


class _Outcome(msgspec.Struct, frozen=True, rename="camel"):
    outcome: str = ""
    option_id: str | None = None


class _Decided(msgspec.Struct, frozen=True):
    outcome: _Outcome = _Outcome()


def _heeded(reply: Reply, answer: Answer) -> bool:
    """Whether the agent was told what the front end said."""
    if reply.error is not None:  # of a file or a command: refused as told, or withdrawn before
        return reply.error.code != REQUEST_CANCELLED
    try:
        told = msgspec.json.decode(reply.result, type=_Decided).outcome
    except msgspec.MsgspecError:
        return True
    return told.outcome in ("", answer.outcome) and told.option_id in (None, answer.option_id)


def too_late(question_id: str) -> InputError:
    return InputError(
        f"no permission request {question_id!r} is open: it was answered or withdrawn, or there never was one",
        guidance="Answer each permission_request once, by its request_id, before its run ends.",
    )
