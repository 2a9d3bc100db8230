"""What each access allows, refuses and asks. Pure but for looking where paths lead.

A request is judged by what it does, and by all that it does: its kind is the agent's word, so that a `read` with a
command in it is a command, and one with a diff a write. The strictest verdict on any of its deeds is the verdict.

                          read-only   ask     edit-inside   full
    think                 allow       ask     allow         allow
    read, inside          allow       ask     allow         allow
    read, outside         deny        ask     ask           allow
    read, no path known   ask         ask     ask           allow
    write, inside         deny        ask     allow         allow
    write, anywhere else  deny        ask     ask           allow     (also under .git/ and .dragoman/)
    run a command         deny        ask     ask           allow
    fetch                 deny        ask     ask           allow     network=True allows, False denies, in every column
    search, no path       ask         ask     ask           allow     the same with web_search
    anything else         deny        ask     ask           allow

`network` does not look into commands: what a command does can be held only by a sandbox.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final, Literal, TypeAlias

import msgspec

from dragoman.config import ACCESS, ACCESS_ALIASES, Access, read_access
from dragoman.errors import InputError
from dragoman.host.permission import PermissionRequest
from dragoman.workspace import OutsideWorkspace, Workspace

__all__ = ["Access", "Verdict", "judge", "parse_access"]

Decision: TypeAlias = Literal["allow", "deny", "ask"]
Deed: TypeAlias = Literal["think", "read", "write", "run", "fetch", "search", "other"]

# Repositories run what is written there (hooks), and our own folder holds the rules that hold the agent.
PROTECTED: Final = frozenset({".git", ".dragoman"})

_DOES: Final[dict[Deed, str]] = {
    "think": "it thinks",
    "read": "it reads",
    "write": "it writes",
    "run": "it runs a command",
    "fetch": "it uses the network",
    "search": "it searches, and names no local path",
    "other": "what it does is not known",
}

# Keys of a tool's input whose values are paths, without case and underscores: by how they end, or whole.
_PATH_ENDINGS: Final = ("path", "paths", "file", "files", "dir", "directory", "folder")
_PATH_KEYS: Final = frozenset({"source", "src", "destination", "dest", "dst", "target"})


class Verdict(msgspec.Struct, frozen=True):
    decision: Decision
    reason: str


def parse_access(text: str) -> Access:
    """An access by its name or alias."""
    try:
        return read_access(text.strip().lower() if isinstance(text, str) else text)
    except ValueError:
        alias = {name: f"{name} (or {short})" for short, name in ACCESS_ALIASES.items()}
        choices = ", ".join(alias.get(name, name) for name in ACCESS)
        raise InputError(f"access is {text!r}; expected one of: {choices}") from None


def judge(
    access: Access,
    request: PermissionRequest,
    workspace: Workspace,
    *,
    network: bool | None = None,
    web_search: bool | None = None,
) -> Verdict:
    """Whether the request is allowed, denied, or is to be asked, and why."""
    switches = {"fetch": ("network", network), "search": ("web_search", web_search)}
    verdicts = []
    for deed in sorted(_deeds(request)):
        switch, on = switches.get(deed, ("", None))
        if on is not None:
            verdicts.append(Verdict("allow" if on else "deny", f"{switch} is {'on' if on else 'off'}: {_DOES[deed]}"))
        else:
            verdicts.append(_by_access(access, deed, request, workspace))
    return min(verdicts, key=lambda verdict: ("deny", "ask", "allow").index(verdict.decision))


def _deeds(request: PermissionRequest) -> set[Deed]:
    """All that the request does, never empty."""
    deeds: set[Deed] = set()
    if request.command is not None or request.kind == "execute":
        deeds.add("run")
    if request.diffs or request.kind in ("edit", "delete", "move"):
        deeds.add("write")
    if request.kind == "fetch" or _names_url(request.raw_input):
        deeds.add("fetch")
    match request.kind:
        case "read":
            deeds.add("read")
        case "search":
            deeds.add("read" if request.paths else "search")
        case "think":
            deeds.add("think")
        case "execute" | "edit" | "delete" | "move" | "fetch":
            pass
        case _:  # `other`, `switch_mode`, none at all; where a command or a diff is known, that is what it is
            if not deeds:
                deeds.add("other")
    return deeds


def _by_access(access: Access, deed: Deed, request: PermissionRequest, workspace: Workspace) -> Verdict:
    match access, deed:
        case "full", _:
            return Verdict("allow", "access is full")
        case "ask", _:
            return Verdict("ask", f"access is ask: {_DOES[deed]}")
        case _, "think":
            return Verdict("allow", f"access is {access}: {_DOES[deed]}")
        case _, "search":
            return Verdict("ask", f"access is {access}: {_DOES[deed]}")
        case _, "read":
            return _by_place(access, deed, request, workspace, outside="deny" if access == "read-only" else "ask")
        case "edit-inside", "write":
            return _by_place(access, deed, request, workspace, outside="ask")
        case "edit-inside", _:
            return Verdict("ask", f"access is {access}: {_DOES[deed]}")
        case _:
            return Verdict("deny", f"access is {access}: {_DOES[deed]}")


def _by_place(
    access: Access, deed: Deed, request: PermissionRequest, workspace: Workspace, *, outside: Decision
) -> Verdict:
    """Allowed where every path is inside; the paths in the tool's input count too, but only against it."""
    does = f"access is {access}: {_DOES[deed]}"
    if not request.paths:
        return Verdict("ask", f"{does}, and does not say which file")
    for path in (*request.paths, *_named_paths(request.raw_input, workspace)):
        try:
            place = workspace.within(path)
        except OutsideWorkspace as problem:
            return Verdict(outside, f"{does}, but {problem}")
        if deed == "write" and (folder := _protected(place.parts)):
            return Verdict(outside, f"{does} under {folder}/: {path}")
    return Verdict("allow", f"{does} inside the workspace")


def _protected(parts: tuple[str, ...]) -> str | None:
    # Without case: on macOS `.GIT` is the same folder.
    return next((part for part in parts if part.lower() in PROTECTED), None)


def _names_url(raw_input: object) -> bool:
    return isinstance(raw_input, dict) and isinstance(raw_input.get("url"), str)


def _named_paths(raw_input: object, workspace: Workspace) -> Iterator[str]:
    """Paths that the tool's input names under a telling key, as the agent would read them: from `cwd`."""
    if not isinstance(raw_input, dict):
        return
    for key, value in raw_input.items():
        word = str(key).lower().replace("_", "")
        if not (word.endswith(_PATH_ENDINGS) or word in _PATH_KEYS):
            continue
        for path in value if isinstance(value, list) else [value]:
            if isinstance(path, str) and path and "\n" not in path:
                # What a tool would make of `~` is not ours to guess: as it stands it is nowhere inside.
                yield path if path.startswith("~") else os.path.join(workspace.cwd, path)
