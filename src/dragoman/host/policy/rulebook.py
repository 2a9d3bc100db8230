"""`Rulebook`: the current rules of one session; `RuleSources`: the files that they come from.

A change made by another session or process (a remembered answer, a workspace's file that was trusted or edited) counts
from the next request on. Rules that can no longer be read never allow: then everything is asked.

A workspace's own rules (`.dragoman/policy.toml`) count only while their content is what the user trusted. Otherwise
anyone who can write to the folder, a cloned repository or the agent itself, could allow an agent everything in it. The
home folder stores the SHA-256 of the trusted content for each workspace. The bytes that are checked are the bytes that
are read.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final, Literal, TypeAlias

import msgspec

from dragoman.config import Access, Config
from dragoman.document import KeyPath, parse_document
from dragoman.errors import ConfigError, InputError
from dragoman.fileio import LockedJsonFile, folder_key
from dragoman.host.permission import PermissionRequest
from dragoman.host.policy.access import BUILT_IN
from dragoman.host.policy.guards import Guards, user_guards
from dragoman.host.policy.policy import Policy, build_policy
from dragoman.host.policy.remembered import REMEMBERED_FILE, DerivedRules, Remembered, derive
from dragoman.host.policy.rules import PolicyRule, Verdict, read_table, user_rules
from dragoman.workspace import Workspace

POLICY_FILE: Final = ".dragoman/policy.toml"
TRUST_FILE: Final = "trusted.json"
# People write rules by hand: nobody writes a file of this size.
MAX_POLICY_BYTES: Final = 1024 * 1024

State: TypeAlias = Literal["absent", "trusted", "untrusted", "changed"]


class WorkspacePolicy(msgspec.Struct, frozen=True):
    """The state of the file. `rules` are the rules that count; `notice` tells a person why none of them do."""

    path: Path
    state: State
    rules: tuple[PolicyRule, ...] = ()
    sha256: str | None = None

    @property
    def notice(self) -> str | None:
        why = {"untrusted": "you have not trusted it", "changed": "it has changed since you trusted it"}.get(self.state)
        if why is None:
            return None
        return f"{self.path} is ignored: {why}. Read it, then run: dragoman policy trust {self.path.parent.parent}"


class _Trusted(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The SHA-256 of trusted files, by the resolved path of the workspace's folder."""

    workspaces: dict[str, str] = {}


def workspace_policy(home: Path, folder: Path) -> WorkspacePolicy:
    """Read the rules of the workspace in this folder. `ConfigError` where a trusted file cannot be used."""
    path = _real(folder) / POLICY_FILE
    data = _read(path)
    if data is None:
        return WorkspacePolicy(path, "absent")
    digest = hashlib.sha256(data).hexdigest()
    trusted = _trust_file(home).read().workspaces.get(folder_key(folder))
    if trusted != digest:
        return WorkspacePolicy(path, "untrusted" if trusted is None else "changed", sha256=digest)
    return WorkspacePolicy(path, "trusted", _rules(path, data), digest)


def trust(home: Path, folder: Path) -> WorkspacePolicy:
    """Trust the file with its current content. `InputError` where there is none, `ConfigError` where it is invalid."""
    path = _real(folder) / POLICY_FILE
    data = _read(path)
    if data is None:
        raise InputError(
            f"there is no {path} to trust", guidance="Name the workspace's folder: dragoman policy trust DIR"
        )
    rules = _rules(path, data)
    digest = hashlib.sha256(data).hexdigest()
    key = folder_key(folder)
    _trust_file(home).change(lambda trusted: _Trusted({**trusted.workspaces, key: digest}))
    return WorkspacePolicy(path, "trusted", rules, digest)


def untrust(home: Path, folder: Path) -> bool:
    """Stop trusting the file. Returns True if it was trusted."""
    key = folder_key(folder)
    was_trusted = False

    def without_folder(trusted: _Trusted) -> _Trusted:
        nonlocal was_trusted
        was_trusted = key in trusted.workspaces
        return _Trusted({name: digest for name, digest in trusted.workspaces.items() if name != key})

    _trust_file(home).change(without_folder)
    return was_trusted


def _trust_file(home: Path) -> LockedJsonFile[_Trusted]:
    return LockedJsonFile(home / TRUST_FILE, _Trusted())


def _real(folder: Path) -> Path:
    return Path(os.path.realpath(folder))


def _rules(path: Path, data: bytes) -> tuple[PolicyRule, ...]:
    document = parse_document(str(path), data)
    return read_table(KeyPath(document), document.table)


def _read(path: Path) -> bytes | None:
    try:
        # Non-blocking: a named pipe in its place would block us forever.
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise ConfigError("this is not a regular file", where=str(path))
            data = file.read(MAX_POLICY_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ConfigError(f"the file cannot be read: {error.strerror}", where=str(path)) from None
    if len(data) > MAX_POLICY_BYTES:
        raise ConfigError(f"the file is larger than {MAX_POLICY_BYTES} bytes", where=str(path))
    return data


NO_HOME: Final = "not remembered: this session has no home folder"

_FileStamp: TypeAlias = tuple[int, int, int]


class LoadedRules(msgspec.Struct, frozen=True):
    """The rules as they were when they were read. `workspace_file` may have a `notice` for the person."""

    home: Path | None
    user: tuple[PolicyRule, ...]
    workspace_file: WorkspacePolicy
    remembered: tuple[PolicyRule, ...] = ()
    guards: Guards | None = None

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
            guards=self.guards,
        )

    def allowed_hosts(self, session: Iterable[PolicyRule] = ()) -> tuple[str, ...]:
        """Return the hosts that rules allow, for a sandbox: those that no rule also denies or asks about.

        Of a pattern, some of the hosts may be among the `refused_hosts`.
        """
        others = self.refused_hosts(session)
        allowed = [host for rule in self._all(session) if rule.answer == "allow" for host in rule.host]
        return tuple(dict.fromkeys(host for host in allowed if not any(fnmatchcase(host, other) for other in others)))

    def refused_hosts(self, session: Iterable[PolicyRule] = ()) -> tuple[str, ...]:
        """Return the hosts that rules deny or ask about: a sandbox can ask nobody."""
        return tuple(dict.fromkeys(host for rule in self._all(session) if rule.answer != "allow" for host in rule.host))

    def _all(self, session: Iterable[PolicyRule]) -> list[PolicyRule]:
        return [*self.user, *self.workspace_file.rules, *self.remembered, *session]


class RuleSources(msgspec.Struct, frozen=True):
    """The home folder, and the rules and guards in the user's settings; None for the built-in guards.

    Without a home folder there are no other rules.
    """

    home: Path | None = None
    user: tuple[PolicyRule, ...] = ()
    guards: Guards | None = None

    def read(self, workspace: Workspace) -> LoadedRules:
        """Read all rules. `ConfigError` where one of the files cannot be used: half of the rules are not the rules."""
        if self.home is None:
            # Without a home folder nobody can have trusted a workspace's file: treat it as absent.
            absent = WorkspacePolicy(workspace.cwd / POLICY_FILE, "absent")
            return LoadedRules(None, self.user, absent, guards=self.guards)
        return LoadedRules(
            home=self.home,
            user=self.user,
            workspace_file=workspace_policy(self.home, workspace.rules_folder),
            remembered=Remembered(self.home).rules(workspace),
            guards=self.guards,
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
    return RuleSources(config.home, user_rules(config), user_guards(config))


def read_refusal(
    policy: Policy, path: Path, workspace: Workspace, *, agent: str = "", is_users_own: bool = False
) -> str | None:
    """Return why a file is not read on behalf of somebody who cannot be asked; None where it may be read.

    That is where a rule denies it, or asks each time, or a guard does. Judge it with a policy of access `ask`: under it
    the guards hold, and nothing else comes before the rules. A file of the user's own needs no guard.
    """
    request = PermissionRequest(
        session_id="",
        agent=agent,
        tool_call_id=None,
        origin="files",
        title=f"Read {path}",
        kind="read",
        paths=(str(path),),
        options=(),
    )
    verdict = policy.judge(request, workspace)
    is_asked_anyway = verdict.layer in (None, BUILT_IN) or (is_users_own and verdict.layer == "guard")
    if verdict.decision == "allow" or (verdict.decision == "ask" and is_asked_anyway):
        return None
    return verdict.reason


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
    def access(self) -> Access:
        return self._access

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

    def policy_for_reading(self) -> Policy:
        """Return the policy for `read_refusal`. `ConfigError` where the rules cannot be read."""
        self.refresh()
        return self._loaded.policy("ask", session=self._session, run=self._run)

    def admin_reason(self, request: PermissionRequest) -> str | None:
        """Return why only the scope `admin` may allow this; None where any client that answers permissions may."""
        try:
            self.refresh()
        except ConfigError as error:
            return f"the rules cannot be read: {error}"
        return self._policy.admin_reason(request, self._workspace)

    def refresh(self) -> None:
        """Read the rules again if a file has changed. `ConfigError` where they cannot be read."""
        stamps = self._sources.stamps(self._workspace)
        if stamps != self._stamps:
            self._loaded = self._sources.read(self._workspace)  # if this fails, the next refresh tries again
            self._policy = self._build()
            self._stamps = stamps

    def set_access(self, access: Access) -> None:
        """Change what is allowed without asking, for requests that are judged from now on."""
        self._access = access
        self._policy = self._build()

    def begin_run(self, rules: tuple[PolicyRule, ...]) -> None:
        """Set the rules of the run that begins."""
        if rules != self._run:
            self._run = rules
            self._policy = self._build()

    def derived(self, request: PermissionRequest, *, allowed: bool, only_files: bool = False) -> DerivedRules:
        """Return the rules that an "always" or "never" to this request would become."""
        sources = self._sources
        answer: Literal["allow", "deny"] = "allow" if allowed else "deny"
        return derive(request, self._workspace, answer, home=sources.home, guards=sources.guards, only_files=only_files)

    def remember(self, request: PermissionRequest, *, allowed: bool, only_files: bool = False) -> RememberResult:
        """Remember the answer for all agents in this workspace."""
        if self._remembered is None:
            return RememberResult((), NO_HOME)
        derived = self.derived(request, allowed=allowed, only_files=only_files)
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
