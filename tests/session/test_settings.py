"""Modes, models and options: by config option first, by the older calls where that is what there is."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.errors import CapabilityMissing, InputError, RequestFailed
from dragoman.session import options
from dragoman.session.session import Session
from dragoman.testing.memory import config, runtime_of, session_of
from dragoman.testing.scripted import ReceivedRequest, ScriptedAgent
from dragoman.wire.connection import RpcRefusal

MODES = {"currentModeId": "ask", "availableModes": [{"id": "ask", "name": "Ask"}, {"id": "do", "name": "Do"}]}
MODELS = {"currentModelId": "s", "availableModels": [{"modelId": "s", "name": "S"}, {"modelId": "b", "name": "B"}]}


def select(option_id: str, category: str | None, current: str, *values: str) -> dict[str, Any]:
    return {
        "type": "select",
        "id": option_id,
        "name": option_id.title(),
        "category": category,
        "currentValue": current,
        "options": [{"value": value, "name": value} for value in values],
    }


OPTIONS = [
    select("permissions", "mode", "ask", "ask", "do"),
    select("llm", "model", "s", "s", "b"),
    select("effort", "thought_level", "low", "low", "high"),
    {"type": "boolean", "id": "verbose", "name": "Verbose", "currentValue": False},
    {"type": "slider", "id": "unknown", "name": "Unknown kinds of options are left out", "currentValue": 3},
]


def agent_with(**session: Any) -> ScriptedAgent:
    """Return an agent that sets what it is asked to, and answers with the complete options."""
    options = [dict(option) for option in session.get("configOptions", [])]

    async def set_option(request: ReceivedRequest) -> object:
        for option in options:
            if option["id"] == request.params["configId"]:
                option["currentValue"] = request.params["value"]
        return {"configOptions": options}

    return ScriptedAgent(
        session=session,
        answers={"session/set_config_option": set_option, "session/set_mode": {}, "session/set_model": None},
    )


def current(session: Session, category: str) -> object:
    setting = session.fold.setting(category)
    return setting.current if setting else None


async def test_config_options_are_used_before_modes_and_models() -> None:
    agent = agent_with(configOptions=OPTIONS, modes=MODES, models=MODELS)
    async with session_of(agent) as session:
        assert list(session.fold.settings) == ["permissions", "llm", "effort", "verbose"]
        await session.set_mode("do")
        await session.set_model("b")
        await session.set_reasoning_effort("high")
        await session.set_option("verbose", True)
        request = [request.params for request in agent.all_heard("session/set_config_option")]
        assert [(params["configId"], params["value"]) for params in request] == [
            ("permissions", "do"),
            ("llm", "b"),
            ("effort", "high"),
            ("verbose", True),
        ]
        assert request[3]["type"] == "boolean"
        assert not agent.all_heard("session/set_mode")
        assert [current(session, name) for name in ("mode", "model", "thought_level")] == ["do", "b", "high"]
        assert session.fold.settings["verbose"].current is True


async def test_the_older_calls_are_used_where_that_is_what_there_is() -> None:
    agent = agent_with(modes=MODES, models=MODELS)
    async with session_of(agent) as session:
        await session.set_mode("do")
        await session.set_model("b")
        assert [request.params for request in agent.heard[-2:]] == [
            {"sessionId": "session-1", "modeId": "do"},
            {"sessionId": "session-1", "modelId": "b"},
        ]
        assert (current(session, "mode"), current(session, "model")) == ("do", "b")


@pytest.mark.parametrize("session", [{"configOptions": OPTIONS}, {"modes": MODES, "models": MODELS}])
async def test_a_value_that_is_not_offered_is_refused_with_the_choices(session: dict[str, Any]) -> None:
    agent = agent_with(**session)
    async with session_of(agent) as opened:
        heard = len(agent.heard)
        with pytest.raises(InputError, match=r"no .* 'nope'; it has: ask, do"):
            await opened.set_mode("nope")
        with pytest.raises(InputError, match="s, b"):
            await opened.set_model("nope")
        assert len(agent.heard) == heard


UNLISTED_MODEL = {**MODELS, "currentModelId": "own"}
UNLISTED_OPTION = [select("llm", "model", "own", "s", "b")]


@pytest.mark.parametrize("session", [{"configOptions": UNLISTED_OPTION}, {"models": UNLISTED_MODEL}])
async def test_a_model_in_use_that_is_not_listed_can_be_set_again(session: dict[str, Any]) -> None:
    agent = agent_with(**session)
    async with session_of(agent) as opened:
        heard = len(agent.heard)
        await opened.set_model("own")
        assert len(agent.heard) == heard  # nothing to switch, and an agent may refuse what it does not list
        for model in ("b", "s", "own"):
            await opened.set_model(model)
            assert current(opened, "model") == model
        setting = opened.fold.setting("model")
        assert setting is not None
        assert [choice.value for choice in setting.choices] == ["s", "b", "own"]


async def test_an_option_takes_a_value_of_its_kind() -> None:
    async with session_of(agent_with(configOptions=OPTIONS)) as session:
        with pytest.raises(InputError, match="true or false"):
            await session.set_option("verbose", "yes")
        with pytest.raises(InputError, match="one of its values"):
            await session.set_option("llm", True)
        with pytest.raises(InputError, match="it has: permissions, llm, effort, verbose"):
            await session.set_option("nope", "x")


async def test_a_capability_that_is_not_offered_at_all_is_named() -> None:
    async with session_of(agent_with()) as session:
        with pytest.raises(CapabilityMissing, match="no modes") as missing:
            await session.set_mode("ask")
        assert "mode" in missing.value.capability
        with pytest.raises(CapabilityMissing, match="no models"):
            await session.set_model("s")


@pytest.mark.parametrize("session", [{"configOptions": OPTIONS}, {"modes": MODES, "models": MODELS}])
async def test_a_switch_that_fails_leaves_the_setting_unchanged(session: dict[str, Any]) -> None:
    """pi-acp 0.0.34 offers models and rejects `session/set_model`."""

    async def refuse(request: ReceivedRequest) -> object:
        raise RpcRefusal(-32601, "not today")

    methods = ("session/set_config_option", "session/set_mode", "session/set_model")
    agent = ScriptedAgent(session=session, answers=dict.fromkeys(methods, refuse))
    async with session_of(agent) as opened:
        for switch in (opened.set_mode("do"), opened.set_model("b")):
            with pytest.raises(RequestFailed, match="not today"):
                await switch
        assert (current(opened, "mode"), current(opened, "model")) == ("ask", "s")
        assert opened.status() == "idle"


async def test_a_session_is_returned_with_the_requested_settings() -> None:
    agent = agent_with(configOptions=OPTIONS)
    async with session_of(agent, mode="do", model="b", reasoning_effort="high", options={"verbose": True}) as session:
        assert [current(session, name) for name in ("mode", "model", "thought_level")] == ["do", "b", "high"]
        assert session.fold.settings["verbose"].current is True


async def test_a_setting_that_is_a_number_is_matched_with_the_agents_spelling(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(options._SETTING_TYPES, "temperature", float | None)
    agent = agent_with(configOptions=[select("heat", "temperature", "1.0", "0.20", "1.0")])
    async with session_of(agent) as session:
        assert session._agent_value("temperature", "temperature", 0.2) == "0.20"
        assert session._agent_value("temperature", "temperature", 0.3) == "0.3"  # then refused, with the choices
    assert options.read_agent_value("temperature", "0.20") == 0.2
    assert options.read_agent_value("temperature", "warm") is None
    assert options.read_agent_value("model", "null") == "null"
    assert options.read_agent_value("model", True) is None


async def test_a_session_without_the_requested_settings_is_not_returned() -> None:
    async with runtime_of(agent_with(modes=MODES)) as runtime:
        with pytest.raises(InputError, match="ask, do"):
            await runtime.open_session(config(mode="nope"))
        assert not runtime.busy


async def test_the_agents_own_changes_are_followed() -> None:
    agent = agent_with(configOptions=OPTIONS)
    async with session_of(agent) as session:
        agent.update("session-1", "current_mode_update", currentModeId="do")
        agent.update("session-1", "config_option_update", configOptions=[select("llm", "model", "b", "s", "b")])
        await session.run("go")
        assert list(session.fold.settings) == ["llm"]
        assert current(session, "model") == "b"
