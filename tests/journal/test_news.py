"""Who waits for the journal is woken: by this process, by another, and at its end."""

from __future__ import annotations

import asyncio

from dragoman.journal.news import News


async def woken(event: asyncio.Event) -> None:
    async with asyncio.timeout(20):
        await event.wait()
    event.clear()


async def test_a_commit_before_the_first_look_is_not_missed() -> None:
    news = News(look=lambda: 1)
    with news.listening() as event:
        await woken(event)
    news.close()


async def test_a_commit_of_another_process_wakes_all() -> None:
    version = 1
    news = News(look=lambda: version)
    with news.listening() as one, news.listening() as another:
        await woken(one)  # by the first look, which may have been before the other came
        another.clear()
        version = 2
        await woken(one)
        await woken(another)
    news.close()


async def test_a_commit_while_nobody_listened_is_told_to_the_next() -> None:
    version = 1
    news = News(look=lambda: version)
    with news.listening() as event:
        await woken(event)
    version = 2
    with news.listening() as event:
        await woken(event)
    news.close()


async def test_the_end_wakes_all_and_can_be_seen() -> None:
    news = News()
    with news.listening() as event:
        before = news.over
        news.close()
        await woken(event)
        assert (before, news.over) == (False, True)
    news.close()
