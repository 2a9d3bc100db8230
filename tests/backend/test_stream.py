"""`MessageStream`: messages in order, none lost, and an agent that is not read while too many wait."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from dragoman.backend import BackendAdapter, UnifiedMessage, configuration_change, interrupt, user_message
from dragoman.backend.stream import MessageStream
from dragoman.errors import InputError
from dragoman.session.run import MAX_WAITING_EVENTS, RESUME_READING_EVENTS
from dragoman.testing.scripted import ScriptedAgent, Turn
from session.servers import settled

from .conftest import TIMEOUT_S, connected, scripted, text_of, until

FLOOD = MAX_WAITING_EVENTS + 20_000  # messages: more than wait, and than fit into a pipe


def message(number: int) -> UnifiedMessage:
    return UnifiedMessage(id=str(number), timestamp=0.0, type="unknown", role="system")


async def test_messages_are_read_in_the_order_in_which_they_were_put_and_then_end() -> None:
    stream = MessageStream()
    for number in range(3):
        stream.push(message(number))
    stream.end()
    stream.push(message(3))  # too late: nobody will look at it
    assert [each.id async for each in stream] == ["0", "1", "2"]
    assert [each.id async for each in stream] == []


async def test_a_reader_that_leaves_the_loop_continues_with_the_next_message() -> None:
    stream = MessageStream()
    for number in range(3):
        stream.push(message(number))
    async for each in stream:
        assert each.id == "0"
        break
    assert (await anext(stream)).id == "1"


async def test_a_reader_that_gives_up_loses_nothing() -> None:
    stream = MessageStream()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await anext(stream)
    stream.push(message(0))
    assert (await anext(stream)).id == "0"


async def test_a_second_reader_is_refused() -> None:
    stream = MessageStream()
    first = asyncio.ensure_future(anext(stream))
    await asyncio.sleep(0)
    with pytest.raises(InputError, match="one reader"):
        await anext(stream)
    stream.push(message(0))
    assert (await first).id == "0"


async def test_a_full_stream_has_no_room_until_most_of_it_was_read() -> None:
    calls: list[str] = []
    stream = MessageStream(on_room=lambda: calls.append("room"))
    for number in range(MAX_WAITING_EVENTS + 1):
        assert stream.has_room
        stream.push(message(number))
    rooms = []
    while len(stream) > RESUME_READING_EVENTS:
        rooms.append(stream.has_room)
        await anext(stream)
    assert not any(rooms)
    assert stream.has_room
    assert calls == ["room"]


async def test_a_stream_that_ends_has_room_for_the_agents_last_messages() -> None:
    calls: list[str] = []
    stream = MessageStream(on_room=lambda: calls.append("room"))
    for number in range(MAX_WAITING_EVENTS + 1):
        stream.push(message(number))
    assert not stream.has_room
    stream.end()
    assert (stream.has_room, calls) == (True, ["room"])


# -- with an agent


async def test_an_agent_is_not_read_while_its_messages_are_unread(folder: Path) -> None:
    written = 0

    async def script(turn: Turn) -> None:
        nonlocal written
        for written in range(1, FLOOD + 1):  # noqa: B007 (it is looked at from outside)
            await turn.say("word ")

    async with connected(scripted(script), folder) as session:
        await session.send(user_message("go"))
        await full(session.messages)
        stuck = await settled(lambda: written)
        # Beyond the bound, what one read brings and what fits into the pipe; the agent itself waits with the rest.
        assert MAX_WAITING_EVENTS < stuck < MAX_WAITING_EVENTS + 10_000
        assert MAX_WAITING_EVENTS < len(session.messages) <= stuck + 2
        messages = await until(session, "result")
        assert text_of(messages) == "word " * FLOOD


async def test_a_process_whose_messages_are_unread_loses_none_of_them(demo: BackendAdapter, folder: Path) -> None:
    async with connected(demo, folder) as session:
        await session.send(user_message(f"flood {FLOOD}"))
        await full(session.messages)
        messages = await until(session, "result")
        assert text_of(messages) == "".join(f"drop {number}\n" for number in range(1, FLOOD + 1))


async def test_an_interrupt_is_carried_out_while_messages_are_unread(demo: BackendAdapter, folder: Path) -> None:
    async with connected(demo, folder) as session:
        await session.send(user_message("flood 10000000"))
        await full(session.messages)
        await session.send(interrupt())
        async with asyncio.timeout(TIMEOUT_S):
            while session.status() != "idle":  # noqa: ASYNC110 (there is no event to wait for but the messages themselves)
                await asyncio.sleep(0)
        assert (await until(session, "result"))[-1].metadata["stopReason"] == "cancelled"


async def test_a_configuration_change_is_made_while_messages_are_unread(folder: Path) -> None:
    modes = {"currentModeId": "a", "availableModes": [{"id": "a", "name": "a"}, {"id": "b", "name": "b"}]}
    agent = ScriptedAgent(session={"modes": modes}, answers={"session/set_mode": {}})
    async with connected(scripted(agent), folder) as session:
        while session.messages.has_room:
            agent.update("session-1", "notice", message="unasked")
            await asyncio.sleep(0)  # draining could wait for ever: the last of them fills the stream
        await session.send(configuration_change(mode="b"))
        await session.send(user_message("after the change"))  # sent once its answer was read
        await agent.hears("session/prompt")
        await until(session, "result")


async def test_a_session_is_closed_while_messages_are_unread(demo: BackendAdapter, folder: Path) -> None:
    async with connected(demo, folder) as session:
        await session.send(user_message("flood 10000000"))
        await full(session.messages)


async def test_the_end_of_an_agent_is_noticed_while_messages_are_unread(folder: Path) -> None:
    async def script(turn: Turn) -> object:
        for _ in range(FLOOD):
            await turn.say("word ")
        return await turn.wait_cancelled()

    agent = ScriptedAgent(script)
    async with connected(scripted(agent), folder) as session:
        await session.send(user_message("go"))
        await full(session.messages)
        agent.exit(4)
        async with asyncio.timeout(TIMEOUT_S):
            while session.status() != "error":  # noqa: ASYNC110 (as above)
                await asyncio.sleep(0)
        *_, result, error = [message async for message in session.messages]
        assert (result.metadata["status"], error.metadata["exit_code"]) == ("interrupted", 4)


async def full(stream: MessageStream) -> None:
    """Return when the stream has no room, so that the agent is not read."""
    while stream.has_room:  # noqa: ASYNC110 (it is the only sign of it)
        await asyncio.sleep(0)
