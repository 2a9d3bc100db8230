"""`Rulebook`: the current rules of one session; `RuleSources`: the files that they come from.

A change made by another session or process (a remembered answer, a workspace's file that was trusted or edited) counts
from the next request on. Rules that can no longer be read never allow: then everything is asked.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final, TypeAlias

import msgspec

from dragoman.config import Access, Config
from dragoman.errors import ConfigError
from dragoman.host.permission import PermissionRequest
from dragoman.host.policy.policy import Policy, build_policy
from dragoman.host.policy.remembered import REMEMBERED_FILE, DerivedRules, Remembered, derive
from dragoman.host.policy.rules import PolicyRule, Verdict, user_rules
from dragoman.host.policy.trust import POLICY_FILE, TRUST_FILE, WorkspacePolicy, workspace_policy
from dragoman.workspace import Workspace

NO_HOME: Final = "not remembered: this session has no home folder"

_FileStamp: TypeAlias = tuple[int, int, int]


class LoadedRules(msgspec.Struct, frozen=True):
    """The rules as they were when they were read. `workspace_file` may have a `notice` for the person."""

    home: Path | None
    user: tuple[PolicyRule, ...]
    workspace_file: WorkspacePolicy
    remembered: tuple[PolicyRule, ...] = ()

    def policy(
        self,
        access: Access,
        *,
        network: bool | None = None,
        web_search: bool | None = None,
        session: Iterable[PolicyRule] = (),
        run: Iterable[PolicyRule] = (),
    ) -> Policy:
        """Combine them with the session's own settings and rules."""
        return build_policy(
            access,
            network=network,
            web_search=web_search,
            user=self.user,
            workspace=self.workspace_file.rules,
            remembered=self.remembered,
            session=session,
            run=run,
            home=self.home,
        )


class RuleSources(msgspec.Struct, frozen=True):
    """The home folder, and the rules in the user's settings. Without a home folder there are no other rules."""

    home: Path | None = None
    user: tuple[PolicyRule, ...] = ()

    def read(self, workspace: Workspace) -> LoadedRules:
        """Read all rules. `ConfigError` where one of the files cannot be used: half of the rules are not the rules."""
        if self.home is None:
            # Without a home folder nobody can have trusted a workspace's file: treat it as absent.
            return LoadedRules(None, self.user, WorkspacePolicy(workspace.cwd / POLICY_FILE, "absent"))
        return LoadedRules(
            home=self.home,
            user=self.user,
            workspace_file=workspace_policy(self.home, workspace.cwd),
            remembered=Remembered(self.home).rules(workspace),
        )

    def stamps(self, workspace: Workspace) -> tuple[_FileStamp | None, ...]:
        """Return stamps that change whenever one of the files does."""
        if self.home is None:
            return ()
        return tuple(
            _stamp(path) for path in (self.home / REMEMBERED_FILE, self.home / TRUST_FILE, workspace.cwd / POLICY_FILE)
        )


def rule_sources(config: Config) -> RuleSources:
    """Return the sources of this configuration. `ConfigError` where one of its rules cannot be used."""
    return RuleSources(config.home, user_rules(config))


def _stamp(path: Path) -> _FileStamp | None:
    """Return inode, size and change time. Not the modification time, which anyone who can write can set back."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_ctime_ns


class RememberResult(msgspec.Struct, frozen=True):
    """The outcome of an "always" or "never": the ids of the remembered rules, and a text for the person."""

    ids: tuple[str, ...]
    text: str


class Rulebook:
    """The rules of one session. `ConfigError` where a file with rules cannot be used at the start."""

    def __init__(
        self,
        workspace: Workspace,
        access: Access,
        sources: RuleSources,
        *,
        network: bool | None = None,
        web_search: bool | None = None,
        session: tuple[PolicyRule, ...] = (),
    ) -> None:
        self._workspace = workspace
        self._access = access
        self._sources = sources
        self._switches = (network, web_search)
        self._session = session
        self._run: tuple[PolicyRule, ...] = ()
        self._remembered = Remembered(sources.home) if sources.home is not None else None
        self.version = 0
        """A number that changes with the rules."""
        self._stamps = sources.stamps(workspace)
        self._loaded = sources.read(workspace)
        self._policy = self._build()

    @property
    def notice(self) -> str | None:
        """The reason why the workspace's own rules are ignored, where it has some."""
        return self._loaded.workspace_file.notice

    def judge(self, request: PermissionRequest) -> Verdict:
        try:
            self.refresh()
        except ConfigError as error:
            # With a layer: without one the verdict would mean that no rule matches, which nobody knows here.
            return Verdict("ask", f"the rules cannot be read: {error}", layer="guard")
        return self._policy.judge(request, self._workspace)

    def refresh(self) -> None:
        """Read the rules again if a file has changed. `ConfigError` where they cannot be read."""
        stamps = self._sources.stamps(self._workspace)
        if stamps != self._stamps:
            self._loaded = self._sources.read(self._workspace)  # if this fails, the next refresh tries again
            self._policy = self._build()
            self._stamps = stamps

    def begin_run(self, rules: tuple[PolicyRule, ...]) -> None:
        """Set the rules of the run that begins."""
        if rules != self._run:
            self._run = rules
            self._policy = self._build()

    def derived(self, request: PermissionRequest, *, allowed: bool) -> DerivedRules:
        """Return the rules that an "always" or "never" to this request would become."""
        return derive(request, self._workspace, "allow" if allowed else "deny", home=self._sources.home)

    def remember(self, request: PermissionRequest, *, allowed: bool) -> RememberResult:
        """Remember the answer for all agents in this workspace."""
        if self._remembered is None:
            return RememberResult((), NO_HOME)
        derived = self.derived(request, allowed=allowed)
        if not derived.rules:
            return RememberResult((), f"it {derived.error}")
        try:
            added = self._remembered.add(self._workspace, derived.rules)
        except (ConfigError, OSError) as error:
            return RememberResult((), f"it could not be remembered: {error}")
        ids = tuple(entry.id for entry in added)
        rules = "; ".join(map(str, derived.rules))
        return RememberResult(ids, f"remembered for this workspace ({', '.join(ids)}): {rules}")

    def _build(self) -> Policy:
        self.version += 1
        network, web_search = self._switches
        return self._loaded.policy(
            self._access, network=network, web_search=web_search, session=self._session, run=self._run
        )
