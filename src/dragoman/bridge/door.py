"""`Door`: what holds for every request, before anyone asks who sent it. An ASGI layer around all the rest.

It refuses names that are not ours, headers that are too large, and addresses with a token in them; puts the headers
that keep other sites' pages and scripts out on every answer; and writes the access log and its figures.
"""

from __future__ import annotations

import logging
import time
from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dragoman.bridge.auth import token_in_query
from dragoman.bridge.metrics import Metrics
from dragoman.bridge.origin import Names
from dragoman.bridge.refusal import Refusal
from dragoman.bridge.reply import refused

# Browsers send one or two KiB; the server's parser stops at twice this when it comes in pieces.
MOST_HEADER_BYTES: Final = 32 * 1024

# Nothing inline, nothing from elsewhere. `style-src-attr` is for libraries of the page that write style attributes
# (a terminal's rows, a virtual list's heights) into markup: a style can hide something, but run nothing.
POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "connect-src 'self'",
        "img-src 'self' data: blob:",
        "media-src 'self' data: blob:",
        "style-src 'self'",
        "style-src-attr 'unsafe-inline'",
        "font-src 'self' data:",
        "manifest-src 'self'",
        "worker-src 'self'",
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
    )
)
HEADERS: Final = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), payment=(), usb=()",
}

# Of the figures' labels: a client may make up any number of others.
METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})

access = logging.getLogger("dragoman.access")


class Door:
    def __init__(self, inside: ASGIApp, names: Names, metrics: Metrics) -> None:
        self._inside = inside
        self._names = names
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._inside(scope, receive, send)
            return
        began = time.monotonic()
        status = 0
        unread = _has_body(Headers(scope=scope))

        async def read() -> Message:
            nonlocal unread
            message = await receive()
            if message["type"] == "http.request" and not message.get("more_body"):
                unread = False
            return message

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] in ("http.response.start", "websocket.http.response.start"):
                status = message["status"]
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                if unread:  # what is answered before all was sent is all that is said: nobody reads the rest
                    headers["connection"] = "close"
            elif message["type"] == "websocket.accept":
                status = 101
            await send(message)

        try:
            refusal = self._judge(scope)
            if refusal is None:
                await self._inside(scope, read, answer)
            else:
                await _refuse(refusal, scope, receive, answer)
        finally:
            self._write_down(scope, status, time.monotonic() - began)

    def _judge(self, scope: Scope) -> tuple[Refusal, int | None] | None:
        headers = Headers(scope=scope)
        if sum(len(name) + len(value) for name, value in scope["headers"]) > MOST_HEADER_BYTES:
            return Refusal("too_large", "the headers of this request are too large"), 431
        if len(headers.getlist("host")) != 1 or not self._names.allow(headers["host"]):
            return Refusal(
                "forbidden",
                "this server does not go by the name in the request's Host header",
                guidance="Start it with --allow-host NAME, where that is a name of it.",
            ), 421
        if token_in_query(scope["query_string"].decode("latin-1")):
            return Refusal(
                "invalid",
                "a token or a code stands in the address of this request, where it is written into logs",
                guidance="Revoke it, and send another in the header Authorization: Bearer.",
            ), None
        return None

    def _write_down(self, scope: Scope, status: int, seconds: float) -> None:
        """Never with the query: people put anything there. The path as it was sent: decoded, it could hold lines."""
        kind = "socket" if scope["type"] == "websocket" else scope["method"] if scope["method"] in METHODS else "other"
        path = scope["raw_path"].decode("latin-1")
        client = scope["client"][0] if scope.get("client") else "-"
        if kind != "socket":
            self._metrics.http_seconds.observe(seconds)
        self._metrics.http_requests.add(1, method=kind, status=str(status))
        access.info(
            "%s %s %s from %s in %.0f ms",
            kind,
            path,
            status,
            client,
            seconds * 1000,
            extra={"fields": {"method": kind, "path": path, "status": status, "client": client}},
        )


def _has_body(headers: Headers) -> bool:
    return "transfer-encoding" in headers or headers.get("content-length", "0") != "0"


async def _refuse(refusal: tuple[Refusal, int | None], scope: Scope, receive: Receive, send: Send) -> None:
    await refused(*refusal)(scope, receive, send)
