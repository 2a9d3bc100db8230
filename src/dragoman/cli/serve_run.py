"""What `dragoman serve` does: opens the port, starts the bridge, shows a link, and ends all of it in order.

The first SIGINT or SIGTERM ends it cleanly, and the exit code is 0; the second ends it at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import ssl
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Final, Literal

import click
import msgspec
from starlette.websockets import WebSocket

from dragoman.bridge.app import application
from dragoman.bridge.bridge import Bridge
from dragoman.bridge.caller import Caller
from dragoman.bridge.logs import set_up_log
from dragoman.bridge.metrics import Metrics
from dragoman.bridge.place import Place
from dragoman.bridge.running import Running, forget_server, note_server, this_server
from dragoman.bridge.server import PortTaken, measured, open_port, serving
from dragoman.bridge.socket import serve as serve_socket
from dragoman.bridge.tls import fingerprint
from dragoman.bridge.tokens import Tokens
from dragoman.cli.browser import has_desktop, open_page
from dragoman.cli.exits import CANNOT_START, DONE, INTERRUPTED
from dragoman.cli.links import link_lines
from dragoman.cli.output import STDOUT
from dragoman.cli.serve_taken import who_has_it
from dragoman.cli.stored import failed
from dragoman.config import Config, load, make_home
from dragoman.errors import DragomanError

STDIN: Final = 0

# Seconds between two looks at whether our own certificate is about to end.
RENEWAL: Final = 12 * 3600.0


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """`open_page` is None where nothing was said of it."""

    place: Place
    open_page: bool | None
    log_format: Literal["human", "json"]
    verbose: bool
    home: str | None


def run_serve(options: Options) -> int:
    set_up_log(options.log_format, verbose=options.verbose)
    place = options.place
    try:
        config = load(Path(options.home) if options.home else None)
        try:
            listening = open_port(place.host, place.port)
        except PortTaken:
            click.echo(who_has_it(place, config.home), err=True)
            return CANNOT_START
        with listening:
            return asyncio.run(_serve(options, config, listening))
    except DragomanError as error:
        return failed(error)


async def _serve(options: Options, config: Config, listening: socket.socket) -> int:
    place, home = options.place, make_home(config.home)
    tls = place.tls(home)
    port = listening.getsockname()[1]
    server = this_server(tls=tls is not None, host=place.host, port=port, addresses=place.addresses())
    tokens, metrics, ending, stop = Tokens(home), Metrics(), asyncio.Event(), asyncio.Event()
    with _signals(stop):
        bridge = await Bridge(config, tokens, metrics).start()

        async def open_socket(websocket: WebSocket, caller: Caller) -> None:
            await serve_socket(websocket, bridge, caller)

        try:
            app = application(
                bridge, open_socket, tokens=tokens, names=place.names(), metrics=metrics, ending=ending, port=port
            )
            async with serving(app, listening, tls), measured(metrics.loop_delay_seconds), _renewed(place, home, tls):
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
async def _renewed(place: Place, home: Path, tls: ssl.SSLContext | None) -> AsyncIterator[None]:
    """Our own certificate is made anew in time; who connects from then on gets the new one."""

    async def renew() -> None:
        while tls is not None and place.has_own_certificate:
            await asyncio.sleep(RENEWAL)
            tls.load_cert_chain(await asyncio.to_thread(place.certificate, home))

    task = asyncio.create_task(renew(), name="dragoman certificate")
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})


@contextlib.contextmanager
def _noted(home: Path, server: Running) -> Iterator[None]:
    """`dragoman token link` finds it."""
    note_server(home, server)
    try:
        yield
    finally:
        forget_server(home, server)


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


async def _greet(options: Options, server: Running, tokens: Tokens, home: Path) -> None:
    _say(f"Dragoman is at {server.url}")
    if server.addresses and not server.tls:
        _say("  Without TLS, others on the network can read what is said: put a proxy with TLS before it.")
    if options.place.has_own_certificate:
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
