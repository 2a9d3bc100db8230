"""Switching a session's mode, model and options: by config option first, by the older calls where
that is what the agent offers. Asking for what it does not offer is an error that lists what it does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragoman.errors import CapabilityMissing, InputError
from dragoman.record.rows import Setting
from dragoman.wire import vocabulary as acp

if TYPE_CHECKING:
    from dragoman.session.runtime import AgentRuntime
    from dragoman.session.session import Session

_NAMES = {"mode": "modes", "model": "models", "thought_level": "levels of reasoning effort"}


async def switch(runtime: AgentRuntime, session: Session, category: str, value: str) -> None:
    """Sets the setting of this category (mode, model, thought_level)."""
    setting = session.fold.setting(category)
    if setting is None:
        offered = _NAMES.get(category, category)
        raise CapabilityMissing(
            f"{session.agent_name} offers no {offered} to choose from", capability=f"configOptions ({category})"
        )
    await _set(runtime, session, setting, value)


async def set_option(runtime: AgentRuntime, session: Session, option_id: str, value: str | bool) -> None:
    setting = session.fold.settings.get(option_id)
    if setting is None:
        known = ", ".join(session.fold.settings) or "none"
        raise InputError(f"{session.agent_name} has no option {option_id!r}; it has: {known}")
    await _set(runtime, session, setting, value)


async def _set(runtime: AgentRuntime, session: Session, setting: Setting, value: str | bool) -> None:
    _check(session.agent_name, setting, value)
    agent_id = session.agent_session_id
    match setting.source:
        case "option":
            kind = "boolean" if isinstance(value, bool) else None
            option = acp.SetSessionConfigOptionRequest(
                session_id=agent_id, config_id=setting.id, value=value, type=kind
            )
            await runtime.request("session/set_config_option", option)
        case "mode":
            mode = acp.SetSessionModeRequest(session_id=agent_id, mode_id=str(value))
            await runtime.request("session/set_mode", mode)
        case "model":
            model = acp.SetSessionModelRequest(session_id=agent_id, model_id=str(value))
            await runtime.request("session/set_model", model)


def _check(agent: str, setting: Setting, value: str | bool) -> None:
    if isinstance(setting.current, bool) != isinstance(value, bool):
        wanted = "true or false" if isinstance(setting.current, bool) else "one of its values"
        raise InputError(f"option {setting.id!r} of {agent} takes {wanted}, not {value!r}")
    choices = [choice.value for choice in setting.choices]
    if choices and value not in choices:
        shown = ", ".join(choices[:20]) + (", …" if len(choices) > 20 else "")
        raise InputError(f"{agent} has no {setting.name.lower()} {value!r}; it has: {shown}")
