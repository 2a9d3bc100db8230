"""The worktree of a session: which one it is to have, entering it, and finding it again.

A session in a worktree is a session whose `cwd` is in that folder: policy, files and checkpoints follow. Its handle
says which worktree it is, and which folder was asked for. Additional folders of the workspace stay as they are.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

import msgspec

from dragoman.config import Config
from dragoman.errors import InputError
from dragoman.protocol.requests import Isolation
from dragoman.protocol.worktrees import SessionWorktree, WorktreeChoice
from dragoman.session.options import SessionConfig, parse_isolation
from dragoman.workspace import Workspace
from dragoman.workspace.copies import has_commit
from dragoman.workspace.worktree_store import worktree_settings
from dragoman.workspace.worktrees import Worktree, Worktrees


def worktrees_of(config: Config) -> Worktrees:
    """Return the worktrees of the user whose settings these are."""
    return Worktrees(worktree_settings(config))


@asynccontextmanager
async def entered_worktree(
    settings: Config,
    config: SessionConfig,
    session_id: str | None = None,
    *,
    prompt: str = "",
    on_progress: Callable[[str], None] = lambda line: None,
) -> AsyncIterator[SessionConfig]:
    """Yield the configuration of a session in the worktree that it chose; it is made where there is none.

    If the block fails, a worktree that was made for it is removed again.
    """
    choice = config.worktree or await asyncio.to_thread(isolated_worktree, config, settings)
    if not isinstance(choice, WorktreeChoice):
        yield config
        return
    workspace = config.workspace
    worktree = await worktrees_of(settings).create(
        workspace.cwd, choice, prompt=prompt, session_id=session_id, on_progress=on_progress
    )
    is_new = worktree.info.session_ids in ((), (session_id,))
    try:
        yield in_worktree(config, worktree)
    except BaseException:
        if is_new:
            await worktree.discard_unused()
        raise


def isolated_worktree(config: SessionConfig, settings: Config) -> WorktreeChoice | None:
    """Return the worktree of an isolated session that chose none; None where it is not isolated, or works in the folder
    itself. May block for some milliseconds, in git."""
    isolation = parse_isolation(settings.isolation if config.isolation is None else config.isolation)
    if not isolation or isolation.worktree is False:
        return None
    return WorktreeChoice() if isolation.worktree or has_commit(config.workspace.cwd) else None


def without_worktree(isolation: bool | Isolation | None, settings: Config) -> Isolation | Literal[False]:
    """Return the isolation that a session has in the folder itself; False where it is not isolated."""
    parsed = parse_isolation(settings.isolation if isolation is None else isolation)
    return msgspec.structs.replace(parsed, worktree=False) if parsed else False


def in_worktree(config: SessionConfig, worktree: Worktree) -> SessionConfig:
    """Return the configuration of a session with its folder in a worktree. Raises `InputError` where another folder of
    its workspace is in the checkout, which is to stay as it is."""
    info, workspace = worktree.info, config.workspace
    for folder in workspace.additional:
        if folder.is_relative_to(info.checkout) or Path(info.checkout).is_relative_to(folder):
            raise InputError(
                f"the additional folder {folder} is in the checkout {info.checkout}, which a session in a worktree"
                " leaves as it is",
                guidance="Leave it out: the worktree has all tracked files.",
            )
    return msgspec.structs.replace(
        config,
        workspace=Workspace(worktree.cwd, workspace.additional, workspace.rules_folder),
        worktree=SessionWorktree(
            name=info.name,
            checkout=info.checkout,
            git_dir=str(worktree.git_dir),
            branch=info.branch,
            cwd=str(workspace.cwd),
        ),
    )
