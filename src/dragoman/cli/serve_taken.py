"""What to say of a port that is taken: whether it is Dragoman that has it, and what to do."""

from __future__ import annotations

import contextlib
import http.client
import ssl
from pathlib import Path

import msgspec

from dragoman.bridge.http import Health
from dragoman.bridge.place import WILDCARDS, Place
from dragoman.bridge.running import servers


def who_has_it(place: Place, home: Path) -> str:
    port = place.port
    another = f"  Choose another port: dragoman serve --port {port + 1 if port < 65535 else 0}"
    own = next((one for one in servers(home) if one.port == port), None)
    if own is not None:
        return f"dragoman: it runs already, as process {own.pid}: {own.url}\n  For a link to it: dragoman token link"
    if (health := _health("127.0.0.1" if place.host in WILDCARDS else place.host, port)) is not None:
        return (
            f"dragoman: port {port} is taken by another Dragoman ({health.version}), of another user or with another "
            f"home folder.\n{another}"
        )
    return f"dragoman: port {port} is taken by another program.\n{another}"


def _health(host: str, port: int) -> Health | None:
    """What answers there, where it is Dragoman. Nothing is told to it, so that its certificate does not matter."""
    unverified = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    unverified.check_hostname, unverified.verify_mode = False, ssl.CERT_NONE
    for asking in (
        http.client.HTTPConnection(host, port, timeout=1),
        http.client.HTTPSConnection(host, port, timeout=1, context=unverified),
    ):
        with contextlib.closing(asking):
            try:
                asking.request("GET", "/v1/health")
                return msgspec.json.decode(asking.getresponse().read(10_000), type=Health)
            except (OSError, http.client.HTTPException, msgspec.MsgspecError):
                continue
    return None
