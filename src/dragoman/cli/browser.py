"""Opening a page in the person's own browser, where there is a desktop to see it on."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping


def has_desktop(environ: Mapping[str, str]) -> bool:
    """Whether a browser would open beside the terminal: not in it, and not on a machine that nobody sits at."""
    if any(environ.get(name) for name in ("SSH_CONNECTION", "SSH_TTY", "NO_BROWSER")):
        return False
    return sys.platform == "darwin" or any(environ.get(name) for name in ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY"))


async def open_page(url: str) -> bool:
    """Whether a browser took it. Only to be called when the person has said so."""
    import webbrowser

    try:
        return await asyncio.to_thread(webbrowser.open, url)  # looking for a browser starts programs
    except (webbrowser.Error, OSError):
        return False
