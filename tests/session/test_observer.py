"""An observer sees every frame of a connection, in wire order, and the agent is not read while it is full."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from dragoman.errors import AgentCrashed, DragomanError, InvalidFrame
from dragoman.hub.identity import is_alive, this_process
from dragoman.journal.sqlite import MemoryJournal
from dragoman.record import facts
from dragoman.record.fold import Direction
from dragoman.session.journal_client import JournalClient
from dragoman.session.runtime import AgentRuntime
from dragoman.session.session import Session
from dragoman.testing.memory import config, runtime_of
from dragoman.testing.scripted import ReceivedRequest, ScriptedAgent, Turn
from dragoman.wire.messages import Message, Noise, Notification, Oversized, Reply, Request, Update
from session.servers import settled


class Observer:
    """Remembers the frames; full when a test says so."""

    def __init__(self) -> None:
        self.is_full = False
        self.failures: list[DragomanError] = []
        self.frames: list[tuple[Direction, Message, float, Sequence[facts.Fact]]] = []

    def on_frame(self, direction: Direction, message: Message, at: float, changes: Sequence[facts.Fact]) -> None:
        self.frames.append((direction, message, at, changes))

    def on_link_lost(self, failure: DragomanError) -> None:
        self.failures.append(failure)

    def names(self, *directions: Direction) -> list[str]:
        return [_name(message) for direction, message, _, _ in self.frames if direction in directions]


def _name(message: Message) -> str:
    match message:
        case Update(update=update):
            return type(update).__name__
        case Request(method=method) | Notification(method=method):
            return method
        case Reply(method=method):
            return f"answer to {method}"
        case Noise():
            return "noise"
        case Oversized():
            return "oversized"


@asynccontextmanager
async def observed(
    agent: ScriptedAgent, observer: Observer, *, journal: bool
) -> AsyncIterator[tuple[AgentRuntime, Session]]:
    client = None
    if journal:
        store, process = MemoryJournal(), this_process()
        await store.heartbeat(process)
        client = JournalClient(store, process, is_alive)
    async with runtime_of(agent, observer=observer, journal_client=client, line_limit=1_000_000) as runtime:
        yield runtime, await runtime.open_session(config())


async def script(turn: Turn) -> None:
    await turn.say("one")
    await turn.say("two")
    turn.agent.raw(b"not JSON\n")
    turn.agent.notify("_vendor/three", {"sessionId": turn.session_id})
    turn.agent.notify("_vendor/four", {})
    turn.agent.update("another", "agent_message_chunk", content={"type": "text", "text": "five"})
    turn.agent.raw(b'{"method":"' + b"x" * 1_000_000 + b'"}\n')
    await turn.ask_permission(options=[{"optionId": "no", "name": "No", "kind": "reject_once"}])


@pytest.mark.parametrize("journal", [False, True])
async def test_an_observer_sees_each_frame_once_in_wire_order(journal: bool) -> None:
    async def new_session(request: ReceivedRequest) -> object:
        request.agent.update("s", "agent_message_chunk", content={"type": "text", "text": "early"})
        return {"sessionId": "s"}

    observer = Observer()
    async with observed(ScriptedAgent(script, answers={"session/new": new_session}), observer, journal=journal) as (
        _,
        session,
    ):
        await session.run("go")
    assert observer.names("in")[:12] == [
        "answer to initialize",
        "AgentMessageChunk",
        "answer to session/new",
        "AgentMessageChunk",
        "AgentMessageChunk",
        "noise",
        "_vendor/three",
        "_vendor/four",
        "AgentMessageChunk",
        "oversized",
        "session/request_permission",
        "answer to session/prompt",
    ]
    assert observer.names("out")[:4] == [
        "initialize",
        "session/new",
        "session/prompt",
        "answer to session/request_permission",
    ]
    assert observer.names("host").count("_dragoman/prompt") == 1
    assert observer.names("host").count("_dragoman/decision") == 1
    times = [at for _, _, at, _ in observer.frames]
    assert times == sorted(times)


@pytest.mark.parametrize("journal", [False, True])
async def test_an_observer_gets_the_changes_of_each_frame_before_the_run_does(journal: bool) -> None:
    observer = Observer()
    async with observed(ScriptedAgent(script), observer, journal=journal) as (_, session):
        run = session.run("go")
        await run
    texts = [fact.text for *_, changes in observer.frames for fact in changes if isinstance(fact, facts.TextAdded)]
    assert texts == ["one", "two"]
    [requested] = [
        message
        for _, message, _, changes in observer.frames
        if any(isinstance(fact, facts.PermissionRequested) for fact in changes)
    ]
    assert isinstance(requested, Request)
    [ended] = [fact.run.id for *_, changes in observer.frames for fact in changes if isinstance(fact, facts.RunEnded)]
    assert ended == run.id


@pytest.mark.parametrize("journal", [False, True])
async def test_the_agent_is_not_read_while_the_observer_is_full(journal: bool) -> None:
    written = 0

    async def pour(turn: Turn) -> None:
        nonlocal written
        for _ in range(20_000):
            await turn.say("word ")
            written += 1

    modes = {"currentModeId": "a", "availableModes": [{"id": "a", "name": "A"}, {"id": "b", "name": "B"}]}
    agent = ScriptedAgent(pour, session={"modes": modes}, answers={"session/set_mode": {}})
    observer = Observer()
    async with asyncio.timeout(60), observed(agent, observer, journal=journal) as (runtime, session):
        observer.is_full = True
        run = session.run("pour")
        waiting = asyncio.ensure_future(run.result())  # a run that is drained does not count, the observer does
        while not runtime.reader_is_paused:  # noqa: ASYNC110 (it is the only sign of it)
            await asyncio.sleep(0)
        assert await settled(lambda: written) < 10_000
        await session.set_mode("b")  # its answer lies behind what is unread
        observer.is_full = False
        runtime.wake_reader()
        await waiting
        assert written == 20_000


async def test_an_answer_that_names_the_session_of_another_is_seen_and_recorded() -> None:
    observer = Observer()
    agent = ScriptedAgent(answers={"session/new": {"sessionId": "s"}})
    async with observed(agent, observer, journal=True) as (runtime, session):
        with pytest.raises(InvalidFrame, match="no sessionId that is new"):
            await runtime.open_session(session.config)
    assert observer.names("in").count("answer to session/new") == 2


async def test_an_observer_learns_that_the_agent_is_gone_after_its_last_frame() -> None:
    async def crash(turn: Turn) -> None:
        await turn.say("last words")
        turn.crash(3)

    observer = Observer()
    async with observed(ScriptedAgent(crash), observer, journal=True) as (_, session):
        with pytest.raises(AgentCrashed):
            await session.run("go")
        assert observer.names("in")[-1] == "AgentMessageChunk"
        [failure] = observer.failures
        assert isinstance(failure, AgentCrashed)
        assert failure.exit_code == 3
