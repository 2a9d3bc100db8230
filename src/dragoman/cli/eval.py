"""`dragoman eval`: its options. What they do is `fleet`'s, which is loaded when there is something to do."""

from __future__ import annotations

from typing import Any

import click

EPILOG = """\b
Examples:
  dragoman eval -a claude -a codex tasks.jsonl
  dragoman eval -a claude -a gemini tasks.jsonl --schema answer.json -j 4
  dragoman eval -a opencode tasks.jsonl --tools catalogue:lookup --deadline 2m
  dragoman eval -a claude tasks.jsonl --budget cost_usd=0.5 --budget tool_calls=30
  dragoman eval -a demo tasks.jsonl --json | jq -r 'select(.status != "ok") | .task'

\b
A task is a line of JSON: {"prompt": "…"}, and, as you like, "id", "expected"
(what the output must be; without --schema the text) and "schema" (its own).

\b
Exit codes:
  0    all tasks ended well, as expected where something was
  1    some did not
  2    bad input: an option, a file or a setting
  130  interrupted by Ctrl-C; what was done is kept

Each outcome is a line in the file of --out the moment it is known. Start the
same command again after a kill: what has a line there is not done again."""

_FILE = click.Path(exists=True, dir_okay=False, readable=True)


@click.command("eval", epilog=EPILOG, short_help="The same tasks over several agents, compared.")
@click.argument("tasks", type=_FILE)
@click.option("-a", "--agent", "agents", metavar="AGENT", multiple=True, help="An agent; give it several times.")
@click.option("--agent-command", "commands", metavar="COMMAND", multiple=True, help="Any command line that speaks ACP.")
@click.option("--tools", metavar="MODULE:NAME", multiple=True, help="Python functions that the agents may call.")
@click.option("--schema", metavar="FILE", type=_FILE, help="The JSON Schema of the output.")
@click.option(
    "-j", "--jobs", metavar="N", type=click.IntRange(1, 256), default=1, help="How many at a time. [default: 1]"
)
@click.option("-o", "--out", metavar="FILE", help="Where the outcomes go. [default: TASKS.results.jsonl]")
@click.option("--redo-errors", is_flag=True, help="Do again what ended with an error.")
@click.option("--cwd", metavar="DIR", help="The workspace. [default: the current folder]")
@click.option("--access", metavar="LEVEL", default="read-only", help="What they may do. [default: read-only]")
@click.option("--model", metavar="MODEL", help="The agents' model.")
@click.option("--max-rounds", metavar="N", type=click.IntRange(1), default=3, help="Prompts for one task. [default: 3]")
@click.option("--attempts", metavar="N", type=click.IntRange(1), default=3, help="On transient errors. [default: 3]")
@click.option("--deadline", metavar="TIME", help='For each task: "90s", "5m", "1h30m".')
@click.option("--idle-limit", metavar="TIME", help="End a task after so long without a sign of life.")
@click.option("--budget", metavar="NAME=N", multiple=True, help="For each task: tokens, cost_usd, tool_calls, seconds.")
@click.option("--env", metavar="NAME=VALUE", multiple=True, help="A variable for the agents' environment.")
@click.option("--json", "as_json", is_flag=True, help="Each outcome on stdout too, one JSON object a line.")
@click.option("-q", "--quiet", is_flag=True, help="No progress: nothing but the table, and errors.")
def evaluate(**given: Any) -> int:
    """Give the same tasks to several agents and compare them.

    TASKS is a file with one task a line. Nobody is asked: what --access does not allow is refused.
    """
    from dragoman.cli.fleet import Given, run

    return run(Given(**given))
