"""`dragoman diff` and `dragoman rewind`: what a run changed in the workspace, and how to take it back."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import click

from dragoman.cli.command import async_command, confirm, count, note, open_readonly, print_json, show_paged, styled
from dragoman.cli.options import complete_session, json_option
from dragoman.cli.output import STDOUT
from dragoman.cli.text import exact, file_name
from dragoman.config import load
from dragoman.errors import InputError
from dragoman.hub.hub import Hub
from dragoman.hub.workspace_history import WorkspaceHistory
from dragoman.journal.rows import Session
from dragoman.journal.sessions import chosen_folder, find_session, short_ids, top_level
from dragoman.protocol.checkpoints import ComparedFile, Rewind, RewindChange, RunRef, WorkspaceDiff

DIFF_EPILOG = """\b
Examples:
  dragoman diff                            the last run of the latest session here
  dragoman diff 3f9a1c --run 2 --stat
  dragoman diff - --since-start | git apply -R

The difference is that of the files, by whatever means they were changed. Files
that git ignores are not compared. ID is - for the latest session of all. On a
terminal, $PAGER shows it; a pipe gets a patch with all that git apply needs."""

REWIND_EPILOG = """\b
Examples:
  dragoman rewind 3f9a1c --to-run 2        as the files were after run 2
  dragoman rewind - --to-run 1 --before    as they were before run 1
  dragoman rewind --undo 3f9a1c            as they were before the last rewind

It shows what it will change, and asks. The files as they are now are recorded
first. The conversation stays as it is, and the agent does not know of it."""

# Lines of a list that people read on a terminal.
MAX_LISTED: Final = 50

_LETTERS: Final = {"added": "A", "deleted": "D", "modified": "M", "renamed": "R", "type changed": "T"}

# Of the lines of a patch, by their beginning: those of its head are not lines of a file.
_HEAD_LINE: Final = re.compile(
    r"diff --git |index |--- |\+\+\+ |(old|new|deleted file|new file) mode |(similarity|dissimilarity) index "
    r"|(rename|copy) (from|to) |Binary files "
)
_LOOKS: Final[dict[str, dict[str, bool | str]]] = {"+": {"fg": "green"}, "-": {"fg": "red"}, "@": {"fg": "cyan"}}

_VERBS: Final = {"create": "restore", "overwrite": "overwrite", "delete": "delete"}


@click.command(epilog=DIFF_EPILOG)
@click.argument("session", metavar="[ID]", required=False, shell_complete=complete_session)
@click.option("--run", metavar="N", help="A run, by its number from 1 on, or its id. [default: the last one]")
@click.option("--since-start", is_flag=True, help="Compare since the session was opened.")
@click.option("--stat", is_flag=True, help="Only list the files.")
@json_option
@async_command
async def diff(session: str | None, run: str | None, since_start: bool, stat: bool, as_json: bool) -> None:
    """Show what a run changed in the workspace."""
    if run is not None and since_start:
        raise InputError("--run and --since-start cannot be combined")
    settings = load()
    async with open_readonly() as journal:
        row = _find(await journal.sessions(), session)
        history = await WorkspaceHistory.of(journal, settings, row.id)
        difference = await history.diff(run, since_start=since_start, is_whole=as_json or stat)
        if as_json:
            print_json(difference)
            return
        if stat:
            show_paged(stat_line(file) for file in difference.files)
        elif os.isatty(STDOUT):
            show_paged(patch_lines(await history.patch(run, since_start=since_start, is_exact=False)))
        else:
            sys.stdout.buffer.write(await history.patch(run, since_start=since_start))
            sys.stdout.buffer.flush()
        number = history.number_of(difference.run_id)
    _print_summary(difference, row, number)


def _find(sessions: Iterable[Session], session: str | None) -> Session:
    """Return the session of this id; without one, the latest in the current folder, or in the nearest above it.

    A session in a worktree is in that folder, and in the one that it was opened in.
    """
    every = list(sessions)
    if session is not None:
        return find_session(every, session)
    here = Path(os.path.realpath(os.getcwd()))
    depths: dict[str, int] = {}  # of the nearest folder of each session that is here or above
    rows = {row.id: row for row in top_level(every)}
    for row in rows.values():
        folders = [folder for folder in (row.cwd, chosen_folder(row)) if folder and here.is_relative_to(folder)]
        if folders:
            depths[row.id] = max(len(Path(folder).parts) for folder in folders)
    if not depths:
        raise InputError(
            "there is no session in this folder", guidance="Name one of another folder: dragoman sessions list"
        )
    return rows[max(depths, key=depths.__getitem__)]  # of several the first, which is the latest


def stat_line(file: ComparedFile, *, with_claims: bool = True) -> str:
    """Return a line about a changed file; `with_claims` says where the agent did not report the change."""
    name = file_name(file.path)
    if file.old_path is not None:
        name = f"{file_name(file.old_path)} → {name}"
    lines = "binary" if file.added is None else f"+{file.added} \N{MINUS SIGN}{file.removed}"
    remark = "" if file.is_claimed or not with_claims else "  (not reported by the agent)"
    return f"{_LETTERS[file.status]}  {name}  {lines}{styled(remark, dim=True)}"


def patch_lines(patch: bytes) -> Iterator[str]:
    """Yield the lines of a patch as a terminal shows them: what cannot be seen in them is spelled out."""
    is_head = False
    for line in patch.decode("utf-8", "backslashreplace").split("\n")[:-1]:
        is_head = line.startswith("diff --git ") or (is_head and _HEAD_LINE.match(line) is not None)
        yield styled(exact(line), **({"bold": True} if is_head else _LOOKS.get(line[:1], {})))


def _print_summary(diff: WorkspaceDiff, row: Session, number: int | None) -> None:
    subject = "Since the session was opened" if diff.run_id is None else f"Run {number}"
    now = "" if diff.after is not None else ", compared with the files as they are now"
    note(f"{subject}: {count(diff.count, 'file')}, +{diff.added} \N{MINUS SIGN}{diff.removed}{now}.")
    if diff.other_runs:
        note(_others_line(diff.other_runs, "also worked in this folder meanwhile: some changes may be theirs"))
    if diff.only_claimed_paths:
        names = ", ".join(map(file_name, diff.only_claimed_paths[:MAX_LISTED]))
        note(f"Reported as changed by the agent, but not different: {names}")
    for skipped in diff.skipped_paths[:MAX_LISTED]:
        note(f"Not compared: {file_name(skipped.path)} ({exact(skipped.reason)})")


def _others_line(others: Iterable[RunRef], what: str) -> str:
    ids = list(dict.fromkeys(run.session_id for run in others))
    noun = "Session" if len(ids) == 1 else "Sessions"
    return f"{noun} {', '.join(ids)} {what}."


@click.command(epilog=REWIND_EPILOG)
@click.argument("session", metavar="ID", shell_complete=complete_session)
@click.option("--to-run", metavar="N", help="A run, by its number from 1 on, or its id.")
@click.option("--before", is_flag=True, help="As the files were before that run, not after it.")
@click.option("--undo", is_flag=True, help="As the files were before the last rewind.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@json_option
@async_command
async def rewind(session: str, to_run: str | None, before: bool, undo: bool, yes: bool, as_json: bool) -> int | None:
    """Bring the files of the workspace back to what they were before or after a run."""
    if undo and before:
        raise InputError("--undo and --before cannot be combined")
    settings = load()
    async with Hub(config=settings) as hub:
        row = await hub.find(session)
        history = await WorkspaceHistory.of(hub.journal, settings, row.id)
        plan = await history.plan_rewind(to_run, before=before, undo=undo)
        if not plan.changes:
            if as_json:
                print_json(plan)
            note(*_left_lines(plan), f"The files are as they were {plan.target} already: nothing to do.")
            return None
        details = [*_plan_lines(plan.changes), *_left_lines(plan)]
        if yes:
            note(*([] if as_json else details))
        elif not confirm(f"Bring back the files as they were {plan.target}?", action="rewind", details=details):
            return 1
        done = await history.rewind(hub, plan)
        if as_json:
            print_json(done)
        short = short_ids(await hub.journal.sessions())[row.id]
    what = "it was" if len(done.changes) == 1 else "they were"
    note(f"{count(len(done.changes), 'file')} brought back to what {what} {done.target}.")
    if not undo:
        note(f"To undo it: dragoman rewind --undo {short}")
    return None


def _plan_lines(changes: tuple[RewindChange, ...]) -> Iterator[str]:
    contents = "its content is" if len(changes) == 1 else "their contents are"
    yield f"This changes {count(len(changes), 'file')}; {contents} recorded first, so that it can be undone:"
    for change in changes[:MAX_LISTED]:
        yield f"  {_VERBS[change.action]:<9}  {file_name(change.path)}"
    if len(changes) > MAX_LISTED:
        yield f"  and {len(changes) - MAX_LISTED:,} more"


def _left_lines(plan: Rewind) -> Iterator[str]:
    for path in plan.left_paths[:MAX_LISTED]:
        yield f"Left as it is: {file_name(path)} (no checkpoint has it)"
