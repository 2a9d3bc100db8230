"""`files.*`: the files of a session's workspace, to be mentioned and looked at. Nothing outside is told of."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from dragoman.bridge import answers, asked
from dragoman.bridge.caller import Caller
from dragoman.bridge.controls.sessions import row_of_session
from dragoman.bridge.folders import folder_of
from dragoman.bridge.refusal import Refusal
from dragoman.errors import InputError
from dragoman.host.files.text_files import read_text
from dragoman.hub.prompting import is_within
from dragoman.wire.connection import RpcRefusal
from dragoman.workspace import Workspace
from dragoman.workspace.listing import list_folder, rank_paths

if TYPE_CHECKING:
    from dragoman.bridge.bridge import Bridge


async def _workspace(bridge: Bridge, session_id: str) -> Workspace:
    row = await row_of_session(bridge, session_id)
    try:
        return Workspace(row.cwd, [folder for folder in row.folders if folder != row.cwd])
    except InputError as problem:
        raise Refusal("conflict", f"the workspace of session {session_id} is not here: {problem}") from None


async def list_files(bridge: Bridge, said: asked.FilesList, caller: Caller) -> answers.Files:
    if said.session_id is not None:
        cwd = (await _workspace(bridge, said.session_id)).cwd
    elif said.cwd is not None:
        caller.require("admin", "listing a folder that is no session's")
        cwd = folder_of(said.cwd)
    else:
        raise Refusal("invalid", "name a session, or a folder", field="session_id")
    found = await asyncio.to_thread(list_folder, cwd)
    limit = min(max(said.limit, 1), 500)
    paths = await asyncio.to_thread(rank_paths, said.query[:200], found.paths, limit)
    return answers.Files(cwd=str(cwd), paths=tuple(paths), complete=found.is_complete)


async def read(bridge: Bridge, said: asked.FilesRead, caller: Caller) -> answers.FileText:
    workspace = await _workspace(bridge, said.session_id)
    line, limit = max(said.line, 1), min(max(said.limit, 1), 20_000)

    def look() -> answers.FileText:
        path = os.path.join(workspace.cwd, said.path)
        found = read_text(workspace, path, line, limit + 1)
        lines = found.text.splitlines(keepends=True)
        return answers.FileText(
            path=str(found.path),
            text="".join(lines[:limit]),
            line=line,
            lines=line - 1 + len(lines),
            truncated=len(lines) > limit,
        )

    try:
        text = await asyncio.to_thread(look)
    except RpcRefusal as problem:
        raise Refusal("invalid", str(problem), field="path") from None
    if is_within(text.path, bridge.config.home):  # a workspace may have it inside, keys, tokens and all
        raise Refusal("invalid", f"{said.path} is a file of Dragoman's own", field="path")
    return text
