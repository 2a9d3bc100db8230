"""`dragoman sessions`: its commands. What they do is in `sessions_*`, loaded when there is something to do."""

from __future__ import annotations

from typing import Any

import click

EPILOG = """\b
Examples:
  dragoman sessions list --agent claude --since 7d
  dragoman sessions show
  dragoman sessions search timeout --kind tool
  dragoman sessions resume 3f9a1c "Now add a test for it"
  dragoman sessions export 3f9a1c -o talk.md

\b
ID is a session's id, or the beginning of it; `-` is the latest session.
All that is said is kept in the journal: docs/sessions.md tells more."""

LIST_EPILOG = """\b
Examples:
  dragoman sessions list
  dragoman sessions list --workspace . --since yesterday
  dragoman sessions list -n 0 --json | jq -r '.[].id'"""

SHOW_EPILOG = """\b
Examples:
  dragoman sessions show
  dragoman sessions show 3f9a1c --last 1
  dragoman sessions show 3f9a1c | less
  dragoman sessions show 3f9a1c --json | jq -r '.text // empty'"""

SEARCH_EPILOG = """\b
Examples:
  dragoman sessions search timeout retry
  dragoman sessions search "connection refused" --agent codex
  dragoman sessions search main.py --kind tool --since 30d
  dragoman sessions search parser --json | jq -r '.[].session'

All words have to occur, in any order, as parts of words too; what is quoted
belongs together; case does not matter."""

RESUME_EPILOG = """\b
Examples:
  dragoman sessions resume -
  dragoman sessions resume 3f9a1c "Now add a test for it"

More options have `dragoman run --resume ID` and `dragoman chat --resume ID`."""

EXPORT_EPILOG = """\b
Examples:
  dragoman sessions export 3f9a1c -o talk.md
  dragoman sessions export - --format json | jq '.tool_calls[].title'
  dragoman sessions export 3f9a1c > talk.jsonl

\b
Formats:
  jsonl     every frame, byte by byte; `dragoman journal import` reads it
  markdown  the conversation, to be read
  json      the rows: runs, messages, tool calls, usage, …
Without --format the name of the file tells; else it is jsonl."""

DELETE_EPILOG = """\b
Examples:
  dragoman sessions delete 3f9a1c
  dragoman sessions delete --yes 3f9a1c 07be52

It is really gone: frames, rows and what the search knew of it are removed from
the file and overwritten. What stays is a note that it was deleted, so that it
is not imported again."""

_ID = click.argument("session", metavar="ID")
_JSON = click.option("--json", "as_json", is_flag=True, help="As JSON.")
_AGENT = click.option("-a", "--agent", metavar="AGENT", help="Only sessions with this agent.")
_WORKSPACE = click.option("--workspace", metavar="DIR", help="Only sessions in this folder.")
_SINCE = click.option("--since", metavar="TIME", help="Not older: 2026-01-31, yesterday, 12h, 7d.")


_LIMIT = click.option(
    "-n",
    "--limit",
    metavar="N",
    type=click.IntRange(min=0),
    default=20,
    show_default=True,
    help="How many at most; 0 is all.",
)


@click.group(epilog=EPILOG, short_help="What was said before: list, show, search, resume, …")
def sessions() -> None:
    """What was said before, with any agent."""


@sessions.command("list", epilog=LIST_EPILOG, short_help="The sessions, the latest first.")
@_AGENT
@_WORKSPACE
@_SINCE
@_LIMIT
@click.option("--sub-agents", is_flag=True, help="Those of sub-agents too.")
@_JSON
def list_(**given: Any) -> int:
    """List the sessions, the latest first."""
    from dragoman.cli.sessions_list import run_list

    return run_list(**given)


@sessions.command(epilog=SHOW_EPILOG, short_help="A conversation, as it was.")
@click.argument("session", metavar="[ID]", required=False)
@click.option("--last", metavar="N", type=click.IntRange(min=1), help="Only the last N runs.")
@click.option("--thoughts/--no-thoughts", default=None, help="Show thoughts. [default: on a terminal]")
@click.option("--json", "as_json", is_flag=True, help="One JSON event a line, as of `dragoman run --json`.")
def show(**given: Any) -> int:
    """Show a conversation as it was; without an ID, the latest."""
    from dragoman.cli.sessions_show import run_show

    return run_show(**given)


@sessions.command(epilog=SEARCH_EPILOG, short_help="Find words in all that was said and done.")
@click.argument("words", nargs=-1, required=True)
@_AGENT
@_WORKSPACE
@click.option(
    "--kind",
    multiple=True,
    type=click.Choice(["user", "assistant", "thought", "tool", "file", "command"]),
    help="Only in these: what you, or the agent, said; its thoughts; its tool calls; files; commands.",
)
@_SINCE
@click.option("--until", metavar="TIME", help="Not younger; a day counts with all of it.")
@_LIMIT
@_JSON
def search(**given: Any) -> int:
    """Find words in all that was said and done, the best matches first."""
    from dragoman.cli.sessions_search import run_search

    return run_search(**given)


@sessions.command(epilog=RESUME_EPILOG, short_help="Go on with a session.")
@_ID
@click.argument("prompt", nargs=-1)
@click.option("--access", metavar="LEVEL", help="What it may do unasked. [default: as before]")
@click.option("--env", metavar="NAME=VALUE", multiple=True, help="A variable for the agent's environment.")
def resume(**given: Any) -> int:
    """Go on with a session: with a PROMPT as `dragoman run`, without one as `dragoman chat`."""
    from dragoman.cli.sessions_resume import run_resume

    return run_resume(**given)


@sessions.command(epilog=EXPORT_EPILOG, short_help="A session as Markdown, JSON or JSON Lines.")
@_ID
@click.option("--format", "format_", type=click.Choice(["jsonl", "markdown", "json"]), help="How it is written.")
@click.option("-o", "--output", metavar="FILE", help="Where to. [default: stdout]")
def export(**given: Any) -> int:
    """Write a session to stdout or to a file."""
    from dragoman.cli.sessions_export import run_export

    return run_export(**given)


@sessions.command(epilog=DELETE_EPILOG, short_help="Delete sessions, for good.")
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@click.option("--yes", is_flag=True, help="Do not ask.")
def delete(**given: Any) -> int:
    """Delete sessions, for good."""
    from dragoman.cli.sessions_list import run_delete

    return run_delete(**given)
