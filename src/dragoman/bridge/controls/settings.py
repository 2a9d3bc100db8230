"""`settings.*`: what the user chose, where that was said, and changing it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from dragoman._version import __version__
from dragoman.bridge import answers, asked
from dragoman.bridge.caller import Caller
from dragoman.bridge.refusal import Refusal
from dragoman.config import SETTINGS, SETTINGS_FILE, Config, PageSettings, load
from dragoman.errors import ConfigError
from dragoman.fileio import LockedJsonFile

if TYPE_CHECKING:
    from dragoman.bridge.bridge import Bridge

_WORDS: Final = {
    "agent": "The agent of a new session.",
    "access": "What a new session may do unasked.",
    "start_timeout": "How long an agent may take to start.",
    "request_timeout": "How long an agent may take to answer a request.",
    "cancel_grace": "How long an agent may take to stop when it is told to.",
    "close_grace": "How long an agent may take to end.",
    "deadline": "How long a run may take.",
    "idle_limit": "How long an agent may say nothing.",
    "permission_timeout": "How long a question waits for its answer; then it is refused.",
    "journal": "Whether the command line keeps what was said.",
    "line_limit": "How long a line of an agent may be.",
}


def page_settings(home: Path) -> LockedJsonFile[PageSettings]:
    return LockedJsonFile(home / SETTINGS_FILE, PageSettings())


def change_settings(
    home: Path,
    decide: Callable[[PageSettings], PageSettings],
    check: Callable[[Config], object] = lambda config: None,
) -> Config:
    """The settings with what was decided. `ConfigError`, or what `check` raises, where they could not be used: then
    nothing is written, for a file that cannot be read would stop everything."""
    made: list[Config] = []

    def checked(known: PageSettings) -> PageSettings:
        try:
            # As it will be read from the file.
            new = msgspec.json.decode(msgspec.json.encode(decide(known)), type=PageSettings)
        except (msgspec.MsgspecError, ValueError, OverflowError, RecursionError) as problem:
            raise ConfigError(f"this cannot be kept: {problem}") from None
        made.append(load(home, page=new))
        check(made[-1])
        return new

    page_settings(home).change(checked)
    return made[-1]


async def get(bridge: Bridge, said: asked.SettingsGet, caller: Caller) -> answers.Settings:
    return _told(await asyncio.to_thread(load, bridge.config.home))


def _told(config: Config) -> answers.Settings:
    default = Config(home=config.home)
    return answers.Settings(
        settings=tuple(
            answers.SettingItem(
                name=name,
                value=_plain(getattr(config, name)),
                default=_plain(getattr(default, name)),
                where=config.where(name),
                editable=_is_ours(config, name),
                description=_WORDS.get(name, ""),
                choices=setting.choices,
            )
            for name, setting in SETTINGS.items()
        ),
        home=str(config.home),
        version=__version__,
    )


def _is_ours(config: Config, name: str) -> bool:
    """A variable or an option goes before what is set here."""
    where = config.where(name)
    return where is None or name not in config.sources or where.endswith(SETTINGS_FILE)


def _plain(value: Any) -> str | bool | int | float | None:
    return value if isinstance(value, str | bool | int | float) or value is None else str(value)


async def set_(bridge: Bridge, said: asked.SettingsSet, caller: Caller) -> answers.Settings:
    if said.name not in SETTINGS:
        raise Refusal("invalid", f"there is no setting {said.name!r}", field="name")

    def change() -> answers.Settings:
        home = bridge.config.home
        if said.value is not None:
            try:
                SETTINGS[said.name].read(said.value)
            except ValueError:
                raise Refusal(
                    "invalid", f"{said.name} is {said.value!r}; expected {SETTINGS[said.name].expected}", field="value"
                ) from None

        def with_it(known: PageSettings) -> PageSettings:
            settings = {name: value for name, value in known.settings.items() if name != said.name}
            if said.value is not None:
                settings[said.name] = said.value
            return msgspec.structs.replace(known, settings=settings)

        try:
            return _told(change_settings(home, with_it))
        except ConfigError as problem:
            raise Refusal("invalid", str(problem), field="value") from None

    result = await asyncio.to_thread(change)
    bridge.agents.changed()
    return result
