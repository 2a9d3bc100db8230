"""The worktree of `dragoman run` and `dragoman chat`: made before the agent starts, summed up at the end."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import click
import msgspec

from dragoman.cli.command import count, note, styled
from dragoman.cli.plan import RunPlan
from dragoman.cli.text import exact
from dragoman.errors import DragomanError
from dragoman.protocol.worktrees import SessionWorktree, WorktreeChanges
from dragoman.session.options import SessionConfig
from dragoman.session.worktree import in_worktree, worktrees_of


def summary(changes: WorktreeChanges) -> Iterator[str]:
    """Say how much was changed in a worktree."""
    if not changes.count and not changes.commits:
        yield "Nothing was changed."
        return
    commits = f", {count(len(changes.commits), 'commit')}" if changes.commits else ""
    open_files = f", {changes.uncommitted:,} not committed" if changes.uncommitted else ""
    yield (
        f"{count(changes.count, 'file')} changed, +{changes.added} \N{MINUS SIGN}{changes.removed}"
        f"{commits}{open_files}."
    )


def begin_worktree(plan: RunPlan) -> RunPlan:
    """Make the worktree that the options ask for, and return the plan for it. Progress goes to stderr."""
    choice = plan.worktree_choice
    if choice is None:
        return plan
    is_quiet = plan.options.quiet

    def show_progress(line: str) -> None:
        if not is_quiet:
            click.echo(styled(f"worktree: {exact(line)}", dim=True), err=True)

    async def create() -> SessionConfig:
        prompt = next((part for part in plan.parts if isinstance(part, str)), "")
        made = await worktrees_of(plan.settings).create(
            plan.workspace.cwd, choice, prompt=prompt, on_progress=show_progress
        )
        try:
            return in_worktree(SessionConfig(workspace=plan.workspace), made)
        except DragomanError:
            if not made.info.session_ids:
                await made.discard_unused()
            raise

    config = asyncio.run(create())
    worktree = config.worktree if isinstance(config.worktree, SessionWorktree) else None
    inside = msgspec.structs.replace(plan, workspace=config.workspace, worktree=worktree)
    return inside.with_spec(msgspec.structs.replace(plan.spec, cwd=None, sandbox=None))


def end_worktree(plan: RunPlan) -> None:
    """Print what was changed in the worktree of this run, and what can be done with it."""
    if plan.worktree_choice is None:
        return

    async def look() -> WorktreeChanges | None:
        found = await worktrees_of(plan.settings).at(plan.workspace.cwd)
        if found is None:
            return None
        if not found.info.session_ids:
            await found.discard_unused()
            return None
        return await found.changes()

    try:
        changes = asyncio.run(look())
    except DragomanError as error:
        note(f"Worktree {plan.worktree.name if plan.worktree is not None else ''}: {exact(str(error))}")
        return
    if changes is None or plan.options.quiet:
        return
    name = changes.worktree.name
    has_changes = bool(changes.count or changes.commits)
    note("", *(f"Worktree {name}: {line[0].lower()}{line[1:]}" for line in summary(changes)))
    if has_changes:
        note(
            f"  see it     dragoman worktree show {name}",
            f"  apply it   dragoman worktree apply {name}",
            f"  merge it   dragoman worktree merge {name}{_commit_hint(changes)}",
        )
    note(f"  drop it    dragoman worktree drop {name}")


def _commit_hint(changes: WorktreeChanges) -> str:
    return ' --commit "…"' if changes.uncommitted else ""
