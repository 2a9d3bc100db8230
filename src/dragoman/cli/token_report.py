"""What `dragoman token` does."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import click

from dragoman.bridge.messages import Scope
from dragoman.bridge.running import servers
from dragoman.bridge.tokens import Token, Tokens
from dragoman.cli import exits
from dragoman.cli.links import link_lines
from dragoman.cli.stored import failed, note, padded, print_json, styled, when, widest
from dragoman.config import load
from dragoman.errors import DragomanError, InputError


def run_create(name: str, scope: str, home: str | None) -> int:
    try:
        secret, made = _tokens(home).create(name, cast("Scope", scope))
    except DragomanError as error:
        return failed(error)
    note(f"dragoman: the token {made.name!r} ({made.id}, {scope}) is shown this once:")
    click.echo(secret)
    return exits.DONE


def run_list(home: str | None, *, as_json: bool) -> int:
    try:
        tokens = _tokens(home).listed()
    except DragomanError as error:
        return failed(error)
    if as_json:
        print_json([_told(token) for token in tokens])
        return exits.DONE
    if not tokens:
        note("dragoman: there are no tokens. Make one: dragoman token create NAME")
        return exits.DONE
    room = widest([token.name for token in tokens])
    for token in tokens:
        used = f"used {when(token.used)}" if token.used is not None else "never used"
        kind = "browser" if token.browser else "program"
        click.echo(
            f"{styled(token.id, bold=True)}  {padded(token.name, room)}  {token.scope:<6}  {kind}  "
            f"made {when(token.created)}  {used}"
        )
    return exits.DONE


def run_revoke(ids: tuple[str, ...], home: str | None) -> int:
    try:
        tokens = _tokens(home)
        for token in [_named(tokens, token_id) for token_id in ids]:
            tokens.revoke(token.id)
            note(f"dragoman: {token.name!r} ({token.id}) is revoked")
    except DragomanError as error:
        return failed(error)
    return exits.DONE


def run_link(scope: str, home: str | None) -> int:
    try:
        folder = _home(home)
        running = servers(folder)
        if not running:
            raise InputError("no server runs here", guidance="Start one: dragoman serve")
        tokens = Tokens(folder)
        for server in running:
            click.echo("\n".join(link_lines(server, tokens.new_code(cast("Scope", scope)))))
    except DragomanError as error:
        return failed(error)
    return exits.DONE


def _named(tokens: Tokens, token_id: str) -> Token:
    """By its id, or by the beginning of it where that is enough."""
    found = [token for token in tokens.listed() if token.id.startswith(token_id)]
    if len(found) != 1:
        several = f"{len(found)} tokens begin with {token_id!r}"
        raise InputError(
            several if found else f"there is no token {token_id!r}", guidance="`dragoman token list` shows them."
        )
    return found[0]


def _told(token: Token) -> dict[str, object]:
    """Without its digest, which is nobody's business."""
    return {
        "id": token.id,
        "name": token.name,
        "scope": token.scope,
        "browser": token.browser,
        "created": token.created,
        "used": token.used,
    }


def _home(home: str | None) -> Path:
    return load(Path(home) if home else None).home


def _tokens(home: str | None) -> Tokens:
    return Tokens(_home(home))
