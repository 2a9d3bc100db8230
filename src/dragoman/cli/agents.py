"""`dragoman agents`: which agents can be started here, in which version, and how to get the others."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

import click

if TYPE_CHECKING:
    from dragoman.agents.find import Finding

# Id, name, state, command or install line, remark.
Row: TypeAlias = tuple[str, str, str, str, str]

# Columns that a command or a remark needs beside the names of the agents.
MIN_TEXT_COLUMNS = 36

EPILOG = """\b
Examples:
  dragoman agents
  dragoman agents --json | jq -r '.[] | select(.state == "installed") | .id'
  dragoman run -a claude "hello"

\b
To add an agent or change one, write a table [agents.NAME] in config.toml, in
~/.dragoman (or DRAGOMAN_HOME): command = "my-agent", args = ["--acp"]."""


@click.command(epilog=EPILOG)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def agents(as_json: bool) -> int:
    """List installed agents with their versions, and how to install others."""
    import asyncio

    from dragoman.agents.find import survey
    from dragoman.agents.preset import load_presets
    from dragoman.cli.command import print_error, print_json, usable_settings
    from dragoman.errors import DragomanError, InputError
    from dragoman.session.client import LocalClient

    try:
        # An invalid setting is reported and left out: this command is where its error sends the user.
        settings = usable_settings()
        presets = load_presets(settings, print_error)
        findings = asyncio.run(survey(presets, environ=dict(os.environ)))
    except DragomanError as error:
        return print_error(error, opened=False)
    if as_json:
        print_json([_record(finding, settings.agent) for finding in findings])
    else:
        _print(findings, settings.agent)
    try:
        LocalClient(config=settings).spec_of(None)
    except InputError as error:
        print_error(error)
    return 0


def _record(finding: Finding, default: str) -> dict[str, object]:
    preset = finding.preset
    return {
        "id": preset.id,
        "name": preset.name,
        "description": preset.description,
        "default": preset.id == default,
        "state": finding.state,
        "version": finding.version,
        "path": str(finding.path) if finding.path else None,
        "command": preset.command_lines[0],
        "problem": finding.problem or None,
        "hint": finding.hint or None,
        "install": preset.install or None,
        "note": preset.note or None,
        "website": preset.website or None,
    }


def _print(findings: Sequence[Finding], default: str) -> None:
    """Print the agents that can be started first, then the others with the line that installs them."""
    ready = [finding for finding in findings if finding.state != "missing"]
    missing = [finding for finding in findings if finding.state == "missing"]
    if ready:
        click.echo(_bold("Ready to use"))
        _columns([_ready_row(finding, default) for finding in ready])
    if missing:
        click.echo(("\n" if ready else "") + _bold("Not installed; to install them:"))
        _columns([_missing_row(finding, default) for finding in missing])
    click.echo("")
    sandbox_text = f"Sandbox  {sandbox_state()}; see: dragoman sandbox"
    has_default = any(finding.preset.id == default for finding in findings)
    mark = "* is the default. " if has_default else ""
    change = "To change the default: dragoman config set agent NAME"
    for text in (sandbox_text, f'{mark}Use another with: dragoman run -a NAME "…"', change):
        for line in textwrap.wrap(text, _terminal_columns()):
            click.echo(line)


def sandbox_state() -> str:
    """Return which sandbox agents can be run in here."""
    from dragoman.errors import SandboxUnavailable
    from dragoman.workspace.sandbox import this_machine
    from dragoman.workspace.sandbox_policy import choose_mechanism

    try:
        return f"{choose_mechanism('auto', this_machine())} (dragoman run --sandbox)"
    except SandboxUnavailable as error:
        return f"none: {error}"


def _ready_row(finding: Finding, default: str) -> Row:
    preset = finding.preset
    # The command line whose program was found: an alternative, where the first is missing.
    program = finding.path.name if finding.path else ""
    lines = preset.command_lines
    line = next((line for line in lines if os.path.basename(line[0]) == program), lines[0])
    command = shlex.join((program or line[0], *line[1:]))
    return _mark(finding, default), preset.name, describe_state(finding), command, finding.problem


def describe_state(finding: Finding) -> str:
    """Describe an agent that can be started: its version, or the program that downloads it."""
    if finding.state == "downloads" and finding.path is not None:
        return f"via {finding.path.name}"
    return finding.version or "installed"


def _missing_row(finding: Finding, default: str) -> Row:
    preset = finding.preset
    return _mark(finding, default), preset.name, "", preset.install or finding.problem, preset.note


def _mark(finding: Finding, default: str) -> str:
    return f"{'*' if finding.preset.id == default else ' '} {finding.preset.id}"


def _columns(rows: Sequence[Row]) -> None:
    """Print the rows; in a narrow terminal, the command below the agent."""
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    margin = sum(width + 2 for width in widths if width)
    is_narrow = _terminal_columns() < margin + MIN_TEXT_COLUMNS
    if is_narrow:
        margin = 4
    room = max(MIN_TEXT_COLUMNS, _terminal_columns() - margin)
    for *cells, text, remark in rows:
        first, *more = _pasteable_lines(text, room) if is_narrow else [text]
        if is_narrow:
            head = "  ".join(cell for cell in cells if cell)
            for line in textwrap.wrap(head, room + margin, subsequent_indent="  "):
                click.echo(line)
            click.echo(f"{'':<{margin}}{first}")
        else:
            start = "".join(f"{cell:<{width}}  " for cell, width in zip(cells, widths, strict=True) if width)
            click.echo(f"{start}{first}".rstrip())
        for line in (*more, *textwrap.wrap(remark, room)):
            click.echo(f"{'':<{margin}}{line}")


def _pasteable_lines(command: str, room: int) -> list[str]:
    """Break a command line between words. A backslash ends each line but the last: it can still be pasted as it is."""
    lines = textwrap.wrap(command, room - 2, break_long_words=False, break_on_hyphens=False) or [""]
    return [*(f"{line} \\" for line in lines[:-1]), lines[-1]]


def _terminal_columns() -> int:
    return shutil.get_terminal_size((80, 24)).columns


def _bold(text: str) -> str:
    return click.style(text, bold=True) if sys.stdout.isatty() and not os.environ.get("NO_COLOR") else text
