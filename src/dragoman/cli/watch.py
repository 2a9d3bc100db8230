"""`dragoman watch`: its options. What it does is `watch_report`'s, which is loaded when there is something to do."""

from __future__ import annotations

from typing import Any

import click

EPILOG = """\b
Examples:
  dragoman watch                           it asks, and then it watches
  dragoman watch --provider claude --yes
  dragoman watch ~/backup/.codex/sessions
  dragoman watch --json | jq -r .kind

Without PATH it watches where the agents keep their transcripts. Nothing is read
before you agree, once for each agent; a PATH that you name is watched at once.
In config.toml: [watch] claude = "on" (or "off"; "ask" is what it is now).

What was there before comes in too, as by `dragoman import`. Kill it at any
time: the next one goes on from there. docs/watch.md tells more."""


@click.command(epilog=EPILOG, short_help="See what Claude Code and Codex do in other terminals.")
@click.argument("paths", metavar="[PATH]...", nargs=-1)
@click.option("--provider", type=click.Choice(["claude", "codex"]), help="Whose transcripts. [default: all]")
@click.option("--yes", is_flag=True, help="Agree, now and for the next times.")
@click.option("--json", "as_json", is_flag=True, help="What comes in, as lines of JSON.")
def watch(**given: Any) -> int:
    """Take in transcripts while they are written, and show what happens, until Ctrl-C."""
    from dragoman.cli.watch_report import run_watch

    return run_watch(**given)
