"""`dragoman login`: its options. What they do is `login_dialog`'s, which is loaded when there is something to do."""

from __future__ import annotations

from typing import Any

import click

EPILOG = """\b
Examples:
  dragoman login claude                      choose from the agent's own ways
  dragoman login gemini --list               which there are
  dragoman login gemini --method oauth-personal
  dragoman login kimi --logout

\b
Exit codes:
  0    logged in: a session could be opened
  1    the agent failed
  2    bad input: an option, or several ways and none was chosen
  3    the agent cannot be started
  4    still not logged in
  130  interrupted by Ctrl-C

Keys are never asked for and never kept: where an agent takes one from the environment, you are told which to set."""


@click.command(epilog=EPILOG, short_help="Log in to an agent by its own methods.")
@click.argument("agent", required=False)
@click.option("--method", metavar="ID", help="Which of the agent's ways to log in. [default: its only one, or asks]")
@click.option("--list", "list_only", is_flag=True, help="Only tell which ways there are.")
@click.option("--logout", is_flag=True, help="Log out instead, where the agent can.")
@click.option("--agent-command", metavar="COMMAND", help="Any command line that speaks ACP, in place of a preset.")
@click.option("--env", metavar="NAME=VALUE", multiple=True, help="A variable for the agent's environment.")
@click.option("--start-timeout", metavar="TIME", help="How long the agent may take to start. [default: 60s]")
def login(**given: Any) -> int:
    """Log in to AGENT (as `dragoman agents` lists them) by one of its own methods, and see whether it helped.

    What the agent does itself, it is asked to do; what it does on a terminal, it gets this one for.
    """
    from dragoman.cli.login_dialog import Given, run

    return run(Given(**given))
