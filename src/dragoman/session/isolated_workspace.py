"""`isolated_workspace`: the workspace of one isolated evaluation, which is there for as long as it takes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from dragoman.clock import SYSTEM_CLOCK
from dragoman.config import Config
from dragoman.protocol.requests import Isolation
from dragoman.workspace import Workspace
from dragoman.workspace.copies import copy_workspace
from dragoman.workspace.isolated_home import IsolatedHome
from dragoman.workspace.isolation import ISOLATED_FOLDER, IsolationNeeds, IsolationPlan, new_isolated_name


@asynccontextmanager
async def isolated_workspace(isolation: Isolation, workspace: Workspace, settings: Config) -> AsyncIterator[Workspace]:
    """Yield a copy of the workspace, and remove it at the end; the workspace itself where no copy is wanted."""
    if isolation.worktree is False:
        yield workspace
        return
    # Its temporary folder has the copy: what a kill leaves is found like that of an agent.
    plan = IsolationPlan(
        isolation=Isolation(home=False), root=settings.home / ISOLATED_FOLDER, name=new_isolated_name()
    )
    holder = await IsolatedHome.make(plan, IsolationNeeds(), {}, clock=SYSTEM_CLOCK)
    try:
        assert holder.temporary is not None
        copying = asyncio.ensure_future(asyncio.to_thread(copy_workspace, workspace, holder.temporary))
        try:
            copy = await asyncio.shield(copying)
        except asyncio.CancelledError:
            await asyncio.wait([copying])  # nothing may be written to a folder that is being removed
            raise
        yield copy
    finally:
        await holder.close()
