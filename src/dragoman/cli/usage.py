"""`dragoman usage`: its options. What it does is `usage_report`'s, which is loaded when there is something to do."""

from __future__ import annotations

from typing import Any

import click

EPILOG = """\b
Examples:
  dragoman usage
  dragoman usage --by agent --since 30d
  dragoman usage --by model --json | jq '.[] | {model, output_tokens}'

Figures are those that agents report, and no others: what none of them told is
"—", and never zero."""


@click.command(epilog=EPILOG, short_help="Tokens and cost by day, agent, model or workspace.")
@click.option(
    "--by",
    type=click.Choice(["day", "agent", "model", "workspace"]),
    default="day",
    show_default=True,
    help="What is added up.",
)
@click.option("-a", "--agent", metavar="AGENT", help="Only runs of this agent.")
@click.option("--workspace", metavar="DIR", help="Only runs in this folder.")
@click.option("--since", metavar="TIME", help="Not older: 2026-01-31, yesterday, 12h, 7d.")
@click.option("--until", metavar="TIME", help="Not younger; a day counts with all of it.")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def usage(**given: Any) -> int:
    """Tokens and cost of the runs, by day, agent, model or workspace."""
    from dragoman.cli.usage_report import run_usage

    return run_usage(**given)
