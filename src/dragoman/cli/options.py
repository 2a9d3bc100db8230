"""Options that several commands share: the agent and its settings, filters of sessions, `--json`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

FILE = click.Path(exists=True, dir_okay=False, readable=True)

_AGENT = (
    click.option(
        "-a",
        "--agent",
        metavar="AGENT",
        help="An agent from `dragoman agents`, or an address: wss://… [default: demo]",
    ),
    click.option("--agent-command", metavar="COMMAND", help="Any command line that speaks ACP, instead of -a."),
    click.option("--cwd", metavar="DIR", help="The workspace. [default: the current folder]"),
    click.option("--add-dir", metavar="DIR", multiple=True, help="Another folder that the agent may use."),
    click.option(
        "--access",
        metavar="LEVEL",
        help="What it may do without asking: read-only, ask, edit-inside (write in the workspace) or full. "
        "[default: ask]",
    ),
    click.option("--model", metavar="MODEL", help="The agent's model."),
    click.option("--mode", metavar="MODE", help="The agent's mode, such as plan."),
    click.option("--effort", "reasoning_effort", metavar="LEVEL", help="The agent's reasoning effort."),
    click.option("--option", metavar="ID=VALUE", multiple=True, help="Any other option of the agent."),
    click.option("--system-prompt", metavar="TEXT", help="System prompt for the agent."),
    click.option("--start-timeout", metavar="TIME", help="Time limit for the agent to start. [default: 60s]"),
)

env_option = click.option("--env", metavar="NAME=VALUE", multiple=True, help="An environment variable for the agent.")
save_option = click.option("--save", metavar="FILE", help="Write a session handle there, for --resume.")
resume_option = click.option(
    "--resume", metavar="ID|FILE", help="Resume a session: its id, or a file that --save wrote."
)
no_journal_option = click.option("--no-journal", is_flag=True, help="Do not record the session in the journal.")
plain_option = click.option(
    "--plain", is_flag=True, help="Print the agent's text as it is, without rendering Markdown."
)
verbose_option = click.option(
    "-v", "--verbose", is_flag=True, help="Also show the agent's stderr and other diagnostics."
)

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
agent_filter = click.option("-a", "--agent", metavar="AGENT", help="Only sessions of this agent.")
workspace_filter = click.option("--workspace", metavar="DIR", help="Only sessions in this folder.")
since_option = click.option("--since", metavar="TIME", help="Since this time: 2026-01-31, yesterday, 12h, 7d.")
until_option = click.option("--until", metavar="TIME", help="Until this time (a date includes the whole day).")
limit_option = click.option(
    "-n",
    "--limit",
    metavar="N",
    type=click.IntRange(min=0),
    default=20,
    show_default=True,
    help="Maximum number of results; 0 for all.",
)
home_option = click.option("--home", metavar="DIR", help="The home folder. [default: DRAGOMAN_HOME, or ~/.dragoman]")


def agent_options(command: F) -> F:
    """Add the options of commands that open a session."""
    for option in reversed(_AGENT):  # the last one added comes first in the help
        command = option(command)
    return command
