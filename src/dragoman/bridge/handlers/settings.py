"""Handlers of `settings.*` and `token.*`."""

from __future__ import annotations

import asyncio
import hashlib
from typing import Any, Final

from dragoman._version import __version__
from dragoman.agents.preset import load_presets
from dragoman.bridge.auth import Caller
from dragoman.bridge.refusal import Refusal
from dragoman.bridge.services import Services, handles
from dragoman.bridge.tokens import Token
from dragoman.config import SETTINGS, SETTINGS_FILE, Config, load
from dragoman.errors import InputError
from dragoman.protocol import requests, results
from dragoman.session.client import check_agent
from dragoman.settings import DESCRIPTIONS, change_settings, with_setting

# Length of token ids that are derived from a command id: long enough that none is ever another token's.
_TOKEN_ID_CHARS: Final = 16


# -- settings


@handles(requests.SettingsGet)
async def get_settings(services: Services, request: requests.SettingsGet, caller: Caller) -> results.ServerSettings:
    return _settings(await asyncio.to_thread(load, services.config.home))


def _settings(config: Config) -> results.ServerSettings:
    default = Config(home=config.home)
    return results.ServerSettings(
        settings=tuple(
            results.SettingItem(
                name=name,
                value=_plain(getattr(config, name)),
                default=_plain(getattr(default, name)),
                source=config.where(name),
                editable=_is_editable(config, name),
                description=DESCRIPTIONS.get(name, ""),
                choices=setting.choices if name != "agent" else _agent_choices(config),
            )
            for name, setting in SETTINGS.items()
        ),
        home=str(config.home),
        version=__version__,
    )


def _agent_choices(config: Config) -> tuple[str, ...]:
    """Return the agents that can be the default, and the default itself, which may be an address."""
    return tuple(dict.fromkeys((*load_presets(config, lambda error: None), config.agent)))


def _is_editable(config: Config, name: str) -> bool:
    """Return whether the settings file decides: an environment variable or an option takes precedence over it."""
    source = config.where(name)
    return source is None or name not in config.sources or source.endswith(SETTINGS_FILE)


def _plain(value: Any) -> str | bool | int | float | None:
    return value if isinstance(value, str | bool | int | float) or value is None else str(value)


@handles(requests.SettingsSet)
async def set_setting(services: Services, request: requests.SettingsSet, caller: Caller) -> results.ServerSettings:
    name, value = request.name, request.value
    if name not in SETTINGS:
        raise Refusal("invalid", f"there is no setting {name!r}", field="name")

    def change() -> results.ServerSettings:
        if value is not None:
            try:
                SETTINGS[name].read(value)
            except ValueError:
                raise Refusal(
                    "invalid", f"{name} is {value!r}; expected {SETTINGS[name].expected}", field="value"
                ) from None
        try:
            return _settings(
                change_settings(
                    services.config.home,
                    lambda page: with_setting(page, name, value),
                    lambda config: check_agent(config, value) if name == "agent" and value is not None else None,
                )
            )
        except InputError as error:
            raise Refusal("invalid", str(error), guidance=error.guidance, field="value") from None

    result = await asyncio.to_thread(change)
    services.agents.invalidate()
    return result


# -- tokens


def _token_item(token: Token, caller: Caller) -> results.TokenItem:
    return results.TokenItem(
        id=token.id,
        name=token.name,
        scope=token.scope,
        created=token.created,
        used=token.used,
        current=token.id == caller.token_id,
    )


def _tokens(services: Services, caller: Caller) -> results.KnownTokens:
    return results.KnownTokens(tokens=tuple(_token_item(token, caller) for token in services.tokens.all()))


@handles(requests.TokenList)
async def list_tokens(services: Services, request: requests.TokenList, caller: Caller) -> results.KnownTokens:
    return _tokens(services, caller)


@handles(requests.TokenCreate)
async def create_token(services: Services, request: requests.TokenCreate, caller: Caller) -> results.TokenCreated:
    token_id = None
    if request.command_id is not None:
        # Sent again to a server that was restarted, it replaces the first token, which no client ever received.
        digest = hashlib.sha256(f"{caller.token_id} {request.command_id}".encode()).hexdigest()
        token_id = digest[:_TOKEN_ID_CHARS]
    secret, token = await asyncio.to_thread(services.tokens.create, request.name, request.scope, token_id=token_id)
    return results.TokenCreated(token=secret, item=_token_item(token, caller))


@handles(requests.TokenRevoke)
async def revoke_token(services: Services, request: requests.TokenRevoke, caller: Caller) -> results.KnownTokens:
    if not await asyncio.to_thread(services.tokens.revoke, request.token_id):
        raise Refusal("not_found", f"there is no token {request.token_id}", field="token_id")
    return _tokens(services, caller)
