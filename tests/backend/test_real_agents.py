"""Real agents as backends: prompt, permission, interrupt, change of model."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from agents.catalog import AGENTS, RealAgent
from agents.conftest import Stage, stage  # noqa: F401 (a fixture)
from dragoman.backend import (
    BackendAdapter,
    BackendSession,
    configuration_change,
    interrupt,
    permission_response,
    user_message,
)
from dragoman.session.spec import Limits

from .conftest import connected, text_of, until

# The first test of an agent may have to install it.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

TIMEOUT_S = 240.0  # a real agent may need more than a minute to start on a busy machine
LIMITS = Limits(start_timeout=180.0)


@pytest.fixture(params=["opencode", "gemini"])  # one with config options, one with the older models
def agent(request: pytest.FixtureRequest) -> RealAgent:
    [found] = [agent for agent in AGENTS if agent.id == request.param]
    return found


@pytest.fixture
async def session(stage: Stage) -> AsyncIterator[BackendSession]:  # noqa: F811 (the fixture)
    async with connected(BackendAdapter(stage.spec, limits=LIMITS), stage.folder, timeout_s=TIMEOUT_S) as session:
        yield session


async def test_a_prompt_streams_thoughts_and_text(session: BackendSession) -> None:
    await session.send(user_message("[[think:Hm.]][[say:One. Two. Three.]]"))
    messages = await until(session, "result")
    assert [message.type for message in messages].count("session_init") == 2
    assert text_of(messages) == "One. Two. Three."
    assert any(message.metadata.get("thought") for message in messages)
    assert messages[-1].metadata["stopReason"] == "end_turn"


@pytest.mark.parametrize("behavior", ["allow", "deny"])
async def test_a_command_runs_only_when_it_is_allowed(
    session: BackendSession,
    stage: Stage,  # noqa: F811 (the fixture)
    behavior: str,
) -> None:
    await session.send(user_message(stage.agent.run("echo made > made.txt")))
    request = (await until(session, "permission_request"))[-1]
    await session.send(permission_response(request, "allow" if behavior == "allow" else "deny"))
    messages = await until(session, "result")
    assert (stage.folder / "made.txt").exists() == (behavior == "allow")
    errors = [message.metadata.get("is_error", False) for message in messages if message.type == "tool_use_summary"]
    assert errors == ([False] if behavior == "allow" else [True] if stage.agent.tells_of_refusal else [])


async def test_an_interrupt_ends_the_run_and_the_session_continues(session: BackendSession) -> None:
    await session.send(user_message("[[slow:100:0.2]]"))
    await until(session, "stream_event")
    await session.send(interrupt())
    await until(session, "result")
    await session.send(user_message("[[say:Still here.]]"))
    assert "Still here." in text_of(await until(session, "result"))


async def test_the_model_is_changed(session: BackendSession) -> None:
    await until(session, "session_init")
    opened = (await until(session, "session_init"))[-1].metadata
    options = [option for option in opened.get("configOptions", ()) if option.get("category") == "model"]
    if options:
        offered, now = [each["value"] for each in options[0]["options"]], options[0]["currentValue"]
    else:
        offered = [each["modelId"] for each in opened["models"]["availableModels"]]
        now = opened["models"]["currentModelId"]
    await session.send(configuration_change(model=next(each for each in offered if each != now)))
    await session.send(user_message("[[say:Hello.]]"))
    messages = await until(session, "result")
    method = "session/set_config_option" if options else "session/set_model"
    [changed] = [message for message in messages if message.metadata.get("method") == method]
    assert "error" not in changed.metadata
    assert not any(message.type == "error" for message in messages)
