"""`SecurityMiddleware`: checks that hold for every request of every client. An ASGI layer around everything else.

It refuses host names that are not the server's, headers that are too large and URLs that contain a token; adds the
headers that keep pages and scripts of other sites out to every response; and writes the access log and its figures.

A page of another site can make the browser send requests here, with the cookie; `is_own_page` detects these. A host
name whose owner points it at this machine makes such requests look like our own (DNS rebinding); `HostNames` detects
those.
"""

from __future__ import annotations

import ipaddress
import logging
import time
from collections.abc import Iterable, Mapping
from typing import Final
from urllib.parse import quote, unquote, urlsplit

import msgspec
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dragoman.bridge.refusal import Refusal
from dragoman.bridge.responses import refusal_response
from dragoman.bridge.telemetry import Metrics
from dragoman.bridge.tokens import TOKEN_PREFIX

SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_LOOPBACK_NAMES: Final = frozenset({"localhost", "localhost.localdomain", "ip6-localhost"})
_DEFAULT_PORTS: Final = {"http": 80, "https": 443, "ws": 80, "wss": 443}


class HostNames(msgspec.Struct, frozen=True, kw_only=True):
    """The host names of this server. `any_address`: it listens on the network, where clients may reach it by an IP
    address that it does not know itself (of a container's host, of a router). An IP address cannot be rebound: a page
    that came from an address was served by it."""

    own: frozenset[str] = frozenset()
    any_address: bool = False

    def allow(self, host_header: str | None) -> bool:
        name = host_of(host_header or "")
        if name is None:
            return False
        if name in _LOOPBACK_NAMES or name.endswith(".localhost") or name in self.own:
            return True
        address = _address(name)
        return address is not None and (address.is_loopback or self.any_address)


def host_names(names: Iterable[str], *, any_address: bool) -> HostNames:
    return HostNames(own=frozenset(name.lower().rstrip(".").strip("[]") for name in names), any_address=any_address)


def host_of(host_header: str) -> str | None:
    """The name in a Host header, or the IP address without brackets; None where the header is malformed."""
    try:
        parts = urlsplit(f"//{host_header}")
        port = parts.port  # raises where it is not a number
    except ValueError:
        return None
    if parts.netloc != host_header or "@" in host_header or not parts.hostname or port == 0:
        return None
    if "]" in host_header and host_header.rpartition("]")[2][:1] not in ("", ":"):
        return None  # `[::1].example.org`
    return parts.hostname.lower().rstrip(".")


def is_own_page(method: str, headers: Mapping[str, str]) -> bool:
    """Return whether a request with our cookie was made by our own page, or by the user directly.

    Browsers send `Origin` with everything but plain GETs, and sockets always; `Sec-Fetch-Site` with everything, but
    not over plain HTTP from the network.
    """
    site = headers.get("sec-fetch-site")
    is_socket = headers.get("upgrade", "").lower() == "websocket"
    is_safe = method in SAFE_METHODS and not is_socket
    if site is not None and site != "same-origin" and not (site == "none" and is_safe):
        return False
    origin = headers.get("origin")
    if origin is not None:
        return _is_same_origin(origin, headers.get("host", ""))
    return is_safe or (site == "same-origin" and not is_socket)


def _is_same_origin(origin: str, host_header: str) -> bool:
    """Compare hosts and ports. Schemes are not compared: behind a proxy that ends TLS they differ."""
    try:
        parts = urlsplit(origin)
        default = _DEFAULT_PORTS.get(parts.scheme)
        host = urlsplit(f"//{host_header}")
        if default is None or not parts.hostname:
            return False
        return (parts.hostname, parts.port or default) == (host.hostname, host.port or default)
    except ValueError:
        return False


def _address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(name.partition("%")[0])
    except ValueError:
        return None


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

# Times that a part of a URL may be quoted, and a token in it is still recognised.
MAX_QUOTING: Final = 4

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
        if has_token(_path(scope), scope["query_string"].decode("latin-1")):
            return Refusal(
                "invalid",
                "the URL of this request contains a token or a code, which ends up in logs",
                guidance="Revoke it, and send a new one in the header Authorization: Bearer.",
            ), None
        return None

    def _log(self, scope: Scope, status: int, seconds: float) -> None:
        """Log without the query, which may contain secrets; the path stays quoted, since it may contain line ends."""
        kind = (
            "socket"
            if scope["type"] == "websocket"
            else scope["method"]
            if scope["method"] in COUNTED_METHODS
            else "other"
        )
        path = _path(scope)
        if has_token(path):
            path = quote(_decoded(path))  # plain, so that the log can redact it
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


def has_token(path: str, query: str = "") -> bool:
    """Return whether the path or the query of a URL contains what looks like a token, however it is quoted."""
    query = _decoded(query)
    return TOKEN_PREFIX in _decoded(path) + query or any(
        part.partition("=")[0].lower() in _TOKEN_NAMES for part in query.split("&")
    )


def _path(scope: Scope) -> str:
    raw: bytes = scope["raw_path"]
    return raw.decode("latin-1")


def _decoded(text: str) -> str:
    """Return a part of a URL without its quoting, also where it was quoted several times."""
    for _ in range(MAX_QUOTING):
        if "%" not in text:
            break
        text = unquote(text)
    return text
