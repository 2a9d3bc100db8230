"""`WatchConsent`: which agents' transcripts may be watched. Nothing is read before the user has agreed.

`[watch]` in `config.toml` sets `on`, `off` or `ask` for each provider; the default is `ask`. The user's consent is
stored in `watch.json` in the home folder, because `config.toml` belongs to the user. It counts while the
setting is `ask`.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import msgspec

from dragoman.config import Config
from dragoman.document import show
from dragoman.errors import InputError
from dragoman.fileio import LockedJsonFile
from dragoman.translate.translator import PROVIDERS, get_provider

Mode: TypeAlias = Literal["off", "ask", "on"]

FILE_NAME: Final = "watch.json"

_MODES: Final[tuple[Mode, ...]] = ("off", "ask", "on")


class _Consent(msgspec.Struct, frozen=True):
    agreed: list[str] = []


class WatchConsent:
    """The modes of all providers, by the settings and by what the user agreed to."""

    def __init__(self, config: Config) -> None:
        """Raises `ConfigError` if the settings name an unknown provider or mode."""
        self._config = config
        self._file = LockedJsonFile(config.home / FILE_NAME, _Consent())
        self._settings = _read_settings(config)

    def mode(self, provider: str) -> Mode:
        setting = self._settings.get(provider, "ask")
        return "on" if setting == "ask" and provider in self._file.read().agreed else setting

    def grant(self, provider: str) -> None:
        """Store that the user agrees. Raises `InputError` if the setting is `off` or there is no such provider."""
        get_provider(provider)
        if self._settings.get(provider) == "off":
            raise InputError(
                f"watching {provider} is off ({self._config.key_path('watch', provider).where})",
                guidance=f'Set it to "ask" or "on" there: [watch] {provider} = "on"',
            )
        self._file.change(
            lambda consent: consent if provider in consent.agreed else _Consent([*consent.agreed, provider])
        )


def _read_settings(config: Config) -> dict[str, Mode]:
    modes: dict[str, Mode] = {}
    for provider, value in config.watch.items():
        location = config.key_path("watch", provider)
        if provider not in PROVIDERS:
            raise location.unknown(provider, PROVIDERS)
        mode = next((mode for mode in _MODES if value == mode), None)
        if mode is None:
            raise location.wrong(f"watch.{provider}", show(value), "off, ask or on")
        modes[provider] = mode
    return modes
