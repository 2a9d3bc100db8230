"""`Rulebook`: the rules that hold one session, as they stand at this moment.

An answer that was remembered in another session or by another process, a workspace's file that was trusted or changed,
counts from the next look on. Rules that cannot be read any more never allow: then everything is asked.
"""

from __future__ import annotations

from typing import Final

import msgspec

from dragoman.config import Access
from dragoman.errors import ConfigError
from dragoman.host.permission import PermissionRequest
from dragoman.host.policy.policy import Policy
from dragoman.host.policy.remembered import Derived, Remembered, derive
from dragoman.host.policy.rules import Rule, Verdict
from dragoman.host.policy.sources import Sources
from dragoman.workspace import Workspace

NO_HOME: Final = "nothing is remembered: this session knows of no home folder"


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
        self.version = 0
        """Another number, other rules."""
        self._seen = sources.marks(workspace)
        self._standing = sources.read(workspace)
        self._policy = self._build()

    @property
    def notice(self) -> str | None:
        """Why the workspace's own rules do not count, where there are some."""
        return self._standing.own.notice

    def judge(self, request: PermissionRequest) -> Verdict:
        try:
            self.refresh()
        except ConfigError as problem:
            # Of a layer: "no rule is about it" is just what cannot be said.
            return Verdict("ask", f"the rules cannot be read: {problem}", layer="guard")
        return self._policy.judge(request, self._workspace)

    def refresh(self) -> None:
        """Look whether the rules have changed; `version` tells. `ConfigError` where they cannot be read."""
        seen = self._sources.marks(self._workspace)
        if seen != self._seen:
            self._standing = self._sources.read(self._workspace)  # where that fails, the next look fails too
            self._policy = self._build()
            self._seen = seen

    def begin_run(self, rules: tuple[Rule, ...]) -> None:
        """These are the rules of the run that begins."""
        if rules != self._run:
            self._run = rules
            self._policy = self._build()

    def derived(self, request: PermissionRequest, *, allowed: bool) -> Derived:
        """The rules that an answer for good means."""
        return derive(request, self._workspace, "allow" if allowed else "deny", home=self._sources.home)

    def remember(self, request: PermissionRequest, *, allowed: bool) -> Memory:
        """For all agents in this workspace, from now on."""
        if self._remembered is None:
            return Memory((), NO_HOME)
        derived = self.derived(request, allowed=allowed)
        if not derived.rules:
            return Memory((), f"it {derived.problem}")
        try:
            kept = self._remembered.add(self._workspace, derived.rules)
        except (ConfigError, OSError) as problem:
            return Memory((), f"it could not be remembered: {problem}")
        ids = tuple(entry.id for entry in kept)
        return Memory(ids, f"remembered for this workspace ({', '.join(ids)}): {'; '.join(map(str, derived.rules))}")

    def _build(self) -> Policy:
        self.version += 1
        network, web_search = self._switches
        return self._standing.policy(
            self._access, network=network, web_search=web_search, session=self._session, run=self._run
        )
