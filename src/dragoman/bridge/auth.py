"""`Auth`: who sends a request. A program sends its token in `Authorization: Bearer`, a browser in a cookie.

A token is accepted from nowhere else: URLs are kept in histories and logs. The cookie is only valid for requests of our
own page (`origin.is_own_page`); a program that sends a token in a header cannot be tricked by a page into it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final
from urllib.parse import urlsplit

import msgspec
from starlette.requests import HTTPConnection
from starlette.responses import Response

from dragoman.bridge.connections import on_authenticated
from dragoman.bridge.refusal import Refusal, refusal_of
from dragoman.bridge.security import is_own_page
from dragoman.bridge.tokens import BROWSER_TOKEN_LIFE_S, Token, Tokens
from dragoman.errors import ConfigError, DragomanError
from dragoman.protocol.messages import Scope, includes

logger = logging.getLogger(__name__)

NEW_LINK: Final = "Get a new link on the server's machine: dragoman token link"

# A person with a wrong token in a script tries a few times; guessing one would take 2^255 attempts.
MAX_ATTEMPTS: Final = 10
ATTEMPT_WINDOW_S: Final = 60.0

# Addresses that are remembered; the one that failed longest ago is forgotten first.
MAX_ADDRESSES: Final = 4096


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """The client that sent a request, known by its token. `name` is the token's, for the log and the journal."""

    token_id: str
    name: str
    scope: Scope
    digest: str  # of the token: another token may be made under the same id

    def require(self, scope: Scope, action: str) -> None:
        """Raise a `Refusal` where the caller's scope does not include this one."""
        if not includes(self.scope, scope):
            raise Refusal(
                "forbidden",
                f"{action} needs a token with the scope {scope}; this one has {self.scope}",
                guidance="Make one under Settings, Tokens; or with `dragoman token create`.",
            )


class FailedAttempts:
    """Count of wrong tokens and codes per address, within a window of time.

    A right token is accepted however often others failed from the same address: on loopback every program and every
    page of the machine has the same one, and any of them could lock the user out.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._counts: OrderedDict[str, tuple[int, float]] = OrderedDict()  # and when the window began

    def add(self, address: str) -> float | None:
        """Count a failed attempt. Return the seconds to wait if it is one too many, else None."""
        now = self._clock()
        count, since = self._counts.pop(address, (0, now))
        if now - since >= ATTEMPT_WINDOW_S:
            count, since = 0, now
        self._counts[address] = (count + 1, since)
        while len(self._counts) > MAX_ADDRESSES:
            self._counts.popitem(last=False)
        return since + ATTEMPT_WINDOW_S - now if count >= MAX_ATTEMPTS else None


class Auth:
    """Authentication. `port` is in the cookie's name: browsers share cookies between all ports of a machine."""

    def __init__(self, tokens: Tokens, attempts: FailedAttempts, port: int) -> None:
        self._tokens = tokens
        self._attempts = attempts
        self.cookie = f"dragoman_{port}"

    async def caller(self, connection: HTTPConnection) -> Caller:
        """The caller of a request; a `Refusal` where it has no valid token."""
        token = await self._token(connection)
        if token is None:
            raise Refusal("unauthorized", "this request needs a token", guidance=_guidance(connection))
        on_authenticated(connection.scope)
        return Caller(token_id=token.id, name=token.name, scope=token.scope, digest=token.digest)

    def check(self, caller: Caller) -> None:
        """Raise a `Refusal` where the caller's token was revoked since its request came in."""
        if not self._tokens.has(caller.token_id, caller.digest, caller.scope):
            raise Refusal("unauthorized", "the token of this request was revoked")

    async def pair(self, connection: HTTPConnection, code: str, name: str) -> str | None:
        """The cookie for a pairing code; None where the code is invalid but the browser already has a valid cookie."""
        method = connection.scope.get("method", "GET")
        if not is_own_page(method, connection.headers):
            raise Refusal("forbidden", "a pairing code is only accepted from our own page", guidance=NEW_LINK)
        try:
            created = await asyncio.to_thread(self._tokens.exchange, code, name)
        except DragomanError as error:
            raise refusal_of(error) from None
        old = self._cookie_token(connection)
        if created is not None:
            if old is not None:
                await asyncio.to_thread(self._tokens.revoke, old.id)
            return created[0]
        if old is not None:
            return None
        raise self._failed(connection, "this link was already used, or has expired", NEW_LINK)

    async def sign_out(self, connection: HTTPConnection) -> None:
        """Revoke the token of a browser."""
        method = connection.scope.get("method", "GET")
        token = self._cookie_token(connection)
        if token is not None and is_own_page(method, connection.headers):
            await asyncio.to_thread(self._tokens.revoke, token.id)

    def set_cookie(self, response: Response, secret: str, connection: HTTPConnection) -> None:
        # Whether the page itself came by TLS: a proxy may end it before us.
        secure = urlsplit(connection.headers.get("origin", "")).scheme == "https" or connection.url.scheme == "https"
        response.set_cookie(
            self.cookie,
            secret,
            max_age=int(BROWSER_TOKEN_LIFE_S),
            path="/",
            secure=secure,
            httponly=True,
            samesite="strict",
        )

    def clear_cookie(self, response: Response) -> None:
        response.delete_cookie(self.cookie, path="/", httponly=True, samesite="strict")

    async def _token(self, connection: HTTPConnection) -> Token | None:
        scheme, _, secret = connection.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":  # another scheme is a proxy's
            token = self._find(secret.strip())
            if token is None:
                raise self._failed(connection, "this server does not know this token", "It may have been revoked.")
        else:
            token = self._cookie_token(connection)
            if token is None:
                if self.cookie in connection.cookies:
                    raise self._failed(connection, "this browser is no longer signed in", NEW_LINK)
                return None
            if not is_own_page(connection.scope.get("method", "GET"), connection.headers):
                raise Refusal(
                    "forbidden",
                    "a page of another site sent this request",
                    guidance="Programs send a token in the header Authorization: Bearer.",
                )
        if self._tokens.use_is_due(token):
            try:
                await asyncio.to_thread(self._tokens.write_use, token.id)
            except ConfigError as error:  # such as a full disk: no reason to lock anyone out
                logger.warning("the last use of a token cannot be stored: %s", error)
        return token

    def _cookie_token(self, connection: HTTPConnection) -> Token | None:
        secret = connection.cookies.get(self.cookie)
        return None if secret is None else self._find(secret)

    def _find(self, secret: str) -> Token | None:
        try:
            return self._tokens.find(secret)
        except ConfigError as error:
            raise Refusal("unavailable", str(error), guidance=error.guidance) from None

    def _failed(self, connection: HTTPConnection, message: str, guidance: str) -> Refusal:
        wait = self._attempts.add(connection.client.host if connection.client else "")
        if wait is not None:
            return Refusal("too_fast", "too many wrong tokens from this address", retry_after=round(wait, 1))
        return Refusal("unauthorized", message, guidance=guidance)


def _guidance(connection: HTTPConnection) -> str:
    if "text/html" in connection.headers.get("accept", "") or "cookie" in connection.headers:
        return NEW_LINK
    return "Make one with `dragoman token create NAME`, and send it as Authorization: Bearer."
