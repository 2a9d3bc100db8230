"""`Auth`: who sends a request. A program shows its token in `Authorization: Bearer`, a browser in a cookie.

A token is taken from nowhere else: what stands in an address is in histories and logs. The cookie counts only for what
our own page sent (`origin`); a program that shows a token in a header is no page that could be tricked into it.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final
from urllib.parse import urlsplit

from starlette.requests import HTTPConnection
from starlette.responses import Response

from dragoman.bridge.attempts import Attempts
from dragoman.bridge.caller import Caller
from dragoman.bridge.origin import is_own_page
from dragoman.bridge.refusal import Refusal, refusal_of
from dragoman.bridge.tokens import BROWSER_LIFE, PREFIX, Token, Tokens
from dragoman.errors import ConfigError, DragomanError

logger = logging.getLogger(__name__)

# Names under which programs like to put a token into an address.
_QUERY_NAMES: Final = frozenset({"token", "access_token", "auth", "authorization", "bearer", "api_key", "key", "code"})

NEW_LINK: Final = "Get a new link on the machine where it runs: dragoman token link"


class Auth:
    """`port` is in the cookie's name: browsers hold one set of cookies for all ports of a machine."""

    def __init__(self, tokens: Tokens, attempts: Attempts, port: int) -> None:
        self._tokens = tokens
        self._attempts = attempts
        self.cookie = f"dragoman_{port}"

    async def caller(self, connection: HTTPConnection) -> Caller:
        """Raises `Refusal` where nobody is to be let in."""
        token = await self._shown(connection)
        if token is None:
            raise Refusal("unauthorized", "this needs a token", guidance=_how(connection))
        return Caller(token_id=token.id, name=token.name, scope=token.scope)

    def is_still_good(self, caller: Caller) -> bool:
        """For what was let in a while ago, and is still there."""
        return self._tokens.holds(caller.token_id)

    async def pair(self, connection: HTTPConnection, code: str, name: str) -> str | None:
        """A cookie for a pairing code. None where the code is not good, but the browser has its cookie already."""
        method = connection.scope.get("method", "GET")
        if not is_own_page(method, connection.headers):
            raise Refusal("forbidden", "a pairing code is taken from our own page only", guidance=NEW_LINK)
        try:
            made = await asyncio.to_thread(self._tokens.exchange, code, name)
        except DragomanError as problem:
            raise refusal_of(problem) from None
        old = self._by_cookie(connection)
        if made is not None:
            if old is not None:
                await asyncio.to_thread(self._tokens.revoke, old.id)
            return made[0]
        if old is not None:
            return None
        raise self._failed(connection, "this link was used before, or is too old", NEW_LINK)

    async def sign_out(self, connection: HTTPConnection) -> None:
        """Of a browser; its token is gone then."""
        method = connection.scope.get("method", "GET")
        token = self._by_cookie(connection)
        if token is not None and is_own_page(method, connection.headers):
            await asyncio.to_thread(self._tokens.revoke, token.id)

    def set_cookie(self, response: Response, secret: str, connection: HTTPConnection) -> None:
        # The page's own word on whether it came by TLS: a proxy may end it before us.
        secure = urlsplit(connection.headers.get("origin", "")).scheme == "https" or connection.url.scheme == "https"
        response.set_cookie(
            self.cookie, secret, max_age=int(BROWSER_LIFE), path="/", secure=secure, httponly=True, samesite="strict"
        )

    def clear_cookie(self, response: Response) -> None:
        response.delete_cookie(self.cookie, path="/", httponly=True, samesite="strict")

    async def _shown(self, connection: HTTPConnection) -> Token | None:
        scheme, _, secret = connection.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":  # another one is a proxy's own
            token = self._found(secret.strip())
            if token is None:
                raise self._failed(connection, "this token is not known here", "It may have been revoked.")
        else:
            token = self._by_cookie(connection)
            if token is None:
                if self.cookie in connection.cookies:
                    raise self._failed(connection, "this browser is not signed in any more", NEW_LINK)
                return None
            if not is_own_page(connection.scope.get("method", "GET"), connection.headers):
                raise Refusal(
                    "forbidden",
                    "another site's page sent this",
                    guidance="Programs show a token in the header Authorization: Bearer.",
                )
        if self._tokens.use_is_due(token):
            try:
                await asyncio.to_thread(self._tokens.write_use, token.id)
            except ConfigError as problem:  # a full disk, say: no reason to lock anyone out
                logger.warning("when a token was used cannot be written down: %s", problem)
        return token

    def _by_cookie(self, connection: HTTPConnection) -> Token | None:
        secret = connection.cookies.get(self.cookie)
        return None if secret is None else self._found(secret)

    def _found(self, secret: str) -> Token | None:
        try:
            return self._tokens.find(secret)
        except ConfigError as problem:
            raise Refusal("unavailable", str(problem), guidance=problem.guidance) from None

    def _failed(self, connection: HTTPConnection, message: str, guidance: str) -> Refusal:
        wait = self._attempts.fail(connection.client.host if connection.client else "")
        if wait is not None:
            return Refusal("too_fast", "too many wrong tokens from this address", retry_after=round(wait, 1))
        return Refusal("unauthorized", message, guidance=guidance)


def token_in_query(query: str) -> bool:
    """Whether an address holds what looks like a token."""
    return PREFIX in query or any(part.partition("=")[0].lower() in _QUERY_NAMES for part in query.split("&"))


def _how(connection: HTTPConnection) -> str:
    if "text/html" in connection.headers.get("accept", "") or "cookie" in connection.headers:
        return NEW_LINK
    return "Make one with `dragoman token create NAME`, and send it as Authorization: Bearer."
