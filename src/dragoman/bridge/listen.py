"""The address that a server listens on, the registry of running servers, and links and QR codes to them."""

from __future__ import annotations

import ipaddress
import os
import ssl
from pathlib import Path
from typing import Final

import msgspec

from dragoman.bridge.security import HostNames, host_names
from dragoman.bridge.tls import generated_certificate, machine_addresses, machine_names, server_context
from dragoman.errors import InputError
from dragoman.fileio import LockedJsonFile
from dragoman.proc._reaper_main import start_time

FILE_NAME: Final = "servers.json"
WILDCARDS: Final = ("0.0.0.0", "::")  # noqa: S104 - the user may choose them


class ListenAddress(msgspec.Struct, frozen=True, kw_only=True):
    """Host and port that a server listens on. `cert` and `key` are the user's own; `no_tls`: a proxy does TLS."""

    host: str
    port: int
    cert: str | None = None
    key: str | None = None
    no_tls: bool = False
    allow_host: tuple[str, ...] = ()

    @property
    def is_loopback(self) -> bool:
        try:
            return self.host == "localhost" or ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def uses_generated_certificate(self) -> bool:
        """The server uses the certificate that Dragoman generates in the home folder."""
        return self.cert is None and not self.no_tls and not self.is_loopback

    def addresses(self) -> tuple[str, ...]:
        """The IP addresses by which other machines reach the server."""
        if self.is_loopback:
            return ()
        if self.host not in WILDCARDS:
            return (self.host,)
        # The address of all interfaces for IPv6 is reached by IPv4 as well, but not the other way round.
        return tuple(address for address in machine_addresses() if self.host == "::" or ":" not in address)

    def host_names(self) -> HostNames:
        """The host names that the server accepts."""
        own = [*self.allow_host, *(() if self.host in WILDCARDS else (self.host,))]
        if self.is_loopback:
            return host_names(own, any_address=False)
        return host_names([*own, *machine_names()], any_address=True)

    def certificate(self, home: Path) -> Path:
        """The generated certificate, created or renewed where necessary."""
        names = (*self.addresses(), *machine_names(), *self.allow_host, "localhost", "127.0.0.1", "::1")
        return generated_certificate(home, names)

    def tls(self, home: Path) -> ssl.SSLContext | None:
        if self.uses_generated_certificate:
            return server_context(self.certificate(home), None)
        if self.cert is None:
            if self.key is not None:
                raise InputError("--key needs --cert", guidance="Give both.")
            return None
        return server_context(Path(self.cert), Path(self.key) if self.key else None)


class ServerEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A running server. `addresses`: by which other machines reach it; empty where it listens on loopback only."""

    pid: int
    started: str
    tls: bool
    host: str
    port: int
    addresses: tuple[str, ...] = ()

    @property
    def url(self) -> str:
        """The URL on this machine."""
        return self.url_at("127.0.0.1" if self.host in WILDCARDS else self.host)

    def url_at(self, name: str) -> str:
        return f"http{'s' if self.tls else ''}://{_bracketed(name)}:{self.port}"

    def link(self, code: str, name: str | None = None) -> str:
        """A link that pairs a browser, once. The code follows the `#`, which browsers do not send to servers."""
        return f"{self.url if name is None else self.url_at(name)}/pair#{code}"

    @property
    def is_running(self) -> bool:
        """The process exists. Its start time is compared, too: process ids are reused."""
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            pass  # it belongs to another user, and exists
        return self.started in ("0", str(start_time(self.pid)))


class _RegistryFile(msgspec.Struct, frozen=True):
    servers: tuple[ServerEntry, ...] = ()


class ServerRegistry:
    """The servers that run on a home folder: its `servers.json`. Other processes look up the server's URL there."""

    def __init__(self, home: Path) -> None:
        self._file = LockedJsonFile(home / FILE_NAME, _RegistryFile())

    def running(self) -> tuple[ServerEntry, ...]:
        return tuple(server for server in self._file.read().servers if server.is_running)

    def add(self, server: ServerEntry) -> None:
        self._file.change(lambda content: _RegistryFile((*_others(content, server), server)))

    def remove(self, server: ServerEntry) -> None:
        self._file.change(lambda content: _RegistryFile(_others(content, server)))


def this_server(*, tls: bool, host: str, port: int, addresses: tuple[str, ...]) -> ServerEntry:
    """The entry of this process."""
    pid = os.getpid()
    return ServerEntry(pid=pid, started=str(start_time(pid)), tls=tls, host=host, port=port, addresses=addresses)


def _others(content: _RegistryFile, server: ServerEntry) -> tuple[ServerEntry, ...]:
    return tuple(other for other in content.servers if other.is_running and other != server)


def _bracketed(name: str) -> str:
    try:
        return f"[{name}]" if ipaddress.ip_address(name).version == 6 else name
    except ValueError:
        return name


# -- QR codes

_HALVES = {(True, True): "█", (True, False): "▀", (False, True): "▄", (False, False): " "}


def qr_lines(text: str) -> list[str] | None:
    """A QR code as lines of half blocks, light on dark; None where `segno` is not installed."""
    try:
        import segno
    except ImportError:
        return None
    code = segno.make(text, error="l", micro=False)
    # Readers expect a margin of four; two are enough on a dark terminal, and fit on small ones.
    rows = [list(row) for row in code.matrix_iter(border=2)]
    if len(rows) % 2:
        rows.append([0] * len(rows[0]))
    # Light modules are drawn, dark ones are left empty: most terminals are dark.
    return [
        "".join(_HALVES[(not upper, not lower)] for upper, lower in zip(above, below, strict=True))
        for above, below in zip(rows[::2], rows[1::2], strict=True)
    ]
