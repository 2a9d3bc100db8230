"""Messages to and from scripted agents."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from dragoman.backend import (
    BackendAdapter,
    UnifiedMessage,
    configuration_change,
    interrupt,
    permission_response,
    user_message,
)
from dragoman.backend.session import MAX_PENDING_MESSAGES
from dragoman.errors import AgentCrashed, RequestFailed, SessionClosed
from dragoman.session.options import SessionConfig
from dragoman.session.spec import AgentSpec, Limits
from dragoman.testing.memory import in_memory
from dragoman.testing.scripted import ReceivedRequest, ScriptedAgent, Turn
from dragoman.workspace import Workspace

from .conftest import connected, scripted, text_of, until

ONCE = {"optionId": "once", "name": "Once", "kind": "allow_once"}
ALWAYS = {"optionId": "always", "name": "Always", "kind": "allow_always"}
NO = {"optionId": "no", "name": "No", "kind": "reject_once"}


async def echo(turn: Turn) -> None:
    await turn.say(turn.text)


# -- what the agent says


async def test_every_frame_is_a_message_in_the_order_of_the_wire(folder: Path) -> None:
    async def script(turn: Turn) -> None:
        await turn.say("one")
        turn.agent.raw(b"two: not JSON\n")
        turn.agent.notify("_vendor/three", {"three": 3})
        await turn.update("four", x=4)
        await turn.think("five")
        with pytest.raises(RequestFailed):
            await turn.agent.request("_vendor/six", {"six": 6})
        await turn.tool("seven", status="completed")

    async with connected(scripted(script), folder) as session:
        await session.send(user_message("go"))
        messages = await until(session, "result")
        assert [message.type for message in messages] == [
            "session_init",
            "session_init",
            "stream_event",
            "unknown",
            "unknown",
            "unknown",
            "stream_event",
            "unknown",
            "tool_progress",
            "tool_use_summary",
            "result",
        ]
        assert messages[3].metadata["line"] == "two: not JSON"
        assert messages[4].metadata["params"] == {"three": 3}
        assert messages[5].metadata == {"sessionUpdate": "four", "x": 4}
        assert messages[7].metadata["method"] == "_vendor/six"
        assert [message.timestamp for message in messages] == sorted(message.timestamp for message in messages)
        assert len({message.id for message in messages}) == len(messages)


async def test_updates_between_runs_and_before_the_session_are_messages_too(folder: Path) -> None:
    async def new_session(request: ReceivedRequest) -> object:
        request.agent.update("s", "agent_message_chunk", content={"type": "text", "text": "early"})
        return {"sessionId": "s"}

    agent = ScriptedAgent(echo, answers={"session/new": new_session})
    async with connected(scripted(agent), folder) as session:
        messages = [await anext(session.messages) for _ in range(3)]
        assert [message.type for message in messages] == ["session_init", "stream_event", "session_init"]
        agent.update("s", "current_mode_update", currentModeId="m")
        assert (await anext(session.messages)).metadata["modeId"] == "m"


async def test_the_blocks_of_a_prompt_reach_the_agent(folder: Path) -> None:
    agent = ScriptedAgent(echo, capabilities={"promptCapabilities": {"image": True}})
    async with connected(scripted(agent), folder) as session:
        image = {"type": "image", "mimeType": "image/png", "data": "aGk="}
        await session.send(user_message("look", image))
        await until(session, "result")
        prompted = await agent.hears("session/prompt")
        assert prompted.params["prompt"] == [{"type": "text", "text": "look"}, image]


async def test_a_write_through_dragoman_is_reported_after_the_agents_request(folder: Path) -> None:
    async def write(turn: Turn) -> None:
        path = f"{turn.agent.all_heard('session/new')[0].params['cwd']}/new.txt"
        params = {"sessionId": turn.session_id, "path": path, "content": "written"}
        await turn.agent.request("fs/write_text_file", params)

    spec = AgentSpec(command=["memory"], write_files=True)
    adapter = BackendAdapter(spec, launch=in_memory(ScriptedAgent(write).main))
    async with connected(adapter, SessionConfig(workspace=Workspace(folder))) as session:
        await session.send(user_message("go"))
        request = (await until(session, "permission_request"))[-1]
        await session.send(permission_response(request, "allow"))
        [summary] = [message for message in await until(session, "result") if message.type == "tool_use_summary"]
        assert (summary.role, summary.metadata["origin"], summary.metadata["status"]) == ("tool", "files", "completed")
        assert summary.metadata["title"] == "Write new.txt"


# -- what cannot be done


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (user_message(" "), "the prompt is empty"),
        (user_message("a", {"type": "image", "mimeType": "image/png", "data": ""}), "promptCapabilities.image"),
        (permission_response("message-99", "allow"), "no permission request 'message-99'"),
        (configuration_change(), "neither a model nor a modeId"),
        (configuration_change(model="x"), "offers no models"),
        (configuration_change(mode="x"), "offers no modes"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_a_message_that_cannot_be_carried_out_is_an_error_to_its_sender(
    folder: Path, wrong: UnifiedMessage, says: str
) -> None:
    agent = ScriptedAgent(echo)
    async with connected(scripted(agent), folder) as session:
        await session.send(wrong)
        error = (await until(session, "error"))[-1]
        assert says in error.metadata["message"]
        assert error.metadata["in_reply_to"] == wrong.id
        await session.send(user_message("still here"))
        assert text_of(await until(session, "result")) == "still here"
        assert len(agent.all_heard("session/prompt")) == 1


async def test_a_prompt_that_the_agent_refuses_has_a_result_that_says_so(folder: Path) -> None:
    async def script(turn: Turn) -> None:
        turn.refuse(-32603, "no", {"details": "because"})

    async with connected(scripted(script), folder) as session:
        prompt = user_message("go")
        await session.send(prompt)
        result = (await until(session, "result"))[-1]
        assert result.metadata["error"] == {"code": -32603, "message": "no", "data": {"details": "because"}}
        assert (result.metadata["is_error"], result.metadata["in_reply_to"]) == (True, prompt.id)


# -- configuration


async def test_with_config_options_model_and_mode_are_changed_by_them(folder: Path) -> None:
    def option(id_: str, category: str) -> dict[str, Any]:
        values = [{"value": value, "name": value} for value in ("a", "b")]
        return {"id": id_, "name": id_, "category": category, "type": "select", "currentValue": "a", "options": values}

    modes = {"currentModeId": "a", "availableModes": [{"id": "a", "name": "a"}, {"id": "b", "name": "b"}]}
    options = [option("the-model", "model"), option("the-mode", "mode")]
    agent = ScriptedAgent(
        echo,
        session={"configOptions": options, "modes": modes},
        answers={"session/set_config_option": {"configOptions": options}},
    )
    async with connected(scripted(agent), folder) as session:
        await session.send(configuration_change(model="b", mode="b"))
        await agent.hears("session/set_config_option", 2)
        requests = agent.all_heard("session/set_config_option")
        assert [(request.params["configId"], request.params["value"]) for request in requests] == [
            ("the-model", "b"),
            ("the-mode", "b"),
        ]
        assert agent.all_heard("session/set_mode") == []


async def test_without_config_options_model_and_mode_are_changed_by_the_older_calls(folder: Path) -> None:
    modes = {"currentModeId": "a", "availableModes": [{"id": "a", "name": "a"}, {"id": "b", "name": "b"}]}
    models = {"currentModelId": "a", "availableModels": [{"modelId": "a", "name": "a"}, {"modelId": "b", "name": "b"}]}
    agent = ScriptedAgent(
        echo,
        session={"modes": modes, "models": models},
        answers={"session/set_mode": {}, "session/set_model": {}},
    )
    async with connected(scripted(agent), folder) as session:
        await session.send(configuration_change(model="b", mode="b"))
        assert (await agent.hears("session/set_model")).params["modelId"] == "b"
        assert (await agent.hears("session/set_mode")).params["modeId"] == "b"


async def test_a_prompt_waits_for_the_change_that_was_sent_before_it(folder: Path) -> None:
    done: list[str] = []

    async def slowly(request: ReceivedRequest) -> object:
        for _ in range(100):
            await asyncio.sleep(0)
        done.append("changed")
        return {}

    async def script(turn: Turn) -> None:
        done.append(turn.text)
        await turn.say(turn.text)

    modes = {"currentModeId": "a", "availableModes": [{"id": "a", "name": "a"}, {"id": "b", "name": "b"}]}
    agent = ScriptedAgent(script, session={"modes": modes}, answers={"session/set_mode": slowly})
    async with connected(scripted(agent), folder) as session:
        for message in (user_message("one"), configuration_change(mode="b"), user_message("two")):
            await session.send(message)
        for _ in range(2):
            await until(session, "result")
        assert done == ["one", "changed", "two"]


async def test_neither_an_interrupt_nor_an_answer_waits_for_a_change_that_hangs(folder: Path) -> None:
    hangs = asyncio.Event()

    async def never(request: ReceivedRequest) -> object:
        hangs.set()
        await asyncio.Event().wait()
        return {}

    async def script(turn: Turn) -> object:
        chosen = await turn.ask_permission(options=[ONCE, NO])
        await turn.say(str(chosen))
        return await turn.wait_cancelled()

    modes = {"currentModeId": "a", "availableModes": [{"id": "a", "name": "a"}, {"id": "b", "name": "b"}]}
    agent = ScriptedAgent(script, session={"modes": modes}, answers={"session/set_mode": never})
    async with connected(scripted(agent), folder) as session:
        await session.send(user_message("go"))
        request = (await until(session, "permission_request"))[-1]
        await session.send(configuration_change(mode="b"))
        await hangs.wait()
        queued = user_message("behind the change")
        await session.send(queued)
        await session.send(permission_response(request, "allow"))
        assert text_of(await until(session, "stream_event")) == "once"
        await session.send(interrupt())
        results = [(await until(session, "result"))[-1] for _ in range(2)]
        assert [result.metadata.get("status") for result in results] == ["cancelled", None]
        assert results[0].metadata["in_reply_to"] == queued.id
        assert results[1].metadata["stopReason"] == "cancelled"
        assert len(agent.all_heard("session/prompt")) == 1


# -- prompts that wait


async def test_prompts_wait_for_each_other_and_each_has_its_own_result(folder: Path) -> None:
    agent = ScriptedAgent(echo)
    async with connected(scripted(agent), folder) as session:
        prompts = [user_message(text) for text in ("a", "b", "c")]
        for prompt in prompts:
            await session.send(prompt)
        messages = [message for _ in prompts for message in await until(session, "result")]
        assert text_of(messages) == "abc"
        results = [message for message in messages if message.type == "result"]
        assert [result.metadata["in_reply_to"] for result in results] == [prompt.id for prompt in prompts]
        assert not agent.overlapped


async def test_an_interrupt_drops_the_queue_and_each_prompt_has_its_result(folder: Path) -> None:
    async def script(turn: Turn) -> object:
        await turn.say(turn.text)
        return await turn.wait_cancelled()

    agent = ScriptedAgent(script)
    async with connected(scripted(agent), folder) as session:
        prompts = [user_message(text) for text in ("a", "b")]
        for prompt in prompts:
            await session.send(prompt)
        await until(session, "stream_event")
        await session.send(interrupt())
        results = [(await until(session, "result"))[-1].metadata for _ in prompts]
        assert {result["in_reply_to"] for result in results} == {prompt.id for prompt in prompts}
        [dropped] = [result for result in results if result["in_reply_to"] == prompts[1].id]
        assert (dropped["stopReason"], dropped["status"]) == (None, "cancelled")
        assert len(agent.all_heard("session/prompt")) == 1
        assert len(agent.all_heard("session/cancel")) == 1


async def test_a_prompt_that_is_interrupted_at_once_never_reaches_the_agent(folder: Path) -> None:
    agent = ScriptedAgent(echo)
    async with connected(scripted(agent), folder) as session:
        prompt = user_message("a")
        await session.send(prompt)
        await session.send(interrupt())
        result = (await until(session, "result"))[-1]
        assert (result.metadata["status"], result.metadata["in_reply_to"]) == ("cancelled", prompt.id)
        await session.send(user_message("b"))
        assert text_of(await until(session, "result")) == "b"
        assert len(agent.all_heard("session/prompt")) == 1


async def test_an_interrupt_without_a_run_does_nothing(folder: Path) -> None:
    agent = ScriptedAgent(echo)
    async with connected(scripted(agent), folder) as session:
        await session.send(interrupt())
        await session.send(user_message("a"))
        assert text_of(await until(session, "result")) == "a"
        assert agent.all_heard("session/cancel") == []


async def test_prompts_over_the_limit_of_the_queue_are_refused(folder: Path) -> None:
    async def script(turn: Turn) -> object:
        return await turn.wait_cancelled()

    async with connected(scripted(script), folder) as session:
        prompts = [user_message("a") for _ in range(MAX_PENDING_MESSAGES + 1)]
        for prompt in prompts:
            await session.send(prompt)
        error = (await until(session, "error"))[-1]
        assert (error.metadata["kind"], error.metadata["in_reply_to"]) == ("SessionBusy", prompts[-1].id)
        await session.send(interrupt())
        results = {(await until(session, "result"))[-1].metadata["in_reply_to"] for _ in prompts[:-1]}
        assert results == {prompt.id for prompt in prompts[:-1]}


# -- the end


async def test_an_agent_that_dies_between_runs_is_reported_and_ends_the_messages(folder: Path) -> None:
    agent = ScriptedAgent(echo)
    async with connected(scripted(agent, limits=Limits(close_timeout=0.05)), folder) as session:
        agent.exit(9)
        *_, error = [message async for message in session.messages]
        assert (error.type, error.metadata["exit_code"]) == ("error", 9)
        assert "in_reply_to" not in error.metadata
        with pytest.raises(AgentCrashed):
            await session.send(user_message("hello?"))


async def test_a_closed_session_ends_its_messages_and_accepts_none(folder: Path) -> None:
    async def script(turn: Turn) -> object:
        await turn.say("a")
        return await turn.wait_cancelled()

    agent = ScriptedAgent(script)
    async with connected(scripted(agent), folder) as session:
        await session.send(user_message("go"))
        await until(session, "stream_event")
        await session.close()
        await session.close()
        assert [message async for message in session.messages] == []
        assert len(agent.all_heard("session/cancel")) == 1
        with pytest.raises(SessionClosed):
            await session.send(user_message("hello?"))


async def test_a_reader_that_waits_learns_that_the_session_was_closed(folder: Path) -> None:
    async with connected(scripted(echo), folder) as session:
        for _ in range(2):
            await anext(session.messages)
        waiting = asyncio.ensure_future(anext(session.messages, None))
        await asyncio.sleep(0)
        await session.close()
        assert await waiting is None


async def test_a_session_that_is_closed_while_messages_wait_leaves_nothing(folder: Path) -> None:
    async def never(request: ReceivedRequest) -> object:
        await asyncio.Event().wait()
        return {}

    modes = {"currentModeId": "a", "availableModes": [{"id": "a", "name": "a"}, {"id": "b", "name": "b"}]}
    agent = ScriptedAgent(echo, session={"modes": modes}, answers={"session/set_mode": never})
    async with connected(scripted(agent), folder) as session:
        await session.send(configuration_change(mode="b"))
        await session.send(user_message("behind it"))
        await agent.hears("session/set_mode")
