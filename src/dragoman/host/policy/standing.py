"""The rules that stand before a session begins: the user's, the workspace's, and what was remembered."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from dragoman.config import Access, Config
from dragoman.host.policy.policy import Policy, build
from dragoman.host.policy.remembered import Remembered
from dragoman.host.policy.rules import Rule, user_rules
from dragoman.host.policy.trust import WorkspacePolicy, workspace_policy
from dragoman.workspace import Workspace


class Standing(msgspec.Struct, frozen=True):
    """`own` is the workspace's own file: its `notice` is for the person, where it does not count."""

    home: Path
    user: tuple[Rule, ...]
    own: WorkspacePolicy
    remembered: tuple[Rule, ...]

    def policy(
        self,
        access: Access,
        *,
        network: bool | None = None,
        web_search: bool | None = None,
        session: Iterable[Rule] = (),
        run: Iterable[Rule] = (),
    ) -> Policy:
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


def standing(config: Config, workspace: Workspace) -> Standing:
    """As they are now. `ConfigError` where one of the files cannot be used: half of the rules are not the rules."""
    return Standing(
        home=config.home,
        user=user_rules(config),
        own=workspace_policy(config.home, workspace.cwd),
        remembered=Remembered(config.home).rules(workspace),
    )
