"""Questions that wait: each answered once, by whoever is first."""

from __future__ import annotations

import asyncio
import itertools
import threading
from typing import Any

import msgspec
import pytest

from dragoman.host.question.question import OnQuestion, Question, QuestionAnswer
from dragoman.host.question.questions import MAX_OPEN_PAGES, AnsweredQuestion, Questions
from dragoman.testing.clock import ManualClock
from dragoman.wire.messages import Request

TIMEOUT_S = 20.0
"""Seconds until a test gives up waiting: far more than anything here takes."""

NAME = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 5}}}


class Agent:
    """The agent's side: asks, and remembers what was decided."""

    def __init__(self, on_question: OnQuestion | None, **settings: Any) -> None:
        self.answered: list[AnsweredQuestion] = []
        self.questions = Questions(
            on_question, agent="demo", session_id="s1", on_answered=self.answered.append, **settings
        )
        self._ids = itertools.count(1)

    async def ask(self, **params: Any) -> dict[str, Any]:
        fields = {"mode": "form", "sessionId": "a1", "message": "Who?", "requestedSchema": NAME, **params}
        raw = msgspec.Raw(msgspec.json.encode(fields))
        async with asyncio.timeout(TIMEOUT_S):
            answer = await self.questions.create(Request(next(self._ids), "elicitation/create", raw, b""))
        decoded: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(answer))
        return decoded

    async def ask_page(self, id: str = "e1") -> dict[str, Any]:
        return await self.ask(mode="url", url="https://example.org/", elicitationId=id)

    def complete(self, id: object) -> Question | None:
        return self.questions.complete(msgspec.Raw(msgspec.json.encode({"elicitationId": id})))

    @property
    def last(self) -> tuple[str, str]:
        return self.answered[-1].by, self.answered[-1].reason


async def test_a_coroutine_function_answers() -> None:
    async def on_question(question: Question) -> QuestionAnswer:
        return question.accept({"name": question.agent})

    agent = Agent(on_question)
    assert await agent.ask() == {"action": "accept", "content": {"name": "demo"}}
    assert agent.last == ("callback", "on_question accepted it")
    assert agent.answered[0].question.session_id == "s1"


async def test_a_plain_function_may_wait_for_a_person() -> None:
    loop_went_on = threading.Event()

    def on_question(question: Question) -> bool:
        assert loop_went_on.wait(TIMEOUT_S)
        return False

    agent = Agent(on_question)
    asking = asyncio.create_task(agent.ask())
    await asyncio.sleep(0)
    loop_went_on.set()
    assert await asking == {"action": "decline"}
    assert agent.last == ("callback", "on_question declined it")


async def test_an_answer_of_a_person_is_reported_as_theirs() -> None:
    class Person:
        answers_as = "person"

        async def __call__(self, question: Question) -> bool:
            return False

    agent = Agent(Person())
    assert await agent.ask() == {"action": "decline"}
    assert agent.last == ("person", "a person declined it")


async def test_nobody_to_ask_cancels_since_nobody_said_no() -> None:
    agent = Agent(None)
    assert await agent.ask() == {"action": "cancel"}
    assert agent.last[0] == "default"
    assert "on_question" in agent.last[1]


async def test_a_form_that_cannot_be_answered_is_shown_to_nobody() -> None:
    def on_question(question: Question) -> bool:
        raise AssertionError("it cannot be answered")

    agent = Agent(on_question)
    schema = {"properties": {"x": {"type": "_new"}}, "required": ["x"]}
    assert await agent.ask(requestedSchema=schema) == {"action": "cancel"}
    assert agent.last == ("default", "the form requires fields of an unknown kind: x")


@pytest.mark.parametrize("content", [{"name": "far too long"}, {"name": 5}, {"other": "x"}])
async def test_content_that_does_not_fit_is_never_sent(content: dict[str, object]) -> None:
    agent = Agent(lambda question: content)
    assert await agent.ask() == {"action": "cancel"}
    assert agent.last[0] == "callback"
    assert "on_question failed: InputError: the answer does not fit the form" in agent.last[1]


async def test_an_answer_made_by_hand_is_looked_at_too() -> None:
    agent = Agent(lambda question: QuestionAnswer("accept", {"name": "far too long"}))
    assert await agent.ask() == {"action": "cancel"}


async def test_what_goes_wrong_in_the_callback_cancels_and_says_so() -> None:
    def on_question(question: Question) -> bool:
        raise KeyError("lost")

    agent = Agent(on_question)
    assert await agent.ask() == {"action": "cancel"}
    assert agent.last == ("callback", "cancelled: on_question failed: KeyError: 'lost'")


async def test_questions_do_not_wait_for_each_other() -> None:
    both = asyncio.Barrier(2)

    async def on_question(question: Question) -> dict[str, object]:
        await both.wait()
        return {"name": question.message}

    agent = Agent(on_question)
    async with asyncio.timeout(TIMEOUT_S):
        first, second = await asyncio.gather(agent.ask(message="a"), agent.ask(message="b"))
    assert (first["content"], second["content"]) == ({"name": "a"}, {"name": "b"})


class DelayedAnswer:
    """A callback that is asked, and answers when it is let."""

    def __init__(self) -> None:
        self.was_asked = asyncio.Event()
        self.answer = asyncio.Event()
        self.gave_up = asyncio.Event()

    async def __call__(self, question: Question) -> bool:
        self.was_asked.set()
        try:
            await self.answer.wait()
        except asyncio.CancelledError:
            self.gave_up.set()
            raise
        return True


async def test_cancelling_answers_at_once_and_the_callback_is_no_longer_heard() -> None:
    delayed = DelayedAnswer()
    agent = Agent(delayed)
    asking = asyncio.create_task(agent.ask())
    async with asyncio.timeout(TIMEOUT_S):
        await delayed.was_asked.wait()
        assert agent.questions.pending == 1
        agent.questions.cancel_pending()
        assert await asking == {"action": "cancel"}
        await delayed.gave_up.wait()
    assert agent.last[0] == "cancel"
    assert agent.questions.pending == 0
    assert len(agent.answered) == 1


async def test_a_thread_that_answers_too_late_gains_nothing() -> None:
    was_asked, let = threading.Event(), threading.Event()
    answered = threading.Event()

    def on_question(question: Question) -> bool:
        was_asked.set()
        assert let.wait(TIMEOUT_S)
        answered.set()
        return True

    agent = Agent(on_question)
    asking = asyncio.create_task(agent.ask())
    assert await asyncio.to_thread(was_asked.wait, TIMEOUT_S)
    agent.questions.cancel_pending()
    assert await asking == {"action": "cancel"}
    let.set()
    assert await asyncio.to_thread(answered.wait, TIMEOUT_S)
    assert [settled.by for settled in agent.answered] == ["cancel"]


async def test_questions_during_a_cancel_are_cancelled_until_the_run_has_ended() -> None:
    agent = Agent(lambda question: True)
    agent.questions.cancel_pending(rest_of_run=True)
    assert await agent.ask() == {"action": "cancel"}
    assert agent.last == ("cancel", "the run is being cancelled")
    agent.questions.run_ended()
    assert (await agent.ask())["action"] == "accept"


async def test_a_time_limit_cancels() -> None:
    delayed = DelayedAnswer()
    clock = ManualClock()
    agent = Agent(delayed, time_limit_s=60.0, clock=clock)
    async with asyncio.timeout(TIMEOUT_S):
        outcome = asyncio.create_task(agent.ask())
        await clock.wait_for_timers()
        clock.advance(60.0)
        assert await outcome == {"action": "cancel"}
        assert agent.last == ("timeout", "nobody answered within 1m")
        await delayed.gave_up.wait()


async def test_an_agent_that_takes_its_question_back_ends_the_asking() -> None:
    delayed = DelayedAnswer()
    agent = Agent(delayed)
    asking = asyncio.create_task(agent.ask())
    async with asyncio.timeout(TIMEOUT_S):
        await delayed.was_asked.wait()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await delayed.gave_up.wait()
    assert agent.last[0] == "cancel"
    assert agent.questions.pending == 0


async def test_an_opened_page_is_known_until_the_agent_says_that_it_is_done() -> None:
    agent = Agent(lambda question: True)
    assert await agent.ask_page() == {"action": "accept"}
    done = agent.complete("e1")
    assert done is not None
    assert done.url == "https://example.org/"
    assert agent.complete("e1") is None
    assert agent.complete("other") is None
    assert agent.complete(["bad"]) is None


async def test_a_page_that_was_declined_is_never_done() -> None:
    agent = Agent(lambda question: False)
    assert await agent.ask_page() == {"action": "decline"}
    assert agent.complete("e1") is None


async def test_a_page_that_is_done_before_it_was_answered_is_no_longer_asked_about() -> None:
    delayed = DelayedAnswer()
    agent = Agent(delayed)
    asking = asyncio.create_task(agent.ask_page())
    async with asyncio.timeout(TIMEOUT_S):
        await delayed.was_asked.wait()
        assert agent.complete("e1") is not None
        assert await asking == {"action": "cancel"}
        await delayed.gave_up.wait()
    assert agent.last == ("agent", "the agent said that the page is done")


async def test_pages_that_are_never_done_are_forgotten_in_time() -> None:
    agent = Agent(lambda question: True)
    for number in range(MAX_OPEN_PAGES + 1):
        await agent.ask_page(f"e{number}")
    assert agent.complete("e0") is None
    assert agent.complete("e1") is not None
