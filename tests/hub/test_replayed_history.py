"""Histories that an agent repeats when a session is continued: they add nothing, and a difference is reported."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from dragoman.journal.maintenance import verify
from dragoman.journal.sqlite import MemoryJournal
from dragoman.record import events
from dragoman.session.handle import SessionHandle
from dragoman.session.journal_client import JournalClient
from dragoman.testing.memory import config, runtime_of
from dragoman.testing.scripted import Answer, Params, ReceivedRequest, ScriptedAgent
from hub.journaled import journal_client_of

SAME = [("user", "go"), ("agent", "Hel"), ("agent", "lo.")]
OTHER = [*SAME, ("user", "and elsewhere"), ("agent", "I was there.")]


def retelling(method: str, history: Sequence[tuple[str, str]]) -> ScriptedAgent:
    """Return an agent that repeats this history when a session is continued."""

    async def repeat(request: ReceivedRequest) -> object:
        for who, text in history:
            content = {"type": "text", "text": text}
            request.agent.update(request.session_id, f"{who}_message_chunk", content=content)
        return {}

    answers: dict[str, Answer] = {method: repeat}
    offered: Params = {"loadSession": True} if method == "session/load" else {"sessionCapabilities": {"resume": {}}}
    return ScriptedAgent(capabilities=offered, answers=answers)


async def begun(client: JournalClient) -> SessionHandle:
    async with runtime_of(ScriptedAgent(), journal_client=client) as runtime:
        session = await runtime.open_session(config())
        await session.run("go")
        return session.snapshot()


@pytest.mark.parametrize("method", ["session/load", "session/resume"])
async def test_an_unchanged_history_adds_nothing_and_is_not_reported(method: str) -> None:
    journal = MemoryJournal()
    client = await journal_client_of(journal)
    handle = await begun(client)
    before = await journal.rows(handle.session_id)
    async with runtime_of(retelling(method, SAME), journal_client=client) as runtime:
        session = await runtime.resume_session(handle)
        seen_events = [event async for event in session.run("go on")]
    after = await journal.rows(handle.session_id)
    assert after.messages[: len(before.messages)] == before.messages
    assert [one.text for one in after.messages[len(before.messages) :]] == ["go on", "Hello."]
    assert [event for event in seen_events if isinstance(event, events.HistoryDiffers)] == []
    assert await verify(journal) == []


@pytest.mark.parametrize("method", ["session/load", "session/resume"])
async def test_a_history_that_differs_is_reported_in_the_next_run_and_stored(method: str) -> None:
    journal = MemoryJournal()
    client = await journal_client_of(journal)
    handle = await begun(client)
    async with runtime_of(retelling(method, OTHER), journal_client=client) as runtime:
        session = await runtime.resume_session(handle)
        seen_events = [event async for event in session.run("go on")]
        again = [event async for event in session.run("once more")]
    assert isinstance(seen_events[0], events.RunStarted)
    [event] = [event for event in seen_events if isinstance(event, events.HistoryDiffers)]
    assert (event.count, [(one.subject, one.replayed) for one in event.differences]) == (
        1,
        [("answer", "I was there.")],
    )
    assert b'"history.differs"' in events.to_json(event)
    assert not any(isinstance(event, events.HistoryDiffers) for event in again)
    rows = await journal.rows(handle.session_id)
    assert [one.text for one in rows.messages if one.kind == "assistant"] == ["Hello."] * 3
    assert [state.differs.differences for state in rows.session_state if state.differs] == [event.differences]
    assert await verify(journal) == []


async def test_a_difference_is_stored_also_if_no_prompt_follows() -> None:
    journal = MemoryJournal()
    client = await journal_client_of(journal)
    handle = await begun(client)
    async with runtime_of(retelling("session/load", OTHER), journal_client=client) as runtime:
        await runtime.load_session(handle)
    [state] = (await journal.rows(handle.session_id)).session_state
    assert state.differs is not None


@pytest.mark.parametrize(("method", "forgotten"), [("session/load", ["go"]), ("session/resume", [])])
async def test_an_agent_that_replays_nothing_on_load_has_forgotten_the_history(
    method: str, forgotten: list[str]
) -> None:
    journal = MemoryJournal()
    client = await journal_client_of(journal)
    handle = await begun(client)
    async with runtime_of(retelling(method, []), journal_client=client) as runtime:
        session = await runtime.resume_session(handle)
        seen_events = [event async for event in session.run("go on")]
    found = [
        one.recorded for event in seen_events if isinstance(event, events.HistoryDiffers) for one in event.differences
    ]
    assert found == forgotten


async def test_a_session_that_is_new_here_has_the_history_and_no_difference() -> None:
    elsewhere, journal = MemoryJournal(), MemoryJournal()
    handle = await begun(await journal_client_of(elsewhere))
    async with runtime_of(retelling("session/load", OTHER), journal_client=await journal_client_of(journal)) as runtime:
        session = await runtime.load_session(handle)
        seen_events = [event async for event in session.run("go on")]
    assert not any(isinstance(event, events.HistoryDiffers) for event in seen_events)
    texts = [one.text for one in (await journal.rows(handle.session_id)).messages]
    assert texts == ["go", "Hello.", "and elsewhere", "I was there.", "go on", "Hello."]
