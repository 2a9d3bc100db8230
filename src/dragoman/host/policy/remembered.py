"""Remembered answers: a person's "always" and "never" as rules, per workspace and for all agents.

`derive` turns an answer into rules that cover what the person can have meant, and no more. An "always" to an edit
covers edits of all files in that folder of the workspace, or only that file where the person says so; to a deletion or
move, only that file; to a command, only that command; to a file outside, only that file. A "never" covers exactly what
was asked. Where no rule can name it, the answer counts once.

`Remembered` stores them in the home folder. An answer replaces an earlier one about the same thing.
"""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final, Literal

import msgspec

from dragoman.clock import SYSTEM_CLOCK
from dragoman.errors import InputError
from dragoman.fileio import LockedJsonFile, folder_key
from dragoman.host.permission import PermissionRequest
from dragoman.host.policy.effects import Effect, analyze
from dragoman.host.policy.globs import ResolvedPath, escaped
from dragoman.host.policy.guards import Guards
from dragoman.host.policy.policy import build_policy
from dragoman.host.policy.rules import PolicyRule
from dragoman.host.shell.wrappers import unwrap_shell
from dragoman.workspace import Workspace

REMEMBERED_FILE: Final = "remembered.json"
# Hexadecimal digits: enough to tell a few hundred answers apart, few enough to type.
ID_LENGTH: Final = 6

# Kinds of effects, the one that says most about what a "never" means first.
_MOST_SPECIFIC_FIRST: Final = ("mcp", "run", "write", "read", "fetch", "other", "search", "think")
# The agents' words for a change of a file.
_FILE_CHANGES: Final = ("edit", "delete", "move")


class DerivedRules(msgspec.Struct, frozen=True):
    """The rules that an answer becomes; where there are none, `error` is the reason."""

    rules: tuple[PolicyRule, ...] = ()
    error: str = ""


def derive(
    request: PermissionRequest,
    workspace: Workspace,
    answer: Literal["allow", "deny"],
    *,
    home: Path | None = None,
    guards: Guards | None = None,
    only_files: bool = False,
) -> DerivedRules:
    """Turn "always" (allow) or "never" (deny) to this request into rules; with `only_files` for these files alone."""
    effects = analyze(request, workspace)
    if answer == "deny":
        effects = (min(effects, key=lambda effect: _MOST_SPECIFIC_FIRST.index(effect.kind)),)
    unique_rules: dict[PolicyRule, None] = {}
    for effect in effects:
        rule = _rule(effect, effects, request, workspace, answer, only_files=only_files)
        if rule is None:
            return DerivedRules(error=f"cannot be remembered: no rule can name this exactly: {effect}")
        unique_rules[rule] = None
    rules = tuple(unique_rules)
    if answer == "allow":
        # Guards may still ask: do not promise an "always" that these rules would not keep.
        verdict = build_policy("ask", remembered=rules, home=home, guards=guards).judge(request, workspace)
        if verdict.decision != "allow":
            return DerivedRules(error=f"cannot be remembered: {verdict.reason}")
    return DerivedRules(rules)


def _rule(
    effect: Effect,
    effects: Sequence[Effect],
    request: PermissionRequest,
    workspace: Workspace,
    answer: Literal["allow", "deny"],
    *,
    only_files: bool,
) -> PolicyRule | None:
    if effect.line is not None:  # also for the line's redirections, which were shown with it
        return _command_rule(effect, effects, answer)
    match effect:
        case Effect(kind="read" | "write" as kind, path=ResolvedPath(real=str(real))) if _is_visible(real):
            folders = [str(folder) for folder in workspace.folders if Path(real).is_relative_to(folder)]
            # "Always" to a deletion is about this file, and "always" to an edit allows no deletion.
            by_request = kind == "write" and request.kind in _FILE_CHANGES and answer == "allow"
            rule_kind = request.kind if by_request else kind
            if answer == "allow" and folders and rule_kind in ("read", "edit") and not only_files:
                # The folder by name, not `where = "inside"`: the next session here may have more folders.
                return PolicyRule(answer, kind=rule_kind, path=f"{escaped(min(folders, key=len)).rstrip('/')}/**")
            return PolicyRule(answer, kind=rule_kind, path=escaped(real))
        case Effect(kind="mcp", mcp=(server, tool)):
            return PolicyRule(answer, mcp=f"{escaped(server)}/{escaped(tool)}")
        case Effect(kind="fetch", host=str(host)):
            return PolicyRule(answer, host=escaped(host))
        case Effect(kind="search" | "think" as kind):
            # By the tool's name, where it has one: a yes to a file search is no yes to a web search.
            return PolicyRule(answer, kind=kind, tool=escaped(request.name) if request.name else ())
        case Effect(kind="other") if request.name and _is_visible(request.name):
            return PolicyRule(answer, kind="other", tool=escaped(request.name))
        case _:
            return None


def _command_rule(effect: Effect, effects: Sequence[Effect], answer: Literal["allow", "deny"]) -> PolicyRule | None:
    """Make a rule of a plain command's words, or of the whole line where there is more in it.

    Never of one command out of several: in a pipe or after `cd`, each depends on the others.
    """
    command = effect.command
    if effect.outside or effect.env or effect.line is None:
        return None
    # By its folder, if it is not the workspace's own: `rm -rf *` in one of them must not be allowed in all.
    subfolder = effect.folders[0] if answer == "allow" else None
    if subfolder is not None and (subfolder.real is None or not _is_visible(subfolder.real)):
        return None
    folder = escaped(subfolder.real) if subfolder is not None and subfolder.real else ()
    of_line = [each for each in effects if each.line == effect.line]
    if command is not None and command.words and len(of_line) == 1:
        is_plain = command.unclear is None and not command.dynamic and not command.assignments
        if is_plain:
            return PolicyRule(answer, command=shlex.join(map(escaped, command.words)), folder=folder)
    return PolicyRule(answer, line=unwrap_shell(effect.line), folder=folder) if _is_visible(effect.line) else None


def _is_visible(text: str) -> bool:
    """Tell whether a person saw all of the text: it has no invisible characters."""
    return all(character.isprintable() or character in "\n\t" for character in text)


class RememberedRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A remembered rule: its id, the folder of its workspace, and when it was added (seconds since 1970)."""

    id: str
    workspace: str
    rule: PolicyRule
    at: float = 0.0


class _Contents(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    answers: tuple[RememberedRule, ...] = ()


class Remembered:
    """The file of remembered rules. Every call reads it again, since another process may have changed it."""

    def __init__(self, home: Path, now: Callable[[], float] = SYSTEM_CLOCK.time) -> None:
        self._file = LockedJsonFile(home / REMEMBERED_FILE, _Contents())
        self._now = now

    @property
    def path(self) -> Path:
        return self._file.path

    def list(self) -> tuple[RememberedRule, ...]:
        """Return the rules of all workspaces, the oldest first. `ConfigError` where the file cannot be read."""
        return self._file.read().answers

    def rules(self, workspace: Workspace) -> tuple[PolicyRule, ...]:
        """Return the rules of this workspace, each with its id as its source."""
        folder = folder_key(workspace.rules_folder)
        return tuple(
            msgspec.structs.replace(entry.rule, source=f"remembered as {entry.id}")
            for entry in self.list()
            if entry.workspace == folder
        )

    def add(self, workspace: Workspace, rules: Iterable[PolicyRule]) -> tuple[RememberedRule, ...]:
        """Remember these rules; each replaces a rule with the same matchers."""
        folder = folder_key(workspace.rules_folder)
        added = [RememberedRule(_id(folder, rule), folder, _bare(rule), round(self._now(), 3)) for rule in rules]

        def with_added(contents: _Contents) -> _Contents:
            replaced = {(entry.workspace, _matchers_only(entry.rule)) for entry in added}
            others = [
                entry for entry in contents.answers if (entry.workspace, _matchers_only(entry.rule)) not in replaced
            ]
            return _Contents((*others, *added))

        self._file.change(with_added)
        return tuple(added)

    def revoke(self, *ids: str) -> tuple[RememberedRule, ...]:
        """Forget these rules. `InputError` where an id is unknown; then none of them is forgotten."""
        revoked: list[RememberedRule] = []

        def without_revoked(contents: _Contents) -> _Contents:
            existing = {entry.id for entry in contents.answers}
            if unknown := [id_ for id_ in ids if id_ not in existing]:
                raise InputError(
                    f"nothing is remembered as {', '.join(unknown)}", guidance="`dragoman policy list` shows the ids."
                )
            revoked.extend(entry for entry in contents.answers if entry.id in ids)
            return _Contents(tuple(entry for entry in contents.answers if entry.id not in ids))

        self._file.change(without_revoked)
        return tuple(revoked)


def _bare(rule: PolicyRule) -> PolicyRule:
    return msgspec.structs.replace(rule, source="")


def _matchers_only(rule: PolicyRule) -> PolicyRule:
    return msgspec.structs.replace(rule, answer="ask", reason="", source="")


def _id(folder: str, rule: PolicyRule) -> str:
    """Derive the id from the content, so that the same answer given twice is stored once."""
    content = f"{folder}\0".encode() + msgspec.json.encode(_bare(rule))
    return hashlib.sha256(content).hexdigest()[:ID_LENGTH]
