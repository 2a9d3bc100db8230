"""`dragoman run`: its options. What they do is `drive`'s, which is loaded when there is something to do."""

from __future__ import annotations

from typing import Any

import click

from dragoman.cli.options import agent_options

EPILOG = """\b
Examples:
  dragoman run "hello"
  dragoman run -a claude --access edit-inside "Fix the failing test"
  git diff | dragoman run -a codex "Review this" > review.md
  dragoman run -a opencode --json "Explain main.py" | jq -r '.text // empty'
  dragoman run --agent-command "my-agent --acp" --deadline 5m "Tidy up"
  dragoman run -a claude --save talk.json "Read main.py"
  dragoman run --resume talk.json "Now add a test for it"

\b
Exit codes:
  0    done
  1    the agent failed: it crashed, answered with an error, refused, reached
       its token limit or said nothing
  2    bad input: an option, a file or a setting
  3    cannot start: no session could be opened
  4    login needed
  5    refused by policy: --access denied something, or nobody was there to
       ask, and the run then failed, or completed no tool call after it
  124  the deadline or the idle limit was reached
  130  interrupted by Ctrl-C: once cancels politely, twice stops at once

The agent's words go to stdout, everything else to stderr."""

_FILE = click.Path(exists=True, dir_okay=False, readable=True)


@click.command(epilog=EPILOG, short_help="Send a prompt to an agent and watch it work.")
@click.argument("prompt", nargs=-1)
@agent_options
@click.option("--file", metavar="PATH", multiple=True, type=_FILE, help="A text file that goes with the prompt.")
@click.option("--image", metavar="PATH", multiple=True, type=_FILE, help="A picture that goes with the prompt.")
@click.option("--system-prompt", metavar="TEXT", help="What the agent shall bear in mind.")
@click.option("--deadline", metavar="TIME", help='End the run after so long: "90s", "5m", "1h30m".')
@click.option("--idle-limit", metavar="TIME", help="End it after so long without a sign of life.")
@click.option("--start-timeout", metavar="TIME", help="How long the agent may take to start. [default: 60s]")
@click.option("--env", metavar="NAME=VALUE", multiple=True, help="A variable for the agent's environment.")
@click.option("--save", metavar="FILE", help="Write a handle of the session, to go on with it later.")
@click.option("--resume", metavar="ID|FILE", help="Go on with a session: its id, or a file that --save wrote.")
@click.option("--no-journal", is_flag=True, help="Keep nothing of it in the journal.")
@click.option("--json", is_flag=True, help="One JSON event a line on stdout.")
@click.option("-q", "--quiet", is_flag=True, help="The text alone: nothing on stderr but questions and errors.")
@click.option("-v", "--verbose", is_flag=True, help="Also what the agent prints to its stderr, and other noise.")
@click.option("--thoughts/--no-thoughts", default=None, help="Show its thoughts. [default: on a terminal]")
def run(**given: Any) -> int:
    """Send a prompt to an agent and watch it work.

    PROMPT is all words together; "-", or none at all, reads it from standard input. Beside a prompt, what is piped in
    goes with it as an attachment.
    """
    from dragoman.cli.drive import run as drive
    from dragoman.cli.job import Given

    return drive(Given(**given))
