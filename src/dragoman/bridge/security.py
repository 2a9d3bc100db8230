"""`SecurityMiddleware`: checks that hold for every request, whoever sent it. An ASGI layer around everything else.

It refuses host names that are not the server's, headers that are too large and URLs that contain a token; adds the
headers that keep pages and scripts of other sites out to every response; and writes the access log and its figures.
"""

from __future__ import annotations

import logging
import time
from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dragoman.bridge.metrics import Metrics
from dragoman.bridge.origin import HostNames
from dragoman.bridge.refusal import Refusal
from dragoman.bridge.responses import refusal_response
from dragoman.bridge.tokens import TOKEN_PREFIX

# Browsers send one or two KiB; the server's parser stops at twice this.
MAX_HEADER_BYTES: Final = 32 * 1024

# Nothing inline, nothing from other sites. `style-src-attr` is for libraries of the page that set style attributes
# (rows of a terminal, heights of a virtual list): a style can hide something, but not run anything.
CONTENT_SECURITY_POLICY: Final = "; ".join(
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
SECURITY_HEADERS: Final = {
    "content-security-policy": CONTENT_SECURITY_POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), payment=(), usb=()",
}

# Names under which programs like to put a token into a URL.
_TOKEN_NAMES: Final = frozenset({"token", "access_token", "auth", "authorization", "bearer", "api_key", "key", "code"})

# Methods that are counted by name: a client could make up any number of others.
COUNTED_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})

access_log = logging.getLogger("dragoman.access")


class SecurityMiddleware:
    def __init__(self, app: ASGIApp, host_names: HostNames, metrics: Metrics) -> None:
        self._app = app
        self._host_names = host_names
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        started = time.monotonic()
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
                for name, value in SECURITY_HEADERS.items():
                    headers.setdefault(name, value)
                if unread:  # answered before the whole body was sent: the rest is not read
                    headers["connection"] = "close"
            elif message["type"] == "websocket.accept":
                status = 101
            await send(message)

        try:
            refusal = self._check(scope)
            if refusal is None:
                await self._app(scope, read, answer)
            else:
                await refusal_response(*refusal)(scope, receive, answer)
        finally:
            self._log(scope, status, time.monotonic() - started)

    def _check(self, scope: Scope) -> tuple[Refusal, int | None] | None:
        headers = Headers(scope=scope)
        if sum(len(name) + len(value) for name, value in scope["headers"]) > MAX_HEADER_BYTES:
            return Refusal("too_large", "the headers of this request are too large"), 431
        if len(headers.getlist("host")) != 1 or not self._host_names.allow(headers["host"]):
            return Refusal(
                "forbidden",
                "the Host header of the request is not a name of this server",
                guidance="If it is one, start the server with --allow-host NAME.",
            ), 421
        if has_token(scope["query_string"].decode("latin-1")):
            return Refusal(
                "invalid",
                "the URL of this request contains a token or a code, which ends up in logs",
                guidance="Revoke it, and send a new one in the header Authorization: Bearer.",
            ), None
        return None

    def _log(self, scope: Scope, status: int, seconds: float) -> None:
        """Log without the query, which may contain secrets; the path is not decoded, since it may contain line ends."""
        kind = (
            "socket"
            if scope["type"] == "websocket"
            else scope["method"]
            if scope["method"] in COUNTED_METHODS
            else "other"
        )
        path = scope["raw_path"].decode("latin-1")
        client = scope["client"][0] if scope.get("client") else "-"
        if kind != "socket":
            self._metrics.http_seconds.observe(seconds)
        self._metrics.http_requests.labels(method=kind, status=str(status)).inc()
        access_log.info(
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


def has_token(query: str) -> bool:
    """Return whether the query of a URL contains what looks like a token."""
    return TOKEN_PREFIX in query or any(part.partition("=")[0].lower() in _TOKEN_NAMES for part in query.split("&"))
