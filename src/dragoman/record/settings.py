"""The settings of a session, from whichever of the protocol's three ways the agent offers them.

Config options come first; `modes` and the removed `models` stand in only where no option covers them.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from dragoman.record.rows import Choice, Setting
from dragoman.wire import vocabulary as acp

Settings = dict[str, Setting]


def of_session(
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
    """The complete new set of options; the older modes and models stay where no option covers them."""
    fresh = {option.id: _setting_of(option) for option in options}
    covered = {setting.category for setting in fresh.values()}
    kept = {
        key: setting
        for key, setting in settings.items()
        if setting.source != "option" and setting.category not in covered and key not in fresh
    }
    return {**fresh, **kept}


def with_mode(settings: Settings, mode: str) -> Settings:
    return _with_current(settings, "mode", mode)


def with_model(settings: Settings, model: str) -> Settings:
    return _with_current(settings, "model", model)


def with_value(settings: Settings, option_id: str, value: str | bool) -> Settings:
    known = settings.get(option_id)
    return settings if known is None else {**settings, option_id: msgspec.structs.replace(known, current=value)}


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
    """The values in their order; a group's are taken out of it."""
    choices: list[Choice] = []
    for item in items:
        if item.value is not None:
            choices.append(Choice(item.value, item.name, item.description))
        choices.extend(_choices(item.options))
    return choices
