"""A page that an agent wants a person to open: its address, fit to be shown and judged.

Promised: what is read here is what a browser would open, and `host` is where that is. Where the two could be read
differently (a user before the host, backslashes, characters that cannot be seen), the address is refused.
"""

from __future__ import annotations

import ipaddress
import re
from typing import Final
from urllib.parse import urlsplit

import msgspec

from dragoman.host.refusals import invalid

# Of an address as it stands on the wire; all else is written with a percent sign.
_ALLOWED: Final = re.compile(r"[!#$%&'()*+,\-./0-9:;=?@A-Z\[\]_a-z~]+\Z")
_HOST: Final = re.compile(r"[0-9a-z.:_-]+\Z")

# Browsers take no longer ones, and nobody judges what they cannot read to its end.
LONGEST: Final = 8_000


class Page(msgspec.Struct, frozen=True):
    """`id` is the agent's name for the visit, by which it says when that is done."""

    id: str
    url: str
    host: str  # as it is looked up: letters that look like others show as xn--…


def read_page(id: str, url: str) -> Page:
    """Raises the refusal for an address that nobody should be sent to."""
    if len(url) > LONGEST:
        raise invalid("url", f"has {len(url)} characters; at most {LONGEST} can be shown to a person")
    ascii_url = _with_ascii_host(url)
    if not _ALLOWED.match(ascii_url):
        raise invalid("url", f"{url!r} has characters that an address cannot have as they stand")
    try:
        parts = urlsplit(ascii_url)
        host, _ = parts.hostname or "", parts.port  # a port that is no number raises here
    except ValueError as problem:
        raise invalid("url", f"{url!r} cannot be read: {problem}") from None
    if not _HOST.match(host) or not parts.netloc:
        raise invalid("url", f"{url!r} names no host")
    if "@" in parts.netloc:
        raise invalid("url", f"{url!r} has a user before its host {host}, which makes it look like another one")
    if parts.scheme != "https" and not (parts.scheme == "http" and _is_loopback(host)):
        raise invalid("url", f"{url!r} is neither https nor on this machine: people are not sent there")
    return Page(id, ascii_url, host)


def _with_ascii_host(url: str) -> str:
    """The host as it is looked up. Whatever is wrong with the rest is found afterwards."""
    if url.isascii():
        return url
    head, separator, rest = url.partition("://")
    host = re.split(r"[/?#:\\@]", rest, maxsplit=1)[0]
    try:
        # Letters that are also told apart by nobody else (ß, ZWJ) are refused rather than mapped to their neighbours.
        encoded = host.encode("idna").decode("ascii")
        if encoded.encode("ascii").decode("idna") != host.lower():
            return url
    except UnicodeError:
        return url
    return f"{head}{separator}{encoded}{rest[len(host) :]}"


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
