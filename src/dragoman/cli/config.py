"""`dragoman config`: show, set and edit settings. It works however invalid they are, so that they can be corrected."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
from click.shell_completion import CompletionItem

from dragoman.cli.command import NOT_REPORTED, Table, folder, note, print_json, sync_command, usable_settings
from dragoman.cli.options import complete_access, complete_agent, json_option
from dragoman.cli.text import one_line
from dragoman.config import FILE_NAME, SETTINGS, SETTINGS_FILE, Config, format_duration, home_folder, load, make_home
from dragoman.document import nearest
from dragoman.errors import ConfigError, InputError
from dragoman.fileio import PRIVATE
from dragoman.settings import DESCRIPTIONS, change_settings, page_settings, with_setting

if TYPE_CHECKING:
    from collections.abc import Sequence

EPILOG = """\b
Examples:
  dragoman config                          list all settings
  dragoman config get agent
  dragoman config set agent claude
  dragoman config set deadline 30m
  dragoman config unset deadline
  dragoman config edit                     open config.toml in your editor

See docs/reference/config.md for all settings, and for the tables of agents and
rules in config.toml."""
GET_EPILOG = """\b
Examples:
  dragoman config get agent
  dragoman config get --json access"""
SET_EPILOG = """\b
Examples:
  dragoman config set agent claude
  dragoman config set access edit-inside
  dragoman config set idle_limit none

\b
The setting is stored in settings.json, like those made in the page, and
overrides config.toml. A variable (DRAGOMAN_AGENT) or an option (-a) overrides
both."""
UNSET_EPILOG = """\b
Examples:
  dragoman config unset agent"""
EDIT_EPILOG = """\b
Examples:
  dragoman config edit
  EDITOR=nano dragoman config edit"""

PATH_EPILOG = """\b
Examples:
  dragoman config path"""

# The content of a new config.toml.
TEMPLATE: Final = """\
# Settings of Dragoman: https://toml.io. docs/reference/config.md describes all of them.
#
# agent = "claude"
# access = "ask"            # read-only, ask, edit-inside or full
# deadline = "30m"
#
# [agents.mine]
# command = "my-agent"
# args = ["--acp"]
#
# [[policy]]
# answer = "deny"
# path = "**/.env"
"""

# Columns of a value in the list of all settings; custom instructions are longer.
MAX_VALUE_COLUMNS: Final = 60

# Settings in seconds, and in bytes.
_DURATIONS: Final = (
    "deadline",
    "idle_limit",
    "checkpoint_age",
    *(name for name in SETTINGS if name.endswith("_timeout")),
)
_SIZES: Final = ("line_limit", "checkpoint_file_limit", "checkpoint_size", "skills_budget")


def complete_setting(context: click.Context, parameter: click.Parameter, typed: str) -> list[CompletionItem]:
    return [CompletionItem(name, help=DESCRIPTIONS.get(name)) for name in SETTINGS if name.startswith(typed)]


def complete_value(context: click.Context, parameter: click.Parameter, typed: str) -> list[CompletionItem]:
    """Complete the values of those settings that are a choice."""
    complete = {"agent": complete_agent, "access": complete_access}.get(context.params.get("name", ""))
    return complete(context, parameter, typed) if complete is not None else []


@click.group(epilog=EPILOG, invoke_without_command=True)
@json_option
@click.pass_context
def config(context: click.Context, as_json: bool) -> int:
    """Show, set and edit settings."""
    return _list(as_json) if context.invoked_subcommand is None else 0


@sync_command
def _list(as_json: bool) -> None:
    """Print all settings, with the place where each is set."""
    settings = usable_settings()
    if as_json:
        return print_json([_record(name, settings) for name in SETTINGS])
    table = Table()
    for heading in ("setting", "value", "set by"):
        table.add_column(heading, shrinks=heading == "set by")
    for name in SETTINGS:
        where = settings.where(name)
        styles = {0: "bold"} if where else {}
        value = one_line(format_value(name, settings), MAX_VALUE_COLUMNS)
        table.add_row(name, value, folder(where) if where else "default", styles=styles)
    table.print()
    return None


def _record(name: str, settings: Config) -> dict[str, object]:
    return {"name": name, "value": getattr(settings, name), "source": settings.where(name)}


@config.command(epilog=GET_EPILOG, short_help="Print a setting.")
@click.argument("name", shell_complete=complete_setting)
@json_option
@sync_command
def get(name: str, as_json: bool) -> None:
    """Print the value of a setting, and on stderr where it is set."""
    _check_name(name)
    settings = usable_settings()
    where = settings.where(name)
    if as_json:
        return print_json(_record(name, settings))
    click.echo(format_value(name, settings))
    note(f"Set by {folder(where)}." if where else f"This is the default. {DESCRIPTIONS.get(name, '')}".rstrip())
    return None


@config.command("set", epilog=SET_EPILOG, short_help="Set a setting.")
@click.argument("name", shell_complete=complete_setting)
@click.argument("value", shell_complete=complete_value)
@sync_command
def set_(name: str, value: str) -> None:
    """Set a setting. An invalid value is refused, and nothing is changed."""
    from dragoman.session.client import check_agent

    _check_name(name)
    home = make_home(home_folder())

    def check(settings: Config) -> None:
        if name == "agent":
            check_agent(settings, value)

    try:
        settings = change_settings(home, lambda page: with_setting(page, name, value), check)
    except ConfigError as error:
        # Without the file, which was not changed.
        message = str(error).removeprefix(f"{error.where}: ")
        raise InputError(message, guidance=f"{name} was not changed.") from None
    where = settings.where(name)
    if where is None or where.endswith(SETTINGS_FILE):
        click.echo(f"{name} = {format_value(name, settings)}")
    else:
        click.echo(f"{name} = {value}, in {folder(str(home / SETTINGS_FILE))}")
        note(f"It has no effect here: {where} sets {name} to {format_value(name, settings)}.")


@config.command(epilog=UNSET_EPILOG, short_help="Remove a setting.")
@click.argument("name", shell_complete=complete_setting)
@sync_command
def unset(name: str) -> None:
    """Remove a setting that was made here or in the page; config.toml or the default then decides."""
    home = home_folder()
    if name not in page_settings(home).read().settings:
        _check_name(name)
        where = load(home, on_error=lambda error: None).where(name)
        guidance = f"It is set by {folder(where)}: change it there." if where else "It has its default."
        raise InputError(f"{name} is not set in {folder(str(home / SETTINGS_FILE))}", guidance=guidance)
    settings = change_settings(home, lambda page: with_setting(page, name, None))
    if name in SETTINGS:
        where = settings.where(name)
        click.echo(f"{name} = {format_value(name, settings)}")
        note(f"Set by {folder(where)}." if where else "This is the default.")
    else:
        click.echo(f"{name} is removed.")


@config.command(epilog=EDIT_EPILOG, short_help="Open config.toml in your editor.")
@sync_command
def edit() -> None:
    """Open config.toml in $VISUAL or $EDITOR, and check it afterwards. A new file has examples in it."""
    path = make_home(home_folder()) / FILE_NAME
    if not path.exists():
        path.touch(PRIVATE)
        path.write_text(TEMPLATE)
    _open_editor(path)
    errors: list[ConfigError] = []
    settings = load(on_error=errors.append)
    if errors:
        raise errors[0]
    from dragoman.agents.preset import load_presets
    from dragoman.host.policy.rulebook import rule_sources

    load_presets(settings)
    rule_sources(settings)
    note(f"{folder(str(path))} is valid.")


@config.command(epilog=PATH_EPILOG, short_help="Print the path of config.toml.")
@sync_command
def path() -> None:
    """Print the path of config.toml, which need not exist."""
    click.echo(str(home_folder() / FILE_NAME))


def format_value(name: str, settings: Config) -> str:
    """Format a setting as it can be typed."""
    value = getattr(settings, name)
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "on" if value else "off"
    if name in _DURATIONS:
        return format_duration(value)
    if name in _SIZES and value % (1024 * 1024) == 0:
        return f"{value // (1024 * 1024)}MiB"
    if name in _SIZES and value % 1024 == 0:
        return f"{value // 1024}KiB"
    return str(value) or NOT_REPORTED


def _check_name(name: str) -> None:
    if name in SETTINGS:
        return
    near = nearest(name, SETTINGS)
    raise InputError(
        f'there is no setting "{name}"' + (f'; did you mean "{near}"?' if near else ""),
        guidance=f"The settings are: {', '.join(SETTINGS)}. Agents and rules are in config.toml: dragoman config edit",
    )


def _open_editor(path: Path) -> None:
    for variable in ("VISUAL", "EDITOR"):
        if command := os.environ.get(variable):
            break
    else:
        command = next((name for name in ("nano", "vi") if _is_installed(name)), "")
    by_hand = f"Set EDITOR to another one, or edit the file yourself: {path}"
    try:
        words: Sequence[str] = shlex.split(command)
    except ValueError as error:
        raise InputError(f"{variable} is {command!r}: {error}", guidance=by_hand) from None
    if not words:
        raise InputError("no editor was found", guidance=f"Set EDITOR, or edit the file yourself: {path}")
    try:
        code = subprocess.run([*words, str(path)], check=False).returncode
    except OSError as error:
        raise InputError(f"the editor {words[0]!r} cannot be started: {error.strerror}", guidance=by_hand) from None
    if code:
        raise InputError(f"the editor {words[0]!r} ended with exit code {code}", guidance=by_hand)


def _is_installed(name: str) -> bool:
    import shutil

    return shutil.which(name) is not None
