"""Sessions that are kept in a journal, on a scripted agent in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from dragoman.hub.identity import is_alive, this_process
from dragoman.journal.sqlite import MemoryJournal
from dragoman.session.journal_client import JournalClient
from dragoman.session.session import Session
from dragoman.testing.memory import session_of
from dragoman.testing.scripted import ScriptedAgent, Turn


async def journal_client_of(journal: MemoryJournal) -> JournalClient:
    process = this_process()
    await journal.heartbeat(process)
    return JournalClient(journal, process, is_alive)


@asynccontextmanager
async def journaled_session(
    agent: ScriptedAgent | Callable[[Turn], object], journal: MemoryJournal, **settings: object
) -> AsyncIterator[Session]:
    client = await journal_client_of(journal)
    async with session_of(agent, runtime={"journal_client": client}, **settings) as session:  # type: ignore[arg-type]
        yield session
