"""`Modes`: whose transcripts may be watched. Nothing is read before the user has agreed.

`[watch]` in `config.toml` says `on`, `off` or `ask` for each provider; where it says nothing, it is `ask`. Who was
asked and agreed is not asked again: that is kept in `watch.json` in the home folder, beside the settings and not in
them, for `config.toml` is the user's own to write. What stands there counts as long as the settings say `ask`.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import msgspec

from dragoman.config import Config
from dragoman.document import show
from dragoman.errors import InputError
from dragoman.fileio import LockedJsonFile
from dragoman.translate.translator import PROVIDERS
from dragoman.translate.translator import provider as known_provider

Mode: TypeAlias = Literal["off", "ask", "on"]

FILE_NAME: Final = "watch.json"

_MODES: Final[tuple[Mode, ...]] = ("off", "ask", "on")


class _Agreed(msgspec.Struct, frozen=True):
    agreed: list[str] = []


class Modes:
    """Of all providers, by the settings and by what was agreed to."""

    def __init__(self, config: Config) -> None:
        """`ConfigError` where the settings name a provider or a mode that there is not."""
        self._config = config
        self._kept = LockedJsonFile(config.home / FILE_NAME, _Agreed())
        self._chosen = _chosen(config)

    def mode(self, provider: str) -> Mode:
        chosen = self._chosen.get(provider, "ask")
        return "on" if chosen == "ask" and provider in self._kept.read().agreed else chosen

    def agree(self, provider: str) -> None:
        """The user agrees, for good. `InputError` where the settings say that it is off, or there is no such one."""
        known_provider(provider)
        if self._chosen.get(provider) == "off":
            raise InputError(
                f"watching {provider} is off ({self._config.place('watch', provider).where})",
                guidance=f'Set it to "ask" or "on" there: [watch] {provider} = "on"',
            )
        self._kept.change(lambda kept: kept if provider in kept.agreed else _Agreed([*kept.agreed, provider]))


def _chosen(config: Config) -> dict[str, Mode]:
    modes: dict[str, Mode] = {}
    for name, value in config.watch.items():
        place = config.place("watch", name)
        if name not in PROVIDERS:
            raise place.unknown(name, PROVIDERS)
        found = next((mode for mode in _MODES if value == mode), None)
        if found is None:
            raise place.wrong(f"watch.{name}", show(value), "off, ask or on")
        modes[name] = found
    return modes
