"""Indirect execution: commands whose words do not say what they do, or what the commands after them do.

A command is recognized by its name, or by an option or argument with which a common program runs another one; both are
data (`data/indirect_execution.toml`, which describes its own format). Plain arguments are left to the rules:
`python x.py` is as clear as `make`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final

import msgspec

from dragoman.host.shell.words import Word
from dragoman.host.shell.wrappers import InnerCommand, Unwrapped, load_table, program_name


class _Builtins(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    reason: str
    names: tuple[str, ...]


class _Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    long: tuple[str, ...] = ()
    short: str = ""


class _Computed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    names: frozenset[str]


class _Git(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    flags: frozenset[str]
    values: frozenset[str]
    queries: frozenset[str]
    runs: frozenset[str]
    reads: frozenset[str]
    short: dict[str, str]


class _Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    reasons: dict[str, str]
    builtins: tuple[_Builtins, ...]
    options: dict[str, _Options]
    computed: _Computed
    git: _Git


_GO_RUNS: Final = re.compile(r"-(?:exec|toolexec|vettool)(?:=|\Z)")
_MAKE_ASSIGNMENT: Final = re.compile(r"[^\s=]+=(?![0-9]*\Z)")
_SUBSTITUTION: Final = re.compile(r"`|\$\(|\[[^\]]*\$")


@lru_cache(maxsize=1)
def _table() -> _Table:
    return load_table("indirect_execution.toml", _Table)


@lru_cache(maxsize=1)
def _builtin_reasons() -> dict[str, str]:
    table = _table()
    return {name: table.reasons[builtins.reason] for builtins in table.builtins for name in builtins.names}


def indirect_execution(words: tuple[Word, ...]) -> str | None:
    """Return the reason why the words do not tell what the command does; None where they do."""
    first = words[0]
    if first.dynamic:
        return "which program runs is known only at run time"
    if reason := _unusual_name(first.text):
        return reason
    name = program_name(first.text)
    if name in _builtin_reasons():
        return f"{name}: {_builtin_reasons()[name]}"
    arguments = [word.text for word in words[1:]]
    if check := _CHECKS.get(name):
        return check(arguments)
    if name in _table().computed.names:
        return _substitution(arguments)
    return _running_option(name, arguments)


def _unusual_name(name: str) -> str | None:
    if not name or name.startswith(("-", "%", "=", "+", "!", "^")) or any(char.isspace() for char in name):
        return "its name is not that of a program"
    if not name.isascii():
        return "the name of the program has letters that look like others"
    return None


def _running_option(name: str, arguments: Sequence[str]) -> str | None:
    options = _table().options.get(name)
    if options is None:
        return None
    for index, text in enumerate(arguments):
        head = text.partition("=")[0]
        if text.startswith("--"):
            if len(head) > 3 and any(option.startswith(head) for option in options.long):
                return f"{name} runs another program with {head}"
            continue
        is_short = text.startswith("-") or (name == "tar" and index == 0)  # the first word of tar needs no dash
        if is_short and not set(options.short).isdisjoint(text.lstrip("-")):
            return f"{name} runs another program with {text}"
    return None


def _git(arguments: Sequence[str]) -> str | None:
    git = _table().git
    index = 0
    while index < len(arguments) and arguments[index].startswith("-"):
        option = arguments[index]
        head = option.partition("=")[0]
        if option in git.queries:
            return None
        if option not in git.flags and head not in git.values:
            return f"git may run another program with {head}"
        index += 2 if option in git.values else 1
    rest = arguments[index:]
    if not rest:
        return None
    command = rest[0]
    if command == "config" and not git.reads.isdisjoint(rest):
        return None
    if command in git.runs or [*rest[:2]] in (["bisect", "run"], ["submodule", "foreach"]):
        return f"git {command} may run another program, now or later"
    if any("ext::" in text or "fd::" in text for text in rest):
        return "git may run another program for this address"
    short = set(git.short.get(command, ""))
    for text in rest[1:]:
        if text.startswith("-") and not text.startswith("--") and not short.isdisjoint(text):
            return f"git {command} may run another program with {text}"
    return _running_option("git", rest[1:])


def git_without_options(words: tuple[Word, ...]) -> Unwrapped:
    """Return `git push` for `git -C dir push`, so that rules about `git push` find it."""
    index = 1
    while index < len(words) and words[index].text.startswith("-"):
        has_value = words[index].text in _table().git.values or words[index].text in ("-c", "--config-env", "--git-dir")
        index += 2 if has_value else 1
    if index == 1 or index >= len(words):
        return Unwrapped()
    return Unwrapped((InnerCommand(f"git {words[1].text}", (words[0], *words[index:])),))


def _make(arguments: Sequence[str]) -> str | None:
    if any(_MAKE_ASSIGNMENT.match(text) and not text.startswith("-") for text in arguments):
        return "make may run the value of a variable"
    return _running_option("make", arguments)


def _go(arguments: Sequence[str]) -> str | None:
    return "go runs another program" if any(_GO_RUNS.match(text.replace("--", "-", 1)) for text in arguments) else None


def _substitution(arguments: Sequence[str]) -> str | None:
    # Shells compute arguments that should be numbers or names, and run the substitutions in them, quoted or not.
    if any(_SUBSTITUTION.search(text) for text in arguments):
        return "the shell may run the substitution in an argument, even a quoted one"
    return None


def _printf(arguments: Sequence[str]) -> str | None:
    if any(text.startswith("-v") for text in arguments[:1]):
        return f"printf: {_table().reasons['sets']}"
    return _substitution(arguments)


def _print(arguments: Sequence[str]) -> str | None:
    if any(text.startswith("-") for text in arguments):
        return f"print: {_table().reasons['later']}"
    return _substitution(arguments)


def _wait(arguments: Sequence[str]) -> str | None:
    if any(text.startswith("-") and "p" in text for text in arguments):
        return f"wait: {_table().reasons['sets']}"
    return _substitution(arguments)


def _npx(arguments: Sequence[str]) -> str | None:
    runs_line = any(text.startswith(("-c", "--call", "--shell", "--node-")) for text in arguments)
    return "npx runs a line in a shell" if runs_line else None


_CHECKS: Final[dict[str, Callable[[Sequence[str]], str | None]]] = {
    "git": _git,
    "make": _make,
    "gmake": _make,
    "go": _go,
    "npx": _npx,
    "printf": _printf,
    "print": _print,
    "wait": _wait,
}
