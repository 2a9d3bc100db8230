"""Patterns of rules: paths, commands, MCP tools, hosts and names. Pure, except that links above a path are resolved.

A pattern matches in two ways. Narrowly, for rules that allow: exactly what it says. Widely, for rules that deny or ask:
also other spellings of the same thing (capital letters, `/usr/bin/git` for `git`, the name of a link, an MCP tool that
is known only by its title). A new spelling must never help an agent.

Globs are translated here, not by a library, because the agent chooses the texts and the semantics are ours. pathspec
translates `*` to a backtracking `[^/]*`: `*a*a*a*a*a*b` took it 6.7 s on a name of 100 characters, 8 minutes on 200.
wcmatch does not backtrack, but takes a backslash for an escape and `[z-a]` for nothing, where both are ordinary
characters of names and commands here, and has no pattern for "the folder and everything in it", which the wide match of
paths needs. For plain stars and question marks the result is that of Python's `fnmatch` (a property test).
"""

from __future__ import annotations

import os
import re
import shlex
import unicodedata
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import msgspec

if TYPE_CHECKING:
    from dragoman.host.shell.reader import ShellCommand

# `maybe`: nobody can know, so it cannot be excluded.
Match: TypeAlias = Literal["yes", "maybe", "no"]

_GLOB: Final = re.compile(r"[*?\[]")
_CLASS: Final = re.compile(r"\[([!^]?)(\]?[^\]/]+|\])\]")
_ESCAPED: Final = re.compile(r"\[([*?\[])\]")
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")
# Characters that a shell may expand.
_EXPANSION: Final = re.compile(r"[$`*?\[{~<>]")
# Without two underscores in a row in either name: nobody could tell where the first name ends.
_MCP_NAME: Final = re.compile(r"mcp__([A-Za-z0-9.-]+(?:_[A-Za-z0-9.-]+)*)__([A-Za-z0-9.-]+(?:_[A-Za-z0-9.-]+)*)")
_MCP_TITLE: Final = re.compile(r"(.+) \((.+) MCP Server\)", re.DOTALL)
_URL: Final = re.compile(r"(?:https?|wss?)://([A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*\.?)(?::[0-9]{1,5})?(?:[/?#][^\s\\@]*)?")


def escaped(text: str) -> str:
    """Return the pattern that matches only this text."""
    return _GLOB.sub(lambda wildcard: f"[{wildcard[0]}]", text)


def fold(text: str) -> str:
    """Remove differences that some file systems ignore: case, and different encodings of the same character."""
    return unicodedata.normalize("NFC", text).casefold() if not text.isascii() else text.lower()


def name_matches(pattern: str, name: str, *, wide: bool = False) -> bool:
    return bool(_name(fold(pattern))(fold(name)) if wide else _name(pattern)(name))


@lru_cache(maxsize=4096)
def _name(pattern: str) -> Callable[[str], object]:
    if not _GLOB.search(pattern):
        return pattern.__eq__
    return re.compile(_translated(pattern, any_="."), re.DOTALL).fullmatch


def _translated(pattern: str, any_: str) -> str:
    """Translate a glob to a regular expression; `any_` is the expression for one character of a wildcard.

    Each piece between two `*` is searched once, from the left, and not moved later: the agent chooses the texts, and
    trying every way to divide a long one would take forever.
    """
    pieces: list[list[str]] = [[]]  # the pieces before, between and after the `*`
    at = 0
    while at < len(pattern):
        step = 1
        if pattern[at] == "*":
            pieces.append([])
        elif pattern[at] == "?":
            pieces[-1].append(any_)
        elif (class_ := _CLASS.match(pattern, at)) and (members := _members(class_)):
            pieces[-1].append(members)
            step = len(class_[0])
        else:
            pieces[-1].append(re.escape(pattern[at]))
        at += step
    first, *others = ("".join(piece) for piece in pieces)
    if not others:
        return first
    return f"{first}{''.join(f'(?>{any_}*?{piece})' for piece in others[:-1] if piece)}{any_}*{others[-1]}"


def _members(class_: re.Match[str]) -> str | None:
    """Translate `[abc]` or `[!a-z]`; None where it is not a class of characters and stands for itself."""
    parts, members = [], class_[2]
    at = 0
    while at < len(members):
        first, last = members[at], members[at + 2 : at + 3] if members[at + 1 : at + 2] == "-" else ""
        if last and last < first:
            return None
        parts.append(f"{re.escape(first)}-{re.escape(last)}" if last else re.escape(first))
        at += 3 if last else 1
    return f"[{'^/' if class_[1] else ''}{''.join(parts)}]"


# Paths


class ResolvedPath(msgspec.Struct, frozen=True):
    """A path with its links resolved: `inside` relative to the workspace's folder, `real` absolute.

    Each is None where the path does not lead there, or nobody can know. `given` is the path as written, `spellings` are
    all ways to write it, folded; `error` says why it is not inside.
    """

    given: str
    inside: str | None = None
    real: str | None = None
    spellings: tuple[str, ...] = ()
    error: str = ""


def path_matches(pattern: str, path: ResolvedPath, *, wide: bool = False) -> bool:
    """Match like a line of .gitignore: without a slash at any depth, with one from the folder on; folders with content.

    Narrowly, a relative pattern matches files inside the workspace. Widely, one for any depth (`.env`, `**/.env`) also
    matches files outside.
    """
    absolute = pattern.startswith(("/", "~/"))
    if not wide:
        text = path.real if absolute else path.inside
        return text is not None and any(regex.fullmatch(text) for regex in _path(pattern, wide=False))
    regexes = _path(pattern, wide=True)
    if absolute:
        return any(each.fullmatch(text) for text in path.spellings for each in regexes)
    floats = "/" not in pattern.rstrip("/") or pattern.startswith("**")
    return any(
        each.fullmatch(text.lstrip("/"))
        for text in path.spellings
        if floats or not text.startswith("/")
        for each in regexes
    )


def folder_matches(pattern: str, folder: ResolvedPath | None, *, wide: bool = False) -> bool:
    """Match the folder that a command runs in, None for the workspace's own (`.`). A folder is not what is in it."""
    if folder is None:
        return pattern in (".", "**")
    if wide:
        return path_matches(pattern, folder, wide=True)
    text = folder.real if pattern.startswith(("/", "~/")) else folder.inside
    return text is not None and any(regex.fullmatch(text) for regex in _path(pattern, wide=False, is_exact=True))


@lru_cache(maxsize=4096)
def _path(pattern: str, *, wide: bool, is_exact: bool = False) -> tuple[re.Pattern[str], ...]:
    if pattern.startswith("~/"):
        pattern = os.path.expanduser("~") + pattern[1:]
    if not pattern.startswith("/"):
        text = fold(pattern) if wide else pattern
        return (re.compile(_components(text, wide=wide, is_exact=is_exact), re.DOTALL),)
    linked = _with_links_followed(pattern)
    if not wide:
        return (re.compile(_components(linked, wide=False, is_exact=is_exact), re.DOTALL),)
    return tuple(re.compile(_components(fold(each), wide=True), re.DOTALL) for each in {pattern, linked})


def _with_links_followed(pattern: str) -> str:
    """Resolve the folders above the first wildcard, which may be links (/tmp on macOS)."""
    parts = pattern.split("/")
    literal = next((index for index, part in enumerate(parts) if _GLOB.search(part)), len(parts) - 1)
    try:
        above = os.path.realpath("/".join(parts[:literal]) or "/")
    except (OSError, ValueError):
        return pattern
    return "/".join([above.rstrip("/"), *parts[literal:]])


def _components(pattern: str, *, wide: bool, is_exact: bool = False) -> str:
    """Translate a pattern of a path; `is_exact`: from the folder on, and without the files in what it names."""
    absolute = pattern.startswith("/")
    parts = [part for part in pattern.split("/") if part not in ("", ".")]
    if not absolute and "/" not in pattern.rstrip("/") and not is_exact:
        parts.insert(0, "**")
    parts = [part for index, part in enumerate(parts) if part != "**" or parts[index - 1 : index] != ["**"]]
    text = "/" if absolute else ""
    for index, part in enumerate(parts):
        last = index == len(parts) - 1
        if part == "**" and last:
            # Everything in the folder; widely also the folder itself, since deleting it deletes everything in it.
            text = f"{text.removesuffix('/')}(?:/.*)?" if wide and index else f"{text}.*"
        elif part == "**":
            text += "(?:[^/]+/)*"
        else:
            text += _translated(part, any_="[^/]") + ("/" if not last else "" if is_exact else "(?:/.*)?")
    return text


# Commands


class CommandPattern(msgspec.Struct, frozen=True):
    """A pattern such as `git push *`, word by word; `*` as the last word is any rest, even none.

    `literal` are its words where none of them has a wildcard, else None.
    """

    assignments: tuple[str, ...]
    words: tuple[str, ...]
    rest: bool
    literal: tuple[str, ...] | None


@lru_cache(maxsize=4096)
def command_pattern(text: str) -> CommandPattern:
    """Split the pattern into words; raises ValueError where that is impossible."""
    words = shlex.split(text)
    if not words:
        raise ValueError("no word")
    count = next((index for index, word in enumerate(words) if not _ASSIGNMENT.match(word)), len(words))
    rest = words[-1] == "*" and len(words) > count
    fixed = tuple(words[count:-1] if rest else words[count:])
    is_literal = not rest and not any(_GLOB.search(_ESCAPED.sub("", word)) for word in fixed)
    literal = tuple(_ESCAPED.sub(r"\1", word) for word in fixed) if is_literal else None
    assignments = tuple(_ESCAPED.sub(r"\1", word) for word in words[:count])
    return CommandPattern(assignments, fixed, rest, literal)


def command_allowed(text: str, command: ShellCommand) -> bool:
    """Match narrowly. An unclear or dynamic command matches only word for word.

    A pattern for the command that runs this one matches it too, if it names it: `uv run pytest *` is about `pytest -q`.
    """
    pattern = command_pattern(text)
    if command.outer and _names_inner(pattern, command):
        return True
    if pattern.assignments != command.assignments:
        return False
    if command.dynamic and not any(map(_EXPANSION.search, command.words)):
        return False  # it gets arguments that nobody sees (`xargs rm`)
    if command.unclear is not None or command.dynamic:
        return pattern.literal is not None and pattern.literal == command.words
    return _fits(pattern, command.words) and all(map(name_matches, pattern.words, command.words))


def _names_inner(pattern: CommandPattern, command: ShellCommand) -> bool:
    if command.unclear is not None or command.dynamic or command.assignments or pattern.assignments:
        return False
    name = len(command.outer) - len(command.words)
    if len(pattern.words) <= name or _GLOB.search(_ESCAPED.sub("", pattern.words[name])):
        return False
    return _fits(pattern, command.outer) and all(map(name_matches, pattern.words, command.outer))


def command_names(text: str, command: ShellCommand, word: str) -> bool:
    """Tell whether the pattern allows the command, and spells out this word of it instead of matching any."""
    if not command_allowed(text, command):
        return False
    fixed = command_pattern(text).words
    return any(not _GLOB.search(_ESCAPED.sub("", each)) and _ESCAPED.sub(r"\1", each) == word for each in fixed)


def command_found(text: str, command: ShellCommand) -> Match:
    """Match widely: the program by its name without folder, whatever variables are set; in doubt, `maybe`."""
    pattern = command_pattern(text)
    if not set(pattern.assignments) <= set(command.assignments):
        return "no"
    doubt: Match = "no" if command.unclear is None else "maybe"
    for index, expected in enumerate(pattern.words):
        if index >= len(command.words):
            return doubt
        word = command.words[index]
        if command.dynamic and _EXPANSION.search(word):
            return "maybe"  # it may expand to any word, or to several
        if not (name_matches(expected, word) or (index == 0 and name_matches(_base(expected), _base(word), wide=True))):
            return doubt
    if _fits(pattern, command.words):
        return "yes"
    # The other words may expand to nothing.
    return "maybe" if command.dynamic and all(map(_EXPANSION.search, command.words[len(pattern.words) :])) else doubt


def _fits(pattern: CommandPattern, words: Sequence[str]) -> bool:
    return len(words) >= len(pattern.words) if pattern.rest else len(words) == len(pattern.words)


def _base(program: str) -> str:
    return program.rpartition("/")[2] or program


# MCP tools


def mcp_of(name: str | None) -> tuple[str, str] | None:
    """Return the server and tool of a name in the form `mcp__server__tool`; None for other names."""
    match = _MCP_NAME.fullmatch(name or "")
    return (match[1], match[2]) if match else None


def mcp_allowed(pattern: str, server: str, tool: str) -> bool:
    wanted, _, wanted_tool = pattern.partition("/")
    return name_matches(wanted, server) and name_matches(wanted_tool or "*", tool)


def mcp_found(pattern: str, *texts: str) -> bool:
    """Match widely a tool's name or title, in the forms that agents were seen to use.

    `mcp__note__echo` (claude; kimi, as a title), `note__echo` and `note: echo` (goose), `note_echo` (opencode),
    `echo (note MCP Server)` (gemini), `note.echo`, `note/echo`. If the pattern does not name the server, only forms
    count that are used for nothing but MCP tools.
    """
    wanted, named = _mcp_pattern(pattern)
    for text in texts:
        certain, candidates = _mcp_candidates(text)
        if (certain or named) and any(name_matches(wanted, candidate) for candidate in candidates):
            return True
    return False


@lru_cache(maxsize=1024)
def _mcp_pattern(pattern: str) -> tuple[str, bool]:
    server, _, tool = pattern.partition("/")
    return f"{_joined(server)}_{_joined(tool) or '*'}", not server.startswith(("*", "?", "["))


@lru_cache(maxsize=64)  # the same texts are matched with many rules
def _mcp_candidates(text: str) -> tuple[bool, tuple[str, ...]]:
    """Return the server and tool that the text may name, and whether only an MCP tool is written like this."""
    if found := _MCP_TITLE.fullmatch(text):
        return True, (_joined(f"{found[2]} {found[1]}"),)
    if found := _MCP_NAME.fullmatch(text):
        return True, (_joined(f"{found[1]} {found[2]}"),)
    return False, (_joined(text), _joined(text.partition(":")[2]))  # "Tool: note/echo"


def _joined(text: str) -> str:
    return re.sub(r"[^\w*?\[\]]+|_+", "_", fold(text)).strip("_")


# Hosts


def host_of(url: str) -> str | None:
    """Return the host of a URL; None where two parsers might disagree about it."""
    match = _URL.fullmatch(url)
    return match[1].lower().rstrip(".") if match else None


def host_matches(pattern: str, host: str) -> bool:
    return name_matches(pattern.lower().rstrip("."), host)
