"""A session that a client began and sent no prompt to leaves no entry in the journal."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace

from dragoman.hub.hub import Hub
from dragoman.journal import notes as journal_notes
from dragoman.protocol import requests
from dragoman.session.options import SessionConfig
from dragoman.testing.memory import TIMEOUT_S
from dragoman.workspace import Workspace

NewHub = Callable[[], Hub]


def config(folder: Path) -> SessionConfig:
    return SessionConfig(workspace=Workspace(folder))


async def stored(hub: Hub) -> set[str]:
    return {session.id for session in await hub.sessions()}


async def prompted(hub: Hub, session_id: str) -> None:
    """Send a prompt and wait for the end of its run."""
    await hub.command(requests.SessionPrompt(command_id=f"prompt {session_id}", session_id=session_id, text="hello"))
    session = hub.owned_sessions[session_id].session
    assert session is not None
    if session.active is not None:
        await session.active.ended_within(None)


async def test_a_session_that_is_closed_without_a_prompt_is_removed(new_hub: NewHub, tmp_path: Path) -> None:
    async with asyncio.timeout(TIMEOUT_S), new_hub() as hub:
        empty = await hub.start_session("demo", config(tmp_path))
        used = await hub.start_session("demo", config(tmp_path))
        named = await hub.start_session("demo", config(tmp_path))
        await prompted(hub, used.id)
        fork = await hub.fork_session(used.id)
        assert named.session is not None
        await named.session.record_note(journal_notes.write(journal_notes.SessionRenamed(title="For tomorrow")))
        for session_id in (empty.id, used.id, named.id, fork.id):
            await hub.close_session(session_id)
        assert await stored(hub) == {used.id, named.id}


async def test_the_end_of_the_hub_removes_them_as_well(new_hub: NewHub, tmp_path: Path) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        async with new_hub() as hub:
            await hub.start_session("demo", config(tmp_path))
            used = await hub.start_session("demo", config(tmp_path))
            await prompted(hub, used.id)
            await hub.fork_session(used.id)
            async with hub.open_session("demo", cwd=tmp_path) as of_a_program:
                pass  # a program may have kept its handle
        async with new_hub() as hub:
            assert await stored(hub) == {used.id, of_a_program.id}


async def test_a_session_that_a_client_looks_at_stays_until_it_goes(new_hub: NewHub, tmp_path: Path) -> None:
    async with asyncio.timeout(TIMEOUT_S), new_hub() as hub:
        owned = await hub.start_session("demo", config(tmp_path))
        followed = {owned.id}
        hub.is_followed = followed.__contains__
        await hub.close_session(owned.id)
        assert await stored(hub) == {owned.id}
        removed = asyncio.Event()
        hub.journal.on_commit(lambda cursor, entries, changes: removed.set())
        followed.clear()
        hub.on_unfollowed(owned.id)
        await removed.wait()
        assert await stored(hub) == set()


async def test_prompts_that_wait_keep_their_session(new_hub: NewHub, tmp_path: Path) -> None:
    async with asyncio.timeout(TIMEOUT_S), new_hub() as hub:
        is_opening = asyncio.Event()
        hub.on_change = lambda session_id: is_opening.set()
        opening = asyncio.create_task(hub.start_session("demo", config(tmp_path), "waiting"))
        await is_opening.wait()
        prompt = requests.SessionPrompt(session_id="waiting", text="hello")
        outcome = await hub.command(replace(prompt, command_id="c1"))
        assert outcome.how == "queued"
        await hub.close_session("waiting")
        await asyncio.wait([opening])
        assert [command.id for command in await hub.journal.pending_commands("waiting")] == ["c1"]
