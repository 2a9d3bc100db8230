"""`token.*`: who may come in, and with what scope."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from dragoman.bridge import answers, asked
from dragoman.bridge.caller import Caller
from dragoman.bridge.refusal import Refusal
from dragoman.bridge.tokens import Token

if TYPE_CHECKING:
    from dragoman.bridge.bridge import Bridge


def _item(token: Token, caller: Caller) -> answers.TokenItem:
    return answers.TokenItem(
        id=token.id,
        name=token.name,
        scope=token.scope,
        created=token.created,
        used=token.used,
        current=token.id == caller.token_id,
    )


async def list_tokens(bridge: Bridge, said: asked.TokenList, caller: Caller) -> answers.Tokens:
    return answers.Tokens(tokens=tuple(_item(token, caller) for token in bridge.tokens.listed()))


async def create(bridge: Bridge, said: asked.TokenCreate, caller: Caller) -> answers.TokenMade:
    secret, token = await asyncio.to_thread(bridge.tokens.create, said.name, said.scope)
    return answers.TokenMade(token=secret, item=_item(token, caller))


async def revoke(bridge: Bridge, said: asked.TokenRevoke, caller: Caller) -> answers.Tokens:
    if not await asyncio.to_thread(bridge.tokens.revoke, said.token_id):
        raise Refusal("not_found", f"there is no token {said.token_id}", field="token_id")
    return answers.Tokens(tokens=tuple(_item(token, caller) for token in bridge.tokens.listed()))
