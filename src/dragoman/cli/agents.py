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
    from dragoman.agents.preset import get, load_presets
    from dragoman.cli.command import print_error, print_json
    from dragoman.config import load
    from dragoman.errors import DragomanError

    try:
        settings = load()
        presets = load_presets(settings)
        get(settings.agent, presets)
        findings = asyncio.run(survey(presets, environ=dict(os.environ)))
    except DragomanError as error:
        return print_error(error, opened=False)
    if as_json:
        print_json([_record(finding, settings.agent) for finding in findings])
    else:
        _print(findings, settings.agent)
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
    footer = '* is the default. Use another with: dragoman run -a NAME "…"'
    for line in textwrap.wrap(footer, shutil.get_terminal_size((80, 24)).columns):
        click.echo(line)


def _ready_row(finding: Finding, default: str) -> Row:
    preset = finding.preset
    # The command line whose program was found: an alternative, where the first is missing.
    program = finding.path.name if finding.path else ""
    lines = preset.command_lines
    line = next((line for line in lines if os.path.basename(line[0]) == program), lines[0])
    state = f"via {program}" if finding.state == "downloads" else finding.version or "installed"
    return _mark(finding, default), preset.name, state, shlex.join((program or line[0], *line[1:])), finding.problem


def _missing_row(finding: Finding, default: str) -> Row:
    preset = finding.preset
    return _mark(finding, default), preset.name, "", preset.install or finding.problem, preset.note


def _mark(finding: Finding, default: str) -> str:
    return f"{'*' if finding.preset.id == default else ' '} {finding.preset.id}"


def _columns(rows: Sequence[Row]) -> None:
    """Print the rows; in a narrow terminal, the command below the agent. A line to paste is never broken."""
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    margin = sum(width + 2 for width in widths if width)
    terminal_columns = shutil.get_terminal_size((80, 24)).columns
    is_narrow = terminal_columns < margin + MIN_TEXT_COLUMNS
    if is_narrow:
        margin = 4
    for *cells, text, remark in rows:
        if is_narrow:
            click.echo("  ".join(cell for cell in cells if cell))
            click.echo(f"{'':<{margin}}{text}")
        else:
            start = "".join(f"{cell:<{width}}  " for cell, width in zip(cells, widths, strict=True) if width)
            click.echo(f"{start}{text}".rstrip())
        for line in textwrap.wrap(remark, max(MIN_TEXT_COLUMNS, terminal_columns - margin)):
            click.echo(f"{'':<{margin}}{line}")


def _bold(text: str) -> str:
    return click.style(text, bold=True) if sys.stdout.isatty() and not os.environ.get("NO_COLOR") else text
