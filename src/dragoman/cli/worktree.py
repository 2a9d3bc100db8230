"""`dragoman worktree`: what sessions did in worktrees, and what becomes of it.

The checkout and the branches of the user are changed by `apply` and `merge` only.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import click

from dragoman.cli.checkpoints import patch_lines, stat_line
from dragoman.cli.command import (
    Table,
    async_command,
    confirm,
    count,
    folder,
    how_long_ago,
    is_open_elsewhere,
    note,
    open_readonly,
    print_json,
    show_paged,
    sync_command,
)
from dragoman.cli.options import json_option
from dragoman.cli.output import STDOUT
from dragoman.cli.plan import RunOptions
from dragoman.cli.run import run_prompt
from dragoman.cli.text import exact, file_name
from dragoman.cli.worktree_run import summary
from dragoman.config import load
from dragoman.errors import InputError, SessionBusy
from dragoman.protocol.checkpoints import RewindChange
from dragoman.protocol.worktrees import WorktreeApply, WorktreeInfo, WorktreeMerge
from dragoman.session.worktree import worktrees_of
from dragoman.workspace.worktrees import Worktree

EPILOG = """\b
Examples:
  dragoman run -a claude --worktree "Add retries"   work on a branch and in a folder of its own
  dragoman worktree list
  dragoman worktree show add-retries
  dragoman worktree apply add-retries               as uncommitted changes in your checkout
  dragoman worktree merge add-retries --commit "Add retries"
  dragoman worktree drop add-retries                recover it within 30 days

See docs/worktrees.md."""

# Lines of a list that people read on a terminal.
MAX_LISTED: Final = 50

_VERBS: Final = {"create": "create", "overwrite": "change", "delete": "delete"}

_name = click.argument("name", metavar="[NAME]", required=False)
_yes = click.option("-y", "--yes", is_flag=True, help="Do not ask.")


@click.group(epilog=EPILOG)
def worktree() -> None:
    """See, apply, merge, drop and recover the worktrees of sessions."""


def _here() -> Path:
    return Path(os.path.realpath(os.getcwd()))


async def _find(name: str | None) -> Worktree:
    """Return a worktree by its name; without one, that of the current folder, or the only one of its repository."""
    worktrees = worktrees_of(load())
    here = _here()
    if name is not None:
        return await worktrees.find(name, here)
    if (found := await worktrees.at(here)) is not None:
        return found
    infos = [info for info in await worktrees.list_worktrees() if here.is_relative_to(info.checkout)]
    if len(infos) != 1:
        names = ", ".join(info.name for info in infos) or "none"
        raise InputError("name a worktree", guidance=f"Worktrees of this repository: {names}")
    return await worktrees.find(infos[0].id)


async def _find_idle(name: str | None, *, with_checkout: bool = True) -> Worktree:
    """Return a worktree in which no session is at work, nor in its checkout, whether or not its runs are recorded."""
    found = await _find(name)
    folders = [found.folder, *([Path(found.info.checkout)] if with_checkout else ())]
    async with open_readonly() as journal:
        for row in await journal.sessions():
            is_inside = any(Path(row.cwd or "/").is_relative_to(folder) for folder in folders)
            if row.status == "running" and is_inside and await is_open_elsewhere(journal, row.id):
                raise SessionBusy(
                    f"session {row.id} is at work in {row.cwd}",
                    guidance="Wait until its run has ended, or cancel it.",
                )
    return found


@worktree.command("list", short_help="List worktrees.")
@click.option("--dropped", is_flag=True, help="List those that were dropped and can be recovered.")
@json_option
@async_command
async def list_(dropped: bool, as_json: bool) -> None:
    """List the worktrees of sessions, oldest first."""
    infos = await worktrees_of(load()).list_worktrees(dropped=dropped)
    if as_json:
        print_json(infos)
        return
    if not infos:
        note("There are no dropped worktrees." if dropped else "There are no worktrees. To begin with one: --worktree")
        return
    table = Table()
    for heading in ("NAME", "STATE", "BRANCH", "BASE", "CHECKOUT", "CHANGED"):
        table.add_column(heading, shrinks=heading in ("BRANCH", "CHECKOUT"))
    now = time.time()
    for info in infos:
        state: str = "folder missing" if info.is_missing else info.state
        if info.expires_at is not None:
            state = f"dropped, for {max(0, round((info.expires_at - now) / 86_400))} more days"
        base = info.base_ref or info.base_commit[:8]
        changed = how_long_ago(info.changed_at, now)
        table.add_row(info.name, state, info.branch, base, folder(info.checkout), changed)
    table.print()


@worktree.command(short_help="Show what was changed in a worktree.")
@_name
@click.option("--stat", is_flag=True, help="Only list the files.")
@json_option
@async_command
async def show(name: str | None, stat: bool, as_json: bool) -> None:
    """Show what was changed in a worktree since it was made, committed or not."""
    found = await _find(name)
    changes = await found.changes()
    if as_json:
        print_json(changes)
        return
    if stat or not changes.count:
        show_paged(stat_line(file, with_claims=False) for file in changes.files)
    elif os.isatty(STDOUT):
        show_paged(patch_lines(await found.patch()))
    else:
        sys.stdout.buffer.write(await found.patch())
        sys.stdout.buffer.flush()
    info = changes.worktree
    note(f"Worktree {info.name} in {folder(info.folder)}, branch {info.branch}", *summary(changes))
    for commit in changes.commits[:MAX_LISTED]:
        note(f"  {exact(commit)}")
    for skipped in changes.skipped_paths[:MAX_LISTED]:
        note(f"Not compared: {file_name(skipped.path)} ({exact(skipped.reason)})")
    if changes.active_runs:
        note("An agent is at work there.")


@worktree.command(short_help="Bring the changes into the checkout, uncommitted.")
@_name
@click.option("--undo", is_flag=True, help="Take back what was applied last.")
@_yes
@json_option
@async_command
async def apply(name: str | None, undo: bool, yes: bool, as_json: bool) -> int | None:
    """Bring the changes of a worktree into your checkout, as uncommitted changes.

    Changes that you made there meanwhile stay. Where both changed the same lines, the files are listed and nothing is
    changed. The index, the branches and the history of your repository stay as they are.
    """
    found = await _find_idle(name)
    plan = await found.apply(undo=undo)
    if plan.conflicts:
        return _report_conflicts(plan, plan.conflicts, as_json=as_json)
    if not plan.changes:
        note(*_left_lines(plan.left_paths), "The checkout has all of it already: nothing to do.")
        return None
    details = [*_plan_lines(plan.worktree, plan.changes), *_left_lines(plan.left_paths)]
    question = f"{'Undo' if undo else 'Apply'} this in {folder(plan.worktree.checkout)}?"
    if yes:
        note(*([] if as_json else details))
    elif not confirm(question, action="apply it", details=details):
        return 1
    done = await found.apply(plan)
    if as_json:
        print_json(done)
    note(f"{count(len(done.changes), 'file')} changed in {folder(done.worktree.checkout)}.")
    if not undo:
        note(f"To undo it: dragoman worktree apply --undo {found.name}")
    return None


def _plan_lines(info: WorktreeInfo, changes: tuple[RewindChange, ...]) -> Iterator[str]:
    yield f"This changes {count(len(changes), 'file')} in {folder(info.checkout)}; it can be undone:"
    for change in changes[:MAX_LISTED]:
        yield f"  {_VERBS[change.action]:<6}  {file_name(change.path)}"
    if len(changes) > MAX_LISTED:
        yield f"  and {len(changes) - MAX_LISTED:,} more"


def _left_lines(paths: Iterable[str]) -> Iterator[str]:
    for path in list(paths)[:MAX_LISTED]:
        yield f"Left as it is: {file_name(path)} (no checkpoint can hold it)"


def _report_conflicts(result: WorktreeApply | WorktreeMerge, conflicts: tuple[str, ...], *, as_json: bool) -> int:
    if as_json:
        print_json(result)
    name = result.worktree.name
    note(
        f"Both sides changed the same lines in {count(len(conflicts), 'file')}; nothing was changed:",
        *(f"  {file_name(path)}" for path in conflicts[:MAX_LISTED]),
        f"To solve them in the worktree: dragoman worktree merge {name} --conflicts",
        f"To have its agent solve them: dragoman worktree merge {name} --ask-agent",
    )
    return 1


@worktree.command(short_help="Merge its branch into yours.")
@_name
@click.option("--into", metavar="BRANCH", help="The branch to merge into. [default: the one it was made from]")
@click.option("--commit", metavar="MESSAGE", help="First commit what is not committed in the worktree.")
@click.option("--no-ff", is_flag=True, help="Make a merge commit also where a fast-forward is possible.")
@click.option("-m", "--message", metavar="MESSAGE", help="The message of the merge commit.")
@click.option("--conflicts", is_flag=True, help="Bring conflicts into the worktree, to solve them there.")
@click.option("--ask-agent", is_flag=True, help="The same, and ask the agent of its last session to solve them.")
@click.option(
    "--trust-repository", is_flag=True, help="Run hooks and filters that were changed since agents work there."
)
@json_option
@sync_command
def merge(
    name: str | None,
    into: str | None,
    commit: str | None,
    no_ff: bool,
    message: str | None,
    conflicts: bool,
    ask_agent: bool,
    trust_repository: bool,
    as_json: bool,
) -> int | None:
    """Merge the branch of a worktree into the branch that it was made from.

    Conflicts are found first: the files are listed then, and nothing is changed. Where the branch is checked out, its
    files are updated, unless they have uncommitted changes.
    """

    async def do_merge() -> WorktreeMerge:
        found = await _find_idle(name)
        return await found.merge(
            into=into,
            commit=commit,
            message=message,
            no_ff=no_ff,
            conflicts=conflicts or ask_agent,
            trust_repository=trust_repository,
        )

    done = asyncio.run(do_merge())
    info = done.worktree
    if done.conflicts and not done.is_in_worktree:
        return _report_conflicts(done, done.conflicts, as_json=as_json)
    if as_json and not ask_agent:
        print_json(done)
    if done.is_in_worktree:
        note(
            f"{done.target} was merged into the worktree, with conflicts in {count(len(done.conflicts), 'file')}:",
            *(f"  {file_name(path)}" for path in done.conflicts[:MAX_LISTED]),
        )
        return _ask_agent(info, done.target, done.conflicts, as_json=as_json) if ask_agent else _advise(info)
    if not done.is_done:
        note(f"{done.target} has all commits of {info.branch} already: nothing to do.")
        return None
    what = "fast-forwarded to" if done.kind == "fast-forward" else "merged"
    note(
        f"{done.target} {what} {info.branch}: {count(done.commits, 'commit')}, now at {(done.commit or '')[:8]}.",
        f"To remove the worktree: dragoman worktree drop {info.name}",
    )
    return None


def _advise(info: WorktreeInfo) -> int:
    note(
        f"Solve them in {folder(info.folder)}, commit there, then: dragoman worktree merge {info.name}",
    )
    return 1


def _ask_agent(info: WorktreeInfo, target: str, conflicts: tuple[str, ...], *, as_json: bool) -> int:
    """Have the agent of the last session in the worktree solve conflicts, in a run of its own."""
    if not info.session_ids:
        note("No session has worked in this worktree.")
        return _advise(info)
    files = "\n".join(f"- {path}" for path in conflicts)
    prompt = (
        f"The branch {target} was merged into this worktree (git merge), and these files have conflicts:\n{files}\n"
        "Solve them so that both changes are kept in meaning, remove all conflict markers, and finish with git add and"
        " git commit --no-edit. Then say what you decided in each file."
    )
    return run_prompt(RunOptions(prompt=(prompt,), resume=info.session_ids[-1], json=as_json))


@worktree.command(short_help="Remove a worktree and its branch.")
@_name
@click.option("--force", is_flag=True, help="Also while an agent is at work, or files cannot be recovered.")
@_yes
@json_option
@async_command
async def drop(name: str | None, force: bool, yes: bool, as_json: bool) -> int | None:
    """Remove a worktree and its branch. Its files and commits can be recovered for 30 days; ignored files cannot."""
    found = await _find(name) if force else await _find_idle(name, with_checkout=False)
    if not yes and not as_json and os.isatty(0):
        changes = await found.changes() if not found.info.is_missing else None
        details = [*(summary(changes) if changes is not None else ())]
        if not confirm(f"Drop the worktree {found.name}?", action="drop it", details=details):
            return 1
    info = await found.drop(force=force)
    if as_json:
        print_json(info)
    note(f"Worktree {info.name} dropped.", f"To get it back within 30 days: dragoman worktree recover {info.name}")
    return None


@worktree.command(short_help="Bring back a dropped worktree.")
@click.argument("name")
@json_option
@async_command
async def recover(name: str, as_json: bool) -> None:
    """Bring back a dropped worktree, with its branch and all files that git does not ignore."""
    found = await worktrees_of(load()).recover(name, _here())
    if as_json:
        print_json(found.info)
    note(f"Worktree {found.name} is back in {folder(str(found.folder))}, on branch {found.info.branch}.")


@worktree.command(short_help="Forget a worktree; its folder and branch stay.")
@_name
@json_option
@async_command
async def keep(name: str | None, as_json: bool) -> None:
    """Forget a worktree: from now on its folder and its branch are yours alone."""
    info = await (await _find(name)).keep()
    if as_json:
        print_json(info)
    note(
        f"Dragoman forgot the worktree {info.name}. Its folder and branch stay.",
        f"To remove them later: git worktree remove {folder(info.folder)}",
    )


@worktree.command(short_help="Find what no worktree needs any more.")
@_yes
@json_option
@async_command
async def prune(yes: bool, as_json: bool) -> int | None:
    """Find folders, records and branches that no worktree needs any more, and remove them after a question."""
    worktrees = worktrees_of(load())
    found = await worktrees.prune()
    if not found:
        if as_json:
            print_json(found)
        note("There are no leftovers.")
        return None
    lines = [f"  {each.kind}: {exact(each.name)}  {file_name(each.path)}{_note_of(each.note)}" for each in found]
    if yes:
        note(*([] if as_json else lines))
    elif not confirm("Remove these?", action="remove them", details=lines):
        return 1
    done = await worktrees.prune(remove=True)
    if as_json:
        print_json(done)
    removed = [each for each in done if each.is_removed]
    note(f"{count(len(removed), 'leftover')} removed.")
    for each in done:
        if not each.is_removed or each.note:
            note(f"  {exact(each.name)}: {exact(each.note)}")
    return None


def _note_of(text: str) -> str:
    return f"  ({exact(text)})" if text else ""
