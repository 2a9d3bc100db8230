"""`dragoman import`: its options. What it does is `import_report`'s, which is loaded when there is something to do."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import click

EPILOG = """\b
Examples:
  dragoman import                          what is there? then it asks
  dragoman import --yes --provider claude
  dragoman import ~/backup/.codex/sessions
  dragoman import --provider codex rollout.jsonl --json

Without PATH it looks where the agents keep their transcripts. Nothing is read
before you agree; a PATH that you name is read at once.

Run it again at any time: only what is new comes in. What Dragoman ran itself,
or what was deleted here, is left out. docs/import.md tells more."""


@click.command("import", epilog=EPILOG, short_help="Take in what you said to Claude Code and Codex without Dragoman.")
@click.argument("paths", metavar="[PATH]...", nargs=-1)
@click.option("--provider", type=click.Choice(["claude", "codex"]), help="Whose transcripts. [default: all]")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--json", "as_json", is_flag=True, help="What came of it, as JSON.")
def import_(**given: Any) -> int:
    """Take in transcripts: files, or folders with files in them."""
    from dragoman.translate.ingest.apart_begin import begin, pays, sizes_below

    with begin() if pays(sizes_below(given["paths"])) else nullcontext() as process:
        from dragoman.cli.import_report import run_import

        return run_import(**given, process=process)
