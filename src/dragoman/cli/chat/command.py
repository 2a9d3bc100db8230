"""`dragoman chat`: its options. What they do is `drive`'s, which is loaded when there is something to do."""

from __future__ import annotations

from typing import Any

import click

from dragoman.cli.options import agent_options

EPILOG = """\b
Examples:
  dragoman chat
  dragoman chat -a claude --access edit-inside
  dragoman chat -a codex --save talk.json
  dragoman chat --resume talk.json

\b
In the chat:
  /…           the agent's own commands; Tab completes them
  :help        ours: :model, :mode, :option, :cancel, :restart, :save, :quit
  @path        sends a file along
  Alt-Enter    a new line; so does a backslash before Enter
  Ctrl-C       cancels the run; a second one ends the agent
  Ctrl-D       leaves

What you type while the agent works is queued, and sent when it has finished."""


@click.command(epilog=EPILOG, short_help="Talk with an agent, prompt after prompt.")
@agent_options
@click.option("--system-prompt", metavar="TEXT", help="What the agent shall bear in mind.")
@click.option("--start-timeout", metavar="TIME", help="How long the agent may take to start. [default: 60s]")
@click.option("--env", metavar="NAME=VALUE", multiple=True, help="A variable for the agent's environment.")
@click.option("--save", metavar="FILE", help="Keep a handle of the session there, to go on with it later.")
@click.option("--resume", metavar="ID|FILE", help="Go on with a session: its id, or a file that --save wrote.")
@click.option("--no-journal", is_flag=True, help="Keep nothing of it in the journal.")
@click.option("-v", "--verbose", is_flag=True, help="Also what the agent prints to its stderr, and other noise.")
@click.option("--thoughts/--no-thoughts", default=True, help="Show its thoughts. [default: yes]")
def chat(**given: Any) -> int:
    """Talk with an agent, prompt after prompt, in one session.

    For a single prompt, or from a script, use `dragoman run`.
    """
    from dragoman.cli.chat.drive import run
    from dragoman.cli.job import Given

    return run(Given(**given))
