"""What a person answered for good: "always" and "never", as rules, per workspace and for all agents.

`derive` makes rules of an answer: what the person can have meant by it, and no more. An "always" to an edit is about
edits of files in this folder of the workspace, to a deletion about exactly this file, to a command about exactly this
command, to a file outside about exactly this file. A "never" is about exactly what was asked. Where nothing can be
named the answer holds once.

`Remembered` keeps them in the home folder. An answer takes the place of an earlier one about the same thing.
"""

from __future__ import annotations

import hashlib
import shlex
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final, Literal

import msgspec

from dragoman.errors import InputError
from dragoman.fileio import LockedJsonFile, folder_key
from dragoman.host.permission import PermissionRequest
from dragoman.host.policy.deeds import Deed, survey
from dragoman.host.policy.globs import escaped
from dragoman.host.policy.policy import build
from dragoman.host.policy.rules import Rule
from dragoman.host.shell.typed import typed
from dragoman.workspace import Workspace

REMEMBERED_FILE: Final = "remembered.json"
# Enough to tell a few hundred answers apart, few enough to type.
ID_LENGTH: Final = 6

# Of several deeds, the one that says best what a "never" is about.
_TELLING: Final = ("mcp", "run", "write", "read", "fetch", "other", "search", "think")
# What agents call a change of a file.
_CHANGES: Final = ("edit", "delete", "move")


class Derived(msgspec.Struct, frozen=True):
    """The rules that an answer becomes; where there are none, `problem` says why."""

    rules: tuple[Rule, ...] = ()
    problem: str = ""


def derive(
    request: PermissionRequest, workspace: Workspace, answer: Literal["allow", "deny"], *, home: Path | None = None
) -> Derived:
    """What "always" (allow) or "never" (deny) to this request means from now on."""
    deeds = survey(request, workspace)
    if answer == "deny":
        deeds = (min(deeds, key=lambda deed: _TELLING.index(deed.does)),)
    rules: dict[Rule, None] = {}
    for deed in deeds:
        rule = _rule(deed, deeds, request, workspace, answer)
        if rule is None:
            return Derived(problem=f"cannot be remembered: to {deed} says too little to know it again by")
        rules[rule] = None
    made = tuple(rules)
    if answer == "allow":
        # With these rules, would it be allowed? Guards ask all the same; to promise more would be a lie.
        verdict = build("ask", remembered=made, home=home).judge(request, workspace)
        if verdict.decision != "allow":
            return Derived(problem=f"cannot be remembered: {verdict.reason}")
    return Derived(made)


def _rule(
    deed: Deed,
    deeds: Sequence[Deed],
    request: PermissionRequest,
    workspace: Workspace,
    answer: Literal["allow", "deny"],
) -> Rule | None:
    if deed.line is not None:  # also what it is redirected from and to: it was shown with it
        return _command_rule(deed, deeds, answer)
    match deed:
        case Deed(does="read" | "write" as does, spot=spot) if spot is not None and spot.real and _is_text(spot.real):
            folders = [str(folder) for folder in workspace.folders if Path(spot.real).is_relative_to(folder)]
            # A yes to a deletion is about this file, and a yes to edits is no yes to deletions.
            kind = request.kind if does == "write" and request.kind in _CHANGES and answer == "allow" else does
            if answer == "allow" and folders and kind in ("read", "edit"):
                # By its name, not as "inside": the next session here may have more folders.
                return Rule(answer, kind=kind, path=f"{escaped(min(folders, key=len)).rstrip('/')}/**")
            return Rule(answer, kind=kind, path=escaped(spot.real))
        case Deed(does="mcp", mcp=(server, tool)):
            return Rule(answer, mcp=f"{escaped(server)}/{escaped(tool)}")
        case Deed(does="fetch", host=str(host)):
            return Rule(answer, host=escaped(host))
        case Deed(does="search" | "think" as does):
            # By the tool, where it has a name: a yes to a search of these files is none to one of the web.
            return Rule(answer, kind=does, tool=escaped(request.name) if request.name else ())
        case Deed(does="other") if request.name and _is_text(request.name):
            return Rule(answer, kind="other", tool=escaped(request.name))
        case _:
            return None


def _command_rule(deed: Deed, deeds: Sequence[Deed], answer: Literal["allow", "deny"]) -> Rule | None:
    """A plain command by its words; anything more by the whole line, as it was shown.

    Of several commands no single one: in a pipe or after `cd` each of them does what it does because of the others.
    """
    part = deed.part
    if deed.elsewhere or deed.env or deed.line is None:
        return None
    if answer == "allow" and deed.below:
        return None  # rules do not name folders: `rm -rf *` in one of them would be allowed in all
    of_line = [each for each in deeds if each.line == deed.line]
    plain = part is not None and part.unclear is None and not part.dynamic and not part.assignments
    if part is not None and plain and part.words and len(of_line) == 1:
        return Rule(answer, command=shlex.join(map(escaped, part.words)))
    return Rule(answer, line=typed(deed.line)) if _is_text(deed.line) else None


def _is_text(text: str) -> bool:
    """Whether a person can have seen what it is: nothing in it is hidden, or no character at all."""
    return all(character.isprintable() or character in "\n\t" for character in text)


class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One remembered rule: in which workspace, since when (seconds since 1970), and how to name it."""

    id: str
    workspace: str
    rule: Rule
    at: float = 0.0


class _Memory(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    answers: tuple[Entry, ...] = ()


class Remembered:
    """`rules` and `list` read the file anew: another process may have changed it."""

    def __init__(self, home: Path, now: Callable[[], float] = time.time) -> None:
        self._file = LockedJsonFile(home / REMEMBERED_FILE, _Memory())
        self._now = now

    @property
    def path(self) -> Path:
        return self._file.path

    def list(self) -> tuple[Entry, ...]:
        """All of them, the oldest first. `ConfigError` where the file cannot be read."""
        return self._file.read().answers

    def rules(self, workspace: Workspace) -> tuple[Rule, ...]:
        """Those of this workspace, each with its id as its source."""
        folder = folder_key(workspace.cwd)
        return tuple(
            msgspec.structs.replace(entry.rule, source=f"remembered as {entry.id}")
            for entry in self.list()
            if entry.workspace == folder
        )

    def add(self, workspace: Workspace, rules: Iterable[Rule]) -> tuple[Entry, ...]:
        """Remember these; what was remembered about the very same is replaced."""
        folder = folder_key(workspace.cwd)
        given = [Entry(_id(folder, rule), folder, _bare(rule), round(self._now(), 3)) for rule in rules]

        def with_these(memory: _Memory) -> _Memory:
            about = {(entry.workspace, _about(entry.rule)) for entry in given}
            kept = [entry for entry in memory.answers if (entry.workspace, _about(entry.rule)) not in about]
            return _Memory((*kept, *given))

        self._file.change(with_these)
        return tuple(given)

    def revoke(self, *ids: str) -> tuple[Entry, ...]:
        """Forget these. `InputError` where there is no such id; then none of them is forgotten."""
        gone: list[Entry] = []

        def without(memory: _Memory) -> _Memory:
            known = {entry.id for entry in memory.answers}
            if unknown := [id_ for id_ in ids if id_ not in known]:
                raise InputError(
                    f"nothing is remembered as {', '.join(unknown)}", guidance="`dragoman policy list` shows the ids."
                )
            gone.extend(entry for entry in memory.answers if entry.id in ids)
            return _Memory(tuple(entry for entry in memory.answers if entry.id not in ids))

        self._file.change(without)
        return tuple(gone)


def _bare(rule: Rule) -> Rule:
    return msgspec.structs.replace(rule, source="")


def _about(rule: Rule) -> Rule:
    """What it is about, without what it answers."""
    return msgspec.structs.replace(rule, answer="ask", reason="", source="")


def _id(folder: str, rule: Rule) -> str:
    """The same for the same answer: said twice, it is remembered once."""
    content = f"{folder}\0".encode() + msgspec.json.encode(_bare(rule))
    return hashlib.sha256(content).hexdigest()[:ID_LENGTH]
