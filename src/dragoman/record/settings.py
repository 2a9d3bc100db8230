"""The settings of a session, from the three ways in which the protocol lets an agent offer them.

Config options come first; `modes` and the removed `models` count only where no option covers them.

A value that is, or was, in use is among the choices, also where the agent leaves it out of its list, as some do with a
model that the user configured: who has switched away from it can go back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from dragoman.record.rows import Choice, Setting
from dragoman.wire import vocabulary as acp

Settings = dict[str, Setting]

# The description of a choice that was in use and is not in the agent's list; it is recognised by this.
UNLISTED: Final = "not in the agent's own list"


def session_settings(
    options: Sequence[acp.SessionConfigOption] | None,
    modes: acp.SessionModeState | None,
    models: acp.SessionModelState | None,
    before: Settings | None = None,
) -> Settings:
    """Return the settings of a session that was opened; `before`: those it had with an earlier process of the agent."""
    before = before or {}
    settings = {option.id: _with_unlisted(_setting_of(option), before.get(option.id)) for option in options or ()}
    categories = {setting.category for setting in settings.values()}
    if modes is not None and "mode" not in categories:
        settings["mode"] = Setting(
            id="mode",
            name="Mode",
            category="mode",
            current=modes.current_mode_id,
            choices=tuple(Choice(mode.id, mode.name, mode.description) for mode in modes.available_modes),
            source="mode",
        )
        settings["mode"] = _with_unlisted(settings["mode"], before.get("mode"))
    if models is not None and "model" not in categories:
        settings["model"] = Setting(
            id="model",
            name="Model",
            category="model",
            current=models.current_model_id,
            choices=tuple(Choice(model.model_id, model.name, model.description) for model in models.available_models),
            source="model",
        )
        settings["model"] = _with_unlisted(settings["model"], before.get("model"))
    return settings


def with_options(settings: Settings, options: Sequence[acp.SessionConfigOption]) -> Settings:
    """Return the settings with a complete new set of options; modes and models stay where no option covers them."""
    new = {option.id: _with_unlisted(_setting_of(option), settings.get(option.id)) for option in options}
    covered = {setting.category for setting in new.values()}
    older = {
        key: setting
        for key, setting in settings.items()
        if setting.source != "option" and setting.category not in covered and key not in new
    }
    return {**new, **older}


def with_mode(settings: Settings, mode: str) -> Settings:
    return _with_current(settings, "mode", mode)


def with_model(settings: Settings, model: str) -> Settings:
    return _with_current(settings, "model", model)


def with_value(settings: Settings, option_id: str, value: str | bool) -> Settings:
    setting = settings.get(option_id)
    return settings if setting is None else {**settings, option_id: _switched(setting, value)}


def _with_current(settings: Settings, category: str, value: str) -> Settings:
    return {
        key: _switched(setting, value) if setting.category == category else setting for key, setting in settings.items()
    }


def is_unlisted(choice: Choice) -> bool:
    return choice.description == UNLISTED


def _switched(setting: Setting, value: str | bool) -> Setting:
    return _with_unlisted(msgspec.structs.replace(setting, current=value))


def _with_unlisted(setting: Setting, before: Setting | None = None) -> Setting:
    """Return the setting with its current value, and those that were added before, among the choices."""
    if not setting.choices:
        return setting  # it takes any value
    unlisted = {choice.value: choice for choice in (before.choices if before else ()) if is_unlisted(choice)}
    if isinstance(setting.current, str) and setting.current:
        unlisted.setdefault(setting.current, Choice(setting.current, setting.current, UNLISTED))
    values = {choice.value for choice in setting.choices}
    added = tuple(choice for value, choice in unlisted.items() if value not in values)
    return msgspec.structs.replace(setting, choices=(*setting.choices, *added)) if added else setting


def _setting_of(option: acp.SessionConfigOption) -> Setting:
    match option:
        case acp.SessionConfigSelect():
            return Setting(
                id=option.id,
                name=option.name,
                category=option.category,
                current=option.current_value,
                choices=tuple(_choices(option.options)),
            )
        case acp.SessionConfigBoolean():
            return Setting(id=option.id, name=option.name, category=option.category, current=option.current_value)


def _choices(items: Sequence[acp.SessionConfigSelectItem]) -> list[Choice]:
    """Return the values in their order, with groups flattened."""
    choices: list[Choice] = []
    for item in items:
        if item.value is not None:
            choices.append(Choice(item.value, item.name, item.description))
        choices.extend(_choices(item.options))
    return choices
