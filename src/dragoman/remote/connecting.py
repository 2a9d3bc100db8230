"""How a connection to a server comes about: its address, the token, TLS, and the greeting."""

from __future__ import annotations

import asyncio
import hashlib
import re
import ssl
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import msgspec

from dragoman.bridge.messages import PROTOCOL, ErrorBody, Hello
from dragoman.errors import DragomanError, InputError, ServerRefused, ServerUnreachable
from dragoman.remote.refused import error_of
from dragoman.wire.network import Address, check_headers, parse_address

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection

PATH: Final = "/v1/socket"
_SCHEMES: Final = {"http": "ws", "https": "wss", "ws": "ws", "wss": "wss"}
_EXAMPLE: Final = "It is what `dragoman serve` prints, such as http://127.0.0.1:8421"

_SHA256: Final = re.compile(r"[0-9a-f]{64}")

# Seconds for a connection to stand, and for the server to greet.
GREETED: Final = 10.0

# Seconds without a sign of the server after which the connection counts as gone (a laptop that slept, a cut cable).
SILENCE: Final = 20.0

# Seconds to take leave. A server that does not answer that is left without.
LEAVE: Final = 2.0


class _Refusal(msgspec.Struct, frozen=True):
    """What an HTTP answer says that is no success."""

    error: ErrorBody


def read_url(url: str) -> Address:
    """The server's socket, of the address that a person knows it by."""
    scheme, separator, rest = str(url).partition("://")
    if not separator or scheme not in _SCHEMES:
        raise InputError(f"the server's address is {url!r}; it begins with http:// or https://", guidance=_EXAMPLE)
    parse_address(url, tuple(_SCHEMES))  # without a user, a password, a fragment
    return parse_address(f"{_SCHEMES[scheme]}://{rest.partition('?')[0].rstrip('/')}{PATH}", ("ws", "wss"))


class Connecting:
    """`fingerprint` is that of the certificate of a server that made its own."""

    def __init__(self, url: str, token: str, fingerprint: str | None = None) -> None:
        self.address = read_url(url)
        if not isinstance(token, str) or not token.strip():
            raise InputError("a token is needed", guidance="On the server: dragoman token create NAME --scope prompt")
        self._headers = check_headers({"Authorization": f"Bearer {token.strip()}"})
        self._digest = _digest(fingerprint, self.address)
        self._tls = ssl.create_default_context() if self.address.scheme == "wss" else None

    async def connect(self) -> ClientConnection:
        """A connection on which the server has greeted. `ServerUnreachable` where trying again may help."""
        # Loaded here: a program that names `Client` and never uses it pays nothing.
        from websockets.asyncio.client import connect
        from websockets.exceptions import InvalidStatus, WebSocketException

        class Connect(connect):
            def process_redirect(self, exc: Exception) -> Exception:
                return exc  # not followed: the token is for the host that was named

        try:
            async with asyncio.timeout(GREETED):
                if self._digest is not None:
                    self._tls = await self._known(self._digest)
                socket = await Connect(
                    self.address.url,
                    additional_headers=self._headers,
                    ssl=self._tls,
                    max_size=None,
                    # What is said is worth less than the time to pack it, where there is no network in between.
                    compression=None if self.address.is_loopback else "deflate",
                    proxy=None if self.address.is_loopback else True,
                    open_timeout=None,
                    ping_interval=SILENCE,
                    ping_timeout=SILENCE,
                    close_timeout=LEAVE,
                )
                try:
                    self._greeted(await socket.recv(decode=False))
                except BaseException:
                    socket.transport.abort()
                    raise
                return socket
        except InvalidStatus as refusal:
            raise self._refused(refusal.response.status_code, bytes(refusal.response.body or b"")) from None
        except ssl.SSLCertVerificationError as problem:
            raise InputError(
                f"nobody we trust vouches for the certificate of {self.address.shown}: {problem.verify_message}",
                guidance="Pass fingerprint=…: what `dragoman serve` prints where it runs.",
            ) from None
        except TimeoutError:
            raise self._unreachable(f"no answer within {GREETED:g} s") from None
        except (OSError, WebSocketException) as problem:
            raise self._unreachable(str(problem)) from None

    async def _known(self, digest: str) -> ssl.SSLContext:
        """Trusts the certificate of this digest, and no other. It is looked at first: the token goes with the very
        first words of a connection, and must not go to anyone else."""
        parts = urlsplit(self.address.url)
        stranger = ssl.create_default_context()
        stranger.check_hostname = False
        stranger.verify_mode = ssl.CERT_NONE
        _, writer = await asyncio.open_connection(parts.hostname, parts.port or 443, ssl=stranger)
        certificate: bytes = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        writer.transport.abort()
        if hashlib.sha256(certificate).hexdigest() != digest:
            raise InputError(
                f"the certificate of {self.address.shown} has another fingerprint than the one that was given",
                guidance="Compare it with what `dragoman serve` prints there; it is new after some years.",
            )
        trusting = ssl.create_default_context(cadata=certificate)
        trusting.check_hostname = False  # whatever names are in it: it is this one
        return trusting

    def _greeted(self, said: bytes) -> None:
        try:
            hello = msgspec.json.decode(said, type=Hello)
        except msgspec.MsgspecError as problem:
            raise self._unreachable(f"what answers there is no Dragoman server: {problem}") from None
        if hello.protocol != PROTOCOL:
            older = "the server" if hello.protocol < PROTOCOL else "this Dragoman"
            raise InputError(
                f"the server at {self.address.shown} ({hello.version}) speaks protocol {hello.protocol}, we {PROTOCOL}",
                guidance=f"Update {older}.",
            )

    def _unreachable(self, why: str) -> ServerUnreachable:
        return ServerUnreachable(
            f"cannot connect to {self.address.shown}: {why}",
            guidance=f"Look whether `dragoman serve` runs there, and at the address. {_EXAMPLE}",
        )

    def _refused(self, status: int, body: bytes) -> DragomanError:
        try:
            said = error_of(msgspec.json.decode(body, type=_Refusal).error)
        except msgspec.MsgspecError:
            return self._unreachable(f"it answered with HTTP {status}, and is no Dragoman server, or a busy one")
        if isinstance(said, ServerRefused) and said.kind == "unavailable":
            return self._unreachable(str(said))
        return said


def _digest(fingerprint: str | None, address: Address) -> str | None:
    if fingerprint is None:
        return None
    plain = fingerprint.replace(":", "").strip().lower()
    if address.scheme != "wss" or not _SHA256.fullmatch(plain):
        raise InputError(
            "fingerprint is the SHA-256 of a certificate, 32 numbers in hex, and only for https://",
            guidance="`dragoman serve --host 0.0.0.0` prints it.",
        )
    return plain
