"""`SandboxProxy`: the way out of a sandbox whose network is off, to a few hosts and ports, in the caller's event loop.

It listens on a Unix socket, which the forwarder inside the sandbox (`_sandbox_main.py`) connects to, or on a port of
loopback where the sandbox has no network of its own. It speaks HTTP as a proxy does: `CONNECT host:port`, and requests
for `http://…`. Ports of loopback that are `open` (our tool server, a model on this machine) are passed on as they are.

Promised: nothing is connected but the hosts that match, at port 443 or 80 or the port that is named with the host, and
the open ports. A name that leads to this machine or to its link (`169.254.…`, where clouds keep credentials) is
refused, unless it is written with its port.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import weakref
from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final, TypeAlias

import msgspec

from dragoman.errors import StartError

DEFAULT_PORTS: Final = (443, 80)
MAX_HEAD_BYTES: Final = 64 * 1024
HEAD_TIMEOUT_S: Final = 30.0
CONNECT_TIMEOUT_S: Final = 30.0

# Seconds for the forwarder to come up and to listen on one more port: it is a Python program that starts.
FORWARDER_TIMEOUT_S: Final = 30.0

_Stream: TypeAlias = tuple[asyncio.StreamReader, asyncio.StreamWriter]

_LOOPBACK_NAMES: Final = frozenset({"localhost", "127.0.0.1", "::1"})


class HostPattern(msgspec.Struct, frozen=True):
    """A host that may be reached: a name or a glob (`*.example.com`), and the port if only one."""

    host: str
    port: int | None = None

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port is None else f"{host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        return self.host in _LOOPBACK_NAMES

    def matches(self, host: str, port: int) -> bool:
        ports = DEFAULT_PORTS if self.port is None else (self.port,)
        return port in ports and fnmatchcase(host, self.host)


def parse_host(text: str) -> HostPattern | None:
    """Read `host`, `host:port`, `[::1]:port` or the URL of a service; None where there is no host in it."""
    scheme, separator, rest = text.strip().lower().rpartition("://")
    host, _, port = _split_port(rest.partition("/")[0].rpartition("@")[2])
    if not host or " " in host:
        return None
    if port is None and separator:
        port = {"http": 80, "ws": 80}.get(scheme, 443)
    return HostPattern(host.rstrip("."), port)


def _split_port(text: str) -> tuple[str, str, int | None]:
    if text.startswith("["):
        host, _, rest = text[1:].partition("]")
        return host, ":", int(rest[1:]) if rest[1:].isdigit() else None
    host, colon, port = text.rpartition(":")
    return (host, colon, int(port)) if colon and port.isdigit() else (text, "", None)


class SandboxProxy:
    """Start it by `listen_on_socket` or `listen_on_port`. `on_refused` is called with each `host:port` refused.

    Hosts that match a pattern of `refused` are not connected, unless `hosts` has their very name.
    """

    def __init__(
        self,
        hosts: Iterable[HostPattern],
        on_refused: Callable[[str], None] | None = None,
        refused: Iterable[HostPattern] = (),
    ) -> None:
        self._hosts = tuple(hosts)
        self._refused = tuple(refused)
        self._on_refused = on_refused
        self.open_ports = {each.port for each in self._hosts if each.is_loopback and each.port is not None}
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self._writers: weakref.WeakSet[asyncio.StreamWriter] = weakref.WeakSet()
        self._forwarders: set[_Forwarder] = set()
        self._first_forwarder = asyncio.Event()
        self._has_forwarders = False

    async def listen_on_socket(self, path: Path) -> None:
        self._has_forwarders = True
        self._server = await asyncio.start_unix_server(self._accept, path=path)

    async def listen_on_port(self) -> int:
        """Listen on a free port of loopback, and return it."""
        self._server = await asyncio.start_server(self._accept_http, host="127.0.0.1", port=0)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def open_port(self, port: int) -> None:
        """Let the sandbox reach a port of loopback outside, from now on. Raises `StartError` where it cannot."""
        if port in self.open_ports:
            return
        if not self._has_forwarders:
            raise StartError(
                f"the sandbox cannot reach port {port} of this machine, which it needs for a tool server",
                guidance="Landlock without namespaces takes its ports when the agent starts. Use bubblewrap, "
                "or leave the network on.",
            )
        self.open_ports.add(port)
        try:
            async with asyncio.timeout(FORWARDER_TIMEOUT_S):
                await self._first_forwarder.wait()
                await asyncio.gather(*(forwarder.listen(port) for forwarder in self._forwarders))
        except TimeoutError:
            raise StartError("the sandbox's forwarder did not start") from None

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for task in self._connections:
            task.cancel()
        if self._connections:
            await asyncio.wait(self._connections)
        for writer in self._writers:
            writer.transport.abort()  # of one that does not read, too
        await asyncio.sleep(0)  # transports close their sockets in the loop's next turn

    def allows(self, host: str, port: int) -> bool:
        matching = [pattern for pattern in self._hosts if pattern.matches(host, port)]
        if any(pattern.host == host for pattern in matching):
            return True
        return bool(matching) and not any(
            fnmatchcase(host, refused.host) and refused.port in (None, port) for refused in self._refused
        )

    # -- connections

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._start(self._greet(reader, writer), writer)

    def _accept_http(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._start(self._serve_http(reader, writer), writer)

    def _start(self, coroutine: object, writer: asyncio.StreamWriter) -> None:
        async def run() -> None:
            try:
                await coroutine  # type: ignore[misc]
            except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, TimeoutError, ValueError):
                pass  # the other side went away, or sent no request
            finally:
                writer.close()

        self._writers.add(writer)
        task = asyncio.get_running_loop().create_task(run(), name="dragoman sandbox connection")
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _greet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(HEAD_TIMEOUT_S):
            words = (await reader.readline()).decode("ascii", "replace").split()
        match words:
            case ["control"]:
                forwarder = _Forwarder(reader, writer)
                self._forwarders.add(forwarder)
                self._first_forwarder.set()
                try:
                    await forwarder.serve(self.open_ports)
                finally:
                    self._forwarders.discard(forwarder)
            case ["proxy"]:
                await self._serve_http(reader, writer)
            case ["port", port] if port.isdigit() and int(port) in self.open_ports:
                theirs = await asyncio.open_connection("127.0.0.1", int(port))
                await self._relay((reader, writer), theirs)

    async def _serve_http(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(HEAD_TIMEOUT_S):
            head = await reader.readuntil(b"\r\n\r\n")
        if len(head) > MAX_HEAD_BYTES:
            return
        line, _, headers = head.partition(b"\r\n")
        method, target, version = line.decode("latin-1").split(" ")
        if method == "CONNECT":
            address, request = target, b""
        else:
            scheme, separator, rest = target.partition("://")
            if scheme.lower() != "http" or not separator:
                await _answer(writer, 400, "expected CONNECT, or a request for http://…")
                return
            address, slash, path = rest.partition("/")
            request = f"{method} /{path if slash else ''} {version}\r\n".encode("latin-1")
            request += _for_server(headers, address.rpartition("@")[2])
        host, _, port = _split_port(address.rpartition("@")[2].lower())
        theirs = await self._connect(host.rstrip("."), port or (443 if method == "CONNECT" else 80), writer)
        if theirs is None:
            return
        if request:
            theirs[1].write(request)
        else:
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        await self._relay((reader, writer), theirs)

    async def _relay(self, first: _Stream, second: _Stream) -> None:
        self._writers.add(second[1])
        try:
            await asyncio.gather(_relay(first[0], second[1]), _relay(second[0], first[1]))
        finally:
            second[1].close()

    async def _connect(
        self, host: str, port: int, writer: asyncio.StreamWriter
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        if not self.allows(host, port):
            if self._on_refused is not None:
                self._on_refused(f"{host}:{port}")
            await _answer(writer, 403, f"Dragoman's sandbox does not allow {host}:{port}: the network is off")
            return None
        is_explicit = any(pattern == HostPattern(host, port) for pattern in self._hosts)
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                loop = asyncio.get_running_loop()
                found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
                addresses = [entry[4][0] for entry in found if is_explicit or not _is_near(str(entry[4][0]))]
                if not addresses:
                    await _answer(writer, 403, f"Dragoman's sandbox does not allow {host}: it leads to this machine")
                    return None
                return await asyncio.open_connection(str(addresses[0]), port)
        except (OSError, TimeoutError) as error:
            await _answer(writer, 502, f"{host}:{port} cannot be reached: {error}")
            return None


class _Forwarder:
    """The control connection of one forwarder: it is told which ports to listen on."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._waiting: dict[int, asyncio.Future[str]] = {}

    async def serve(self, ports: Iterable[int]) -> None:
        for port in list(ports):
            self._send(port)
        try:
            while line := await self._reader.readline():
                number, _, answer = line.decode("ascii", "replace").strip().partition(" ")
                waiter = self._waiting.pop(int(number), None)
                if waiter is not None and not waiter.done():
                    waiter.set_result(answer)
        finally:
            for waiter in self._waiting.values():
                if not waiter.done():
                    waiter.set_result("ok")  # it ended with its command: nothing is left to be reached

    async def listen(self, port: int) -> None:
        waiter = self._waiting.setdefault(port, asyncio.get_running_loop().create_future())
        self._send(port)
        if (answer := await waiter) != "ok":
            raise StartError(f"the sandbox cannot offer port {port}: {answer}")

    def _send(self, port: int) -> None:
        self._writer.write(f"{port}\n".encode())


def _for_server(headers: bytes, host: str) -> bytes:
    """Return the headers without those for the proxy. One request for each connection: the next may be for another.

    The header `Host` names the host that was allowed: one server may have several.
    """
    lines = [
        line
        for line in headers.removesuffix(b"\r\n\r\n").split(b"\r\n")
        if not line.lower().startswith((b"proxy-", b"connection:", b"keep-alive:", b"host:"))
    ]
    return b"\r\n".join([b"Host: " + host.encode("latin-1"), *filter(None, lines), b"Connection: close"]) + b"\r\n\r\n"


def _is_near(address: str) -> bool:
    """Return whether an address is one of this machine, or of its link."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address) and ip.ipv4_mapped is not None:
        ip = ip.ipv4_mapped
    return ip.is_loopback or ip.is_link_local or ip.is_unspecified or ip.is_multicast or _is_own(ip)


def _is_own(ip: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    """Return whether this machine has the address: only its own ones can be bound."""
    with socket.socket(socket.AF_INET if ip.version == 4 else socket.AF_INET6, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((str(ip), 0))
        except OSError:
            return False
    return True


async def _answer(writer: asyncio.StreamWriter, status: int, reason: str) -> None:
    names = {400: "Bad Request", 403: "Forbidden", 502: "Bad Gateway"}
    body = f"{reason}\n".encode()
    head = f"HTTP/1.1 {status} {names[status]}\r\nContent-Type: text/plain; charset=utf-8\r\n"
    writer.write(f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body)
    await writer.drain()


async def _relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(64 * 1024):
        writer.write(data)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()
