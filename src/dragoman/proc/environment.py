"""The environment of an agent, and the search for its command.

Agents need the user's own environment (keys, proxies, certificates, version managers), so they inherit all of it except
the few variables in `WITHHELD_VARIABLES`, each of which is known to mislead or break an agent. It gets `GIT_SETTINGS`,
so that a folder which the agent was led to write cannot make git run programs. A command is found where the user's
terminal would find it, also when Dragoman was not started from a terminal.
"""

from __future__ import annotations

import asyncio
import os
import pwd
import re
import signal
import subprocess
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from dragoman.errors import CommandNotFound, InputError
from dragoman.proc._reaper_main import signal_group
from dragoman.proc.reaper import reaper

OWN_PREFIX = "DRAGOMAN_"
"""The prefix of Dragoman's own settings and secrets. An agent gets these only if its preset names them."""

WITHHELD_VARIABLES: Mapping[str, str] = {
    # An agent whose shell tool runs Dragoman marks that shell; the agent that Dragoman starts must not believe that it
    # runs inside the other one.
    "CLAUDECODE": "claude refuses to start inside itself",
    "CLAUDE_CODE_ENTRYPOINT": "claude reports who started it: not the claude around Dragoman",
    "CLAUDE_CODE_SSE_PORT": "claude would attach to the editor of the claude around Dragoman",
    # Meant for this process alone.
    "NODE_CHANNEL_FD": "Node exits at start when the descriptor that it names was not passed on",
    "NODE_CHANNEL_SERIALIZATION_MODE": "belongs to NODE_CHANNEL_FD",
    "NODE_UNIQUE_ID": "Node would believe that it is a worker of a cluster",
    "ELECTRON_RUN_AS_NODE": "editors that an agent opens would start as Node; set when an editor started Dragoman",
    "VSCODE_INSPECTOR_OPTIONS": "a debugger attached to Dragoman would stop every agent written in Node",
    "NOTIFY_SOCKET": "an agent could tell the service manager that Dragoman is ready, or stopping",
    "WATCHDOG_PID": "the service manager watches Dragoman, not the agent",
    "WATCHDOG_USEC": "the service manager watches Dragoman, not the agent",
    "LISTEN_FDS": "sockets that were passed to Dragoman alone",
    "LISTEN_FDNAMES": "belongs to LISTEN_FDS",
    "LISTEN_PID": "belongs to LISTEN_FDS",
    "__PYVENV_LAUNCHER__": "on macOS, every Python of the agent would use Dragoman's virtual environment",
    # Set by git for its hooks: from there, git in the workspace would work on the hook's repository.
    "GIT_DIR": "names the repository of the git hook that runs Dragoman",
    "GIT_WORK_TREE": "names the repository of the git hook that runs Dragoman",
    "GIT_INDEX_FILE": "names the index of the git hook that runs Dragoman",
    "GIT_PREFIX": "names the repository of the git hook that runs Dragoman",
    "GIT_COMMON_DIR": "names the repository of the git hook that runs Dragoman",
    "GIT_OBJECT_DIRECTORY": "names the objects of the git hook that runs Dragoman",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES": "names the objects of the git hook that runs Dragoman",
}
"""The variables that an agent does not inherit, and the reasons."""

GIT_SETTINGS: Mapping[str, str] = {
    # Any folder with HEAD, objects and refs is a repository to git, and its settings name programs that git runs.
    "safe.bareRepository": "explicit",
    # A program that `git status` runs. It can be set in a repository that somebody else has made.
    "core.fsmonitor": "false",
}
"""Settings of git in the environment of agents and terminals, above those of any repository."""

INSTALL_FOLDERS = (
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
"""The folders of version managers and package managers, then of the system; searched after the login shell's PATH."""


def agent_environment(base: Mapping[str, str], extra: Mapping[str, str | None]) -> dict[str, str]:
    """Return the environment of an agent: `base` without the withheld variables, with `extra`; None removes a variable.

    `GIT_SETTINGS` come after the settings of git that it has already, so that they count.
    `spawn` adds the marker by which the reaper finds the process, a different one for each.
    """
    env = {
        name: value
        for name, value in base.items()
        if name not in WITHHELD_VARIABLES and not name.startswith(OWN_PREFIX)
    }
    for name, value in extra.items():
        if value is None:
            env.pop(name, None)
        else:
            env[name] = value
    return _with_git_settings(env)


def _with_git_settings(env: dict[str, str]) -> dict[str, str]:
    text = env.get("GIT_CONFIG_COUNT", "")
    count = int(text) if text.isascii() and text.isdigit() and len(text) < 4 else 0
    present = {env.get(f"GIT_CONFIG_KEY_{at}"): env.get(f"GIT_CONFIG_VALUE_{at}") for at in range(count)}
    for key, value in GIT_SETTINGS.items():
        if present.get(key) != value:
            env |= {f"GIT_CONFIG_KEY_{count}": key, f"GIT_CONFIG_VALUE_{count}": value}
            count += 1
    env["GIT_CONFIG_COUNT"] = str(count)
    return env


def find_command(command: str, env: Mapping[str, str], *, cwd: Path | None = None) -> Path | None:
    """Return the file of a command, or None. May block for seconds, in the user's login shell.

    A name with a slash is relative to `cwd`. Others are searched on PATH, then on the login shell's PATH, then in the
    folders of installers.
    """
    if "/" in command:
        file = _file(command, env, cwd)
        return file if _is_program(file) else None
    path = _on_path(command, env, cwd)
    if path is None and (outside := _find_beyond_path(command, env)):
        path, _ = outside
    return path


async def resolve_command(
    command: Sequence[str], env: Mapping[str, str], *, cwd: Path | None = None, install: str | None = None
) -> tuple[list[str], dict[str, str]]:
    """Return the command with its program as an absolute path, and the environment to start it in.

    If the program was found outside of PATH, its folder comes first in the new PATH, so that the programs beside it are
    found too (a script's `#!/usr/bin/env node`), and the rest of the login shell's PATH comes last. A name with a slash
    is relative to `cwd`. Raises `CommandNotFound`, with `install` as the line that installs the program.
    """
    if not command or not command[0]:
        raise InputError("There is no command to start.", guidance="Give the program and its arguments.")
    program, *arguments = command
    if "/" in program:
        # Existence is not checked: the error at start says best what is wrong.
        return [str(_file(program, env, cwd)), *arguments], dict(env)
    if path := _on_path(program, env, cwd):
        return [str(path), *arguments], dict(env)
    if outside := await asyncio.to_thread(_find_beyond_path, program, env):
        path, search = outside
        return [str(path), *arguments], {**env, "PATH": search}
    raise CommandNotFound(
        f"Found no program named {program}: not on PATH, "
        "not on the login shell's PATH, and not in the folders of installers.",
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


def _find_beyond_path(command: str, env: Mapping[str, str]) -> tuple[Path, str] | None:
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
    for folder in INSTALL_FOLDERS:
        yield Path(folder.replace("~", home, 1))


def _home(env: Mapping[str, str]) -> str:
    return env.get("HOME") or os.path.expanduser("~")


def _node_versions(nvm: Path) -> list[Path]:
    """Return the folders of all versions that nvm has installed, newest first; nvm chooses one only in a shell."""
    try:
        versions = list((nvm / "versions" / "node").iterdir())
    except OSError:
        return []
    versions.sort(key=lambda folder: [int(number) for number in re.findall(r"\d+", folder.name)], reverse=True)
    return [version / "bin" for version in versions]


# The PATH of the user's login shell, which programs started by a desktop or a service do not have

LOGIN_SHELL_TIMEOUT_S = 5.0
"""Seconds. Version managers make some shells slow; one that needs longer most likely waits for input."""

PATH_BEGIN, PATH_END = "-- dragoman: path begins --", "-- dragoman: path ends --"

_paths: dict[tuple[str, str], str | None] = {}
_lock = threading.Lock()


def login_path(env: Mapping[str, str]) -> str | None:
    """Return the PATH that the login shell of `env` (SHELL, HOME) sets, or None. Blocks; runs once per process."""
    key = (env.get("SHELL") or _shell_of_user(), env.get("HOME", ""))
    with _lock:
        if key not in _paths:
            _paths[key] = _run_login_shell(key[0], env)
        return _paths[key]


def _run_login_shell(shell: str, env: Mapping[str, str]) -> str | None:
    import tempfile  # rarely needed, and slow to import

    reaper().ensure()
    # Marks around the PATH, because start-up files print other text; each as its own argument, because shells disagree
    # on the characters that may follow a variable's name.
    script = f"printf '\\n%s\\n' '{PATH_BEGIN}' \"$PATH\" '{PATH_END}'"
    # A file, not a pipe: a daemon that the start-up files start would hold a pipe open.
    with tempfile.TemporaryFile() as output:
        try:
            process = subprocess.Popen(
                # Interactive as well, because nvm and others write themselves into the interactive shell's file.
                [shell, "-l", "-i", "-c", script],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.DEVNULL,
                env=dict(env),
                cwd=env.get("HOME") or None,
                start_new_session=True,  # away from this terminal: an interactive shell would take it over
            )
        except (OSError, ValueError):
            return None
        # Known to the reaper only while it runs, and without a marker: daemons of the start-up files are the user's.
        reaper().add(process.pid)
        try:
            process.wait(LOGIN_SHELL_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            signal_group(process.pid, signal.SIGKILL)
            process.wait()
        finally:
            reaper().remove(process.pid)
        output.seek(0)
        return parse_path(output.read().decode("utf-8", "surrogateescape"))


def parse_path(output: str) -> str | None:
    """Return the PATH between the marks, if it looks like one."""
    _, has_begin, rest = output.rpartition(f"{PATH_BEGIN}\n")
    path, has_end, _ = rest.partition(f"\n{PATH_END}")
    path = path.strip("\n")
    return path if has_begin and has_end and path.startswith("/") and "\n" not in path else None


def _shell_of_user() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_shell or "/bin/sh"
    except KeyError:  # a container's user id without a name
        return "/bin/sh"


_SECRET_NAMES = re.compile(r"key|token|secret|passw|passphrase|credential|auth(?!or)|bearer|cookie", re.IGNORECASE)

# A value that looks random: long, of one piece and with capital and small letters and digits. No path is, and no
# model's name.
_LOOKS_RANDOM = re.compile(r"(?=.*[A-Z])(?=.*[a-z])(?=.*[0-9])[A-Za-z0-9_+=.~-]{20,}")


def secret_variables(variables: Mapping[str, str | None]) -> dict[str, str]:
    """Return the variables of an environment that may be secret: by their name, or by their value.

    All others stay readable in the journal: a project's name or a folder in a variable is also a part of paths.
    """
    return {
        name: value
        for name, value in variables.items()
        if value and (_SECRET_NAMES.search(name) or _LOOKS_RANDOM.fullmatch(value))
    }
