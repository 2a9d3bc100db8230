"""Which servers run on a home folder: its `servers.json`. By it another process finds out where a link leads to."""

from __future__ import annotations

import ipaddress
import os
from pathlib import Path
from typing import Final

import msgspec

from dragoman.fileio import LockedJsonFile
from dragoman.proc._reaper_main import start_time

FILE_NAME: Final = "servers.json"


class Running(msgspec.Struct, frozen=True, kw_only=True):
    """`addresses`: by which others on the network reach it, none where it listens on loopback alone."""

    pid: int
    started: str
    tls: bool
    host: str
    port: int
    addresses: tuple[str, ...] = ()

    @property
    def url(self) -> str:
        """From this machine."""
        everywhere = self.host in ("0.0.0.0", "::")  # noqa: S104 - it is only looked at
        return self.at("127.0.0.1" if everywhere else self.host)

    def at(self, name: str) -> str:
        return f"http{'s' if self.tls else ''}://{_bracketed(name)}:{self.port}"

    def link(self, code: str, name: str | None = None) -> str:
        """What a person opens, once. The code is behind the `#`, which no browser sends and no server logs."""
        return f"{self.url if name is None else self.at(name)}/pair#{code}"

    @property
    def lives(self) -> bool:
        """By its number and its start: numbers are used again."""
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            pass  # it is another user's, and there
        return self.started in ("0", str(start_time(self.pid)))


class _Kept(msgspec.Struct, frozen=True):
    servers: tuple[Running, ...] = ()


def this_server(*, tls: bool, host: str, port: int, addresses: tuple[str, ...]) -> Running:
    pid = os.getpid()
    return Running(pid=pid, started=str(start_time(pid)), tls=tls, host=host, port=port, addresses=addresses)


def servers(home: Path) -> tuple[Running, ...]:
    """Those that live."""
    return tuple(one for one in _file(home).read().servers if one.lives)


def note_server(home: Path, server: Running) -> None:
    _file(home).change(lambda kept: _Kept((*(one for one in kept.servers if one.lives and one != server), server)))


def forget_server(home: Path, server: Running) -> None:
    _file(home).change(lambda kept: _Kept(tuple(one for one in kept.servers if one.lives and one != server)))


def _file(home: Path) -> LockedJsonFile[_Kept]:
    return LockedJsonFile(home / FILE_NAME, _Kept())


def _bracketed(name: str) -> str:
    try:
        return f"[{name}]" if ipaddress.ip_address(name).version == 6 else name
    except ValueError:
        return name
