"""Isolation as data: `IsolationNeeds`, the login of an agent; `IsolationPlan`, what one agent gets; its environment.

An isolated agent has a HOME of its own with nothing in it but its login, and only the variables that a list names.
Light to import, because every agent's spec may have a plan. `isolated_home` does what a plan says.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

import msgspec

from dragoman.protocol.models import IsolationReport
from dragoman.protocol.requests import Isolation

PASSED_VARIABLES: Final = (
    *("PATH", "LANG", "LANGUAGE", "LC_*", "TZ", "TERM", "COLORTERM", "NO_COLOR", "USER", "LOGNAME", "SHELL"),
    # The way to the network: an agent that cannot reach its model is of no use.
    *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"),
    # The way to the libraries of programs on PATH, where a system has them elsewhere.
    *("LD_LIBRARY_PATH", "NIX_LD", "NIX_LD_LIBRARY_PATH", "JAVA_HOME"),
)
"""Variables that every isolated agent gets, as far as they are set; `*` stands for any characters."""

XDG_FOLDERS: Final = {
    "XDG_CONFIG_HOME": ".config",
    "XDG_DATA_HOME": ".local/share",
    "XDG_STATE_HOME": ".local/state",
    "XDG_CACHE_HOME": ".cache",
}
"""The folders of the XDG base directories, by their variables, below HOME."""

TOOL_FOLDERS: Final = {
    "NVM_DIR": ".nvm",
    "VOLTA_HOME": ".volta",
    "FNM_DIR": ".local/share/fnm",
    "PYENV_ROOT": ".pyenv",
    "RBENV_ROOT": ".rbenv",
    "ASDF_DATA_DIR": ".asdf",
    "MISE_DATA_DIR": ".local/share/mise",
    "RUSTUP_HOME": ".rustup",
}
"""Folders of version managers: their programs on PATH find the real ones there, by HOME unless the variable is set."""

ISOLATED_FOLDER: Final = "isolated"
"""The folder of isolated homes, in Dragoman's home folder."""

TEMPORARY_VARIABLES: Final = ("TMPDIR", "TMP", "TEMP")


class IsolationNeeds(msgspec.Struct, frozen=True, kw_only=True):
    """The needs of an agent in isolation, from its preset.

    `login`: the files that hold its login. `settings`: keys of its settings files without which the login is not used,
    such as the chosen way to log in; `a.b` is the key `b` in the table `a`. `variables`: those that name folders of its
    own, with their defaults. `environment`: the variables of its keys and of its model's address.

    A path begins with `~/`, with `$NAME/` for a name in `variables`, or with {config}, {data}, {state} or {cache}.
    """

    login: tuple[str, ...] = ()
    settings: dict[str, tuple[str, ...]] = {}
    variables: dict[str, str] = {}
    environment: tuple[str, ...] = ()


class IsolationPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The isolation of one agent. `name` is that of its folder in `root`; agents with one name share a HOME.

    `keep`: the folder stays while a session of the journal needs it; otherwise it is removed when the agent has ended.
    `is_known`: the agent goes on with a session, so that the folder must be there already.
    """

    isolation: Isolation
    root: Path
    name: str
    keep: bool = False
    is_known: bool = False

    @property
    def home(self) -> Path | None:
        """The HOME of the agent; None for the user's."""
        return self.root / self.name / "home" if self.isolation.home else None


def new_isolated_name() -> str:
    """Return an unguessable name for an isolated home."""
    return secrets.token_hex(8)


def real_path(text: str, needs: IsolationNeeds, environ: Mapping[str, str], home: Path) -> Path:
    """Return the path of an agent's file for a user with this environment and HOME."""
    first, _, rest = text.partition("/")
    if first == "~":
        return home / rest
    if first.startswith("$"):
        if chosen := environ.get(first[1:]):
            return Path(chosen) / rest
        return home / _below_home(needs.variables[first[1:]]) / rest
    variable = f"XDG_{first[1:-1].upper()}_HOME"
    return Path(environ.get(variable) or home / XDG_FOLDERS[variable]) / rest


def _below_home(default: str) -> str:
    """Return the default of a variable that names a folder, relative to HOME."""
    return default.removeprefix("~").removeprefix("/")


def path_in_home(text: str, needs: IsolationNeeds) -> Path:
    """Return where an isolated agent has the file, relative to its HOME."""
    return real_path(text, needs, {}, Path())


def is_path(text: str, variables: Collection[str]) -> bool:
    """Return whether a preset may name a file so: below HOME, by `~`, one of these variables, or an XDG folder."""
    first, slash, rest = text.partition("/")
    parts = rest.split("/")
    known = ("~", *(f"${name}" for name in variables), "{config}", "{data}", "{state}", "{cache}")
    return bool(slash) and first in known and all(part not in ("", ".", "..") for part in parts)


def is_passed(name: str, patterns: Collection[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def isolated_environment(
    environ: Mapping[str, str],
    isolation: Isolation,
    needs: IsolationNeeds,
    *,
    given: Collection[str] = (),
    home: Path | None = None,
    temporary: Path | None = None,
) -> dict[str, str]:
    """Return the whole environment of an isolated agent. `environ` is the one that it would have otherwise.

    `given` are variables that the caller set for it by name. `home` and `temporary` are folders of its own; without
    one, it has the user's.
    """
    patterns = (*PASSED_VARIABLES, *needs.environment, *isolation.environment)
    env = {name: value for name, value in environ.items() if name in given or is_passed(name, patterns)}
    folders = ("HOME", *XDG_FOLDERS, *needs.variables)
    if home is None:
        env |= {name: environ[name] for name in folders if name in environ}
    else:
        users_home = Path(environ.get("HOME") or Path.home())
        for name, folder in TOOL_FOLDERS.items():
            if chosen := environ.get(name):
                env[name] = chosen
            elif (users_home / folder).is_dir():
                env[name] = str(users_home / folder)
        env |= {"HOME": str(home), **{name: str(home / folder) for name, folder in XDG_FOLDERS.items()}}
        env |= {name: str(home / _below_home(default)) for name, default in needs.variables.items()}
    for name in TEMPORARY_VARIABLES:
        if temporary is not None:
            env[name] = str(temporary)
        elif name in environ:
            env[name] = environ[name]
    return env


def describe_isolation(report: IsolationReport) -> str:
    """Return one line about what an isolated agent got: names, never values."""
    login = f"login: {', '.join(report.login) or 'none'}"
    home = f"HOME {report.home}, {login}" if report.home is not None else "the user's HOME"
    return f"isolated: {home}; variables: {', '.join(report.variables)}"
