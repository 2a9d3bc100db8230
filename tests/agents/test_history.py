"""Journaled sessions of real agents, continued by another process or loaded again: nothing lost, nothing twice."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
import pytest

from dragoman import AgentRuntime, PermissionRequest, Session, SessionHandle, events
from dragoman.errors import DragomanError
from dragoman.host.policy.rulebook import RuleSources
from dragoman.hub.identity import is_alive, this_process
from dragoman.journal.maintenance import verify
from dragoman.journal.rows import SessionRows
from dragoman.journal.sqlite import MemoryJournal
from dragoman.session.journal_client import JournalClient
from dragoman.testing.tee import recorded

from .conftest import TIMEOUT_S, Stage

# The first test of an agent may have to install it; one agent looks at the clock's minute.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


class JournaledStage:
    """An agent whose every process keeps what it says in one journal."""

    def __init__(self, stage: Stage, client: JournalClient) -> None:
        self.stage = stage
        self.journal = client.journal
        self.allows = True
        self.lines: list[bytes] = []  # what went over the wire, written down beside the journal
        self._journal_client = client

    @classmethod
    async def of(cls, stage: Stage) -> JournaledStage:
        journal, process = MemoryJournal(), this_process()
        await journal.heartbeat(process)
        return cls(stage, JournalClient(journal, process, is_alive))

    async def _answer(self, request: PermissionRequest) -> bool:
        return self.allows

    @asynccontextmanager
    async def runtime(self) -> AsyncIterator[AgentRuntime]:
        sources = RuleSources(self.stage.home / ".dragoman")
        launch = recorded(self.lines.append)
        async with AgentRuntime(
            self.stage.spec, sources=sources, journal_client=self._journal_client, launch=launch
        ) as runtime:
            if not runtime.capabilities().load:
                pytest.skip(f"{self.stage.agent.id} does not offer loadSession")
            yield runtime

    @asynccontextmanager
    async def session(self) -> AsyncIterator[Session]:
        async with self.runtime() as runtime:
            yield await runtime.open_session(self.stage.config(self._answer))

    async def rows(self, handle: SessionHandle) -> SessionRows:
        assert await verify(self.journal) == []
        return await self.journal.rows(handle.session_id)

    async def differences(self, handle: SessionHandle) -> list[tuple[str, str, str]]:
        [state] = (await self.rows(handle)).session_state
        return [(one.subject, one.recorded, one.replayed) for one in state.differs.differences] if state.differs else []


async def test_every_line_is_kept_in_the_order_of_the_wire(stage: Stage) -> None:
    """Copilot, goose and nanocoder send updates of a session before the answer that names it."""
    async with asyncio.timeout(TIMEOUT_S):
        journaled = await JournaledStage.of(stage)
        async with journaled.session() as session:
            await session.run("[[say:One. Two. Three.]]")
        entries = (await journaled.journal.read(limit=10_000)).entries
        agent_frames = [
            msgspec.json.decode(one.frame) for one in entries if one.origin == "agent" and one.kind != "noise"
        ]
        wire = [msgspec.json.decode(line) for line in journaled.lines]
        assert agent_frames == [line["frame"] for line in wire if line["dir"] == "in"]
        prompted = [one.kind for one in entries].index("session/prompt")
        assert [one for one in entries[:prompted] if one.session_id is None and b'"session/update"' in one.frame] == []


async def until_it_can_be_loaded(stage: Stage) -> None:
    if stage.agent.load_after:  # the agent looks at the clock: there is no event to wait for
        await asyncio.sleep(stage.agent.load_after - time.time() % stage.agent.load_after)


async def a_long_talk(journaled: JournaledStage) -> SessionHandle:
    """Run prompts whose replay differs between agents: thoughts, tools, refusals, cancels, errors, repeats."""
    agent = journaled.stage.agent
    async with journaled.session() as session:
        await session.run("hello [[say:The word is azure.]]")
        await session.run("[[think:Considering.]][[say:Considered.]]")
        await session.run(f"[[say:Doing.]]{agent.run('echo made > made.txt')}[[say:It is done.]]")
        journaled.allows = False
        await session.run(f"[[say:Doing.]]{agent.run('echo made > made.txt')}[[say:It went on.]]")
        run = session.run("[[slow:1000:0.05]]")
        async for event in run:
            if isinstance(event, events.AssistantDelta):
                break
        await run.cancel()
        await session.run("[[begin]][[say:After the cancel.\n\nTwo  paragraphs.]]")
        try:
            await session.run("[[begin]][[http:400]]")
        except DragomanError:
            pass  # others tell of it in words
        for _ in range(2):
            await session.run("[[begin]][[say:The end.]]")
    return session.snapshot()


async def test_a_replayed_session_has_no_duplicates_and_continues(stage: Stage) -> None:
    """Gemini tells most of it after it has answered `session/load`."""
    async with asyncio.timeout(2 * TIMEOUT_S + stage.agent.load_after):
        journaled = await JournaledStage.of(stage)
        handle = await a_long_talk(journaled)
        before = await journaled.rows(handle)
        await until_it_can_be_loaded(stage)
        async with journaled.runtime() as runtime:
            session = await runtime.load_session(handle)
            assert [message.text for message in session.fold.messages] == [one.text for one in before.messages]
            assert (await session.run("[[begin]][[say:Fresh.]]")).text == "Fresh."
        after = await journaled.rows(handle)
        replayed = [
            one.kind for one in (await journaled.journal.read(handle.session_id)).entries if one.origin == "replay"
        ]
        assert {"user_message_chunk", "agent_message_chunk"} <= set(replayed)
        assert after.messages[: len(before.messages)] == before.messages
        new = [(one.kind, one.text) for one in after.messages[len(before.messages) :] if one.kind != "thought"]
        assert new == [("user", "[[begin]][[say:Fresh.]]"), ("assistant", "Fresh.")]
        assert (after.tool_calls, after.plans) == (before.tool_calls, before.plans)
        assert len(after.runs) == len(before.runs) + 1
        assert await journaled.differences(handle) == []


async def test_a_resumed_session_has_no_duplicates(stage: Stage) -> None:
    """Nanocoder tells the history again though it was only to resume."""
    async with asyncio.timeout(2 * TIMEOUT_S):
        journaled = await JournaledStage.of(stage)
        async with journaled.session() as session:
            if not session.capabilities().resume:
                pytest.skip(f"{stage.agent.id} does not offer sessionCapabilities.resume")
            await session.run("[[say:The word is azure.]]")
        handle = session.snapshot()
        async with journaled.runtime() as runtime:
            again = await runtime.resume_session(handle)
            await again.run("[[begin]][[say:Fresh.]]")
        agent_frames = [one.text for one in (await journaled.rows(handle)).messages if one.kind == "assistant"]
        assert agent_frames == ["The word is azure.", "Fresh."]
        assert await journaled.differences(handle) == []


async def test_prompts_sent_elsewhere_are_noticed_when_the_session_is_loaded(stage: Stage) -> None:
    if stage.agent.load_after:
        pytest.skip(f"{stage.agent.id} cannot load a session that it has just made")
    async with asyncio.timeout(3 * TIMEOUT_S):
        journaled = await JournaledStage.of(stage)
        async with journaled.session() as session:
            await session.run("[[say:The word is azure.]]")
        handle = session.snapshot()
        async with stage.runtime() as runtime:
            elsewhere = await runtime.load_session(handle)
            await elsewhere.run("[[begin]][[say:Behind your back.]]")
        async with journaled.runtime() as runtime:
            again = await runtime.load_session(handle)
            replayed = [event async for event in again.run("[[begin]][[say:Fresh.]]")]
        [event] = [event for event in replayed if isinstance(event, events.HistoryDiffers)]
        assert [(one.subject, one.replayed) for one in event.differences] == [("answer", "Behind your back.")]
        assert await journaled.differences(handle) == [("answer", "The word is azure.", "Behind your back.")]
