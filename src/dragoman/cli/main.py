"""`dragoman`: the commands, and how each of them ends.

Only click is loaded here, so that `--help` stays fast; a command loads the rest when it runs.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import click

from dragoman._version import __version__
from dragoman.cli.agents import agents
from dragoman.cli.chat.command import chat
from dragoman.cli.eval import evaluate as eval_command
from dragoman.cli.import_ import import_
from dragoman.cli.journal import journal
from dragoman.cli.login import login
from dragoman.cli.mcp import mcp
from dragoman.cli.model_server import model_server
from dragoman.cli.policy import policy
from dragoman.cli.replay import replay
from dragoman.cli.run import run as run_command
from dragoman.cli.serve import serve
from dragoman.cli.sessions import sessions
from dragoman.cli.token import token
from dragoman.cli.usage import usage
from dragoman.cli.watch import watch

# As a shell reports a program that a signal ended: 128 and the signal's number.
INTERRUPTED = 130
PIPE_CLOSED = 141

EXAMPLES = """\b
Examples:
  dragoman run "hello"                     try it on the built-in demo agent
  dragoman agents                          which agents are installed here
  dragoman run -a claude "Fix the failing test"
  dragoman chat -a claude                  talk with it, prompt after prompt
  dragoman serve                           in a browser, or on a phone
  dragoman sessions show                   what was said last, once more
  git diff | dragoman run -a codex "Review this" > review.md
  dragoman run -a gemini --json "Explain main.py" | jq -r .type

`dragoman COMMAND --help` tells more about each command."""


@click.group(invoke_without_command=True, epilog=EXAMPLES, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "-V", "--version", prog_name="dragoman", message="%(prog)s %(version)s")
@click.pass_context
def dragoman(context: click.Context) -> None:
    """Drive any coding agent that speaks the Agent Client Protocol."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())
        click.echo('\nNew here? Try: dragoman run "hello"')


dragoman.add_command(run_command)
dragoman.add_command(chat)
dragoman.add_command(serve)
dragoman.add_command(agents)
dragoman.add_command(sessions)
dragoman.add_command(usage)
dragoman.add_command(import_)
dragoman.add_command(watch)
dragoman.add_command(journal)
dragoman.add_command(eval_command)
dragoman.add_command(login)
dragoman.add_command(policy)
dragoman.add_command(token)
dragoman.add_command(mcp)
dragoman.add_command(model_server)
dragoman.add_command(replay)


def run(arguments: Sequence[str]) -> int:
    """Runs a command line and returns its exit code. Nothing that a user can cause ends in a traceback."""
    _open_what_is_closed()
    try:
        code = dragoman.main(list(arguments), prog_name="dragoman", standalone_mode=False)
        sys.stdout.flush()
    except click.ClickException as problem:
        problem.show()
        return problem.exit_code
    except (KeyboardInterrupt, click.Abort):
        return INTERRUPTED
    except SystemExit:  # how click itself ends when nobody reads its output, whatever it was asked for
        return PIPE_CLOSED
    except OSError as problem:
        # What is still buffered has nowhere to go; the interpreter would complain about it at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(problem, BrokenPipeError):
            return PIPE_CLOSED
        click.echo(f"dragoman: {problem.strerror or problem}", err=True)
        return 1
    return code if isinstance(code, int) else 0


def _open_what_is_closed() -> None:
    """Puts the null device where we were started without a standard stream (`>&-`).

    The next file that is opened would get its number, and be written to as if it were stdout.
    """
    for fd, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which is this one
            setattr(sys, name, os.fdopen(fd, mode, closefd=False))
