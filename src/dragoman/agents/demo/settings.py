"""The mode and the config options of a session, as values and as ACP shows them.

The mode is shown twice, as `modes` and as a config option, because clients read the one or the other; there is one
value behind both.
"""

from __future__ import annotations

from typing import TypeAlias

from dragoman.agents.demo.requests import DOCUMENT
from dragoman.wire import vocabulary as acp

Value: TypeAlias = str | bool
Values: TypeAlias = dict[str, Value]

# Only for clients that can show an on-off switch.
SWITCH_ID = "word_by_word"


class NotAllowed(ValueError):
    """A mode, option or value that does not exist. `field` is the one of the request that is wrong."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")


def default_values() -> Values:
    return {choice.id: choice.options[0].value for choice in DOCUMENT.choice} | {SWITCH_ID: True}


def mode_state(mode: str) -> acp.SessionModeState:
    return acp.SessionModeState(current_mode_id=mode, available_modes=DOCUMENT.mode)


def options(mode: str, values: Values, *, switches: bool) -> tuple[acp.SessionConfigOption, ...]:
    """Return all config options with their current values, as ACP shows them."""
    modes = tuple(
        acp.SessionConfigSelectOption(value=each.id, name=each.name, description=each.description or "")
        for each in DOCUMENT.mode
    )
    shown: list[acp.SessionConfigOption] = [
        acp.SessionConfigSelect(id="mode", name="Mode", category="mode", current_value=mode, options=modes)
    ]
    for choice in DOCUMENT.choice:
        shown.append(
            acp.SessionConfigSelect(
                id=choice.id,
                name=choice.name,
                description=choice.description,
                category=choice.category,
                current_value=str(values[choice.id]),
                options=choice.options,
            )
        )
    if switches:
        shown.append(
            acp.SessionConfigBoolean(
                id=SWITCH_ID,
                name="Word by word",
                description="Off: each answer comes whole",
                current_value=bool(values[SWITCH_ID]),
            )
        )
    return tuple(shown)


def check_mode(mode: str, *, field: str = "modeId") -> str:
    names = [each.id for each in DOCUMENT.mode]
    if mode not in names:
        raise NotAllowed(field, f"there is no mode {mode!r}; the modes are {', '.join(names)}")
    return mode


def check_value(option: str, value: Value) -> Value:
    """Return the value if the option exists and may have it; else raise `NotAllowed`."""
    if option == SWITCH_ID:
        if not isinstance(value, bool):
            raise NotAllowed("value", f"{SWITCH_ID} is on or off (true or false), not {value!r}")
        return value
    for choice in DOCUMENT.choice:
        if choice.id == option:
            names = [each.value for each in choice.options]
            if value not in names:
                raise NotAllowed("value", f"{option} cannot be {value!r}; it can be {', '.join(names)}")
            return value
    known = ["mode", *(choice.id for choice in DOCUMENT.choice), SWITCH_ID]
    raise NotAllowed("configId", f"there is no option {option!r}; the options are {', '.join(known)}")
