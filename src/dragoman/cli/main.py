"""`dragoman`: the table of commands, and the exit codes and messages of a command line.

Only click is loaded here, so that `--help` stays fast: `LazyGroup` imports a command's module when the command is used.
"""

from __future__ import annotations

import importlib
import os
import re
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click
from click.shell_completion import CompletionItem

from dragoman._version import __version__

# Exit codes as a shell reports a program that a signal ended: 128 plus the signal's number.
INTERRUPTED = 130
PIPE_CLOSED = 141

# In a terminal of fewer columns, the help of an option goes below it, unless no option is wider than SHORT_COLUMNS.
NARROW_COLUMNS = 50
SHORT_COLUMNS = 12

EXAMPLES = """\b
Examples:
  dragoman run "hello"                     try it on the built-in demo agent
  dragoman agents                          list the installed agents
  dragoman run -a claude "Fix the failing test"
  dragoman chat -a claude                  have a conversation
  dragoman serve                           use a browser, or a phone
  dragoman sessions show                   show the latest conversation
  git diff | dragoman run -a codex "Review this" > review.md
  dragoman run -a gemini --json "Explain main.py" | jq -r .type

Run `dragoman COMMAND --help` for the options of a command."""

# Name: where the command is, and one line about it.
COMMANDS = {
    "run": ("dragoman.cli.run:run", "Send a prompt to an agent and watch it work."),
    "chat": ("dragoman.cli.chat.chat:chat", "Have a conversation with an agent."),
    "serve": ("dragoman.cli.serve:serve", "Serve sessions to browsers, phones and scripts."),
    "open": ("dragoman.cli.open:open_", "Open the page, or a session in it, in the browser."),
    "agents": ("dragoman.cli.agents:agents", "List installed agents, and how to install others."),
    "sessions": ("dragoman.cli.sessions:sessions", "List, show, search, resume and delete sessions."),
    "diff": ("dragoman.cli.checkpoints:diff", "Show what a run changed in the workspace."),
    "rewind": ("dragoman.cli.checkpoints:rewind", "Bring the files back to before or after a run."),
    "git": ("dragoman.cli.git:git", "Commit, push and open pull requests from a session."),
    "worktree": ("dragoman.cli.worktree:worktree", "See, apply, merge and drop worktrees of sessions."),
    "usage": ("dragoman.cli.usage:usage", "Show tokens and cost by day, agent, model or workspace."),
    "import": ("dragoman.cli.import_:import_", "Import Claude Code and Codex history."),
    "watch": ("dragoman.cli.watch:watch", "Follow Claude Code and Codex in other terminals."),
    "journal": ("dragoman.cli.journal:journal", "Verify, rebuild, export, import or compress the journal."),
    "eval": ("dragoman.cli.eval:eval_", "Run the same tasks on several agents and compare them."),
    "config": ("dragoman.cli.config:config", "Show, set and edit settings."),
    "login": ("dragoman.cli.login:login", "Log in to an agent."),
    "skills": ("dragoman.cli.skills:skills", "List, show, enable and disable skills."),
    "policy": ("dragoman.cli.policy:policy", "Test and list permission rules, revoke answers, trust rules."),
    "sandbox": ("dragoman.cli.sandbox:sandbox", "Show what a sandbox can confine here; run a command in one."),
    "token": ("dragoman.cli.token:token", "Manage links and tokens for the server."),
    "mcp": ("dragoman.cli.mcp:mcp", "Serve Python functions as MCP tools."),
    "model-server": ("dragoman.cli.model_server:model_server", "Run a scripted model server, for tests of agents."),
    "replay": ("dragoman.cli.replay:replay", "Play a recorded session back as an ACP agent."),
}


class HelpFormatter(click.HelpFormatter):
    """Fits the help into narrow terminals: click itself writes at least 50 columns, 30 of them for an option."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        if click.formatting.FORCED_WIDTH is None:
            self.width = min(self.width, max(shutil.get_terminal_size().columns - 2, 20))

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        rows = list(rows)
        if self.width < NARROW_COLUMNS and any(len(first) > SHORT_COLUMNS for first, _ in rows):
            col_max = 2  # the text goes below the option, indented
        super().write_dl(rows, col_max, col_spacing)


class HelpContext(click.Context):
    formatter_class = HelpFormatter


class LazyGroup(click.Group):
    """A group whose commands are imported when they are used, and not for the group's own help.

    `lazy`: by name, `module:attribute` and a line for the help.
    """

    context_class = HelpContext

    def __init__(self, *args: Any, lazy: Mapping[str, tuple[str, str]], **options: Any) -> None:
        super().__init__(*args, **options)
        self.lazy = lazy

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.lazy)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.lazy:
            return None
        module, _, attribute = self.lazy[cmd_name][0].partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        subcommands = command.commands.values() if isinstance(command, click.Group) else ()
        for each in (command, *subcommands):
            each.context_class = HelpContext
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, short_help) for name, (_, short_help) in self.lazy.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        names = [name for name in self.lazy if name.startswith(incomplete)]
        items = [CompletionItem(name, help=self.lazy[name][1]) for name in names]
        return [*items, *click.Command.shell_complete(self, ctx, incomplete)]


@click.group(
    cls=LazyGroup,
    lazy=COMMANDS,
    invoke_without_command=True,
    epilog=EXAMPLES,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, "-V", "--version", prog_name="dragoman", message="%(prog)s %(version)s")
@click.pass_context
def dragoman(context: click.Context) -> None:
    """Drive any coding agent that speaks the Agent Client Protocol."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())
        click.echo('\nNew here? Try: dragoman run "hello"')


def run(arguments: Sequence[str]) -> int:
    """Run a command line and return its exit code. Nothing that a user can cause ends in a traceback."""
    _open_closed_streams()
    try:
        code = dragoman.main(list(arguments), prog_name="dragoman", standalone_mode=False)
        sys.stdout.flush()
    except click.exceptions.NoArgsIsHelpError as error:  # a group of commands without one
        click.echo(error.format_message(), err=True)
        return error.exit_code
    except click.ClickException as error:
        _print_usage_error(error)
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        return INTERRUPTED
    except SystemExit as end:  # click itself exits after a completion, and when the reader of its output is gone
        return PIPE_CLOSED if end.code else 0
    except OSError as error:
        # The rest of the buffer has nowhere to go; the interpreter would complain about it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            return PIPE_CLOSED
        click.echo(f"dragoman: {error.strerror or error}", err=True)
        return 1
    return code if isinstance(code, int) else 0


def _print_usage_error(error: click.ClickException) -> None:
    """Print click's own errors in the style of ours: what is wrong, then where to look."""
    from dragoman.cli import exits
    from dragoman.cli.output import terminal_width

    message = error.format_message().strip().rstrip(".")
    context = error.ctx if isinstance(error, click.UsageError) else None
    message += _suggest_command(message, context)
    lines = [f"dragoman: {message[:1].lower()}{message[1:]}"]
    if context is not None:
        lines.append(f"  Usage: {' '.join(context.get_usage().removeprefix('Usage:').split())}")
        lines.append(f"  Run `{context.command_path} --help` for its options and examples.")
    click.echo(exits.lay_out(lines, terminal_width()), err=True, nl=False)


def _suggest_command(message: str, context: click.Context | None) -> str:
    """Return the question for the command that was meant, as click itself asks for a misspelt option."""
    unknown = re.fullmatch(r"No such command '(.*)'", message)
    if unknown is None or context is None or not isinstance(context.command, click.Group):
        return ""
    from dragoman.document import nearest

    near = nearest(unknown[1], context.command.list_commands(context))
    return f". Did you mean '{near}'?" if near else ""


def _open_closed_streams() -> None:
    """Open the null device in place of a standard stream that was closed when we started (`>&-`).

    The next file to be opened would get the stream's number, and be written to as if it were stdout.
    """
    for fd, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which is this one
            setattr(sys, name, os.fdopen(fd, mode, closefd=False))
