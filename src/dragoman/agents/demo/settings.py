"""The mode and the config options of a session, as values and as ACP shows them.

The mode is shown twice, as `modes` and as a config option, because clients read the one or the other; there is one
value behind both.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from dragoman.wire.vocabulary import (
    SessionConfigBoolean,
    SessionConfigOption,
    SessionConfigSelect,
    SessionConfigSelectOption,
    SessionMode,
    SessionModeState,
)

Value: TypeAlias = str | bool
Values: TypeAlias = dict[str, Value]

MODES = (
    SessionMode(id="ask", name="Ask", description="Asks before every change, even after an “always”"),
    SessionMode(id="code", name="Code", description="Asks before a change, and remembers an “always”"),
    SessionMode(id="plan", name="Plan", description="Says what it would do, and changes nothing"),
)
DEFAULT_MODE = "code"

# How many words fit each model's pretended memory: it is what `usage` shows as the size of the context.
CONTEXT_SIZE = {"demo-small": 8_000, "demo-large": 200_000}


class Choice(msgspec.Struct, frozen=True):
    """A config option with named values; the first is the default."""

    id: str
    name: str
    category: str
    description: str
    options: tuple[SessionConfigSelectOption, ...]


def _option(value: str, name: str, description: str) -> SessionConfigSelectOption:
    return SessionConfigSelectOption(value=value, name=name, description=description)


CHOICES = (
    Choice(
        "model",
        "Model",
        "model",
        "There is no model behind either: they differ in how much they say",
        (
            _option("demo-small", "Demo Small", "Short answers, remembers 8,000 words"),
            _option("demo-large", "Demo Large", "Explains itself, remembers 200,000 words"),
        ),
    ),
    Choice(
        "thought_level",
        "Thoughts",
        "thought_level",
        "How much it thinks aloud before it answers",
        (
            _option("off", "Off", "Answers at once"),
            _option("low", "Low", "One thought"),
            _option("high", "High", "Several thoughts"),
        ),
    ),
)
# Only for clients that can show an on-off switch.
SWITCH_ID = "word_by_word"


class NotAllowed(ValueError):
    """A mode, option or value that does not exist. `field` is the one of the request that is wrong."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")


def default_values() -> Values:
    return {choice.id: choice.options[0].value for choice in CHOICES} | {SWITCH_ID: True}


def mode_state(mode: str) -> SessionModeState:
    return SessionModeState(current_mode_id=mode, available_modes=MODES)


def options(mode: str, values: Values, *, switches: bool) -> tuple[SessionConfigOption, ...]:
    """All config options with their current values, as ACP shows them."""
    modes = tuple(_option(each.id, each.name, each.description or "") for each in MODES)
    shown: list[SessionConfigOption] = [
        SessionConfigSelect(id="mode", name="Mode", category="mode", current_value=mode, options=modes)
    ]
    for choice in CHOICES:
        shown.append(
            SessionConfigSelect(
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
            SessionConfigBoolean(
                id=SWITCH_ID,
                name="Word by word",
                description="Off: each answer comes whole",
                current_value=bool(values[SWITCH_ID]),
            )
        )
    return tuple(shown)


def check_mode(mode: str, *, field: str = "modeId") -> str:
    names = [each.id for each in MODES]
    if mode not in names:
        raise NotAllowed(field, f"there is no mode {mode!r}; the modes are {', '.join(names)}")
    return mode


def check_value(option: str, value: Value) -> Value:
    """The value, if the option exists and may have it."""
    if option == SWITCH_ID:
        if not isinstance(value, bool):
            raise NotAllowed("value", f"{SWITCH_ID} is on or off (true or false), not {value!r}")
        return value
    for choice in CHOICES:
        if choice.id == option:
            names = [each.value for each in choice.options]
            if value not in names:
                raise NotAllowed("value", f"{option} cannot be {value!r}; it can be {', '.join(names)}")
            return value
    known = ["mode", *(choice.id for choice in CHOICES), SWITCH_ID]
    raise NotAllowed("configId", f"there is no option {option!r}; the options are {', '.join(known)}")
