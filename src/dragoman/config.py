"""The user's settings, read and checked as a whole.

There are five layers; a later one overrides the earlier ones: the built-in defaults, `config.toml` in the home folder,
settings made in the page or by `dragoman config set` (`settings.json` in the home folder), environment variables
(`DRAGOMAN_` and the setting's name in capitals), and options of the command line. The home folder is `DRAGOMAN_HOME`,
or `~/.dragoman`: one folder for everything, which can be inspected, moved and deleted as a whole. The first write
creates it (`make_home`), a read never does.

An invalid setting raises a `ConfigError` that names its source (file and line, variable or option), the value and what
is expected. An unknown key is an error too: a misspelt `acces = "read-only"` must not be ignored. Only commands that
work without the settings, such as those that correct them, go on: they are told of the error and leave the value out.

The tables `[agents.NAME]`, `[[policy]]`, `[guards]`, `[watch]` and `[worktrees]` are passed on as they are;
`agents/preset.py`, `host/policy/rules.py`, `host/policy/guards.py`, `translate/ingest/watcher.py` and
`workspace/worktree_store.py` check them. `folders` lists the folders in which a client of the server with the scope
`prompt` may open sessions; `sandbox_read` and `sandbox_write` those that a sandbox leaves open.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal, TypeAlias

import msgspec

from dragoman.document import Document, KeyPath, Table, kind, nearest, read_document, show
from dragoman.errors import ConfigError

Access: TypeAlias = Literal["read-only", "ask", "edit-inside", "full"]
SandboxChoice: TypeAlias = Literal["off", "auto", "bubblewrap", "landlock", "seatbelt"]
NetworkChoice: TypeAlias = bool | Literal["hosts"]

ACCESS: Final = ("read-only", "ask", "edit-inside", "full")
SANDBOX: Final = ("off", "auto", "bubblewrap", "landlock", "seatbelt")
ACCESS_ALIASES: Final = {"low": "read-only", "medium": "edit-inside", "high": "full"}
FOLDER_LISTS: Final = ("folders", "sandbox_read", "sandbox_write")
PREFIX: Final = "DRAGOMAN_"
HOME_VARIABLE: Final = "DRAGOMAN_HOME"
FILE_NAME: Final = "config.toml"
SETTINGS_FILE: Final = "settings.json"

# The journal stores the first 64 KiB of a line over the limit; a lower limit would truncate below that.
MIN_LINE_LIMIT_BYTES: Final = 64 * 1024

# More than this with every prompt would fill the context of most models within a conversation.
MAX_SKILLS_BUDGET_BYTES: Final = 1024 * 1024
MAX_INSTRUCTIONS_BYTES: Final = 16 * 1024

# How a skill goes with prompts: in full, as a line of the index, or not at all.
SkillState: TypeAlias = Literal["always", "listed", "off"]


class PageSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings made in the page. `agents` are tables like `[agents.NAME]` in `config.toml`, `skills` are the states of
    skills by the real paths of their files: a skill of the same name in another folder is another skill."""

    settings: dict[str, str | bool | int | float] = {}
    agents: dict[str, Table] = {}
    skills: dict[str, SkillState] = {}


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """The effective settings. Times are in seconds; None means no limit."""

    home: Path
    # Works with nothing installed, no network and no account.
    agent: str = "demo"
    access: Access = "ask"
    # Until `initialize` is answered. Installed agents need up to 2 s; the first start by `npx` downloads.
    start_timeout: float = 60.0
    # For each ordinary request. Twice the start's: `session/new` starts the session's MCP servers, which may download
    # in their turn, and `session/load` replays a whole history before it answers.
    request_timeout: float = 120.0
    # From `session/cancel` to the first signal: enough to stop tools and answer, while a person waits.
    cancel_timeout: float = 10.0
    # From the end of stdin to SIGTERM, and from there to SIGKILL: agents that react exit within a few hundred
    # milliseconds; the others were seen to stay for longer than 4 s, so waiting longer would gain nothing.
    close_timeout: float = 1.0
    # A run has no limit unless someone sets one: a fixed one would end live work.
    deadline: float | None = None
    idle_limit: float | None = None
    # In bytes. Agents have been seen to write lines of tens of MB (images, whole files).
    line_limit: int = 64 * 1024 * 1024
    # Store sessions in the journal. Without it no session can be found again or resumed.
    journal: bool = True
    # Record the workspace before and after each run, so that its changes can be shown and taken back.
    checkpoints: bool = True
    # In bytes. Larger files are in no checkpoint: they are mostly data, and each version would take as much again.
    checkpoint_file_limit: int = 64 * 1024 * 1024
    # Older checkpoints are removed, and the oldest ones of a folder that has more bytes of them.
    checkpoint_age: float = 30 * 86_400.0
    checkpoint_size: int = 4 * 1024**3
    # Give every agent a HOME, an environment, a worktree and a temporary folder of its own.
    isolation: bool = False
    # How long a permission request waits for an answer before it is denied. None: the user may be away for a while.
    permission_timeout: float | None = None
    # Relative ones are looked for in the workspace and in the user's home folder. "none": there are no skills.
    skills_folders: str = "skills, .agents/skills"
    # The same for prompt templates.
    prompts_folders: str = "prompts, .agents/prompts"
    # Bytes of all skills that go with a prompt: about 8,000 tokens.
    skills_budget: int = 32 * 1024
    # A text before each prompt. Off unless someone sets it: it costs tokens, and is no part of what the user types.
    custom_instructions: str | None = None
    skill_states: dict[str, SkillState] = {}
    # Whether agents are started in a sandbox, and by what.
    sandbox: SandboxChoice = "off"
    # The network in a sandbox, where a session does not say: open, off, or the hosts that rules allow.
    sandbox_network: NetworkChoice = True
    # Further folders that a sandbox may read, or read and write.
    sandbox_read: tuple[Path, ...] = ()
    sandbox_write: tuple[Path, ...] = ()
    agents: dict[str, Table] = {}
    policy: Table | list[Table] = {}
    guards: Table = {}
    watch: Table = {}
    worktrees: Table = {}
    # Beside those in which someone with the scope `admin` has opened a session.
    folders: tuple[Path, ...] = ()
    document: Document | None = None
    sources: dict[str, str] = {}  # of settings that the file does not set: the page's file, a variable or an option

    def where(self, setting: str) -> str | None:
        """Return the source of a setting: `file:line`, a variable or an option; None when it is the default."""
        if setting in self.sources:
            return self.sources[setting]
        return self.key_path(setting).where if self.document and setting in self.document.table else None

    def key_path(self, *keys: str | int) -> KeyPath:
        """Return the path of a value in `config.toml`, for errors about it."""
        return KeyPath(self.document or Document(str(self.home / FILE_NAME)), keys)


def home_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the path of the home folder, which may not exist yet."""
    if chosen := environ.get(HOME_VARIABLE):
        folder = Path(environ["HOME"], chosen[2:]) if chosen.startswith("~/") and "HOME" in environ else Path(chosen)
        if not folder.is_absolute():
            raise ConfigError(
                f'"{chosen}" is not an absolute path',
                where=HOME_VARIABLE,
                guidance="Write the absolute path: a relative one would mean another folder in each working directory.",
            )
        return folder
    try:
        return Path(environ["HOME"] if environ.get("HOME") else Path.home()) / ".dragoman"
    except RuntimeError:
        raise ConfigError(
            "the user has no home folder", where="HOME", guidance=f"Set {HOME_VARIABLE} to a folder of your own."
        ) from None


def make_home(folder: Path) -> Path:
    """Create the home folder where it is missing. Only its owner can read it: conversations with agents are private."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"the home folder cannot be created: {error.strerror}",
            where=str(folder),
            guidance=f"Create it yourself, or set {HOME_VARIABLE} to a folder that you can write to.",
        ) from None
    return folder


# Keys of `config.toml` that are no single settings.
_TABLES: Final = ("agents", "policy", "guards", "watch", "worktrees", *FOLDER_LISTS)

OnError: TypeAlias = Callable[[ConfigError], object]


def load(
    home: Path | None = None,
    environ: Mapping[str, str] = os.environ,
    flags: Mapping[str, object] | None = None,
    page: PageSettings | None = None,
    on_error: OnError | None = None,
) -> Config:
    """Read all layers. `flags` are options of the command line, by the name of their setting; None means not given.
    `page` replaces the settings of the page.

    The first invalid setting is raised; with `on_error`, each is handed to it and left out."""
    folder = home_folder(environ) if home is None else Path(home).absolute()
    document: Document | None = None
    values: dict[str, object] = {}
    sources: dict[str, str] = {}
    agents: dict[str, Table] = {}
    policy: Table | list[Table] = {}
    guards: Table = {}
    watch: Table = {}
    folders: dict[str, tuple[Path, ...]] = {}
    skill_states: dict[str, SkillState] = {}
    worktrees: Table = {}
    with _reporting(on_error):
        document = read_document(folder / FILE_NAME)
    if document is not None:
        top = KeyPath(document)
        for key, value in document.table.items():
            with _reporting(on_error):
                if key == "agents":
                    agents = _agent_tables(top / key, value)
                elif key == "policy":
                    policy = _policy_tables(top / key, value)
                elif key == "guards":
                    guards = _table(top / key, key, value)
                elif key == "watch":
                    watch = _table(top / key, key, value)
                elif key == "worktrees":
                    worktrees = _table(top / key, key, value)
                elif key in FOLDER_LISTS:
                    folders[key] = _folders(top / key, key, value, environ)
                elif key in SETTINGS:
                    values[key] = _read_setting(top / key, key, value, "Correct it: dragoman config edit")
                else:
                    raise (top / key).unknown(key, (*SETTINGS, *_TABLES))
    page_file = folder / SETTINGS_FILE
    page_settings = page
    if page_settings is None:
        with _reporting(on_error):
            page_settings = _page_settings(page_file)
    if page_settings is not None:
        skill_states = page_settings.skills
        for key, chosen in page_settings.settings.items():
            with _reporting(on_error):
                if key not in SETTINGS:
                    raise KeyPath(Document(str(page_file))).unknown(key, tuple(SETTINGS))
                help_line = f"Set it again, or remove it: dragoman config unset {key}"
                values[key] = _read_setting(KeyPath(Document(str(page_file))), key, chosen, help_line)
                sources[key] = str(page_file)
        agents = {**agents, **{name: {**agents.get(name, {}), **table} for name, table in page_settings.agents.items()}}
    for variable, text in environ.items():
        with _reporting(on_error):
            if setting := _setting_of_variable(variable, text):
                values[setting] = _read_setting(KeyPath(Document(variable)), setting, text)
                sources[setting] = variable
    for key, value in (flags or {}).items():
        if value is None:
            continue
        option = "--" + key.replace("_", "-")
        with _reporting(on_error):
            if key not in SETTINGS:
                raise KeyPath(Document(option)).unknown(key, tuple(SETTINGS))
            values[key] = _read_setting(KeyPath(Document(option)), key, value)
            sources[key] = option
    defaults = Config(
        home=folder,
        agents=agents,
        policy=policy,
        guards=guards,
        watch=watch,
        skill_states=skill_states,
        worktrees=worktrees,
        document=document,
        sources=sources,
    )
    return msgspec.structs.replace(defaults, **folders, **values)


@contextmanager
def _reporting(on_error: OnError | None) -> Iterator[None]:
    """Hand a `ConfigError` to `on_error`, if there is one."""
    try:
        yield
    except ConfigError as error:
        if on_error is None:
            raise
        on_error(error)


def _page_settings(path: Path) -> PageSettings | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=PageSettings)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError(f"the file cannot be read: {error.strerror}", where=str(path)) from None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(
            f"this is not what Dragoman writes there: {error}", where=str(path), guidance="Correct it, or delete it."
        ) from None


def _agent_tables(path: KeyPath, value: object) -> dict[str, Table]:
    if not isinstance(value, dict):
        raise path.wrong("agents", kind(value), "tables, each written as [agents.NAME]")
    for name, table in value.items():
        if not isinstance(table, dict):
            raise (path / name).wrong(f"agents.{name}", kind(table), f"a table, written as [agents.{name}]")
    return value


def _policy_tables(path: KeyPath, value: object) -> Table | list[Table]:
    if isinstance(value, dict):
        return value
    if not isinstance(value, list) or not all(isinstance(rule, dict) for rule in value):
        raise path.wrong("policy", kind(value), "rules, each a table written as [[policy]]")
    return value


def _table(path: KeyPath, name: str, value: object) -> Table:
    if not isinstance(value, dict):
        raise path.wrong(name, kind(value), f"a table, written as [{name}]")
    return value


def _folders(path: KeyPath, name: str, value: object, environ: Mapping[str, str]) -> tuple[Path, ...]:
    expected = 'a list of absolute paths, such as ["~/projects"]'
    if not isinstance(value, list):
        raise path.wrong(name, kind(value), expected)
    folders = []
    for index, text in enumerate(value):
        if not isinstance(text, str):
            raise (path / index).wrong(name, kind(text), expected)
        in_home = text == "~" or text.startswith("~/")
        folder = Path(environ.get("HOME") or Path.home(), text[2:]) if in_home else Path(text)
        if not folder.is_absolute():
            raise (path / index).wrong(name, show(text), expected)
        folders.append(folder)
    return tuple(folders)


def _setting_of_variable(variable: str, text: str) -> str | None:
    """Return the setting that a variable sets. An empty variable sets nothing, as usual.

    Only names that look misspelt are refused: other variables with our prefix have other uses (process markers).
    """
    if not variable.startswith(PREFIX) or variable == HOME_VARIABLE or not text:
        return None
    key = variable.removeprefix(PREFIX).lower()
    if key in SETTINGS:
        return key
    if near := nearest(key, (*SETTINGS, "home"), likeness=0.8):
        raise ConfigError(f"no such setting; did you mean {PREFIX}{near.upper()}?", where=variable)
    return None


# Single settings.


class Setting(msgspec.Struct, frozen=True):
    """A setting: `read` converts its text or TOML value, and raises `ValueError` for an invalid one."""

    read: Callable[[object], object]
    expected: str
    choices: tuple[str, ...] = ()


def _read_setting(path: KeyPath, key: str, value: object, guidance: str = "") -> object:
    setting = SETTINGS[key]
    try:
        return setting.read(value)
    except ValueError:
        near = nearest(value, setting.choices) if isinstance(value, str) else None
        hint = f' (did you mean "{near}"?)' if near else ""
        error = path.wrong(key, show(value), setting.expected + hint)
        error.guidance = guidance
        raise error from None


def _name(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError
    return value.strip()


def read_access(value: object) -> Access:
    """Read one of `ACCESS` by its name or alias. Raises `ValueError` for anything else."""
    name = ACCESS_ALIASES.get(value, value) if isinstance(value, str) else value
    if name not in ACCESS:
        raise ValueError(f"not an access: {value}")
    return name


def read_sandbox(value: object) -> SandboxChoice:
    """Read one of `SANDBOX`, or a switch. Raises `ValueError` for anything else."""
    if value in SANDBOX:
        return value
    return "auto" if _switch(value) else "off"


def read_network(value: object) -> NetworkChoice:
    """Read on, off or hosts. Raises `ValueError` for anything else."""
    return "hosts" if value == "hosts" else _switch(value)


def _limit(value: object) -> float:
    seconds = parse_duration(value)
    if seconds <= 0:
        raise ValueError
    return seconds


def _optional_limit(value: object) -> float | None:
    return None if value in ("none", "off") else _limit(value)


def _switch(value: object) -> bool:
    if value in ("on", "true", "yes", "1", True):
        return True
    if value in ("off", "false", "no", "0", False):
        return False
    raise ValueError


def _size(value: object) -> int:
    size = _bytes(value)
    if size < MIN_LINE_LIMIT_BYTES:
        raise ValueError
    return size


def _bytes(value: object) -> int:
    """Return a number of bytes, or -1."""
    if isinstance(value, str) and (match := re.fullmatch(r"(\d+) ?(|KiB|MiB|GiB)", value.strip())):
        value = int(match[1]) * 1024 ** ("", "KiB", "MiB", "GiB").index(match[2])
    return value if isinstance(value, int) and not isinstance(value, bool) else -1


def _budget(value: object) -> int:
    size = _bytes(value)
    if not 0 < size <= MAX_SKILLS_BUDGET_BYTES:
        raise ValueError
    return size


def _folder_list(value: object) -> str:
    """Read a list of folders, or a text with commas between them. Relative ones must not lead upwards."""
    names = value.split(",") if isinstance(value, str) else value
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError
    folders = [name.strip() for name in names if name.strip()]
    if not folders or folders in (["none"], ["off"]):
        return "none"
    if any(".." in folder.split("/") or not folder.isprintable() or folder.strip("./") == "" for folder in folders):
        raise ValueError
    return ", ".join(folders)


def _instructions(value: object) -> str | None:
    if value in ("none", "off"):
        return None
    if not isinstance(value, str) or not value.strip() or len(value.encode()) > MAX_INSTRUCTIONS_BYTES:
        raise ValueError
    return value.strip()


_BYTES: Final = 'a number of bytes, or a text such as "64MiB", of at least 64 KiB'
_DURATION: Final = 'a duration: seconds, or a text such as "90s", "5m" or "1h30m"'
_FOLDER_LIST: Final = 'folders with commas between them, such as "skills, .claude/skills", or "none"'
_LIMIT: Final = Setting(_limit, _DURATION + ", more than zero")
_GRACE: Final = Setting(lambda value: parse_duration(value), _DURATION)
_OPTIONAL_LIMIT: Final = Setting(_optional_limit, _DURATION + ', more than zero, or "none"')

SETTINGS: Final[dict[str, Setting]] = {
    "agent": Setting(_name, "the name of an agent, as `dragoman agents` lists them"),
    "access": Setting(
        read_access, "read-only (low), ask, edit-inside (medium) or full (high)", (*ACCESS, *ACCESS_ALIASES)
    ),
    "sandbox": Setting(read_sandbox, "off, auto (or on), bubblewrap, landlock or seatbelt", (*SANDBOX, "on")),
    "sandbox_network": Setting(read_network, "on, off or hosts", ("on", "off", "hosts")),
    "start_timeout": _LIMIT,
    "request_timeout": _LIMIT,
    "cancel_timeout": _GRACE,
    "close_timeout": _GRACE,
    "deadline": _OPTIONAL_LIMIT,
    "idle_limit": _OPTIONAL_LIMIT,
    "permission_timeout": _OPTIONAL_LIMIT,
    "journal": Setting(_switch, "on or off", ("on", "off")),
    "checkpoints": Setting(_switch, "on or off", ("on", "off")),
    "checkpoint_file_limit": Setting(_size, _BYTES),
    "checkpoint_age": _LIMIT,
    "checkpoint_size": Setting(_size, _BYTES),
    "isolation": Setting(_switch, "on or off", ("on", "off")),
    "line_limit": Setting(_size, _BYTES),
    "skills_folders": Setting(_folder_list, _FOLDER_LIST),
    "skills_budget": Setting(_budget, 'a number of bytes, or a text such as "32KiB", of at most 1 MiB'),
    "prompts_folders": Setting(_folder_list, _FOLDER_LIST),
    "custom_instructions": Setting(_instructions, 'a text of at most 16 KiB, or "none"'),
}


_UNITS: Final = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1}
_DURATION_PARTS: Final = re.compile("".join(rf"(?:([0-9]+(?:\.[0-9]+)?){unit})?" for unit in _UNITS))


def parse_duration(value: object) -> float:
    """Read seconds from a number or a text ("90", "90s", "5m", "1h30m", "250ms"). Raises `ValueError` otherwise."""
    try:
        if isinstance(value, str):
            seconds = _seconds_of(value.strip().lower().replace(" ", ""))
        elif isinstance(value, int | float) and not isinstance(value, bool):
            seconds = float(value)
        else:
            seconds = math.nan
    except OverflowError:
        seconds = math.inf
    if not math.isfinite(seconds) or seconds < 0:
        raise ValueError(f"not a duration: {value}")
    return seconds


def _seconds_of(text: str) -> float:
    from decimal import (
        Decimal,  # exact: 0.029 s must not become 0.029000000000000001; loaded here because few settings need it
    )

    match = _DURATION_PARTS.fullmatch(f"{text}s" if text[-1:].isdigit() else text)
    if not text or not match:
        return math.nan
    parts = zip(match.groups(), _UNITS.values(), strict=True)
    return float(sum(Decimal(number) * unit for number, unit in parts if number) / 1000)


def format_duration(seconds: float) -> str:
    """Format seconds for people, to the millisecond: 5400.0 is "1h30m"."""
    milliseconds = round(seconds * 1000)
    text = ""
    for unit, size in _UNITS.items():
        count, milliseconds = divmod(milliseconds, size)
        text += f"{count}{unit}" if count else ""
    return text or "0s"
