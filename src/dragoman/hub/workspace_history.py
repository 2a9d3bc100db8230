"""`WorkspaceHistory`: checkpoints, differences and rewinds of any session in the journal, open here, elsewhere or not.

Checkpoints are read from the folders' own repositories. A rewind of an open session is a command to its owner, which
knows whether a run is active, and records it; for one that is not open, it is done and recorded here.
"""

from __future__ import annotations

import time
from pathlib import Path

import msgspec

from dragoman.config import Config
from dragoman.errors import InputError
from dragoman.hub.hub import Hub, checkpoint_settings
from dragoman.journal.protocols import Journal
from dragoman.journal.rows import SessionRows
from dragoman.protocol.checkpoints import Checkpoint, Rewind, WorkspaceDiff
from dragoman.protocol.messages import Scope
from dragoman.protocol.requests import CheckpointRewind
from dragoman.record import notes
from dragoman.record.diffs import claimed_paths
from dragoman.session.run_checkpoints import choose_run, rewound_note, words_for
from dragoman.workspace.checkpoints import SessionCheckpoints


class WorkspaceHistory:
    """The history of one session's workspace: `await WorkspaceHistory.of(journal, config, session_id)`."""

    def __init__(self, session_id: str, rows: SessionRows, checkpoints: SessionCheckpoints) -> None:
        self.session_id = session_id
        self._rows = rows
        self._run_ids = [run.id for run in rows.runs]
        self._checkpoints = checkpoints

    @classmethod
    async def of(cls, journal: Journal, config: Config, session_id: str) -> WorkspaceHistory:
        """Read the rows of a session. `InputError` where there is none, or its folder is not on this machine."""
        row = await journal.session(session_id)
        if row is None:
            raise InputError(f"there is no session {session_id}")
        folders = [Path(folder) for folder in dict.fromkeys((row.cwd, *row.folders)) if folder]
        if not folders or not folders[0].is_dir():
            raise InputError(f"the folder of session {session_id} is not on this machine: {row.cwd or 'unknown'}")
        existing = [folder for folder in folders if folder.is_dir()]
        rows = await journal.rows(session_id)
        return cls(session_id, rows, SessionCheckpoints(checkpoint_settings(config), session_id, existing))

    async def checkpoints(self) -> tuple[Checkpoint, ...]:
        return await self._checkpoints.list_checkpoints()

    def number_of(self, run_id: str | None) -> int | None:
        """Return the number of a run, from 1 on."""
        return self._run_ids.index(run_id) + 1 if run_id in self._run_ids else None

    async def diff(
        self,
        run: str | int | None = None,
        *,
        since_start: bool = False,
        path: str | None = None,
        offset: int = 0,
        first_line: int = 0,
        is_whole: bool = False,
    ) -> WorkspaceDiff:
        """Compare as `Session.diff` does; with `is_whole`, everything in one answer."""
        run_id = self._run_id(run, since_start)
        claims = claimed_paths(self._rows.tool_calls, self._rows.file_calls, run_id)
        return await self._checkpoints.diff(
            run_id, path=path, offset=offset, first_line=first_line, is_whole=is_whole, claims=claims
        )

    async def patch(self, run: str | int | None = None, *, since_start: bool = False, is_exact: bool = True) -> bytes:
        """Return the whole difference in the form that `git apply` reads; without `is_exact`, for people."""
        return await self._checkpoints.patch(self._run_id(run, since_start), is_exact=is_exact)

    def _run_id(self, run: str | int | None, since_start: bool) -> str | None:
        return None if since_start else choose_run(self._run_ids, -1 if run is None else run)

    async def plan_rewind(self, run: str | int | None, *, before: bool = False, undo: bool = False) -> Rewind:
        """Return what a rewind would change, as `Session.plan_rewind` does."""
        plan = self.confirmed_plan("", run, before=before, undo=undo)
        return await self._checkpoints.plan_rewind(plan.run_id, before=before, target=plan.target)

    def confirmed_plan(self, plan_id: str, run: str | int | None, *, before: bool, undo: bool) -> Rewind:
        """Return the plan of this id, which somebody has seen, as far as `rewind` needs it."""
        if undo == (run is not None):
            raise InputError("name a run to rewind to, or undo the last rewind", guidance="Use --to-run N, or --undo.")
        run_id = None if run is None else choose_run(self._run_ids, run)
        return Rewind(id=plan_id, target=words_for(self._run_ids, run_id, before=before), run_id=run_id, before=before)

    async def rewind(self, hub: Hub, plan: Rewind, *, scope: Scope = "admin", command_id: str | None = None) -> Rewind:
        """Do what a plan says. Raises what it is refused for."""
        owned = hub.owned_sessions.get(self.session_id)
        is_open = owned is not None and owned.session is not None
        if is_open or await hub.owned_elsewhere(self.session_id):
            command = CheckpointRewind(
                session_id=self.session_id,
                command_id=command_id,
                run=plan.run_id,
                before=plan.before,
                undo=plan.run_id is None,
                plan=plan.id,
            )
            await hub.command(command, scope)
            return msgspec.structs.replace(plan, is_done=True)
        done = await self._checkpoints.rewind(plan, at=time.time())
        await hub.note(self.session_id, lambda record: [notes.write(rewound_note(done))])
        return done
