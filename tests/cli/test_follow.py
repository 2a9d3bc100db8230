"""`Follower`: events and questions share one screen, in order, each once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from dragoman.cli.screen import Follower
from dragoman.record.events import AssistantDelta, Event

from .conftest import TIMEOUT_S


class ScriptedRun:
    """A run whose events a test adds one by one."""

    def __init__(self) -> None:
        self.queue: list[Event] = []
        self.added = asyncio.Event()
        self.done = False

    @property
    def waiting(self) -> bool:
        return bool(self.queue)

    def claim(self) -> None:
        pass

    def say(self, text: str) -> None:
        self.queue.append(AssistantDelta(0.0, "s", "r", None, text, "m"))
        self.added.set()

    def end(self) -> None:
        self.done = True
        self.added.set()

    async def next_events(self) -> list[Event]:
        while not self.queue and not self.done:
            self.added.clear()
            await self.added.wait()
        batch, self.queue = self.queue, []
        return batch


class Screen:
    def __init__(self) -> None:
        self.texts: list[str] = []
        self.shown = asyncio.Event()

    async def show(self, batch: Sequence[Event]) -> None:
        self.texts += [event.text for event in batch if isinstance(event, AssistantDelta)]
        self.shown.set()


async def test_events_before_a_question_are_shown_before_it_and_later_ones_after_it() -> None:
    screen, run = Screen(), ScriptedRun()
    follower = Follower(screen.show)
    async with asyncio.timeout(TIMEOUT_S):
        following = asyncio.create_task(follower.follow(run))
        run.say("one")
        await screen.shown.wait()
        run.say("two")  # in the run's queue when the question comes
        async with follower.floor(run):
            assert screen.texts == ["one", "two"]
            run.say("three")
            screen.shown.clear()
            await asyncio.sleep(0)
            assert screen.texts == ["one", "two"]
            screen.texts.append("question")
        await screen.shown.wait()
        run.end()
        await following
    assert screen.texts == ["one", "two", "question", "three"]


async def test_a_question_of_a_queued_run_waits_until_that_run_is_followed() -> None:
    screen, first, second = Screen(), ScriptedRun(), ScriptedRun()
    follower = Follower(screen.show)

    async def ask() -> None:
        async with follower.floor(second):
            screen.texts.append("question")

    async with asyncio.timeout(TIMEOUT_S):
        following = asyncio.create_task(follower.follow(first))
        second.say("of the second")
        question = asyncio.create_task(ask())
        first.say("of the first")
        first.end()
        await following
        following = asyncio.create_task(follower.follow(second))
        await question
        second.end()
        await following
    assert screen.texts == ["of the first", "of the second", "question"]


async def test_a_question_of_no_run_waits_for_nothing() -> None:
    follower = Follower(Screen().show)
    async with asyncio.timeout(TIMEOUT_S), follower.floor():
        assert not follower.is_free
    assert follower.is_free
