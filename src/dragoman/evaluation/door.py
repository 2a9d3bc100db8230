"""Who may come in over HTTP: programs that have the token, and no page of any website.

An ASGI application around another one. A browser that was led here by a foreign name (DNS rebinding) sends that name
as Host; a page sends where it is from as Origin: both are turned away before the token is looked at.
"""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any, Final, TypeAlias

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
Application: TypeAlias = Callable[[Any, Receive, Send], Awaitable[None]]

PATH: Final = "/mcp"

_HOSTS: Final = ("127.0.0.1", "localhost")


class Door:
    def __init__(self, inside: Application, *, token: str, port: int) -> None:
        self._inside = inside
        self._token = token.encode()
        self._hosts = {f"{host}:{port}".encode() for host in _HOSTS}
        self._origins = {b"http://" + host for host in self._hosts}

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        refusal = self._refusal(scope["path"], scope["headers"])
        if refusal is None:
            await self._inside(scope, receive, send)
        else:
            await _refuse(send, *refusal)

    def _refusal(self, path: str, headers: Iterable[tuple[bytes, bytes]]) -> tuple[int, str] | None:
        """Status and reason. Names of headers are in lower case, as ASGI has them."""
        given: dict[bytes, list[bytes]] = {}
        for name, value in headers:
            given.setdefault(name, []).append(value)
        hosts = given.get(b"host", [])
        if len(hosts) != 1 or hosts[0].lower() not in self._hosts:
            return 403, "the Host is not this server's"
        if any(origin.lower() not in self._origins for origin in given.get(b"origin", ())):
            return 403, "the Origin is not this server's"
        if not self._has_token(given.get(b"authorization", [])):
            return 401, "the bearer token is missing or wrong"
        return None if path == PATH else (404, f"there is only {PATH}")

    def _has_token(self, headers: list[bytes]) -> bool:
        if len(headers) != 1:
            return False
        scheme, _, token = headers[0].partition(b" ")
        return scheme.lower() == b"bearer" and hmac.compare_digest(token.strip(), self._token)


async def _refuse(send: Send, status: int, reason: str) -> None:
    body = f"{reason}\n".encode()
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(body)).encode())]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
