"""Patches: what a call of `apply_patch` changes, in each of the forms it is told in, as diffs.

The model's own patch shows what it wanted to change; `unified_diff` of a change that was made shows what the file had.
Nothing here raises: of a patch that is cut, or written badly, what can be read is shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final, Literal

import msgspec

from dragoman.translate.codex import records
from dragoman.translate.codex.records import absolute
from dragoman.wire.vocabulary import Diff, ToolCallLocation

# A shell command that is nothing but a patch, fed to the program by a here-document. Models forget to end it; a shell
# then takes all that there is.
_IN_SHELL: Final = re.compile(
    r"\s*(?:cd\s+(?P<folder>'[^']+'|\"[^\"]+\"|\S+)\s*&&\s*)?apply_?patch\s*<<-?\s*(?P<quote>['\"]?)(?P<end>\w+)(?P=quote)\n"
    r"(?P<patch>.*?)(?:\n(?P=end)\s*|(?<=\n\*\*\* End Patch)\s*)",
    re.DOTALL,
)
_HUNK: Final = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d{1,10})(?:,\d+)? @@")
_NO_NEWLINE: Final = "\\"


class Change(msgspec.Struct, frozen=True, gc=False):
    """One hunk of one file, or the whole file where it is new or gone."""

    path: str
    kind: Literal["add", "update", "delete"]
    new: str = ""
    old: str | None = None
    line: int | None = None


class _FileChange(msgspec.Struct, frozen=True, gc=False):
    """One file of `changes`, as the program tells what it did."""

    type: str = ""
    content: str = ""
    unified_diff: str = ""
    move_path: str | None = None


def in_shell(command: str) -> tuple[str, str] | None:
    """The patch that a shell command applies, and the folder it goes to first; None where it does anything else."""
    found = _IN_SHELL.fullmatch(command)
    if found is None or "*** " not in found["patch"]:
        return None
    return found["patch"], (found["folder"] or "").strip("'\"")


def parse(patch: str) -> Sequence[Change]:
    """The changes that a patch in the model's own form asks for."""
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
    """Not `splitlines`: that ends lines at more than newlines, as nothing that makes patches does."""
    return text.removesuffix("\n").split("\n")


def _header(line: str) -> tuple[str, str] | None:
    """`*** Add File: name` and its like, where a line is one."""
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
                yield Change(path, "update", "", "")  # moved, and nothing else
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
    """The changes that were made, as the program tells them."""
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
    """One change a hunk of a unified diff without file names."""
    start: int | None = None
    lines: list[str] = []
    has_hunks = False
    for line in [*_lines(diff), "@@ -0 +0 @@"]:
        found = _HUNK.match(line)
        if found is None:
            lines.append(line)
            continue
        if start is not None and lines:
            has_hunks = True
            yield _hunk(path, lines, start or None)
        start, lines = int(found[2]), []
    if not has_hunks:
        yield Change(path, "update", "", "")  # moved, and nothing else


def diffs(changes: Iterable[Change], folder: str) -> tuple[Diff, ...]:
    """In the order of their paths, as the adapter tells them."""
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
    """Each file once, with the line of its first hunk where that is known."""
    first: dict[str, int | None] = {}
    for change in sorted(changes, key=_path):
        first.setdefault(absolute(change.path, folder), change.line)
    return tuple(ToolCallLocation(path=path, line=line) for path, line in first.items())


def _path(change: Change) -> str:
    return change.path
