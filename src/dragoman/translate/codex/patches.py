"""Patches: the changes of a call of `apply_patch`, in each of its formats, as diffs.

The model's own patch shows the intended changes, the `unified_diff` of an applied change also the old text of the file.
Nothing here raises: of a truncated or malformed patch, the readable part is shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final, Literal

import msgspec

from dragoman.translate.codex import records
from dragoman.translate.codex.records import absolute
from dragoman.wire.vocabulary import Diff, ToolCallLocation

# A shell command that only applies a patch from a here-document. Models forget to end it; a shell then takes the rest.
_IN_SHELL: Final = re.compile(
    r"\s*(?:cd\s+(?P<folder>'[^']+'|\"[^\"]+\"|\S+)\s*&&\s*)?apply_?patch\s*<<-?\s*(?P<quote>['\"]?)(?P<end>\w+)(?P=quote)\n"
    r"(?P<patch>.*?)(?:\n(?P=end)\s*|(?<=\n\*\*\* End Patch)\s*)",
    re.DOTALL,
)
_HUNK: Final = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d{1,10})(?:,\d+)? @@")
_NO_NEWLINE: Final = "\\"


class Change(msgspec.Struct, frozen=True, gc=False):
    """One hunk of a file, or the whole file if it was added or deleted."""

    path: str
    kind: Literal["add", "update", "delete"]
    new: str = ""
    old: str | None = None
    line: int | None = None


class _FileChange(msgspec.Struct, frozen=True, gc=False):
    """One file of `changes`, as Codex records what it did."""

    type: str = ""
    content: str = ""
    unified_diff: str = ""
    move_path: str | None = None


def in_shell(command: str) -> tuple[str, str] | None:
    """Return the patch that a shell command applies, and the folder that it changes to; None for other commands."""
    match = _IN_SHELL.fullmatch(command)
    if match is None or "*** " not in match["patch"]:
        return None
    return match["patch"], (match["folder"] or "").strip("'\"")


def parse(patch: str) -> Sequence[Change]:
    """Parse a patch in the model's own format."""
    changes: list[Change] = []
    path, kind, body = "", "", list[str]()
    for line in [*_lines(patch), "*** End Patch"]:
        header = _header(line)
        if header is None:
            body.append(line)
            continue
        word, name = header
        if word == "Move to":
            path = name
            continue
        if word == "End of File":
            continue
        changes.extend(_section(path, kind, body))
        path, kind, body = name, word, []
    return changes


def _lines(text: str) -> list[str]:
    """Split at newlines only, as programs that make patches do; `splitlines` splits at more characters."""
    return text.removesuffix("\n").split("\n")


def _header(line: str) -> tuple[str, str] | None:
    """Return the action and the name in a line such as `*** Add File: name`; None for other lines."""
    if not line.startswith("*** "):
        return None
    word, _, name = line[4:].partition(":")
    return word.strip(), name.strip()


def _section(path: str, kind: str, body: Sequence[str]) -> Iterable[Change]:
    match kind:
        case "Add File":
            yield Change(path, "add", "".join(line[1:] + "\n" for line in body if line.startswith("+")))
        case "Delete File":
            yield Change(path, "delete")
        case "Update File":
            hunk: list[str] = []
            for line in [*body, "@@"]:
                if not line.startswith("@@"):
                    hunk.append(line)
                elif hunk:
                    yield _hunk(path, hunk)
                    hunk = []
            if not body:
                yield Change(path, "update", "", "")  # only moved
        case _:
            pass


def _hunk(path: str, lines: Sequence[str], line_number: int | None = None) -> Change:
    old: list[str] = []
    new: list[str] = []
    before = " "
    for line in lines:
        sign = line[:1] or " "
        if sign == _NO_NEWLINE:
            if before != "+" and old:
                old[-1] = old[-1].removesuffix("\n")
            if before != "-" and new:
                new[-1] = new[-1].removesuffix("\n")
            continue
        text = line[1:] + "\n"
        if sign != "+":
            old.append(text)
        if sign != "-":
            new.append(text)
        before = sign
    return Change(path, "update", "".join(new), "".join(old), line_number)


def applied_changes(changes: msgspec.Raw) -> Sequence[Change]:
    """Decode the changes that Codex made."""
    files = records.read(changes, dict[str, _FileChange], {})
    return [change for path, file_change in files.items() for change in _changes_of_file(path, file_change)]


def _changes_of_file(path: str, file_change: _FileChange) -> Iterable[Change]:
    match file_change.type:
        case "add":
            yield Change(path, "add", file_change.content)
        case "delete":
            yield Change(path, "delete", "", file_change.content)
        case "update":
            yield from _unified(file_change.move_path or path, file_change.unified_diff)
        case _:
            pass


def _unified(path: str, diff: str) -> Iterable[Change]:
    """Yield one change for each hunk of a unified diff without file names."""
    start: int | None = None
    lines: list[str] = []
    has_hunks = False
    for line in [*_lines(diff), "@@ -0 +0 @@"]:
        header = _HUNK.match(line)
        if header is None:
            lines.append(line)
            continue
        if start is not None and lines:
            has_hunks = True
            yield _hunk(path, lines, start or None)
        start, lines = int(header[2]), []
    if not has_hunks:
        yield Change(path, "update", "", "")  # only moved


def diffs(changes: Iterable[Change], folder: str) -> tuple[Diff, ...]:
    """Convert changes to diffs, in the order of their paths, as `codex-acp` reports them."""
    return tuple(
        Diff(
            path=absolute(change.path, folder),
            new_text=change.new,
            old_text=change.old,
            meta={"kind": change.kind},
        )
        for change in sorted(changes, key=_path)
    )


def locations(changes: Iterable[Change], folder: str) -> tuple[ToolCallLocation, ...]:
    """Return each file once, with the line of its first hunk if that is known."""
    first: dict[str, int | None] = {}
    for change in sorted(changes, key=_path):
        first.setdefault(absolute(change.path, folder), change.line)
    return tuple(ToolCallLocation(path=path, line=line) for path, line in first.items())


def _path(change: Change) -> str:
    return change.path
