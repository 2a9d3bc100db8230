"""`Place`: where a server listens, and what follows from it: names, addresses, TLS."""

from __future__ import annotations

import ipaddress
import ssl
from pathlib import Path
from typing import Final

import msgspec

from dragoman.bridge.origin import Names, names_of
from dragoman.bridge.tls import machine_addresses, machine_names, own_certificate, server_context
from dragoman.errors import InputError

WILDCARDS: Final = ("0.0.0.0", "::")  # noqa: S104 - what the user may choose


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """`cert` and `key` are the user's own. `no_tls`: not on the network either, as a proxy has it."""

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
    def has_own_certificate(self) -> bool:
        """One of ours, in the home folder."""
        return self.cert is None and not self.no_tls and not self.is_loopback

    def addresses(self) -> tuple[str, ...]:
        """By which others reach it."""
        if self.is_loopback:
            return ()
        return machine_addresses() if self.host in WILDCARDS else (self.host,)

    def names(self) -> Names:
        """That it answers to."""
        own = [*self.allow_host, *(() if self.host in WILDCARDS else (self.host,))]
        if self.is_loopback:
            return names_of(own, any_address=False)
        return names_of([*own, *machine_names()], any_address=True)

    def certificate(self, home: Path) -> Path:
        """Our own, made or renewed where need be."""
        names = (*self.addresses(), *machine_names(), *self.allow_host, "localhost", "127.0.0.1", "::1")
        return own_certificate(home, names)

    def tls(self, home: Path) -> ssl.SSLContext | None:
        if self.has_own_certificate:
            return server_context(self.certificate(home), None)
        if self.cert is None:
            if self.key is not None:
                raise InputError("--key is given without --cert", guidance="Give both.")
            return None
        return server_context(Path(self.cert), Path(self.key) if self.key else None)
