"""What an agent inherits, and where its command is found.

The user's own environment is what makes agents work (keys, proxies, certificates, version managers), so all of it is
handed on, but for the few variables of `WITHHELD`, each of which is known to mislead or to break. A command is looked
for where the user's terminal would find it, also when dragoman was not started from a terminal.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from dragoman.errors import CommandNotFound, InputError

OURS = "DRAGOMAN_"
"""Our own settings and secrets (tokens, the home folder). An agent gets them only where they are given by name."""

WITHHELD: Mapping[str, str] = {
    # An agent that runs us in its own shell tool marks that shell; the agent that we start must not believe itself
    # inside of it.
    "CLAUDECODE": "claude refuses to start inside itself",
    "CLAUDE_CODE_ENTRYPOINT": "claude reports by whom it was started: not by the claude around us",
    "CLAUDE_CODE_SSE_PORT": "claude would attach to the editor of the claude around us",
    # Promises made to this process alone.
    "NODE_CHANNEL_FD": "Node ends at start when the descriptor it names was not passed on",
    "NODE_CHANNEL_SERIALIZATION_MODE": "belongs to NODE_CHANNEL_FD",
    "NODE_UNIQUE_ID": "Node would believe itself a cluster's worker",
    "ELECTRON_RUN_AS_NODE": "editors that an agent opens would start as Node; set when an editor started us",
    "VSCODE_INSPECTOR_OPTIONS": "a debugger that is attached to us would stop every agent written in Node",
    "NOTIFY_SOCKET": "an agent could tell the service manager that we are ready, or stopping",
    "WATCHDOG_PID": "the service manager watches us, not the agent",
    "WATCHDOG_USEC": "the service manager watches us, not the agent",
    "LISTEN_FDS": "sockets that were passed to us, and not on",
    "LISTEN_FDNAMES": "belongs to LISTEN_FDS",
    "LISTEN_PID": "belongs to LISTEN_FDS",
    "__PYVENV_LAUNCHER__": "on macOS, every Python below would believe itself in our virtual environment",
    # Set by git for its hooks: from there, git in the workspace would work on the hook's repository.
    "GIT_DIR": "names the repository of the hook that we run in",
    "GIT_WORK_TREE": "names the repository of the hook that we run in",
    "GIT_INDEX_FILE": "names the index of the hook that we run in",
    "GIT_PREFIX": "names the repository of the hook that we run in",
    "GIT_COMMON_DIR": "names the repository of the hook that we run in",
    "GIT_OBJECT_DIRECTORY": "names the objects of the hook that we run in",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES": "names the objects of the hook that we run in",
}
"""What an agent does not inherit, and why."""

FOLDERS = (
    "~/.local/bin",
    "~/bin",
    "~/.volta/bin",
    "~/.bun/bin",
    "~/.cargo/bin",
    "~/.deno/bin",
    "~/.pyenv/shims",
    "~/.asdf/shims",
    "~/.local/share/mise/shims",
    "~/.local/share/pnpm",
    "~/Library/pnpm",
    "~/.npm-global/bin",
    "~/.yarn/bin",
    "~/.fnm/aliases/default/bin",
    "~/.local/share/fnm/aliases/default/bin",
    "~/.opencode/bin",
    "~/.claude/local",
    "~/go/bin",
    "~/.nix-profile/bin",
    "/opt/homebrew/bin",
    "/home/linuxbrew/.linuxbrew/bin",
    "/usr/local/bin",
    "/usr/bin",
    "/bin",
    "/snap/bin",
)
"""Where installers put agents, for when no shell tells: version managers and package managers, then the system."""


def agent_environment(base: Mapping[str, str], extra: Mapping[str, str | None]) -> dict[str, str]:
    """The environment for an agent: `base` without what is withheld, then `extra`; a value of None takes a name away.

    The marker by which the reaper knows our processes is not put here but by `spawn`, for each process its own.
    """
    env = {name: value for name, value in base.items() if name not in WITHHELD and not name.startswith(OURS)}
    for name, given in extra.items():
        if given is None:
            env.pop(name, None)
        else:
            env[name] = given
    return env


def find_command(command: str, env: Mapping[str, str], *, cwd: Path | None = None) -> Path | None:
    """The file that `command` means, or None. May block for seconds, in the user's login shell.

    A name with a slash is taken relative to `cwd`. Others are looked for on PATH, then on the login shell's, then in
    the folders that installers use.
    """
    if "/" in command:
        file = _file(command, env, cwd)
        return file if _is_program(file) else None
    found = _on_path(command, env, cwd)
    if found is None and (beyond := _beyond_path(command, env)):
        found, _ = beyond
    return found


async def resolve(
    command: Sequence[str], env: Mapping[str, str], *, cwd: Path | None = None, install: str | None = None
) -> tuple[list[str], dict[str, str]]:
    """The command with its program as an absolute path, and the environment to start it in.

    If the program was found outside of PATH, its folder comes first in the new PATH, so that what lies beside it is
    found too (a script's `#!/usr/bin/env node`), and the rest of the login shell's PATH comes last.
    A name with a slash is taken relative to `cwd`. Raises `CommandNotFound`, with `install` as the line that helps.
    """
    if not command or not command[0]:
        raise InputError("There is no command to start.", guidance="Give the program and its arguments.")
    program, *arguments = command
    if "/" in program:
        # Whether it is there is not asked: starting it says best what is wrong with it.
        return [str(_file(program, env, cwd)), *arguments], dict(env)
    if path := _on_path(program, env, cwd):
        return [str(path), *arguments], dict(env)
    if found := await asyncio.to_thread(_beyond_path, program, env):
        path, search = found
        return [str(path), *arguments], {**env, "PATH": search}
    raise CommandNotFound(
        f"No program named {program} was found: not on PATH, "
        "not on the login shell's, and not in the folders that installers use.",
        install=install,
    )


def _file(command: str, env: Mapping[str, str], cwd: Path | None) -> Path:
    if command.startswith("~/"):  # as a shell would read it; commands also come from files
        command = _home(env) + command[1:]
    return Path.cwd() / (cwd or "") / command


def _on_path(command: str, env: Mapping[str, str], cwd: Path | None) -> Path | None:
    # An empty entry means the current folder, which for the agent is `cwd`.
    base = Path.cwd() / (cwd or "")
    return _first_program(command, (base / folder for folder in env.get("PATH", os.defpath).split(os.pathsep)))


def _beyond_path(command: str, env: Mapping[str, str]) -> tuple[Path, str] | None:
    from dragoman.proc.loginshell import login_path  # seldom needed, and not cheap to import

    login = (login_path(env) or "").split(os.pathsep)
    path = _first_program(command, (Path(folder) for folder in login if folder.startswith("/")))
    path = path or _first_program(command, _folders(env))
    if path is None:
        return None
    search = [str(path.parent), *env.get("PATH", os.defpath).split(os.pathsep), *login]
    return path, os.pathsep.join(dict.fromkeys(folder for folder in search if folder))


def _first_program(command: str, folders: Iterable[Path]) -> Path | None:
    return next((folder / command for folder in folders if _is_program(folder / command)), None)


def _is_program(path: Path) -> bool:
    try:
        return path.is_file() and os.access(path, os.X_OK)
    except (OSError, ValueError):
        return False


def _folders(env: Mapping[str, str]) -> Iterator[Path]:
    home = _home(env)
    yield from _node_versions(Path(env.get("NVM_DIR") or f"{home}/.nvm"))
    for folder in FOLDERS:
        yield Path(folder.replace("~", home, 1))


def _home(env: Mapping[str, str]) -> str:
    return env.get("HOME") or os.path.expanduser("~")


def _node_versions(nvm: Path) -> list[Path]:
    """The folders of all versions that nvm has installed, newest first; nvm itself chooses one, in a shell only."""
    try:
        versions = list((nvm / "versions" / "node").iterdir())
    except OSError:
        return []
    versions.sort(key=lambda folder: [int(number) for number in re.findall(r"\d+", folder.name)], reverse=True)
    return [version / "bin" for version in versions]
