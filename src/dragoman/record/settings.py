"""The settings of a session, from the three ways in which the protocol lets an agent offer them.

Config options come first; `modes` and the removed `models` count only where no option covers them.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from dragoman.record.rows import Choice, Setting
from dragoman.wire import vocabulary as acp

Settings = dict[str, Setting]


def session_settings(
    options: Sequence[acp.SessionConfigOption] | None,
    modes: acp.SessionModeState | None,
    models: acp.SessionModelState | None,
) -> Settings:
    settings = with_options({}, options or ())
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
    if models is not None and "model" not in categories:
        settings["model"] = Setting(
            id="model",
            name="Model",
            category="model",
            current=models.current_model_id,
            choices=tuple(Choice(model.model_id, model.name, model.description) for model in models.available_models),
            source="model",
        )
    return settings


def with_options(settings: Settings, options: Sequence[acp.SessionConfigOption]) -> Settings:
    """Return the settings with a complete new set of options; modes and models stay where no option covers them."""
    new = {option.id: _setting_of(option) for option in options}
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
    return settings if setting is None else {**settings, option_id: msgspec.structs.replace(setting, current=value)}


def _with_current(settings: Settings, category: str, value: str) -> Settings:
    return {
        key: msgspec.structs.replace(setting, current=value) if setting.category == category else setting
        for key, setting in settings.items()
    }


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
