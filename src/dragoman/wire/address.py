"""Where a remote agent is, and what we say to be let in: the parts of a connection that may hold a secret.

Headers carry tokens; an address never does, so that it can stand in messages, logs and snapshots.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Mapping
from urllib.parse import urlsplit

import msgspec

from dragoman.errors import InputError

# What HTTP allows as a header's name.
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+\Z")
_LINE_BREAKS = re.compile(r"[\r\n\0]")


# For the kernel to notice within two minutes that a peer has vanished without a word (a laptop that went to sleep, a
# cut cable): it asks after a minute of silence, then four times.
KEEP_ALIVE: tuple[tuple[int, int, int], ...] = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    # What is unsaid on macOS takes its default there.
    *(
        (socket.IPPROTO_TCP, getattr(socket, name), value)
        for name, value in (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 4))
        if hasattr(socket, name)
    ),
)


class Address(msgspec.Struct, frozen=True):
    url: str
    scheme: str
    shown: str  # the same for people: without a query, which servers may have put a token into
    loopback: bool


def read_address(url: str, schemes: tuple[str, ...]) -> Address:
    """The address, if it is one of these schemes and holds no credentials."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port  # a port that is no number raises here
    except ValueError as problem:
        raise InputError(f"the agent's address cannot be read: {problem}", guidance=_EXAMPLE) from None
    if parts.scheme not in schemes or not host:
        known = ", ".join(f"{scheme}://" for scheme in schemes)
        raise InputError(f"the agent's address must begin with {known} and name a host", guidance=_EXAMPLE)
    if parts.username is not None or parts.password is not None:
        raise InputError(
            f"the address of {host} holds a user or password, which would end up in logs",
            guidance="Take it out of the address and pass it in headers, as Authorization.",
        )
    if parts.fragment:
        raise InputError(f"the address of {host} has a fragment (#…), which no server sees: leave it out")
    return Address(url, parts.scheme, parts._replace(query="").geturl(), _is_loopback(host))


def check_headers(headers: Mapping[str, str] | None) -> dict[str, str]:
    """The same headers, if they can be sent. A value is never repeated in a message: it may be a token."""
    for name, value in (headers or {}).items():
        if not isinstance(name, str) or not _TOKEN.match(name):
            raise InputError(f"{name!r} is no name of an HTTP header")
        if not isinstance(value, str) or _LINE_BREAKS.search(value) or not value.isascii():
            raise InputError(f"the value of header {name} must be ASCII text on one line")
    return dict(headers or {})


def _is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


_EXAMPLE = "For example: ws://127.0.0.1:8000/acp or https://agents.example/acp"
