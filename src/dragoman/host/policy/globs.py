"""What rules match with: patterns of paths, commands, MCP tools, hosts and names. Pure but for links above a path.

A pattern is looked at in two ways. Narrowly, for rules that allow: what it says, and nothing that only looks like it.
Widely, for rules that deny or ask: also other spellings of the same thing (capital letters, `/usr/bin/git` for `git`, a
link's own name, an MCP tool that is known by its title only). Who spells a thing in a new way must gain nothing by it.
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

# `maybe`: it cannot be known, and so not be excluded.
Match: TypeAlias = Literal["yes", "maybe", "no"]

_GLOB: Final = re.compile(r"[*?\[]")
_CLASS: Final = re.compile(r"\[([!^]?)(\]?[^\]/]+|\])\]")
_ESCAPED: Final = re.compile(r"\[([*?\[])\]")
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")
# What a shell may put something else in the place of.
_EXPANSION: Final = re.compile(r"[$`*?\[{~<>]")
# With two underscores in either name nobody could tell where the first ends.
_MCP_NAME: Final = re.compile(r"mcp__([A-Za-z0-9.-]+(?:_[A-Za-z0-9.-]+)*)__([A-Za-z0-9.-]+(?:_[A-Za-z0-9.-]+)*)")
_MCP_TITLE: Final = re.compile(r"(.+) \((.+) MCP Server\)", re.DOTALL)
_URL: Final = re.compile(r"(?:https?|wss?)://([A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*\.?)(?::[0-9]{1,5})?(?:[/?#][^\s\\@]*)?")


def escaped(text: str) -> str:
    """The pattern that matches this text alone."""
    return _GLOB.sub(lambda found: f"[{found[0]}]", text)


def fold(text: str) -> str:
    """Without what some file systems do not tell apart: capital letters, and ways to write the same character."""
    return unicodedata.normalize("NFC", text).casefold() if not text.isascii() else text.lower()


def name_matches(pattern: str, name: str, *, wide: bool = False) -> bool:
    return bool(_name(fold(pattern))(fold(name)) if wide else _name(pattern)(name))


@lru_cache(maxsize=4096)
def _name(pattern: str) -> Callable[[str], object]:
    if not _GLOB.search(pattern):
        return pattern.__eq__
    return re.compile(_translated(pattern, any_="."), re.DOTALL).fullmatch


def _translated(pattern: str, any_: str) -> str:
    """A glob as a regular expression; `any_` is what its wildcards may stand for.

    What stands between two `*` is looked for once, from the left, and stays where it was found: the agent chooses the
    texts, and to try every way to share a long one would take for ever.
    """
    pieces: list[list[str]] = [[]]  # what stands before, between and after the `*`
    at = 0
    while at < len(pattern):
        step = 1
        if pattern[at] == "*":
            pieces.append([])
        elif pattern[at] == "?":
            pieces[-1].append(any_)
        elif (found := _CLASS.match(pattern, at)) and (members := _members(found)):
            pieces[-1].append(members)
            step = len(found[0])
        else:
            pieces[-1].append(re.escape(pattern[at]))
        at += step
    first, *others = ("".join(piece) for piece in pieces)
    if not others:
        return first
    return f"{first}{''.join(f'(?>{any_}*?{piece})' for piece in others[:-1] if piece)}{any_}*{others[-1]}"


def _members(found: re.Match[str]) -> str | None:
    """`[abc]` or `[!a-z]` as a regular expression; None where it is no such thing, and stands for itself."""
    parts, members = [], found[2]
    at = 0
    while at < len(members):
        first, last = members[at], members[at + 2 : at + 3] if members[at + 1 : at + 2] == "-" else ""
        if last and last < first:
            return None
        parts.append(f"{re.escape(first)}-{re.escape(last)}" if last else re.escape(first))
        at += 3 if last else 1
    return f"[{'^/' if found[1] else ''}{''.join(parts)}]"


# Paths


class ResolvedPath(msgspec.Struct, frozen=True):
    """Where a path leads. `inside` is as seen from the workspace's folder, `real` absolute; both with links followed.

    None where it does not lead there, or nobody can know. `spellings` are all ways to write it, folded; `error` says
    why it is not inside.
    """

    given: str
    inside: str | None = None
    real: str | None = None
    spellings: tuple[str, ...] = ()
    error: str = ""


def path_matches(pattern: str, path: ResolvedPath, *, wide: bool = False) -> bool:
    """Like a line of .gitignore: without a slash at any depth, with one from the folder on; a folder is all in it.

    Narrowly a relative pattern is about files inside the workspace. Widely one that stands for any depth (`.env`,
    `**/.env`) is about those outside too.
    """
    absolute = pattern.startswith(("/", "~/"))
    if not wide:
        text = path.real if absolute else path.inside
        return text is not None and any(found.fullmatch(text) for found in _path(pattern, wide=False))
    found = _path(pattern, wide=True)
    if absolute:
        return any(each.fullmatch(text) for text in path.spellings for each in found)
    floats = "/" not in pattern.rstrip("/") or pattern.startswith("**")
    return any(
        each.fullmatch(text.lstrip("/"))
        for text in path.spellings
        if floats or not text.startswith("/")
        for each in found
    )


@lru_cache(maxsize=4096)
def _path(pattern: str, *, wide: bool) -> tuple[re.Pattern[str], ...]:
    if pattern.startswith("~/"):
        pattern = os.path.expanduser("~") + pattern[1:]
    if not pattern.startswith("/"):
        return (re.compile(_components(fold(pattern) if wide else pattern, wide=wide), re.DOTALL),)
    linked = _with_links_followed(pattern)
    if not wide:
        return (re.compile(_components(linked, wide=False), re.DOTALL),)
    return tuple(re.compile(_components(fold(each), wide=True), re.DOTALL) for each in {pattern, linked})


def _with_links_followed(pattern: str) -> str:
    """The pattern as it reads for real paths: folders above its first wildcard may be links (/tmp on macOS)."""
    parts = pattern.split("/")
    literal = next((index for index, part in enumerate(parts) if _GLOB.search(part)), len(parts) - 1)
    try:
        above = os.path.realpath("/".join(parts[:literal]) or "/")
    except (OSError, ValueError):
        return pattern
    return "/".join([above.rstrip("/"), *parts[literal:]])


def _components(pattern: str, *, wide: bool) -> str:
    absolute = pattern.startswith("/")
    parts = [part for part in pattern.split("/") if part not in ("", ".")]
    if not absolute and "/" not in pattern.rstrip("/"):
        parts.insert(0, "**")
    parts = [part for index, part in enumerate(parts) if part != "**" or parts[index - 1 : index] != ["**"]]
    text = "/" if absolute else ""
    for index, part in enumerate(parts):
        last = index == len(parts) - 1
        if part == "**" and last:
            # All in the folder; widely the folder itself too, with which all in it would go.
            text = f"{text.removesuffix('/')}(?:/.*)?" if wide and index else f"{text}.*"
        elif part == "**":
            text += "(?:[^/]+/)*"
        else:
            text += _translated(part, any_="[^/]") + ("(?:/.*)?" if last else "/")
    return text


# Commands


class CommandPattern(msgspec.Struct, frozen=True):
    """`git push *`: word by word; `*` as the last word is any rest, also none.

    `literal` are its words where none of them has a wildcard.
    """

    assignments: tuple[str, ...]
    words: tuple[str, ...]
    rest: bool
    literal: tuple[str, ...] | None


@lru_cache(maxsize=4096)
def command_pattern(text: str) -> CommandPattern:
    """Raises ValueError where it cannot be read as words."""
    words = shlex.split(text)
    if not words:
        raise ValueError("no word")
    count = next((index for index, word in enumerate(words) if not _ASSIGNMENT.match(word)), len(words))
    rest = words[-1] == "*" and len(words) > count
    kept = tuple(words[count:-1] if rest else words[count:])
    plain = not rest and not any(_GLOB.search(_ESCAPED.sub("", word)) for word in kept)
    literal = tuple(_ESCAPED.sub(r"\1", word) for word in kept) if plain else None
    assignments = tuple(_ESCAPED.sub(r"\1", word) for word in words[:count])
    return CommandPattern(assignments, kept, rest, literal)


def command_allowed(text: str, part: ShellCommand) -> bool:
    """Narrowly. What is not clear from the words, or not fixed before it runs, is allowed only word for word."""
    pattern = command_pattern(text)
    if pattern.assignments != part.assignments:
        return False
    if part.dynamic and not any(map(_EXPANSION.search, part.words)):
        return False  # it gets words that nobody sees (`xargs rm`)
    if part.unclear is not None or part.dynamic:
        return pattern.literal is not None and pattern.literal == part.words
    return _fits(pattern, part.words) and all(map(name_matches, pattern.words, part.words))


def command_found(text: str, part: ShellCommand) -> Match:
    """Widely: the program by its last name, whatever is set for it; what may turn out to be it is a `maybe`."""
    pattern = command_pattern(text)
    if not set(pattern.assignments) <= set(part.assignments):
        return "no"
    doubt: Match = "no" if part.unclear is None else "maybe"
    for index, wanted in enumerate(pattern.words):
        if index >= len(part.words):
            return doubt
        word = part.words[index]
        if part.dynamic and _EXPANSION.search(word):
            return "maybe"  # it may become any word, or several
        if not (name_matches(wanted, word) or (index == 0 and name_matches(_base(wanted), _base(word), wide=True))):
            return doubt
    if _fits(pattern, part.words):
        return "yes"
    # Words that may turn out to be none at all.
    return "maybe" if part.dynamic and all(map(_EXPANSION.search, part.words[len(pattern.words) :])) else doubt


def _fits(pattern: CommandPattern, words: Sequence[str]) -> bool:
    return len(words) >= len(pattern.words) if pattern.rest else len(words) == len(pattern.words)


def _base(program: str) -> str:
    return program.rpartition("/")[2] or program


# MCP tools


def mcp_of(name: str | None) -> tuple[str, str] | None:
    """Server and tool, from a tool's name where it is certain: `mcp__server__tool`."""
    found = _MCP_NAME.fullmatch(name or "")
    return (found[1], found[2]) if found else None


def mcp_allowed(pattern: str, server: str, tool: str) -> bool:
    wanted, _, wanted_tool = pattern.partition("/")
    return name_matches(wanted, server) and name_matches(wanted_tool or "*", tool)


def mcp_found(pattern: str, *texts: str) -> bool:
    """Widely, in a tool's name or title, in the ways that agents were seen to write them.

    `mcp__note__echo` (claude; kimi, as a title), `note__echo` and `note: echo` (goose), `note_echo` (opencode),
    `echo (note MCP Server)` (gemini), `note.echo`, `note/echo`. Where the pattern does not name the server, only the
    ways that nothing but an MCP tool is written in count.
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


@lru_cache(maxsize=64)  # of the request at hand, for many rules
def _mcp_candidates(text: str) -> tuple[bool, tuple[str, ...]]:
    """Server and tool as the text may name them, and whether nothing but an MCP tool is written so."""
    if found := _MCP_TITLE.fullmatch(text):
        return True, (_joined(f"{found[2]} {found[1]}"),)
    if found := _MCP_NAME.fullmatch(text):
        return True, (_joined(f"{found[1]} {found[2]}"),)
    return False, (_joined(text), _joined(text.partition(":")[2]))  # "Tool: note/echo"


def _joined(text: str) -> str:
    return re.sub(r"[^\w*?\[\]]+|_+", "_", fold(text)).strip("_")


# Hosts


def host_of(url: str) -> str | None:
    """The host of an address; None where two readers might disagree about it."""
    found = _URL.fullmatch(url)
    return found[1].lower().rstrip(".") if found else None


def host_matches(pattern: str, host: str) -> bool:
    return name_matches(pattern.lower().rstrip("."), host)
