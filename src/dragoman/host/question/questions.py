"""`Questions`: the agent's questions of one session, or of a connection outside of sessions, until they are answered.

Promised: each question is answered once, by the first of: the callback, `answer`, `cancel_pending`, its time limit, the
agent's own word that its page is done; a later answer is reported as such and changes nothing. Questions do not wait
for each other. An exception in the callback cancels, and says so; content that does not fit the form is never sent.
`on_answered` hears who answered and why before the agent does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import Final, Literal, TypeAlias

import msgspec

from dragoman.clock import SYSTEM_CLOCK, Clock
from dragoman.config import format_duration
from dragoman.host.pending import PendingRequest, PendingRequests, call
from dragoman.host.permission import answer_later
from dragoman.host.question.question import (
    CANCELLED,
    MODES,
    Mode,
    OnQuestion,
    Question,
    QuestionAnswer,
    encode_answer,
    parse_answer,
    read_question,
)
from dragoman.wire import lenient
from dragoman.wire import vocabulary as acp
from dragoman.wire.messages import Request, RequestId

By: TypeAlias = Literal["person", "callback", "default", "cancel", "timeout", "agent"]

NOBODY_TO_ASK: Final = "nobody to ask: pass on_question=… (command line: run it on a terminal)"

# Pages that a person opened and that the agent has not called done. Most never are; the oldest are forgotten.
MAX_OPEN_PAGES: Final = 64


class AnsweredQuestion(msgspec.Struct, frozen=True):
    """A question with its answer, who gave it, and why."""

    question: Question
    answer: QuestionAnswer
    by: By
    reason: str


_Pending: TypeAlias = PendingRequest[Question, AnsweredQuestion]


class Questions:
    """`time_limit_s` is seconds; without one a question waits for as long as its run does."""

    def __init__(
        self,
        on_question: OnQuestion | None,
        *,
        agent: str = "",
        session_id: str | None = None,
        modes: Collection[Mode] = MODES,
        time_limit_s: float | None = None,
        on_answered: Callable[[AnsweredQuestion], None] | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._on_question = on_question
        self._agent = agent
        self._session_id = session_id
        self._modes = modes
        self._on_answered = on_answered
        self._pending: PendingRequests[Question, AnsweredQuestion] = PendingRequests(
            time_limit_s=time_limit_s, clock=clock
        )
        self._open_pages: dict[str, Question] = {}
        self._cancelling = False

    @property
    def pending(self) -> int:
        """The number of questions without an answer."""
        return len(self._pending)

    async def create(self, request: Request) -> acp.CreateElicitationResponse:
        """Serve `elicitation/create`. Returns the response for the agent; `RpcRefusal` where the request is none."""
        question = read_question(request, agent=self._agent, session_id=self._session_id, modes=self._modes)
        try:
            answered = await self.ask(question)
        except asyncio.CancelledError:
            self._report(_cancelled(question, "cancel", "the agent withdrew it, or the connection ended"))
            raise
        self._report(answered)
        if question.page is not None and answered.answer.action == "accept":
            self._page_opened(question.page.id, question)
        return encode_answer(answered.answer)

    def complete(self, params: msgspec.Raw) -> Question | None:
        """Take `elicitation/complete`: the page is done. Returns the question that opened it, where there is one.

        A question that still waits is answered `cancel`: the person did not say that they opened the page, and the
        agent no longer wants to know.
        """
        try:
            page_id = lenient.decode(params, acp.CompleteElicitationNotification).elicitation_id
        except msgspec.MsgspecError:
            return None
        for pending in self._pending:
            question = pending.request
            if question.page is not None and question.page.id == page_id:
                pending.decide(_cancelled(question, "agent", "the agent said that the page is done"))
                return question
        return self._open_pages.pop(page_id, None)

    def get(self, request_id: RequestId) -> Question | None:
        """Return the question that waits under the id of the agent's request."""
        pending = self._pending.get(request_id)
        return pending.request if pending is not None else None

    def answer(self, request_id: RequestId, answer: QuestionAnswer) -> bool:
        """Answer a question from elsewhere than `on_question`. False: it has its answer, or was withdrawn."""
        pending = self._pending.get(request_id)
        return pending is not None and pending.decide(_answered(pending.request, answer, answer.by or "person"))

    def cancel_pending(self, *, rest_of_run: bool = False) -> None:
        """Answer every open question `cancel`, at once; with `rest_of_run` also those that come before `run_ended`."""
        self._cancelling = self._cancelling or rest_of_run
        reason = "the run was cancelled, or has ended, before it was answered"
        self._pending.cancel_all(lambda question: _cancelled(question, "cancel", reason))

    def run_ended(self) -> None:
        self._cancelling = False

    async def ask(self, question: Question) -> AnsweredQuestion:
        if question.form.error is not None:
            return _cancelled(question, "default", question.form.error)
        if self._on_question is None:
            return _cancelled(question, "default", NOBODY_TO_ASK)
        if self._cancelling:
            return _cancelled(question, "cancel", "the run is being cancelled")
        pending = self._pending.open(question.request_id, question)
        on_question = self._on_question
        answered = await self._pending.wait(pending, lambda: _consult(on_question, pending))
        if answered is not None:
            return answered
        limit = format_duration(self._pending.time_limit_s or 0)
        return _cancelled(question, "timeout", f"nobody answered within {limit}")

    def _report(self, answered: AnsweredQuestion) -> None:
        if self._on_answered is not None:
            self._on_answered(answered)

    def _page_opened(self, page_id: str, question: Question) -> None:
        self._open_pages[page_id] = question
        while len(self._open_pages) > MAX_OPEN_PAGES:
            del self._open_pages[next(iter(self._open_pages))]


_ACTIONS: Final = {"accept": "accepted", "decline": "declined", "cancel": "cancelled"}


async def _consult(on_question: OnQuestion, pending: _Pending) -> None:
    if on_question is answer_later:
        return
    question = pending.request
    by: By = getattr(on_question, "answers_as", "callback")
    try:
        reply = await call(on_question, question)
        # On a thread: a pattern of the agent's may take its time.
        answer = await call(lambda reply: parse_answer(question, reply), reply)
        assert isinstance(answer, QuestionAnswer)
        if isinstance(reply, QuestionAnswer) and reply.by is not None:
            by = reply.by
        pending.decide(_answered(question, answer, by))
    except asyncio.CancelledError:
        pending.decide(_cancelled(question, "callback", "cancelled: on_question was itself cancelled"))
        raise
    except Exception as error:
        reason = f"cancelled: on_question failed: {type(error).__name__}: {error}"
        pending.decide(_cancelled(question, "callback", reason))


def _answered(question: Question, answer: QuestionAnswer, by: By) -> AnsweredQuestion:
    actor = "a person" if by == "person" else "on_question"
    return AnsweredQuestion(question, answer, by, f"{actor} {_ACTIONS[answer.action]} it")


def _cancelled(question: Question, by: By, reason: str) -> AnsweredQuestion:
    return AnsweredQuestion(question, CANCELLED, by, reason)
