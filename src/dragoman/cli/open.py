"""`dragoman open`: opens the page of the running server, or one session in it, in the browser."""

from __future__ import annotations

import asyncio

import click

from dragoman.bridge.listen import ServerEntry, ServerRegistry
from dragoman.cli.command import note, open_readonly, sync_command
from dragoman.cli.form import has_desktop, open_page
from dragoman.cli.options import complete_session
from dragoman.config import home_folder
from dragoman.errors import InputError
from dragoman.journal.sessions import find_session

EPILOG = """\b
Examples:
  dragoman open
  dragoman open -                          the latest session
  dragoman open 3f9a1c

A browser that never opened a link to this server needs one first:
dragoman token link."""


@click.command("open", epilog=EPILOG)
@click.argument("session", metavar="[ID]", required=False, shell_complete=complete_session)
@click.option("--print", "print_only", is_flag=True, help="Print the address only.")
@sync_command
def open_(session: str | None, print_only: bool) -> None:
    """Open the page, or a session in it, in the browser. A server must be running."""
    import os

    running = ServerRegistry(home_folder()).running()
    if not running:
        raise InputError("no server is running", guidance="Start one: dragoman serve")
    url = page_url(running[-1], asyncio.run(_find(session)) if session is not None else None)
    click.echo(url)
    if print_only:
        return
    if not has_desktop(os.environ) or not asyncio.run(open_page(url)):
        note("No browser could be opened here: open the address yourself.")
    note("If the browser asks for a link: dragoman token link")


def page_url(server: ServerEntry, session_id: str | None) -> str:
    """Return the address of the page, or of a session in it. It holds no code: the browser is paired already."""
    return f"{server.url}/s/{session_id}" if session_id is not None else f"{server.url}/"


async def _find(session: str) -> str:
    async with open_readonly() as journal:
        return find_session(await journal.sessions(), session).id
