"""`dragoman token`: links for browsers and tokens for programs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import click

from dragoman.bridge.listen import ServerEntry, ServerRegistry, qr_lines
from dragoman.bridge.tokens import CODE_LIFE_S, Token, Tokens
from dragoman.cli.command import Table, note, print_json, sync_command, when
from dragoman.cli.options import home_option, json_option
from dragoman.cli.output import STDOUT, terminal_width
from dragoman.config import home_folder
from dragoman.errors import InputError
from dragoman.protocol.messages import Scope

EPILOG = """\b
Examples:
  dragoman token link                      a link for one more browser
  dragoman token create backup --scope view
  dragoman token list
  dragoman token revoke 3f9a1c07

See docs/serve.md."""
CREATE_EPILOG = """\b
Examples:
  TOKEN=$(dragoman token create nightly)
  curl -H "Authorization: Bearer $TOKEN" http://127.0.0.1:8421/v1/sessions"""
LIST_EPILOG = """\b
Examples:
  dragoman token list
  dragoman token list --json | jq -r '.[].name'"""
REVOKE_EPILOG = """\b
Examples:
  dragoman token revoke 3f9a1c07"""
LINK_EPILOG = """\b
Examples:
  dragoman token link
  dragoman token link --scope view         for someone who may only look"""
_SCOPES = click.Choice(["view", "prompt", "admin"])


@click.group(epilog=EPILOG)
def token() -> None:
    """Manage access to the server: links for browsers, tokens for programs."""


@token.command(epilog=CREATE_EPILOG, short_help="Create a token for a program.")
@click.argument("name")
@click.option(
    "--scope",
    type=_SCOPES,
    default="prompt",
    show_default=True,
    help="What the program may do; each scope includes those before it.",
)
@home_option
@sync_command
def create(name: str, scope: str, home: str | None) -> None:
    """Create a token for a program and print it. Only its digest is stored: it cannot be shown again."""
    secret, made = _tokens(home).create(name, cast("Scope", scope))
    note(f"The token {made.name!r} ({made.id}, {scope}) is shown only once:")
    click.echo(secret)


@token.command("list", epilog=LIST_EPILOG, short_help="List the tokens of programs and browsers.")
@json_option
@home_option
@sync_command
def list_(as_json: bool, home: str | None) -> None:
    """List the tokens of programs, and of browsers that opened a link."""
    tokens = _tokens(home).all()
    if as_json:
        return print_json([_record(token) for token in tokens])
    if not tokens:
        return note("There are no tokens. Create one: dragoman token create NAME")
    table = Table()
    for heading in ("id", "name", "scope", "for", "created", "last used"):
        table.add_column(heading, shrinks=heading == "name")
    for token in tokens:
        used = when(token.used) if token.used is not None else "never"
        kind = "browser" if token.browser else "program"
        table.add_row(token.id, token.name, token.scope, kind, when(token.created), used, styles={0: "bold"})
    table.print()
    return None


@token.command(epilog=REVOKE_EPILOG, short_help="Revoke tokens.")
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@home_option
@sync_command
def revoke(ids: tuple[str, ...], home: str | None) -> None:
    """Revoke tokens: the server no longer accepts them."""
    tokens = _tokens(home)
    for token in [_find(tokens, token_id) for token_id in ids]:
        tokens.revoke(token.id)
        note(f"{token.name!r} ({token.id}) is revoked.")


@token.command(epilog=LINK_EPILOG, short_help="Print a new link to the running server.")
@click.option("--scope", type=_SCOPES, default="admin", show_default=True, help="What the browser may do.")
@home_option
@sync_command
def link(scope: str, home: str | None) -> None:
    """Print a link to the running server. It works once, within ten minutes.

    For a server on the network the link is also shown as a QR code.
    """
    folder = _home(home)
    running = ServerRegistry(folder).running()
    if not running:
        raise InputError("no server is running", guidance="Start one: dragoman serve")
    tokens = Tokens(folder)
    for server in running:
        click.echo("\n".join(link_lines(server, tokens.new_code(cast("Scope", scope)))))


def _find(tokens: Tokens, token_id: str) -> Token:
    """Find a token by its id, or by an unambiguous beginning of it."""
    matching = [token for token in tokens.all() if token.id.startswith(token_id)]
    if len(matching) != 1:
        several = f"{len(matching)} tokens begin with {token_id!r}"
        raise InputError(
            several if matching else f"there is no token {token_id!r}", guidance="`dragoman token list` shows them."
        )
    return matching[0]


def _record(token: Token) -> dict[str, object]:
    """Return the fields of a token that may be shown: not its digest."""
    return {name: getattr(token, name) for name in ("id", "name", "scope", "browser", "created", "used")}


def _home(home: str | None) -> Path:
    return Path(home).absolute() if home else home_folder()


def _tokens(home: str | None) -> Tokens:
    return Tokens(_home(home))


MINUTES = round(CODE_LIFE_S / 60)


def link_lines(server: ServerEntry, code: str) -> list[str]:
    """Return the lines that show links to the server, all with the same code: it works for one browser."""
    if not server.addresses:
        return [f"Open this link, once, within {MINUTES} minutes:", f"  {server.link(code)}"]
    first, *others = server.addresses
    return [
        f"Open this link, once, within {MINUTES} minutes, on your phone or here:",
        f"  {server.link(code, first)}",
        *(f"  also: {url}" for url in (server.link(code), *(server.link(code, name) for name in others))),
        *_qr(server.link(code, first)),
    ]


def _qr(link: str) -> Sequence[str]:
    """Return a QR code as lines, where all of it can be seen."""
    width = terminal_width(STDOUT)
    if not os.isatty(STDOUT) or width is None:
        return ()
    lines = qr_lines(link)
    if lines is None:
        return ("  (for a QR code, install `segno`: pip install 'dragoman[lan]')",)
    return ("", *lines) if len(lines[0]) <= width else ("  (the terminal is too narrow for a QR code)",)
