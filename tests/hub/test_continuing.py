"""Every way to continue a session leaves a journal whose rows are those of its frames, whatever the agent answers."""

from __future__ import annotations

import asyncio
from typing import Any, Literal

from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.journal.maintenance import verify
from dragoman.journal.sqlite import MemoryJournal
from dragoman.session.handle import SessionHandle
from dragoman.session.journal_client import JournalClient
from dragoman.testing.memory import config, runtime_of
from dragoman.testing.scripted import Params, ReceivedRequest, ScriptedAgent
from hub.journaled import journal_client_of

Way = Literal["resume", "load", "new"]

MODES = {"currentModeId": "ask", "availableModes": [{"id": "ask", "name": "Ask"}, {"id": "do", "name": "Do"}]}
CAPABILITIES: Params = {"loadSession": True, "sessionCapabilities": {"resume": {}}}

ways: st.SearchStrategy[Way] = st.sampled_from(["resume", "load", "new"])
answers: st.SearchStrategy[Any] = st.sampled_from([None, {}, {"configOptions": []}, {"modes": MODES}])


def agent_with(answer: Any, session_id: str) -> ScriptedAgent:
    """Return an agent that answers every way to open a session so."""

    async def opened(request: ReceivedRequest) -> object:
        return answer

    async def new(request: ReceivedRequest) -> object:
        return {"sessionId": session_id, **(answer or {})}

    by_method = {"session/new": new, "session/load": opened, "session/resume": opened}
    return ScriptedAgent(capabilities=CAPABILITIES, answers=by_method)


async def continue_once(
    journal: MemoryJournal, client: JournalClient, agent: ScriptedAgent, way: Way, handle: SessionHandle | None
) -> SessionHandle:
    async with runtime_of(agent, journal_client=client) as runtime:
        if handle is None or way == "new":
            session = await runtime.open_session(config(), handle.session_id if handle is not None else None)
        elif way == "load":
            session = await runtime.load_session(handle)
        else:
            session = await runtime.resume_session(handle)
        assert await verify(journal) == []
        await session.run("go")
        assert await verify(journal) == []
        return session.snapshot()


@settings(max_examples=50, deadline=None)
@given(first=answers, more=st.lists(st.tuples(ways, answers), max_size=4))
def test_the_journal_verifies_however_a_session_was_continued(first: Any, more: list[tuple[Way, Any]]) -> None:
    async def check() -> None:
        journal = MemoryJournal()
        client = await journal_client_of(journal)
        handle = await continue_once(journal, client, agent_with(first, "agent-0"), "new", None)
        for number, (way, answer) in enumerate(more, start=1):
            agent = agent_with(answer, f"agent-{number}")
            handle = await continue_once(journal, client, agent, way, handle)
            assert await verify(journal) == []

    asyncio.run(check())
