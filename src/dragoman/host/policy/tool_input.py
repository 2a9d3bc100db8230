"""The input of an agent's tool: the paths, URLs, command line, folder and variables in it, found by their keys.

Agents name the fields of their tools' input as they like. Where a field may mean more than one thing, the answer is
that it is not known. Nothing is resolved on disk.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Final

from dragoman.host.requests import ARGUMENT_KEYS, COMMAND_KEYS
from dragoman.workspace.paths import MAX_PATH_BYTES

# Keys of a tool's input whose values are paths, lower case and without underscores: by their ending, or as a whole.
_FOLDER_ENDINGS: Final = ("dir", "dirs", "directory", "directories", "folder", "folders")
_PATH_ENDINGS: Final = ("path", "paths", "file", "files", "filename", "filenames", *_FOLDER_ENDINGS)
_PATH_KEYS: Final = frozenset({"source", "src", "from", "destination", "dest", "dst", "target", "to"})
# Keys for the folder that a command runs in.
_FOLDER_KEYS: Final = frozenset({"cwd", "workdir", "workingdir", "workingdirectory", "dir", "directory", "dirpath"})
_ENVIRONMENT_KEYS: Final = frozenset({"env", "environment", "envvars"})
# Keys for the text of a file, which may look like a path and is none, and for a text that names files of its own.
_TEXT_ENDINGS: Final = ("content", "contents", "text", "string", "str", "before", "after", "description", "explanation")
_PATCH_KEYS: Final = frozenset({"diff", "patch"})
# A text that leads elsewhere, if it is taken as a path: absolute, upwards, or different for each user or system.
_LEADS_ELSEWHERE: Final = re.compile(r"(/|~|\\|[A-Za-z]:[\\/]|[a-z+]+:/)[^\s*]*|([^\s*]*[/\\])?\.\.([/\\][^\s*]*)?")
# The beginning of a path of which nobody knows what a tool makes: a variable, a drive, the scheme of a URL.
_EXPANDED: Final = re.compile(r"[$%]|[A-Za-z][A-Za-z0-9+.-]*:")

# Paths of one request that are resolved. Each costs system calls while other sessions wait, and nobody reads more of
# them before approving. Of the rest we only know that they exist.
MAX_PATHS: Final = 256


def mentioned_paths(raw_input: object, cwd: Path, *, nested: bool = False, folders: bool = True) -> Iterator[str]:
    """Yield the paths in a tool's input, found by their keys, relative ones joined to `cwd`.

    Without `folders`, those under keys that name a folder are left out.
    """
    unvisited = [raw_input]
    while unvisited:
        item = unvisited.pop()
        if nested and isinstance(item, list):
            unvisited += (each for each in item if isinstance(each, dict | list))
        if not isinstance(item, dict):
            continue
        for key, value in item.items():
            if nested and isinstance(value, dict | list):
                unvisited.append(value)
            name = _normalized(key)
            if not (name.endswith(_PATH_ENDINGS) or name in _PATH_KEYS):
                continue
            if not folders and (name.endswith(_FOLDER_ENDINGS) or name in _FOLDER_KEYS):
                continue
            for path in value if isinstance(value, list) else [value]:
                path = path.strip("\r\n") if isinstance(path, str) else ""  # as many tools do
                if path and "\n" not in path:
                    # We do not guess what a tool makes of `~`: left as it is, the path is outside.
                    yield path if path.startswith("~") else os.path.join(cwd, path)


def _normalized(key: object) -> str:
    return str(key).lower().replace("_", "")


def named_urls(raw_input: object) -> list[str]:
    """Return the URLs in a tool's input; of a URI only that of a file."""
    if not isinstance(raw_input, dict):
        return []
    values = {_normalized(key): value for key, value in raw_input.items()}
    candidates = [values.get("url"), *(urls if isinstance(urls := values.get("urls"), list) else ())]
    # The URI of a resource may be anything: `memo://…`.
    uris = [values.get("uri"), *(uris if isinstance(uris := values.get("uris"), list) else ())]
    candidates += (uri for uri in uris if isinstance(uri, str) and is_file_url(uri))
    return [url for url in candidates if isinstance(url, str)]


def is_file_url(url: str) -> bool:
    """Tell whether the URL names a local file, in any spelling that tools accept."""
    return url.strip().lower().startswith("file:")


def names_files(raw_input: object) -> bool:
    """Tell whether a tool's input names its files, and nothing in it makes that doubtful.

    Doubtful are folders, from which other paths may be relative; paths that begin with a variable or a scheme, since
    nobody knows what the tool makes of them; patches, which name files themselves; and other texts that are paths to
    elsewhere.
    """
    if isinstance(raw_input, dict) and any(
        value and _normalized(key) in _FOLDER_KEYS for key, value in raw_input.items()
    ):
        return False
    paths = list(islice(mentioned_paths(raw_input, Path(), nested=True), MAX_PATHS))
    files = list(islice(mentioned_paths(raw_input, Path(), nested=True, folders=False), MAX_PATHS))
    if not files or len(files) != len(paths):
        return False
    return not any(_may_name_another_file(key, text) for key, text in _texts(raw_input))


def _may_name_another_file(key: str, text: str) -> bool:
    if key.endswith(_PATH_ENDINGS) or key in _PATH_KEYS:
        return _EXPANDED.match(text.lstrip()) is not None
    if key.endswith(_TEXT_ENDINGS):
        return False
    return key in _PATCH_KEYS or (len(text) <= MAX_PATH_BYTES and bool(_LEADS_ELSEWHERE.fullmatch(text.strip())))


def _texts(raw_input: object) -> Iterator[tuple[str, str]]:
    """Yield each text in a tool's input with its key."""
    unvisited: list[tuple[str, object]] = [("", raw_input)]
    while unvisited:
        key, value = unvisited.pop()
        if isinstance(value, str):
            yield key, value
        elif isinstance(value, dict):
            unvisited += ((_normalized(name), each) for name, each in value.items())
        elif isinstance(value, list):
            unvisited += ((key, each) for each in value)


def command_line(command: str | None, raw_input: dict[str, Any]) -> str | None:
    """Return the command line with any separate arguments; None where the two cannot be put together."""
    separate = [raw_input[key] for key in ARGUMENT_KEYS if raw_input.get(key) not in (None, "", [])]
    if len(_distinct_commands(raw_input)) > 1:
        return None
    if command is None or not separate:
        return command
    program = next((raw_input[key] for key in COMMAND_KEYS if raw_input.get(key)), command)
    match [program if isinstance(program, list) else [program], *separate]:
        case [list(first), list(rest)] if all(isinstance(word, str) for word in (*first, *rest)):
            return shlex.join((*first, *rest))
        case _:
            return None


def _distinct_commands(raw_input: dict[str, Any]) -> list[object]:
    """List the commands that the input names: of two different ones, nobody can tell which one runs."""
    commands: list[object] = []
    for key in COMMAND_KEYS:
        if raw_input.get(key) not in (None, "", [], *commands):
            commands.append(raw_input[key])
    return commands


def working_folder(raw_input: dict[str, Any], cwd: Path) -> str | None:
    """Return the folder that a command with this input runs in; None where that is ambiguous."""
    folders = [
        value for key, value in raw_input.items() if _normalized(key) in _FOLDER_KEYS and value not in (None, "")
    ]
    match folders:
        case []:
            return str(cwd)
        case [str(folder), *others] if not folder.startswith("~") and all(other == folder for other in others):
            return os.path.join(cwd, folder)
        case _:
            return None


def command_environment(raw_input: dict[str, Any]) -> tuple[str, ...]:
    """Return the variables set for the whole command. A value of any form counts as something that is set."""
    variables: list[str] = []
    for key, value in raw_input.items():
        if _normalized(key) not in _ENVIRONMENT_KEYS or not value:
            continue
        if isinstance(value, dict):
            variables += (f"{name}={text}" for name, text in value.items())
        else:
            variables.append(f"{key}={value}")
    return tuple(variables)
