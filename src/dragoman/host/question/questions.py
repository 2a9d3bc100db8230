"""`Questions`: those of one session, or of a connection outside of sessions, that wait for an answer.

Promised: each question is answered once, by the callback, by `cancel_pending`, by its time limit or by the agent's word
that it is done, whichever is first; what comes after that gains nothing. Questions do not wait for each other. What
goes wrong in the callback cancels, and says so; content that does not fit the form is never sent. `decided` hears who
answered and why before the agent does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import Any, Final, Literal, TypeAlias

import msgspec

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
from dragoman.wire import lenient
from dragoman.wire import vocabulary as acp
from dragoman.wire.messages import Request

By: TypeAlias = Literal["callback", "default", "cancel", "timeout", "agent"]

NOBODY: Final = "nobody to ask: pass on_question=… (command line: run it on a terminal)"

# Pages that were opened and that the agent has not called done. Most never are; the oldest are forgotten.
KEEP_PAGES: Final = 64


class Settled(msgspec.Struct, frozen=True):
    """An answer to a question, who gave it, and why."""

    question: Question
    answer: QuestionAnswer
    by: By
    reason: str


class _Waiting:
    def __init__(self, question: Question) -> None:
        self.question = question
        self.withdrawn: asyncio.Future[tuple[By, str]] = asyncio.get_running_loop().create_future()

    def withdraw(self, by: By, reason: str) -> None:
        if not self.withdrawn.done():
            self.withdrawn.set_result((by, reason))


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
        self._waiting: set[_Waiting] = set()
        self._consulting: set[asyncio.Task[Settled]] = set()  # held: the loop itself holds tasks only weakly
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
            if waiting.question.page is not None and waiting.question.page.id == done:
                waiting.withdraw("agent", "the agent said that the page is done")
                return waiting.question
        return self._pages.pop(done, None)

    def cancel_pending(self, *, rest_of_run: bool = False) -> None:
        """Answer every open question `cancel`, at once; whoever was asked is no longer heard.

        With `rest_of_run` so are the questions that come before `run_ended`.
        """
        self._cancelling = self._cancelling or rest_of_run
        for waiting in list(self._waiting):
            waiting.withdraw("cancel", "the run was cancelled, or has ended, before it was answered")

    def run_ended(self) -> None:
        self._cancelling = False

    async def ask(self, question: Question) -> Settled:
        if question.form.problem is not None:
            return Settled(question, CANCELLED, "default", question.form.problem)
        if self._callback is None:
            return Settled(question, CANCELLED, "default", NOBODY)
        if self._cancelling:
            return Settled(question, CANCELLED, "cancel", "the run is being cancelled")
        waiting = _Waiting(question)
        consulting = asyncio.get_running_loop().create_task(
            _consult(self._callback, question), name=f"dragoman asks: {question.message[:80]}"
        )
        self._waiting.add(waiting)
        self._consulting.add(consulting)
        consulting.add_done_callback(self._consulting.discard)
        try:
            both: set[asyncio.Future[Any]] = {waiting.withdrawn, consulting}
            await asyncio.wait(both, timeout=self._time_limit, return_when=asyncio.FIRST_COMPLETED)
            if waiting.withdrawn.done():
                return Settled(question, CANCELLED, *waiting.withdrawn.result())
            if not consulting.done():
                return Settled(question, CANCELLED, "timeout", f"nobody answered within {self._time_limit:g} s")
            if consulting.cancelled():
                return Settled(question, CANCELLED, "callback", "cancelled: on_question was itself cancelled")
            return consulting.result()
        finally:
            self._waiting.discard(waiting)
            consulting.cancel()

    def _tell(self, settled: Settled) -> None:
        if self._decided is not None:
            self._decided(settled)

    def _opened(self, page_id: str, question: Question) -> None:
        self._pages[page_id] = question
        while len(self._pages) > KEEP_PAGES:
            del self._pages[next(iter(self._pages))]


_DONE: Final = {"accept": "accepted", "decline": "declined", "cancel": "cancelled"}


async def _consult(on_question: OnQuestion, question: Question) -> Settled:
    try:
        reply = await callback.call(on_question, question)
        # On a thread: a pattern of the agent's may take its time.
        answer = await callback.call(lambda given: answer_of(question, given), reply)
    except Exception as problem:
        reason = f"cancelled: on_question failed: {type(problem).__name__}: {problem}"
        return Settled(question, CANCELLED, "callback", reason)
    assert isinstance(answer, QuestionAnswer)
    return Settled(question, answer, "callback", f"on_question {_DONE[answer.action]} it")
