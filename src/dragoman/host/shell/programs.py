"""Programs: what is known of the programs that commands name, as data (`programs.toml`, which describes its format)."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from functools import lru_cache
from importlib import resources
from typing import Literal

import msgspec


class Wrapper(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The options of one program; `programs.toml` explains each field."""

    flags: frozenset[str] = frozenset()
    values: frozenset[str] = frozenset()
    attached: frozenset[str] = frozenset()
    queries: frozenset[str] = frozenset()
    arguments: int = 0
    assignments: Literal["shell", "any"] | None = None
    numbers: bool = False
    command_optional: bool = False
    adds_arguments: bool = False
    changes: frozenset[str] = frozenset()


class _Programs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    runners: frozenset[str]
    shells: frozenset[str]
    other_shells: frozenset[str]
    shell_options: frozenset[str]


class _Builtins(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    reason: str
    names: tuple[str, ...]


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    programs: tuple[str, ...]
    runs: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    configs: tuple[str, ...] = ()
    lists: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    stops: bool = False


class _Arguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    reads: frozenset[str]
    texts: frozenset[str]


class _Computed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    names: frozenset[str]


class _Git(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    flags: frozenset[str]
    folders: frozenset[str]
    queries: frozenset[str]
    subcommands: frozenset[str]
    patches: frozenset[str]
    transports: frozenset[str]
    reads: dict[str, int]
    scopes: frozenset[str]
    words: dict[str, frozenset[str]]
    sources: dict[str, frozenset[str]]
    short: dict[str, str]


class Tables(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    wrappers: dict[str, Wrapper]
    programs: _Programs
    reasons: dict[str, str]
    builtins: tuple[_Builtins, ...]
    options: tuple[Options, ...]
    computed: _Computed
    arguments: _Arguments
    git: _Git


@lru_cache(maxsize=1)
def tables() -> Tables:
    """Return the tables, which are read at the first call."""
    text = (resources.files("dragoman.host.shell") / "programs.toml").read_text(encoding="utf-8")
    return msgspec.convert(tomllib.loads(text), Tables)


@lru_cache(maxsize=1)
def builtin_reasons() -> dict[str, str]:
    """Return the reasons why commands are unclear whatever their arguments, by name: `alias`, `go env`."""
    table = tables()
    return {name: table.reasons[builtins.reason] for builtins in table.builtins for name in builtins.names}


@lru_cache(maxsize=1)
def options_by_program() -> dict[str, Options]:
    """Return the options that make a program do more than its other words say, by its name."""
    return {name: options for options in tables().options for name in options.programs}


@lru_cache(maxsize=1)
def subcommands() -> dict[str, tuple[str, ...]]:
    """Return the wrappers and runners with a subcommand, by the name of their program; the longest first."""
    keys: dict[str, list[str]] = {}
    for key in sorted((*tables().wrappers, *tables().programs.runners), key=len, reverse=True):
        if " " in key:
            keys.setdefault(key.partition(" ")[0], []).append(key)
    return {name: tuple(each) for name, each in keys.items()}


def program_name(word: str) -> str:
    """Return the name of a program without its folder, in lower case, as some file systems ignore case."""
    return word.rpartition("/")[2].lower()


def use_of_files(words: Sequence[str]) -> Literal["none", "read", "any"]:
    """Tell what the command does with files that its arguments name: nothing, read them, or perhaps write them too."""
    name = program_name(words[0])
    arguments = tables().arguments
    if name in arguments.texts:
        return "none"
    return "read" if not {name, " ".join((name, *words[1:2]))}.isdisjoint(arguments.reads) else "any"
