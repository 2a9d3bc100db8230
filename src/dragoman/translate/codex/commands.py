"""Shell commands and outputs of calls: the title of a command, and the text and exit code of an output.

Titles and kinds are those of `codex-acp` 2.6.0. Codex itself parses commands and stores the result in `parsed_cmd`, but
only when they have ended, and not in every version; until then, or instead, `guess` does the same for the commands that
models use most.

Over the years Codex wrote outputs in three forms: as JSON with `metadata.exit_code`, with `Exit code: N` above the
text, and with `Process exited with code N` above it. If nothing was run, a plain sentence says why.
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
# Programs that only filter or format the output of the command before them.
_FILTER_PROGRAMS: Final = frozenset(
    {"head", "tail", "wc", "sort", "uniq", "tr", "cut", "awk", "column", "nl", "sed", "less"}
)
# Options that take a value as the next word, by program.
_RG_OPTIONS: Final = frozenset(
    {"-g", "--glob", "--iglob", "-t", "--type", "-T", "-A", "-B", "-C", "-m", "--max-count", "-e", "--regexp", "-f"}
    | {"--max-depth", "--context", "--sort", "-j", "--threads", "-M", "--max-columns", "--color", "--engine"}
)
_GREP_OPTIONS: Final = frozenset({"-A", "-B", "-C", "-m", "-e", "-f", "--include", "--exclude", "--exclude-dir"})
_LS_OPTIONS: Final = frozenset({"-I", "-w", "--block-size", "--format", "--time-style", "--color", "--quoting-style"})
_COUNT_OPTIONS: Final = frozenset({"-n", "-c", "--lines", "--bytes"})


class Action(msgspec.Struct, frozen=True, gc=False):
    """One action of a command; `unknown` if it does anything but read, list or search."""

    type: Literal["read", "list_files", "search", "unknown"] = "unknown"
    path: str | None = None
    query: str | None = None


class CommandDisplay(msgspec.Struct, frozen=True, gc=False):
    """A command as a tool call shows it."""

    title: str
    kind: Literal["execute", "read", "search"] = "execute"
    path: str | None = None  # of a file that is read


def line_of(command: object) -> str:
    """Return the command line without the shell that ran it; a list is joined."""
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
    """Decode the actions that Codex found in a command."""
    return records.read(parsed, list[Action], [])


def display_command(line: str, folder: str, reported_actions: Sequence[Action] = ()) -> CommandDisplay:
    """Return the title of a command: its action if it has only one, else the command line."""
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
    """Return the action of a command line that only reads, lists or searches; None for any other, or if unsure."""
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
            operands = _operands(words, _RG_OPTIONS if program == "rg" else _GREP_OPTIONS)
            return (
                Action("search", _short(operands[1]) if len(operands) > 1 else None, operands[0]) if operands else None
            )
        case "rg":
            operands = _operands(words, _RG_OPTIONS)
            return Action("list_files", _short(operands[0]) if operands else None)
        case "ls" | "tree":
            operands = _operands(words, _LS_OPTIONS)
            return Action("list_files", _short(operands[0]) if operands else None)
        case "find" if words and not {"-exec", "-delete", "-execdir", "-name", "-iname", "-path"} & set(words):
            return Action("list_files", _short(words[0])) if not words[0].startswith("-") else None
        case _:
            return None


def _stages(line: str) -> list[list[str]]:
    """Split a pipeline into commands, each a list of words; empty if the line is anything else."""
    stages: list[list[str]] = [[]]
    word: str | None = None
    position = 0
    while token := _PIECE.match(line, position):
        position = token.end()
        piece = token[token.lastgroup or 0]
        match token.lastgroup:
            case "space" | "joint":
                if word is not None:
                    stages[-1].append(word)
                    word = None
                if token.lastgroup == "joint":
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
    """Return the words that are neither options nor their values."""
    operands: list[str] = []
    rest = iter(words)
    for word in rest:
        if word == "--":
            return [*operands, *rest]
        if word in with_value:
            value = next(rest, "")
            if word in ("-e", "--regexp"):
                operands.insert(0, value)
        elif not word.startswith("-") or word == "-":
            operands.append(word)
    return operands


def _reads(operands: Sequence[str]) -> Action | None:
    return Action("read", operands[0]) if len(operands) == 1 else None


def _short(path: str) -> str:
    """Return the last meaningful name of a path, as Codex shows it in a title."""
    names = [name for name in re.split(r"[/\\]", path.rstrip("/\\")) if name]
    meaningful = [name for name in names if name not in ("build", "dist", "node_modules", "src")]
    return (meaningful or names or [path])[-1]


_HEADER: Final = re.compile(
    r"(?:Script (?:(?P<script>completed|failed|terminated)|running with cell ID (?P<cell>\S+))\n)?"
    r"(?:Chunk ID: \S*\n)?"
    r"(?:Exit code: (?P<code>-?\d{1,10})\n)?"
    r"Wall time:? [^\n]*\n"
    r"(?:Process exited with code (?P<exited>-?\d{1,10})\n)?"
    r"(?:Process running with session ID (?P<session>\S+)\n)?"
    r"(?:Original token count: \d+\n|Warning: truncated output[^\n]*\n)?"
    r"(?:Total output lines: \d+\n)?"
    r"Output:(?:\n|$)"
)
# In some versions the command is above the header, and may have many lines itself.
_AFTER_COMMAND: Final = re.compile(r"\n(?=Chunk ID: |Wall time: )")
# The output of a command that was not run, or not to its end: a plain sentence, in newer versions below the time.
_FAILURE: Final = re.compile(
    r"(?:Wall time:? [^\n]*\n)?(?:"
    r"exec command rejected|aborted\b|unsupported (?:custom tool )?call\b|failed\b|execution error\b|"
    r"(?:\w{1,80}[_/][\w/]{0,80}|collab|tool call) (?:\w+ )?failed\b|.{0,80}\brejected by (?:the )?user\b|"
    r"sandbox error\b|err(?:or)?: )",
    re.IGNORECASE,
)
_QUOTE: Final = ord('"')


class CallOutput(msgspec.Struct, frozen=True, gc=False):
    text: str = ""
    exit_code: int | None = None
    running: str | None = None  # the name that later calls use for the process, if it has not ended
    failed: bool = False
    refused: bool = False  # it failed because it was not run, or not to its end
    images: tuple[str, ...] = ()  # addresses, most of them `data:` URLs


class _Metadata(msgspec.Struct, frozen=True, gc=False):
    exit_code: int | None = None


class _JsonOutput(msgspec.Struct, frozen=True, gc=False):
    output: str
    metadata: _Metadata


def read_output(raw: msgspec.Raw) -> CallOutput:
    """Decode an `output` in any form: a string, a list of pieces, or an object that contains either."""
    if memoryview(raw)[0] == _QUOTE:
        return parse_output(records.string(raw))
    value = records.plain(raw)
    if isinstance(value, dict):
        result = read_output(msgspec.Raw(msgspec.json.encode(value.get("content") or value.get("output") or "")))
        failed = value.get("success") is False
        return msgspec.structs.replace(result, failed=True) if failed else result
    pieces = records.parts(raw)
    words = "".join(piece.text for piece in pieces)
    images = tuple(piece.image_url for piece in pieces if piece.image_url)
    return msgspec.structs.replace(parse_output(words), images=images)


def parse_output(text: str) -> CallOutput:
    if text.startswith('{"output":'):
        result = records.read(text.encode("utf-8", "replace"), _JsonOutput, None)
        if result is not None:
            code = result.metadata.exit_code
            return CallOutput(result.output, code, failed=bool(code))
    rest = text
    if rest.startswith("Command: "):
        after = _AFTER_COMMAND.search(rest)
        rest = rest[after.end() :] if after else rest
    header = _HEADER.match(rest)
    if header is None:
        refused = _FAILURE.match(text) is not None
        return CallOutput(text, failed=refused, refused=refused)
    rest = rest[header.end() :]
    exit_code = header["exited"] or header["code"]
    if exit_code is None and header["session"] is None and (within := _HEADER.match(rest)) and within["code"]:
        return parse_output(rest)  # a patch that a shell command applied has both headers
    code = int(exit_code) if exit_code is not None else None
    return CallOutput(
        rest,
        code,
        running=process_name(header["session"], header["cell"]),
        failed=bool(code) or header["script"] in ("failed", "terminated"),
    )


def process_name(session: object, cell: object) -> str | None:
    """Return the name of a running process or script; both are numbered, each by itself."""
    if session is not None:
        return f"process {session}"
    return f"script {cell}" if cell is not None else None
