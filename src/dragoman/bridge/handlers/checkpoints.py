"""Handlers of `checkpoint.*`: the workspace before and after runs, and rewinding it."""

from __future__ import annotations

import asyncio
import os

import msgspec

from dragoman.bridge.auth import Caller
from dragoman.bridge.services import Services, handles
from dragoman.config import Config, load
from dragoman.hub.scopes import reading_reason
from dragoman.hub.workspace_history import WorkspaceHistory
from dragoman.journal.rows import Session as SessionRow
from dragoman.protocol import requests, results
from dragoman.protocol.checkpoints import ComparedFile, Rewind, WorkspaceDiff
from dragoman.protocol.messages import includes
from dragoman.workspace import OutsideWorkspace, Workspace


async def _history(services: Services, session_id: str) -> WorkspaceHistory:
    await services.session_row(session_id)
    return await WorkspaceHistory.of(services.journal, load(services.config.home), session_id)


@handles(requests.CheckpointList)
async def list_checkpoints(services: Services, request: requests.CheckpointList, caller: Caller) -> results.Checkpoints:
    history = await _history(services, request.session_id)
    return results.Checkpoints(checkpoints=await history.checkpoints())


@handles(requests.CheckpointDiff)
async def compare_checkpoints(services: Services, request: requests.CheckpointDiff, caller: Caller) -> WorkspaceDiff:
    row = await services.session_row(request.session_id)
    await services.check_folders(caller, *dict.fromkeys((row.cwd, *row.folders)))
    history = await _history(services, request.session_id)
    diff = await history.diff(
        request.run,
        since_start=request.since_start,
        path=request.path,
        offset=max(request.offset, 0),
        first_line=max(request.first_line, 0),
    )
    if includes(caller.scope, "admin"):
        return diff
    hidden = await asyncio.to_thread(_hidden, diff, row, load(services.config.home))
    files = [_without_lines(file, hidden[file.path]) if file.path in hidden else file for file in diff.files]
    return msgspec.structs.replace(diff, files=tuple(files))


def _without_lines(file: ComparedFile, reason: str) -> ComparedFile:
    return msgspec.structs.replace(file, hunks=(), next_line=None, hidden_reason=reason)


def _hidden(diff: WorkspaceDiff, row: SessionRow, config: Config) -> dict[str, str]:
    """Return the files whose lines only an admin may see, with the reason."""
    workspace = Workspace(row.cwd, [folder for folder in row.folders if folder != row.cwd and os.path.isdir(folder)])
    hidden = {}
    for file in diff.files:
        for path in filter(None, (file.path, file.old_path)):
            named = workspace.cwd / path
            try:
                real = workspace.resolve(str(named))
            except OutsideWorkspace as error:  # a link that leads outside
                hidden[file.path] = str(error)
                continue
            # Its own name as well: it may have become a link since its content was recorded.
            for each in (real, named):
                if reason := reading_reason(each, workspace, config):
                    hidden[file.path] = reason
    return hidden


@handles(requests.CheckpointRewind)
async def rewind(services: Services, request: requests.CheckpointRewind, caller: Caller) -> Rewind:
    history = await _history(services, request.session_id)
    if request.plan is None:
        return await history.plan_rewind(request.run, before=request.before, undo=request.undo)
    plan = history.confirmed_plan(request.plan, request.run, before=request.before, undo=request.undo)
    return await history.rewind(services.hub, plan, scope=caller.scope, command_id=request.command_id)
