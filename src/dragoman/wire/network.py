"""Shared parts of the network transports: addresses, headers, keep-alive, and queues of lines in both directions.

Headers carry tokens; an address never does, so that it can be shown in messages, logs and snapshots.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
from collections import deque
from collections.abc import Mapping
from urllib.parse import urlsplit

import msgspec

from dragoman.errors import InputError

# Socket options by which the kernel notices within two minutes that a peer has vanished without closing (a laptop that
# went to sleep, an unplugged cable): it probes after 60 s of silence, then four times.
KEEP_ALIVE: tuple[tuple[int, int, int], ...] = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    # An option that macOS does not have keeps its default there.
    *(
        (socket.IPPROTO_TCP, getattr(socket, name), value)
        for name, value in (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 4))
        if hasattr(socket, name)
    ),
)

# Bytes that may wait in one direction before the writer of that direction has to wait.
HIGH_WATER_BYTES = 256 * 1024

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+\Z")
_LINE_BREAKS = re.compile(r"[\r\n\0]")
_EXAMPLE = "For example: ws://127.0.0.1:8000/acp or https://agents.example/acp"


# -- addresses and headers


class Address(msgspec.Struct, frozen=True):
    url: str
    scheme: str
    shown: str  # for messages: without the query, into which servers may have put a token
    is_loopback: bool


def parse_address(url: str, schemes: tuple[str, ...]) -> Address:
    """Return the address; raise `InputError` for another scheme, for credentials in it, or for an unreadable one."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port  # a port that is no number raises here
    except ValueError as error:
        raise InputError(f"the agent's address cannot be read: {error}", guidance=_EXAMPLE) from None
    if parts.scheme not in schemes or not host:
        allowed = ", ".join(f"{scheme}://" for scheme in schemes)
        raise InputError(f"the agent's address must begin with {allowed} and name a host", guidance=_EXAMPLE)
    if parts.username is not None or parts.password is not None:
        raise InputError(
            f"the address of {host} holds a user or password, which would end up in logs",
            guidance="Remove it from the address and pass it in headers, as Authorization.",
        )
    if parts.fragment:
        raise InputError(f"the address of {host} has a fragment (#…), which servers never see: remove it")
    return Address(url, parts.scheme, parts._replace(query="").geturl(), _is_loopback(host))


def check_headers(headers: Mapping[str, str] | None) -> dict[str, str]:
    """Return the headers if they can be sent. An error never repeats a value: it may be a token."""
    for name, value in (headers or {}).items():
        if not isinstance(name, str) or not _HEADER_NAME.match(name):
            raise InputError(f"{name!r} is not a valid HTTP header name")
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


# -- queues


class IncomingLines:
    """Lines that arrived from several sources, as one stream of bytes in the order of arrival.

    `put` waits while too much is unread, and so, over the network, does the other side.
    """

    def __init__(self) -> None:
        self._lines: list[bytes] = []
        self._size = 0
        self._ended = False
        self._readable = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()

    async def put(self, line: bytes) -> None:
        await self._room.wait()
        self._lines.append(line)
        self._lines.append(b"\n")
        self._size += len(line)
        self._readable.set()
        if self._size > HIGH_WATER_BYTES:
            self._room.clear()

    @property
    def is_full(self) -> bool:
        return not self._room.is_set()

    def end(self) -> None:
        self._ended = True
        self._readable.set()

    async def take(self) -> bytes:
        """Return all unread bytes; wait for the first. Return b"" after the end."""
        await self._readable.wait()
        data = b"".join(self._lines)
        self._lines.clear()
        self._size = 0
        if not self._ended:
            self._readable.clear()
        self._room.set()
        return data


class OutgoingLines:
    """Bytes to send, as whole lines, one at a time and in order. A writer that is too far ahead waits in `drain`."""

    def __init__(self) -> None:
        self._lines: deque[bytes] = deque()
        self._unfinished = b""  # the beginning of a line whose end has not been written yet
        self._size = 0
        self._closed = False
        self._changed = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()

    def put(self, data: bytes) -> None:
        if self._closed:
            return
        *lines, self._unfinished = (self._unfinished + data).split(b"\n")
        for line in lines:
            if line.strip():
                self._lines.append(line)
                self._size += len(line)
        self._changed.set()
        if self._size > HIGH_WATER_BYTES:
            self._room.clear()

    async def next_line(self) -> bytes | None:
        """Return the next line without its newline; None after `close`, when all were taken.

        The line counts as waiting until `mark_sent` is called.
        """
        while not self._lines:
            if self._closed:
                return None
            self._changed.clear()
            await self._changed.wait()
        return self._lines[0]

    def mark_sent(self) -> None:
        if self._lines:  # else all was abandoned meanwhile
            self._size -= len(self._lines.popleft())
        if self._size <= HIGH_WATER_BYTES:
            self._room.set()

    async def drain(self) -> None:
        await self._room.wait()

    def close(self) -> None:
        """Accept no more lines; those that wait are still to be sent."""
        self._closed = True
        self._changed.set()

    def abandon(self) -> None:
        """Discard the lines that wait: the other side has ended."""
        self._lines.clear()
        self._size = 0
        self._room.set()
        self.close()
