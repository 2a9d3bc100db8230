"""`Caller`: who asks, and what they may."""

from __future__ import annotations

from typing import Final

import msgspec

from dragoman.bridge.messages import Scope
from dragoman.bridge.refusal import Refusal

# Each scope allows what those before it do.
SCOPES: Final[tuple[Scope, ...]] = ("view", "prompt", "admin")


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """`name` is the token's, for the log and for who answered what."""

    token_id: str
    name: str
    scope: Scope

    def require(self, scope: Scope, what: str) -> None:
        if SCOPES.index(self.scope) < SCOPES.index(scope):
            raise Refusal(
                "forbidden",
                f"{what} needs a token with the scope {scope}; this one has {self.scope}",
                guidance="Make one under Settings, Tokens; or with `dragoman token create`.",
            )
