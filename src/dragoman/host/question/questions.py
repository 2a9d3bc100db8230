"""`Questions`: those of one session, or of a connection outside of sessions, that wait for an answer.

Promised: each question is answered once, by the callback, by `cancel_pending`, by its time limit or by the agent's word
that it is done, whichever is first; what comes after that gains nothing. Questions do not wait for each other. What
goes wrong in the callback cancels, and says so; content that does not fit the form is never sent. `decided` hears who
answered and why before the agent does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import Final, Literal, TypeAlias

import msgspec

from dragoman.config import format_duration
from dragoman.host import callback
from dragoman.host.question.question import (
    CANCELLED,
    MODES,
    Mode,
    OnQuestion,
    Question,
    QuestionAnswer,
    answer_of,
    read_question,
    response_of,
)
from dragoman.host.waiting import Waiting
from dragoman.wire import lenient
from dragoman.wire import vocabulary as acp
from dragoman.wire.messages import Request

By: TypeAlias = Literal["person", "callback", "default", "cancel", "timeout", "agent"]

NOBODY: Final = "nobody to ask: pass on_question=… (command line: run it on a terminal)"

# Pages that were opened and that the agent has not called done. Most never are; the oldest are forgotten.
KEEP_PAGES: Final = 64


class Settled(msgspec.Struct, frozen=True):
    """An answer to a question, who gave it, and why."""

    question: Question
    answer: QuestionAnswer
    by: By
    reason: str


_Asked: TypeAlias = Waiting[Question, Settled]


class Questions:
    """`time_limit` is in seconds; without one a question waits for as long as its run does."""

    def __init__(
        self,
        on_question: OnQuestion | None,
        *,
        agent: str = "",
        session_id: str | None = None,
        modes: Collection[Mode] = MODES,
        time_limit: float | None = None,
        decided: Callable[[Settled], None] | None = None,
    ) -> None:
        self._callback = on_question
        self._agent = agent
        self._session_id = session_id
        self._modes = modes
        self._time_limit = time_limit
        self._decided = decided
        self._waiting: set[_Asked] = set()
        self._pages: dict[str, Question] = {}
        self._cancelling = False

    @property
    def pending(self) -> int:
        return len(self._waiting)

    async def create(self, request: Request) -> acp.CreateElicitationResponse:
        """`elicitation/create`: the response for the agent; `RpcRefusal` where the request is none."""
        question = read_question(request, agent=self._agent, session_id=self._session_id, modes=self._modes)
        try:
            settled = await self.ask(question)
        except asyncio.CancelledError:
            self._tell(Settled(question, CANCELLED, "cancel", "the agent withdrew it, or the connection ended"))
            raise
        self._tell(settled)
        if question.page is not None and settled.answer.action == "accept":
            self._opened(question.page.id, question)
        return response_of(settled.answer)

    def complete(self, params: msgspec.Raw) -> Question | None:
        """`elicitation/complete`: the page is done. The question that opened it, where there is one.

        One that still waits is answered `cancel`: the person did not say that they opened the page, and the agent no
        longer wants to know.
        """
        try:
            done = lenient.decode(params, acp.CompleteElicitationNotification).elicitation_id
        except msgspec.MsgspecError:
            return None
        for waiting in self._waiting:
            if waiting.asked.page is not None and waiting.asked.page.id == done:
                _withdraw(waiting, "agent", "the agent said that the page is done")
                return waiting.asked
        return self._pages.pop(done, None)

    def cancel_pending(self, *, rest_of_run: bool = False) -> None:
        """Answer every open question `cancel`, at once; whoever was asked is no longer heard.

        With `rest_of_run` so are the questions that come before `run_ended`.
        """
        self._cancelling = self._cancelling or rest_of_run
        for waiting in self._waiting:
            _withdraw(waiting, "cancel", "the run was cancelled, or has ended, before it was answered")

    def run_ended(self) -> None:
        self._cancelling = False

    async def ask(self, question: Question) -> Settled:
        if question.form.problem is not None:
            return Settled(question, CANCELLED, "default", question.form.problem)
        if self._callback is None:
            return Settled(question, CANCELLED, "default", NOBODY)
        if self._cancelling:
            return Settled(question, CANCELLED, "cancel", "the run is being cancelled")
        waiting: _Asked = Waiting(question)
        self._waiting.add(waiting)
        try:
            settled = await waiting.outcome(_consult(self._callback, waiting), self._time_limit)
        finally:
            self._waiting.discard(waiting)
        limit = format_duration(self._time_limit or 0)
        return settled or Settled(question, CANCELLED, "timeout", f"nobody answered within {limit}")

    def _tell(self, settled: Settled) -> None:
        if self._decided is not None:
            self._decided(settled)

    def _opened(self, page_id: str, question: Question) -> None:
        self._pages[page_id] = question
        while len(self._pages) > KEEP_PAGES:
            del self._pages[next(iter(self._pages))]


_DONE: Final = {"accept": "accepted", "decline": "declined", "cancel": "cancelled"}


async def _consult(on_question: OnQuestion, waiting: _Asked) -> None:
    question = waiting.asked
    by: By = getattr(on_question, "answers_as", "callback")
    try:
        reply = await callback.call(on_question, question)
        # On a thread: a pattern of the agent's may take its time.
        answer = await callback.call(lambda given: answer_of(question, given), reply)
        assert isinstance(answer, QuestionAnswer)
        if isinstance(reply, QuestionAnswer) and reply.by is not None:
            by = reply.by
        who = "a person" if by == "person" else "on_question"
        waiting.decide(Settled(question, answer, by, f"{who} {_DONE[answer.action]} it"))
    except asyncio.CancelledError:
        _withdraw(waiting, "callback", "cancelled: on_question was itself cancelled")
        raise
    except Exception as problem:
        _withdraw(waiting, "callback", f"cancelled: on_question failed: {type(problem).__name__}: {problem}")


def _withdraw(waiting: _Asked, by: By, reason: str) -> None:
    waiting.decide(Settled(waiting.asked, CANCELLED, by, reason))
