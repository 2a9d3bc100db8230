"""`dragoman git`: the repository of a session's workspace: its state, commits, pushes and pull requests."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, TypeVar, cast

import click

from dragoman.cli.command import (
    async_command,
    choose,
    count,
    folder,
    journal_file,
    note,
    print_json,
    print_lines,
    styled,
)
from dragoman.cli.options import complete_session, json_option
from dragoman.cli.text import exact
from dragoman.config import load
from dragoman.errors import InputError
from dragoman.hub.hub import Hub
from dragoman.hub.session_git import folder_git, session_git
from dragoman.journal.sessions import top_level
from dragoman.protocol.git import GitFile, GitState, PullRequestProgram
from dragoman.session.git import GitActions

F = TypeVar("F", bound=Callable[..., Any])

EPILOG = """\b
Examples:
  dragoman git status
  dragoman git commit -m "Add retries"
  dragoman git commit 3f9a1c --propose     let the agent propose the message
  dragoman git push
  dragoman git pr --push --draft

\b
ID is a session; by default the latest one in this folder, or just the folder.
Hooks run, nothing is forced, and the agent is not told. See docs/git.md."""
STATUS_EPILOG = """\b
Examples:
  dragoman git status
  dragoman git status 3f9a1c --json | jq -r '.files[].path'"""
COMMIT_EPILOG = """\b
Examples:
  dragoman git commit -m "Add retries"
  dragoman git commit -m "Add a test" --path tests
  dragoman git commit - --propose          the agent's message, to confirm or edit

The agent is asked for a message in a session of its own that is not stored: it
gets the difference as text, and no tools."""
PUSH_EPILOG = """\b
Examples:
  dragoman git push
  dragoman git push 3f9a1c --remote upstream"""
PR_EPILOG = """\b
Examples:
  dragoman git pr --push                   push, then open a pull request
  dragoman git pr --title "Add retries" --body-file description.md --draft

It needs the program gh (GitHub) or glab (GitLab), and your login there."""

# Files that are listed for people.
MAX_LISTED: Final = 50

_LETTERS: Final = {
    "added": "A",
    "modified": "M",
    "deleted": "D",
    "renamed": "R",
    "copied": "C",
    "type changed": "T",
    None: " ",
}


@click.group(epilog=EPILOG)
def git() -> None:
    """Commit, push and open pull requests from the repository of a session."""


def target_options(command: F) -> F:
    command = click.option("--cwd", metavar="DIR", help="A folder, in place of a session.")(command)
    return click.argument("session", metavar="[ID]", required=False, shell_complete=complete_session)(command)


def trust_option(command: F) -> F:
    return click.option(
        "--trust-repository",
        is_flag=True,
        help="Run the repository's settings and hooks, although they were changed since agents work there.",
    )(command)


def _folder(cwd: str | None) -> Path:
    chosen = Path(os.path.realpath(os.path.expanduser(cwd or os.curdir)))
    if not chosen.is_dir():
        raise InputError(f"{cwd} is not a folder")
    return chosen


@asynccontextmanager
async def _actions(session: str | None, cwd: str | None) -> AsyncIterator[GitActions]:
    """Yield the git actions of a session; of a folder, where one is named, or the current one has no session."""
    if session is not None and cwd is not None:
        raise InputError("name a session, or a folder by --cwd, not both")
    chosen = _folder(cwd)
    settings = load()
    if session is None and not journal_file().exists():
        yield folder_git(None, settings, chosen)
        return
    async with Hub(config=settings) as hub:
        if session is not None:
            yield await session_git(hub, settings, (await hub.find(session)).id)
            return
        if cwd is None:
            for row in top_level(await hub.sessions()):
                if row.cwd and chosen.is_relative_to(row.cwd):
                    yield await session_git(hub, settings, row.id)
                    return
        yield folder_git(hub, settings, chosen)


@git.command(epilog=STATUS_EPILOG, short_help="Show the branch, and the files that differ.")
@target_options
@json_option
@async_command
async def status(session: str | None, cwd: str | None, as_json: bool) -> None:
    """Show the branch of a session's repository, and the files that differ from the last commit."""
    async with _actions(session, cwd) as actions:
        state = await actions.state()
    if as_json:
        print_json(state)
        return
    print_lines(*_head_lines(state))
    for line in _file_lines(state.files, state.file_count):
        click.echo(line)
    note(*_warnings(state))


def _head_lines(state: GitState) -> list[str]:
    branch = (
        f"On {exact(state.branch)}" if state.branch is not None else f"On no branch, at {(state.commit or '')[:10]}"
    )
    if state.upstream is not None:
        counts = [f"{state.ahead} ahead" if state.ahead else "", f"{state.behind} behind" if state.behind else ""]
        branch += f", {' and '.join(filter(None, counts)) or 'level with'} {exact(state.upstream)}"
    lines = [f"{branch} ({folder(state.root)})"]
    if state.commit is None:
        lines.append("No commit yet.")
    if state.operation is not None:
        lines.append(f"A {state.operation} was begun, and is not finished.")
    if state.file_count == 0:
        lines.append("Nothing differs from the last commit.")
    return lines


def _file_lines(files: Sequence[GitFile], total: int) -> list[str]:
    lines = []
    for file in files[:MAX_LISTED]:
        name = _one_line(file.path if file.old_path is None else f"{file.old_path} → {file.path}")
        if file.conflict is not None:
            lines.append(f"{styled('!!', fg='red')}  {name}  ({file.conflict})")
        elif file.is_untracked:
            lines.append(f"{styled('??', fg='red')}  {name}")
        else:
            letters = styled(_LETTERS[file.staged], fg="green") + styled(_LETTERS[file.unstaged], fg="red")
            lines.append(f"{letters}  {name}")
    if total > MAX_LISTED:
        lines.append(f"… and {total - min(MAX_LISTED, len(files)):,} more")
    return lines


def _one_line(name: str) -> str:
    return exact(name).replace("\n", "\\n").replace("\t", "\\t")


def _warnings(state: GitState) -> list[str]:
    lines = []
    if state.running:
        lines.append(f"An agent is at work in these files: session {', '.join(state.running)}.")
    if state.untrusted:
        names = ", ".join(map(_one_line, state.untrusted[:MAX_LISTED]))
        lines.append(f"Changed since agents work here, and not run without --trust-repository: {names}")
    return lines


@git.command(epilog=COMMIT_EPILOG, short_help="Commit all changes, or some.")
@target_options
@click.option("-m", "--message", metavar="TEXT", help="The message; `-` reads it from stdin.")
@click.option("--propose", is_flag=True, help="Have the session's agent propose the message.")
@click.option("--path", "paths", metavar="PATH", multiple=True, help="Only this file or folder; may be repeated.")
@click.option("--staged", is_flag=True, help="Only what is staged.")
@click.option("--while-running", is_flag=True, help="Also while an agent is at work in these files.")
@click.option("-y", "--yes", is_flag=True, help="Take the proposed message without asking.")
@trust_option
@json_option
@async_command
async def commit(
    session: str | None,
    cwd: str | None,
    message: str | None,
    propose: bool,
    paths: tuple[str, ...],
    staged: bool,
    while_running: bool,
    yes: bool,
    trust_repository: bool,
    as_json: bool,
) -> int | None:
    """Commit all changes of the repository, or some. Hooks run."""
    if (message is None) == (not propose):
        raise InputError("a message is needed: -m TEXT, or --propose, and not both")
    if message == "-":
        message = sys.stdin.read()
    async with _actions(session, cwd) as actions:
        chosen = _given_paths(paths, (await actions.state()).root) if paths else None
        if message is None:
            message = await _proposed(actions, chosen, staged, yes=yes)
            if message is None:
                return 1
        done = await actions.commit(
            message,
            paths=chosen,
            only_staged=staged,
            while_running=while_running,
            trust_repository=trust_repository,
        )
    if as_json:
        print_json(done)
        return None
    _print_output(done.output)
    where = exact(done.branch) if done.branch is not None else "no branch"
    print_lines(f"{done.commit[:10]} on {where}: {exact(done.subject)} ({count(done.file_count, 'file')})")
    return None


def _given_paths(paths: Sequence[str], root: str) -> list[str]:
    """Return paths as the user typed them: relative to this folder where they are in the work tree, else to it."""
    return [path if not os.path.abspath(path).startswith(f"{root}/") else os.path.abspath(path) for path in paths]


async def _proposed(actions: GitActions, paths: Sequence[str] | None, staged: bool, *, yes: bool) -> str | None:
    """Return the message that the agent proposes and the user confirms or edits; None where the user declines."""
    note("Asking the agent for a message …")
    proposed = await actions.propose_message(paths=paths, only_staged=staged)
    message = proposed.message
    if proposed.hidden_paths:
        note(f"Not shown to the agent, by your rules: {', '.join(map(_one_line, proposed.hidden_paths[:MAX_LISTED]))}")
    if proposed.is_shortened:
        note("The difference is long: the agent saw a part of it.")
    while True:
        note(*(f"  {exact(line)}" for line in message.splitlines()))
        if yes:
            return message
        answer = choose("Commit with this message? [y]es, [e]dit, [N]o", ("yes", "edit", "no"), action="take it")
        if answer != "edit":
            return message if answer == "yes" else None
        edited = click.edit(f"{message}\n", extension=".txt")
        message = (edited if edited is not None else message).strip()
        if not message:
            raise InputError("the commit message is empty: nothing was committed")


@git.command(epilog=PUSH_EPILOG, short_help="Push the branch.")
@target_options
@click.option("--remote", metavar="NAME", help="Where to. [default: as configured, the only one, or origin]")
@click.option(
    "--set-upstream/--no-set-upstream",
    default=None,
    help="Let the branch follow the pushed one. [default: if it follows none]",
)
@trust_option
@json_option
@async_command
async def push(
    session: str | None,
    cwd: str | None,
    remote: str | None,
    set_upstream: bool | None,
    trust_repository: bool,
    as_json: bool,
) -> None:
    """Push the branch to the branch of the same name, never by force."""
    async with _actions(session, cwd) as actions:
        done = await actions.push(remote, set_upstream=set_upstream, trust_repository=trust_repository)
    if as_json:
        print_json(done)
        return
    _print_output(done.output)
    branch, where = exact(done.branch), f"{exact(done.remote)} ({exact(done.url)})"
    if done.is_up_to_date:
        print_lines(f"{branch} is at {where} already.")
    else:
        print_lines(f"Pushed {branch} ({done.commit[:10]}) to {where}.")


@git.command(epilog=PR_EPILOG, short_help="Open a pull request by gh or glab.")
@target_options
@click.option("--title", metavar="TEXT", help="[default: the subject of the last commit]")
@click.option("--body", metavar="TEXT", help="The text below the title.")
@click.option("--body-file", metavar="FILE", help="A file with that text; `-` is stdin.")
@click.option("--base", metavar="BRANCH", help="The branch that it goes to. [default: that of the remote]")
@click.option("--draft", is_flag=True, help="As a draft.")
@click.option("--push", "push_first", is_flag=True, help="Push the branch first.")
@click.option("--remote", metavar="NAME", help="Where the branch is. [default: as for push]")
@click.option("--with", "program", type=click.Choice(["gh", "glab"]), help="The program, for hosts of your own.")
@trust_option
@json_option
@async_command
async def pr(
    session: str | None,
    cwd: str | None,
    title: str | None,
    body: str | None,
    body_file: str | None,
    base: str | None,
    draft: bool,
    push_first: bool,
    remote: str | None,
    program: str | None,
    trust_repository: bool,
    as_json: bool,
) -> None:
    """Open a pull request for the branch, or show the one that is open."""
    if body is not None and body_file is not None:
        raise InputError("--body and --body-file cannot be combined")
    text = _read_text(body_file) if body_file is not None else body or ""
    async with _actions(session, cwd) as actions:
        if push_first:
            await actions.push(remote, trust_repository=trust_repository)
        done = await actions.open_pull_request(
            title,
            text,
            base=base,
            draft=draft,
            remote=remote,
            program=cast("PullRequestProgram | None", program),
            trust_repository=trust_repository,
        )
    if as_json:
        print_json(done)
        return
    if not done.is_new:
        note(f"It was open already: {exact(done.title)}")
    click.echo(exact(done.url))


def _read_text(name: str) -> str:
    if name == "-":
        return sys.stdin.read()
    try:
        return Path(name).read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"--body-file: {name} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InputError(f"--body-file: {name} is not UTF-8") from None


def _print_output(output: str) -> None:
    """Show what git, hooks and the remote wrote, on stderr."""
    if output:
        sys.stdout.flush()
        for line in output.splitlines():
            sys.stderr.write(f"  | {exact(line)}\n")
