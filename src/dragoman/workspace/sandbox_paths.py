"""The files that a command in a sandbox may read and write: `allowed_paths`. The lists are in `sandbox.toml`.

All of it is a list of what is allowed, because Landlock knows no other: what no list names cannot be read. `hidden`
paths are taken out of the folders around them.
"""

from __future__ import annotations

import os
import stat
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Final

import msgspec

from dragoman.errors import InputError
from dragoman.workspace.sandbox_git import git_paths
from dragoman.workspace.sandbox_policy import SandboxPolicy

# Symbolic links that a path leads through at most, as in the kernel.
MAX_LINKS: Final = 40


class SandboxLists(msgspec.Struct, frozen=True):
    """The lists of `sandbox.toml`."""

    system: tuple[str, ...]
    home: tuple[str, ...]
    hidden: tuple[str, ...]
    secrets: tuple[str, ...]
    devices: tuple[str, ...]
    env: dict[str, str]
    unset: dict[str, tuple[str, ...]]


@cache
def sandbox_lists() -> SandboxLists:
    text = (resources.files("dragoman.workspace") / "sandbox.toml").read_text(encoding="utf-8")
    return msgspec.convert(tomllib.loads(text), SandboxLists)


class AllowedPaths(msgspec.Struct, frozen=True, kw_only=True):
    """The real paths that a command may use, all of which exist.

    `hidden` are inside of `read`, and not readable. `fixed` are inside of `write`, and can neither be changed nor
    replaced; therefore `pinned`, the folders on the way to them, cannot be renamed. `replaceable` should be fixed, but
    are symbolic links.
    """

    home: Path
    read: tuple[Path, ...]
    write: tuple[Path, ...]
    hidden: tuple[Path, ...]
    fixed: tuple[Path, ...] = ()
    pinned: tuple[Path, ...] = ()
    replaceable: tuple[Path, ...] = ()
    links: tuple[Path, ...] = ()  # symbolic links on the way to some of them


def allowed_paths(policy: SandboxPolicy, env: Mapping[str, str], temporary: Path, program: str = "") -> AllowedPaths:
    """Find the paths for an agent that is started with this environment. Creates the agent's missing state folders.

    `InputError` where the workspace has secrets in it: what may be written there could not be hidden.
    """
    agents_home = env.get("HOME") or os.path.expanduser("~")
    home = agents_home if policy.users_home is None else str(policy.users_home)
    lists = sandbox_lists()
    own = [policy.hidden] if policy.hidden is not None else []
    # The agent may have a HOME of its own; its tools are those of the user.
    homes = {home: env, os.path.expanduser("~"): os.environ}
    secrets = _existing([*map(Path, homes), *_expand_each(lists.secrets, homes), *own])
    for folder in policy.folders:
        inside = [secret for secret in secrets if secret.is_relative_to(folder)]
        if inside:
            what = "it is a home folder, whose keys" if inside[0] == folder else f"{inside[0]} is in it, and"
            raise InputError(
                f"{folder} cannot be the workspace of a sandbox: {what} could not be hidden",
                guidance="Use a folder for each project, below your home folder.",
            )
    folders = [Path(os.path.realpath(folder)) for folder in policy.folders]
    git = git_paths(folders)
    write = list(folders)
    chosen_to_write = _expand(policy.write, home, env)
    candidates = [*_make_state(policy.state, agents_home, env), *chosen_to_write, *git.write]
    for path in sorted(candidates, key=lambda path: len(path.parts)):  # the outer ones first
        write += _followed([path], _existing(write))
    written = _existing(write)
    write.append(temporary)
    programs = _followed([Path(word) for word in (program, *policy.programs) if word], written)
    tools = _followed([*_program_folders(env, map(str, programs), tuple(homes)), *_python_folders()], written)
    given = [*_expand(lists.system, home, env), *_expand((*lists.home, *policy.read), home, env)]
    given = _followed(given, written)
    # A folder of a tool must not bring the user's home folder with it.
    real_home = Path(os.path.realpath(home))
    tools = [path for path in tools if not any(bar.is_relative_to(os.path.realpath(path)) for bar in secrets)]
    lists_hidden = [*map(Path, homes), *_expand_each((*lists.hidden, *lists.secrets), homes)]
    chosen = _existing(_followed([*_expand(policy.read, home, env), *chosen_to_write], written))
    hidden = [path for path in _existing([*lists_hidden, *own]) if path not in chosen]
    read = _outermost(_existing([*given, *tools, *git.read]), hidden)
    writable = _outermost(_existing(write), ())
    # What the user opens inside of the workspace by `sandbox_write` is open.
    opened = [path for path in _existing(chosen_to_write) if _is_inside(path, policy.folders)]
    fixed = [path for path in git.fixed if not any(path.is_relative_to(folder) for folder in opened)]
    return AllowedPaths(
        home=real_home,
        read=tuple(read),
        write=tuple(writable),
        fixed=tuple(fixed),
        replaceable=git.replaceable,
        pinned=tuple(dict.fromkeys(_folders_between(writable, fixed))),
        hidden=tuple(path for path in hidden if any(path.is_relative_to(folder) for folder in read)),
        links=tuple(dict.fromkeys(_links_on([*given, *tools, *write, Path(home), Path(agents_home)]))),
    )


def _expand(paths: Iterable[str], home: str, env: Mapping[str, str]) -> list[Path]:
    """Replace `~`, `$NAME`, and {config}, {data}, {state}, {cache}, the folders of the XDG base directories."""
    xdg = {"config": ".config", "data": ".local/share", "state": ".local/state", "cache": ".cache"}
    expanded = []
    for text in paths:
        for name, default in xdg.items():
            base = env.get(f"XDG_{name.upper()}_HOME") or f"{home}/{default}"
            text = text.replace(f"{{{name}}}", base)
        if text.startswith("$"):
            name, _, rest = text[1:].partition("/")
            if not env.get(name):
                continue
            text = f"{env[name]}/{rest}"
        elif text == "~" or text.startswith("~/"):
            text = home + text[1:]
        if text.startswith("/"):
            expanded.append(Path(text))
    return expanded


def _expand_each(paths: Sequence[str], homes: Mapping[str, Mapping[str, str]]) -> list[Path]:
    """Expand the paths for each home folder, with its environment."""
    return [path for home, env in homes.items() for path in _expand(paths, home, env)]


def _make_state(texts: Iterable[str], home: str, env: Mapping[str, str]) -> list[Path]:
    """Return the paths of the agent's state. Those that end with `/` are folders, and made where they are missing."""
    paths = []
    for text in texts:
        for path in _expand((text,), home, env):
            paths.append(path)
            if text.endswith("/"):
                try:
                    path.mkdir(mode=0o700, parents=True, exist_ok=True)
                except OSError:
                    pass  # then the agent could not make it either, and says so
    return paths


def _existing(paths: Iterable[Path]) -> list[Path]:
    """Return the real paths of those that exist."""
    found = []
    for path in paths:
        try:
            found.append(Path(os.path.realpath(path, strict=True)))
        except OSError:
            continue
    return list(dict.fromkeys(found))


def _followed(paths: Iterable[Path], writable: Sequence[Path]) -> list[Path]:
    """Leave out the paths that a link in a writable folder leads out of all writable folders.

    A command in an earlier sandbox may have made such a link, to open its target to the next one.
    """

    def is_inside(path: Path) -> bool:
        return any(path.is_relative_to(folder) for folder in writable)

    return [
        path
        for path in paths
        if is_inside(Path(os.path.realpath(path))) or not any(map(is_inside, _link_folders(path)))
    ]


def _link_folders(path: Path) -> Iterator[Path]:
    """Yield the real folder of each symbolic link that an absolute path leads through."""
    current, names, count = Path("/"), list(path.parts[1:]), 0
    while names and count < MAX_LINKS:
        name = names.pop(0)
        if name == "..":
            current = current.parent
            continue
        try:
            target = Path(os.readlink(current / name))
        except OSError:  # no link, or nothing at all
            current /= name
            continue
        count += 1
        yield current
        if target.is_absolute():
            current = Path("/")
        names[:0] = target.parts[1:] if target.is_absolute() else target.parts


def _outermost(paths: Sequence[Path], hidden: Sequence[Path]) -> list[Path]:
    """Leave out paths that lie in another one, unless a hidden folder is between them."""

    def covers(outer: Path, path: Path) -> bool:
        if path == outer or outer not in path.parents:  # of most pairs
            return False
        return not any(path.is_relative_to(each) and each.is_relative_to(outer) for each in hidden)

    unique = list(dict.fromkeys(paths))
    return [path for path in unique if not any(covers(outer, path) for outer in unique)]


def _folders_between(writable: Sequence[Path], fixed: Sequence[Path]) -> Iterator[Path]:
    """Yield the folders inside of the writable ones that have a fixed path in them, the outer ones first."""
    for path in fixed:
        for above in reversed(path.parents):
            if _is_inside(above, writable):
                yield above


def _is_inside(path: Path, folders: Iterable[Path]) -> bool:
    return any(path != folder and path.is_relative_to(folder) for folder in folders)


def _program_folders(env: Mapping[str, str], programs: Iterable[str], homes: Sequence[str]) -> list[Path]:
    """Return the folders on PATH and of these files, with the libraries beside them.

    Not `share` in a home folder: agents keep their logins there.
    """
    folders = [Path(folder) for folder in env.get("PATH", os.defpath).split(os.pathsep) if folder.startswith("/")]
    files = [Path(program) for program in programs if os.path.isfile(program)]
    folders += [file.parent for file in files] + [Path(os.path.realpath(file)).parent for file in files]
    found = [*files]  # also where a folder cannot be read: a script in the home folder itself
    for folder in folders:
        parts = folder.parts
        if "node_modules" in parts:
            found.append(Path(*parts[: parts.index("node_modules") + 1]))
        else:
            found.append(folder)
            if folder.name in ("bin", "sbin"):
                is_users = any(folder.is_relative_to(home) for home in homes)
                beside = ("lib", "lib64", "libexec", "include", *(() if is_users else ("share",)))
                found += [folder.parent / name for name in beside]
    return found


def _python_folders() -> list[Path]:
    """Return our own interpreter and package: the demo agent and the tool server's shim run on them."""
    package = Path(__file__).parents[2]
    return [Path(sys.prefix), Path(sys.base_prefix), package]


def _links_on(paths: Iterable[Path]) -> Iterator[Path]:
    """Yield the symbolic links on the way to the paths, outermost first: `/bin`, or a HOME that is a link."""
    for path in paths:
        for above in (*reversed(path.parents), path):
            try:
                if stat.S_ISLNK(os.lstat(above).st_mode):
                    yield Path(above)
                    yield from _links_on([Path(os.path.join(above.parent, os.readlink(above)))])
                    break
            except OSError:
                break


def split_around(folder: Path, hidden: Sequence[Path]) -> tuple[list[Path], list[Path]]:
    """Return the paths that make up a folder without the hidden ones, and the folders that may only be listed.

    Landlock allows folders whole; so the folders on the way to a hidden path are taken apart.
    """
    inside = [path for path in hidden if path.is_relative_to(folder)]
    if not inside:
        return [folder], []
    if folder in inside:
        return [], []
    whole, listed = [], [folder]
    try:
        children = sorted(folder.iterdir())
    except OSError:
        return [], []
    for child in children:
        if child.is_symlink():
            continue  # its target is allowed, or it is not
        paths, lists = split_around(child, inside)
        whole += paths
        listed += lists
    return whole, listed
