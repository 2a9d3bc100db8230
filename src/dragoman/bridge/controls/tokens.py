"""`token.*`: who may come in, and with what scope."""

from __future__ import annotations

import asyncio
import hashlib
from typing import TYPE_CHECKING, Final

from dragoman.bridge import answers, asked
from dragoman.bridge.caller import Caller
from dragoman.bridge.refusal import Refusal
from dragoman.bridge.tokens import Token

if TYPE_CHECKING:
    from dragoman.bridge.bridge import Bridge

# Of the ids that derive from a command: long enough that none will ever be another token's.
_ID_LENGTH: Final = 16


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
    token_id = None
    if said.command_id is not None:
        # Sent again to a server that was restarted meanwhile, it makes no second one: the first was never told.
        token_id = hashlib.sha256(f"{caller.token_id} {said.command_id}".encode()).hexdigest()[:_ID_LENGTH]
    secret, token = await asyncio.to_thread(bridge.tokens.create, said.name, said.scope, token_id=token_id)
    return answers.TokenMade(token=secret, item=_item(token, caller))


async def revoke(bridge: Bridge, said: asked.TokenRevoke, caller: Caller) -> answers.Tokens:
    if not await asyncio.to_thread(bridge.tokens.revoke, said.token_id):
        raise Refusal("not_found", f"there is no token {said.token_id}", field="token_id")
    return answers.Tokens(tokens=tuple(_item(token, caller) for token in bridge.tokens.listed()))
