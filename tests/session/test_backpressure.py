"""An agent is read as fast as the program looks; nothing is lost, and nothing waits for itself."""

from __future__ import annotations

import asyncio
import itertools

from dragoman.journal.scheduler import scheduler_of_loop
from dragoman.journal.sqlite import MemoryJournal
from dragoman.record import events
from dragoman.session.router import MAX_NOISE_LINES
from dragoman.session.run import MAX_WAITING_EVENTS
from dragoman.session.runtime import AgentRuntime
from dragoman.session.session import Session
from dragoman.testing.memory import config, runtime_of, session_of
from dragoman.testing.scripted import ScriptedAgent, Turn
from dragoman.wire import transport
from hub.journaled import journaled_session

TOTAL = 4 * MAX_WAITING_EVENTS

MODES = {"currentModeId": "ask", "availableModes": [{"id": "ask", "name": "Ask"}, {"id": "do", "name": "Do"}]}


class Fountain:
    """Pours words as long as they are taken; `poured` is how many were."""

    def __init__(self, total: int = TOTAL) -> None:
        self.total = total
        self.poured = 0
        self.agent = ScriptedAgent(self.script, session={"modes": MODES}, answers={"session/set_mode": {}})

    async def script(self, turn: Turn) -> None:
        if turn.text != "pour":
            await turn.say(turn.text)
            return
        for number in range(self.total):
            await turn.say(f"{number} ")
            self.poured += 1


async def stalled(fountain: Fountain) -> int:
    """Return the number of bytes that it has poured once it pours no more: many passes of the loop without another."""
    still = 0
    while still < 100:
        before = fountain.poured
        await asyncio.sleep(0)
        still = still + 1 if fountain.poured == before else 0
    return fountain.poured


def texts(session: Session) -> str:
    return "".join(message.text for message in session.fold.messages if message.kind == "assistant")


ALL = "".join(f"{number} " for number in range(TOTAL))


async def test_the_agent_is_not_read_while_the_program_is_slow_and_nothing_is_lost() -> None:
    fountain = Fountain()
    async with session_of(fountain.agent) as session:
        run = session.run("pour")
        poured = await stalled(fountain)
        # A batch of bytes beyond the mark, and a pipe full of them unread: far from all.
        batch = transport.HIGH_WATER_BYTES // 100
        assert MAX_WAITING_EVENTS < poured < MAX_WAITING_EVENTS + 4 * batch
        chunks = [event.text async for event in run if isinstance(event, events.AssistantDelta)]
        assert "".join(chunks) == ALL


async def test_reading_goes_on_before_the_queue_is_empty() -> None:
    fountain = Fountain()
    async with session_of(fountain.agent) as session:
        run = session.run("pour")
        before = await stalled(fountain)
        taken = 0
        async for _ in run:
            taken += 1
            if taken == MAX_WAITING_EVENTS - 10:
                break
        assert await stalled(fountain) > before


async def test_awaiting_a_run_drains_it_and_keeps_no_events() -> None:
    fountain = Fountain()
    async with session_of(fountain.agent) as session:
        run = session.run("pour")
        waiting = asyncio.ensure_future(run.result())
        most = 0
        while not waiting.done():
            await asyncio.sleep(0)
            most = max(most, len(run._queue))
        assert (await waiting).text == ALL
        assert most <= 1  # what came before it was awaited


async def test_leaving_the_loop_early_drains_the_rest() -> None:
    fountain = Fountain()
    async with session_of(fountain.agent) as session:
        run = session.run("pour")
        async for event in run:
            if isinstance(event, events.AssistantDelta):
                break
        assert (await run).text == ALL


async def test_another_request_on_the_same_link_does_not_wait_for_the_loop_it_is_made_in() -> None:
    fountain = Fountain()
    async with session_of(fountain.agent) as session:
        run = session.run("pour")
        await stalled(fountain)
        chunks: list[str] = []
        async for event in run:
            if isinstance(event, events.AssistantDelta):
                if not chunks:
                    await session.set_mode("do")
                chunks.append(event.text)
        assert "".join(chunks) == ALL
        assert session.snapshot().mode == "do"


async def _inside(runtime: AgentRuntime, fountain: Fountain) -> str:
    pouring, other = await runtime.open_session(config()), await runtime.open_session(config())
    run = pouring.run("pour")
    await stalled(fountain)
    chunks: list[str] = []
    async for event in run:
        if isinstance(event, events.AssistantDelta):
            if not chunks:
                assert (await other.run("hello")).text == "hello"
                seen_events = [inner.type async for inner in other.run("hello")]
                assert seen_events[-1] == "run.completed"
                third = await runtime.open_session(config())
                await third.close()
            chunks.append(event.text)
    return "".join(chunks)


async def test_a_run_of_another_session_inside_the_loop_does_not_wait_either() -> None:
    fountain = Fountain()
    async with runtime_of(fountain.agent) as runtime:
        assert await _inside(runtime, fountain) == ALL


async def test_a_stalled_run_can_be_cancelled() -> None:
    fountain = Fountain(10**9)

    async def script(turn: Turn) -> object:
        for number in itertools.count():
            await turn.say(f"{number} ")
            if turn.cancelled.is_set():
                return "cancelled"
            fountain.poured += 1
        return None

    async with session_of(script) as session:
        run = session.run("pour")
        await stalled(fountain)
        await run.cancel()
        assert (await run).status == "cancelled"


async def test_a_stalled_run_does_not_hold_up_closing() -> None:
    fountain = Fountain()
    async with session_of(fountain.agent) as session:
        run = session.run("pour")
        await stalled(fountain)
    assert run.done
    assert ALL.startswith(texts(session)[:1000])


class NoisyFountain(Fountain):
    """Pours lines that are no messages, once so many were recorded that these are not; each fills a pipe."""

    def __init__(self) -> None:
        super().__init__(total=20)
        self.may_pour = asyncio.Event()

    async def script(self, turn: Turn) -> None:
        self.agent.raw(b"noise\n" * (MAX_NOISE_LINES + 1))
        await turn.say("now")
        await self.may_pour.wait()
        for _ in range(self.total):
            self.agent.raw(b"noise" * transport.HIGH_WATER_BYTES + b"\n")
            await self.agent.connection.drain()
            self.poured += 1


async def test_lines_that_are_not_recorded_wait_while_another_connection_commits() -> None:
    fountain = NoisyFountain()
    async with MemoryJournal() as journal, journaled_session(fountain.agent, journal) as session:
        run = session.run("go")
        async for event in run:
            if isinstance(event, events.AssistantDelta):
                break
        with scheduler_of_loop().committing(1):
            fountain.may_pour.set()
            assert await stalled(fountain) < fountain.total
        assert (await run).text == "now"
        assert fountain.poured == fountain.total
