"""`Rulebook`: the rules that hold one session, as they stand at this moment.

An answer that was remembered in another session or by another process, a workspace's file that was trusted or changed,
counts from the next look on. Rules that cannot be read any more never allow: then everything is asked.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final, TypeAlias

import msgspec

from dragoman.config import Access, Config
from dragoman.errors import ConfigError
from dragoman.host.permission import PermissionRequest
from dragoman.host.policy.policy import Policy, build
from dragoman.host.policy.remembered import REMEMBERED_FILE, Remembered, derive
from dragoman.host.policy.rules import Rule, Verdict, user_rules
from dragoman.host.policy.trust import POLICY_FILE, TRUST_FILE, workspace_policy
from dragoman.workspace import Workspace

_Seen: TypeAlias = tuple[tuple[int, int, int] | None, ...]

NO_HOME: Final = "nothing is remembered: this session knows of no home folder"


class Sources(msgspec.Struct, frozen=True):
    """Where rules come from beside a session's own: the home folder (None: there is none), and the user's settings."""

    home: Path | None = None
    user: tuple[Rule, ...] = ()


def sources_of(config: Config) -> Sources:
    """The user's own. `ConfigError` where a rule cannot be used."""
    return Sources(config.home, user_rules(config))


class Memory(msgspec.Struct, frozen=True):
    """What became of an "always" or "never": the ids it is remembered by, and how to say it."""

    ids: tuple[str, ...]
    text: str


class Rulebook:
    """`ConfigError` where a file with rules cannot be used when it is first opened."""

    def __init__(
        self,
        workspace: Workspace,
        access: Access,
        sources: Sources,
        *,
        network: bool | None = None,
        web_search: bool | None = None,
        session: tuple[Rule, ...] = (),
    ) -> None:
        self._workspace = workspace
        self._access = access
        self._sources = sources
        self._switches = (network, web_search)
        self._session = session
        self._run: tuple[Rule, ...] = ()
        self._remembered = Remembered(sources.home) if sources.home is not None else None
        self.notice: str | None = None
        """Why the workspace's own rules do not count, where there are some."""
        self.version = 0
        """Another number, other rules."""
        self._seen = self._look()
        self._policy = self._read()

    def judge(self, request: PermissionRequest) -> Verdict:
        try:
            self.refresh()
        except ConfigError as problem:
            return Verdict("ask", f"the rules cannot be read: {problem}")
        return self._policy.judge(request, self._workspace)

    def refresh(self) -> None:
        """Look whether the rules have changed; `version` tells. `ConfigError` where they cannot be read."""
        seen = self._look()
        if seen != self._seen:
            self._policy = self._read()  # where that fails, the next look fails too
            self._seen = seen

    def begin_run(self, rules: tuple[Rule, ...]) -> None:
        """These are the rules of the run that begins."""
        if rules != self._run:
            self._run = rules
            self._policy = self._read()

    def remember(self, request: PermissionRequest, *, allowed: bool) -> Memory:
        """For all agents in this workspace, from now on."""
        if self._remembered is None:
            return Memory((), NO_HOME)
        derived = derive(request, self._workspace, "allow" if allowed else "deny", home=self._sources.home)
        if not derived.rules:
            return Memory((), f"it {derived.problem}")
        try:
            kept = self._remembered.add(self._workspace, derived.rules)
        except (ConfigError, OSError) as problem:
            return Memory((), f"it could not be remembered: {problem}")
        ids = tuple(entry.id for entry in kept)
        return Memory(ids, f"remembered for this workspace ({', '.join(ids)}): {'; '.join(map(str, derived.rules))}")

    def _read(self) -> Policy:
        home = self._sources.home
        own = workspace_policy(home, self._workspace.cwd) if home is not None else None
        self.notice = own.notice if own is not None else None
        network, web_search = self._switches
        self.version += 1
        return build(
            self._access,
            network=network,
            web_search=web_search,
            user=self._sources.user,
            workspace=own.rules if own is not None else (),
            remembered=self._remembered.rules(self._workspace) if self._remembered is not None else (),
            session=self._session,
            run=self._run,
            home=home,
        )

    def _look(self) -> _Seen:
        home = self._sources.home
        if home is None:
            return ()
        return tuple(
            _mark(path) for path in (home / REMEMBERED_FILE, home / TRUST_FILE, self._workspace.cwd / POLICY_FILE)
        )


def _mark(path: Path) -> tuple[int, int, int] | None:
    """What changes when the file does. Not the time of its content, which whoever wrote it can set back."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_ctime_ns
