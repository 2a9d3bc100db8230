"""`dragoman serve`: opens the port, starts the bridge, prints a link, and shuts down in order.

The first SIGINT or SIGTERM shuts down cleanly with exit code 0; the second exits at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
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

from dragoman.bridge.app import application
from dragoman.bridge.bridge import Bridge
from dragoman.bridge.listen import WILDCARDS, ListenAddress, ServerEntry, ServerRegistry, this_server
from dragoman.bridge.logs import set_up_log
from dragoman.bridge.metrics import Metrics
from dragoman.bridge.server import PortTaken, measuring_loop_delay, open_port, serving
from dragoman.bridge.tls import fingerprint
from dragoman.bridge.tokens import Tokens
from dragoman.cli.command import sync_command
from dragoman.cli.exits import CANNOT_START, DONE, INTERRUPTED
from dragoman.cli.form import has_desktop, open_page
from dragoman.cli.output import STDIN, STDOUT
from dragoman.cli.token import link_lines
from dragoman.config import Config, load, make_home
from dragoman.protocol.results import Health

PORT = 8421

# Seconds between two checks whether our own certificate is about to expire.
RENEWAL_CHECK_S: Final = 12 * 3600.0
EPILOG = """\b
Examples:
  dragoman serve                           on this machine; prints a link
  dragoman serve --host 0.0.0.0            also for a phone on the local network
  dragoman serve --no-open --port 9000
  dragoman token link                      another link, while it runs

docs/serve.md tells more: as a service, behind a proxy, for scripts."""


class ServeOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options as typed; `open_page` is None where neither --open nor --no-open was given."""

    place: ListenAddress
    open_page: bool | None
    log_format: Literal["human", "json"]
    verbose: bool
    home: str | None


@click.command(epilog=EPILOG)
@click.option("--host", metavar="ADDRESS", default="127.0.0.1", show_default=True, help="Where to listen.")
@click.option("--port", type=click.IntRange(0, 65535), default=PORT, show_default=True, help="0 is any free one.")
@click.option("--open/--no-open", "open_page", default=None, help="Open the browser. [default: on a desktop]")
@click.option("--cert", metavar="FILE", help="A certificate of your own, with its chain, as PEM.")
@click.option("--key", metavar="FILE", help="Its key.")
@click.option("--no-tls", is_flag=True, help="No TLS on the network: only behind a proxy that has it.")
@click.option("--allow-host", metavar="NAME", multiple=True, help="One more name that it is reached by.")
@click.option("--log-format", type=click.Choice(["human", "json"]), default="human", show_default=True)
@click.option("-v", "--verbose", is_flag=True, help="Log every request.")
@click.option("--home", metavar="DIR", help="The home folder. [default: DRAGOMAN_HOME, or ~/.dragoman]")
def serve(
    open_page: bool | None, log_format: Literal["human", "json"], verbose: bool, home: str | None, **place: Any
) -> int:
    """Serve sessions to browsers, phones and scripts, until it is ended.

    On loopback by default. On the network with TLS: by a certificate of its own, which browsers warn of once, or by
    yours. Who wants in needs a link, good for one browser, or a token (dragoman token).
    """
    return run_server(
        ServeOptions(
            place=ListenAddress(**place), open_page=open_page, log_format=log_format, verbose=verbose, home=home
        )
    )


def _port_taken(place: ListenAddress, home: Path) -> str:
    port = place.port
    another = f"  Choose another port: dragoman serve --port {port + 1 if port < 65535 else 0}"
    own = next((one for one in ServerRegistry(home).running() if one.port == port), None)
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


@sync_command
def run_server(options: ServeOptions) -> int:
    set_up_log(options.log_format, verbose=options.verbose)
    place = options.place
    config = load(Path(options.home) if options.home else None)
    try:
        listening = open_port(place.host, place.port)
    except PortTaken:
        click.echo(_port_taken(place, config.home), err=True)
        return CANNOT_START
    with listening:
        return asyncio.run(_serve(options, config, listening))


async def _serve(options: ServeOptions, config: Config, listening: socket.socket) -> int:
    place, home = options.place, make_home(config.home)
    tls = place.tls(home)
    port = listening.getsockname()[1]
    server = this_server(tls=tls is not None, host=place.host, port=port, addresses=place.addresses())
    tokens, metrics, ending, stop = Tokens(home), Metrics(), asyncio.Event(), asyncio.Event()
    with _signals(stop):
        bridge = await Bridge(config, tokens, metrics).start()

        try:
            app = application(bridge, host_names=place.host_names(), stopping=ending, port=port)
            async with serving(app, listening, tls), measuring_loop_delay(metrics), _renewed(place, home, tls):
                with _noted(home, server), _keys(lambda: _say(*link_lines(server, tokens.new_code()))):
                    await _greet(options, server, tokens, home)
                    await stop.wait()
                ending.set()
                _say(_farewell(bridge.running))
        finally:
            await bridge.close()
    return DONE


# -- while it runs
@contextlib.asynccontextmanager
async def _renewed(place: ListenAddress, home: Path, tls: ssl.SSLContext | None) -> AsyncIterator[None]:
    """Our own certificate is made anew in time; who connects from then on gets the new one."""

    async def renew() -> None:
        while tls is not None and place.uses_generated_certificate:
            await asyncio.sleep(RENEWAL_CHECK_S)
            tls.load_cert_chain(await asyncio.to_thread(place.certificate, home))

    task = asyncio.create_task(renew(), name="dragoman certificate")
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})


@contextlib.contextmanager
def _noted(home: Path, server: ServerEntry) -> Iterator[None]:
    """`dragoman token link` finds it."""
    ServerRegistry(home).add(server)
    try:
        yield
    finally:
        ServerRegistry(home).remove(server)


@contextlib.contextmanager
def _keys(entered: Callable[[], None]) -> Iterator[None]:
    """Calls it for each Enter on the terminal, while we are in its foreground."""
    loop = asyncio.get_running_loop()

    def typed() -> None:
        if not _in_foreground() or not os.read(STDIN, 1024):
            loop.remove_reader(STDIN)
        else:
            entered()

    if not os.isatty(STDIN):
        yield
        return
    loop.add_reader(STDIN, typed)
    try:
        yield
    finally:
        loop.remove_reader(STDIN)


def _in_foreground() -> bool:
    """In the background, reading from the terminal would stop this process."""
    try:
        return os.tcgetpgrp(STDIN) == os.getpgrp()
    except OSError:  # not the terminal that we belong to: nobody stops us
        return True


@contextlib.contextmanager
def _signals(stop: asyncio.Event) -> Iterator[None]:
    loop = asyncio.get_running_loop()

    def ended() -> None:
        if stop.is_set():
            os._exit(INTERRUPTED)  # whoever asks twice has waited enough; the reaper ends what is left
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ended)
    try:
        yield
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)


# -- what is said
async def _greet(options: ServeOptions, server: ServerEntry, tokens: Tokens, home: Path) -> None:
    _say(f"Dragoman is at {server.url}")
    if server.addresses and not server.tls:
        _say("  Without TLS, others on the network can read what is said: put a proxy with TLS before it.")
    if options.place.uses_generated_certificate:
        _say(
            "  Browsers warn once, as nobody else vouches for its certificate. Its fingerprint (SHA-256):",
            f"  {fingerprint(options.place.certificate(home))}",
        )
    if os.environ.get("JOURNAL_STREAM"):  # what a service prints is kept for long
        _say("For a link: dragoman token link")
        return
    _say(*link_lines(server, tokens.new_code()))
    _say("Enter: a new link. Ctrl-C: end." if os.isatty(STDIN) else "For another link: dragoman token link")
    wanted = options.open_page
    if wanted or (wanted is None and os.isatty(STDOUT) and has_desktop(os.environ)):
        await open_page(server.link(tokens.new_code()))  # of its own: the one that is shown stays good


def _farewell(running: int) -> str:
    if not running:
        return "Ended."
    return f"{running} session{'s are' if running > 1 else ' is'} running: ended."


def _say(*lines: str) -> None:
    click.echo("\n".join(lines))
    sys.stdout.flush()
