"""`dragoman token`: its commands. What they do is `token_report`'s, which is loaded when there is something to do."""

from __future__ import annotations

import click

EPILOG = """\b
Examples:
  dragoman token link                      a link for one more browser
  dragoman token create backup --scope view
  dragoman token list
  dragoman token revoke 3f9a1c07

docs/serve.md tells more."""

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
  dragoman token link --scope view         to show it to somebody"""

_HOME = click.option("--home", metavar="DIR", help="The home folder. [default: DRAGOMAN_HOME, or ~/.dragoman]")
_SCOPES = click.Choice(["view", "prompt", "admin"])


@click.group(epilog=EPILOG, short_help="Who may use the server: links, tokens.")
def token() -> None:
    """Who may use the server: links for browsers, tokens for programs."""


@token.command(epilog=CREATE_EPILOG, short_help="Make a token for a program.")
@click.argument("name")
@click.option("--scope", type=_SCOPES, default="prompt", show_default=True, help="Each allows what those before it do.")
@_HOME
def create(name: str, scope: str, home: str | None) -> int:
    """Make a token for a program, and print it: it is kept nowhere, and cannot be shown again."""
    from dragoman.cli.token_report import run_create

    return run_create(name, scope, home)


@token.command("list", epilog=LIST_EPILOG, short_help="Tokens of programs and browsers.")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@_HOME
def list_(as_json: bool, home: str | None) -> int:
    """Tokens of programs, and of browsers that came by a link."""
    from dragoman.cli.token_report import run_list

    return run_list(home, as_json=as_json)


@token.command(epilog=REVOKE_EPILOG, short_help="Take a token back.")
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@_HOME
def revoke(ids: tuple[str, ...], home: str | None) -> int:
    """Take tokens back: they are good for nothing from now on."""
    from dragoman.cli.token_report import run_revoke

    return run_revoke(ids, home)


@token.command(epilog=LINK_EPILOG, short_help="A new link to the server that runs.")
@click.option("--scope", type=_SCOPES, default="admin", show_default=True, help="What the browser may then do.")
@_HOME
def link(scope: str, home: str | None) -> int:
    """Print a link to the server that runs here, good once and for ten minutes; with a QR code, where it is on the
    network."""
    from dragoman.cli.token_report import run_link

    return run_link(scope, home)
