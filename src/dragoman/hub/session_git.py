"""`session_git`: git actions for any session in the journal, open here, elsewhere or not.

The action is done by this process, with the user's git. The note of it is written by the process that has the session:
where that is another one, it gets it as a command.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from dragoman.config import Config
from dragoman.errors import InputError
from dragoman.hub.commands import GitActionNoted
from dragoman.hub.commit_message import is_hidden, propose_message
from dragoman.hub.hub import Hub
from dragoman.journal.rows import Session as SessionRow
from dragoman.record import notes
from dragoman.session.git import GitActions
from dragoman.session.handle import read_handle
from dragoman.workspace import Workspace
from dragoman.workspace.commit_diff import ChangesText
from dragoman.workspace.git_state import Repository


async def session_git(hub: Hub, config: Config, session_id: str) -> GitActions:
    """Return the git actions of a session. `InputError` where there is none, or its folder is not on this machine."""
    row = await hub.journal.session(session_id)
    if row is None:
        raise InputError(f"there is no session {session_id}")
    folder = _folder(row)

    async def propose(changes: ChangesText) -> str:
        if row.handle is None:
            raise InputError(f"session {row.id} has no agent that could be asked", guidance="Write a message.")
        return await propose_message(config, read_handle(row.handle), changes)

    return GitActions(
        folder,
        config.home,
        note=partial(_note, hub, row.id),
        running=partial(running_sessions, hub),
        propose=propose,
        is_hidden=partial(is_hidden, _workspace(row), config),
    )


def _folder(row: SessionRow) -> Path:
    if not row.cwd or not os.path.isdir(row.cwd):
        raise InputError(f"the folder of session {row.id} is not on this machine: {row.cwd or 'unknown'}")
    return Path(row.cwd)


def _workspace(row: SessionRow) -> Workspace:
    return Workspace(row.cwd, [folder for folder in row.folders if folder != row.cwd and os.path.isdir(folder)])


def folder_git(hub: Hub | None, config: Config, folder: Path) -> GitActions:
    """Return the git actions of a folder. Nothing is noted, and there is no agent that could propose a message.

    `hub`: None where there is no journal, and so no session that could be at work there.
    """

    async def leave_out(note: notes.GitAction) -> None:
        pass

    return GitActions(folder, config.home, note=leave_out, running=partial(running_sessions, hub))


async def running_sessions(hub: Hub | None, repository: Repository) -> Sequence[str]:
    """Return the ids of the sessions whose agents are at work in the files of a repository."""
    found: list[str] = []
    if hub is None:
        return found
    for row in await hub.journal.sessions():
        if row.status != "running" or not any(_overlaps(each, repository.root) for each in (row.cwd, *row.folders)):
            continue
        if row.id in hub.owned_sessions or await hub.owned_elsewhere(row.id):
            found.append(row.id)
    return found


def _overlaps(folder: str, root: Path) -> bool:
    path = Path(os.path.realpath(folder)) if folder else None
    return path is not None and (path.is_relative_to(root) or root.is_relative_to(path))


async def _note(hub: Hub, session_id: str, note: notes.GitAction) -> None:
    if await hub.owned_elsewhere(session_id):
        await hub.command(GitActionNoted(session_id=session_id, note=note))
    else:
        await hub.note(session_id, lambda record: [notes.write(note)])
