"""`dragoman import`: its options, and the start of the worker process.

The worker and this process have much to load. The worker is started before `import_run` is loaded, so that both load at
once.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import click

from dragoman.cli.options import provider_option
from dragoman.translate.ingest.worker_process import is_worker_worthwhile, sizes_below, start_worker

EPILOG = """\b
Examples:
  dragoman import                          shows what it finds, then asks
  dragoman import --yes --provider claude
  dragoman import ~/backup/.codex/sessions
  dragoman import --provider codex rollout.jsonl --json

Without PATH, the folders of the agents are searched, and nothing is read before
you agree. A PATH is read without asking.

Run it again at any time to import what is new. Sessions that Dragoman ran
itself, or that were deleted here, are skipped. See docs/import.md."""


@click.command("import", epilog=EPILOG)
@click.argument("paths", metavar="[PATH]...", nargs=-1)
@provider_option
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def import_(**options: Any) -> int:
    """Import Claude Code and Codex transcripts: files, or folders of files."""
    with start_worker() if is_worker_worthwhile(sizes_below(options["paths"])) else nullcontext() as process:
        from dragoman.cli.import_run import run_import

        return run_import(**options, process=process)
