"""Presets: how to start the agents we know, as data.

Each built-in preset is a file in `presets/`, named for its id. The user's tables `[agents.NAME]` in `config.toml` use
the same fields: a table with the id of a preset changes the fields it names and leaves the others (`env` and `fs`
variable by variable); one with another id adds an agent, and must have `command`. All fields, all optional but where
said:

    name = "My agent"                     # shown to people; default: the id
    description = "One line about it"
    command = "my-agent"                  # the program, a name or a path; required. "{python}" is our own interpreter
    args = ["acp"]                        # its arguments; here too "{python}" may stand as a whole word
    alternatives = [["npx", "-y", "my-agent", "acp"]]   # whole command lines, tried in order where `command` is missing
    needs = ["node"]                      # other programs that must be there for it to work
    env = { MY_AGENT_COLOR = "never" }    # variables to set for it
    env_prefix = ["MY_AGENT_"]            # beginnings of the names of variables that are this agent's own: their values
                                          #   are kept out of what we store
    config_env_var = "MY_AGENT_CONFIG"    # the variable in which it takes a whole configuration, as JSON
    install = "npm install -g my-agent"   # one line to paste
    note = "Needs Node 22 or later."      # one line on what else must be so
    version = ["{command}", "--version"]  # how to ask its version: "{command}" is the program found; empty: not asked
    website = "https://example.com"
    fs = { read = true, write = true }    # whether we offer it file access through us; default: both
    terminal = true                       # whether we offer it terminals; default: true
    shared = false                        # whether one process serves all its sessions in a folder, on a server
    files_through_us = true               # whether its own tools write files only through us, where we offer it: what
                                          #   it asks without a path is then decided with the write; default: false
    lists_tools = true                    # whether it asks MCP servers for their tools when a session opens, so that
                                          #   the first prompt can wait for that; default: false
    auth = [{ env = "MY_AGENT_KEY", method = "api-key" }]   # log in by this method first where the variable is set
    asks_in = { mode = ["default"] }      # values of its mode, and of other options, in which it asks before it acts: a
                                          #   client of the server chooses any other with the scope `admin` only
    tool_names = { title = ["{server}: {tool}"] }   # how its permission requests name the tool of an MCP server: the
                                          #   forms by field of the tool call, `_meta` included ("_meta.toolName")
    tool_kinds = { write = "edit" }       # the kinds of its own tools, by name, where it asks without a kind
    sandbox = { state = ["~/.my-agent/"], hosts = ["api.example.com", "$MY_AGENT_URL"], env = { TMP = "{tmp}" } }
                                          # in a sandbox: its own files and folders (with a slash at the end), which it
                                          #   may write; the hosts of its model, reachable with the network off; and
                                          #   variables, such as one that turns off a sandbox of its own
    isolation = { login = ["$MY_AGENT_HOME/login.json"], variables = { MY_AGENT_HOME = "~/.my-agent" } }
                                          # isolated: the files of its login, which it gets; the variables that name its
                                          #   folders, with their defaults; `environment`, the variables of its keys and
                                          #   of its model's address ("*" stands for any characters); `settings`, keys
                                          #   of its settings without which the login is not used, by file
    quirks = [{ id = "slow-exit", versions = ["1.2.0"], note = "Does not leave at the end of stdin." }]

Changing `command` alone drops the preset's `alternatives`: who names a program wants that one, not a download.
`quirks` name what was seen of an agent in a version and is not as the protocol has it; they are for people and for
tests, which pin them by recordings.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Final, Literal, TypeAlias, TypeVar, get_args

import msgspec
from msgspec import Struct

from dragoman.config import Config, OnError
from dragoman.document import Document, KeyPath, Table, kind, nearest, parse_document
from dragoman.errors import ConfigError, InputError
from dragoman.fileio import LockedJsonFile
from dragoman.workspace.isolation import IsolationNeeds, is_path
from dragoman.workspace.sandbox_policy import SandboxNeeds

SECRETS_FILE: Final = "secrets"


class _Secrets(msgspec.Struct, frozen=True):
    """Variables by agent."""

    agents: dict[str, dict[str, str]] = {}


class Keys:
    """The keys of agents that the user gave to Dragoman: in one file of the home folder (0600), and nowhere else.

    They reach the agent as variables of its environment. They can be set and forgotten, and are never shown.
    """

    def __init__(self, home: Path) -> None:
        self._file = LockedJsonFile(home / SECRETS_FILE, _Secrets())

    def of(self, agent: str) -> dict[str, str]:
        """Return the variables that the agent gets."""
        return dict(self._file.read().agents.get(agent, {}))

    def names(self, agent: str) -> tuple[str, ...]:
        return tuple(self.of(agent))

    def set(self, agent: str, variable: str, value: str) -> None:
        def with_key(secrets: _Secrets) -> _Secrets:
            return _Secrets({**secrets.agents, agent: {**secrets.agents.get(agent, {}), variable: value}})

        self._file.change(with_key)

    def forget(self, agent: str) -> None:
        self._file.change(
            lambda secrets: _Secrets({name: keys for name, keys in secrets.agents.items() if name != agent})
        )


T = TypeVar("T")

# Characters of an unknown name in an error.
MAX_SHOWN_NAME: Final = 100

# Ids are typed after `-a` and stand in file names.
_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class Quirk(Struct, frozen=True):
    """Something that an agent does its own way, with the versions it was seen in."""

    id: str
    versions: tuple[str, ...]
    note: str


class Auth(Struct, frozen=True):
    """Call `authenticate` with `method` before the first session if the variable `env` is set."""

    env: str
    method: str


class Fs(Struct, frozen=True):
    """Which file requests we offer to answer."""

    read: bool = True
    write: bool = True


ToolKindName: TypeAlias = Literal["read", "edit", "delete", "move", "search", "execute", "think", "fetch"]


class Preset(Struct, frozen=True, kw_only=True):
    """One agent that can be started by its id. The fields are described at the head of this module."""

    id: str
    command: str
    name: str = ""
    description: str = ""
    args: tuple[str, ...] = ()
    alternatives: tuple[tuple[str, ...], ...] = ()
    needs: tuple[str, ...] = ()
    env: dict[str, str] = {}
    env_prefix: tuple[str, ...] = ()
    config_env_var: str = ""
    install: str = ""
    note: str = ""
    version: tuple[str, ...] = ()
    website: str = ""
    fs: Fs = Fs()
    terminal: bool = True
    shared: bool = False
    files_through_us: bool = False
    lists_tools: bool = False
    auth: tuple[Auth, ...] = ()
    asks_in: dict[str, tuple[str, ...]] = {}
    tool_names: dict[str, tuple[str, ...]] = {}
    tool_kinds: dict[str, ToolKindName] = {}
    sandbox: SandboxNeeds = SandboxNeeds()
    isolation: IsolationNeeds = IsolationNeeds()
    quirks: tuple[Quirk, ...] = ()

    @property
    def command_lines(self) -> tuple[tuple[str, ...], ...]:
        """The ways to start it, best first."""
        return ((self.command, *self.args), *self.alternatives)

    def auth_method(self, environ: Mapping[str, str]) -> str | None:
        """Return the method to log in with before the first session, where its variable is set."""
        known = {**environ, **self.env}
        return next((auth.method for auth in self.auth if known.get(auth.env)), None)

    def owns(self, variable: str) -> bool:
        """Return whether an environment variable belongs to this agent."""
        return variable in self.env or variable == self.config_env_var or variable.startswith(self.env_prefix)


def load_presets(config: Config, on_error: OnError | None = None) -> dict[str, Preset]:
    """Return all agents by id: the built-in ones as the user has changed them, then the user's own.

    The first invalid table is raised; with `on_error`, each is handed to it, and its agent left out.
    """
    presets = {}
    for id in (*built_in(), *(id for id in config.agents if id not in built_in())):
        try:
            presets[id] = load_preset(id, config)
        except ConfigError as error:
            if on_error is None:
                raise
            on_error(error)
    return presets


def load_preset(id: str, config: Config) -> Preset:
    """Return one agent, reading no more than needed. `InputError` names similar ids."""
    if id not in config.agents:
        preset = _built_in(id) if id in built_in() else get(id, load_presets(config))
    else:
        base = _built_in(id) if id in built_in() else None
        preset = read_preset(id, config.agents[id], config.key_path("agents", id), base)
    keys = Keys(config.home).of(preset.id)
    return msgspec.structs.replace(preset, env={**preset.env, **keys}) if keys else preset


def get(name: str, presets: Mapping[str, Preset]) -> Preset:
    """Return the agent of that name. `InputError` names similar ones, and how to list all."""
    if preset := presets.get(name) or presets.get(name.lower()):
        return preset
    near = nearest(name, presets)
    raise InputError(
        f'there is no agent "{name[:MAX_SHOWN_NAME]}"' + (f'; did you mean "{near}"?' if near else ""),
        guidance=f"`dragoman agents` lists them. A table [agents.{name[:MAX_SHOWN_NAME]}] in config.toml adds one; "
        "--agent-command runs any command line.",
    )


@cache
def built_in() -> tuple[str, ...]:
    """Return the ids of the built-in presets, in alphabetical order."""
    folder = resources.files("dragoman.agents") / "presets"
    return tuple(sorted(file.name.removesuffix(".toml") for file in folder.iterdir() if file.name.endswith(".toml")))


@cache
def _built_in(id: str) -> Preset:
    file = resources.files("dragoman.agents") / "presets" / f"{id}.toml"
    document = parse_document(str(file), file.read_bytes())
    return read_preset(id, document.table, KeyPath(document))


def read_preset(id: str, table: Table, place: KeyPath, base: Preset | None = None) -> Preset:
    """Read the preset that a table describes, on top of `base` where there is one. `ConfigError` has file and line."""
    if not _ID.fullmatch(id):
        raise ConfigError(
            f'"{id}" cannot be the name of an agent; expected letters, digits, ".", "_" and "-"', where=place.where
        )
    fields: dict[str, object] = {}
    for key, value in table.items():
        if key not in _FIELDS:
            raise (place / key).unknown(key, tuple(_FIELDS))
        fields[key] = _FIELDS[key](place / key, value)
    if base is None:
        if "command" not in fields:
            raise ConfigError(
                f'the agent "{id}" has no command', where=place.where, guidance='Add command = "…" to its table.'
            )
        return msgspec.structs.replace(Preset(id=id, name=id, command=""), **fields)
    if "command" in fields:
        fields.setdefault("alternatives", ())
        fields.setdefault("install", "")  # it installs another program
    if isinstance(env := fields.get("env"), dict):
        fields["env"] = {**base.env, **env}
    if "fs" in table:
        fields["fs"] = _fs(place / "fs", table["fs"], base.fs)
    return msgspec.structs.replace(base, **fields)


def import_agent_servers(text: str | bytes, name: str = "agent_servers") -> dict[str, Preset]:
    """Read agents in the format of editors: `{"agent_servers": {NAME: {command, args, env}}}`, or the inner object.

    Other keys are the editor's own. Entries of a `type` that have no command (an editor's registry or extensions) are
    left out: only that editor can start them. `name` says in errors where the text is from.
    """
    try:
        servers = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"this is not JSON: {error}", where=name, guidance="Comments are not allowed in it."
        ) from None
    place = KeyPath(Document(name))
    if isinstance(servers, dict) and "agent_servers" in servers:
        servers = servers["agent_servers"]
    presets: dict[str, Preset] = {}
    for title, server in _table(place, servers).items():
        entry = _table(place / title, server)
        if "command" not in entry and "type" in entry:
            continue
        id = re.sub(r"[^a-z0-9._-]+", "-", title.lower()).strip("-._")
        if id in presets:
            raise ConfigError(f'"{title}" and "{presets[id].name}" would both be the agent "{id}"', where=name)
        table = {key: entry[key] for key in ("command", "args", "env") if entry.get(key) is not None}
        presets[id] = read_preset(id, {"name": title, **table}, place / title)
    return presets


# Readers of fields. Errors name a value's kind and never the value: keys and tokens stand in env and in arguments.


def _wrong(place: KeyPath, value: object, expected: str) -> ConfigError:
    path = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in place.keys).lstrip(".")
    return place.wrong(path or "the whole", kind(value), expected)


def _text(place: KeyPath, value: object) -> str:
    if not isinstance(value, str):
        raise _wrong(place, value, "a string")
    return value


def _command(place: KeyPath, value: object) -> str:
    if not isinstance(value, str):
        raise _wrong(place, value, "a string, the program alone; its arguments go into args")
    if not value.strip():
        raise place.wrong("command", "empty", "the name or path of a program")
    return _expanded(value)


def _texts(place: KeyPath, value: object) -> tuple[str, ...]:
    return _each(place, value, _text, "an array of strings")


def _words(place: KeyPath, value: object) -> tuple[str, ...]:
    return tuple(_expanded(word) for word in _texts(place, value))


def _prefixes(place: KeyPath, value: object) -> tuple[str, ...]:
    prefixes = (value,) if isinstance(value, str) else _texts(place, value)
    if not all(prefixes):  # an empty one would make every variable the agent's own
        raise place.wrong("env_prefix", "empty", "the beginning of a variable's name")
    return prefixes


def _command_line(place: KeyPath, value: object) -> tuple[str, ...]:
    words = _words(place, value)
    if not words or not words[0].strip():
        raise _wrong(place, value, "a command line, with the program first")
    return words


def _alternatives(place: KeyPath, value: object) -> tuple[tuple[str, ...], ...]:
    return _each(place, value, _command_line, "an array of command lines, each an array of strings")


def _env(place: KeyPath, value: object) -> dict[str, str]:
    env = {}
    for variable, text in _table(place, value).items():
        if not variable or "=" in variable or "\0" in variable:
            raise ConfigError(f'"{variable}" cannot be the name of a variable', where=(place / variable).where)
        env[variable] = _text(place / variable, text)
    return env


def _flag(place: KeyPath, value: object) -> bool:
    if not isinstance(value, bool):
        raise _wrong(place, value, "true or false")
    return value


def _fs(place: KeyPath, value: object, base: Fs | None = None) -> Fs:
    fields = {key: _flag(place / key, flag) for key, flag in _table(place, value, ("read", "write")).items()}
    return msgspec.structs.replace(base or Fs(), **fields)


def _auth(place: KeyPath, value: object) -> Auth:
    table = _table(place, value, ("env", "method"), required=True)
    return Auth(_text(place / "env", table["env"]), _text(place / "method", table["method"]))


# Fields of the tool call in a permission request; the title may be another one than that of the `tool_call` before it.
_NAME_FIELDS: Final = ("name", "title", "toolCallId", "tool_call.title")


def _tool_names(place: KeyPath, value: object) -> dict[str, tuple[str, ...]]:
    names = {field: _texts(place / field, forms) for field, forms in _table(place, value).items()}
    for field, forms in names.items():
        if field not in _NAME_FIELDS and not field.startswith("_meta."):
            raise (place / field).unknown(field, (*_NAME_FIELDS, "_meta.…"))
        # Any tool would be taken for one of the server's; a title alone counts only beside what came before it.
        is_bare_allowed = field == "title" and "tool_call.title" in names
        if not is_bare_allowed and not all("{server}" in form for form in forms):
            raise place.wrong(field, "without {server}", 'a form such as "mcp__{server}__{tool}"')
    return names


def _tool_kinds(place: KeyPath, value: object) -> dict[str, str]:
    return {tool: _one_of(place / tool, kind, get_args(ToolKindName)) for tool, kind in _table(place, value).items()}


def _one_of(place: KeyPath, value: object, choices: tuple[str, ...]) -> str:
    if not isinstance(value, str) or value not in choices:
        raise _wrong(place, value, f"one of {', '.join(choices)}")
    return value


def _isolation(place: KeyPath, value: object) -> IsolationNeeds:
    table = _table(place, value, ("login", "settings", "variables", "environment"))
    variables = _env(place / "variables", table.get("variables", {}))
    for name, default in variables.items():
        if default != "~" and not is_path(default, ()):
            raise (place / "variables" / name).wrong(name, default, 'a path below HOME, such as "~/.my-agent"')
    settings_place = place / "settings"
    settings = {
        path: _texts(settings_place / path, keys)
        for path, keys in _table(settings_place, table.get("settings", {})).items()
    }
    login = _texts(place / "login", table.get("login", []))
    for path in (*login, *settings):
        if not is_path(path, variables):
            raise place.wrong(path, "elsewhere", "a path that begins with ~/, {config}/, or $NAME/ of `variables`")
    return IsolationNeeds(
        login=login,
        settings=settings,
        variables=variables,
        environment=_texts(place / "environment", table.get("environment", [])),
    )


def _quirk(place: KeyPath, value: object) -> Quirk:
    table = _table(place, value, ("id", "versions", "note"), required=True)
    return Quirk(
        _text(place / "id", table["id"]),
        _texts(place / "versions", table["versions"]),
        _text(place / "note", table["note"]),
    )


def _each(place: KeyPath, value: object, read: Callable[[KeyPath, object], T], expected: str) -> tuple[T, ...]:
    if not isinstance(value, list):
        raise _wrong(place, value, expected)
    return tuple(read(place / index, item) for index, item in enumerate(value))


def _table(place: KeyPath, value: object, known: tuple[str, ...] = (), *, required: bool = False) -> Table:
    if not isinstance(value, dict):
        raise _wrong(place, value, f"a table with {' and '.join(known)}" if known else "a table")
    for key in value:
        if known and key not in known:
            raise (place / key).unknown(key, known)
    if required and (missing := [key for key in known if key not in value]):
        raise ConfigError(f"{' and '.join(missing)} missing here", where=place.where)
    return value


def _sandbox(place: KeyPath, value: object) -> SandboxNeeds:
    table = _table(place, value, ("state", "hosts", "env"))
    return SandboxNeeds(
        state=_texts(place / "state", table.get("state", [])),
        hosts=_texts(place / "hosts", table.get("hosts", [])),
        env=_env(place / "env", table.get("env", {})),
    )


def _expanded(word: str) -> str:
    # Only as a whole word: braces are common in arguments that carry JSON.
    return (sys.executable or "python3") if word == "{python}" else word


_FIELDS: Final[dict[str, Callable[[KeyPath, object], object]]] = {
    "name": _text,
    "description": _text,
    "command": _command,
    "args": _words,
    "alternatives": _alternatives,
    "needs": _texts,
    "env": _env,
    "env_prefix": _prefixes,
    "config_env_var": _text,
    "install": _text,
    "note": _text,
    "version": _words,
    "website": _text,
    "fs": _fs,
    "terminal": _flag,
    "shared": _flag,
    "files_through_us": _flag,
    "lists_tools": _flag,
    "tool_names": _tool_names,
    "tool_kinds": _tool_kinds,
    "auth": lambda place, value: _each(place, value, _auth, "an array of tables with env and method"),
    "asks_in": lambda place, value: {key: _texts(place / key, item) for key, item in _table(place, value).items()},
    "sandbox": lambda place, value: _sandbox(place, value),
    "isolation": _isolation,
    "quirks": lambda place, value: _each(place, value, _quirk, "an array of tables with id, versions and note"),
}
