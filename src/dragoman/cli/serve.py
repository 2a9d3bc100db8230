"""`dragoman serve`: the command. What it does is `serve_run`'s, which is loaded when there is something to do."""

from __future__ import annotations

from typing import Any, Literal

import click

PORT = 8421

EPILOG = """\b
Examples:
  dragoman serve                           on this machine; prints a link
  dragoman serve --host 0.0.0.0            also for a phone on the local network
  dragoman serve --no-open --port 9000
  dragoman token link                      another link, while it runs

docs/serve.md tells more: as a service, behind a proxy, for scripts."""


@click.command(epilog=EPILOG, short_help="Serve sessions to browsers, phones and scripts.")
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
    from dragoman.bridge.place import Place
    from dragoman.cli.serve_run import Options, run_serve

    options = Options(place=Place(**place), open_page=open_page, log_format=log_format, verbose=verbose, home=home)
    return run_serve(options)
