"""Effects: everything that an agent's request would do, as far as the request tells. Each effect is judged separately.

The kind that the agent gives its request is only a claim: a `read` that carries a command runs a command, and one that
carries a diff writes. A command line has one effect for each command in it and one for each file that it is redirected
from or to, and for each file outside the workspace that its arguments name. Of the files inside that they name nobody
can tell what the program does with them: rules that deny or ask, and guards, take them into account. Programs may touch
other files than they name, which only a sandbox limits.

Pure, except that paths are resolved on disk.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Sequence
from itertools import islice, product
from typing import TYPE_CHECKING, Final, Literal
from urllib.parse import unquote

import msgspec

from dragoman.host.permission import PermissionRequest
from dragoman.host.policy.globs import ResolvedPath, fold, host_of, mcp_of
from dragoman.host.policy.rules import EffectKind
from dragoman.host.policy.tool_input import (
    MAX_PATHS,
    command_environment,
    command_line,
    is_file_url,
    mentioned_paths,
    named_urls,
    names_files,
    working_folder,
)
from dragoman.host.requests import command_of
from dragoman.workspace import OutsideWorkspace, Workspace
from dragoman.workspace.paths import MAX_PATH_BYTES

if TYPE_CHECKING:
    from dragoman.host.shell.reader import Script, ShellCommand

# Kinds of requests whose input may name files at any depth: `{"edits": [{"path": …}]}`.
_FILE_KINDS: Final = frozenset({"read", "edit", "delete", "move", "search"})

# Commands that change the folder which relative paths are resolved from.
_FOLDER_CHANGING: Final = frozenset({"cd", "pushd", "popd", "chdir"})
# A redirection's target with one of these is known only after the shell has expanded it.
_EXPANSION: Final = re.compile(r"[$`*?\[{~<>\n]")

# Where a path may begin within an argument: after `=`, `:`, `,`, `@` or `<`.
_PIECES: Final = re.compile(r"[=:,@<]")
# The letters of short options, before a value that begins at any of them: `-uo../x`, `-cC/`.
_SHORT_OPTIONS: Final = re.compile(r"-[A-Za-z0-9]{1,8}")
_URL_IN_TEXT: Final = re.compile(r"(?<=\s)https?://(?!\S*\.\.)\S*")
_QUERY: Final = re.compile(r"[?#].*", re.DOTALL)
_URL_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
# Files that stand for no file of the disk.
_NO_FILES: Final = frozenset({"/dev/null", "/dev/stdin", "/dev/stdout", "/dev/stderr", "/dev/tty"})
# Options that name the character between two fields.
_DELIMITERS: Final = frozenset({("cut", "-d/"), ("awk", "-F/"), ("sort", "-t/")})

_FILE_URL: Final = re.compile(r"file:(?://(?:localhost)?)?(/[^?#]*)", re.IGNORECASE)

_PHRASES: Final[dict[EffectKind, str]] = {
    "think": "it thinks",
    "read": "it reads",
    "write": "it writes",
    "run": "it runs a command",
    "fetch": "it uses the network",
    "search": "it searches without naming a local path",
    "mcp": "it uses an MCP tool",
    "other": "its effect is unknown",
}


class Effect(msgspec.Struct, frozen=True):
    """One thing that a request does.

    `path` is the file that is read or written, `command` the one that is run, as part of the command line `line`; each
    is None where the request does not say. `argument` is the word of the command that names `path`. `unclear` is the
    reason why nobody can know what is run. `env` is set for the whole line. `outside`: it runs outside the workspace;
    `may_leave`: a `cd` in the line may lead outside. `folders` are those that the command may run in, None for the
    workspace's own; the first is that of the whole line. `mentioned_paths` are paths in the request that this effect
    may touch: rules that deny or ask look at them, rules that allow do not. `argument_paths` are files inside the
    workspace that the command's arguments name; what `use_of_arguments` says is done with them.
    `decided_later`: the file is not named, and the agent has us write it, so that the rules decide again, on that file.
    """

    kind: EffectKind
    path: ResolvedPath | None = None
    line: str | None = None
    command: ShellCommand | None = None
    unclear: str | None = None
    argument: str | None = None
    env: tuple[str, ...] = ()
    outside: bool = False
    may_leave: bool = False
    folders: tuple[ResolvedPath | None, ...] = (None,)
    decided_later: bool = False
    host: str | None = None
    mcp: tuple[str, str] | None = None
    mentioned_paths: tuple[ResolvedPath, ...] = ()
    argument_paths: tuple[ResolvedPath, ...] = ()
    use_of_arguments: Literal["none", "read", "any"] = "none"

    @property
    def in_subfolder(self) -> bool:
        """Return True if the line runs in another folder than the workspace's own."""
        return self.folders[0] is not None

    @property
    def phrase(self) -> str:
        """The effect as a short clause for reasons: `it writes`."""
        return _PHRASES[self.kind]

    def __str__(self) -> str:
        """Describe the effect in full: `write src/main.py`."""
        match self.kind:
            case "read" | "write":
                if self.path is None:
                    return f"{self.kind} a file that it does not name"
                return f"{self.kind} {self.path.inside or self.path.given}"
            case "run":
                if self.command is None:
                    return f"run {self.line}" if self.line else "run a command that it does not name"
                via = f" (in {', '.join(self.command.via)})" if self.command.via else ""
                # Values of the environment are not shown: they may be keys.
                env = (f"{name.partition('=')[0]}=…" for name in self.env)
                words = (*env, *self.command.assignments[len(self.env) :], *self.command.words)
                return f"run {' '.join(words) if self.command.dynamic else shlex.join(words)}{via}"
            case "fetch":
                return f"fetch from {self.host or 'a host that it does not name'}"
            case "mcp":
                return f"use the MCP tool {'/'.join(self.mcp or ())}"
            case "search":
                return "search, without a local path"
            case "think":
                return "think"
            case "other":
                return "do something unknown"


def analyze(request: PermissionRequest, workspace: Workspace) -> tuple[Effect, ...]:
    """List every effect of the request; never empty."""
    tool = mcp_tool(request)
    if _codex_mcp_tool(request):
        arguments = request.raw_input["arguments"]
        request = msgspec.structs.replace(request, kind="other", raw_input=arguments, command=command_of(arguments))
    paths = request.paths[:MAX_PATHS]
    declared = [resolve_path(path, workspace) for path in paths]
    input_paths = mentioned_paths(request.raw_input, workspace.cwd, nested=request.kind in _FILE_KINDS)
    others = list(islice(input_paths, MAX_PATHS + 1))
    mentioned = [resolve_path(path, workspace) for path in dict.fromkeys(others[:MAX_PATHS]) if path not in paths]
    mentioned = [path for path in mentioned if path not in declared]
    all_paths = (*declared, *mentioned)
    effects: list[Effect] = []
    if len(request.paths) > MAX_PATHS or len(others) > MAX_PATHS:
        effects += (Effect("read"), Effect("write"))
    if request.command is not None or request.kind == "execute":
        effects += _command_effects(request, workspace, all_paths)
    if request.diffs or request.kind in ("edit", "delete", "move"):
        effects += _file_effects("write", all_paths, request)
    if request.kind == "fetch" or named_urls(request.raw_input):
        urls = named_urls(request.raw_input)
        hosts = dict.fromkeys(host_of(url) for url in urls) or {None: None}
        effects += (Effect("fetch", host=host, mentioned_paths=all_paths) for host in hosts)
        # A `file:` URL reads a file, whatever tool fetches it.
        effects += (Effect("read", path=_file_url_path(url, workspace)) for url in urls[:MAX_PATHS] if is_file_url(url))
    if tool is not None:
        effects.append(Effect("mcp", mcp=tool, mentioned_paths=all_paths))
    match request.kind:
        case "read":
            effects += _file_effects("read", all_paths, request)
        case "search":
            effects += _file_effects("read", all_paths, request) if all_paths else [Effect("search")]
        case "think" | "fetch" if all_paths:
            # It also does something with these files, but nobody knows what.
            effects.append(Effect("other", mentioned_paths=all_paths))
        case "think":
            effects.append(Effect("think"))
        case "execute" | "edit" | "delete" | "move" | "fetch":
            pass
        case _:  # `other`, `switch_mode` or none: a command or a diff, where there is one, already says what it does
            if not effects:
                effects.append(Effect("other", mentioned_paths=all_paths))
    return tuple(effects)


def mcp_tool(request: PermissionRequest) -> tuple[str, str] | None:
    """Return the MCP server and tool of the request; None unless both are certain."""
    return _codex_mcp_tool(request) or mcp_of(request.name)


def _codex_mcp_tool(request: PermissionRequest) -> tuple[str, str] | None:
    """Return the MCP server and tool of a Codex request.

    Codex reports an MCP call as a command and wraps its input. A real command would have more than these three keys.
    """
    match request.raw_input:
        case {"server": str(server), "tool": str(tool), "arguments": _, **more} if not more:
            as_codex = request.kind == "execute" and request.title == f"mcp.{server}.{tool}"
            return (server, tool) if as_codex and request.command is None and not request.diffs else None
        case _:
            return None


def _file_effects(kind: EffectKind, paths: Sequence[ResolvedPath], request: PermissionRequest) -> list[Effect]:
    """Make one effect per file, and one for files that the request leaves open.

    The agent declares its files, or the tool's input names them. A folder in the input names none, and makes it unclear
    where relative paths lead.
    """
    effects = [Effect(kind, path=path) for path in paths]
    if request.paths or names_files(request.raw_input):
        return effects
    # An agent that has us write the file names it then.
    is_decided_later = request.files_through_us and request.kind == "edit" and not paths and request.command is None
    return [Effect(kind, decided_later=is_decided_later), *effects]


# Paths


def resolve_path(path: str, workspace: Workspace) -> ResolvedPath:
    """Follow the links of an absolute path and find it in the workspace."""
    if len(path) > MAX_PATH_BYTES:
        return ResolvedPath(path[:80], error=f"the path {path[:80]}… is too long for a file")
    try:
        real = str(workspace.resolve(path))
    except OutsideWorkspace as error:
        # We do not guess what a tool makes of `~` or `..`: no pattern allows such a path, and any may deny it.
        certain = _real(path) if os.path.isabs(path) and ".." not in path.split("/") else None
        return ResolvedPath(path, real=certain, spellings=_spellings(path, certain, workspace), error=str(error))
    inside = max(_relative_to_folders(real, workspace), key=len)  # seen from the outermost folder that contains it
    return ResolvedPath(path, inside, real, _spellings(path, real, workspace))


def _spellings(path: str, real: str | None, workspace: Workspace) -> tuple[str, ...]:
    """Spell the path as written and as resolved, from the root and from each folder of the workspace."""
    if path == real:
        absolute = {path}
    else:
        written = os.path.normpath(os.path.join(workspace.cwd, _expand_home(path)))
        absolute = {text for text in (real, written, _real(written), _real(path)) if text is not None}
    return tuple({fold(text): None for each in absolute for text in (each, *_relative_to_folders(each, workspace))})


def _expand_home(path: str) -> str:
    try:
        return os.path.expanduser(path)
    except ValueError:  # characters that no user name can have
        return path


def _relative_to_folders(path: str, workspace: Workspace) -> Iterator[str]:
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


def _file_url_path(url: str, workspace: Workspace) -> ResolvedPath | None:
    """Return the file of a `file:` URL; None where that is ambiguous."""
    match = _FILE_URL.fullmatch(url.strip())
    return resolve_path(unquote(match[1]), workspace) if match else None


# Commands


def _command_effects(
    request: PermissionRequest, workspace: Workspace, all_paths: tuple[ResolvedPath, ...]
) -> Iterator[Effect]:
    raw_input = request.raw_input if isinstance(request.raw_input, dict) else {}
    line = command_line(request.command, raw_input)
    folder = working_folder(raw_input, workspace.cwd)
    env = command_environment(raw_input)
    outside = folder is None or not workspace.contains(folder)
    folders = (None,) if outside or folder is None else (_subfolder(folder, workspace),)
    whole = Effect("run", line=line, env=env, outside=outside, folders=folders, mentioned_paths=all_paths)
    if line is None:
        yield msgspec.structs.replace(whole, unclear="it does not say which command")
        return
    script = _read_script(line)
    if script.unclear is not None or not script.commands:
        yield msgspec.structs.replace(whole, unclear=script.unclear or "there is no command in it")
    changes = [each for each in script.commands if each.words and os.path.basename(each.words[0]) in _FOLDER_CHANGING]
    new_folder = _target_inside(changes[0], folder, workspace) if len(changes) == 1 else None
    if changes and new_folder is None:
        whole = msgspec.structs.replace(whole, may_leave=True)
    bases = [each for each in (folder, new_folder) if each is not None and not whole.may_leave]
    paths = _PathCounter(MAX_PATHS)
    for command in script.commands:
        # The `cd` may fail: the commands after it then run where it was.
        is_moved = new_folder is not None and command is not changes[0]
        if env:
            command = msgspec.structs.replace(command, assignments=(*env, *command.assignments))
        run = msgspec.structs.replace(whole, command=command, unclear=command.unclear)
        if is_moved and new_folder is not None:
            run = msgspec.structs.replace(run, folders=(*folders, _subfolder(new_folder, workspace)))
        yield from _argument_effects(run, command, bases, workspace, paths)
        # The folder is known only for commands of the line itself, and only while nothing in it changes the folder.
        base = None if changes or command.via else folder
        for kind, targets in (("read", command.reads), ("write", command.writes)):
            for target in targets:
                path = _redirection_path(target, base, workspace)
                yield msgspec.structs.replace(whole, kind=kind, path=path, command=command, mentioned_paths=())


class _PathCounter:
    """Counts the paths of a request that may still be resolved."""

    def __init__(self, limit: int) -> None:
        self._left = limit

    def take(self) -> bool:
        """Count one more path. Returns False if there are too many."""
        self._left -= 1
        return self._left >= 0


def _subfolder(folder: str, workspace: Workspace) -> ResolvedPath | None:
    """Return the folder that a command runs in; None for the workspace's own, by whatever name."""
    path = resolve_path(os.path.normpath(folder), workspace)
    return None if path.real == str(workspace.cwd) else path


def _argument_effects(
    run: Effect, command: ShellCommand, folders: Sequence[str], workspace: Workspace, paths: _PathCounter
) -> Iterator[Effect]:
    """Yield the command with the files inside that its arguments name, then an effect for each one outside.

    `folders` are those that it may run in, none where that is not known. `paths` limits how many are resolved.
    """
    from dragoman.host.shell.arguments import names_other_repositories
    from dragoman.host.shell.programs import use_of_files

    use = use_of_files(command.words) if command.words else "none"
    if use == "none":
        yield run
        return
    inside: dict[ResolvedPath, None] = {}
    outside: dict[tuple[str, ResolvedPath | None], None] = {}
    for word, text in _argument_paths(command):
        is_absolute = text.startswith(("/", "~"))
        if not is_absolute and not folders and ".." in text.split("/"):
            outside[(word, None)] = None
        for absolute in (text,) if is_absolute else (os.path.join(folder, text) for folder in folders):
            path = resolve_path(absolute, workspace) if paths.take() else None
            if path is None or path.inside is None:
                outside[(word, path)] = None
            else:
                inside[path] = None
    run = msgspec.structs.replace(run, argument_paths=tuple(inside), use_of_arguments=use)
    if command.unclear is None and names_other_repositories(command.words) and any(map(_is_repository, inside)):
        # Git leaves out the settings that we give to it, which protect from planted ones, for another repository.
        reason = "git takes files from another repository, or runs what its settings name"
        run = msgspec.structs.replace(run, unclear=reason, command=msgspec.structs.replace(command, unclear=reason))
    yield run
    kinds: tuple[EffectKind, ...] = ("read",) if use == "read" else ("read", "write")
    for (word, path), kind in product(outside, kinds):
        yield msgspec.structs.replace(run, kind=kind, path=path, argument=word, mentioned_paths=())


def _is_repository(path: ResolvedPath) -> bool:
    """Tell whether git would take this folder for another repository than the workspace's own."""
    real = path.real or path.given
    has = {name: os.path.lexists(os.path.join(real, name)) for name in ("HEAD", "objects", ".git")}
    return (has["HEAD"] and has["objects"]) or (has[".git"] and path.inside != ".")


def _argument_paths(command: ShellCommand) -> Iterator[tuple[str, str]]:
    """Yield the words that may name a file, each with the path in it: `-I/usr/include`, `--file=x`, `if=/dev/sda`."""
    program = os.path.basename(command.words[0])
    for word in command.words[1:]:
        if (command.dynamic and _EXPANSION.search(word)) or (program, word) in _DELIMITERS:
            continue
        if is_file_url(word):
            yield word, unquote(word.strip()[5:]).removeprefix("//localhost").replace("//", "/", 1)
            continue
        for piece in dict.fromkeys(_pieces(word)):
            if piece and piece not in _NO_FILES and len(piece) <= MAX_PATH_BYTES:
                yield word, piece


def _pieces(word: str) -> Iterator[str]:
    """Yield the parts of a word that a program may take for a path."""
    _, equals, value = word.partition("=")
    if _URL_SCHEME.match(word) or (equals and _URL_SCHEME.match(value)):
        # A folder may be called `https:`, and a URL end in the name of the file or folder that is written.
        url = word if _URL_SCHEME.match(word) else value
        yield url
        yield unquote(_QUERY.sub("", url)).removesuffix(".git")
        return
    if word.startswith("-") and ("/" in word or "." in word):
        if options := _SHORT_OPTIONS.match(word):
            yield from (word[at:] for at in range(2, options.end() + 1))
    elif _SHORT_OPTIONS.match(word):
        yield word[2:]
    # Also a word that begins with a dash: after `--` it may be a file. Text may have addresses in it, which are none.
    for piece in (word, *_PIECES.split(_URL_IN_TEXT.sub("", word))[1:]):
        yield piece
        yield piece.removesuffix(".git").removesuffix(".bundle")  # `git clone` names a folder like this


def _read_script(line: str) -> Script:
    from dragoman.host.shell.reader import read_script  # it loads a grammar, and many sessions never run a command

    return read_script(line)


def _target_inside(command: ShellCommand, folder: str | None, workspace: Workspace) -> str | None:
    """Return the folder that a `cd` leads to; None unless that is certainly inside the workspace."""
    words = command.words
    if folder is None or command.dynamic or command.assignments or len(words) != 2 or words[1][:1] in "-+~":
        return None
    target = os.path.normpath(os.path.join(folder, words[1]))
    return target if workspace.contains(target) else None


def _redirection_path(target: str, folder: str | None, workspace: Workspace) -> ResolvedPath | None:
    if _EXPANSION.search(target):
        return None
    if os.path.isabs(target):
        return resolve_path(target, workspace)
    return resolve_path(os.path.join(folder, target), workspace) if folder is not None else None
