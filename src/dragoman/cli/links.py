"""Links to a server, as they are shown: for this machine's browser, and with a QR code for a phone."""

from __future__ import annotations

import os
from collections.abc import Sequence

from dragoman.bridge.qr import qr_lines
from dragoman.bridge.running import Running
from dragoman.bridge.tokens import CODE_LIFE
from dragoman.cli.output import STDOUT, terminal_width

MINUTES = round(CODE_LIFE / 60)


def link_lines(server: Running, code: str) -> list[str]:
    """One code, however many addresses it is shown with: it is good for one browser."""
    if not server.addresses:
        return [f"Open this link, once, within {MINUTES} minutes:", f"  {server.link(code)}"]
    first, *others = server.addresses
    return [
        f"Open this link, once, within {MINUTES} minutes, on your phone or here:",
        f"  {server.link(code, first)}",
        *(f"  or with {url} in the place of its beginning" for url in (server.url, *map(server.at, others))),
        *_qr(server.link(code, first)),
    ]


def _qr(link: str) -> Sequence[str]:
    """Only where it can be seen whole."""
    width = terminal_width(STDOUT)
    if not os.isatty(STDOUT) or width is None:
        return ()
    lines = qr_lines(link)
    if lines is None:
        return ("  (with a QR code, were `segno` installed: pip install 'dragoman[lan]')",)
    return ("", *lines) if len(lines[0]) <= width else ("  (the terminal is too narrow for a QR code)",)
