"""The origin of a request, as far as its headers tell. Pure.

A page of another site can make the browser send requests here, with the cookie; `is_own_page` detects these. A host
name whose owner points it at this machine makes such requests look like our own (DNS rebinding); `HostNames` detects
those.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from typing import Final
from urllib.parse import urlsplit

import msgspec

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
