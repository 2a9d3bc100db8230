"""Options that several commands have, word for word: which agent, where, and with which of its settings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

_AGENT = (
    click.option(
        "-a",
        "--agent",
        metavar="AGENT",
        help="A preset, as `dragoman agents` lists them, or an address: wss://… [default: demo]",
    ),
    click.option("--agent-command", metavar="COMMAND", help="Any command line that speaks ACP, in place of a preset."),
    click.option("--cwd", metavar="DIR", help="The workspace. [default: the current folder]"),
    click.option("--add-dir", metavar="DIR", multiple=True, help="One more folder that the agent may use."),
    click.option(
        "--access",
        metavar="LEVEL",
        help="What it may do unasked: read-only, ask, edit-inside (write in the workspace) or full. [default: ask]",
    ),
    click.option("--model", metavar="MODEL", help="The agent's model."),
    click.option("--mode", metavar="MODE", help="The agent's mode, such as plan."),
    click.option("--effort", metavar="LEVEL", help="The agent's reasoning effort."),
    click.option("--option", metavar="ID=VALUE", multiple=True, help="Any other option of the agent's own."),
)


def agent_options(command: F) -> F:
    """Of commands that open a session."""
    for option in reversed(_AGENT):  # the last to be put on is the first in the help
        command = option(command)
    return command
