"""G1: updates of a session are seen in the order of the wire, all of them before their run completes."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from dragoman.journal.sqlite import MemoryJournal
from dragoman.record import events
from dragoman.record.events import Event
from dragoman.testing.memory import config, runtime_of, session_of
from dragoman.testing.scripted import ReceivedRequest, ScriptedAgent, Turn
from hub.journaled import journal_client_of


async def test_all_updates_before_the_answer_are_seen_before_the_end() -> None:
    async def script(turn: Turn) -> None:
        for number in range(1000):
            await turn.say(f"{number} ")

    async with session_of(script) as session:
        seen_events = [event async for event in session.run("go")]
        assert [event.text for event in seen_events if isinstance(event, events.AssistantDelta)] == [
            f"{number} " for number in range(1000)
        ]
        assert isinstance(seen_events[-1], events.RunCompleted)
        assert seen_events[-1].text == "".join(f"{number} " for number in range(1000))


def text_chunk(text: str, **fields: object) -> tuple[str, dict[str, object]]:
    return "agent_message_chunk", {"content": {"type": "text", "text": text}, **fields}


MIXED_UPDATES: list[tuple[str, dict[str, object]]] = [
    *(text_chunk(f"{number} ") for number in range(5)),
    ("agent_thought_chunk", {"content": {"type": "text", "text": "hm"}}),
    *(text_chunk(f"{name} ", messageId="a") for name in ("a1", "a2")),
    *(text_chunk(f"{name} ", messageId="b") for name in ("b1", "b2")),
    ("agent_message_chunk", {"content": {"type": "image", "data": "aGk=", "mimeType": "image/png"}}),
    text_chunk("after the image"),
    ("tool_call", {"toolCallId": "t", "title": "read", "status": "completed"}),
    text_chunk("last"),
    ("no_such_update", {"content": 3}),
]


async def test_updates_that_come_together_give_the_same_events_as_one_by_one() -> None:
    async def prompt(request: ReceivedRequest) -> object:
        lines = []
        for kind, fields in MIXED_UPDATES:
            update = {"sessionUpdate": kind, **fields}
            # The other session's updates stand between those of this one.
            lines += [update_line(request.session_id, update) for _ in range(3)]
            lines += [update_line(f"{request.session_id}-stray", update)]
        agent.raw(b"".join(lines))
        return {"stopReason": "end_turn"}

    def update_line(session_id: str, update: dict[str, object]) -> bytes:
        params = {"sessionId": session_id, "update": update}
        return msgspec.json.encode({"jsonrpc": "2.0", "method": "session/update", "params": params}) + b"\n"

    def shown(event: Event) -> tuple[object, ...]:
        return event.type, event.raw, getattr(event, "text", None), getattr(event, "message_id", None)

    agent = ScriptedAgent(answers={"session/prompt": prompt})
    beats: list[None] = []
    async with runtime_of(agent) as runtime:
        together, one_by_one = [await runtime.open_session(config()) for _ in range(2)]
        batched = [event async for event in together.run("go")]
        # The heartbeat is called for every update, so that each is taken alone.
        single = [event async for event in one_by_one.run("go", heartbeat=lambda: beats.append(None))]
    assert len(beats) == 3 * len(MIXED_UPDATES)
    assert together.frames == one_by_one.frames
    assert [shown(event) for event in batched[1:]] == [shown(event) for event in single[1:]]
    assert "".join(event.text for event in batched if isinstance(event, events.AssistantDelta)).startswith("0 0 0 1 1 ")


async def test_a_result_has_every_update_that_came_in_the_same_bytes_as_the_answer() -> None:
    async def script(turn: Turn) -> None:
        turn.agent.update(turn.session_id, "agent_message_chunk", content={"type": "text", "text": "last word"})

    async with session_of(script) as session:
        assert (await session.run("go")).text == "last word"


async def test_updates_after_end_turn_belong_to_the_session() -> None:
    between: asyncio.Queue[Event] = asyncio.Queue()

    def hear(event: Event) -> None:
        if event.run_id is None:
            between.put_nowait(event)

    async def script(turn: Turn) -> None:
        await turn.say("hi")
        loop = asyncio.get_running_loop()
        for delay in (1, 2):  # in the turn of the answer, and in one after it

            def later(left: int = delay) -> None:
                if left:
                    loop.call_soon(later, left - 1)
                else:
                    turn.agent.update(turn.session_id, "session_info_update", title="A title")

            later()

    async with session_of(script, on_event=hear) as session:
        seen_events = [event async for event in session.run("go")]
        late = await between.get()
        assert isinstance(late, events.ProviderEvent)
        assert (late.kind, late.session_id) == ("session_info_update", session.id)
        assert isinstance(seen_events[-1], events.RunCompleted)
        assert session.fold.title == "A title"


@pytest.mark.parametrize("is_journaled", [False, True], ids=["without journal", "with journal"])
async def test_updates_in_the_same_bytes_after_the_answer_do_not_belong_to_the_next_run(is_journaled: bool) -> None:
    heard: list[Event] = []

    async def prompt(request: ReceivedRequest) -> object:
        agent.update(request.session_id, "agent_message_chunk", content={"type": "text", "text": "in time"})
        if request.params["prompt"][0]["text"] == "two":
            return {"stopReason": "end_turn"}
        late = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "too late"}}
        lines = [
            {"jsonrpc": "2.0", "id": request.id, "result": {"stopReason": "end_turn"}},
            {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": request.session_id, "update": late}},
        ]
        agent.raw(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
        return await asyncio.Event().wait()

    agent = ScriptedAgent(answers={"session/prompt": prompt})
    runtime = {"journal_client": await journal_client_of(MemoryJournal())} if is_journaled else {}
    async with session_of(agent, runtime=runtime, on_event=heard.append) as session:
        first, second = session.run("one"), session.run("two")
        assert [(await run).text for run in (first, second)] == ["in time", "in time"]
        [late] = [event for event in heard if isinstance(event, events.AssistantDelta) and event.text == "too late"]
        assert late.run_id is None


@pytest.mark.parametrize("is_journaled", [False, True], ids=["without journal", "with journal"])
async def test_a_message_that_is_open_when_a_prompt_is_sent_ends_before_its_run(is_journaled: bool) -> None:
    heard: list[Event] = []

    async def new(request: ReceivedRequest) -> object:
        agent.update("early", "agent_message_chunk", content={"type": "text", "text": "Welcome."})
        return {"sessionId": "early"}

    async def script(turn: Turn) -> None:
        await turn.say("hi")

    agent = ScriptedAgent(script, answers={"session/new": new})
    runtime = {"journal_client": await journal_client_of(MemoryJournal())} if is_journaled else {}
    async with session_of(agent, runtime=runtime, on_event=heard.append) as session:
        run = session.run("go")
        of_the_run = [event async for event in run]
    assert of_the_run[0].type == "run.started"
    assert [event.text for event in of_the_run if isinstance(event, events.AssistantMessage)] == ["hi"]
    messages = [event for event in heard if isinstance(event, events.AssistantMessage)]
    assert [(event.text, event.run_id) for event in messages] == [("Welcome.", None), ("hi", run.id)]
    assert heard.index(messages[0]) < heard.index(of_the_run[0])


async def test_updates_before_the_answer_to_session_new_are_not_lost() -> None:
    heard: list[Event] = []

    async def new(request: ReceivedRequest) -> object:
        agent.update("early", "available_commands_update", availableCommands=[{"name": "x", "description": "y"}])
        agent.update("early", "agent_message_chunk", content={"type": "text", "text": "Welcome."})
        await agent.connection.drain()
        return {"sessionId": "early"}

    agent = ScriptedAgent(answers={"session/new": new})
    async with session_of(agent, on_event=heard.append) as session:
        assert [command.name for command in session.fold.commands] == ["x"]
        assert [message.text for message in session.fold.messages] == ["Welcome."]
        assert [event.type for event in heard] == ["provider.event", "assistant.delta"]


async def test_early_updates_of_a_session_that_is_never_opened_are_reported_as_strays() -> None:
    async def new(request: ReceivedRequest) -> object:
        agent.update("another", "session_info_update", title="x")
        return {"sessionId": "this"}

    agent = ScriptedAgent(answers={"session/new": new})
    async with runtime_of(agent) as runtime:
        await runtime.open_session(config())
        [stray] = [entry for entry in runtime.diagnostics.recent if entry.kind == "stray"]
        assert "another" in stray.text


async def test_the_history_that_load_replays_is_complete_when_it_returns() -> None:
    async def load(request: ReceivedRequest) -> object:
        for number in range(500):
            agent.update(
                request.session_id, "user_message_chunk", content={"type": "text", "text": f"question {number}"}
            )
            agent.update(
                request.session_id, "agent_message_chunk", content={"type": "text", "text": f"answer {number}"}
            )
        return None

    agent = ScriptedAgent(capabilities={"loadSession": True}, answers={"session/load": load})
    async with runtime_of(agent) as runtime:
        first = await runtime.open_session(config())
        handle = first.snapshot()
        await first.close()
        session = await runtime.load_session(handle)
        assert [message.text for message in session.fold.messages] == [
            text for number in range(500) for text in (f"question {number}", f"answer {number}")
        ]
        assert all(message.replayed for message in session.fold.messages)


@pytest.mark.parametrize("method", ["session/resume", "session/load"])
async def test_a_session_may_go_on_under_another_id_of_the_agents(method: str) -> None:
    """Claude's adapter answers `session/resume` with a session id, which may be a new one."""

    async def reopen(request: ReceivedRequest) -> object:
        agent.update("rotated", "session_info_update", title="already under the new id")
        return {"sessionId": "rotated"}

    async def script(turn: Turn) -> None:
        await turn.say(turn.session_id)

    capabilities = {"loadSession": True, "sessionCapabilities": {"resume": {}} if method == "session/resume" else {}}
    agent = ScriptedAgent(script, capabilities=capabilities, answers={method: reopen})
    async with runtime_of(agent) as runtime:
        first = await runtime.open_session(config())
        handle = first.snapshot()
        await first.close()
        session = await runtime.resume_session(handle)
        assert session.fold.title == "already under the new id"
        assert (await session.run("go")).text == "rotated"
        assert session.snapshot().agent_session_id == "rotated"
        await session.close()
        assert not runtime.busy
        assert session.id == handle.session_id


async def test_sessions_of_one_agent_hear_only_their_own() -> None:
    async def script(turn: Turn) -> None:
        for _ in range(50):
            await turn.say(turn.session_id + " ")
            await asyncio.sleep(0)

    async with runtime_of(script) as runtime:
        sessions = [await runtime.open_session(config()) for _ in range(3)]
        results = await asyncio.gather(*(session.run("go").result() for session in sessions))
        assert [set(result.text.split()) for result in results] == [{"session-1"}, {"session-2"}, {"session-3"}]


async def test_an_update_for_no_session_is_reported_as_a_stray() -> None:
    async def script(turn: Turn) -> None:
        turn.agent.update("nobody", "session_info_update", title="x")
        turn.agent.notify("_vendor/hello", {"x": 1})
        await turn.say("hi")

    async with runtime_of(script) as runtime:
        session = await runtime.open_session(config())
        await session.run("go")
        assert [entry.kind for entry in runtime.diagnostics.recent] == ["stray", "stray"]
        assert ["nobody" in entry.text or "_vendor/hello" in entry.text for entry in runtime.diagnostics.recent]
