"""Options that several commands share: the agent and its settings, `--json`, and filters of sessions.

`filter_sessions` and `parse_time` say what the filters mean. The functions `complete_…` complete values in a shell;
they load what they need, and an error only means that nothing is completed.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime, time, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.shell_completion import CompletionItem

from dragoman.errors import DragomanError, InputError

if TYPE_CHECKING:
    from dragoman.journal.rows import Session

F = TypeVar("F", bound=Callable[..., Any])


class Number(click.IntRange):
    """A whole number within bounds. The help does not show them: `[x>=1]` explains little."""

    name = "whole number"  # as errors call it

    def _describe_range(self) -> str:
        return ""


ACCESS_LEVELS = {
    "read-only": "read in the workspace; everything else is denied",
    "ask": "ask before it writes a file or runs a command",
    "edit-inside": "write in the workspace; ask before it runs a command",
    "full": "do everything without asking",
}

# Sessions that a shell offers to complete, the latest ones, and the columns of their titles.
MAX_COMPLETED_SESSIONS = 50
MAX_COMPLETED_COLUMNS = 60


def complete_agent(context: click.Context, parameter: click.Parameter, typed: str) -> list[CompletionItem]:
    from dragoman.agents.preset import load_presets
    from dragoman.config import load

    presets = load_presets(load(on_error=lambda error: None), lambda error: None)
    return [CompletionItem(name, help=preset.name) for name, preset in presets.items() if name.startswith(typed)]


def complete_access(context: click.Context, parameter: click.Parameter, typed: str) -> list[CompletionItem]:
    return [CompletionItem(name, help=about) for name, about in ACCESS_LEVELS.items() if name.startswith(typed)]


def complete_skill(context: click.Context, parameter: click.Parameter, typed: str) -> list[CompletionItem]:
    from dragoman.session.context import ContextSource
    from dragoman.workspace import Workspace

    with suppress(DragomanError):
        skills = ContextSource().read(Workspace(context.params.get("cwd") or ".")).skills
        return [
            CompletionItem(item.skill.name, help=item.skill.description)
            for item in skills
            if item.skill.name.startswith(typed) and not item.skill.problem
        ]
    return []


def complete_session(context: click.Context, parameter: click.Parameter, typed: str) -> list[CompletionItem]:
    import asyncio

    from dragoman.cli.command import open_readonly
    from dragoman.cli.text import one_line
    from dragoman.journal.sessions import session_name, short_ids, top_level

    async def find() -> list[CompletionItem]:
        async with open_readonly() as journal:
            every = await journal.sessions()
        short_names = short_ids(every)
        found = [session for session in top_level(every) if session.id.startswith(typed)]
        # One that is typed further than its short id is completed to the whole one.
        ids = {long: short for long, short in short_names.items() if short.startswith(typed)}
        return [
            CompletionItem(ids.get(session.id, session.id), help=one_line(session_name(session), MAX_COMPLETED_COLUMNS))
            for session in found[:MAX_COMPLETED_SESSIONS]
        ]

    with suppress(DragomanError):
        return asyncio.run(find())
    return []


def _read_network(context: click.Context, parameter: click.Parameter, value: str | None) -> str | bool | None:
    return {"on": True, "off": False}.get(value or "", value)


FILE = click.Path(exists=True, dir_okay=False, readable=True)

start_timeout_option = click.option(
    "--start-timeout", metavar="TIME", help="Time limit for the agent to start. [default: 60s]"
)
_SANDBOX = (
    click.option(
        "--sandbox/--no-sandbox",
        default=None,
        help="Have the kernel confine the agent: it writes only in the workspace, and reads no secrets of yours. "
        "[default: as configured, off]",
    ),
    click.option(
        "--network",
        type=click.Choice(["on", "off", "hosts"]),
        callback=_read_network,
        help="Whether the agent may use the network. With --sandbox it is enforced: off leaves the model's hosts, "
        "hosts also those that rules allow.",
    ),
)
_AGENT = (
    click.option(
        "-a",
        "--agent",
        metavar="AGENT",
        shell_complete=complete_agent,
        help="An agent from `dragoman agents`, or an address: wss://… [default: demo]",
    ),
    click.option("--agent-command", metavar="COMMAND", help="Any command line that speaks ACP, instead of -a."),
    click.option("--cwd", metavar="DIR", help="The workspace. [default: the current folder]"),
    click.option(
        "--add-dir", metavar="DIR", multiple=True, help="Another folder that the agent may use; may be repeated."
    ),
    click.option(
        "--access",
        metavar="LEVEL",
        shell_complete=complete_access,
        help="What the agent may do without asking: read-only, ask, edit-inside (write in the workspace) or full. "
        "[default: ask]",
    ),
    click.option("--model", metavar="MODEL", help="The agent's model."),
    click.option("--mode", metavar="MODE", help="The agent's mode, such as plan."),
    click.option("--effort", "reasoning_effort", metavar="LEVEL", help="The agent's reasoning effort."),
    click.option("--option", metavar="ID=VALUE", multiple=True, help="Any other option of the agent; may be repeated."),
    *_SANDBOX,
    click.option("--system-prompt", metavar="TEXT", help="System prompt for the agent."),
    click.option(
        "--instructions",
        "custom_instructions",
        metavar="TEXT",
        help='Text before each prompt; "" for none. [default: the setting custom_instructions]',
    ),
    click.option(
        "--skill",
        metavar="NAME",
        multiple=True,
        shell_complete=complete_skill,
        help="Send this skill in full with each prompt; may be repeated.",
    ),
    click.option("--no-skills", is_flag=True, help="Send no skills, not even their index."),
    start_timeout_option,
)

env_option = click.option(
    "--env", metavar="NAME=VALUE", multiple=True, help="Environment variable for the agent; may be repeated."
)
save_option = click.option("--save", metavar="FILE", help="Save the session to a file, for --resume.")
resume_option = click.option(
    "--resume",
    metavar="ID|FILE",
    shell_complete=complete_session,
    help="Resume a session: its id, or a file that --save wrote.",
)
no_journal_option = click.option("--no-journal", is_flag=True, help="Do not record the session in the journal.")
checkpoints_option = click.option(
    "--checkpoints/--no-checkpoints",
    default=None,
    help="Record the workspace before and after each run, for `dragoman diff` and `rewind`. [default: yes]",
)
_WORKTREE = (
    click.option(
        "-w",
        "--worktree/--no-worktree",
        default=None,
        help="Work in a git worktree: a folder and a branch of its own. [default: no, but with --isolated]",
    ),
    click.option("--worktree-name", metavar="NAME", help="The same, in the worktree of this name, new or not."),
    click.option("--base", metavar="REF", help="The branch or commit that it begins with. [default: HEAD]"),
    click.option("--setup", metavar="COMMAND", help="Run this in the new worktree first. [default: as configured]"),
    click.option("--keep-failed", is_flag=True, help="Keep the new worktree if that command fails."),
)


def worktree_options(command: F) -> F:
    """Add the options of commands that open a session in a worktree."""
    for option in reversed(_WORKTREE):
        command = option(command)
    return command


isolated_option = click.option(
    "--isolated/--not-isolated",
    "isolation",
    default=None,
    help="Give the agent a HOME of its own, with its login and nothing else, and only the variables it needs. "
    "[default: no]",
)
plain_option = click.option(
    "--plain", is_flag=True, help="Print the agent's text as it is, without rendering Markdown."
)
verbose_option = click.option(
    "-v", "--verbose", is_flag=True, help="Also show the agent's stderr and other diagnostics."
)

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
agent_filter = click.option(
    "-a", "--agent", metavar="AGENT", shell_complete=complete_agent, help="Only sessions of this agent."
)
workspace_filter = click.option("--workspace", metavar="DIR", help="Only sessions in this folder.")
since_option = click.option("--since", metavar="TIME", help="Since this time: 2026-01-31, yesterday, 12h, 7d.")
until_option = click.option("--until", metavar="TIME", help="Until this time (a date includes the whole day).")
limit_option = click.option(
    "-n",
    "--limit",
    metavar="N",
    type=Number(min=0),
    default=20,
    show_default=True,
    help="Maximum number of results; 0 for all.",
)
provider_option = click.option(
    "--provider", type=click.Choice(["claude", "codex"]), help="Only transcripts of this agent. [default: all]"
)
home_option = click.option("--home", metavar="DIR", help="The home folder. [default: DRAGOMAN_HOME, or ~/.dragoman]")


def agent_options(command: F) -> F:
    """Add the options of commands that open a session."""
    return _with_options(command, _AGENT)


def sandbox_options(command: F) -> F:
    """Add --sandbox and --network, which `agent_options` has already."""
    return _with_options(command, _SANDBOX)


def _with_options(command: F, options: Sequence[Callable[[F], F]]) -> F:
    for option in reversed(options):  # the last one added comes first in the help
        command = option(command)
    return command


def parse_pair(text: str, option: str, form: str) -> tuple[str, str]:
    """Split the value of an option such as --env NAME=VALUE; `form` describes it, in errors."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        # Without the value: of --env it may be a key.
        raise InputError(f"{option} must be {form}: the name or the equals sign is missing")
    return name.strip(), value


def split_command(text: str) -> tuple[str, ...]:
    """Split the value of --agent-command into words, as a shell does."""
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise InputError(f"--agent-command: {error} in {text!r}") from None


def filter_sessions(
    sessions: Sequence[Session],
    *,
    agent: str | None = None,
    workspace: str | None = None,
    since: float | None = None,
    until: float | None = None,
) -> list[Session]:
    """Select the sessions that match; `since` and `until` apply to their last activity."""
    cwd = workspace_of(sessions, workspace)
    return [
        session
        for session in sessions
        if agent in (None, session.agent)
        and cwd in (None, session.cwd)
        and (since is None or session.updated >= since)
        and (until is None or session.updated < until)
    ]


def workspace_of(sessions: Sequence[Session], folder: str | None) -> str | None:
    """Return the folder as sessions name it: without symbolic links, or as typed where imported sessions have it so."""
    if folder is None:
        return None
    typed_path = os.path.abspath(os.path.expanduser(folder))
    return typed_path if any(session.cwd == typed_path for session in sessions) else os.path.realpath(typed_path)


def parse_time(text: str | None, option: str, now: datetime, *, end: bool = False) -> float | None:
    """Read a day, a day and time, or a duration before now. A day means its beginning, or with `end` its end."""
    if text is None:
        return None
    from dragoman.config import parse_duration  # `dragoman import` has to start its worker before this is loaded

    word = text.strip().lower()
    days = {"today": 0, "yesterday": 1}
    try:
        if word in days:
            day = now.date() - timedelta(days=days[word])
        elif len(word) == len("2026-01-31") and word.count("-") == 2:
            day = datetime.fromisoformat(word).date()
        elif "-" in word:
            return datetime.fromisoformat(text.strip()).astimezone().timestamp()
        else:
            return now.timestamp() - parse_duration(word)
    except (ValueError, OverflowError):
        raise InputError(
            f"{option}: {text!r} is not a time",
            guidance='Use a day ("2026-01-31", "today", "yesterday"), a day and time ("2026-01-31T18:00"), or a'
            ' duration before now ("90m", "12h", "7d").',
        ) from None
    # The user's own midnight; a day is not always 24 hours long.
    start = datetime.combine(day + timedelta(days=int(end)), time.min)
    return start.astimezone().timestamp()
