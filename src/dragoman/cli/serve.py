"""`dragoman serve`: opens the port, starts the bridge, prints a link, and shuts down in order.

The first SIGINT or SIGTERM shuts down cleanly with exit code 0; the second exits at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import html
import http.client
import logging
import os
import signal
import socket
import ssl
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any, Final, Literal

import click
import msgspec

from dragoman.bridge.bridge import Bridge
from dragoman.bridge.connections import max_connections, raise_descriptor_limit
from dragoman.bridge.listen import WILDCARDS, ListenAddress, ServerEntry, ServerRegistry, this_server
from dragoman.bridge.server import PortTaken, application, measuring_loop_delay, open_port, serving
from dragoman.bridge.telemetry import Metrics, set_up_log
from dragoman.bridge.tls import fingerprint
from dragoman.bridge.tokens import Tokens
from dragoman.cli.command import count, sync_command
from dragoman.cli.exits import AGENT_FAILED, CANNOT_START, DONE, INTERRUPTED
from dragoman.cli.form import has_desktop, open_page
from dragoman.cli.options import Number, home_option
from dragoman.cli.output import STDIN, STDOUT
from dragoman.cli.token import link_lines
from dragoman.clock import SYSTEM_CLOCK, Clock
from dragoman.config import Config, home_folder, load, make_home
from dragoman.errors import InputError
from dragoman.fileio import atomic_write
from dragoman.protocol.results import Health

logger = logging.getLogger(__name__)

PORT = 8421

# The page in the home folder that leads the browser to the link; removed when the server ends.
LINK_PAGE: Final = "open.html"

# Seconds between two checks whether our own certificate is about to expire.
RENEWAL_CHECK_S: Final = 12 * 3600.0

# Seconds for a server to end its sessions and exit: more than the grace that each agent gets. Seconds between looks.
STOP_TIMEOUT_S: Final = 30.0
STOP_POLL_S: Final = 0.05

EPILOG = """\b
Examples:
  dragoman serve                           on this machine; prints a link
  dragoman serve --host 0.0.0.0            also for a phone on the local network
  dragoman serve --no-open --port 9000
  dragoman token link                      another link, while it runs
  dragoman serve --status                  list the running servers
  dragoman serve --stop                    stop them

docs/serve.md shows how to run it as a service or behind a proxy, and how to use
it from scripts."""


@click.command(epilog=EPILOG)
@click.option("--host", metavar="ADDRESS", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    metavar="PORT",
    type=Number(0, 65535),
    default=PORT,
    show_default=True,
    help="Port to listen on; 0 for any free one.",
)
@click.option("--open/--no-open", "open_page", default=None, help="Open the browser. [default: on a desktop]")
@click.option("--cert", metavar="FILE", help="Your own certificate with its chain, as PEM.")
@click.option("--key", metavar="FILE", help="The key of --cert, as PEM.")
@click.option("--no-tls", is_flag=True, help="Do not use TLS on the network; only behind a TLS proxy.")
@click.option("--allow-host", metavar="NAME", multiple=True, help="Another host name of this server; may be repeated.")
@click.option(
    "--log-format", type=click.Choice(["human", "json"]), default="human", show_default=True, help="Format of the log."
)
@click.option("-v", "--verbose", is_flag=True, help="Log every request.")
@click.option("--status", is_flag=True, help="List the running servers; exit code 1 if there is none.")
@click.option("--stop", is_flag=True, help="Stop the running servers and their sessions.")
@home_option
@sync_command
def serve(
    *,
    open_page: bool | None,
    log_format: Literal["human", "json"],
    verbose: bool,
    status: bool,
    stop: bool,
    home: str | None,
    **address: Any,
) -> int:
    """Serve sessions to browsers, phones and scripts, until interrupted.

    It listens on loopback by default. On the network it uses TLS, with a self-signed certificate or with yours. A
    browser needs a link, which works once; a program needs a token (see `dragoman token`).
    """
    if status or stop:
        registry = ServerRegistry(Path(home) if home else home_folder())
        return _stop(registry) if stop else _print_status(registry)
    set_up_log(log_format, verbose=verbose)
    listen_address = ListenAddress(**address)
    config = load(Path(home) if home else None)
    try:
        listening = open_port(listen_address.host, listen_address.port)
    except PortTaken:
        click.echo(_port_taken(listen_address, config.home), err=True)
        return CANNOT_START
    with listening:
        return asyncio.run(_serve(listen_address, open_page, config, listening))


def _print_status(registry: ServerRegistry) -> int:
    servers = registry.running()
    for server in servers:
        addresses = ", ".join((server.url, *map(server.url_at, server.addresses)))
        health = _health("127.0.0.1" if server.host in WILDCARDS else server.host, server.port)
        click.echo(f"Running as process {server.pid}: {addresses}{'' if health else ' (it does not answer)'}")
    if not servers:
        click.echo("No server is running. Start one: dragoman serve")
    return DONE if servers else AGENT_FAILED


def _stop(registry: ServerRegistry) -> int:
    """Stop all servers as Ctrl-C does, and return when they have ended."""
    servers = registry.running()
    if not servers:
        click.echo("No server is running.")
    for server in servers:
        try:
            os.kill(server.pid, signal.SIGTERM)
        except ProcessLookupError:
            pass
        except PermissionError:
            raise InputError(
                f"process {server.pid} belongs to another user", guidance="Stop it as that user."
            ) from None
        if not asyncio.run(_has_ended(server)):
            raise InputError(
                f"process {server.pid} has not ended after {STOP_TIMEOUT_S:.0f} s",
                guidance=f"To end it at once: kill -9 {server.pid}",
            )
        click.echo(f"Stopped process {server.pid}: {server.url}")
    return DONE


async def _has_ended(server: ServerEntry, clock: Clock = SYSTEM_CLOCK) -> bool:
    end = clock.monotonic() + STOP_TIMEOUT_S
    while server.is_running:
        if clock.monotonic() > end:
            return False
        await clock.sleep(STOP_POLL_S)
    return True


def _port_taken(address: ListenAddress, home: Path) -> str:
    port = address.port
    another = f"  Choose another port: dragoman serve --port {port + 1 if port < 65535 else 0}"
    own = next((server for server in ServerRegistry(home).running() if server.port == port), None)
    if own is not None:
        return (
            f"dragoman: already running as process {own.pid}: {own.url}\n"
            "  For a link: dragoman token link. To stop it: dragoman serve --stop"
        )
    if (health := _health("127.0.0.1" if address.host in WILDCARDS else address.host, port)) is not None:
        return (
            f"dragoman: port {port} is taken by another Dragoman ({health.version}), of another user or with another "
            f"home folder.\n{another}"
        )
    return f"dragoman: port {port} is taken by another program.\n{another}"


def _health(host: str, port: int) -> Health | None:
    """Ask the port for its health, in case Dragoman listens there. No secret is sent: any certificate will do."""
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


async def _serve(address: ListenAddress, open_browser: bool | None, config: Config, listening: socket.socket) -> int:
    """Serve until a signal; `open_browser` is None where neither --open nor --no-open was given."""
    home = make_home(config.home)
    tls = address.tls(home)
    port = listening.getsockname()[1]
    server = this_server(tls=tls is not None, host=address.host, port=port, addresses=address.addresses())
    tokens, metrics, ending, stop = Tokens(home), Metrics(), asyncio.Event(), asyncio.Event()
    with _signals(stop):
        bridge = await Bridge(config, tokens, metrics).start()

        try:
            app = application(bridge, host_names=address.host_names(), stopping=ending, port=port)
            async with (
                serving(app, listening, tls, max_connections=max_connections(raise_descriptor_limit())),
                measuring_loop_delay(metrics),
                _renewing_certificate(address, home, tls),
            ):
                with _registered(home, server), _keys(lambda: _say(*link_lines(server, tokens.new_code()))):
                    await _greet(address, open_browser, server, tokens, home)
                    await stop.wait()
                ending.set()
                _say(_farewell(bridge.running))
        finally:
            (home / LINK_PAGE).unlink(missing_ok=True)
            await bridge.close()
    return DONE


# -- while it runs
@contextlib.asynccontextmanager
async def _renewing_certificate(address: ListenAddress, home: Path, tls: ssl.SSLContext | None) -> AsyncIterator[None]:
    """Renew our own certificate in time; later connections get the new one."""

    async def renew() -> None:
        while tls is not None and address.uses_generated_certificate:
            await asyncio.sleep(RENEWAL_CHECK_S)
            tls.load_cert_chain(await asyncio.to_thread(address.certificate, home))

    task = asyncio.create_task(renew(), name="dragoman certificate")
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})


@contextlib.contextmanager
def _registered(home: Path, server: ServerEntry) -> Iterator[None]:
    """Register the server, for `dragoman token link`."""
    ServerRegistry(home).add(server)
    try:
        yield
    finally:
        ServerRegistry(home).remove(server)


@contextlib.contextmanager
def _keys(on_enter: Callable[[], None]) -> Iterator[None]:
    """Call `on_enter` for each Enter on the terminal, while we are in its foreground."""
    loop = asyncio.get_running_loop()

    def typed() -> None:
        if not _in_foreground() or not os.read(STDIN, 1024):
            loop.remove_reader(STDIN)
        else:
            on_enter()

    if not os.isatty(STDIN):
        yield
        return
    loop.add_reader(STDIN, typed)
    try:
        yield
    finally:
        loop.remove_reader(STDIN)


def _in_foreground() -> bool:
    """Test whether we may read from the terminal: in the background that would stop this process."""
    try:
        return os.tcgetpgrp(STDIN) == os.getpgrp()
    except OSError:  # not our controlling terminal: reading it does not stop us
        return True


@contextlib.contextmanager
def _signals(stop: asyncio.Event) -> Iterator[None]:
    loop = asyncio.get_running_loop()

    def ended() -> None:
        if stop.is_set():
            os._exit(INTERRUPTED)  # the second signal; the reaper ends what is left
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ended)
    try:
        yield
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)


# -- messages
async def _greet(
    address: ListenAddress, open_browser: bool | None, server: ServerEntry, tokens: Tokens, home: Path
) -> None:
    _say(f"Dragoman is running at {server.url}")
    if server.addresses and not server.tls:
        _say("  Without TLS, others on the network can read the traffic: use a proxy with TLS.")
    if address.uses_generated_certificate:
        _say(
            "  Browsers warn once about its self-signed certificate, whose SHA-256 fingerprint is:",
            f"  {fingerprint(address.certificate(home))}",
        )
    is_terminal = os.isatty(STDOUT)
    if is_terminal:
        _say(*link_lines(server, tokens.new_code()))
        can_press = os.isatty(STDIN)
        _say("Press Enter for a new link, Ctrl-C to stop." if can_press else "For another link: dragoman token link")
    else:  # the output of a service or a container is stored in a log
        _say("For a link: dragoman token link")
    if open_browser or (open_browser is None and is_terminal and has_desktop(os.environ)):
        # A code of its own: the one that is shown stays valid.
        await _open_browser(server.link(tokens.new_code()), home)


async def _open_browser(link: str, home: Path) -> None:
    """Open a link by way of a file that only this user can read: others can read the browser's command line."""
    page, address = home / LINK_PAGE, html.escape(link)
    text = (
        '<!doctype html><meta charset="utf-8"><title>Dragoman</title>'
        f'<meta http-equiv="refresh" content="0; url={address}"><p>Opening <a href="{address}">Dragoman</a>…</p>\n'
    )
    try:
        atomic_write(page, text.encode())
    except OSError as error:  # the link is shown as well
        logger.warning("the browser was not opened: %s cannot be written: %s", page, error.strerror)
        return
    await open_page(page.resolve().as_uri())


def _farewell(running: int) -> str:
    if not running:
        return "Stopped."
    return f"Stopped, with {count(running, 'running session')}."


def _say(*lines: str) -> None:
    click.echo("\n".join(lines))
    sys.stdout.flush()
