"""`Sources`: where rules come from beside a session's own; `Standing`: what was found there."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TypeAlias

import msgspec

from dragoman.config import Access, Config
from dragoman.host.policy.policy import Policy, build
from dragoman.host.policy.remembered import REMEMBERED_FILE, Remembered
from dragoman.host.policy.rules import Rule, user_rules
from dragoman.host.policy.trust import POLICY_FILE, TRUST_FILE, WorkspacePolicy, workspace_policy
from dragoman.workspace import Workspace

Marks: TypeAlias = tuple[tuple[int, int, int] | None, ...]


class Standing(msgspec.Struct, frozen=True):
    """The rules that stand at one moment. `own` is the workspace's own file: its `notice` is for the person."""

    home: Path | None
    user: tuple[Rule, ...]
    own: WorkspacePolicy
    remembered: tuple[Rule, ...] = ()

    def policy(
        self,
        access: Access,
        *,
        network: bool | None = None,
        web_search: bool | None = None,
        session: Iterable[Rule] = (),
        run: Iterable[Rule] = (),
    ) -> Policy:
        """With what the session brings itself."""
        return build(
            access,
            network=network,
            web_search=web_search,
            user=self.user,
            workspace=self.own.rules,
            remembered=self.remembered,
            session=session,
            run=run,
            home=self.home,
        )


class Sources(msgspec.Struct, frozen=True):
    """The home folder (None: there is none, and nothing in it), and the user's settings."""

    home: Path | None = None
    user: tuple[Rule, ...] = ()

    def read(self, workspace: Workspace) -> Standing:
        """As they are now. `ConfigError` where one of the files cannot be used: half of the rules are not the rules."""
        if self.home is None:
            # Nobody can have trusted a workspace's file: it is as if there were none.
            return Standing(None, self.user, WorkspacePolicy(workspace.cwd / POLICY_FILE, "absent"))
        return Standing(
            home=self.home,
            user=self.user,
            own=workspace_policy(self.home, workspace.cwd),
            remembered=Remembered(self.home).rules(workspace),
        )

    def marks(self, workspace: Workspace) -> Marks:
        """Other marks, other files: `read` may find something else."""
        if self.home is None:
            return ()
        return tuple(
            _mark(path) for path in (self.home / REMEMBERED_FILE, self.home / TRUST_FILE, workspace.cwd / POLICY_FILE)
        )


def sources_of(config: Config) -> Sources:
    """The user's own. `ConfigError` where a rule cannot be used."""
    return Sources(config.home, user_rules(config))


def _mark(path: Path) -> tuple[int, int, int] | None:
    """What changes when the file does. Not the time of its content, which whoever wrote it can set back."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_ctime_ns
