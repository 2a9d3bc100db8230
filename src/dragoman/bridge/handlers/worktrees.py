"""Handlers of `worktree.*`: folders and branches of their own for sessions, and what becomes of them."""

from __future__ import annotations

from pathlib import Path

from dragoman.bridge.auth import Caller
from dragoman.bridge.services import Services, handles
from dragoman.config import load
from dragoman.errors import SessionBusy
from dragoman.hub.scopes import folder_reason
from dragoman.protocol import requests, results
from dragoman.protocol.messages import includes
from dragoman.protocol.worktrees import WorktreeApply, WorktreeChanges, WorktreeInfo, WorktreeMerge
from dragoman.session.worktree import worktrees_of
from dragoman.workspace.worktrees import Worktree, Worktrees


def _worktrees(services: Services) -> Worktrees:
    return worktrees_of(load(services.config.home))


async def _idle_worktree(services: Services, name: str, *, with_checkout: bool = True) -> Worktree:
    """Return a worktree in which no session of the journal is at work, nor in its checkout, with checkpoints or not."""
    worktree = await _worktrees(services).find(name)
    folders = [worktree.folder, *([Path(worktree.info.checkout)] if with_checkout else ())]
    for row in await services.journal.sessions():
        is_inside = any(Path(row.cwd or "/").is_relative_to(folder) for folder in folders)
        if row.status == "running" and not row.imported and is_inside:
            raise SessionBusy(
                f"session {row.id} is at work in {row.cwd}",
                guidance="Wait until its run has ended, or cancel it.",
            )
    return worktree


@handles(requests.WorktreeList)
async def list_worktrees(services: Services, request: requests.WorktreeList, caller: Caller) -> results.Worktrees:
    found = await _worktrees(services).list_worktrees(dropped=request.dropped)
    if not includes(caller.scope, "admin"):
        sessions, config = await services.journal.sessions(), load(services.config.home)
        found = tuple(each for each in found if folder_reason([each.checkout], sessions, config) is None)
    return results.Worktrees(worktrees=found)


@handles(requests.WorktreeShow)
async def show_worktree(services: Services, request: requests.WorktreeShow, caller: Caller) -> WorktreeChanges:
    worktree = await _worktrees(services).find(request.worktree)
    await services.check_folders(caller, worktree.info.checkout)
    return await worktree.changes()


@handles(requests.WorktreeApplyChanges)
async def apply_worktree(services: Services, request: requests.WorktreeApplyChanges, caller: Caller) -> WorktreeApply:
    if request.plan is None:
        worktree = await _worktrees(services).find(request.worktree)
        return await worktree.apply(undo=request.undo)
    worktree = await _idle_worktree(services, request.worktree)
    return await worktree.apply(plan_id=request.plan, undo=request.undo)


@handles(requests.WorktreeMergeBranch)
async def merge_worktree(services: Services, request: requests.WorktreeMergeBranch, caller: Caller) -> WorktreeMerge:
    worktree = await _idle_worktree(services, request.worktree)
    return await worktree.merge(
        into=request.into,
        commit=request.commit,
        message=request.message,
        no_ff=request.no_ff,
        conflicts=request.conflicts,
        trust_repository=request.trust_repository,
    )


@handles(requests.WorktreeDrop)
async def drop_worktree(services: Services, request: requests.WorktreeDrop, caller: Caller) -> WorktreeInfo:
    if request.force:
        return await (await _worktrees(services).find(request.worktree)).drop(force=True)
    return await (await _idle_worktree(services, request.worktree, with_checkout=False)).drop()


@handles(requests.WorktreeKeep)
async def keep_worktree(services: Services, request: requests.WorktreeKeep, caller: Caller) -> WorktreeInfo:
    return await (await _worktrees(services).find(request.worktree)).keep()


@handles(requests.WorktreeRecover)
async def recover_worktree(services: Services, request: requests.WorktreeRecover, caller: Caller) -> WorktreeInfo:
    return (await _worktrees(services).recover(request.worktree)).info


@handles(requests.WorktreePrune)
async def prune_worktrees(services: Services, request: requests.WorktreePrune, caller: Caller) -> results.Leftovers:
    return results.Leftovers(leftovers=await _worktrees(services).prune(remove=request.remove))
