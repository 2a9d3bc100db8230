"""Shell commands, read: what is run, and whether it merely reads, lists or searches.

Titles and kinds are those of `codex-acp` 2.6.0. The program itself takes commands apart and tells what it found in
`parsed_cmd`, but only when they have ended, and not in every version; until then, or instead, `guess` does the same
for the commands that models use most.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import Final, Literal

import msgspec

from dragoman.translate.codex import records
from dragoman.translate.codex.records import absolute

_SHELL: Final = re.compile(r"(?:.*[/\\])?(?:ba|z|da|fi)?sh(?:\.exe)?")
_POWERSHELL: Final = re.compile(r"(?:.*[/\\])?(?:pwsh|powershell)(?:\.exe)?", re.IGNORECASE)
# A piece of a command line: space, what joins commands, or (a part of) a word.
_PIECE: Final = re.compile(
    r"""(?P<space>[ \t\r]+)|(?P<joint>[|&;<>()\n]+)"""
    r"""|'(?P<single>[^']*)'|"(?P<double>(?:[^"\\]|\\.)*)"|\\(?P<escaped>.)|(?P<bare>[^\s'"\\|&;<>()]+)""",
    re.DOTALL,
)
# Longer lines are programs of their own.
_MAX_LINE_CHARS: Final = 1000
_READING_PROGRAMS: Final = frozenset(
    {"cat", "bat", "less", "more", "nl", "head", "tail", "sed", "rg", "grep", "egrep", "fgrep", "ls", "tree", "find"}
)
# What only shapes the output of the command before it.
_FILTER_PROGRAMS: Final = frozenset(
    {"head", "tail", "wc", "sort", "uniq", "tr", "cut", "awk", "column", "nl", "sed", "less"}
)
# Options that take a word of their own, by program.
_RG_OPTIONS: Final = frozenset(
    {"-g", "--glob", "--iglob", "-t", "--type", "-T", "-A", "-B", "-C", "-m", "--max-count", "-e", "--regexp", "-f"}
    | {"--max-depth", "--context", "--sort", "-j", "--threads", "-M", "--max-columns", "--color", "--engine"}
)
_GREP_OPTIONS: Final = frozenset({"-A", "-B", "-C", "-m", "-e", "-f", "--include", "--exclude", "--exclude-dir"})
_LS_OPTIONS: Final = frozenset({"-I", "-w", "--block-size", "--format", "--time-style", "--color", "--quoting-style"})
_COUNT_OPTIONS: Final = frozenset({"-n", "-c", "--lines", "--bytes"})


class Action(msgspec.Struct, frozen=True, gc=False):
    """One thing that a command does. `unknown` is anything that is not looking."""

    type: Literal["read", "list_files", "search", "unknown"] = "unknown"
    path: str | None = None
    query: str | None = None


class CommandDisplay(msgspec.Struct, frozen=True, gc=False):
    """A command as a tool call shows it."""

    title: str
    kind: Literal["execute", "read", "search"] = "execute"
    path: str | None = None  # of a file that is read; the others are told by their last name alone


def line_of(command: object) -> str:
    """The command line that a shell was given, without the shell; of a list, its words joined."""
    if isinstance(command, str):
        return command
    if not isinstance(command, list):
        return ""
    words = [word for word in command if isinstance(word, str)]
    if len(words) >= 3 and _SHELL.fullmatch(words[0]) and re.fullmatch(r"-[a-z]*c", words[1]):
        return words[2]
    if len(words) >= 3 and _POWERSHELL.fullmatch(words[0]) and "-command" in (word.lower() for word in words[1:-1]):
        return words[-1]
    return shlex.join(words)


def decode_actions(parsed: msgspec.Raw) -> Sequence[Action]:
    """As the program tells them."""
    return records.read(parsed, list[Action], [])


def display_command(line: str, folder: str, reported_actions: Sequence[Action] = ()) -> CommandDisplay:
    """A command that does a single thing is called by it; any other by its line."""
    action = (reported_actions[0] if len(reported_actions) == 1 else None) if reported_actions else guess(line)
    match action:
        case Action(type="read", path=str(path)):
            full = absolute(path, folder)
            return CommandDisplay(f"Read file '{full}'", "read", full)
        case Action(type="search", query=query, path=path):
            return CommandDisplay(_search_title(query, path), "search")
        case Action(type="list_files", path=path):
            return CommandDisplay(f"List files in '{path}'" if path else "List files", "read")
        case _:
            return CommandDisplay(line)


def _search_title(query: str | None, path: str | None) -> str:
    match bool(query), bool(path):
        case True, True:
            return f"Search for '{query}' in {path}"
        case True, False:
            return f"Search for '{query}'"
        case False, True:
            return f"Search in '{path}'"
        case _:
            return "Search"


def guess(line: str) -> Action | None:
    """The action of a command line that only reads, lists or searches; None for any other, or if unsure."""
    if len(line) > _MAX_LINE_CHARS or line.partition(" ")[0] not in _READING_PROGRAMS:
        return None
    stages = _stages(line)
    if not stages or not all(_is_filter(stage) for stage in stages[1:]):
        return None
    program, *words = stages[0]
    match program:
        case "cat" | "bat" | "less" | "more":
            return _reads(_operands(words, frozenset()))
        case "nl":
            return _reads(_operands(words, frozenset({"-s", "-w", "-v", "-i"})))
        case "head" | "tail":
            return _reads(_operands(words, _COUNT_OPTIONS))
        case "sed" if len(words) >= 3 and words[0] == "-n" and re.fullmatch(r"\d+(?:,\d+)?p", words[1]):
            return _reads(words[2:])
        case "rg" | "grep" | "egrep" | "fgrep" if "--files" not in words:
            given = _operands(words, _RG_OPTIONS if program == "rg" else _GREP_OPTIONS)
            return Action("search", _short(given[1]) if len(given) > 1 else None, given[0]) if given else None
        case "rg":
            given = _operands(words, _RG_OPTIONS)
            return Action("list_files", _short(given[0]) if given else None)
        case "ls" | "tree":
            given = _operands(words, _LS_OPTIONS)
            return Action("list_files", _short(given[0]) if given else None)
        case "find" if words and not {"-exec", "-delete", "-execdir", "-name", "-iname", "-path"} & set(words):
            return Action("list_files", _short(words[0])) if not words[0].startswith("-") else None
        case _:
            return None


def _stages(line: str) -> list[list[str]]:
    """The commands of a pipeline, as words; none where the line is more than that."""
    stages: list[list[str]] = [[]]
    word: str | None = None
    position = 0
    while found := _PIECE.match(line, position):
        position = found.end()
        piece = found[found.lastgroup or 0]
        match found.lastgroup:
            case "space" | "joint":
                if word is not None:
                    stages[-1].append(word)
                    word = None
                if found.lastgroup == "joint":
                    if piece != "|":
                        return []
                    stages.append([])
            case "double" | "bare" if "`" in piece or "$(" in piece:
                return []
            case _:
                word = (word or "") + piece
    if word is not None:
        stages[-1].append(word)
    return stages if position == len(line) and all(stages) else []


def _is_filter(stage: Sequence[str]) -> bool:
    """Return True if a command of a pipeline only filters its input."""
    program, *words = stage
    if program not in _FILTER_PROGRAMS:
        return False
    return program != "sed" or (len(words) == 2 and words[0] == "-n") or not words[0].startswith("-i")


def _operands(words: Sequence[str], with_value: frozenset[str]) -> list[str]:
    """The words that are neither options nor their values."""
    found: list[str] = []
    rest = iter(words)
    for word in rest:
        if word == "--":
            return [*found, *rest]
        if word in with_value:
            value = next(rest, "")
            if word in ("-e", "--regexp"):
                found.insert(0, value)
        elif not word.startswith("-") or word == "-":
            found.append(word)
    return found


def _reads(given: Sequence[str]) -> Action | None:
    return Action("read", given[0]) if len(given) == 1 else None


def _short(path: str) -> str:
    """A path as the program tells it in a title: its last name that says something."""
    names = [name for name in re.split(r"[/\\]", path.rstrip("/\\")) if name]
    telling = [name for name in names if name not in ("build", "dist", "node_modules", "src")]
    return (telling or names or [path])[-1]
