"""Deeds: what a request does, as far as it can be known, each judged by itself. Pure but for looking where paths lead.

All that a request does counts: its kind is the agent's word, so that a `read` with a command in it is a command, and
one with a diff a write. A command is each of the commands in it, and what it is redirected from and to. What a command
does with its own arguments is not known here: only a sandbox can hold that.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

import msgspec

from dragoman.host.permission import PermissionRequest
from dragoman.host.policy.globs import Spot, fold, host_of, mcp_of
from dragoman.host.policy.rules import Doing
from dragoman.host.requests import command_of
from dragoman.workspace import OutsideWorkspace, Workspace
from dragoman.workspace.paths import PATH_LIMIT

if TYPE_CHECKING:
    from dragoman.host.shell.reader import Part, Script

# Keys of a tool's input whose values are paths, without case and underscores: by how they end, or whole.
_PATH_ENDINGS: Final = (
    "path",
    "paths",
    "file",
    "files",
    "filename",
    "filenames",
    "dir",
    "dirs",
    "directory",
    "directories",
    "folder",
    "folders",
)
_PATH_KEYS: Final = frozenset({"source", "src", "destination", "dest", "dst", "target"})
# Those that say where a command runs.
_FOLDER_KEYS: Final = frozenset({"cwd", "workdir", "workingdir", "workingdirectory", "dir", "directory", "dirpath"})
_ENVIRONMENT_KEYS: Final = frozenset({"env", "environment", "envvars"})
_COMMAND_KEYS: Final = ("command", "cmd")
_ARGUMENT_KEYS: Final = ("args", "arguments", "argv")

# Paths of one request that are looked up: each costs calls to the system while other sessions wait, and nobody reads
# more of them before saying yes. Of the rest it is known only that there are some.
MOST_PATHS: Final = 256

# Those whose input may name files deeper inside of it: `{"edits": [{"path": …}]}`.
_FILE_KINDS: Final = frozenset({"read", "edit", "delete", "move", "search"})

# Commands after which a relative path is one from another folder.
_MOVING: Final = frozenset({"cd", "pushd", "popd", "chdir"})
# A target with one of these is known only when the shell has put something in its place.
_EXPANSION: Final = re.compile(r"[$`*?\[{~<>\n]")

_FILE_URL: Final = re.compile(r"file:(?://(?:localhost)?)?(/[^?#]*)", re.IGNORECASE)

_DOES: Final[dict[Doing, str]] = {
    "think": "it thinks",
    "read": "it reads",
    "write": "it writes",
    "run": "it runs a command",
    "fetch": "it uses the network",
    "search": "it searches, and names no local path",
    "mcp": "it uses an MCP tool",
    "other": "what it does is not known",
}


class Deed(msgspec.Struct, frozen=True):
    """One thing that a request does.

    `spot` is what is read or written, `part` what is run, of the command line `line`; None where the request does not
    say. `unclear` says why nobody can know what is run. `env` is set for the whole line, `elsewhere` says that it runs
    outside the workspace, `below` in another folder of it than its own, `moved` that the line itself may go outside
    (`cd`). `beside` are paths that the request names and that this deed may touch: they count only against it.
    """

    does: Doing
    spot: Spot | None = None
    line: str | None = None
    part: Part | None = None
    unclear: str | None = None
    env: tuple[str, ...] = ()
    elsewhere: bool = False
    below: bool = False
    moved: bool = False
    host: str | None = None
    mcp: tuple[str, str] | None = None
    beside: tuple[Spot, ...] = ()

    @property
    def phrase(self) -> str:
        """What it does, for reasons: `it writes`."""
        return _DOES[self.does]

    def __str__(self) -> str:
        """What it does, in full: `write src/main.py`."""
        match self.does:
            case "read" | "write":
                if self.spot is None:
                    return f"{self.does} a file that it does not name"
                return f"{self.does} {self.spot.inside or self.spot.given}"
            case "run":
                if self.part is None:
                    return f"run {self.line}" if self.line else "run a command that it does not name"
                via = f" (in {', '.join(self.part.via)})" if self.part.via else ""
                # Values of the environment are nobody's to tell: they may be keys.
                env = (f"{name.partition('=')[0]}=…" for name in self.env)
                words = (*env, *self.part.assignments[len(self.env) :], *self.part.words)
                return f"run {' '.join(words) if self.part.dynamic else shlex.join(words)}{via}"
            case "fetch":
                return f"fetch from {self.host or 'a host that it does not name'}"
            case "mcp":
                return f"use the MCP tool {'/'.join(self.mcp or ())}"
            case "search":
                return "search, without a local path"
            case "think":
                return "think"
            case "other":
                return "do what is not known"


def survey(request: PermissionRequest, workspace: Workspace) -> tuple[Deed, ...]:
    """All that the request does, never empty."""
    tool = mcp_tool(request)
    if _wrapped(request):
        given = request.raw_input["arguments"]
        request = msgspec.structs.replace(request, kind="other", raw_input=given, command=command_of(given))
    paths = request.paths[:MOST_PATHS]
    spots = [locate(path, workspace) for path in paths]
    inner = named_paths(request.raw_input, workspace.cwd, nested=request.kind in _FILE_KINDS)
    others = list(islice(inner, MOST_PATHS + 1))
    named = [locate(path, workspace) for path in dict.fromkeys(others[:MOST_PATHS]) if path not in paths]
    named = [spot for spot in named if spot not in spots]
    beside = (*spots, *named)
    deeds: list[Deed] = []
    if len(request.paths) > MOST_PATHS or len(others) > MOST_PATHS:
        deeds += (Deed("read"), Deed("write"))
    if request.command is not None or request.kind == "execute":
        deeds += _commands(request, workspace, beside)
    if request.diffs or request.kind in ("edit", "delete", "move"):
        deeds += _touching("write", spots, named)
    if request.kind == "fetch" or _urls(request.raw_input):
        urls = _urls(request.raw_input)
        hosts = dict.fromkeys(host_of(url) for url in urls) or {None: None}
        deeds += (Deed("fetch", host=host, beside=beside) for host in hosts)
        # A page on this machine is a file, whatever it is fetched with.
        deeds += (Deed("read", spot=_file_of(url, workspace)) for url in urls[:MOST_PATHS] if _is_file(url))
    if tool is not None:
        deeds.append(Deed("mcp", mcp=tool, beside=beside))
    match request.kind:
        case "read":
            deeds += _touching("read", spots, named)
        case "search":
            deeds += _touching("read", spots, named) if beside else [Deed("search", beside=beside)]
        case "think" | "fetch" if beside:
            # It does more than that, with files: nobody knows what.
            deeds.append(Deed("other", beside=beside))
        case "think":
            deeds.append(Deed("think"))
        case "execute" | "edit" | "delete" | "move" | "fetch":
            pass
        case _:  # `other`, `switch_mode`, none at all; where a command or a diff is known, that is what it is
            if not deeds:
                deeds.append(Deed("other", beside=beside))
    return tuple(deeds)


def mcp_tool(request: PermissionRequest) -> tuple[str, str] | None:
    """Server and tool, where it is certain that an MCP tool is meant, and which one."""
    return _wrapped(request) or mcp_of(request.name)


def _wrapped(request: PermissionRequest) -> tuple[str, str] | None:
    """The same of Codex, which calls it a command and wraps its input. A command would stand beside these three."""
    match request.raw_input:
        case {"server": str(server), "tool": str(tool), "arguments": _, **more} if not more:
            as_codex = request.kind == "execute" and request.title == f"mcp.{server}.{tool}"
            return (server, tool) if as_codex and request.command is None and not request.diffs else None
        case _:
            return None


def _touching(does: Doing, spots: Sequence[Spot], named: Sequence[Spot]) -> list[Deed]:
    """A file in the tool's input counts like one that the agent names as such, but is no substitute for it."""
    unnamed = [] if spots else [Deed(does)]
    return [*unnamed, *(Deed(does, spot=spot) for spot in (*spots, *named))]


# Paths


def locate(path: str, workspace: Workspace) -> Spot:
    """Where an absolute path leads."""
    if len(path) > PATH_LIMIT:
        return Spot(path[:80], problem=f"the path {path[:80]}… cannot be a file's: it is too long")
    try:
        real = str(workspace.resolve(path))
    except OutsideWorkspace as problem:
        # What a tool would make of `~` or `..` is not ours to guess: allowed by no pattern, but denied by any.
        certain = _real(path) if os.path.isabs(path) and ".." not in path.split("/") else None
        return Spot(path, real=certain, spellings=_spellings(path, certain, workspace), problem=str(problem))
    inside = max((text for text in _seen_from(real, workspace)), key=len)  # from the outermost folder that it is in
    return Spot(path, inside, real, _spellings(path, real, workspace))


def _spellings(path: str, real: str | None, workspace: Workspace) -> tuple[str, ...]:
    """The path as it is written and as it may lead, from the root and from each folder of the workspace."""
    if path == real:
        found = {path}
    else:
        written = os.path.normpath(os.path.join(workspace.cwd, _at_home(path)))
        found = {text for text in (real, written, _real(written), _real(path)) if text is not None}
    return tuple({fold(text): None for each in found for text in (each, *_seen_from(each, workspace))})


def _at_home(path: str) -> str:
    try:
        return os.path.expanduser(path)
    except ValueError:  # characters that no user's name can have
        return path


def _seen_from(path: str, workspace: Workspace) -> Iterator[str]:
    for folder in map(str, workspace.folders):
        if path == folder:
            yield "."
        elif path.startswith(folder if folder == "/" else f"{folder}/"):
            yield path[len(folder) :].lstrip("/")


def _real(path: str) -> str | None:
    try:
        return os.path.realpath(path) if os.path.isabs(path) else None
    except (OSError, ValueError):  # characters that no file name can have
        return None


def named_paths(raw_input: object, cwd: Path, *, nested: bool = False) -> Iterator[str]:
    """Paths that the tool's input names under a telling key, as the agent would read them: from `cwd`."""
    waiting = [raw_input]
    while waiting:
        item = waiting.pop()
        if nested and isinstance(item, list):
            waiting += (each for each in item if isinstance(each, dict | list))
        if not isinstance(item, dict):
            continue
        for key, value in item.items():
            if nested and isinstance(value, dict | list):
                waiting.append(value)
            word = _word(key)
            if not (word.endswith(_PATH_ENDINGS) or word in _PATH_KEYS):
                continue
            for path in value if isinstance(value, list) else [value]:
                path = path.strip("\r\n") if isinstance(path, str) else ""  # as many tools do
                if path and "\n" not in path:
                    # What a tool would make of `~` is not ours to guess: as it stands it is nowhere inside.
                    yield path if path.startswith("~") else os.path.join(cwd, path)


def _word(key: object) -> str:
    return str(key).lower().replace("_", "")


def _urls(raw_input: object) -> list[str]:
    if not isinstance(raw_input, dict):
        return []
    given = {_word(key): value for key, value in raw_input.items()}
    found = [given.get("url"), *(urls if isinstance(urls := given.get("urls"), list) else ())]
    # What names a resource may be anything (`memo://…`); only a file is a thing of ours.
    uris = [given.get("uri"), *(uris if isinstance(uris := given.get("uris"), list) else ())]
    found += (uri for uri in uris if isinstance(uri, str) and _is_file(uri))
    return [url for url in found if isinstance(url, str)]


def _is_file(url: str) -> bool:
    return url.strip().lower().startswith("file:")


def _file_of(url: str, workspace: Workspace) -> Spot | None:
    """The file of a `file:` address; None where it is not clear which one that is."""
    found = _FILE_URL.fullmatch(url.strip())
    return locate(unquote(found[1]), workspace) if found else None


# Commands


def _commands(request: PermissionRequest, workspace: Workspace, beside: tuple[Spot, ...]) -> Iterator[Deed]:
    given = request.raw_input if isinstance(request.raw_input, dict) else {}
    line = _line(request.command, given)
    folder = folder_of(given, workspace.cwd)
    env = environment_of(given)
    away = folder is None or not workspace.contains(folder)
    below = folder is not None and os.path.normpath(folder) != str(workspace.cwd)
    whole = Deed("run", line=line, env=env, elsewhere=away, below=below, beside=beside)
    if line is None:
        yield msgspec.structs.replace(whole, unclear="it does not say which command")
        return
    script = _read(line)
    if script.unclear is not None or not script.parts:
        yield msgspec.structs.replace(whole, unclear=script.unclear or "there is no command in it")
    moves = [part for part in script.parts if part.words and os.path.basename(part.words[0]) in _MOVING]
    if moves and (len(moves) > 1 or not _stays(moves[0], folder, workspace)):
        whole = msgspec.structs.replace(whole, moved=True)
    for part in script.parts:
        if env:
            part = msgspec.structs.replace(part, assignments=(*env, *part.assignments))
        yield msgspec.structs.replace(whole, part=part, unclear=part.unclear)
        # Where it runs is known for what the line itself begins with, and for nothing that moved on from there.
        base = None if moves or part.via else folder
        for does, targets in (("read", part.reads), ("write", part.writes)):
            for target in targets:
                spot = _target(target, base, workspace)
                yield msgspec.structs.replace(whole, does=does, spot=spot, part=part, beside=())


def _read(line: str) -> Script:
    from dragoman.host.shell.reader import read_script  # it loads a grammar: many sessions never see a command

    return read_script(line)


def _line(command: str | None, given: dict[str, Any]) -> str | None:
    """The command line, with its arguments where the agent gives them apart; None where it cannot be put together."""
    apart = [given[key] for key in _ARGUMENT_KEYS if given.get(key) not in (None, "", [])]
    if len(_distinct(given)) > 1:
        return None
    if command is None or not apart:
        return command
    program = next((given[key] for key in _COMMAND_KEYS if given.get(key)), command)
    match [program if isinstance(program, list) else [program], *apart]:
        case [list(first), list(rest)] if all(isinstance(word, str) for word in (*first, *rest)):
            return shlex.join((*first, *rest))
        case _:
            return None


def _distinct(given: dict[str, Any]) -> list[object]:
    """The commands that it names; of two that differ nobody can tell which one is run."""
    found: list[object] = []
    for key in _COMMAND_KEYS:
        if given.get(key) not in (None, "", [], *found):
            found.append(given[key])
    return found


def _stays(part: Part, folder: str | None, workspace: Workspace) -> bool:
    """Whether a `cd` ends inside the workspace for sure."""
    if folder is None or part.dynamic or part.assignments or len(part.words) != 2 or part.words[1][:1] in "-+~":
        return False
    return workspace.contains(os.path.normpath(os.path.join(folder, part.words[1])))


def folder_of(given: dict[str, Any], cwd: Path) -> str | None:
    """Where a command with this input runs; None where that is not clear."""
    folders = [value for key, value in given.items() if _word(key) in _FOLDER_KEYS and value not in (None, "")]
    match folders:
        case []:
            return str(cwd)
        case [str(folder), *others] if not folder.startswith("~") and all(other == folder for other in others):
            return os.path.join(cwd, folder)
        case _:
            return None


def environment_of(given: dict[str, Any]) -> tuple[str, ...]:
    """What is set for the whole command, in whatever form: no form of it is nothing."""
    found: list[str] = []
    for key, value in given.items():
        if _word(key) not in _ENVIRONMENT_KEYS or not value:
            continue
        if isinstance(value, dict):
            found += (f"{name}={text}" for name, text in value.items())
        else:
            found.append(f"{key}={value}")
    return tuple(found)


def _target(target: str, folder: str | None, workspace: Workspace) -> Spot | None:
    if _EXPANSION.search(target):
        return None
    if os.path.isabs(target):
        return locate(target, workspace)
    return locate(os.path.join(folder, target), workspace) if folder is not None else None
